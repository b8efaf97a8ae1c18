"""Processes that ask one question at once, some of which are killed: one charge serves all who are left."""

import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial

from dodona.ledger.entries import Release
from dodona.ledger.ledger import Ledger
from tests.ledger.processes import Say, forked
from tests.ledger.scene import TENTH

PROCESSES, THREADS = 4, 4
LONGEST = 0.02
Open = Callable[[], Ledger]


def rounds(open_ledger: Open, fresh: Callable[[], None], *, count: int, seed: int = 1) -> dict[str, int]:
    """Return how often callers went without the answer, and what was charged or measured too often."""
    chance = random.Random(seed)  # noqa: S311  moments, not secrets
    tally = {"rounds": 0, "answers": 0, "without": 0, "different": 0, "too_many": 0, "twice": 0}
    for _ in range(count):
        fresh()
        gate, opener = os.pipe()
        children = [forked(partial(_child, open_ledger, gate, opener)) for _ in range(PROCESSES)]
        for child in children:
            child.first_word()
        os.close(gate)
        os.close(opener)  # all wait for this end of the pipe
        time.sleep(chance.uniform(0, LONGEST))
        children[0].kill()
        killed, *others = [child.finish() for child in children]
        answers = [word for said in others for word in said]
        with open_ledger() as ledger:
            texts = [line.text for line in ledger.lines()]
            charges, releases = ledger.verify().charges, ledger.state().releases
        used = sum('"entry":"redeemed"' in text for text in texts)
        lost = used - releases  # of the one who was killed, at most
        tally["rounds"] += 1
        tally["answers"] += len(answers)
        tally["without"] += (PROCESSES - 1) * THREADS - len(answers)
        tally["different"] += len({*answers, *killed}) - 1
        tally["too_many"] += charges - 1 - lost + max(0, lost - 1)
        tally["twice"] += releases - 1
    return tally


def answered(ledger: Ledger, value: int) -> int:
    """Return the one answer to a question: that of another caller, or this one's own."""
    while True:
        seen = len(ledger.releases())
        released = ledger.released("question", "1")
        if released:
            return int(released[0].values[0])
        reserved = ledger.reserve_once(TENTH, analyst=None, key=None, purpose="question", version="1", seen=seen)
        if reserved is None:
            continue
        try:
            ledger.redeem(reserved.receipt)
            ledger.record(Release(receipt=reserved.receipt.id, values=(value, Fraction(1, 2))[:1], mechanism="laplace"))
        finally:
            ledger.let_go(reserved.receipt)


def _child(open_ledger: Open, gate: int, opener: int, say: Say) -> None:
    os.close(opener)
    with open_ledger() as ledger, ThreadPoolExecutor(THREADS) as pool:
        say("ready")
        os.read(gate, 1)
        for answer in pool.map(lambda index: answered(ledger, 100 * os.getpid() + index), range(THREADS)):
            say(f"told {answer}")
