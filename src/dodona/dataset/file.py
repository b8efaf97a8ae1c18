"""The dataset file: everything that an owner declares; every mistake is reported with its line.

Secrets are written as `env:NAME` only, and their values are never shown.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from dodona.curator.planner import default_accuracy
from dodona.curator.request import DEFAULT_MAX_PRICE, AfterBudget, DefaultTolerance
from dodona.dataset.constraints import read_constraints
from dodona.engines.files import PLAIN_CSV, CsvFormat
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.ledger.limits import NO_LIMITS, Limits
from dodona.ledger.opening import LedgerPlace, LedgerTerms, validate_address
from dodona.numbers import to_fraction, to_share
from dodona.privacy.accountants import Accountant, Spending
from dodona.privacy.budget import Analyst, Budget, default_accountant
from dodona.privacy.events import ExponentialEvent
from dodona.schema.file import columns_with, read_meanings, read_schema
from dodona.schema.schema import Neighbours, PublicTable, Schema
from dodona.schema.toml import TomlTable
from dodona.trusted.source import generate_cap_key

# --- Secrets: a dataset file names them as `env:NAME` only, and their values are never shown. ---


ENV_PREFIX = "env:"


def read_secret(reference: str) -> str:
    """Return the value of an environment variable; it is never shown."""
    name = reference.removeprefix(ENV_PREFIX)
    value = os.environ.get(name)
    if not value:
        raise InvalidRequest(f"The environment variable {name} is not set, and the dataset file refers to it.")
    return value


# --- The dataset file: everything that an owner declares, with the line of every mistake. ---


_KINDS = ("parquet", "csv", "duckdb", "postgres", "spark")
_ACCOUNTANTS = tuple(accountant.value for accountant in Accountant)
_LOWEST, _HIGHEST = Fraction(0), Fraction(10**4)
_SMALLEST = Fraction(1, 10**12)
_MOST_DRAFTS = 100
_DRAFTED = "the cap on rows, chosen for the draft"
_SURE = Fraction(1, 10**9)
_WEEK = 7 * 24 * 3600
_TIMEOUT = 300
_LONGEST = 200
_WIDEST_TOLERANCE = 100  # bits


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFile:
    """The owner's declarations."""

    path: Path
    dataset: str
    schema: Schema
    kind: str
    source: str
    """The location of the rows, relative to the file; or `env:NAME` of an address; empty for a running Spark session.
    """
    source_table: str | None
    form: CsvFormat
    """The format of CSV files."""
    timeout: int
    """The statement timeout in seconds, for servers."""
    version: str
    kept: str | None
    """Where the counted rows of people are stored once selected: a table, or a folder for Spark."""
    budget: Budget
    drafted: tuple[Fraction, ...]
    """The ε of each private selection made while drafting: the ledger begins with them."""
    after: AfterBudget
    """What happens to questions that the budget cannot pay for."""
    analysts: tuple[Analyst, ...]
    ledger: str
    """A path relative to the file, or `env:NAME` of an address."""
    head: str | None
    within: int | float | str | DefaultTolerance
    """The default tolerance; chosen from public facts if the file does not set one."""
    confidence: float
    max_price: Fraction
    """The default limit on the share of the budget that one call may spend."""
    previews: bool = False
    """Whether tools that ask for rows are shown made-up ones."""
    linked: Mapping[str, str] = field(default_factory=dict)
    """Where each linked table is: a path relative to the file, or a name in the database."""
    meanings: Mapping[str, str] = field(default_factory=dict)
    """What columns mean, in the owner's words."""
    limits: Limits = NO_LIMITS
    """The owner's limits on spending when the ledger is created; it records later changes."""
    waiting: tuple[str, ...] = ()
    """Unconfirmed entries that came from the data: nothing is served until this is empty."""
    confirmed_by: str = ""

    @classmethod
    def read(cls, path: str | Path) -> DatasetFile:
        """Read a dataset file, or raise with all of its mistakes; a draft is refused."""
        root = TomlTable.read(path)
        file = _read(root, Path(path))
        if file is not None and file.waiting:
            _refuse_draft(root, file.waiting)
        return root.finish(file)

    @classmethod
    def draft(cls, path: str | Path) -> DatasetFile:
        """Read a dataset file that may still await review: for the owner's tools, never for serving."""
        return parse_draft(TomlTable.read(path), Path(path))

    @property
    def terms(self) -> LedgerTerms:
        """The terms to create its ledger with; the key is new each time."""
        return LedgerTerms(
            datasets={self.dataset: self.schema.digest},
            neighbours=self.schema.unit.neighbours,
            budget=self.budget,
            analysts=self.analysts,
            cap_key=generate_cap_key(),
            limits=self.limits,
            earlier=tuple(
                (_DRAFTED, ExponentialEvent(epsilon, self.schema.unit.neighbours)) for epsilon in self.drafted
            ),
        )

    @property
    def place(self) -> str | Path:
        """The location of the ledger."""
        if self.ledger.startswith(ENV_PREFIX):
            return validate_address(read_secret(self.ledger))
        return self.path.parent / self.ledger

    @property
    def head_place(self) -> LedgerPlace | None:
        """The location of the second copy of the chain's head, a path or an address; None for beside the ledger."""
        if self.head is None:
            return None
        return read_secret(self.head) if self.head.startswith(ENV_PREFIX) else self.path.parent / self.head

    @property
    def rows(self) -> Path:
        """The location of the rows, if in files."""
        return self.path.parent / self.source

    @property
    def linked_places(self) -> dict[str, str]:
        """The location of each linked table: a path, or a name in the database."""
        files = self.kind in {"parquet", "csv"} or (
            self.kind == "spark" and self.source and self.source[:4] != ENV_PREFIX
        )
        inside = {name: str(self.path.parent / place) for name, place in self.linked.items() if "://" not in place}
        return dict(self.linked) | inside if files else dict(self.linked)

    @property
    def kept_place(self) -> str | None:
        """The location of the stored counted rows: a table, a folder path, or an address that Spark knows."""
        if self.kept is None or self.kind == "postgres" or "://" in self.kept:
            return self.kept
        return str(self.path.parent / self.kept)

    @property
    def address(self) -> str:
        """The address of the rows, if in a server. It may hold a password."""
        return read_secret(self.source)


