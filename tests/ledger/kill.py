"""kill -9 at a random moment: what a child was told stays true, and what it was not told was not given."""

import random
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from threading import Thread

from dodona.errors import DodonaError
from dodona.ledger.entries import Release
from dodona.ledger.ledger import Ledger
from tests.ledger.processes import Say, forked
from tests.ledger.scene import ask

THREADS = 4
LONGEST = 0.03
Open = Callable[[], Ledger]


def trials(open_ledger: Open, fresh: Callable[[], None], *, count: int, seed: int = 1) -> dict[str, int]:
    """Return what so many kills did; `lost` counts whatever a child was told and the ledger does not hold."""
    chance = random.Random(seed)  # noqa: S311  moments, not secrets
    tally = {"kill_trials": 0, "told": 0, "lost": 0, "corrupt": 0}
    longest = LONGEST
    for number in range(count):
        if number % 25 == 0:
            fresh()
        child = forked(partial(_work, open_ledger, str(number)))
        child.first_word()
        time.sleep(chance.uniform(0, longest))
        child.kill()
        said = child.finish()
        tally["kill_trials"] += 1
        tally["told"] += len(said)
        longest = LONGEST if said else min(2 * longest, 1.0)  # a busy machine may not have come to tell anything
        try:
            with open_ledger() as ledger:
                tally["lost"] += lost(ledger, said)
                ledger.verify()
        except DodonaError:
            tally["corrupt"] += 1
    return tally


def lost(ledger: Ledger, said: list[str]) -> int:
    """Return how many of the things that were said are not so."""
    texts = [line.text for line in ledger.lines()]
    hashes = {line.hash for line in ledger.lines()}
    released = {text for text in texts if '"entry":"released"' in text}
    used = {text for text in texts if '"entry":"redeemed"' in text}
    missing = 0
    for word in said:
        verb, receipt, *values = word.split()
        match verb:
            case "charged":
                missing += receipt not in hashes
            case "redeemed":
                missing += sum(receipt in text for text in used) != 1
            case "released":
                missing += sum(receipt in text and f'"values":[{values[0]}]' in text for text in released) != 1
            case _:
                missing += 1
    return missing


def _work(open_ledger: Open, name: str, say: Say) -> None:
    ledger = open_ledger()
    say("ready -")
    threads = [
        Thread(target=one_after_another, args=(ledger, say, f"{name}, {index}", 10**6)) for index in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def one_after_another(ledger: Ledger, say: Say, name: str, rounds: int) -> None:
    """Ask, use and answer, and say what was told as soon as it was."""
    for number in range(rounds):
        receipt = ask(ledger, f"{name}, {number}")
        say(f"charged {receipt.id}")
        ledger.redeem(receipt)
        say(f"redeemed {receipt.id}")
        value = hash((name, number)) % 1000
        ledger.record(Release(receipt=receipt.id, values=(value, Fraction(1, 2))[:1], mechanism="laplace"))
        say(f"released {receipt.id} {value}")
