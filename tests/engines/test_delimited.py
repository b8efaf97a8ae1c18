"""CSV files as people have them: each is read by what is declared, and no line changes how another one is read."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from contextlib import closing
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dodona
from dodona.dataset.file import DatasetFile
from dodona.dataset.opening import VersionChanged
from dodona.engines.cells import SourceUnfit
from dodona.engines.duckdb import DuckDBInspection, DuckDBSource
from dodona.engines.files import CODECS, DATE_ORDERS, SEPARATORS, THOUSANDS, CsvFormat
from dodona.engines.memory import MemorySource
from dodona.errors import InvalidArgument
from dodona.query.query import Query
from dodona.schema.attributes import Attribute, Boolean, Category, Date, Integer, Number, Timestamp
from dodona.schema.schema import Schema
from dodona.schema.toml import InvalidFile
from tests.dataset.scene import TOML, written
from tests.engines.scene import OPENED, values
from tests.engines.spark import MARKS, engine

FIRST, LAST = dt.datetime.fromisoformat("2024-01-01T00:00"), dt.datetime.fromisoformat("2024-12-31T23:30")
ATTRIBUTES: list[Attribute] = [
    Number("n", -10, 5_000, "0.25"),
    Integer("i", -10, 2_000),
    Date("d", dt.date(2024, 1, 1), dt.date(2024, 12, 31)),
    Category("c", ["ä", "€", "a b", "-"]),
    Boolean("b"),
    Timestamp("t", FIRST, LAST, "30 minutes"),
]
SIGNS = "0123456789.,' -+eE/\u00a0"
NUMBERS = ["1234.5", "1,234.5", "1.234,5", "1 234,5", "1'234.5", "12,34", "1,2,3", "1.234.567", ",5", ".5", "5,", "1e3"]
NUMBERS += ["-1.000", "-1,000", "inf", "NaN", " 7 ", "1\u00a0234", "0001,000", "1234,567", "1,234,56", "?", "1e1,000"]
DAYS = ["31.12.2024", "12/31/2024", "1-2-2024", "2024-02-01", "01/02/2024 10:00", "30.2.2024", "1.2.24", "x1.2.2024"]
TIMES = ["31.12.2024 9:05", "12/31/2024 09:35:59.9", "1-2-2024T23:59Z", "2024-02-01 10:00", "01/02/2024 1:00 PM"]
TIMES += [
    "1/2/2024 12:30 am",
    "1/2/2024 12:30:10pm",
    "1.2.2024 24:00",
    "1.2.2024 13:00 pm",
    "1.2.2024 0:30 AM",
    "1.2.2024",
]
TEXTS = ["ä", "€", "a b", "-", "NA", "Ä"]


def columns(form: CsvFormat, generator: np.random.Generator, *, rows: int = 150) -> dict[str, list[str]]:
    """Texts that look like numbers, days and labels, in this spelling and in others."""

    def number() -> str:
        if generator.random() < 0.4:
            return NUMBERS[int(generator.integers(len(NUMBERS)))]
        return "".join(generator.choice(list(SIGNS), size=int(generator.integers(1, 8))))

    encodable = [text for text in TEXTS if _fits(text, form.encoding)]
    signs = {"n": number, "i": number}
    texts = {name: [draw() for _ in range(rows)] for name, draw in signs.items()}
    texts |= {
        "d": [DAYS[int(place)] for place in generator.integers(len(DAYS), size=rows)],
        "c": [encodable[int(place)] for place in generator.integers(len(encodable), size=rows)],
        "b": [["yes", "0", "NA", "?"][int(place)] for place in generator.integers(4, size=rows)],
        "t": [TIMES[int(place)] for place in generator.integers(len(TIMES), size=rows)],
    }
    return {name: [text if _fits(text, form.encoding) else "x" for text in column] for name, column in texts.items()}


def _fits(text: str, encoding: str) -> bool:
    try:
        text.encode(CODECS[encoding])
    except UnicodeEncodeError:
        return False
    return True


def write(path: Path, held: dict[str, list[str]], form: CsvFormat) -> None:
    lines = [list(held)] if form.header else []
    lines += [list(row) for row in zip(*held.values(), strict=True)]
    quoted = (form.separator.join('"' + field.replace('"', '""') + '"' for field in line) for line in lines)
    raw = "".join(f"{line}\n" for line in quoted).encode(CODECS[form.encoding])
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def by_hand(schema: Schema, held: dict[str, list[str]], form: CsvFormat) -> MemorySource:
    """The plain reading: what stands for no value is none, numbers and days are spelled as everywhere else."""
    change = {"n": form.number_text, "i": form.number_text, "d": form.time_text, "t": form.time_text}
    read = {
        name: [None if text in form.null else change.get(name, str)(text) for text in column]
        for name, column in held.items()
    }
    return MemorySource(schema, read)


FORMS = [
    CsvFormat(separator=separator, header=header, encoding=encoding, decimal=decimal, thousands=sign, dates=dates)
    for (place, (encoding, dates)), (decimal, sign), header in zip(
        enumerate(list(product(["utf-8", "utf-16", "latin-1", "windows-1252"], DATE_ORDERS)) * 2),
        [(d, t) for d in ".," for t in (None, *THOUSANDS) if t != d] * 2,
        [True, False] * 12,
        strict=False,
    )
    for separator in [SEPARATORS[place % len(SEPARATORS)]]
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.encoding} {form.decimal}{form.thousands} {form.dates}")
def test_two_readings_of_a_csv_file_agree_whatever_it_is_written_in(form: CsvFormat, tmp_path: Path) -> None:
    generator = np.random.default_rng([len(form.encoding), ord(form.decimal), ord(form.separator)])
    held = columns(form, generator)
    if not form.header:
        attributes = [_renamed(attribute, f"column{place + 1}") for place, attribute in enumerate(ATTRIBUTES)]
    else:
        attributes = ATTRIBUTES
    form = CsvFormat(**{**_options(form), "null": ("", "NA", "?")})
    path = tmp_path / ("rows.csv.gz" if form.thousands is None else "rows.tsv")
    write(path, held, form)
    schema = Schema.of("t", *attributes, size=99)
    source = DuckDBSource.csv(schema, path, form=form)
    expected = by_hand(Schema.of("t", *ATTRIBUTES, size=99), held, form)
    for attribute in ATTRIBUTES:
        query, plain = (Query.marginal(declared.domain, attribute.name) for declared in (schema, expected._schema))
        assert values(source, query) == values(expected, plain), attribute.name


def _options(form: CsvFormat) -> dict[str, object]:
    return {name: getattr(form, name) for name in CsvFormat.__dataclass_fields__}


def _renamed(attribute: Attribute, source: str) -> Attribute:
    from dataclasses import replace

    return replace(attribute, source=source)


@pytest.mark.parametrize(
    ("form", "text", "number"),
    [
        (CsvFormat(decimal=","), "1,5", "1.5"),
        (CsvFormat(decimal=","), "1.5", "?"),
        (CsvFormat(thousands=","), "1,234.50", "1234.50"),
        (CsvFormat(thousands=","), "1,5", "?"),
        (CsvFormat(thousands=",", decimal="."), "1234567", "1234567"),
        (CsvFormat(decimal=",", thousands="."), "-1.234.567,5e2", "-1234567.5e2"),
        (CsvFormat(decimal=",", thousands="."), "1.5", "?"),
        (CsvFormat(decimal=","), "inf", "inf"),
        (CsvFormat(decimal=","), "1" * 2_000, "?"),
    ],
)
def test_a_number_means_one_thing_or_none(form: CsvFormat, text: str, number: str) -> None:
    assert form.number_text(text) == number


def test_a_day_means_one_thing() -> None:
    assert CsvFormat(dates="day-first").time_text("1.2.2024") == "2024-02-01"
    assert CsvFormat(dates="month-first").time_text("1/2/2024 10:00") == "2024-01-02 10:00"
    for form in (CsvFormat(dates=order) for order in DATE_ORDERS):
        assert form.time_text("2024-02-01") == "2024-02-01"
    assert CsvFormat().time_text("1.2.2024") == "1.2.2024"


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("1/2/2024 9:05", "2024-01-02 09:05"),
        ("1/2/2024 9:05:30.25", "2024-01-02 09:05:30"),
        ("1/2/2024 12:00 AM", "2024-01-02 00:00"),
        ("1/2/2024 12:59:01 pm", "2024-01-02 12:59:01"),
        ("1/2/2024 9:05PM", "2024-01-02 21:05"),
        ("1/2/2024 13:05 PM", "1/2/2024 13:05 PM"),
        ("1/2/2024 0:05 AM", "1/2/2024 0:05 AM"),
        ("1/2/2024 9:05 PMx", "1/2/2024 9:05 PMx"),
        ("1/2/2024 9", "1/2/2024 9"),
    ],
)
def test_a_time_of_day_is_read_with_the_day(text: str, time: str) -> None:
    assert CsvFormat(dates="month-first").time_text(text) == time


PATTERNS = ["%Y%m%d", "%d.%m.%Y", "%Y/%m/%d", "%m-%d %Y", "%d. %m %Y", "%Y年%m月%d日", "%Y-%d-%m", "%d%m%Y"]


@pytest.mark.parametrize(
    ("pattern", "text", "day"),
    [
        ("%Y%m%d", "20240201", "2024-02-01"),
        ("%Y%m%d", " 20240201 10:30", "2024-02-01 10:30"),
        ("%Y%m%d", "2024021", "2024021"),
        ("%Y%m%d", "2024-02-01", "2024-02-01"),
        ("%d%m%Y", "01022024", "2024-02-01"),
        ("%d.%m.%Y", "1.2.2024", "2024-02-01"),
        ("%d.%m.%Y", "1/2/2024", "1/2/2024"),
        ("%Y/%m/%d", "2024/2/1T10:00:00Z", "2024-02-01 10:00:00"),
        ("%Y年%m月%d日", "2024年2月1日", "2024-02-01"),
        ("%Y-%d-%m", "2024-01-02", "2024-02-01"),
        ("%m-%d %Y", "2-1 2024", "2024-02-01"),
    ],
)
def test_a_day_may_be_written_by_a_pattern(pattern: str, text: str, day: str) -> None:
    assert CsvFormat(dates=pattern).time_text(text) == day


@pytest.mark.parametrize("pattern", PATTERNS)
def test_two_readings_of_days_by_a_pattern_agree(pattern: str, tmp_path: Path) -> None:
    form, generator = CsvFormat(dates=pattern, separator=";"), np.random.default_rng(7)
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=int(offset)) for offset in generator.integers(366, size=200)]
    texts = [day.strftime(pattern) for day in days] + DAYS + ["20240132", "x20240101", "2024 01 01", "1", " "]
    path = tmp_path / "rows.csv"
    path.write_text("d\n" + "".join(f"{text}\n" for text in texts), encoding="utf-8")
    schema = Schema.of("t", Date("d", dt.date(2024, 1, 1), dt.date(2024, 12, 31)), size=99)
    query = Query.marginal(schema.domain, "d")
    read = values(DuckDBSource.csv(schema, path, form=form), query)
    assert read == values(MemorySource(schema, {"d": [form.time_text(text) for text in texts]}), query)
    assert sum(read[:366]) >= len(days)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_two_readings_of_times_by_a_pattern_agree(pattern: str, tmp_path: Path) -> None:
    form, generator = CsvFormat(dates=pattern, separator=";"), np.random.default_rng(8)
    clocks = ["", " 9:05", "T09:35", " 11:59:59.9Z", " 12:00 AM", " 12:29 pm", " 3:30PM", " 24:00", " 13:00 PM", " 9"]
    first = dt.date(2024, 1, 1)
    days = [first + dt.timedelta(days=int(offset)) for offset in generator.integers(366, size=300)]
    texts = [f"{day.strftime(pattern)}{clocks[place % len(clocks)]}" for place, day in enumerate(days)]
    path = tmp_path / "rows.csv"
    path.write_text("t\n" + "".join(f"{text}\n" for text in texts), encoding="utf-8")
    schema = Schema.of("t", Timestamp("t", FIRST, LAST, "30 minutes"), size=99)
    query = Query.marginal(schema.domain, "t")
    read = values(DuckDBSource.csv(schema, path, form=form), query)
    assert read == values(MemorySource(schema, {"t": [form.time_text(text) for text in texts]}), query)
    assert sum(read[: 2 * 24 * 366]) == 7 * len(days) // 10  # the last three clocks are none


@pytest.mark.parametrize(
    "wrong", ["", "%d.%m.%y", "%d.%m", "%d.%m.%Y.%Y", "%d]%m]%Y", "%d\\%m\\%Y", "%d%m%Y" + "x" * 50]
)
def test_what_is_no_pattern_of_days_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidArgument, match="dates"):
        CsvFormat(dates=wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"separator": ""},
        {"separator": "ab"},
        {"separator": '"'},
        {"encoding": "ebcdic"},
        {"decimal": ";"},
        {"thousands": "."},
        {"decimal": ",", "thousands": ","},
        {"dates": "random"},
        {"null": ("a", "a")},
        {"null": tuple(map(str, range(101)))},
    ],
)
def test_a_form_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        CsvFormat(**wrong)


AGE = Schema.of("t", Integer("age", 0, 9), Category("c", ["a", "b"]), size=9)


@pytest.mark.parametrize(
    "line", [b"1\n", b"1,a,b\n", b'"1,a\n', b'"1"x,a\n', b"1,\xff\n", b"1,a\r\n", b"1,a\r", b"1,\xe2\x82\n"]
)
def test_a_line_that_cannot_be_read_has_the_file_refused(line: bytes, tmp_path: Path) -> None:
    """Else it might be left out, or take the lines after it along, and so change what the other rows are."""
    path = tmp_path / "rows.csv"
    path.write_bytes(b"age,c\n1,a\n2,b\n" + line + b"3,a\n4,b\n")
    with pytest.raises(SourceUnfit):
        DuckDBSource.csv(AGE, path)


@pytest.mark.parametrize(
    ("field", "cell"),
    [(b'x"y', 3), (b"x\0y", 3), (b"#", 3), (b'"x\ny"', 3), (b'"x,y"', 3), (b"NA", 3), (b"", 2), (b'""', 2), (b" a", 3)],
)
def test_a_strange_field_is_in_a_cell_of_its_own_and_moves_no_other_row(
    field: bytes, cell: int, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"age,c\n1,a\n2,b\n0," + field + b"\n3,a\n4,b\n")
    expected = [2, 2, 0, 0]
    expected[cell] += 1
    assert values(DuckDBSource.csv(AGE, path), Query.histogram(AGE.domain, ["c"])) == expected


@pytest.mark.parametrize("raw", [b"", b"\n", b"age,Age\n1,2\n", b"\xff\xfe\n"])
def test_a_first_line_that_is_none_is_refused(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(raw)
    with pytest.raises(SourceUnfit):
        DuckDBSource.csv(AGE, path)


@pytest.mark.parametrize("encoding", CODECS)
def test_every_encoding_is_read_and_bytes_that_it_does_not_have_are_refused(encoding: str, tmp_path: Path) -> None:
    label = {"windows-1251": "ж", "koi8-r": "ж", "shift-jis": "語", "gb18030": "語", "big5": "語", "euc-kr": "한"}
    text = label.get(encoding, "ä")
    schema = Schema.of("t", Category("c", [text]), size=9)
    path = tmp_path / "rows.csv"
    path.write_bytes(f"c\n{text}\n{text}\nx\n".encode(CODECS[encoding]))
    source = DuckDBSource.csv(schema, path, form=CsvFormat(encoding=encoding))
    assert values(source, Query.histogram(schema.domain, ["c"])) == [2, 0, 1]
    shown = DuckDBInspection.csv(path, CsvFormat(encoding=encoding))
    assert shown.fetch(f"SELECT count(*) FROM {shown.source}") == [(3,)]  # noqa: S608
    shown.close()
    if encoding in {"utf-8", "utf-16", "windows-1252", "shift-jis", "euc-kr", "gb18030", "big5"}:
        path.write_bytes(f"c\n{text}\n".encode(CODECS[encoding]) + b"\xff\x81\xff")
        with pytest.raises(SourceUnfit):
            DuckDBSource.csv(schema, path, form=CsvFormat(encoding=encoding))


def test_a_dataset_file_says_how_its_csv_is_written(tmp_path: Path) -> None:
    more = """path = "stays.csv"
