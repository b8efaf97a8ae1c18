"""Faults that random sessions must notice, each a patch that is applied in a fresh process.

python -m tests.sessions.faults NAME      # 1: noticed, 0: not noticed, 70: the patched module was never imported

Nothing of Dodona that could be patched is imported before the patch is in place.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from dodona.lab.audit.patch import Patch, install, replace_lines

NEVER_IMPORTED = 70


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, the invariant that it breaks, and the sessions in which it shows."""

    patches: tuple[Patch, ...]
    invariant: str
    first: int
    """The first seed."""
    sessions: int
    """Within so many sessions it is noticed."""


FAULTS = {
    "a refusal is charged": Fault(
        (
            replace_lines(
                "dodona.curator.ladder",
                "        except BudgetExhausted as refused:",
                "        except BudgetExhausted as refused:\n"
                "            from dodona.privacy.events import LaplaceEvent\n"
                "            event = LaplaceEvent(1, Fraction(10**9), self._dataset.schema.unit.neighbours)\n"
                "            named = {'analyst': self.desk.analyst, 'key': None, 'purpose': 'x', 'version': '1'}\n"
                "            self._dataset.ledger.reserve(event, **named)",
                symbol="Ladder._climb",
            ),
        ),
        "what is refused is not charged",
        0,
        30,
    ),
    "intervals are a fifth too narrow": Fault(
        (
            replace_lines(
                "dodona.answer.laws",
                "        return noise_width(noise, failing, answers)",
                "        return int(0.8 * noise_width(noise, failing, answers))",
                symbol="half_width",
            ),
        ),
        "intervals hold as often as they promise",
        0,
        600,
    ),
    "older rows are told of again": Fault(
        (
            replace_lines(
                "dodona.knowledge.releases",
                "        if (receipt.dataset, receipt.version) != self._of or release.question is None:",
                "        if receipt.dataset != self._of[0] or release.question is None:",
                symbol="ReleasedBlocks._read",
            ),
        ),
        "older rows are not told of again",
        10,
        1_500,
    ),
    "a tolerance is taken for more than it says": Fault(
        (
            replace_lines(
                "dodona.curator.request",
                "    return float(number)",
                "    return 1.5 * float(number)",
                symbol="_resolve_column",
            ),
        ),
        "an answer is as accurate as was asked",
        0,
        30,
    ),
    "the number of rows is taken for exact": Fault(
        (
            replace_lines(
                "dodona.knowledge.tables",
                "    return NoiseSum((*law.terms, NoiseTerm.of(share, rows.noise)))",
                "    return law",
            ),
        ),
        "what is derived is a combination of what was told, with its variance",
        280,
        60,
    ),
    "residuals are weighed by half of their variance": Fault(
        (
            replace_lines(
                "dodona.knowledge.knowledge",
                "            self.residuals.add(residual, values[start : start + residual.number], variance, "
                "measured.law)",
                "            self.residuals.add(residual, values[start : start + residual.number], variance / 2, "
                "measured.law)",
            ),
        ),
        "what is derived is a combination of what was told, with its variance",
        60,
        60,
    ),
    "an offer names half the price": Fault(
        (
            replace_lines(
                "dodona.curator.offers",
                "    price = FREE if order is None else Price(order.share, (order.event,), ladder.budget.delta)",
                "    price = FREE if order is None else Price(order.share / 2, (order.event,), ladder.budget.delta)",
                symbol="make_offer",
            ),
        ),
        "a quote is what is charged",
        0,
        60,
    ),
    "ORDER BY sorts the wrong way": Fault(
        (
            replace_lines(
                "dodona.answer.rows",
                "        known = sorted(ranks, key=ranks.__getitem__, reverse=order.descending)",
                "        known = sorted(ranks, key=ranks.__getitem__, reverse=not order.descending)",
                symbol="make_rows",
            ),
        ),
        "ORDER BY is held",
        0,
        100,
    ),
    "a key is forgotten": Fault(
        (
            replace_lines(
                "dodona.curator.ladder",
                "            recalled = self._recall(distinct, request, key)",
                "            recalled = None",
                symbol="Ladder.answers",
            ),
            replace_lines(
                "dodona.curator.ladder",
                "        call = self.resolve(distinct, request, key)",
                "        call = self.resolve(distinct, request, None)",
                symbol="Ladder.answers",
            ),
        ),
        "a key never pays twice",
        60,
        250,
    ),
}


def noticed(fault: Fault) -> int | None:
    """Return after how many sessions a fault was noticed; None where it was not."""
    from tests.sessions.figures import Figures
    from tests.sessions.run import Broken, run
    from tests.sessions.session import session

    figures = Figures()
    for number in range(fault.sessions):
        try:
            figures.add(run(session(fault.first + number)))
        except Broken as broken:
            if broken.invariant == fault.invariant:
                return number + 1
        if number % 10 == 9 and fault.invariant.startswith("intervals") and figures.failing():
            return number + 1
    return None


def main(name: str) -> int:
    """The exit code of sessions under a fault."""
    fault = FAULTS[name]
    finder = install(fault.patches)
    number = noticed(fault)
    print(f"{name}: noticed after {number} sessions")  # noqa: T201  for whoever runs it by hand
    return NEVER_IMPORTED if not finder.used else 0 if number is None else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
