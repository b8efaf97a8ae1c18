"""`dodona.open`, `rehearse` and `create_ledger`: from a dataset file or a frame to a curator.

`open` never creates the ledger of a dataset file. Data that changed under an old version are refused. A rehearsal runs
on synthetic rows.
"""

from __future__ import annotations

import json
import math
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from dodona.curator.curator import Curator
from dodona.curator.planner import default_accuracy
from dodona.curator.request import DEFAULT_MAX_PRICE, AfterBudget, Dataset, Request
from dodona.dataset.file import ENV_PREFIX, DatasetFile, read_secret
from dodona.errors import InvalidRequest
from dodona.ledger import memory, opening
from dodona.ledger.ledger import PATIENCE
from dodona.ledger.opening import LedgerTerms
from dodona.numbers import Exact, to_share
from dodona.privacy.budget import Analyst, Budget
from dodona.privacy.measurement import noises_from_text
from dodona.query.canonical import query_digest
from dodona.schema.attributes import Attribute, Category, code_label, source_column_name
from dodona.schema.schema import ROW_OF, Schema
from dodona.trusted.source import generate_cap_key

if TYPE_CHECKING:
    from dodona.engines.duckdb import DuckDBSource
    from dodona.engines.postgres import PostgresSource
    from dodona.engines.spark import SparkSource
    from dodona.ledger.ledger import Ledger
    from dodona.query.query import Query
    from dodona.trusted.source import Sealed, Source


# --- Extras: heavy libraries that are installed only if needed. ---


@contextmanager
def require_extra(what: str, library: str, name: str) -> Iterator[None]:
    """Say which extra to install if an import in this block fails."""
    missing = False
    try:
        yield
    except ImportError:
        missing = True
    if missing:
        raise InvalidRequest(f"A source in {what} needs {library}. Run: pip install 'dodona[{name}]'.")


# --- Synthetic rows for rehearsals: every cell of every column occurs, and no row is real. ---


_KNUTH_MULTIPLIER = 2654435761  # Knuth's multiplicative constant: neighbouring rows land far apart
MOST_MADE_UP_ROWS = 10_000


