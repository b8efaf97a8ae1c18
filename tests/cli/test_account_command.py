"""`dodona account`: secrets are shown once, read from a prompt or a pipe, and are in no other output."""

from __future__ import annotations

import json
import os
import pty
import select
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dodona.cli.main import app
from dodona.dataset import open_dataset_ledger
from dodona.server.accounts import Accounts
from tests.dataset.scene import written
from tests.server.accounts.scene import database_place

PASSWORD = "correct horse battery"  # noqa: S105  of a test


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that is served, with one dataset and its ledger."""
    assert CliRunner().invoke(app, ["ledger", "create", str(written(tmp_path))]).exit_code == 0
    return tmp_path


def run(folder: Path, *arguments: str, typed: str = "", code: int = 0):
    done = CliRunner().invoke(
        app, ["account", *arguments], input=typed, env={"DODONA_ACCOUNTS": str(folder)}, catch_exceptions=False
    )
    assert done.exit_code == code, done.output
    return done


def opened(folder: Path) -> Accounts:
    return Accounts.open(folder / ".dodona" / "accounts" / "accounts.sqlite")


def test_an_account_is_added_with_a_role_and_a_share_in_the_ledger(folder: Path):
    done = run(folder, "add", "bob", "--dataset", "hospital-stays", "--share", "1/4", "--email", "Bob@example.org")
    assert done.stdout == (
        "added: bob\nbob is analyst of hospital-stays\n"
        "admitted in the ledger of hospital-stays: bob, 1/4 of the budget\n"
    )
    with opened(folder) as accounts:
        assert accounts.account("bob").grants == {"hospital-stays": "analyst"}
    with open_dataset_ledger(folder / "stays.toml") as ledger:
        assert {analyst.name: str(analyst.share) for analyst in ledger.state().analysts} == {"ada": "1/2", "bob": "1/4"}


@pytest.mark.parametrize(
    "command", [["add", "bob", "--dataset", "hospital-stays"], ["grant", "bob", "hospital-stays", "analyst"]]
)
def test_who_has_a_role_but_no_share_is_said_not_to_be_able_to_spend(folder: Path, command):
    if command[0] == "grant":
        run(folder, "add", "bob")
    done = run(folder, *command)
    admit = f"dodona ledger admit {folder / 'stays.toml'} bob --share 1/2"
    assert done.stdout.splitlines()[-1] == (
        f"bob may not spend from hospital-stays yet: write --share, or run `{admit}`"
    )
    assert CliRunner().invoke(app, admit.split()[1:]).exit_code == 0
    assert "may not spend" not in run(folder, "grant", "bob", "hospital-stays", "analyst").stdout


def test_a_dataset_may_be_named_by_its_file_and_without_a_share_the_ledger_stays(folder: Path):
    run(folder, "add", "bob", "--dataset", str(folder / "stays.toml"), "--role", "auditor", "--dataset", "*")
    with opened(folder) as accounts:
        assert accounts.account("bob").grants == {"hospital-stays": "auditor", "*": "auditor"}
    with open_dataset_ledger(folder / "stays.toml") as ledger:
        assert [analyst.name for analyst in ledger.state().analysts] == ["ada"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--dataset", "elsewhere", "--share", "1/4"),
        ("--dataset", "hospital-stays", "--share", "2"),
        ("--dataset", "hospital-stays", "--role", "owner", "--share", "1/4"),
        ("--share", "1/4"),
        ("--dataset", "hospital-stays", "--role", "god"),
        ("--dataset", ""),
        ("--email", "nowhere"),
    ],
    ids=str,
)
def test_what_cannot_be_done_leaves_the_ledger_as_it_was(folder: Path, arguments: tuple[str, ...]):
    run(folder, "add", "bob", *arguments, code=2)
    with open_dataset_ledger(folder / "stays.toml") as ledger:
        assert [analyst.name for analyst in ledger.state().analysts] == ["ada"]


def test_a_role_is_granted_and_taken_away(folder: Path):
    run(folder, "add", "bob")
    assert run(folder, "grant", "Bob", "*", "owner").stdout == "bob is owner of every dataset\n"
    done = run(folder, "grant", "Bob", "hospital-stays", "analyst", "--share", "10%")
    assert done.stdout.splitlines()[1] == "admitted in the ledger of hospital-stays: bob, 1/10 of the budget"
    assert run(folder, "grant", "bob", "*", "none").stdout == "bob has no role for every dataset\n"
    fields = json.loads(run(folder, "grant", "bob", "town", "auditor", "--json").stdout)
    assert fields["account"]["grants"] == {"hospital-stays": "analyst", "town": "auditor"}


def test_a_token_is_alone_on_standard_output_and_shown_once(folder: Path):
    run(folder, "add", "bob")
    done = run(folder, "token", "bob", "--name", "laptop", "--max-price", "1%", "--dataset", "hospital-stays")
    text = done.stdout.strip()
    with opened(folder) as accounts:
        identity = accounts.authenticate_token(text)
    assert identity is not None
    assert (identity.account, identity.max_price, identity.datasets) == ("bob", "1%", frozenset({"hospital-stays"}))
    assert text not in done.stderr
    assert identity.token is not None
    assert identity.token in done.stderr
    for later in (("list",), ("list", "bob"), ("list", "--json"), ("list", "bob", "--json")):
        said = run(folder, *later)
        assert text not in said.output
        assert text[7:30] not in said.output
    listed = json.loads(run(folder, "list", "--json").stdout)
    assert [account["name"] for account in listed["accounts"]] == ["bob"]
    assert listed["accounts"][0]["tokens"][0]["id"] == identity.token


def test_a_token_goes_to_a_new_file_that_only_its_owner_may_read(folder: Path, tmp_path: Path):
    run(folder, "add", "bob")
    before = os.umask(0)
    try:
        fields = json.loads(run(folder, "token", "bob", "--output", str(tmp_path / "token"), "--json").stdout)
    finally:
        os.umask(before)
    assert "token" not in fields
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    with opened(folder) as accounts:
        assert accounts.authenticate_token((tmp_path / "token").read_text().strip()) is not None
    run(folder, "token", "bob", "--output", str(tmp_path / "token"), code=2)
    run(folder, "token", "nobody", "--output", str(tmp_path / "other"), code=2)
    assert not (tmp_path / "other").exists()
    with opened(folder) as accounts:
        assert len(accounts.tokens("bob")) == 1


def test_a_token_may_hold_for_a_day_or_until_it_is_revoked(folder: Path):
    run(folder, "add", "bob")
    text = run(folder, "token", "bob", "--days", "0").stdout.strip()
    with opened(folder) as accounts:
        (info,) = accounts.tokens("bob")
        assert info.expires is None
    run(folder, "stop", "bob", "--token", info.id)
    with opened(folder) as accounts:
        assert accounts.authenticate_token(text) is None
    run(folder, "stop", "bob", "--token", info.id, code=2)
    run(folder, "token", "bob", "--days", "-1", code=2)
    day = json.loads(run(folder, "token", "bob", "--days", "1", "--json").stdout)
    assert day["expires"] > day["created"]


def test_a_password_is_read_from_a_pipe_and_in_no_output(folder: Path):
    run(folder, "add", "bob")
    done = run(folder, "password", "bob", typed=f"{PASSWORD}\n")
    assert done.output == "set: the password of bob\n"
    with opened(folder) as accounts:
        assert accounts.authenticate_password("bob", PASSWORD) is not None
    for weak in ("", "short"):
        assert "password-refused" in run(folder, "password", "bob", typed=f"{weak}\n", code=2).stderr
    run(folder, "password", "bob", PASSWORD, code=2)  # there is no such argument


@pytest.mark.slow
def test_a_password_is_typed_twice_on_a_terminal_and_not_shown(folder: Path):
    run(folder, "add", "bob")
    screen, terminal = pty.openpty()
    command = [sys.executable, "-m", "dodona.cli", "account", "password", "bob", "--accounts", str(folder)]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        try:
            shown = wait_for(screen, "Password: ")
            os.write(screen, f"{PASSWORD}\n".encode())
            shown += wait_for(screen, "confirmation: ")
            os.write(screen, f"{PASSWORD}\n".encode())
            shown += wait_for(screen, "set: the password of bob")
            assert process.wait(60) == 0
        finally:
            process.kill()  # where it hangs; one that has ended is left as it is
            os.close(screen)
    assert PASSWORD not in shown
    with opened(folder) as accounts:
        assert accounts.authenticate_password("bob", PASSWORD) is not None


def wait_for(screen: int, words: str) -> str:
    """Return what a terminal shows until it shows these words."""
    shown, until = "", time.monotonic() + 60
    while words not in shown:
        assert time.monotonic() < until, shown
        if select.select([screen], [], [], 0.5)[0]:
            shown += os.read(screen, 4096).decode()
    return shown


def test_a_stopped_account_is_listed_and_resumed(folder: Path):
    run(folder, "add", "bob")
    text = run(folder, "token", "bob").stdout.strip()
    assert "its tokens, sessions and password have ended" in run(folder, "stop", "bob").stdout
    assert "stopped 20" in run(folder, "list").stdout
    assert "account-stopped" in run(folder, "token", "bob", code=2).stderr
    assert run(folder, "resume", "bob").stdout == "resumed: bob\n"
    with opened(folder) as accounts:
        assert accounts.authenticate_token(text) is None


def test_an_account_is_tied_to_a_login(folder: Path):
    run(folder, "add", "bob")
    done = run(folder, "login", "bob", "--issuer", "https://login.example.org", "--subject", "4711", "--json")
    assert json.loads(done.stdout)["account"]["login"] is True


def test_the_accounts_are_for_their_owner_alone(folder: Path):
    before = os.umask(0)
    try:
        run(folder, "add", "bob")
    finally:
        os.umask(before)
    path = folder / ".dodona" / "accounts" / "accounts.sqlite"
    assert [stat.S_IMODE(location.stat().st_mode) for location in (path, path.parent)] == [0o600, 0o700]
    path.chmod(0o644)
    assert "chmod 600" in run(folder, "list", code=4).stderr


def test_nothing_but_add_makes_accounts(folder: Path):
    for command in (("list",), ("token", "bob"), ("stop", "bob"), ("grant", "bob", "x", "owner"), ("password", "bob")):
        assert "accounts-missing" in run(folder, *command, code=4).stderr
    assert not (folder / ".dodona").exists()
    run(folder, "add", "bob")
    assert "account-exists" in run(folder, "add", "BOB", code=2).stderr
    assert "role" in run(folder, "add", "eve", "--dataset", "stays", "--role", "boss", code=2).stderr
    assert "account-missing" in run(folder, "token", "eve", code=2).stderr


def test_a_database_is_named_by_the_environment_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place = database_place(tmp_path)
    monkeypatch.setenv("THE_ACCOUNTS", str(place.address))
    runner = CliRunner()
    added = runner.invoke(app, ["account", "add", "bob", "--accounts", "env:THE_ACCOUNTS"])
    assert added.exit_code == 0, added.output
    with Accounts.open(place.address) as accounts:
        assert [account.name for account in accounts.list()] == ["bob"]
    for wrong in (str(place.address), "env:NOT_SET"):
        refused = runner.invoke(app, ["account", "list", "--accounts", wrong])
        assert refused.exit_code == 2
        assert "owner@" not in refused.output


def test_an_address_with_a_password_is_in_no_error(monkeypatch: pytest.MonkeyPatch):
    for address in (
        "postgresql://owner:hunter2@127.0.0.1:9/x",
        "postgres:/owner:hunter2@x",
        "mysql://owner:hunter2@x/y",
    ):
        monkeypatch.setenv("THE_ACCOUNTS", address)
        refused = CliRunner().invoke(app, ["account", "list", "--accounts", "env:THE_ACCOUNTS"])
        assert refused.exit_code in {2, 4}
        assert "hunter2" not in refused.output
