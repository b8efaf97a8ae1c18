"""`dodona init` and `dodona confirm`: from a table to a dataset file that its owner has looked at."""

from __future__ import annotations

import json
import shlex
import shutil
import stat
import tomllib
from fractions import Fraction
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dodona
from dodona.cli.main import app
from dodona.dataset import DatasetFile
from dodona.dataset.draft import MARK
from dodona.dataset.guess import CAPS
from dodona.engines.files import CsvFormat
from dodona.schema.attributes import source_column_name
from dodona.schema.toml import InvalidFile
from tests.dataset.awkward import columns, write_parquet
from tests.dataset.scene import rows

WIDE = {"COLUMNS": "250", "TERM": "dumb"}


def run(*arguments: str | Path, typed: str = ""):
    return CliRunner().invoke(app, list(map(str, arguments)), env=WIDE, input=typed)


@pytest.fixture
def awkward(tmp_path: Path) -> Path:
    """The draft of the awkward table."""
    done = run("init", write_parquet(tmp_path), "--output", tmp_path / "stays.toml")
    assert done.exit_code == 0, done.output
    return tmp_path / "stays.toml"


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """The draft of a small CSV file whose rows are protected by themselves."""
    (tmp_path / "stays.csv").write_text(rows(), encoding="utf-8")
    done = run("init", tmp_path / "stays.csv", "--output", tmp_path / "stays.toml")
    assert done.exit_code == 0, done.output
    return tmp_path / "stays.toml"


def test_a_draft_is_right_but_for_its_review(awkward: Path):
    with pytest.raises(InvalidFile) as caught:
        DatasetFile.read(awkward)
    (mistake,) = caught.value.mistakes
    assert mistake.key == "review.from_data"
    assert "dodona confirm" in mistake.message
    assert DatasetFile.draft(awkward).schema.table == "stays"


def test_kinds_are_guessed_from_types_and_values(awkward: Path):
    kinds = {name: column["kind"] for name, column in tomllib.loads(awkward.read_text("utf-8"))["columns"].items()}
    assert kinds == {
        "Größe": "category",
        "length_of_stay": "integer",
        "marks": "category",
        "age": "integer",
        "as_double": "integer",
        "weight": "number",
        "cost": "number",
        "huge": "number",
        "flag": "boolean",
        "bit": "boolean",
        "admitted": "date",
        "seen": "date",
        "nano": "date",
        "constant": "integer",
        "format": "category",
    }


def test_everything_from_the_data_is_listed_and_marked(awkward: Path):
    text = awkward.read_text("utf-8")
    written = tomllib.loads(text)
    listed = set(written["review"]["from_data"])
    for name, column in written["columns"].items():
        shown = name if name.isascii() else f'"{name}"'
        for key in ("lower", "upper", "labels", "step"):
            assert (f"columns.{shown}.{key}" in listed) == (key in column)
    assert {"unit.size", "unit.id", "unit.rows"} <= listed
    assert text.count(f"  {MARK}\n") == len(listed)


def test_bounds_are_rounded_outward(awkward: Path):
    written = tomllib.loads(awkward.read_text("utf-8"))["columns"]
    assert (written["age"]["lower"], written["age"]["upper"]) == (0, 100)
    assert (written["weight"]["lower"], written["weight"]["upper"]) == ("60", "110")
    assert (str(written["admitted"]["lower"]), str(written["admitted"]["upper"])) == ("2021-01-01", "2021-12-31")
    assert written["Größe"]["labels"] == ["gr\\oß", 'kl"ein', "中#[x]"]
    assert written["marks"]["labels"] == ["fine"]


def test_a_column_of_people_becomes_the_unit_and_is_not_declared(awkward: Path):
    unit = DatasetFile.draft(awkward).schema.unit
    assert unit.id == "patient_id"
    assert unit.rows in CAPS


def test_no_comment_holds_a_figure_of_the_data(awkward: Path):
    comments = [line for line in awkward.read_text("utf-8").splitlines() if line.startswith("#   ")]
    assert len(comments) == len(columns()) - 15
    assert not any("300" in line for line in comments)
    assert any(line.startswith('#   "a\\"b\\n= [c]": its name') for line in comments)