def make_up_columns(schema: Schema) -> dict[str, Sequence[object]]:
    """Return deterministic columns of synthetic values; at most ten thousand rows."""
    rows = np.arange(min(MOST_MADE_UP_ROWS, max(1, schema.unit.size)), dtype=np.uint64)
    columns: dict[str, Sequence[object]] = {
        source_column_name(attribute): [_value(attribute, int(code)) for code in _codes(attribute.cells, rows, place)]
        for place, attribute in enumerate(schema.domain, start=1)
    }
    if schema.unit.id is not None:  # each person has as many rows as the cap allows
        columns[schema.unit.id] = (rows // np.uint64(schema.unit.rows)).tolist()
    return columns


def make_up_rows(schema: Schema, count: int) -> list[dict[str, object]]:
    """Return rows of declared values by the names of the columns; they depend on the schema alone."""
    rows = np.arange(1, 1 + count, dtype=np.uint64)
    columns: dict[str, list[object]] = {
        attribute.name: [_value(attribute, int(code)) for code in _codes(attribute.size, rows, place)]
        for place, attribute in enumerate(schema.domain, start=1)
        if attribute.name != ROW_OF
    }
    if schema.unit.id is not None:
        columns[schema.unit.id] = [f"made up {number}" for number in range(1, 1 + count)]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _codes(cells: int, rows: np.ndarray, place: int) -> np.ndarray:
    """Return codes that cycle through all cells, more slowly for later columns, so that columns differ."""
    mixed = (rows * np.uint64(_KNUTH_MULTIPLIER * place) + (rows >> np.uint64(place % 7))) % np.uint64(2**32)
    return (mixed * np.uint64(cells) >> np.uint64(32)).astype(np.int64)


def _value(attribute: Attribute, code: int) -> object:
    if code == attribute.size:
        return None
    if code > attribute.size:
        return "?" if isinstance(attribute, Category) else None
    value = code_label(attribute, code)
    return float(value) if isinstance(value, Fraction) else value


# --- Data versions: changed data under an old version are refused, as old answers would seem to describe new rows.


_SUFFIX = ".versions"


class Fingerprinted(Protocol):
    """A source that can detect whether its rows changed."""

    def fingerprint(self) -> str:
        """Return a digest of everything that an answer can depend on."""


class VersionChanged(InvalidRequest):
    """The data differ from those first opened under this version."""

    code = "version-changed"

    def __init__(self, version: str) -> None:
        """Name the version."""
        super().__init__(
            f"The data changed, and they are still called version {version!r}. Write a new version: "
            "the budget goes on, and answers about the older rows are not given again. Where people are protected, a "
            "column that was added needs a new version too, as it changes which of their rows count."
        )


def check_files_version(file: DatasetFile, key: bytes) -> bool:
    """Compare the files of a dataset with those first opened as this version; return whether this is the first time."""
    further = file.form.digest
    if file.linked:
        linked_digests = {name: _files_digest(Path(place)) for name, place in _linked_files(file).items()}
        further = json.dumps([further, linked_digests], sort_keys=True)
    digest = _files_digest(file.rows, further=further)
    return _check_version(versions_path(file), file.schema, file.version, digest, key)


def _files_digest(place: Path, *, further: str = "") -> str:
    """Return a digest of the files of a table and of something further; a folder's name may be a value of its rows."""
    from dodona.engines.answers import fingerprint_files
    from dodona.engines.files import folder_partitions, list_files, pattern_base

    files, base = list_files(place), pattern_base(place)
    folders = {name: folder_partitions(name, base) for name in files}
    if any(folders.values()):
        divided = sorted((partitions, fingerprint_files([name])) for name, partitions in folders.items())
        further = json.dumps([further, divided])
    return fingerprint_files(files, further=further)


def _linked_files(file: DatasetFile) -> dict[str, str]:
    """Return the files of linked tables; those of a database are in the file of the main table."""
    return file.linked_places if file.kind in {"parquet", "csv"} else {}


def check_source_version(file: DatasetFile, source: Fingerprinted, key: bytes) -> bool:
    """Compare the rows of a table held by an engine, likewise."""
    return _check_version(versions_path(file), file.schema, file.version, source.fingerprint(), key)


def check_frame_version(ledger: Path, schema: Schema, source: DuckDBSource, key: bytes) -> bool:
    """Compare a frame with the one first opened as this version over this ledger, likewise."""
    kept = ledger.parent / f".{ledger.name}.{schema.table}{_SUFFIX}"
    return _check_version(kept, schema, source.version, source.fingerprint(), key)


def _check_version(kept: Path, schema: Schema, version: str, digest: str, key: bytes) -> bool:
    """Compare the rows of a version and, if people are protected, everything that decides which rows count.

    The counted rows change with an added column and with the key, so a version belongs to one schema and one ledger.
    Which rows counted under a version opened by an earlier release of this program is unknown.
    """
    if schema.unit.id is None:
        return check_digest(kept, version, digest)
    if version in _read_digests(kept):
        raise VersionChanged(version)
    slot = f"{version} {sha256(b'cap' + key).hexdigest()[:16]}"
    return check_digest(kept, slot, sha256(f"{digest} {schema.digest}".encode("ascii")).hexdigest(), version=version)


def check_digest(kept: Path, slot: str, digest: str, *, version: str | None = None) -> bool:
    """Compare a digest with the stored one for a version; store it if it is new, and return whether it was."""
    known = _read_digests(kept)
    if known.get(slot) == digest:
        return False
    if slot in known:
        raise VersionChanged(slot if version is None else version)
    _write_digests(kept, {**known, slot: digest})
    return True


def _read_digests(kept: Path) -> dict[str, str]:
    """Return the digests in a file; empty if there is no file yet."""
    try:
        known = json.loads(kept.read_bytes())
        if isinstance(known, dict) and all(isinstance(text, str) for text in known.values()):
            return known
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        pass
    raise InvalidRequest(
        f"{kept} cannot be read, or is torn: it says which data each version had. Restore it from a backup; or, if the "
        "data did not change since they were last opened, remove it."
    )


def versions_path(file: DatasetFile) -> Path:
    """Return where the digests of the data's versions are kept."""
    return file.path.parent / f".{file.dataset}{_SUFFIX}"


def _write_digests(path: Path, versions: dict[str, str]) -> None:
    """Replace the file atomically; only its owner may read it."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.unlink(missing_ok=True)  # left by a crash, or planted: a link would be followed
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(versions, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as fault:
        raise InvalidRequest(
            f"{path} cannot be written: {fault.strerror}. It says which data each version had. Let the owner open the "
            "dataset first, in a folder that may be written to."
        ) from None


# --- `dodona.open`: from a dataset file or a frame to a curator. It never creates a dataset file's ledger. ---


_CONFIDENCE = 0.95
_REHEARSAL_REQUEST = Request(within="1%", epsilon=None, confidence=_CONFIDENCE)
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
    after: AfterBudget = "refuse",
    max_price: Exact | None = None,
) -> Curator:
    """Open a curator for a dataset file, or for a frame with its schema and budget.

    A frame whose rows changed needs a new version; over the same ledger the old one is refused. Without `ledger`, a
    frame's ledger is kept in memory: spending is forgotten when the process ends. With `after="model"`, a question that
    the budget cannot pay for is answered by a model, marked and without a guarantee; otherwise it is refused. One call
    spends at most `max_price` of the budget, "2%" by default, unless the call itself allows more.
    """
    if isinstance(data, str | Path):
        given = (schema, budget, ledger, max_price)
        if any(argument is not None for argument in given) or after != "refuse":
            raise InvalidRequest(
                "A dataset file says everything itself. Leave schema, budget, ledger, after and max_price out."
            )
        return _open_file(DatasetFile.read(data), analyst)
    if schema is None or budget is None:
        raise InvalidRequest("A frame needs schema= and budget=: what its columns may hold, and what may be spent.")
    terms = _terms(schema, budget, schema.table, () if analyst is None else (Analyst(analyst),))
    if ledger is None:
        account = memory.create_memory_ledger(terms)
    else:
        account = opening.open_ledger(ledger, dataset=schema.table, schema=schema.digest)
    try:
        source = _open_frame(schema, data, ledger, version, account.cap_key)
    except BaseException:
        account.close()
        raise
    if ledger is None:
        warnings.warn(
            "The ledger is in memory: what is spent is forgotten when this process ends. Write ledger= to keep it.",
            stacklevel=3,
        )
    default = Request(
        within=default_accuracy(schema.unit, budget),
        epsilon=None,
        confidence=_CONFIDENCE,
        max_price=DEFAULT_MAX_PRICE if max_price is None else to_share(max_price, argument="max_price"),
    )
    dataset = Dataset(name=schema.table, schema=schema, source=source, ledger=account, default=default, after=after)
    return Curator(dataset, analyst=analyst)


def rehearse(data: object, /, *, schema: Schema | None = None, analyst: str | None = None) -> Curator:
    """Open a curator with the same interface on synthetic rows of the schema; there is no budget to spend.

    Only the schema is read, so it needs no permission and reveals nothing about anyone.
    """
    from dodona.engines.memory import MemorySource

    budget = Budget(_UNLIMITED, "1e-6", "renyi")
    name, default = "rehearsal", _REHEARSAL_REQUEST
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
    ledger = memory.create_memory_ledger(terms)
    source = MemorySource(schema, make_up_columns(schema), version="rehearsal", key=ledger.cap_key)
    return Curator(Dataset(name=name, schema=schema, source=source, ledger=ledger, default=default), analyst=analyst)


def create_ledger(
    path: str | Path, /, *, schema: Schema | None = None, budget: Budget | None = None, analysts: Sequence[Analyst] = ()
) -> Path | str:
    """Create the ledger of a dataset file, or one at a path for a frame, and return its location as written.

    An existing ledger is never touched. With schema and budget, the path is that of the ledger itself.
    """
    if schema is None or budget is None:
        file = DatasetFile.read(path)
        opening.create_ledger_at(file.place, file.terms, head=file.head_place)
        return file.ledger if file.ledger.startswith(ENV_PREFIX) else file.place
    opening.create_ledger_at(path, _terms(schema, budget, schema.table, tuple(analysts)))
    return path if isinstance(path, Path) else opening.display_place(path)


def open_dataset_ledger(path: str | Path, /, *, patience: float = PATIENCE) -> Ledger:
    """Open the ledger of a dataset file; the data are not touched.

    `patience` is how many seconds to wait for an answer that is being computed for another caller.
    """
    file = DatasetFile.read(path)
    return opening.open_ledger(
        file.place, head=file.head_place, dataset=file.dataset, schema=file.schema.digest, patience=patience
    )


def open_for_serving(file: DatasetFile, *, patience: float = PATIENCE, lazily: bool = False) -> Dataset:
    """Open a dataset file for many analysts, each with a curator over it. It warns nobody about the rows.

    With `lazily`, rows are opened, and compared with their version, when they are first read: a process that replays
    and derives answers may never read any.
    """
    ledger = open_dataset_ledger(file.path, patience=patience)
    try:
        key = ledger.cap_key
        source: Source = LazySource(file, key) if lazily else open_source(file, key, owner=False)
        return _open_parts(file, ledger, source)
    except BaseException:
        ledger.close()
        raise


class LazySource:
    """The rows of a dataset file, opened when they are first read."""

    def __init__(self, file: DatasetFile, key: bytes) -> None:
        """Take the file and the key that selects the rows of a person that count."""
        self.version = file.version
        self._open: Callable[[], Source] = lambda: open_source(file, key, owner=False)
        self._source: Source | None = None
        self._lock = threading.Lock()

    def exact(self, query: Query) -> Sealed:
        """Return the exact answers."""
        with self._lock:
            if self._source is None:
                self._source = self._open()
        return self._source.exact(query)

    def close(self) -> None:
        """Close the rows if they were opened."""
        if self._source is not None:
            self._source.close()


def _open_file(file: DatasetFile, analyst: str | None) -> Curator:
    ledger = open_dataset_ledger(file.path)
    try:
        ledger.permit(analyst)  # before a row is read
        source = open_source(file, ledger.cap_key, owner=analyst is None)
    except BaseException:
        ledger.close()
        raise
    return Curator(_open_parts(file, ledger, source), analyst=analyst)


def _open_parts(file: DatasetFile, ledger: Ledger, source: Source) -> Dataset:
    default = Request(within=file.within, epsilon=None, confidence=file.confidence, max_price=file.max_price)
    return Dataset(
        name=file.dataset,
        schema=file.schema,
        source=source,
        ledger=ledger,
        default=default,
        after=file.after,
        left_out=describe_left_out(ledger, file.schema, file.version),
        meanings=file.meanings,
    )


def open_source(file: DatasetFile, key: bytes, *, owner: bool) -> Source:
    """Open the rows of a dataset file, which must match its version; warns the owner about them."""
    from dodona.engines.duckdb import DuckDBSource

    if file.kind in {"postgres", "spark"}:
        return _check_held_source(file, _open_server(file, key, file.kept_place), key, owner=owner)
    new = check_files_version(file, key)
    how: dict[str, Any] = {"version": file.version, "key": key, "linked": file.linked_places}
    match file.kind:
        case "parquet":
            source = DuckDBSource.parquet(file.schema, file.rows, **how)
        case "csv":
            source = DuckDBSource.csv(file.schema, file.rows, form=file.form, **how)
        case _:
            source = DuckDBSource.table(file.schema, file.rows, table=file.source_table, **how)
    if new and owner:
        _warn_unread(source.unread(), source.repeated())
    return source


def _warn_unread(names: Sequence[str], repeated: Sequence[str]) -> None:
    """Warn the owner, on first opening a version, about columns without any declared value, and about repeated people.

    The warning depends on the rows, so no analyst may see it: opening as a named analyst gives no warning.
    """
    if names:
        warnings.warn(
            f"No row has a declared value in {', '.join(names)}: all that stands there counts as <outside>. Check the "
            "kind, the labels and, of CSV files, how numbers and dates are written; `dodona check` shows figures.",
            stacklevel=5,
        )
    if repeated:
        warnings.warn(
            f"Some people have several rows in {', '.join(repeated)}, of which one counts and is joined. If all of "
            "them should count, write `rows` in that table; then it is no longer joined to others.",
            stacklevel=5,
        )


def describe_left_out(ledger: Ledger, schema: Schema, version: str) -> str:
    """Return the published figure of rows that the cap leaves out, in words; empty if none was published."""
    if schema.unit.id is None:
        return ""
    from dodona.engines.inspection import left_out_query, most_left_out

    releases = ledger.released(query_digest(left_out_query(schema)), version)
    if not releases:
        return ""
    value, (noise,) = int(releases[0].values[0]), noises_from_text(releases[0].mechanism)
    within = math.ceil(noise.accuracy(_CONFIDENCE).within)
    low, high = max(0, value - within), max(0, value + within)
    return (
        f"That leaves out {low:,} to {high:,} rows (at {_CONFIDENCE:.0%}, counting at most "
        f"{most_left_out(schema):,} of each person)."
    )


def keep_rows(path: str | Path, /, *, url: str | None = None) -> str:
    """Select the counted rows of people and store them where the dataset file says; return that location.

    `url` is `env:NAME` of an address whose role may write, if the file's own may not.
    """
    file = DatasetFile.read(path)
    where = file.kept_place
    if where is None or file.schema.unit.id is None:
        raise InvalidRequest(
            'Rows are kept where people are protected, behind PostgreSQL or Spark. Write where: [source] kept = "..."'
        )
    with open_dataset_ledger(path) as ledger:
        key = ledger.cap_key
    source = _check_held_source(file, _open_server(file, key, None), key, owner=True)
    try:
        if file.kind == "spark":
            cast("SparkSource", source).keep_rows(where, key=key)
        else:
            address = file.address if url is None else read_secret(url)
            cast("PostgresSource", source).keep_rows(address, where, key=key, timeout=file.timeout)
    finally:
        source.close()
    written = _check_held_source(file, _open_server(file, key, where), key, owner=True)  # it can be read
    written.close()
    return where


def _open_server(file: DatasetFile, key: bytes, kept: str | None) -> PostgresSource | SparkSource:
    return _open_spark(file, key, kept) if file.kind == "spark" else _open_postgres(file, key, kept)


def _open_postgres(file: DatasetFile, key: bytes, kept: str | None) -> PostgresSource:
    with require_extra("PostgreSQL", "psycopg", "postgres"):
        from dodona.engines.postgres import PostgresSource
    return PostgresSource(
        file.schema,
        file.address,
        table=file.source_table,
        version=file.version,
        timeout=file.timeout,
        key=key,
        kept=kept,
        linked=file.linked_places,
    )


def _open_spark(file: DatasetFile, key: bytes, kept: str | None) -> SparkSource:
    with require_extra("Spark", "pyspark", "spark"):
        from dodona.engines.spark import Opening, SparkSource
    schema, where = file.schema, file.source
    how: Opening = {"version": file.version, "key": key, "kept": kept, "linked": file.linked_places}
    if where.startswith(ENV_PREFIX):
        return SparkSource.remote(schema, read_secret(where), file.source_table, **how)
    if where:
        return SparkSource.parquet(schema, where if "://" in where else file.rows, **how)
    return SparkSource.table(schema, None, file.source_table, **how)


def _check_held_source(file: DatasetFile, source: PostgresSource | SparkSource, key: bytes, *, owner: bool) -> Source:
    """Return a table whose rows still match its version."""
    try:
        if check_source_version(file, source, key) and owner:
            _warn_unread(source.unread(), source.repeated())
    except BaseException:
        source.close()
        raise
    return source


def _open_frame(schema: Schema, frame: object, ledger: str | Path | None, version: str, key: bytes) -> Source:
    from dodona.engines.duckdb import DuckDBSource

    source = DuckDBSource.frame(schema, frame, version=version, key=key)
    new = ledger is None or not Path(ledger).is_file() or check_frame_version(Path(ledger), schema, source, key)
    if new:  # a ledger in a database has no folder for digests
        _warn_unread(source.unread(), source.repeated())
    return source


def _terms(schema: Schema, budget: Budget, name: str, analysts: tuple[Analyst, ...]) -> LedgerTerms:
    return LedgerTerms(
        datasets={name: schema.digest},
        neighbours=schema.unit.neighbours,
        budget=budget,
        analysts=analysts,
        cap_key=generate_cap_key(),
    )