def parse_draft(root: TomlTable, path: Path) -> DatasetFile:
    """Parse a dataset file that may still await review."""
    return root.finish(_read(root, path))


def _read(root: TomlTable, path: Path) -> DatasetFile | None:
    root.whole("format", example="format = 1", lower=1, upper=1)
    dataset = _dataset(root)
    schema = read_schema(root)
    source = _source(root)
    tables = _tables(root, path, "" if source is None else source["kind"])
    budget = _budget(root)
    ledger = _ledger(root)
    analysts = _analysts(root)
    within, confidence, max_price, previews = _defaults(root)
    limits = _limits(root)
    waiting, confirmed_by = _review(root)
    schema = read_constraints(root, schema)
    meanings = read_meanings(root)
    root.close()
    missing = (dataset, schema, source, budget, ledger, analysts, tables)
    if dataset is None or schema is None or source is None or budget is None or None in missing:
        return None
    linked, public = tables or ({}, ())
    schema = replace(schema, public=public)
    wanted = default_accuracy(schema.unit, budget["budget"], confidence) if within is None else within
    asked = {"within": wanted, "confidence": confidence, "max_price": max_price, "limits": limits, "previews": previews}
    review = {"waiting": waiting, "confirmed_by": confirmed_by}
    parts = source | budget | (ledger or {}) | asked | review | {"linked": linked, "meanings": meanings}
    return DatasetFile(path=path, dataset=dataset, schema=schema, analysts=analysts or (), **parts)


