"""Batches of choices, as a synthetic release makes them, on tables that differ in one row.

All marginals but one are chosen, starting with the one furthest from the model. An additional row moves the last
marginal further away and all others closer, so each choice that skips the last one reveals the row again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

import numpy as np

from dodona.curator.curator import Curator
from dodona.curator.desk import WHOLE_BUDGET, Purchase
from dodona.engines.memory import MemorySource
from dodona.lab.audit.cases.case import AuditCase, pure_epsilon
from dodona.lab.audit.cases.scene import last_event, ledger_of, make_curator
from dodona.lab.audit.features import VALUE, Outputs
from dodona.privacy.scores import DistanceScores, distance_sensitivity
from dodona.privacy.selection import Exponential
from dodona.query.query import Query
from dodona.schema.attributes import Boolean
from dodona.schema.schema import Neighbours, Schema
from dodona.synth.workload import marginal_block
from dodona.trusted.gate import release_choice

_CHARGES = 500
_ROWS = 10
_COLUMNS = tuple("abcdef")
_CELLS = 2
_FAR = 100
"""The model's rows in each cell of all marginals but the last: more than there are."""
_SCHEMA = Schema.of("stays", *(Boolean(name, otherwise=False) for name in _COLUMNS), size=_ROWS)


def cases() -> Iterator[AuditCase]:
    """Yield the audits of a batch of choices: at a high price and at a low one."""
    for epsilon, name, share in (("2", "served batch", 50), ("1/2", "served batch at a low price", 200)):
        yield AuditCase(
            name=name,
            mechanism="served",
            neighbours=Neighbours.ADD_REMOVE,
            claim=partial(_price, epsilon),
            draw=partial(_both, epsilon),
            features=(VALUE,),
            share=share,
        )


def _both(epsilon: str, count: int) -> tuple[Outputs, Outputs]:
    first, second = (_left_out(epsilon, rows, count) for rows in (_ROWS, _ROWS + 1))
    return first, second


def _left_out(epsilon: str, rows: int, count: int) -> Outputs:
    """Return which marginal was not chosen, for each charge; a ledger is replaced before it is full."""
    source = MemorySource(_SCHEMA, {name: [False] * rows for name in _COLUMNS}, key=bytes(32))
    collected: list[int] = []
    while len(collected) < count:
        curator = make_curator(_SCHEMA, source, ledger_of(_SCHEMA))
        collected += [_choose(curator, epsilon, number) for number in range(min(_CHARGES, count - len(collected)))]
    return np.array(collected, dtype=np.int64)


def _choose(curator: Curator, epsilon: str, number: int) -> int:
    scores, unit = _scores(epsilon), _SCHEMA.unit
    deliver = partial(release_choice, scores, text="a batch")
    purchase = Purchase(event=scores.event(unit), purpose=scores.purpose, deliver=deliver, max_price=WHOLE_BUDGET)
    chosen = {int(place) for place in curator.desk.buy(purchase, key=str(number)).item.values}
    (left,) = set(range(len(_COLUMNS))) - chosen
    return left


@cache
def _scores(epsilon: str) -> DistanceScores:
    """Return scores that are all equal without the additional row."""
    query = Query(_SCHEMA.domain, tuple(marginal_block(_SCHEMA.domain, [name]) for name in _COLUMNS))
    others, ones = len(_COLUMNS) - 1, (1,) * len(_COLUMNS)
    believed = (_FAR,) * (_CELLS * others) + (0,) * _CELLS
    even = (_CELLS * _FAR - _ROWS,) * others + (_ROWS,)
    choice = Exponential.for_privacy(epsilon, distance_sensitivity(query, ones, _SCHEMA.unit))
    return DistanceScores(query, believed, ones, even, choice, count=others, overlap=2)


def _price(epsilon: str) -> float:
    """Return the price in the ledger after one charge."""
    ledger = ledger_of(_SCHEMA)
    source = MemorySource(_SCHEMA, {name: [False] * _ROWS for name in _COLUMNS}, key=bytes(32))
    _choose(make_curator(_SCHEMA, source, ledger), epsilon, 0)
    return pure_epsilon(last_event(ledger))