def test_a_draft_is_for_the_owner_alone_and_never_overwrites(plain: Path):
    assert stat.S_IMODE(plain.stat().st_mode) == 0o600
    before = plain.read_bytes()
    again = run("init", plain.parent / "stays.csv", "--output", plain)
    assert again.exit_code == 2
    assert again.stderr.startswith("file-exists: ")
    assert plain.read_bytes() == before


def test_the_screen_says_what_is_private_and_what_comes_next(tmp_path: Path):
    (tmp_path / "stays.csv").write_text(rows() + "other,3\n", encoding="utf-8")
    shown = run("init", tmp_path / "stays.csv", "--output", tmp_path / "stays.toml").stdout
    assert shown.startswith("PRIVATE: ")
    assert "in fewer than 10 rows: other" in shown
    for command in ("check", "confirm", "ledger create", "ask"):
        assert f"dodona {command} {tmp_path / 'stays.toml'}" in shown


def test_the_last_command_that_init_prints_is_cheap_and_it_says_so(tmp_path: Path):
    (tmp_path / "stays.csv").write_text(rows(20_000), encoding="utf-8")
    output = tmp_path / "stays.toml"
    shown = run("init", tmp_path / "stays.csv", "--output", output).stdout
    assert "No question takes more than 2% without --max-price" in " ".join(shown.split())
    assert run("confirm", output, "--by", "ada", "--yes").exit_code == 0
    assert run("ledger", "create", output).exit_code == 0
    assert DatasetFile.read(output).max_price == Fraction(1, 50)
    last = shlex.split(shown.strip().splitlines()[-1])
    assert last[:2] == ["dodona", "ask"]
    answer = run(*last[1:])
    assert answer.exit_code == 0, answer.output
    with dodona.open(output) as stays:
        assert 0 < stays.budget.spent <= Fraction(1, 500)


def test_from_a_csv_to_an_answer(plain: Path):
    assert run("ask", plain, "SELECT count(*) FROM stays").exit_code == 2
    done = run("confirm", plain, "--by", 'Ada "L."', typed="y\n")
    assert done.exit_code == 0, done.output
    assert "columns.age.upper" in done.stdout
    assert run("ledger", "create", plain).exit_code == 0
    answer = run("ask", plain, "SELECT sex, count(*) FROM stays GROUP BY sex", "--within", "100")
    assert answer.exit_code == 0, answer.output
    file = DatasetFile.read(plain)
    assert (file.waiting, file.confirmed_by) == ((), 'Ada "L."')
    assert MARK not in plain.read_text("utf-8")
    assert run("confirm", plain, "--by", "ada").stdout.startswith("Nothing")


def test_no_means_no(plain: Path):
    before = plain.read_bytes()
    assert run("confirm", plain, "--by", "ada", typed="n\n").exit_code == 1
    assert run("confirm", plain, "--by", "\n", "--yes").exit_code == 2
    assert run("confirm", plain, "--yes").exit_code == 2
    assert plain.read_bytes() == before


@pytest.mark.parametrize(
    "review",
    [
        '[review]\nfrom_data = ["unit.size"]',
        '[review]\nconfirmed_by = "me"  # once\nfrom_data = [  # each\n  "unit.size", # a ]\n  "columns.gone",\n]\n',
        'review.from_data = ["unit.size"]\nreview.confirmed_by = ""',
    ],
)
def test_a_review_is_emptied_however_it_is_written(plain: Path, review: str):
    text = plain.read_text("utf-8")
    body = text[: text.index("[review]")]
    plain.write_text(f"{review}\n{body}" if review.startswith("review.") else f"{body}{review}", encoding="utf-8")
    before = DatasetFile.draft(plain)
    done = run("confirm", plain, "--by", "ada", "--yes")
    assert done.exit_code == 0, done.output
    after = DatasetFile.read(plain)
    assert (after.schema, after.confirmed_by) == (before.schema, "ada")


