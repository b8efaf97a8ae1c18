"""What a person keeps on the page: for that person alone, within limits."""

import pytest

from dodona.errors import DodonaError
from dodona.server.accounts import Accounts
from dodona.server.saved import LARGEST_CONTENT, NothingSaved, SavedItems, TooMuchSaved


@pytest.fixture
def accounts(tmp_path):
    with Accounts.create(tmp_path / "accounts.sqlite") as store:
        store.add("ada")
        store.add("ben")
        yield store


def test_what_is_saved_is_found_replaced_and_removed(accounts):
    notes = SavedItems(accounts, "ada", "stays", "notes")
    notes.put("r1", {"text": "first"})
    notes.put("r1", {"text": "second <b>"})
    notes.put("r0", {"text": "other"})
    assert [(note.name, note.content) for note in notes.list()] == [
        ("r0", {"text": "other"}),
        ("r1", {"text": "second <b>"}),
    ]
    assert notes.get("r1").content == {"text": "second <b>"}
    notes.delete("r1")
    for gone in (notes.get, notes.delete):
        with pytest.raises(NothingSaved):
            gone("r1")


@pytest.mark.parametrize(
    ("account", "dataset", "kind"),
    [("ben", "stays", "notes"), ("ada", "visits", "notes"), ("ada", "stays", "dashboards")],
)
def test_nobody_and_nothing_else_sees_it(accounts, account, dataset, kind):
    SavedItems(accounts, "ada", "stays", "notes").put("r1", {"text": "mine"})
    assert SavedItems(accounts, account, dataset, kind).list() == ()


@pytest.mark.parametrize(
    ("name", "content"),
    [("a\nb", {}), (" ", {}), ("a", {"text": "x" * LARGEST_CONTENT}), ("a", {"text": "a\x00b"})],
)
def test_what_cannot_be_kept_is_refused(accounts, name, content):
    notes = SavedItems(accounts, "ada", "stays", "notes")
    with pytest.raises(DodonaError):
        notes.put(name, content)
    assert notes.list() == ()


def test_there_is_a_most_and_what_the_page_writes_by_itself_makes_room(accounts):
    notes, asked = (SavedItems(accounts, "ada", "stays", kind, most=3) for kind in ("notes", "asked"))
    for number in range(3):
        notes.put(f"n{number}", {})
        asked.put(f"n{number}", {})
    with pytest.raises(TooMuchSaved):
        notes.put("n3", {})
    notes.put("n2", {"text": "replacing is no growth"})
    asked.put("n3", {})
    assert [entry.name for entry in asked.list()] == ["n1", "n2", "n3"]
