"""A dataset file with its rows, written into a folder."""

from pathlib import Path

TOML = """\
format = 1
dataset = "hospital-stays"

[source]
kind = "csv"
path = "stays.csv"
table = "stays"
version = "2026-10"

[unit]
protects = "row"
neighbours = "add-remove"
size = 1_000

[budget]
epsilon = "1"
delta = "1e-6"

[ledger]
path = "stays.ledger"

[defaults]
within = "5%"
confidence = 0.9
max_price = "100%"

[[analysts]]
name = "ada"
share = "1/2"

[columns.sex]
kind = "category"
labels = ["female", "male"]

[columns.age]
kind = "integer"
lower = 0
upper = 99
"""


def rows(number: int = 1_000) -> str:
    lines = (f"{'female' if row % 3 else 'male'},{row % 100}" for row in range(number))
    return "\n".join(["sex,age", *lines]) + "\n"


def written(folder: Path, text: str = TOML) -> Path:
    """Return the path of a dataset file whose rows are beside it."""
    (folder / "stays.csv").write_text(rows(), encoding="utf-8")
    path = folder / "stays.toml"
    path.write_text(text, encoding="utf-8")
    return path
