"""The spelling of a query as JSON. It is permanent: what was once written is read for ever, with the same meaning.

A set of cells is `name:bits`, the bits in hexadecimal digits, bit i for code i. A set of combinations of cells has the
names of its attributes, rising, and bit i for the i-th combination in row-major order. What has its usual value is left
out.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import assert_never

from dodona.domain.attribute import cells
from dodona.domain.domain import Domain
from dodona.domain.partition import Partition
from dodona.errors import DodonaError, InvalidArgument
from dodona.exact import exact
from dodona.query import weight as weights
from dodona.query.predicate import EVERYTHING, Among, And, Jointly, Or, Predicate
from dodona.query.query import Block, Cases, Key, Query
from dodona.query.weight import ONE, Constant, People, Value, Weight

FORMAT = 1
_PEOPLE = "people"
_LONGEST = 1 << 28
_LARGEST_UNIT = Fraction(10**150)
Written = str | int | list["Written"] | dict[str, "Written"]


def to_json(query: Query) -> str:
    """Return the one spelling of a query.

    >>> from dodona.domain.attribute import Boolean
    >>> to_json(Query.histogram(Domain((Boolean("emergency"),)), ["emergency"]))
    '{"format":1,"blocks":[{"by":[{"column":"emergency"}]}]}'
    """
    written: Written = {"format": FORMAT, "blocks": [_block(block) for block in query.blocks]}
    return json.dumps(written, ensure_ascii=True, separators=(",", ":"), check_circular=False)


def from_json(text: str, domain: Domain) -> Query:
    """Return the query that a text spells over a domain; refuses whatever it does not know."""
    if len(text) > _LONGEST:
        raise InvalidArgument("text", f"{len(text)} characters", f"write at most {_LONGEST}")
    try:
        found = json.loads(text, object_pairs_hook=_once)
        if not isinstance(found, dict) or found.keys() != {"format", "blocks"}:
            raise _refused(found, "write an object with format and blocks")
        if type(found["format"]) is not int or found["format"] != FORMAT:
            raise _refused(found["format"], f"this version reads format {FORMAT}")
        return Query(domain, tuple(map(_Reader(domain).block, _list(found["blocks"]))))
    except DodonaError:
        raise
    except (ValueError, RecursionError) as fault:
        raise _refused(text, "it is no JSON that spells a query") from fault


def _block(block: Block) -> Written:
    written: dict[str, Written] = {}
    if block.where is not EVERYTHING and block.where != EVERYTHING:
        written["where"] = _predicate(block.where)
    if block.keys:
        written["by"] = [_key(key) for key in block.keys]
    if block.weight is not ONE and block.weight != ONE:
        written["weight"] = _weight(block.weight)
    if block.unit.numerator != block.unit.denominator:
        written["unit"] = str(block.unit)
    return written


def _predicate(predicate: Predicate) -> Written:
    if type(predicate) is Among:  # most are, and a pattern takes its time
        return f"{predicate.attribute}:{predicate.codes:x}"
    match predicate:
        case Among(name, _, codes):
            return f"{name}:{codes:x}"
        case Jointly(names, _, codes):
            return {"jointly": list(names), "bits": f"{codes:x}"}
        case And(parts):
            return {"and": [_predicate(part) for part in parts]}
        case Or(parts):
            return {"or": [_predicate(part) for part in parts]}
        case _:
            assert_never(predicate)


def _key(key: Key) -> Written:
    if isinstance(key, Cases):
        branches: list[Written] = [[label, _predicate(predicate)] for label, predicate in key.branches]
        return {"cases": branches, "otherwise": key.otherwise}
    return {"column": key.attribute} if key.single else {"column": key.attribute, "cuts": list(key.cuts)}


def _weight(weight: Weight) -> Written:
    match weight:
        case Constant(number):
            return number
        case Value(name, _, offset, factor, power):
            return {"value": name, "offset": offset, "factor": factor, "power": power}
        case weights.Cases(branches, otherwise):
            cases: list[Written] = [[_predicate(predicate), _weight(branch)] for predicate, branch in branches]
            return {"cases": cases, "otherwise": _weight(otherwise)}
        case People():
            return _PEOPLE
        case _:
            assert_never(weight)


class _Reader:
    """Reads the parts of a query over one domain."""

    __slots__ = ("_domain", "_sets")

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._sets: dict[str, Among] = {}

    def block(self, found: object) -> Block:
        if not isinstance(found, dict) or not found.keys() <= {"where", "by", "weight", "unit"}:
            raise _refused(found, "a block has where, by, weight and unit")
        return Block(
            self.predicate(found["where"]) if "where" in found else EVERYTHING,
            tuple(map(self.key, _list(found["by"]))) if "by" in found else (),
            self.weight(found["weight"]) if "weight" in found else ONE,
            _unit(found["unit"]) if "unit" in found else Fraction(1),
        )

    def predicate(self, found: object) -> Predicate:
        if type(found) is str:
            known = self._sets.get(found)  # the same few sets come again and again
            if known is None:
                name, _, codes = found.rpartition(":")
                known = self._sets[found] = Among(name, cells(self._domain[name]), _bits(codes))
            return known
        if isinstance(found, dict) and len(found) == 1:
            ((tag, parts),) = found.items()
            if tag == "and":
                return And(tuple([self.predicate(part) for part in _list(parts)]))
            if tag == "or":
                return Or(tuple([self.predicate(part) for part in _list(parts)]))
        if isinstance(found, dict) and found.keys() == {"jointly", "bits"}:
            names = tuple([_label(name) for name in _list(found["jointly"])])
            return Jointly(names, tuple([cells(self._domain[name]) for name in names]), _bits(_label(found["bits"])))
        raise _refused(found, "a predicate is name:bits, jointly with bits, and, or")

    def key(self, found: object) -> Key:
        match found:
            case {"column": str(name), **other} if other.keys() <= {"cuts"}:
                attribute = self._domain[name]
                cuts = tuple(map(_whole, _list(other["cuts"]))) if other else tuple(range(attribute.size))
                return Partition.cut(attribute, cuts)
            case {"cases": cases, "otherwise": str(otherwise), **other} if not other:
                return Cases(
                    tuple((_label(one), self.predicate(two)) for one, two in map(_pair, _list(cases))), otherwise
                )
            case _:
                raise _refused(found, "a key is column with cuts, or cases with otherwise")

    def weight(self, found: object) -> Weight:
        match found:
            case int():
                return Constant(_whole(found))
            case str() if found == _PEOPLE:
                return People()
            case {"value": str(name), "offset": offset, "factor": factor, "power": power, **other} if not other:
                return Value(name, self._domain[name].size, _whole(offset), _whole(factor), _whole(power))
            case {"cases": cases, "otherwise": otherwise, **other} if not other:
                branches = ((self.predicate(one), self.weight(two)) for one, two in map(_pair, _list(cases)))
                return weights.Cases(tuple(branches), self.weight(otherwise))
            case _:
                raise _refused(found, "a weight is a whole number, a value, or cases with otherwise")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _refused([name for name, _ in pairs], "write each name once")
    return found


def _bits(text: str) -> int:
    """Return the bits, of the digits that this module writes and no others."""
    codes = int(text, 16)
    if f"{codes:x}" != text:
        raise _refused(text, "write the bits in small hexadecimal digits, without zeros before them")
    return codes


def _list(found: object) -> list[object]:
    if not isinstance(found, list):
        raise _refused(found, "write a list")
    return found


def _pair(found: object) -> list[object]:
    if not isinstance(found, list) or len(found) != 2:  # noqa: PLR2004  a pair
        raise _refused(found, "write a list of two")
    return found


def _label(found: object) -> str:
    if not isinstance(found, str):
        raise _refused(found, "write a text")
    return found


def _whole(found: object) -> int:
    if type(found) is not int:
        raise _refused(found, "write a whole number")
    return found


def _unit(found: object) -> Fraction:
    unit = exact(_label(found), argument="unit", lower=Fraction(0), upper=_LARGEST_UNIT)
    if str(unit) != found or unit == 0:
        raise _refused(found, "write a fraction above 0 in lowest terms")
    return unit


def _refused(found: object, accepted: str) -> InvalidArgument:
    return InvalidArgument("query", found, accepted)
