"""Pictures of adaptive data analysis are written, and refuse what does not fit together."""

import pytest

from dodona.errors import InvalidArgument
from dodona.lab.adaptive.answer import make_estimate
from dodona.lab.adaptive.certificate import Route
from dodona.lab.adaptive.picture import draw_answerable, draw_reuse


def test_a_reused_holdout_is_drawn(tmp_path):
    scores = [make_estimate(value, within=0.1, confidence=0.95, source="train") for value in (0.6, 0.95)]
    draw_reuse(tmp_path / "reuse.png", sizes=[1, 10], estimates=scores, others={"naive": [0.6, 0.7]})
    assert (tmp_path / "reuse.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InvalidArgument):
        draw_reuse(tmp_path / "reuse.png", sizes=[1], estimates=scores, others={})


def test_numbers_of_questions_are_drawn(tmp_path):
    routes = [Route.SPLITTING, Route.ROUNDING, Route.GAUSSIAN]
    draw_answerable(tmp_path / "questions.svg", rows=[50, 1000], within=0.1, routes=routes)
    text = (tmp_path / "questions.svg").read_text(encoding="utf-8")
    assert "<svg" in text