def _dataset(root: TomlTable) -> str | None:
    """Return the dataset's name, which is part of the name of a file beside it."""
    name = root.text("dataset", example='dataset = "hospital-stays"')
    if name is not None and (not name.isprintable() or len(name.encode()) > _LONGEST or set(name) & set("/\\")):
        accepted = "write at most 200 bytes of letters, digits and signs without slashes"
        root.note("dataset", f'is no name; {accepted}, such as dataset = "hospital-stays"')
        return None
    return name


def _source(root: TomlTable) -> dict[str, Any] | None:
    source = root.table("source", example='[source] with kind = "parquet" and path = "stays.parquet"')
    if source is None:
        return None
    kind = source.choice("kind", _KINDS)
    timeout: int | None = _TIMEOUT
    if kind == "postgres":
        place = _address(source, example='url = "env:STAYS_DATABASE"')
        if source.has("timeout"):
            timeout = source.whole("timeout", example="timeout = 300", lower=1, upper=_WEEK)
    elif kind == "spark":
        place = _spark(source)
    else:
        place = source.text("path", example='path = "stays/*.parquet"')
    version = source.text("version", example='version = "2026-10"', default="1")
    inner = source.text("source_table", example='source_table = "main.stays"') if source.has("source_table") else None
    form = _csv_format(root, source) if kind == "csv" else _no_csv_format(root)
    kept = source.text("kept", example='kept = "dodona.stays_kept"') if source.has("kept") else None
    if kept is not None and kind not in {"postgres", "spark"}:
        source.note("kept", "is for postgres and spark; leave it out, as DuckDB keeps the rows that count in memory")
    source.has("table")
    source.close()
    if kind is None or place is None or timeout is None or version is None or form is None:
        return None
    opened = {"kind": kind, "source": place, "source_table": inner, "timeout": timeout}
    return opened | {"version": version, "form": form, "kept": kept}


def _tables(root: TomlTable, path: Path, kind: str) -> tuple[dict[str, str], tuple[PublicTable, ...]] | None:
    """Return where each linked table is, and the public tables, which are read here; None after noting mistakes."""
    if not root.has("tables") or not isinstance(root.content["tables"], dict):
        return {}, ()
    from dodona.engines.public import read_public_table  # loads DuckDB

    tables = root.table("tables", example="[tables.patients]")
    linked, public, whole = dict[str, str](), list[PublicTable](), True
    for name in () if tables is None else tables.keys:
        table = None if tables is None else tables.table(name, example=f"[tables.{name}]")
        if table is None:
            return None
        if table.content.get("public") is True:
            where = table.text("path", example=f'path = "{name}.csv"')
            key = table.text("key", example='key = "region"')
            public_table = None
            if where is not None and key is not None:
                public_table = table.make(partial(read_public_table, name, path.parent / where, key))
            whole = whole and public_table is not None
            public += [] if public_table is None else [public_table]
        else:
            word = "path" if kind in {"parquet", "csv"} or (kind == "spark" and table.has("path")) else "source_table"
            example = f'path = "{name}.{kind}"' if word == "path" else f'source_table = "{name}"'
            place = table.text(word, example=example, default=None if word == "path" else name)
            whole = whole and place is not None
            linked[name] = place or ""
        table.close()
    return (linked, tuple(public)) if whole else None


def _csv_format(root: TomlTable, source: TomlTable) -> CsvFormat | None:
    """Return the format of CSV files."""
    words = {"separator": ";", "encoding": "latin-1", "decimal": ",", "thousands": ".", "dates": "day-first"}
    read = dict[str, Any]()
    for key, word in words.items():
        if source.has(key):
            value = source.content[key]  # a tab is a text too
            read[key] = value if isinstance(value, str) else source.text(key, example=f'{key} = "{word}"')
    if source.has("header"):
        read["header"] = source.boolean("header", example="header = false")
    if source.has("null"):
        read["null"] = source.texts("null", example='null = ["NA", "-", ""]')
    column_nulls = [
        (table, name, column.texts("null", example='null = ["999", ""]'))
        for table, name, column in columns_with("null", root)
    ]
    read["column_null"] = tuple(entry for entry in column_nulls if entry[2] is not None)
    if None in read.values() or len(read["column_null"]) < len(column_nulls):
        return None
    return source.make(lambda: CsvFormat(**read))


