"""What leaves the trusted part is drawn by the law that was audited, from scores of the real answers."""

from __future__ import annotations

import numpy as np
import pytest

from dodona.engines.memory import MemorySource
from dodona.ledger import memory
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.schema.schema import Neighbours, Unit
from dodona.trusted.gate import release_choice
from dodona.trusted.source import Unpaid
from tests.synth.scene import tiny, tiny_columns
from tests.synth.test_choice_laws import answers, distances, excesses, log_law, small_databases

TABLE = [0, 0, 0, 1, 2, 2, 3]
DRAWS = 2_000


@pytest.mark.slow
@pytest.mark.parametrize("made", [distances, excesses, small_databases])
def test_what_is_chosen_follows_the_audited_law(made):
    """2,000 draws among at most 20 candidates: a statistic above 80 comes once in 10^8 runs."""
    declared = tiny(size=3, neighbours="replace")
    terms = LedgerTerms(
        datasets={"answers": declared.digest},
        neighbours=Neighbours.REPLACE,
        budget=Budget(10**4, 0, "pure"),
        analysts=(),
    )
    ledger, source = memory.create_memory_ledger(terms), MemorySource(declared, tiny_columns(TABLE))
    selection = made(Neighbours.REPLACE)
    event, outcomes = selection.event(Unit.each_row(Neighbours.REPLACE)), []
    for _ in range(DRAWS):
        receipt = ledger.reserve(event, analyst=None, key=None, purpose=selection.purpose, version=source.version)
        outcomes.append(release_choice(selection, receipt, ledger=ledger, source=source, unit=declared.unit).values[0])
    law = np.exp(log_law(selection, answers() @ np.bincount(TABLE, minlength=4)))
    expected = DRAWS * law
    counts = np.bincount(np.array(outcomes, dtype=np.int64), minlength=len(law))
    kept = expected > 1
    assert ((counts - expected)[kept] ** 2 / expected[kept]).sum() < 80


def test_another_belief_needs_another_receipt():
    declared = tiny(size=3, neighbours="replace")
    terms = LedgerTerms(
        datasets={"answers": declared.digest}, neighbours=Neighbours.REPLACE, budget=Budget(9, 0, "pure"), analysts=()
    )
    ledger, source = memory.create_memory_ledger(terms), MemorySource(declared, tiny_columns(TABLE))
    paid, other = distances(Neighbours.REPLACE), distances(Neighbours.REPLACE)
    object.__setattr__(other, "believed", (3, *paid.believed[1:]))
    receipt = ledger.reserve(
        paid.event(Unit.each_row(Neighbours.REPLACE)),
        analyst=None,
        key=None,
        purpose=paid.purpose,
        version=source.version,
    )
    with pytest.raises(Unpaid):
        release_choice(other, receipt, ledger=ledger, source=source, unit=declared.unit)