def test_a_review_that_cannot_be_rewritten_is_left_alone(plain: Path):
    text = plain.read_text("utf-8")
    plain.write_text('review = {from_data = ["unit.size"]}\n' + text[: text.index("[review]")], encoding="utf-8")
    before = plain.read_bytes()
    done = run("confirm", plain, "--by", "ada", "--yes")
    assert done.exit_code == 2
    assert "yourself" in done.stderr
    assert plain.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--rows", "0", "--id", "sex"), "rows = 0"),
        (("--rows", "2"), "name the column"),
        (("--id", "none"), "write a column of the table"),
        (("--neighbours", "x"), "add-remove or replace"),
        (("--protects", "x"), "row or person"),
        (("--protects", "person"), "tells people apart"),
        (("--protects", "row", "--id", "sex"), "for person"),
        (("--epsilon", "much"), "budget.epsilon"),
        (("--delta", "2"), "budget.delta"),
        (("--table", "two words"), "analysts will use"),
    ],
)
def test_a_bad_wish_writes_nothing(tmp_path: Path, options: tuple[str, ...], said: str):
    (tmp_path / "stays.csv").write_text(rows(), encoding="utf-8")
    done = run("init", tmp_path / "stays.csv", "--output", tmp_path / "new.toml", *options)
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert "Nothing was charged" in done.stderr
    assert not (tmp_path / "new.toml").exists()


def test_wishes_are_not_from_the_data(tmp_path: Path):
    options = ("--id", "patient_id", "--rows", "2", "--neighbours", "replace", "--epsilon", "1/2", "--delta", "1e-9")
    done = run("init", write_parquet(tmp_path), "--output", tmp_path / "stays.toml", *options)
    assert done.exit_code == 0, done.output
    file = DatasetFile.draft(tmp_path / "stays.toml")
    assert (file.schema.unit.rows, file.schema.unit.size, str(file.budget.epsilon)) == (2, 300, "1/2")
    assert not {"unit.id", "unit.rows"} & set(file.waiting)


def test_rows_can_be_protected_where_an_id_is_guessed(tmp_path: Path):
    output = tmp_path / "stays.toml"
    assert run("init", write_parquet(tmp_path), "--output", output, "--protects", "row").exit_code == 0
    file = DatasetFile.draft(output)
    assert file.schema.unit.id is None
    assert "patient_id" not in file.schema.domain.names
    assert run("confirm", output, "--by", "ada", "--yes").exit_code == 0
    assert run("ledger", "create", output).exit_code == 0
    with dodona.open(output) as stays:
        stays.ask("SELECT format, count(*) FROM stays GROUP BY format", within=100)


def test_people_of_a_draft_are_protected_once_it_is_confirmed(awkward: Path):
    assert run("confirm", awkward, "--by", "ada", "--yes").exit_code == 0
    assert run("ledger", "create", awkward).exit_code == 0
    within = str(100 * DatasetFile.read(awkward).schema.unit.rows)  # the cap is drawn, and a price follows from it
    answer = run("ask", awkward, "SELECT flag, count(*) FROM stays GROUP BY flag", "--within", within)
    assert answer.exit_code == 0, answer.output


@pytest.mark.parametrize("source", ["parts", "parts/*.parquet"])
def test_folders_and_patterns_are_drafted_relative_to_the_file(tmp_path: Path, source: str):
    (tmp_path / "parts").mkdir()
    (tmp_path / "files").mkdir()
    shutil.copy(write_parquet(tmp_path), tmp_path / "parts" / "a.parquet")
    output = tmp_path / "files" / "x.toml"
    assert run("init", tmp_path / source, "--output", output).exit_code == 0
    file = DatasetFile.draft(output)
    assert (file.source, file.schema.table, file.dataset) == ("../parts/*.parquet", "parts", "x")
    assert run("check", output).exit_code == 0


