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
        document = _DECODER.decode(text)
        if not isinstance(document, dict) or document.keys() != {"format", "blocks"}:
            raise _invalid_json(document, "write an object with format and blocks")
        if type(document["format"]) is not int or document["format"] != FORMAT:
            raise _invalid_json(document["format"], f"this version reads format {FORMAT}")
        return queries.Query(domain, tuple(map(_reader(domain).block, _require_list(document["blocks"]))))
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

    def block(self, value: object) -> queries.Block:
        if not isinstance(value, dict) or not value.keys() <= {"where", "by", "weight", "unit", "people"}:
            raise _invalid_json(value, "a block has where, by, weight, unit and people")
        if "people" in value:
            table = self.person_table(value["people"])
            inner = {part: field for part, field in value.items() if part != "people"}
            return replace(_JsonReader(table.domain).block(inner), table=table)
        return queries.Block(
            self.predicate(value["where"]) if "where" in value else EVERYTHING,
            tuple(map(self.key, _require_list(value["by"]))) if "by" in value else (),
            self.weight(value["weight"]) if "weight" in value else queries.ONE,
            _parse_unit(value["unit"]) if "unit" in value else Fraction(1),
        )

    def person_table(self, value: object) -> PersonTable:
        if not isinstance(value, dict) or value.keys() != {"where", "columns"}:
            raise _invalid_json(value, "a table of people has where and columns")
        return PersonTable(
            self.predicate(value["where"]), tuple(map(self.person_column, _require_list(value["columns"])))
        )

    def person_column(self, value: object) -> PersonColumn:
        match value:
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
                raise _invalid_json(value, accepted)

    def predicate(self, value: object) -> Predicate:
        if type(value) is str:
            known = self._sets.get(value)  # the same few sets recur
            if known is None:
                name, _, codes = value.rpartition(":")
                if len(self._sets) >= _MOST_SETS:
                    self._sets.clear()
                known = self._sets[value] = Among(name, self._domain[name].cells, _parse_bits(codes))
            return known
        if isinstance(value, dict) and len(value) == 1:
            ((tag, parts),) = value.items()
            if tag == "and":
                return And(tuple([self.predicate(part) for part in _require_list(parts)]))
            if tag == "or":
                return Or(tuple([self.predicate(part) for part in _require_list(parts)]))
            if tag == "non_negative":
                return NonNegative(self.polynomial(parts))
        if isinstance(value, dict) and value.keys() == {"jointly", "bits"}:
            names = tuple([_require_label(name) for name in _require_list(value["jointly"])])
            shape = tuple([self._domain[name].cells for name in names])
            return Jointly(names, shape, _parse_bits(_require_label(value["bits"])))
        raise _invalid_json(value, "a predicate is name:bits, jointly with bits, non_negative, and, or")

    def polynomial(self, value: object) -> Polynomial:
        if not isinstance(value, dict) or value.keys() != {"columns", "terms"}:
            raise _invalid_json(value, "a polynomial has columns and terms")
        names = tuple([_require_label(name) for name in _require_list(value["columns"])])
        columns = [self._domain[name] for name in names]
        pairs = map(_require_pair, _require_list(value["terms"]))
        terms = [
            (tuple(map(_require_integer, _require_list(powers))), _require_integer(coefficient))
            for powers, coefficient in pairs
        ]
        sizes, cells = tuple([column.size for column in columns]), tuple([column.cells for column in columns])
        return Polynomial(names, sizes, cells, tuple(terms))

    def key(self, value: object) -> queries.Key:
        match value:
            case {"column": str(name), **other} if other.keys() <= {"cuts"}:
                attribute = self._domain[name]
                cuts = map(_require_integer, _require_list(other["cuts"])) if other else range(attribute.size)
                return Partition.cut(attribute, tuple(cuts))
            case {"cases": cases, "otherwise": str(otherwise), **other} if not other:
                pairs = map(_require_pair, _require_list(cases))
                branches = ((_require_label(label), self.predicate(condition)) for label, condition in pairs)
                return queries.CaseKey(tuple(branches), otherwise)
            case _:
                raise _invalid_json(value, "a key is column with cuts, or cases with otherwise")

    def weight(self, value: object) -> queries.Weight:
        match value:
            case int():
                return queries.ConstantWeight(_require_integer(value))
            case str() if value == PEOPLE:
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
                branches = ((self.predicate(condition), self.weight(weight)) for condition, weight in pairs)
                return queries.CaseWeight(tuple(branches), self.weight(otherwise))
            case _:
                accepted = "a weight is a whole number, a value, a table, a polynomial, or cases with otherwise"
                raise _invalid_json(value, accepted)

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
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _invalid_json([name for name, _ in pairs], "write each name once")
    return members


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


def _require_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise _invalid_json(value, "write a list")
    return value


def _require_pair(value: object) -> list[object]:
    if not isinstance(value, list) or len(value) != 2:  # noqa: PLR2004  a pair
        raise _invalid_json(value, "write a list of two")
    return value


def _require_label(value: object) -> str:
    if not isinstance(value, str):
        raise _invalid_json(value, "write a text")
    return value


def _require_integer(value: object) -> int:
    if type(value) is not int:
        raise _invalid_json(value, "write a whole number")
    return value


def _parse_unit(value: object) -> Fraction:
    unit = to_fraction(_require_label(value), argument="unit", lower=Fraction(0), upper=_LARGEST_UNIT)
    if str(unit) != value or unit == 0:
        raise _invalid_json(value, "write a fraction above 0 in lowest terms")
    return unit


def _invalid_json(value: object, accepted: str) -> InvalidArgument:
    return InvalidArgument("query", value, accepted)