def _no_csv_format(root: TomlTable) -> CsvFormat:
    for _, _, column in columns_with("null", root):
        column.note("null", "is for CSV files; take it away, as other files have NULL of their own")
    return PLAIN_CSV


def _address(where: TomlTable, *, example: str) -> str | None:
    """Return the name of the variable that holds an address."""
    place = where.text("url", example=example)
    if place is not None and not place.startswith(ENV_PREFIX):
        where.note("url", f"may hold a password or a token; write the name of a variable, such as {example}")
    return place


def _spark(source: TomlTable) -> str | None:
    """Return where Spark finds the rows: a folder, the variable of an address, or empty for the running session."""
    if source.has("path"):
        return source.text("path", example='path = "stays"')
    return _address(source, example='url = "env:STAYS_SPARK"') if source.has("url") else ""


def _budget(root: TomlTable) -> dict[str, Any] | None:
    budget = root.table("budget", example='[budget] with epsilon = "1" and delta = "1e-6"')
    if budget is None:
        return None
    epsilon = budget.exact("epsilon", example='epsilon = "1"', lower=_LOWEST, upper=_HIGHEST)
    delta = budget.exact("delta", example='delta = "1e-6"', lower=_LOWEST, upper=Fraction(1), default=_LOWEST)
    accountant = budget.choice("accountant", _ACCOUNTANTS, default=default_accountant(delta or _LOWEST).value)
    after = budget.choice("after", ("refuse", "model"), default="refuse")
    drafted = _draft_epsilons(budget)
    budget.close()
    if epsilon is None or delta is None or accountant is None or after is None or drafted is None:
        return None
    made = budget.make(lambda: Budget(epsilon, delta, accountant))
    if made is None:
        return None
    if not drafts_fit(made, drafted):
        budget.note("drafted", "takes more than the whole budget; write a larger epsilon, or decide on unit.rows alone")
    return {"budget": made, "after": after, "drafted": drafted}


def _draft_epsilons(budget: TomlTable) -> tuple[Fraction, ...] | None:
    """Return the ε of each private selection made while drafting."""
    if not budget.has("drafted"):
        return ()
    example = 'drafted = ["0.1"]'
    listed = budget.items("drafted", example=example)
    if listed is not None and len(listed) > _MOST_DRAFTS:
        budget.note("drafted", f"is too long; write at most {_MOST_DRAFTS} numbers, as in {example}")
        return None
    epsilons = list[Fraction]()
    for place, value in enumerate(listed or ()):
        try:
            number = value if isinstance(value, str | int | Decimal) else ""
            epsilons.append(to_fraction(number, argument="drafted", lower=_SMALLEST, upper=_HIGHEST))
        except InvalidArgument as fault:
            budget.note(("drafted", place), f"is no epsilon of a draft: {fault.accepted}; here {example}")
    return None if listed is None or len(epsilons) < len(listed) else tuple(epsilons)


def drafts_fit(budget: Budget, drafted: tuple[Fraction, ...]) -> bool:
    """Return whether a budget can pay for the selections made while drafting."""
    paying, spent = budget.filter(), Spending()
    for epsilon in drafted:
        after = paying.after(spent, ExponentialEvent(epsilon, Neighbours.ADD_REMOVE))  # the cost is the same under both
        if after is None:
            return False
        spent = after
    return True


def _ledger(root: TomlTable) -> dict[str, Any] | None:
    ledger = root.table("ledger", example='[ledger] with path = "stays.ledger"')
    if ledger is None:
        return None
    if ledger.has("url"):
        place = _address(ledger, example='url = "env:LEDGER_DATABASE"')
    else:
        place = ledger.text("path", example='path = "stays.ledger"')
    head = ledger.text("head", example='head = "env:STAYS_HEAD_FILE"') if ledger.has("head") else None
    ledger.close()
    return None if place is None else {"ledger": place, "head": head}


