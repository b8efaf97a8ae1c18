import json
import re

import pytest
from typer.testing import CliRunner

import dodona
from dodona.cli.main import app
from tests.dataset.scene import written

OLD = "SELECT count(*) FROM stays WHERE age >= 65"
BY_SEX = "SELECT sex, count(*) FROM stays GROUP BY sex"


@pytest.fixture
def dataset(tmp_path):
    path = written(tmp_path)
    assert run("ledger", "create", str(path)).exit_code == 0
    return str(path)


def run(*arguments: str, text=None):
    return CliRunner().invoke(app, list(arguments), input=text, env={"DODONA_ANALYST": "ada"})


def test_a_quote_a_question_and_what_is_left(dataset):
    offer = run("quote", dataset, OLD, "--within", "50")
    assert offer.exit_code == 0
    assert "nothing is spent yet" in offer.stdout
    answer = run("ask", dataset, OLD, "--within", "50")
    assert answer.exit_code == 0
    assert "± 50" in answer.stdout
    assert "Source: measured" in answer.stdout
    assert "Source: replayed" in run("ask", dataset, OLD, "--within", "50").stdout
    budget = run("budget", dataset)
    assert "ada may still spend" in budget.stdout
    history = run("history", dataset)
    assert OLD in " ".join(history.stdout.split())


def test_a_refused_price_is_allowed_by_the_option_that_is_named(dataset):
    refused = run("ask", dataset, OLD, "--within", "50", "--max-price", "0.01%")
    assert refused.exit_code == 3
    said = re.search(r"--within ([\d.]+) would cost .* To allow it, write --max-price ([\d.]+%)\.", refused.stderr)
    assert said is not None, refused.stderr
    assert run("ask", dataset, OLD, "--within", said[1], "--max-price", "0.01%").exit_code == 0
    assert run("ask", dataset, OLD, "--within", "50", "--max-price", said[2]).exit_code == 0


def test_groups_have_error_bars(dataset):
    answer = run("ask", dataset, BY_SEX, "--within", "5%")
    assert answer.stdout.count("●") == 4
    assert "<missing>" in answer.stdout


def test_a_statement_of_two_halves_is_shown_with_error_bars_and_explained(dataset):
    text = "SELECT sex, 100.0 * count(*) / sum(count(*)) OVER () AS share FROM stays GROUP BY sex"
    explained = run("ask", dataset, f"EXPLAIN {text}", "--within", "5%")
    assert explained.exit_code == 0
    assert "nothing is spent yet" in " ".join(explained.stdout.split())
    answer = run("ask", dataset, text, "--within", "5%")
    assert answer.stdout.count("●") == 4
    assert "approximate" in answer.stdout
    refused = run("ask", dataset, "SELECT n, foo(n) FROM (SELECT count(*) AS n FROM stays) AS x")
    assert refused.exit_code == 2
    assert "`foo` is not computed on answers" in refused.stderr


def test_everything_has_a_form_for_programs(dataset):
    price = json.loads(run("quote", dataset, BY_SEX, "--json").stdout)["price"]
    answer = json.loads(run("ask", dataset, BY_SEX, "--json").stdout)
    assert answer["price"] == price
    assert len(answer["rows"]) == 4
    assert json.loads(run("budget", dataset, "--json").stdout)["charges"] == 1
    assert json.loads(run("history", dataset, "--json").stdout)[0]["text"] == BY_SEX


def test_a_question_may_come_from_standard_input(dataset):
    assert run("ask", dataset, "-", "--epsilon", "0.1", text=OLD).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["SELECT * FROM stays"], 2, "Line 1, column 8"),
        ([OLD, "--within", "some"], 2, "no tolerance"),
        ([OLD, "--within", "1%", "--epsilon", "1"], 2, "not both"),
        ([OLD, "--epsilon", "9"], 3, "Nothing was charged"),
        ([OLD, "--analyst", "eve"], 3, "let in"),
    ],
)
def test_a_refusal_has_its_own_exit_code_and_costs_nothing(dataset, arguments, code, words):
    refused = run("ask", dataset, *arguments)
    assert refused.exit_code == code
    assert words in refused.stderr
    assert json.loads(run("budget", dataset, "--json").stdout)["charges"] == 0


def test_a_ledger_is_shown_by_the_name_of_its_dataset(dataset):
    run("ask", dataset, OLD)
    assert "released" in run("ledger", "show", dataset).stdout
    assert run("ledger", "verify", dataset).stdout.startswith("verified")


def test_asking_without_a_ledger_says_what_to_do(tmp_path):
    refused = run("ask", str(written(tmp_path)), OLD)
    assert refused.exit_code != 0
    assert "dodona ledger create" in refused.stderr


def test_the_commands_are_the_python_surface(dataset):
    output = run("ask", dataset, OLD, "--within", "50", "--json").stdout
    with dodona.open(dataset, analyst="ada") as stays:
        assert json.loads(stays.ask(OLD, within=50).to_json())["rows"] == json.loads(output)["rows"]


def test_intervals_for_any_choice_are_an_option_that_notes_name(dataset):
    groups = run("ask", dataset, "SELECT sex, count(*) FROM stays GROUP BY sex", "--within", "50")
    assert groups.exit_code == 0, groups.output
    arguments = ("ask", dataset, "SELECT count(*) FROM stays WHERE sex = 'female'", "--within", "100")
    plain = run(*arguments)
    assert "--intervals any_choice, or ask with --fresh" in " ".join(plain.output.split())
    wide = run(*arguments, "--intervals", "any_choice")
    assert "Whatever the question was chosen by" in " ".join(wide.output.split())
    assert run(*arguments, "--intervals", "wide").exit_code == 2
    average = run("ask", dataset, "SELECT avg(age) FROM stays", "--within", "20", "--intervals", "any_choice")
    assert average.exit_code == 2
    assert "charge stands" in average.output.lower() or "was charged" in average.output.lower()
    assert "nothing was charged" not in average.output.lower()
