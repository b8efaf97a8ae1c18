"""The permanent spelling of queries."""

import datetime as dt
import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.query.canonical import query_digest, to_json
from dodona.query.predicate import NOTHING
from dodona.query.query import Block, Query
from dodona.query.spelling import from_json
from dodona.schema.attributes import Boolean, Category, Date, Integer, Number
from dodona.schema.schema import Domain
from tests.house.shares import examples
from tests.query.drawing import DOMAIN, queries

GOLDEN = Path(__file__).parent / "queries.golden.jsonl"
HOSPITAL = Domain(
    (
        Category("sex", ["female", "male", "other"]),
        Integer("age", 0, 110),
        Number("stay", Fraction(0), Fraction(365), Fraction(1, 4), bins=[0, 1, 3, 7, 30, 365]),
        Date("admitted", dt.date(2020, 1, 1), dt.date(2020, 12, 31)),
        Boolean("emergency"),
        Boolean("größe"),
    )
)


def golden() -> list[dict[str, str]]:
    return [json.loads(line) for line in GOLDEN.read_text(encoding="ascii").splitlines()]


@pytest.mark.parametrize("line", golden(), ids=lambda line: line["name"])
def test_what_was_written_once_keeps_its_meaning(line: dict[str, str]) -> None:
    """Append to the golden file, never change a line: ledgers hold these texts and digests."""
    query = from_json(line["query"], HOSPITAL)
    assert to_json(query) == line["query"]
    assert query_digest(query) == line["digest"]


@settings(max_examples=examples(80), deadline=None)
@given(queries())
def test_a_query_comes_back_as_it_was_written(query: Query) -> None:
    text = to_json(query)
    assert from_json(text, DOMAIN) == query
    assert text.isascii()
    assert " " not in text.replace('"case ', "")


@settings(deadline=None)
@given(st.fractions(min_value=Fraction(1, 1000), max_value=1000))
def test_the_worth_of_a_step_comes_back(unit: Fraction) -> None:
    query = Query(DOMAIN, (Block(unit=unit), Block(NOTHING)))
    assert from_json(to_json(query), DOMAIN).blocks[0].unit == unit


def spelled(block: str) -> str:
    return f'{{"format":1,"blocks":[{block}]}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"format":1}',
        '{"format":2,"blocks":[{}]}',
        '{"format":true,"blocks":[{}]}',
        '{"format":1,"blocks":[]}',
        '{"format":1,"blocks":{}}',
        '{"format":1,"blocks":[{}],"more":1}',
        '{"format":1,"format":1,"blocks":[{}]}',
        spelled("1"),
        spelled('{"when":"sex:1"}'),
        spelled('{"where":"sex:8"}'),
        spelled('{"where":"sex:-1"}'),
        spelled('{"where":"sex:01"}'),
        spelled('{"where":"sex:0x1"}'),
        spelled('{"where":"sex:A"}'),
        spelled('{"where":"sex: 1"}'),
        spelled('{"where":"sex:"}'),
        spelled('{"where":"sex"}'),
        spelled('{"where":"sax:1"}'),
        spelled('{"where":1}'),
        spelled('{"where":{"not":["sex:1"]}}'),
        spelled('{"where":{"and":["sex:1"],"or":[]}}'),
        spelled('{"where":{"and":"sex:1"}}'),
        spelled('{"where":{"and":["sex:1"],"and":["sex:1"]}}'),
        spelled('{"where":' + '{"and":[' * 100_000 + "]}" * 100_000 + "}"),
        spelled('{"where":{"jointly":["age","sex"]}}'),
        spelled('{"where":{"jointly":["sex","age"],"bits":"1"}}'),
        spelled('{"where":{"jointly":["age","age"],"bits":"1"}}'),
        spelled('{"where":{"jointly":["age","sax"],"bits":"1"}}'),
        spelled('{"where":{"jointly":["age",1],"bits":"1"}}'),
        spelled('{"where":{"jointly":"age","bits":"1"}}'),
        spelled('{"where":{"jointly":[],"bits":"1"}}'),
        spelled('{"where":{"jointly":["age","sex"],"bits":1}}'),
        spelled('{"where":{"jointly":["age","sex"],"bits":"01"}}'),
        spelled('{"where":{"jointly":["age","sex"],"bits":"-1"}}'),
        spelled('{"where":{"jointly":["age","sex"],"bits":"1","or":[]}}'),
        spelled('{"where":{"jointly":["age","sex"],"bits":"' + "f" * 6 + '"}}'),
        spelled('{"by":[{"column":"sax"}]}'),
        spelled('{"by":[{"column":"age","cuts":[]}]}'),
        spelled('{"by":[{"column":"age","cuts":[0,0]}]}'),
        spelled('{"by":[{"column":"age","cuts":[0,99]}]}'),
        spelled('{"by":[{"column":"age","cuts":[0,1.5]}]}'),
        spelled('{"by":[{"column":"age","width":1}]}'),
        spelled('{"by":[{"cases":[["old","age:1",1]],"otherwise":"x"}]}'),
        spelled('{"by":[{"cases":[[1,"age:1"]],"otherwise":"x"}]}'),
        spelled('{"by":[{"cases":[["old","age:1"]]}]}'),
        spelled('{"by":["age"]}'),
        spelled('{"weight":1.0}'),
        spelled('{"weight":NaN}'),
        spelled('{"weight":true}'),
        spelled('{"weight":"1"}'),
        spelled('{"weight":1' + "0" * 5000 + "}"),
        spelled('{"weight":9223372036854775808}'),
        spelled('{"weight":{"value":"age","offset":0,"factor":1}}'),
        spelled('{"weight":{"value":"age","offset":0,"factor":1,"power":0}}'),
        spelled('{"weight":{"value":"age","offset":0,"factor":1,"power":9}}'),
        spelled('{"weight":{"value":"age","offset":0,"factor":1,"power":true}}'),
        spelled('{"weight":{"cases":[["age:1"]],"otherwise":1}}'),
        spelled('{"unit":1}'),
        spelled('{"unit":"2/4"}'),
        spelled('{"unit":"0"}'),
        spelled('{"unit":"-1"}'),
        spelled('{"unit":"1/0"}'),
        spelled('{"unit":"one"}'),
    ],
    ids=lambda text: text[:70],
)
def test_what_spells_no_query_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        from_json(text, DOMAIN)
