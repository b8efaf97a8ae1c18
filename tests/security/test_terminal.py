"""Text of others is shown without what steers a terminal or turns the direction of writing."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dodona.cli.main import app
from dodona.errors import DodonaError, InvalidRequest, printable, printable_json
from dodona.ledger.chart import compute_burndown, draw_burndown
from dodona.privacy.budget import Analyst
from dodona.schema.attributes import Category
from tests.curator.scene import curator, ledger
from tests.dataset.scene import TOML, written

ESCAPE, CONTROL, TURN, HIDDEN, LINE = "\x1b[31m", "\x9b31m", "\u202e", "\u2066", "\u2028"
EVIL = ESCAPE + CONTROL + TURN + HIDDEN + LINE + "\x07\x08\r\U000e0041"
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")
COUNT = f'SELECT count(*) AS "old{EVIL}" FROM stays /* {EVIL} */ WHERE age >= 65'  # noqa: S608
GROUPS = f'SELECT sex AS "{EVIL}sex", count(*) AS "n{EVIL}" FROM stays GROUP BY sex'  # noqa: S608


def harmless(text: str) -> None:
    matches = STEERING.findall(text)
    assert matches == []


@pytest.mark.parametrize("question", [COUNT, GROUPS])
def test_answers_offers_and_the_history_steer_nothing(question: str, tmp_path: Path):
    kept = ledger(analysts=(Analyst("ada"),))
    asked = curator(kept=kept, analyst="ada")
    offer, answer = asked.quote(question, within=40), asked.ask(question, within=40)
    shown = [offer, answer, asked.history, kept.state(), asked.choose(GROUPS, epsilon=1)]
    for item in shown:
        harmless(str(item))
        harmless(repr(item).replace("\\x", ""))
    harmless(offer._repr_html_())
    harmless(answer._repr_html_())
    harmless(answer.to_json())
    assert json.loads(answer.to_json())["columns"][-1]["name"] == answer.columns[-1]  # and it means the same
    picture = answer.plot()
    labels = [picture.get_title(), picture.get_xlabel(), picture.get_ylabel()]
    for label in [*labels, *(tick.get_text() for tick in picture.get_yticklabels())]:
        harmless(label)
    draw_burndown(compute_burndown(kept.lines()), tmp_path / "burn.png")


def test_labels_and_names_that_a_description_shows_cannot_steer():
    for declare in (lambda: Category("sex", ("female", f"male{EVIL}")), lambda: Analyst(f"ada{TURN}")):
        with pytest.raises(InvalidRequest, match="printable") as refused:
            declare()
        harmless(str(refused.value))
    description = curator().describe()
    for text in (str(description), description._repr_html_(), description.to_json()):
        harmless(text)


def test_errors_steer_nothing():
    with pytest.raises(InvalidRequest) as caught:
        curator().ask(f'SELECT "{EVIL}" FROM stays')  # noqa: S608
    harmless(str(caught.value))
    harmless(str(DodonaError(EVIL)))


def test_commands_steer_nothing(tmp_path: Path):
    path = str(written(tmp_path, TOML))
    run = CliRunner().invoke
    environment = {"DODONA_ANALYST": "ada", "COLUMNS": "200"}
    for command in (
        ["ledger", "create", path],
        ["quote", path, COUNT],
        ["ask", path, COUNT, "--within", "50", "--key", f"key{EVIL}"],
        ["ask", path, GROUPS, "--within", "50"],
        ["ask", path, GROUPS, "--within", "50", "--json"],
        ["history", path],
        ["history", path, "--json"],
        ["budget", path],
        ["ledger", "show", path],
        ["ledger", "export", path],
        ["ask", path, f"SELECT {EVIL}"],
        ["ask", path, COUNT, "--analyst", EVIL],
    ):
        done = run(app, command, env=environment)
        harmless(done.output)
    assert "\\x1b" in run(app, ["history", path], env=environment).output


def test_what_is_no_threat_is_shown_as_it_is():
    for text in ("naïve café", "日本語", "10\u00a0000", "two\nlines", "عربي", "emoji 🙂"):
        assert printable(text) == text
    assert printable_json('{"a": "é"}') == '{"a": "é"}'
    assert json.loads(printable_json(json.dumps(EVIL, ensure_ascii=False))) == EVIL