separator = ";"
header = false
encoding = "windows-1252"
decimal = ","
thousands = "."
dates = "day-first"
null = ["NA", "-", ""]"""
    path = written(tmp_path, TOML.replace('path = "stays.csv"', more))
    assert DatasetFile.read(path).form == CsvFormat(
        separator=";",
        header=False,
        encoding="windows-1252",
        decimal=",",
        thousands=".",
        dates="day-first",
        null=("NA", "-", ""),
    )
    for right, wrong, says in (
        ('";"', '"--"', "source.separator is not accepted: write one of"),
        ('"windows-1252"', '"ebcdic"', "source.encoding"),
        ("false", '"no"', "source.header is a text"),
        ('["NA", "-", ""]', "[7]", "source.null"),
    ):
        with pytest.raises(InvalidFile, match=says):
            DatasetFile.read(written(tmp_path, TOML.replace('path = "stays.csv"', more.replace(right, wrong))))
    with pytest.raises(InvalidFile, match=r"source\.decimal is not known"):
        DatasetFile.read(written(tmp_path, TOML.replace('kind = "csv"', 'kind = "parquet"\ndecimal = ","')))


@pytest.mark.parametrize("names", [("land", "Age"), ("column1", "column2")])
def test_a_column_may_say_what_means_null_in_it(names: tuple[str, str], tmp_path: Path) -> None:
    form = CsvFormat(
        header=names[0] == "land", null=("", "NA"), column_null=(("t", names[1], ("999", "-")), ("u", "land", ()))
    )
    write(tmp_path / "rows.csv", {names[0]: ["NA", "", "999", "DE"], names[1]: ["NA", "", "999", "7"]}, form)
    land, age = Category("land", ["NA", "DE"], source=names[0]), Integer("age", 0, 1_000, source=names[1])
    schema = Schema.of("t", land, age, size=4)
    source = DuckDBSource.csv(schema, tmp_path / "rows.csv", form=form)
    assert values(source, Query.marginal(schema.domain, "land")) == [0, 1, 2, 1]
    counts = values(source, Query.marginal(schema.domain, "age"))
    assert (counts[7], counts[999], *counts[-2:]) == (1, 0, 1, 2)  # "NA" and "" are like any other field there
    with pytest.raises(InvalidArgument):
        CsvFormat(column_null=(("t", "age", ("9", "9")),))


def test_no_field_at_all_may_mean_null(tmp_path: Path) -> None:
    form = CsvFormat(null=())
    write(tmp_path / "rows.csv", {"land": ["NA", "", "DE"]}, form)
    schema = Schema.of("t", Category("land", ["NA", "DE"]), size=3)
    source = DuckDBSource.csv(schema, tmp_path / "rows.csv", form=form)
    assert values(source, Query.marginal(schema.domain, "land")) == [1, 1, 0, 1]


def test_what_means_null_in_a_column_is_written_in_the_dataset_file(tmp_path: Path) -> None:
    age = "lower = 0\nupper = 99"
    path = written(tmp_path, TOML.replace(age, f'{age}\nsource = "Age"\nnull = ["50", "98"]'))
    file = DatasetFile.read(path)
    assert file.form.column_null == (("stays", "Age", ("50", "98")),)
    (tmp_path / "stays.csv").write_text("sex,Age\nfemale,98\nmale,\n-,50\nmale,7\n", encoding="utf-8")
    source = DuckDBSource.csv(file.schema, tmp_path / "stays.csv", form=file.form)
    ages = values(source, Query.marginal(file.schema.domain, "age"))
    assert (ages[7], ages[50], ages[98], *ages[-2:]) == (1, 0, 0, 2, 1)
    for wrong, says in (("999", "columns.age.null is a whole number"), ('["a", "a"]', "at most 100 texts")):
        with pytest.raises(InvalidFile, match=says):
            DatasetFile.read(written(tmp_path, TOML.replace(age, f"{age}\nnull = {wrong}")))
    other = TOML.replace('kind = "csv"', 'kind = "parquet"').replace(age, f'{age}\nnull = ["999"]')
    with pytest.raises(InvalidFile, match="null is for CSV files"):
        DatasetFile.read(written(tmp_path, other))


def test_another_way_of_reading_is_another_version(tmp_path: Path) -> None:
    path = written(tmp_path)
    dodona.create_ledger(path)
    dodona.open(path, analyst="ada").close()
    written(tmp_path, TOML.replace('path = "stays.csv"', 'path = "stays.csv"\nnull = ["", "male"]'))
    with pytest.raises(VersionChanged):
        dodona.open(path, analyst="ada")


# Folders that are columns

PLACED = Schema.of("t", Integer("age", 0, 9), Category("year", ["2023", "2024"]), Category("k", ["a b", "ü"]), size=9)


def partitioned(folder: Path, form: CsvFormat | None = None) -> Path:
    for name, ages in (
        ("year=2023/k=a%20b", [1, 2]),
        ("year=2024/k=ü", [3]),
        ("year=__HIVE_DEFAULT_PARTITION__/k=z", [4]),
    ):
        (folder / name).mkdir(parents=True)
        if form is None:
            pq.write_table(pa.table({"age": ages}), folder / name / "rows.parquet")
        else:
            write(folder / name / "rows.csv", {"age": list(map(str, ages))}, form)
    return folder


def by_spark(schema: Schema, path: Path) -> object:
    from dodona.engines.spark import SparkSource

    OPENED.append(SparkSource.parquet(schema, path, session=engine()))
    return OPENED[-1]


@pytest.mark.parametrize(
    "opened", [pytest.param(DuckDBSource.parquet, id="duckdb"), pytest.param(by_spark, id="spark", marks=MARKS)]
)
def test_a_folder_that_is_called_by_a_column_gives_its_rows_that_value(opened, tmp_path: Path) -> None:
    source = opened(PLACED, partitioned(tmp_path / "rows") / "**" / "*.parquet")
    assert values(source, Query.histogram(PLACED.domain, ["year"])) == [2, 1, 1, 0]
    assert values(source, Query.histogram(PLACED.domain, ["k"])) == [2, 1, 0, 1]
    whole = Schema.of("t", Integer("year", 2020, 2024), size=9)
    assert values(opened(whole, tmp_path / "rows" / "**" / "*.parquet"), Query.histogram(whole.domain, ["year"])) == [
        *(0, 0, 0, 2, 1),
        *(1, 0),
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])  # files in other encodings are read from copies
def test_a_folder_of_csv_files_is_a_column_too(encoding: str, tmp_path: Path) -> None:
    form = CsvFormat(encoding=encoding)
    place = partitioned(tmp_path / "rows", form) / "**" / "*.csv"
    write(tmp_path / "rows" / "year=2024" / "k=ü" / "more.csv", {"age": ["5", ""]}, form)
    source = DuckDBSource.csv(PLACED, place, form=form)
    assert values(source, Query.histogram(PLACED.domain, ["year"])) == [2, 3, 1, 0]
    assert values(source, Query.histogram(PLACED.domain, ["k"])) == [2, 3, 0, 1]
    assert values(source, Query.marginal(PLACED.domain, "age"))[1:6] == [1, 1, 1, 1, 1]
    with closing(DuckDBInspection.csv(place, form)) as seen:
        assert {name: column.type for name, column in seen.columns.items()} == dict.fromkeys(
            ("age", "year", "k"), "VARCHAR"
        )
        assert sorted(seen.fetch(f"SELECT year, count(age) FROM {seen.source} GROUP BY year"), key=str) == [  # noqa: S608
            *(("2023", 2), ("2024", 2), (None, 1))
        ]
    with closing(DuckDBInspection.csv(tmp_path / "rows" / "year=2024" / "k=ü" / "more.csv", form)) as seen:
        assert set(seen.columns) == {"age"}  # a file that is named has its own columns alone, as with Parquet
    missing = DuckDBSource.csv(PLACED, place, form=CsvFormat(encoding=encoding, null=("2023", "")))
    assert values(missing, Query.histogram(PLACED.domain, ["year"])) == [0, 3, 3, 0]


def test_folders_of_csv_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    form = CsvFormat()
    place = partitioned(tmp_path / "rows", form) / "**" / "*.csv"
    write(tmp_path / "rows" / "year=2024" / "more.csv", {"age": ["5"]}, form)
    with pytest.raises(SourceUnfit, match="not all called by the same columns"):
        DuckDBSource.csv(PLACED, place)
    (tmp_path / "rows" / "year=2024" / "more.csv").unlink()
    for path in (tmp_path / "rows").glob("**/*.csv"):
        write(path, {"age": ["5"], "Year": ["2024"]}, form)
    with pytest.raises(SourceUnfit, match="in its files too"):
        DuckDBSource.csv(PLACED, place)


def test_renamed_folders_of_csv_files_are_another_version(tmp_path: Path) -> None:
    folder = partitioned(tmp_path / "rows", CsvFormat())
    text = TOML.replace("stays.csv", "rows/**/*.csv")
    text = text.replace("columns.sex", "columns.year").replace('["female", "male"]', '["2023", "2024"]')
    path = written(tmp_path, text)
    dodona.create_ledger(path)
    dodona.open(path, analyst="ada").close()
    (folder / "year=2024").rename(folder / "year=2025")
    with pytest.raises(VersionChanged):
        dodona.open(path, analyst="ada")


def test_folders_are_a_part_of_the_version_and_a_column_is_in_one_place(tmp_path: Path) -> None:
    folder = partitioned(tmp_path / "rows")
    assert {"year", "k", "age"} == set(DuckDBInspection.parquet(folder / "**" / "*.parquet").columns)
    text = TOML.replace('kind = "csv"', 'kind = "parquet"').replace("stays.csv", "rows/**/*.parquet")
    text = text.replace("columns.sex", "columns.year").replace('["female", "male"]', '["2023", "2024"]')
    path = written(tmp_path, text)
    dodona.create_ledger(path)
    dodona.open(path, analyst="ada").close()
    (folder / "year=2024").rename(folder / "year=2025")
    with pytest.raises(VersionChanged):
        dodona.open(path, analyst="ada")
    pq.write_table(pa.table({"age": [1], "year": ["2030"]}), folder / "year=2025" / "k=ü" / "rows.parquet")
    with pytest.raises(SourceUnfit, match="in its files too"):
        DuckDBSource.parquet(PLACED, folder / "**" / "*.parquet")


def test_the_digest_of_the_usual_form_is_none() -> None:
    assert CsvFormat().digest == ""
    assert json.loads(CsvFormat(decimal=",").digest)["decimal"] == ","
