"""Commands that ask a server: the same options, with the dataset's name in the place of its file."""

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dodona.cli.main import app
from dodona.client.settings import Settings, read_settings, settings_path, write_settings
from tests.client.scene import make_dataset

QUESTION = "SELECT ward, count(*) AS n FROM stays GROUP BY ward"


def run(*words: str, stdin: str | None = None, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(words), input=stdin)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def asked(server, monkeypatch) -> list[str]:
    """The options that name the server; the token is in the environment."""
    monkeypatch.setenv("DODONA_TOKEN", server.tokens["ada"])
    return ["--server", server.url]


def test_a_question_is_asked_of_a_server(asked):
    shown = run("ask", "stays", QUESTION, "--within", "60", *asked).stdout
    assert "east" in shown
    assert "Each interval holds the exact value" in shown
    document = json.loads(run("ask", "stays", QUESTION, "--within", "60", "--json", *asked).stdout)
    assert [column["name"] for column in document["columns"]] == ["ward", "n"]
    assert document["price"]["share"] == "0"


def test_an_answer_of_a_server_is_written_to_a_file(asked, tmp_path):
    for name in ("a.csv", "a.parquet", "a.json"):
        run("ask", "stays", QUESTION, "--within", "60", "--output", str(tmp_path / name), *asked)
    assert (tmp_path / "a.csv").read_text().splitlines()[0] == "ward,n,n_low,n_high"


def test_a_quote_a_description_a_budget_and_a_history_come_from_a_server(asked):
    assert "nothing is spent yet" in run("quote", "stays", "SELECT sum(age) FROM stays", *asked).stdout
    assert "price" in json.loads(run("quote", "stays", "SELECT sum(age) FROM stays", "--json", *asked).stdout)
    assert "ada may spend" in " ".join(run("describe", "stays", *asked).stdout.split())
    assert json.loads(run("describe", "stays", "--json", *asked).stdout)["dataset"] == "stays"
    run("ask", "stays", "SELECT count(*) FROM stays WHERE age < 81", "--within", "60", *asked)
    assert "ada may still spend" in run("budget", "stays", *asked).stdout
    assert "yours" in json.loads(run("budget", "stays", "--json", *asked).stdout)
    assert "age < 81" in run("history", "stays", *asked).stdout
    assert json.loads(run("history", "stays", "--json", *asked).stdout)[-1]["analyst"] == "ada"


def test_an_error_of_a_server_has_its_code_and_its_exit_code(asked):
    wrong = run("ask", "stays", "SELECT nothing FROM stays", *asked, code=2)
    assert "Nothing was charged." in wrong.stderr
    refused = run("ask", "stays", QUESTION, "--epsilon", "1", "--fresh", "--max-price", "0.00001%", *asked, code=3)
    assert refused.stderr.startswith("price-above-maximum:")


def test_a_key_on_the_command_line_is_charged_once(asked):
    words = ("ask", "stays", "SELECT count(*) FROM stays WHERE age < 82", "--within", "60", "--fresh", "--key", "cli")
    first, again = (json.loads(run(*words, "--json", *asked).stdout) for _ in range(2))
    assert first["receipt"] == again["receipt"]
    assert first["rows"] == again["rows"]


def test_a_server_in_the_environment_is_asked_about_names_and_not_about_files(server, monkeypatch, tmp_path):
    monkeypatch.setenv("DODONA_SERVER", server.url)
    monkeypatch.setenv("DODONA_TOKEN", server.tokens["ada"])
    assert json.loads(run("describe", "stays", "--json").stdout)["analyst"] == "ada"
    file = make_dataset(tmp_path)
    assert json.loads(run("describe", str(file), "--json", "--analyst", "ben").stdout)["analyst"] == "ben"


def test_a_token_is_kept_for_its_owner_alone_and_used_from_there(server):
    said = run("login", server.url, stdin=f"{server.tokens['ada']}\n").stdout
    path = settings_path()
    assert str(path) in said
    assert "stays" in said
    assert server.tokens["ada"] not in said
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(run("describe", "stays", "--json").stdout)["analyst"] == "ada"
    run("logout", server.url)
    assert read_settings(path) == Settings()
    assert "There is no token" in run("logout", server.url, code=2).stderr


def test_a_wrong_token_is_not_kept(server):
    assert run("login", server.url, stdin="wrong\n", code=3).stderr.startswith("not-authenticated:")
    assert not settings_path().exists()
    assert "no token" in run("login", server.url, stdin="\n", code=2).stderr


def test_a_token_is_never_an_argument(server):
    assert "Got unexpected extra argument" in run("login", server.url, "dodona_token", code=2).stderr
    assert "No such option" in run("ask", "stays", QUESTION, "--token", "x", code=2).stderr


def test_settings_that_others_may_read_are_refused(server):
    path = settings_path()
    write_settings(path, Settings(server.url, {server.url: server.tokens["ada"]}))
    path.chmod(0o644)
    assert f"chmod 600 {path}" in " ".join(run("describe", "stays", code=2).stderr.split())


def test_a_name_without_a_server_is_a_file_that_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "nothere" in run("describe", "nothere", code=2).stderr


def test_a_command_that_asks_a_server_loads_no_engine(server, tmp_path):
    import os
    import subprocess
    import sys

    code = (
        "import sys; from dodona.cli.main import app; app(['ask', 'stays', sys.argv[1], '--within', '60'], "
        "standalone_mode=False); print(*{'duckdb', 'scipy', 'sqlglot', 'pyarrow'} & set(sys.modules), 'done')"
    )
    environment = os.environ | {"DODONA_SERVER": server.url, "DODONA_TOKEN": server.tokens["ada"]}
    done = subprocess.run(
        [sys.executable, "-c", code, QUESTION],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "done"


def test_choices_watches_workloads_and_weights_are_asked_of_a_server(asked, tmp_path):
    groups = "SELECT urgent, count(*) FROM stays GROUP BY urgent"
    assert "False" in run("choose", "stays", groups, "--epsilon", "5", *asked).stdout
    counts = [f"SELECT count(*) FROM stays WHERE age < {age}" for age in (3, 95, 96)]  # noqa: S608
    file: Path = tmp_path / "counts.sql"
    file.write_text("\n".join(counts))
    watched = run("above", "stays", "400", "--file", str(file), "--epsilon", "20", *asked).stdout
    assert "That was the last alert; 1 questions were not asked." in watched
    assert "are now free" in run("prepare", "stays", *counts, "--within", "60", *asked).stdout
    weighed = json.loads(run("weights", "stays", *counts, "--epsilon", "50", "--json", *asked).stdout)
    assert len(weighed["answers"]) == 3
    wrong = run("above", "stays", "400", *counts, "SELECT nothing FROM stays", "--epsilon", "20", *asked, code=2)
    assert "Nothing was charged." in wrong.stderr
