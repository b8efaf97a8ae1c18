"""The SQL on the page about the door runs."""

from __future__ import annotations

from tests.door.scene import OpenDoor
from tests.house.tree import ROOT, blocks


def test_the_statements_on_the_page_are_answered(door: OpenDoor) -> None:
    text = (ROOT / "docs" / "sql-door.md").read_text(encoding="utf-8")
    statements = [
        statement
        for block in blocks(text)
        if block.tag == "sql"
        for statement in "\n".join(block.lines).split(";")
        if statement.strip()
    ]
    assert len(statements) > 10
    with door.connect() as connection:
        for statement in statements:
            cursor = connection.execute(statement)
            assert cursor.description is None or cursor.fetchall(), statement
