"""The cap on rows: which rows of a person count. `sql.render_cap` says the same in SQL."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from dodona.backends.faults import SourceUnfit
from dodona.domain.schema import Schema
from dodona.domain.value import is_missing
from dodona.errors import InvalidArgument
from dodona.sql.render_cap import FAR, FARTHEST, FRACTION

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY_BYTES = 32


def cap_key(schema: Schema, key: bytes | None) -> bytes:
    """Return the key that chooses which rows of a person count; where people are protected there must be one."""
    if schema.unit.id is None:
        return b""
    if key is None or len(key) != KEY_BYTES:
        accepted = f"where people are protected, give {KEY_BYTES} bytes: the ledger has them as cap_key"
        raise InvalidArgument("key", None if key is None else "<key>", accepted)
    return key


def kept_rows(
    schema: Schema, codes: Mapping[str, NDArray[np.int64]], people: Sequence[object] | NDArray[Any], key: bytes
) -> NDArray[np.bool_]:
    """Return which rows count: all of a person who has no more than the cap, else those with the smallest hashes.

    A hash is of the key, the codes of all declared columns, the number of the row among the equal rows of that person,
    and the person as text. So it depends on the rows of that person alone, and which of two rows with the same codes
    counts makes no difference to any answer. Rows that are of nobody do not count: a NULL, or a NaN, might stand for
    anybody.

    Theorem: people
    """
    number = numbered(people)
    columns = [codes[name] for name in schema.domain.names]
    rows = np.bincount(number[number >= 0], minlength=1)
    kept = number >= 0
    several = np.flatnonzero(kept & (rows[number] > schema.unit.rows))
    texts = people_texts(number, people, several)
    order = several[np.lexsort((*(own[several] for own in reversed(columns)), number[several]))]
    hashes = _hashes(number[order], [own[order] for own in columns], texts, key)
    order = order[np.lexsort((*(own[order] for own in reversed(columns)), hashes, number[order]))]
    ranked = number[order]
    first = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(ranked) else np.zeros(0, dtype=np.int64)
    place = np.arange(len(ranked)) - np.repeat(first, np.diff(np.r_[first, len(ranked)]))
    kept[order] = place < schema.unit.rows
    return kept


def _hashes(
    number: NDArray[np.int64], columns: Sequence[NDArray[np.int64]], texts: Mapping[int, str], key: bytes
) -> NDArray[np.bytes_]:
    """Return the hash of each row, where equal rows of a person follow each other."""
    found, before, equal = list[str](), None, 0
    for row in zip(number.tolist(), *(own.tolist() for own in columns), strict=True):
        equal = equal + 1 if row == before else 1
        before = row
        text = " ".join([key.hex(), *map(str, row[1:]), str(equal), texts[row[0]]])
        found.append(hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest())
    return np.array(found, dtype="S32")


def people_texts(
    number: NDArray[np.int64], people: Sequence[object] | NDArray[Any], rows: NDArray[np.int64]
) -> dict[int, str]:
    """Return each of these rows' people as text, one text for all that are equal: 1 and 1.0 are one person."""
    found = dict[int, str]()
    for place in rows.tolist():
        own = people_text(people[place])
        known = found.setdefault(int(number[place]), own)
        if own < known:
            found[int(number[place])] = own
    return found


def people_text(who: object) -> str:  # noqa: PLR0911  one for each kind
    """Return an id as text, as `render_cap.person_text` writes it on every engine.

    >>> people_text(7), people_text(7.0), people_text(-0.5), people_text("p7"), people_text(date(2024, 1, 31))
    ('7', '7', '-1.2147483648', 'p7', '2024-01-31')
    """
    own = who.item() if isinstance(who, np.generic) else who
    match own:
        case bool():
            return "true" if own else "false"
        case float():
            if not abs(own) < FARTHEST:
                return FAR
            whole = math.floor(own)
            return str(whole) if own == whole else f"{whole}.{math.floor((own - whole) * FRACTION)}"
        case Decimal():
            whole_number = own == own.to_integral_value() and own.as_tuple().exponent == 0
            return str(own) if whole_number else people_text(float(own))
        case bytes():
            return own.hex()
        case datetime():
            return (own if own.tzinfo is None else own.astimezone(UTC)).date().isoformat()
        case date():
            return own.isoformat()
        case _:
            return str(own)


def numbered(people: Sequence[object] | NDArray[Any]) -> NDArray[np.int64]:
    """Return a number for each different person; -1 for nobody."""
    seen: dict[object, int] = {}
    listed = people.tolist() if isinstance(people, np.ndarray) else list(people)
    try:
        numbers = [-1 if is_missing(who) else seen.setdefault(who, len(seen)) for who in listed]
    except TypeError:
        numbers = None
    if numbers is None:
        raise SourceUnfit(
            "The column of people holds values that cannot be told apart, such as lists. Take one of numbers or texts."
        )
    return np.array(numbers, dtype=np.int64)
