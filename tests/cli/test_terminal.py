"""What commands print: tables and texts, with nothing in them read as markup."""

from __future__ import annotations

from dodona.cli.terminal import make_table, say


def test_brackets_in_tables_and_texts_are_shown_as_they_are(capsys):
    table = make_table("[red]heading[/red]")
    table.add_row("[bold]label[/bold]")
    say(table, "a text with [i]brackets[/i]")
    shown = capsys.readouterr().out
    for text in ("[red]heading[/red]", "[bold]label[/bold]", "a text with [i]brackets[/i]"):
        assert text in shown


def test_signs_that_steer_a_terminal_are_spelled_in_texts(capsys):
    say("evil\x1b[31m")
    assert capsys.readouterr().out == "evil\\x1b[31m\n"
