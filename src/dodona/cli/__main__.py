"""`python -m dodona.cli` is `dodona`."""

from dodona.cli.main import app

app(prog_name="dodona")
