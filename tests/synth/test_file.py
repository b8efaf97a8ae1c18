"""The release file: read whole, and every mistake told with its line and what to write."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

from dodona.dataset.file import DatasetFile
from dodona.schema.toml import InvalidFile
from dodona.synth.file import SynthesisFile
from dodona.synth.methods import Annealed, Blr, Guaranteed, Mwem
from tests.synth.scene import DATASET

GOOD = 'format = 1\ndataset = "stays.toml"\nepsilon = "1"\n'


def read(tmp_path: Path, text: str) -> SynthesisFile:
    (tmp_path / "stays.toml").write_text(DATASET, encoding="utf-8")
    path = tmp_path / "workload.toml"
    path.write_text(text, encoding="utf-8")
    return SynthesisFile.read(path)


def test_a_whole_file_is_read(tmp_path: Path):
    file = read(
        tmp_path,
        'format = 1\ndataset = "stays.toml"\nname = "spring"\nshare = "1/2"\nmethod = "mwem"\n'
        '[settings]\nrounds = 7\nhypothesis = "average"\n'
        '[[workload]]\nways = 2\n[[workload]]\nby = ["sex"]\n'
        '[[workload]]\nsql = "SELECT count(*) FROM stays WHERE days > 3 AND emergency"\n'
        '[output]\npath = "made-up.csv"\nkind = "sampled"\ncount = 50\nreport = "report.html"\n',
    )
    assert file.share == Fraction(1, 2)
    assert file.method == Mwem(rounds=7, hypothesis="average")
    assert len(file.workload.query.blocks) == 5
    assert file.output.path == tmp_path / "made-up.csv"
    assert (file.output.kind, file.output.count) == ("sampled", 50)


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ('workload = "2-way"\n', 3),
        ('target = "sex"\n', 3),
        ('workload = "1-way"\ncolumns = ["sex", "days"]\n', 2),
    ],
)
def test_a_workload_may_be_a_word(tmp_path: Path, text: str, blocks: int):
    assert len(read(tmp_path, GOOD + text).workload.query.blocks) == blocks


@pytest.mark.parametrize(
    ("word", "method"), [("annealed", Annealed()), ("guaranteed", Guaranteed()), ("blr", Blr()), ("mwem", Mwem())]
)
def test_methods_are_named_by_words(tmp_path: Path, word: str, method: object):
    assert read(tmp_path, f'{GOOD}method = "{word}"\n[[workload]]\nways = 1\n').method == method


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('share = "1/2"\n[[workload]]\nways = 1\n', ":3: epsilon and share contradict"),
        ("[[workload]]\nways = 4\n", ":5: workload[0].ways = 4 is out of range"),
        ('[[workload]]\nways = 2\nby = ["sex"]\n', "must say one of"),
        ('[[workload]]\nby = ["sex", "height"]\n', ":5: workload[0].by is not accepted: by has height"),
        ('[[workload]]\nby = ["sex"]\n[[workload]]\nby = ["sex"]\n', ":6: workload[1] asks for what stands before"),
        ('[[workload]]\nways = 1\ncolumns = ["sex", "sex"]\n', "columns has a name twice"),
        ('[[workload]]\nsql = "SELECT height FROM stays"\n', ":5: workload[0].sql is not accepted"),
        ('[[workload]]\nsql = "SELECT sum(days) FROM stays"\n', "adds up values"),
        ('method = "blr"\n[settings]\nrounds = 3\n[[workload]]\nways = 1\n', "means nothing to method blr"),
        ('method = "blr"\n[settings]\nrows = 3\nwithin = 0.1\n[[workload]]\nways = 1\n', "Both rows and within"),
        ('method = "aim"\n[[workload]]\nways = 1\n', ':4: method = "aim" is not known'),
        ('[[workload]]\nways = 1\n[output]\npath = "made-up.xlsx"\n', "ends in none of .parquet, .csv, .arrow"),
        ('[[workload]]\nways = 1\n[output]\npath = "no/made-up.csv"\n', "folder that does not exist"),
        ('[[workload]]\nways = 1\n[output]\nkind = "weighted"\ncount = 3\n', "contradicts weighted rows"),
        ("[[workload]]\nways = 1\nrounds = 3\n", "workload[0].rounds is not known"),
        ("", "workload is missing"),
        ('workload = "all"\n', ":4: workload is not accepted: 'all' is no workload. Write one of '1-way'"),
        ('target = "height"\n', ":4: target is not accepted: target = 'height' is no column"),
    ],
)
def test_mistakes_are_told_with_their_line(tmp_path: Path, text: str, said: str):
    with pytest.raises(InvalidFile) as refused:
        read(tmp_path, GOOD + text)
    assert said in str(refused.value)
    assert "Nothing was charged." in str(refused.value)


def test_a_price_is_needed(tmp_path: Path):
    with pytest.raises(InvalidFile, match="epsilon is missing, and so is share"):
        read(tmp_path, 'format = 1\ndataset = "stays.toml"\n[[workload]]\nways = 1\n')


CHILD = '[[constraints]]\nwhen = "days < 3"\nthen = "sex = \'male\'"\n'


def test_a_dataset_file_declares_public_constraints(tmp_path: Path):
    (tmp_path / "stays.toml").write_text(DATASET + CHILD + '[[constraints]]\nnever = "emergency AND days = 0"\n')
    constraints = DatasetFile.read(tmp_path / "stays.toml").schema.constraints
    assert [str(constraint) for constraint in constraints] == [
        "when days < 3 then sex = 'male'",
        "never emergency AND days = 0",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CHILD.replace("days", "height"), ":28: constraints[0] is not accepted: .* There is no column `height`"),
        (CHILD + CHILD.replace("'male'", "'female'"), ":31: constraints[1] is not accepted: .* contradict each other"),
        ('[[constraints]]\nwhen = "days < 3"\n', ":28: constraints[0] is not accepted: write when= and then="),
        ('[[constraints]]\nnever = "days < 3"\nwho = "me"\n', "constraints[0].who is not known"),
        ('constraints = "days < 3"\n', "constraints"),
    ],
)
def test_a_constraint_that_cannot_be_met_is_told_with_its_line(tmp_path: Path, text: str, said: str):
    path = tmp_path / "stays.toml"
    path.write_text(text + DATASET if text.startswith("c") else DATASET + text)
    with pytest.raises(InvalidFile) as refused:
        DatasetFile.read(path)
    assert re.search(said.replace("[", r"\[").replace("]", r"\]"), str(refused.value)), str(refused.value)
