"""The pictures in the documentation are of views that exist, and can be taken."""

import pytest

from tests.page.screenshots import IMAGES, LARGEST, VIEWS, is_drawn, take


def test_every_picture_is_in_the_documentation_and_shows_something():
    for name in VIEWS:
        kept = IMAGES / f"page-{name}.png"
        assert kept.stat().st_size <= LARGEST
        assert is_drawn(kept)
        assert f"images/{kept.name}" in (IMAGES.parent / "page.md").read_text(encoding="utf-8")


@pytest.mark.soak  # other tests open the same views
def test_every_picture_can_be_taken(chromium, server, tmp_path):
    take(chromium, server, tmp_path)
    for name in VIEWS:
        assert is_drawn(tmp_path / f"page-{name}.png")
