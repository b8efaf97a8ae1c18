"""`dodona.open`: from a dataset file or a frame to a curator. It never creates the ledger of a dataset file."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dodona.domain.schema import Schema
from dodona.errors import InvalidRequest
from dodona.exact import Exact, share_of
from dodona.ledger import memory, place
from dodona.ledger.opening import Terms
from dodona.mechanisms.measurement import noises_from
from dodona.online.after import After
from dodona.online.curator import Curator
from dodona.online.dataset import Dataset
from dodona.online.request import USUAL_MAX_PRICE, Request, usual_tolerance
from dodona.opening.extra import extra
from dodona.opening.file import DatasetFile
from dodona.opening.secret import VARIABLE, secret
from dodona.opening.version import hold_frame, hold_source, hold_version
from dodona.policy import Analyst, Budget
from dodona.query.canonical import digest
from dodona.trusted.source import fresh_key

if TYPE_CHECKING:
    from dodona.backends.postgres import PostgresSource
    from dodona.backends.spark import SparkSource
    from dodona.ledger.contract import Ledger
    from dodona.trusted.source import Source

_CONFIDENCE = 0.95
_REHEARSED = Request(within="1%", epsilon=None, confidence=_CONFIDENCE)
_UNLIMITED = Fraction(10**4)


def open_dataset(  # noqa: PLR0913  the surface
    data: object,
    /,
    *,
    schema: Schema | None = None,
    budget: Budget | None = None,
    analyst: str | None = None,
    ledger: str | Path | None = None,
    version: str = "1",
    after: After = "refuse",
    max_price: Exact | None = None,
) -> Curator:
    """Return a curator of a dataset file, or of a frame with its schema and budget.

    A frame whose rows changed gets a new version, or it is refused over the same ledger. A frame without `ledger`
    keeps its ledger in memory: what was spent is forgotten when the process ends. With `after="model"` a question
    that the budget cannot buy is answered by a model, marked and without a guarantee; else it is refused. One call
    takes at most `max_price` of the budget, "2%" unless said, where it does not say more itself.
    """
    if isinstance(data, str | Path):
        given = (schema, budget, ledger, max_price)
        if any(one is not None for one in given) or after != "refuse":
            raise InvalidRequest(
                "A dataset file says everything itself. Leave schema, budget, ledger, after and max_price out."
            )
        return _from_file(DatasetFile.read(data), analyst)
    if schema is None or budget is None:
        raise InvalidRequest("A frame needs schema= and budget=: what its columns may hold, and what may be spent.")
    terms = _terms(schema, budget, schema.table, () if analyst is None else (Analyst(analyst),))
    account = _frame_ledger(terms, schema, ledger)
    try:
        source = _frame(schema, data, ledger, version, account.cap_key)
    except BaseException:
        account.close()
        raise
    if ledger is None:
        warnings.warn(
            "The ledger is in memory: what is spent is forgotten when this process ends. Write ledger= to keep it.",
            stacklevel=3,
        )
    default = Request(
        within=usual_tolerance(schema.unit, budget),
        epsilon=None,
        confidence=_CONFIDENCE,
        max_price=USUAL_MAX_PRICE if max_price is None else share_of(max_price, argument="max_price"),
    )
    dataset = Dataset(name=schema.table, schema=schema, source=source, ledger=account, default=default, after=after)
    return Curator(dataset, analyst=analyst)


def rehearse(data: object, /, *, schema: Schema | None = None, analyst: str | None = None) -> Curator:
    """Return a curator with the same surface on made-up rows of the schema; there is no budget to spend.

    Nothing is read but the schema, so it needs no permission and tells nothing about anybody.
    """
    from dodona.backends.memory import MemorySource
    from dodona.opening.made_up import made_up

    budget = Budget(_UNLIMITED, "1e-6", "renyi")
    name, default = "rehearsal", _REHEARSED
    if isinstance(data, str | Path):
        file = DatasetFile.read(data)
        schema, name = file.schema, file.dataset
        default = Request(within=file.within, epsilon=None, confidence=file.confidence)
        if file.budget.delta == 0:
            budget = Budget(_UNLIMITED, 0, "pure")
    elif isinstance(data, Schema):
        schema = data
    if schema is None:
        raise InvalidRequest("A rehearsal needs a dataset file or a schema.")
    terms = _terms(schema, budget, name, () if analyst is None else (Analyst(analyst),))
    ledger = memory.create(terms)
    source = MemorySource(schema, made_up(schema), version="rehearsal", key=ledger.cap_key)
    return Curator(Dataset(name=name, schema=schema, source=source, ledger=ledger, default=default), analyst=analyst)


def create_ledger(
    path: str | Path, /, *, schema: Schema | None = None, budget: Budget | None = None, analysts: Sequence[Analyst] = ()
) -> Path | str:
    """Create the ledger that a dataset file names, or one at a path for a frame, and return where that says it is.

    An existing one is never touched. With schema and budget the path is that of the ledger itself.
    """
    if schema is None or budget is None:
        file = DatasetFile.read(path)
        place.create(file.place, file.terms, head=file.head_file)
        return file.ledger if file.ledger.startswith(VARIABLE) else file.place
    place.create(path, _terms(schema, budget, schema.table, tuple(analysts)))
    return path if isinstance(path, Path) else place.named(path)


def ledger_of(path: str | Path, /) -> Ledger:
    """Return the ledger that a dataset file names, open; the data are not touched."""
    file = DatasetFile.read(path)
    return place.open_ledger(file.place, head=file.head_file, dataset=file.dataset, schema=file.schema.digest)


def _from_file(file: DatasetFile, analyst: str | None) -> Curator:
    ledger = ledger_of(file.path)
    try:
        ledger.permit(analyst)  # before a row is read
        source = source_of(file, ledger.cap_key, owner=analyst is None)
    except BaseException:
        ledger.close()
        raise
    default = Request(within=file.within, epsilon=None, confidence=file.confidence, max_price=file.max_price)
    dataset = Dataset(
        name=file.dataset,
        schema=file.schema,
        source=source,
        ledger=ledger,
        default=default,
        after=file.after,
        left_out=left_out_words(ledger, file.schema, file.version),
    )
    return Curator(dataset, analyst=analyst)


def source_of(file: DatasetFile, key: bytes, *, owner: bool) -> Source:
    """Return the rows of a dataset file, which must still be those of its version; the owner is warned of them."""
    from dodona.backends.duckdb import DuckDBSource

    if file.kind in {"postgres", "spark"}:
        return _held(file, _server(file, key, file.kept_place), key, owner=owner)
    new = hold_version(file, key)
    match file.kind:
        case "parquet":
            source = DuckDBSource.parquet(file.schema, file.rows, version=file.version, key=key)
        case "csv":
            source = DuckDBSource.csv(file.schema, file.rows, form=file.form, version=file.version, key=key)
        case _:
            source = DuckDBSource.table(file.schema, file.rows, table=file.source_table, version=file.version, key=key)
    if new and owner:
        _warn_unread(source.unread())
    return source


def _warn_unread(names: Sequence[str]) -> None:
    """Tell the owner, who opens a version first, which columns hold nothing that is declared.

    It depends on the rows, so no analyst hears it: whoever opens under a name is not warned.
    """
    if names:
        warnings.warn(
            f"No row has a declared value in {', '.join(names)}: all that stands there counts as <outside>. Check the "
            "kind, the labels and, of CSV files, how numbers and dates are written; `dodona check` shows figures.",
            stacklevel=5,
        )


def left_out_words(ledger: Ledger, schema: Schema, version: str) -> str:
    """Return what was published of the rows that the cap leaves out; nothing where nothing was."""
    if schema.unit.id is None:
        return ""
    from dodona.backends.check import left_out_query, most_left_out

    found = ledger.released(digest(left_out_query(schema)), version)
    if not found:
        return ""
    value, (noise,) = int(found[0].values[0]), noises_from(found[0].mechanism)
    within = math.ceil(noise.accuracy(_CONFIDENCE).within)
    low, high = max(0, value - within), max(0, value + within)
    return (
        f"That leaves out {low:,} to {high:,} rows (at {_CONFIDENCE:.0%}, counting at most "
        f"{most_left_out(schema):,} of each person)."
    )


def keep_rows(path: str | Path, /, *, url: str | None = None) -> str:
    """Find the rows of people that count, and keep them where the dataset file says; return where that is.

    `url` is `env:NAME` of an address whose role may write, where the one of the file may not.
    """
    file = DatasetFile.read(path)
    where = file.kept_place
    if where is None or file.schema.unit.id is None:
        raise InvalidRequest(
            'Rows are kept where people are protected, behind PostgreSQL or Spark. Write where: [source] kept = "..."'
        )
    with ledger_of(path) as ledger:
        key = ledger.cap_key
    source = _held(file, _server(file, key, None), key, owner=True)
    try:
        if file.kind == "spark":
            cast("SparkSource", source).keep_rows(where, key=key)
        else:
            address = file.address if url is None else secret(url)
            cast("PostgresSource", source).keep_rows(address, where, key=key, timeout=file.timeout)
    finally:
        source.close()
    _held(file, _server(file, key, where), key, owner=True).close()  # what was written is what was read
    return where


def _server(file: DatasetFile, key: bytes, kept: str | None) -> PostgresSource | SparkSource:
    return _spark(file, key, kept) if file.kind == "spark" else _postgres(file, key, kept)


def _postgres(file: DatasetFile, key: bytes, kept: str | None) -> PostgresSource:
    with extra("PostgreSQL", "psycopg", "postgres"):
        from dodona.backends.postgres import PostgresSource
    return PostgresSource(
        file.schema,
        file.address,
        table=file.source_table,
        version=file.version,
        timeout=file.timeout,
        key=key,
        kept=kept,
    )


def _spark(file: DatasetFile, key: bytes, kept: str | None) -> SparkSource:
    with extra("Spark", "pyspark", "spark"):
        from dodona.backends.spark import SparkSource
    schema, where, version = file.schema, file.source, file.version
    if where.startswith(VARIABLE):
        return SparkSource.remote(schema, secret(where), file.source_table, version=version, key=key, kept=kept)
    if where:
        return SparkSource.parquet(schema, where if "://" in where else file.rows, version=version, key=key, kept=kept)
    return SparkSource.table(schema, None, file.source_table, version=version, key=key, kept=kept)


def _held(file: DatasetFile, source: PostgresSource | SparkSource, key: bytes, *, owner: bool) -> Source:
    """Return a table whose rows are still those of its version."""
    try:
        if hold_source(file, source, key) and owner:
            _warn_unread(source.unread())
    except BaseException:
        source.close()
        raise
    return source


def _frame(schema: Schema, frame: object, ledger: str | Path | None, version: str, key: bytes) -> Source:
    from dodona.backends.duckdb import DuckDBSource

    source = DuckDBSource.frame(schema, frame, version=version, key=key)
    new = ledger is None or not Path(ledger).is_file() or hold_frame(Path(ledger), schema, source, key)
    if new:  # a ledger in a database has no folder to keep digests in
        _warn_unread(source.unread())
    return source


def _frame_ledger(terms: Terms, schema: Schema, path: str | Path | None) -> Ledger:
    if path is None:
        return memory.create(terms)
    return place.open_ledger(path, dataset=schema.table, schema=schema.digest)


def _terms(schema: Schema, budget: Budget, name: str, analysts: tuple[Analyst, ...]) -> Terms:
    return Terms(
        datasets={name: schema.digest},
        neighbours=schema.unit.neighbours,
        budget=budget,
        analysts=analysts,
        cap_key=fresh_key(),
    )
