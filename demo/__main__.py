"""Puts a made-up hospital behind a budget, asks a dozen questions and draws the answers: `python -m demo`."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from demo import dataset, table
from demo.screen import Screen
from demo.tour import Tour, tour
from dodona.cli.ledger import state_tables
from dodona.ledger import opening

OUT = Path(__file__).resolve().parent / "out"
_SEED = 20_240_101
_WIDTH = 100
_LATER = 'ask {file} "SELECT sex, avg(age) FROM stays GROUP BY sex" --analyst ada'


def main() -> None:
    """Do all of it."""
    began = time.monotonic()
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH)
    screen = Screen(console)
    screen.title("Dodona, a private oracle for data")
    screen.say(
        f"\nA hospital has {dataset.SIZE:,} stays. None of them is real: they are made up, so that the truth can be "
        "shown beside each answer. The owner allows a privacy loss of ε = 1, δ = 1e-6 in all, for ever. "
        "An analyst asks."
    )
    with screen.working("making up the hospital"):
        rows = table.stays(dataset.SIZE, seed=_SEED)
    done = tour(rows, OUT, screen)
    _score(done, screen)
    _account(done, screen)
    with screen.working("painting"):
        from demo import picture

        picture.answers(done, OUT / "answers.png")
        picture.budget(done, OUT / "budget.png")
    _farewell(done, screen, time.monotonic() - began)


def _score(done: Tour, screen: Screen) -> None:
    screen.step("How did the error bars do?")
    inside, of = sum(cell.inside for cell in done.judged), len(done.judged)
    screen.say(f"{inside} of {of} intervals held the truth: {inside / of:.1%}.", "bold")
    screen.say("Each one is promised to hold it with probability 95% or more, so a few outside are as it should be.")


def _account(done: Tour, screen: Screen) -> None:
    """Check the ledger and show it."""
    screen.step("The ledger, computed anew from its first line")
    with opening.open_ledger(done.made.ledger) as ledger:
        state, lines = ledger.verify(), ledger.lines()
        screen.say(
            f"Verified: {len(lines)} lines, each with the hash of the one before; {state.charges} charges.", "green"
        )
        for shown in state_tables(state, [line.text for line in lines]):
            screen.console.print(shown)


def _farewell(done: Tour, screen: Screen, seconds: float) -> None:
    here = Path.cwd()
    folder = done.made.folder.relative_to(here) if done.made.folder.is_relative_to(here) else done.made.folder
    screen.console.print()
    screen.title(f"Done in {seconds:.0f} seconds")
    screen.say(f"Pictures: {folder / 'answers.png'} and {folder / 'budget.png'}")
    screen.say("There is budget left. Go on asking:")
    file = folder / "stays.toml"
    for command in (f"dodona describe {file} --analyst ada", f"dodona {_LATER.format(file=file)}"):
        screen.console.print(f"  .venv/bin/{command}", style="bold", soft_wrap=True, markup=False)


if __name__ == "__main__":
    main()