def test_a_table_of_a_database_is_drafted(tmp_path: Path):
    path = tmp_path / "held.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute('CREATE SCHEMA s; CREATE TABLE s."my stays" AS SELECT range AS age FROM range(100)')
    done = run("init", path, "--table", "s.my stays", "--output", tmp_path / "x.toml")
    assert done.exit_code == 0, done.output
    file = DatasetFile.draft(tmp_path / "x.toml")
    assert (file.kind, file.schema.table, file.source_table) == ("duckdb", "my_stays", "s.my stays")
    assert run("check", tmp_path / "x.toml").exit_code == 0


@pytest.mark.parametrize("name", ["none.csv", "stays.txt", "folder"])
def test_a_source_that_is_none_says_what_to_write(tmp_path: Path, name: str):
    (tmp_path / "folder").mkdir()
    done = run("init", tmp_path / name, "--output", tmp_path / "x.toml")
    assert done.exit_code == 2
    assert "Nothing was charged" in done.stderr


def test_an_empty_table_has_nothing_to_draft(tmp_path: Path):
    pq.write_table(pa.table({"age": pa.array([], pa.int64())}), tmp_path / "x.parquet")
    done = run("init", tmp_path / "x.parquet", "--output", tmp_path / "x.toml")
    assert (done.exit_code, done.stderr[:16]) == (2, "invalid-request:")
    pq.write_table(pa.table({"flag": pa.array([], pa.bool_())}), tmp_path / "y.parquet")
    assert run("init", tmp_path / "y.parquet", "--output", tmp_path / "y.toml").exit_code == 0
    assert DatasetFile.draft(tmp_path / "y.toml").schema.unit.size == 1


def test_texts_that_most_rows_have_for_themselves_are_no_labels(tmp_path: Path):
    names = "\n".join(["name,ward", *(f"person {place},{'ab'[place % 2]}" for place in range(12))])
    (tmp_path / "x.csv").write_text(names, encoding="utf-8")
    done = run("init", tmp_path / "x.csv", "--output", tmp_path / "x.toml")
    assert done.exit_code == 0, done.output
    assert "person 1" not in (tmp_path / "x.toml").read_text("utf-8")


ADULT = (
    "age",
    "workclass",
    "education-num",
    "capital-gain",
    "hours-per-week",
    "native-country",
    "income >50K",
    "class",
)


def test_every_column_of_a_census_file_is_declared_under_a_name_that_can_be_asked(tmp_path: Path):
    lines = [
        f"{17 + n % 74},{('Private', '?', 'State-gov')[n % 3]},{1 + n % 16},{(0, 0, 2174, 99999)[n % 4]},{1 + n % 99},"
        f"{('Cuba', 'United-States', '?')[n % 3]},{('<=50K', '>50K')[n % 2]},{('a', 'b')[n % 2]}"
        for n in range(900)
    ]
    (tmp_path / "adult.csv").write_text("\n".join([",".join(ADULT), *lines, ""]), encoding="utf-8")
    done = run("init", tmp_path / "adult.csv", "--output", tmp_path / "adult.toml")
    assert done.exit_code == 0, done.output
    file = DatasetFile.draft(tmp_path / "adult.toml")
    assert tuple(source_column_name(attribute) for attribute in file.schema.domain) == ADULT
    assert file.schema.domain.names[2:7] == (
        "education_num",
        "capital_gain",
        "hours_per_week",
        "native_country",
        "income_50K",
    )
    assert file.schema.domain["native_country"].labels == ("Cuba", "United-States")
    assert file.form.null == ("", "?")
    assert "source.null" in file.waiting
    assert file.schema.domain["capital_gain"].upper < 10_000
    assert "99999 may stand" in done.output
    assert run("check", tmp_path / "adult.toml").exit_code == 0
    run("confirm", tmp_path / "adult.toml", "--by", "ada", "--yes")
    dodona.create_ledger(tmp_path / "adult.toml")
    with dodona.open(tmp_path / "adult.toml") as adult:
        answer = adult.ask(
            "SELECT count(*) FROM adult WHERE hours_per_week > 40 AND income_50K = '>50K'", within="5%", max_price=1
        )
    assert answer.value.within <= 45


