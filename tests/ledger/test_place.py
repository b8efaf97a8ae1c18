"""Where a ledger is: what should be an address and is none is refused, and no address is ever shown."""

import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dodona
from dodona.cli.main import app
from dodona.errors import DodonaError, InvalidRequest
from dodona.ledger import opening
from dodona.ledger.opening import AddressRefused
from tests.dataset.scene import TOML, written
from tests.ledger.scene import shared_server, terms_of

SECRET = "hunter2"  # noqa: S105  nobody's
ADDRESSES = [
    f"host=127.0.0.1 port=1 user=ada password={SECRET} dbname=none",
    f"password = {SECRET}",
    f"POSTGRESQL://ada:{SECRET}@127.0.0.1:1/none#stays",
    f"postgresql+psycopg://ada:{SECRET}@127.0.0.1:1/none#stays",
    f"mysql://ada:{SECRET}@127.0.0.1:1/none",
    f" postgresql://ada:{SECRET}@127.0.0.1:1/none",
    f"postgresql://ada:{SECRET}%zz@127.0.0.1:1/none#stays",
    f"postgresql://ada:{SECRET}@127.0.0.1:port/none#stays",
    f"postgresql://ada:#{SECRET}@127.0.0.1:1/none#stays",
    f"postgresql://ada:{SECRET} @127.0.0.1:1/none#stays",
    f"postgresql://ada:{SECRET}@[127.0.0.1/none#stays",
]
UNREACHABLE = [
    f"postgresql://ada:{SECRET}@127.0.0.1:1/none#stays",
    f"postgresql://ada:{SECRET}@127.0.0.1:1/none?colour={SECRET}#stays",
]
ACTS = {
    "create": lambda where, head: opening.create_ledger_at(where, terms_of(), head=head),
    "open": lambda where, head: opening.open_ledger(where, head=head),
    "recover": lambda where, head: opening.recover_ledger(where, head=head),
}


def whole(fault: BaseException) -> str:
    """All that a log would show of an error, with what it came from."""
    return "".join(traceback.format_exception(fault)) + repr(fault.__context__) + repr(fault.__cause__)


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize("address", ADDRESSES)
def test_what_is_no_address_is_refused_without_being_shown_and_makes_no_file(
    address: str, act, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for where in (address, Path(address)):
        with pytest.raises(DodonaError) as caught:
            act(where, tmp_path / "head")
        assert SECRET not in whole(caught.value)
        assert not [name for name in os.listdir(tmp_path) if SECRET in name]  # noqa: PTH208
    with pytest.raises(AddressRefused):
        opening.validate_address(address)


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize("address", UNREACHABLE)
def test_what_a_driver_says_of_an_address_is_not_passed_on(address: str, act, tmp_path: Path):
    with pytest.raises(DodonaError) as caught:
        act(address, tmp_path / "head")
    assert SECRET not in whole(caught.value)


@pytest.mark.parametrize("address", [*ADDRESSES, *UNREACHABLE, SECRET, f"./{SECRET}.ledger", ""])
@pytest.mark.parametrize(
    "command", [("ask", "FILE", "SELECT count(*) FROM stays"), ("ledger", "create", "FILE"), ("ledger", "show", "ENV")]
)
def test_no_command_shows_the_address_that_a_variable_holds(
    address: str, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    text = TOML.replace('path = "stays.ledger"', 'url = "env:STAYS_LEDGER"\nhead = "head"')
    path = str(written(tmp_path, text))
    before = set(os.listdir(tmp_path))  # noqa: PTH208
    words = [{"FILE": path, "ENV": "env:STAYS_LEDGER"}.get(word, word) for word in command]
    done = CliRunner().invoke(app, words, env={"STAYS_LEDGER": address, "DODONA_ANALYST": "ada"})
    assert done.exit_code != 0
    assert isinstance(done.exception, SystemExit)
    assert SECRET not in done.output
    assert set(os.listdir(tmp_path)) == before  # noqa: PTH208


def test_creating_a_ledger_in_a_database_does_not_return_its_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = TOML.replace('path = "stays.ledger"', 'url = "env:STAYS_LEDGER"\nhead = "head"')
    path = written(tmp_path, text)
    monkeypatch.setenv("STAYS_LEDGER", f"{shared_server().address}#returned-{os.getpid()}")
    assert dodona.create_ledger(path) == "env:STAYS_LEDGER"


def test_a_command_names_a_ledger_in_a_database_without_its_address(tmp_path: Path):
    where = f"{shared_server().address}#named-{os.getpid()}"
    options = ["--dataset", "stays=digest", "--epsilon", "1", "--accountant", "pure", "--head", str(tmp_path / "head")]
    done = CliRunner().invoke(app, ["ledger", "create", where, *options])
    assert (done.exit_code, done.stdout) == (0, f"created: 'named-{os.getpid()}' in a database\n")


@pytest.mark.parametrize(
    ("library", "code", "words"),
    [
        ("psycopg", "opening.open_ledger('postgresql://127.0.0.1:1/none', head=Path('head'))", "dodona[postgres]"),
        ("matplotlib", "chart.draw_burndown(None, Path('burn.png'))", "dodona[plot]"),
    ],
)
def test_a_library_that_is_not_installed_is_named_with_what_to_install(library: str, code: str, words: str):
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from dodona.errors import InvalidRequest\n"
        "from dodona.ledger import chart, opening\n"
        "sys.path_importer_cache.clear()\n"
        f"sys.modules.pop({library!r}, None)\n"
        "sys.path[:] = [entry for entry in sys.path if 'site-packages' not in entry]\n"
        f"try: {code}\n"
        "except InvalidRequest as fault: print(fault)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert words in done.stdout, done.stderr


def test_a_path_is_a_path(tmp_path: Path):
    for name in ("stays.ledger", "a folder of 2026/stays.ledger", "user stays.ledger", "§.ledger"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        opening.create_ledger_at(tmp_path / name, terms_of())
        opening.open_ledger(str(tmp_path / name)).close()
    assert isinstance(opening.display_place(tmp_path), str)
    with pytest.raises(InvalidRequest):
        opening.validate_address(str(tmp_path / "stays.ledger"))
