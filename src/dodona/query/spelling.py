"""The JSON form of a query. It is permanent: whatever was written must stay readable with the same meaning."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from dodona.errors import DodonaError, InvalidArgument
from dodona.numbers import to_fraction
from dodona.query import query as queries
from dodona.query.canonical import FORMAT, PEOPLE
from dodona.query.person_table import PersonColumn, PersonTable, copied_column, person_column
from dodona.query.polynomial import Polynomial
from dodona.query.predicate import (
    EVERYTHING,
    Among,
    And,
    Jointly,
    NonNegative,
    Or,
    Predicate,
)
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

_LONGEST = 1 << 28
_LARGEST_UNIT = Fraction(10**150)
_MOST_SETS = 1 << 12


def from_json(text: str, domain: Domain) -> queries.Query:
    """Parse the JSON form of a query over a domain; refuses anything unknown."""
    if len(text) > _LONGEST:
        raise InvalidArgument("text", f"{len(text)} characters", f"write at most {_LONGEST}")
    try:
        found = _DECODER.decode(text)
        if not isinstance(found, dict) or found.keys() != {"format", "blocks"}:
            raise _invalid_json(found, "write an object with format and blocks")
        if type(found["format"]) is not int or found["format"] != FORMAT:
            raise _invalid_json(found["format"], f"this version reads format {FORMAT}")
        return queries.Query(domain, tuple(map(_reader(domain).block, _require_list(found["blocks"]))))
    except DodonaError:
        raise
    except (ValueError, RecursionError) as fault:
        raise _invalid_json(text, "it is no JSON that spells a query") from fault


class _JsonReader:
    """Parses the parts of a query over one domain."""

    __slots__ = ("_domain", "_sets")

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._sets: dict[str, Among] = {}

    def block(self, found: object) -> queries.Block:
        if not isinstance(found, dict) or not found.keys() <= {"where", "by", "weight", "unit", "people"}:
            raise _invalid_json(found, "a block has where, by, weight, unit and people")
        if "people" in found:
            table = self.person_table(found["people"])
            inner = {part: own for part, own in found.items() if part != "people"}
            return replace(_JsonReader(table.domain).block(inner), table=table)
        return queries.Block(
            self.predicate(found["where"]) if "where" in found else EVERYTHING,
            tuple(map(self.key, _require_list(found["by"]))) if "by" in found else (),
            self.weight(found["weight"]) if "weight" in found else queries.ONE,
            _parse_unit(found["unit"]) if "unit" in found else Fraction(1),
        )

    def person_table(self, found: object) -> PersonTable:
        if not isinstance(found, dict) or found.keys() != {"where", "columns"}:
            raise _invalid_json(found, "a table of people has where and columns")
        return PersonTable(
            self.predicate(found["where"]), tuple(map(self.person_column, _require_list(found["columns"])))
        )

    def person_column(self, found: object) -> PersonColumn:
        match found:
            case {"aggregate": "least" | "greatest" as extreme, "where": where, "column": str(name), **other} if (
                not other
            ):
                return copied_column(self._domain[name], extreme, self.predicate(where))
            case {
                "aggregate": "count" | "sum" | "least" | "greatest" as aggregate,
                "where": where,
                "weight": weight,
                "unit": unit,
                "bounds": bounds,
                "width": width,
                "present": 0 | 1 as present,
                **other,
            } if not other:
                low, high = map(_require_integer, _require_pair(bounds))
                return person_column(
                    aggregate,
                    self.predicate(where),
                    self.weight(weight),
                    unit=_parse_unit(unit),
                    bounds=(low, high),
                    width=_require_integer(width),
                    present=present == 1,
                )
            case _:
                accepted = "a column of people has aggregate, where, weight, unit, bounds, width and present"
                raise _invalid_json(found, accepted)

    def predicate(self, found: object) -> Predicate:
        if type(found) is str:
            known = self._sets.get(found)  # the same few sets recur
            if known is None:
                name, _, codes = found.rpartition(":")
                if len(self._sets) >= _MOST_SETS:
                    self._sets.clear()
                known = self._sets[found] = Among(name, self._domain[name].cells, _parse_bits(codes))
            return known
        if isinstance(found, dict) and len(found) == 1:
            ((tag, parts),) = found.items()
            if tag == "and":
                return And(tuple([self.predicate(part) for part in _require_list(parts)]))
            if tag == "or":
                return Or(tuple([self.predicate(part) for part in _require_list(parts)]))
            if tag == "non_negative":
                return NonNegative(self.polynomial(parts))
        if isinstance(found, dict) and found.keys() == {"jointly", "bits"}:
            names = tuple([_require_label(name) for name in _require_list(found["jointly"])])
            shape = tuple([self._domain[name].cells for name in names])
            return Jointly(names, shape, _parse_bits(_require_label(found["bits"])))
        raise _invalid_json(found, "a predicate is name:bits, jointly with bits, non_negative, and, or")

    def polynomial(self, found: object) -> Polynomial:
        if not isinstance(found, dict) or found.keys() != {"columns", "terms"}:
            raise _invalid_json(found, "a polynomial has columns and terms")
        names = tuple([_require_label(name) for name in _require_list(found["columns"])])
        columns = [self._domain[name] for name in names]
        pairs = map(_require_pair, _require_list(found["terms"]))
        terms = [(tuple(map(_require_integer, _require_list(one))), _require_integer(two)) for one, two in pairs]
        sizes, cells = tuple([own.size for own in columns]), tuple([own.cells for own in columns])
        return Polynomial(names, sizes, cells, tuple(terms))

    def key(self, found: object) -> queries.Key:
        match found:
            case {"column": str(name), **other} if other.keys() <= {"cuts"}:
                attribute = self._domain[name]
                cuts = map(_require_integer, _require_list(other["cuts"])) if other else range(attribute.size)
                return Partition.cut(attribute, tuple(cuts))
            case {"cases": cases, "otherwise": str(otherwise), **other} if not other:
                pairs = map(_require_pair, _require_list(cases))
                branches = ((_require_label(one), self.predicate(two)) for one, two in pairs)
                return queries.CaseKey(tuple(branches), otherwise)
            case _:
                raise _invalid_json(found, "a key is column with cuts, or cases with otherwise")

    def weight(self, found: object) -> queries.Weight:
        match found:
            case int():
                return queries.ConstantWeight(_require_integer(found))
            case str() if found == PEOPLE:
                return queries.PeopleWeight()
            case {"value": str(name), "offset": offset, "factor": factor, "power": power, **other} if not other:
                numbers = map(_require_integer, (offset, factor, power))
                return queries.ValueWeight(name, self._domain[name].size, *numbers)
            case {"table": listed, "runs": runs, **other} if not other:
                return self.table(tuple([_require_label(name) for name in _require_list(listed)]), _require_list(runs))
            case {"polynomial": polynomial, **other} if not other:
                return queries.PolynomialWeight(self.polynomial(polynomial))
            case {"cases": cases, "otherwise": otherwise, **other} if not other:
                pairs = map(_require_pair, _require_list(cases))
                branches = ((self.predicate(one), self.weight(two)) for one, two in pairs)
                return queries.CaseWeight(tuple(branches), self.weight(otherwise))
            case _:
                accepted = "a weight is a whole number, a value, a table, a polynomial, or cases with otherwise"
                raise _invalid_json(found, accepted)

    def table(self, names: tuple[str, ...], runs: list[object]) -> queries.TableWeight:
        """Return a table of numbers from runs of equal ones."""
        shape = tuple([self._domain[name].cells for name in names])
        pairs = [tuple(map(_require_integer, _require_pair(run))) for run in runs]
        if any(before[1] == after[1] for before, after in pairwise(pairs)) or any(length < 1 for length, _ in pairs):
            raise _invalid_json(names, "write each run of equal numbers once")
        if sum(length for length, _ in pairs) != math.prod(shape):
            raise _invalid_json(names, f"write numbers for {math.prod(shape)} combinations of cells")
        return queries.TableWeight(names, shape, tuple([number for length, number in pairs for _ in range(length)]))


def _refuse_repeated_names(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _invalid_json([name for name, _ in pairs], "write each name once")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_refuse_repeated_names)


@lru_cache(maxsize=16)
def _reader(domain: Domain) -> _JsonReader:
    """Return what parses queries over a domain: thousands of them are read back from a ledger, with few sets."""
    return _JsonReader(domain)


def _parse_bits(text: str) -> int:
    """Parse a bit mask, accepting only the digits that this module writes."""
    codes = int(text, 16)
    if f"{codes:x}" != text:
        raise _invalid_json(text, "write the bits in small hexadecimal digits, without zeros before them")
    return codes


def _require_list(found: object) -> list[object]:
    if not isinstance(found, list):
        raise _invalid_json(found, "write a list")
    return found


def _require_pair(found: object) -> list[object]:
    if not isinstance(found, list) or len(found) != 2:  # noqa: PLR2004  a pair
        raise _invalid_json(found, "write a list of two")
    return found


def _require_label(found: object) -> str:
    if not isinstance(found, str):
        raise _invalid_json(found, "write a text")
    return found


def _require_integer(found: object) -> int:
    if type(found) is not int:
        raise _invalid_json(found, "write a whole number")
    return found


def _parse_unit(found: object) -> Fraction:
    unit = to_fraction(_require_label(found), argument="unit", lower=Fraction(0), upper=_LARGEST_UNIT)
    if str(unit) != found or unit == 0:
        raise _invalid_json(found, "write a fraction above 0 in lowest terms")
    return unit


def _invalid_json(found: object, accepted: str) -> InvalidArgument:
    return InvalidArgument("query", found, accepted)