MESSY = {
    "semicolons, decimal commas, days first, windows": (
        "windows-1252",
        "Name;Betrag;Größe (cm);Datum\n",
        lambda n: (
            f"{('Köln', 'Bonn €')[n % 2]};{n % 90}.{n % 10}00,5;{100 + n % 90},25;{1 + n % 28}.{1 + n % 12}.2024\n"
        ),
        {"separator": ";", "encoding": "windows-1252", "decimal": ",", "thousands": ".", "dates": "day-first"},
        {"Name": "category", "Betrag": "number", "Größe_cm": "number", "Datum": "date"},
    ),
    "tabs, no names, thousands": (
        "utf-8",
        "",
        lambda n: f"{n % 7},{n % 10}00.50\t{('x', 'y', 'NA', '-')[n % 4]}\t{1 + n % 12}/{1 + n % 28}/2024\n",
        {"separator": "\t", "header": False, "thousands": ",", "dates": "month-first", "null": ["", "-", "NA"]},
        {"column1": "number", "column2": "category", "column3": "date"},
    ),
    "months first, with times of day": (
        "utf-8",
        "sold,paid\n",
        lambda n: (
            f"{1 + n % 12}/{1 + n % 28}/2024 {1 + n % 12}:{n % 60:02} {'AP'[n % 2]}M,"
            f"{1 + n % 12}/{1 + n % 28}/2024 {n % 24}:05\n"
        ),
        {"dates": "month-first"},
        {"sold": "timestamp", "paid": "timestamp"},
    ),
    "tabs, thousands beside fractions": (
        "utf-8",
        "milliseconds\tscore\n",
        lambda n: f"{n * 7919 % 90_000:,}\t0.{n * 37 % 1000:03}\n",
        {"separator": "\t", "thousands": ","},
        {"milliseconds": "integer", "score": "number"},
    ),
    "semicolons, dots between thousands": (
        "utf-8",
        "metres;kind\n",
        lambda n: f"{n * 7919 % 90_000:,};{'ab'[n % 2]}\n".replace(",", "."),
        {"separator": ";", "decimal": ",", "thousands": "."},
        {"metres": "integer", "kind": "category"},
    ),
    "no names, words beside decimal commas": (
        "utf-8",
        "",
        lambda n: f"{'ab'[n % 2]};{1_000 + n},{n % 90 + 10}\n",
        {"separator": ";", "header": False, "decimal": ","},
        {"column1": "category", "column2": "number"},
    ),
    "sixteen bits": (
        "utf-16",
        "age,who knows\n",
        lambda n: f"{(n % 90, -1, 999)[min(n % 40, 2) if n % 40 < 3 and n % 40 > 0 else 0]},{('null', 'ü')[n % 2]}\n",
        {"encoding": "utf-16", "null": ["", "null"]},
        {"age": "integer", "who_knows": "category"},
    ),
}


@pytest.mark.parametrize("name", MESSY)
def test_a_draft_finds_out_how_a_csv_file_is_written(name: str, tmp_path: Path):
    encoding, first, line, source, kinds = MESSY[name]
    text = first + "".join(line(n) for n in range(600))
    (tmp_path / "rows.csv").write_bytes(text.encode("cp1252" if encoding.startswith("w") else encoding))
    done = run("init", tmp_path / "rows.csv", "--output", tmp_path / "rows.toml")
    assert done.exit_code == 0, done.output
    draft = tomllib.loads((tmp_path / "rows.toml").read_text("utf-8"))
    assert {key: value for key, value in draft["source"].items() if key in CsvFormat.__dataclass_fields__} == source
    assert {f"source.{key}" for key in source} <= set(draft["review"]["from_data"])
    assert {key: column["kind"] for key, column in draft["columns"].items()} == kinds
    if "age" in kinds:
        assert (draft["columns"]["age"]["lower"], draft["columns"]["age"]["upper"]) == (0, 90)
    done = run("check", tmp_path / "rows.toml", "--json")
    for column in json.loads(done.stdout)["columns"]:
        assert column["outside"] == 0, column


