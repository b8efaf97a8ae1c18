from fractions import Fraction

import pytest

from dodona.dataset.file import DatasetFile
from dodona.errors import InvalidRequest
from dodona.privacy.accountants import Accountant
from dodona.privacy.budget import Analyst
from dodona.schema.toml import InvalidFile
from tests.dataset.scene import TOML, written


def test_a_dataset_file_says_everything(tmp_path):
    file = DatasetFile.read(written(tmp_path))
    assert file.dataset == "hospital-stays"
    assert (file.kind, file.version, file.rows) == ("csv", "2026-10", tmp_path / "stays.csv")
    assert (file.budget.epsilon, file.budget.accountant) == (1, Accountant.RENYI)
    assert file.analysts == (Analyst("ada", Fraction(1, 2)),)
    assert (file.within, file.confidence) == ("5%", 0.9)
    assert file.place == tmp_path / "stays.ledger"
    assert file.head_place is None


def test_columns_have_a_meaning_that_is_no_part_of_the_schema(tmp_path):
    text = TOML.replace("upper = 99", 'upper = 99\nmeans = "Years since birth: ≥ 18"')
    file = DatasetFile.read(written(tmp_path, text))
    assert file.meanings == {"age": "Years since birth: ≥ 18"}
    assert file.schema.digest == DatasetFile.read(written(tmp_path)).schema.digest


def test_without_delta_the_budget_is_pure(tmp_path):
    file = DatasetFile.read(written(tmp_path, TOML.replace('delta = "1e-6"\n', "")))
    assert file.budget.accountant is Accountant.PURE


def test_the_owner_chooses_what_becomes_of_questions_past_the_budget(tmp_path):
    chosen = TOML.replace('delta = "1e-6"', 'delta = "1e-6"\nafter = "model"')
    assert DatasetFile.read(written(tmp_path, chosen)).after == "model"
    assert DatasetFile.read(written(tmp_path)).after == "refuse"


def test_a_database_ledger_is_named_by_a_variable(tmp_path, monkeypatch):
    text = TOML.replace('path = "stays.ledger"', 'url = "env:STAYS_LEDGER"\nhead = "stays.head"')
    file = DatasetFile.read(written(tmp_path, text))
    with pytest.raises(InvalidRequest, match="STAYS_LEDGER is not set"):
        assert file.place
    monkeypatch.setenv("STAYS_LEDGER", "postgresql://reader@localhost/x#stays")
    assert file.place == "postgresql://reader@localhost/x#stays"
    assert file.head_place == tmp_path / "stays.head"


WRONG = [
    ("format = 1", "format = 2", 1, "out of range"),
    ('dataset = "hospital-stays"', "", 1, "dataset is missing"),
    ('kind = "csv"', 'kind = "excel"', 5, '"parquet"'),
    ('path = "stays.csv"', "", 4, "source.path is missing"),
    ('version = "2026-10"', "version = 7", 8, "source.version is a whole number; write a text"),
    ('epsilon = "1"', 'epsilon = "0"', 16, "epsilon"),
    ('epsilon = "1"', "epsilon = nan", 16, "budget.epsilon"),
    ('delta = "1e-6"', 'delta = "1"', 17, "delta"),
    ('delta = "1e-6"', 'delta = "1e-6"\naccountant = "normal"', 18, "accountant"),
    ('delta = "1e-6"', 'delta = "1e-6"\nafter = "guess"', 18, "after"),
    ('path = "stays.ledger"', "", 19, "ledger.path is missing"),
    ('path = "stays.ledger"', 'url = "postgresql://u:secret@h/x"', 20, "may hold a password"),
    ('within = "5%"', "within = true", 23, "no tolerance"),
    ('within = "5%"', f"within = 0x{'f' * 5_000}", 23, "too large"),
    ("upper = 99", f"upper = 0x{'f' * 5_000}", 38, "out of range"),
    ("upper = 99", f"upper = 99\notherwise = 0x{'f' * 5_000}", 39, "otherwise"),
    ("upper = 99", 'upper = 99\nmeans = "two\\nlines"', 39, "cannot be seen"),
    ("upper = 99", f'upper = 99\nmeans = "{"long" * 100}"', 39, "too long"),
    ("upper = 99", "upper = 99\nmeans = 7", 39, "a text"),
    ('dataset = "hospital-stays"', 'dataset = "/../../evil"', 2, "without slashes"),
    ('dataset = "hospital-stays"', 'dataset = "a\\\\b"', 2, "without slashes"),
    ('dataset = "hospital-stays"', 'dataset = "a\\u0000b"', 2, "without slashes"),
    ("confidence = 0.9", "confidence = 1", 24, "confidence"),
    ('max_price = "100%"', 'max_price = "2 percent"', 25, 'write max_price = "2%"'),
    ('max_price = "100%"', "max_price = 2", 25, "no part of the budget"),
    ('share = "1/2"', 'share = "3/2"', 29, "share"),
    ('share = "1/2"', 'share = "150%"', 29, "share"),
    ('share = "1/2"', 'share = "1/2"\n[[analysts]]\nname = "ada"', 31, "stands twice"),
    ('name = "ada"', 'nane = "ada"', 28, "did you mean name"),
    ("[columns.sex]", '[review]\nfrom_data = ["columns.age.upper"]\n[columns.sex]', 32, "not confirmed"),
    ("[defaults]", "[default]", 22, "default is not known"),
]


@pytest.mark.parametrize(("old", "new", "line", "words"), WRONG, ids=[words for *_, words in WRONG])
def test_a_mistake_is_told_with_its_line(tmp_path, old, new, line, words):
    assert old in TOML
    with pytest.raises(InvalidFile) as caught:
        DatasetFile.read(written(tmp_path, TOML.replace(old, new, 1)))
    message = str(caught.value)
    assert words in message
    assert f"stays.toml:{line}" in message
    assert "secret" not in message
    assert "Nothing was charged" in message


def test_all_mistakes_are_told_together(tmp_path):
    text = (
        TOML.replace('kind = "csv"', 'kind = "excel"').replace('epsilon = "1"', "").replace("upper = 99", "upper = -1")
    )
    with pytest.raises(InvalidFile) as caught:
        DatasetFile.read(written(tmp_path, text))
    message = str(caught.value)
    assert [message.index(words) for words in ("source.kind", "budget.epsilon", "columns.age")] == sorted(
        message.index(words) for words in ("source.kind", "budget.epsilon", "columns.age")
    )


def test_a_share_may_be_a_percentage(tmp_path):
    text = TOML.replace('share = "1/2"', 'share = "50%"')
    assert text != TOML
    assert DatasetFile.read(written(tmp_path, text)).analysts == DatasetFile.read(written(tmp_path)).analysts