def _analysts(root: TomlTable) -> tuple[Analyst, ...] | None:
    if not root.has("analysts"):
        return ()
    analysts = []
    for entry in root.tables("analysts", example='[[analysts]] with name = "ada" and share = "1/2"') or ():
        name = entry.text("name", example='name = "ada"')
        share = entry.share("share", example='share = "1/2"', lower=_LOWEST, default=Fraction(1))
        entry.close()
        analyst = None if name is None or share is None else entry.make(partial(Analyst, name, share))
        if analyst is not None:
            analysts.append(analyst)
    names = [analyst.name for analyst in analysts]
    for place, name in enumerate(names):
        if name in names[:place]:
            root.note(("analysts", place, "name"), "stands twice; write each analyst once")
    return tuple(analysts)


def _defaults(root: TomlTable) -> tuple[int | float | str | None, float, Fraction, bool]:
    """Return the default tolerance, confidence and maximum price, and whether made-up rows may be shown."""
    usual = Fraction(95, 100)
    defaults = root.table("defaults", example='[defaults] with within = "1%"') if root.has("defaults") else None
    if defaults is None:
        return None, float(usual), DEFAULT_MAX_PRICE, False
    within: int | float | str | None = None
    if defaults.has("within"):
        value = defaults.content["within"]
        if isinstance(value, str) and value.strip():
            within = value
        elif isinstance(value, bool) or value is None or isinstance(value, str | list | dict):
            defaults.note("within", 'is no tolerance; write within = "1%" or within = 50')
        elif isinstance(value, int) and value.bit_length() > _WIDEST_TOLERANCE:
            defaults.note("within", 'is too large; write within = "1%" or within = 50')
        else:
            within = float(str(value))
    sure = {"lower": _SURE, "upper": 1 - _SURE, "default": usual}
    confidence = defaults.exact("confidence", example="confidence = 0.95", **sure)
    max_price = _max_price(defaults)
    previews = defaults.boolean("previews", example="previews = true", default=False)
    defaults.close()
    return within, float(usual if confidence is None else confidence), max_price, bool(previews)


def _max_price(defaults: TomlTable) -> Fraction:
    """Return the maximum share of the budget that one call may spend."""
    if not defaults.has("max_price"):
        return DEFAULT_MAX_PRICE
    value = defaults.content["max_price"]
    if isinstance(value, str | int | Decimal):
        try:
            return to_share(value, argument="max_price")
        except InvalidArgument:
            pass
    defaults.note("max_price", 'is no part of the budget; write max_price = "2%"')
    return DEFAULT_MAX_PRICE


def _limits(root: TomlTable) -> Limits:
    """Return the limits on spending that the ledger begins with."""
    limits = root.table("limits", example='[limits] with question = "2%"') if root.has("limits") else None
    if limits is None:
        return NO_LIMITS
    shares = {
        name: limits.share(name, example=f'{name} = "{example}"', lower=_SMALLEST) if limits.has(name) else None
        for name, example in (("question", "2%"), ("analyst_day", "10%"), ("dataset_day", "20%"))
    }
    approvals = limits.boolean("approvals", example="approvals = true", default=False)
    limits.close()
    return Limits(**shares, approvals=bool(approvals))


def _review(root: TomlTable) -> tuple[tuple[str, ...], str]:
    """Return the entries still awaiting review, and the last reviewer."""
    review = root.table("review", example="[review]") if root.has("review") else None
    if review is None:
        return (), ""
    waiting = review.texts("from_data", example="from_data = []") if review.has("from_data") else ()
    who = review.content.get("confirmed_by", "") if review.has("confirmed_by") else ""  # for people to read
    review.close()
    return waiting or (), str(who)


def _refuse_draft(root: TomlTable, waiting: tuple[str, ...]) -> None:
    """Note that a draft cannot be served yet: the owner must first review the bounds that came from the data."""
    root.note(
        ("review", "from_data"),
        f"lists what came from the data and was not confirmed: {', '.join(waiting)}; look at each, correct it to what "
        "is known without the data, and empty the list, or run `dodona confirm`",
    )