def test_two_columns_that_would_get_one_name_get_two(tmp_path: Path):
    held = ["a b", "a-b", "a_b", "A.b", "\u202e"]
    lines = [",".join(str((n + place) % 9) for place in range(5)) for n in range(50)]
    (tmp_path / "rows.csv").write_text("\n".join([",".join(held), *lines, ""]), encoding="utf-8")
    done = run("init", tmp_path / "rows.csv", "--output", tmp_path / "rows.toml")
    assert done.exit_code == 0, done.output
    schema = DatasetFile.draft(tmp_path / "rows.toml").schema
    assert [(attribute.name, source_column_name(attribute)) for attribute in schema.domain] == [
        ("a_b_2", "a b"),
        ("a_b_3", "a-b"),
        ("a_b", "a_b"),
        ("A_b_4", "A.b"),
    ]
    assert "signs that cannot be printed" in (tmp_path / "rows.toml").read_text("utf-8")


def test_a_column_that_cannot_be_declared_is_listed_with_the_reason(tmp_path: Path):
    days = ["2024-01-%02d", "%d/7/24", "7.%d.2024", "%d-Jan-24"]
    lines = [f"{days[n % 3] % (1 + n % 28)},{n if n % 3 else f'about {n}'},word {n},{n % 9}" for n in range(200)]
    (tmp_path / "rows.csv").write_text("\n".join(["day,number,text,fine", *lines, ""]), encoding="utf-8")
    done = run("init", tmp_path / "rows.csv", "--output", tmp_path / "rows.toml")
    text = (tmp_path / "rows.toml").read_text("utf-8")
    assert "#   day: its texts look like days, in several orders" in text
    assert "#   number: many of its texts are numbers and many are not" in text
    assert "#   text: it has too many different texts" in text
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("held", "bounds"),
    [
        ([-1, *range(90), 999], (0, 90)),
        ([-9, *range(18, 80)], (10, 80)),
        (range(100), (0, 100)),
        ([-5, *range(50)], (-10, 50)),
        ([*range(40), 9_999_999], (0, 40)),
        ([*range(60, 100)], (60, 100)),
    ],
)
def test_codes_for_no_answer_are_no_bounds(held, bounds: tuple[int, int], tmp_path: Path):
    (tmp_path / "rows.csv").write_text("\n".join(["age", *map(str, held), ""]), encoding="utf-8")
    done = run("init", tmp_path / "rows.csv", "--output", tmp_path / "rows.toml")
    assert done.exit_code == 0, done.output
    age = DatasetFile.draft(tmp_path / "rows.toml").schema.domain["age"]
    assert (age.lower, age.upper) == bounds


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ([",age,sex", *(f"{row},{row % 90},f" for row in range(50))], ("column1", "age", "sex")),  # a frame's index
        (["age,sex,", *(f"{row % 90},f," for row in range(50))], ("age", "sex")),  # each line ends with a separator
        (["2024,age", *(f"{'yes' if row % 2 else 'no'},{row % 90}" for row in range(50))], ("c_2024", "age")),
        (["city,when", *(f"Rome,2024-01-{row % 28 + 1:02}" for row in range(50))], ("city", "when")),
        ([f"{'no' if row % 2 else 'yes'},{row % 90}" for row in range(50)], ("column1", "column2")),
        ([f"{'no' if row % 2 else 'yes'},{row % 90 or 'NA'}" for row in range(50)], ("column1", "column2")),
        ([f"{'ab'[row % 2]},{'cd'[row % 2]}" for row in range(50)], ("column1", "column2")),
        (['"1,234",b', *(f'"{row % 5},000",{"bc"[row % 2]}' for row in range(50))], ("column1", "column2")),
    ],
)
def test_a_first_line_is_one_of_names_or_a_row(tmp_path: Path, lines: list[str], names: tuple[str, ...]):
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = run("init", tmp_path / "rows.csv", "--output", tmp_path / "rows.toml")
    assert done.exit_code == 0, done.output
    assert DatasetFile.draft(tmp_path / "rows.toml").schema.domain.names == names
