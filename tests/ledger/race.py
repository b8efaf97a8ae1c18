"""Many threads in several processes race for the last of a budget: exactly what is left is given."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from dodona.ledger.errors import BudgetExhausted
from dodona.ledger.ledger import Ledger
from tests.ledger.processes import Say, forked
from tests.ledger.scene import ask

Open = Callable[[], Ledger]


PROCESSES = 4
THREADS = 16


def rounds(open_ledger: Open, fresh: Callable[[], None], *, count: int, room: int) -> dict[str, int]:
    """Return how much was given beyond the room, and how much of it was left lying, over so many rounds."""
    tally = {"rounds": 0, "race_overspend": 0, "left": 0, "untyped": 0}
    for _ in range(count):
        fresh()
        gate, opener = os.pipe()
        children = [forked(partial(_child, open_ledger, gate, opener)) for _ in range(PROCESSES)]
        for child in children:
            child.first_word()
        os.close(gate)
        os.close(opener)  # all wait for this end of the pipe
        said = [word for child in children for word in child.finish()]
        given = [word for word in said if word.startswith("charged")]
        tally["rounds"] += 1
        tally["race_overspend"] += max(0, len(set(given)) - room) + len(given) - len(set(given))
        tally["left"] += max(0, room - len(given))
        tally["untyped"] += len(said) - len(given)
        with open_ledger() as ledger:
            tally["race_overspend"] += max(0, ledger.verify().charges - room)
    return tally


def _child(open_ledger: Open, gate: int, opener: int, say: Say) -> None:
    os.close(opener)
    with open_ledger() as ledger, ThreadPoolExecutor(THREADS) as pool:
        say("ready")
        os.read(gate, 1)
        list(pool.map(lambda _: _attempt(ledger, say), range(THREADS)))


def _attempt(ledger: Ledger, say: Say) -> None:
    while True:
        try:
            receipt = ask(ledger)
        except BudgetExhausted:
            return
        say(f"charged {receipt.id}")
