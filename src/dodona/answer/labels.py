"""Labels: what the groups of a question are called."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

from dodona.domain.attribute import Label
from dodona.domain.domain import Domain
from dodona.domain.partition import Partition, group_label
from dodona.query.query import Key
from dodona.query.question import Question


def labels_of(question: Question) -> list[tuple[Label, ...]]:
    """Return the labels of all groups, in row-major order of the keys."""
    return list(product(*(_of_key(key, question.query.domain) for key in question.keys)))


def name_of(key: Key) -> str:
    """Return what a key is called where no column names it."""
    return key.attribute if isinstance(key, Partition) else "case"


def _of_key(key: Key, domain: Domain) -> tuple[Label, ...]:
    if isinstance(key, Partition):
        return _of_partition(key, domain)
    return (*(label for label, _ in key.branches), key.otherwise)


@lru_cache(maxsize=256)
def _of_partition(partition: Partition, domain: Domain) -> tuple[Label, ...]:
    attribute = domain[partition.attribute]
    return tuple(group_label(partition, attribute, group) for group in range(partition.groups))
