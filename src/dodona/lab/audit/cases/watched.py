"""Choices and alerts through the curator, on tables that differ in one row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from dodona.curator.curator import Curator
from dodona.lab.audit.cases.asking import Rows, Tables
from dodona.lab.audit.cases.case import AuditCase, pure_epsilon
from dodona.lab.audit.cases.scene import last_event, ledger_of, make_curator, schema_of, source_of
from dodona.lab.audit.cases.served import COUNT, CROWD, FEMALE, GROUPS, GROUPS_OF_SEX, MALE, neighbouring_tables
from dodona.lab.audit.features import INDEX, VALUE, Outputs, pair
from dodona.schema.schema import Neighbours

Ask = Callable[[Curator, int], tuple[int, ...]]
_SHARE = 200  # a choice and an alert take a few milliseconds
_CHARGES = 1000
_THRESHOLD = 3
_REACH = 400


def cases() -> Iterator[AuditCase]:
    """Yield the audits of choices and alerts through a curator."""
    for neighbours in Neighbours:
        # Two groups tie before the new row, and with it a count reaches the threshold.
        choice, alert = (
            neighbouring_tables(neighbours, CROWD, MALE, old=FEMALE),
            neighbouring_tables(neighbours, CROWD, FEMALE),
        )
        for name, ask, tables, features in (
            ("choice", _choose, choice, (VALUE,)),
            ("alert", _alert, alert, (INDEX, pair(_REACH))),
        ):
            yield AuditCase(
                name=f"served {name}",
                mechanism="served",
                neighbours=neighbours,
                claim=partial(_price, neighbours, ask),
                draw=partial(_both, neighbours, tables, ask),
                features=features,
                share=_SHARE,
            )


def _both(neighbours: Neighbours, tables: Tables, ask: Ask, count: int) -> tuple[Outputs, Outputs]:
    first, second = (_outputs(neighbours, rows, ask, count) for rows in tables)
    return first, second


def _outputs(neighbours: Neighbours, rows: Rows, ask: Ask, count: int) -> Outputs:
    """Return the outputs of `count` charges; a ledger is replaced before it is full."""
    schema = schema_of(neighbours)
    source = source_of(schema, rows)
    collected: list[tuple[int, ...]] = []
    while len(collected) < count:
        curator = make_curator(schema, source, ledger_of(schema))
        collected += [ask(curator, number) for number in range(min(_CHARGES, count - len(collected)))]
    outputs = np.array(collected, dtype=np.int64)
    return outputs[:, 0] if outputs.shape[1] == 1 else outputs


def _choose(curator: Curator, number: int) -> tuple[int, ...]:
    """Return which group is largest; a new key prevents a replay."""
    return (GROUPS_OF_SEX.index(curator.choose(GROUPS, epsilon=1, key=str(number)).name),)


def _alert(curator: Curator, _: int) -> tuple[int, ...]:
    """Return the first verdict of a watch, and its gap."""
    verdict = curator.above(_THRESHOLD, epsilon=1).ask(COUNT)
    return int(verdict.above), -1 if verdict.gap is None else verdict.gap


def _price(neighbours: Neighbours, ask: Ask) -> float:
    """Return the price in the ledger after one charge."""
    schema = schema_of(neighbours)
    ledger = ledger_of(schema)
    ask(make_curator(schema, source_of(schema, CROWD), ledger), 0)
    return pure_epsilon(last_event(ledger))
