"""What a command says where a library is not installed."""

import pytest
import typer

from dodona.cli.terminal import report_errors


def test_a_library_that_is_not_installed_is_named(capsys):
    with pytest.raises(typer.Exit) as ended, report_errors():
        raise ModuleNotFoundError(name="matplotlib.figure")
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err == "This needs matplotlib, which is not installed. Run: pip install matplotlib\n"


def test_a_module_of_ours_that_is_missing_is_a_fault_of_ours():
    with pytest.raises(ModuleNotFoundError), report_errors():
        raise ModuleNotFoundError(name="dodona.nothing")
