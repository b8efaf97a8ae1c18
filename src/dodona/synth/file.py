"""The synthesis file: workload, price, method and output; every mistake is reported with its line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import pyarrow as pa

from dodona.dataset.file import DatasetFile
from dodona.engines.files import list_files
from dodona.errors import InvalidRequest
from dodona.numbers import Exact, to_fraction, to_share
from dodona.schema.schema import Domain, Schema
from dodona.schema.toml import TomlTable
from dodona.sql.compile import compile_sql
from dodona.synth.methods import MAX_METHOD_ROUNDS, Annealed, Blr, Guaranteed, Mwem, SynthesisMethod
from dodona.synth.naming import WORDS, name_workload
from dodona.synth.rows import MOST_ROWS
from dodona.synth.table import SUFFIXES
from dodona.synth.values import SourceTypes
from dodona.synth.workload import DEFAULT_CELLS, Part, Workload, marginal_columns, order_columns

_METHODS: dict[str, Callable[..., SynthesisMethod]] = {
    "annealed": Annealed, "mwem": Mwem, "guaranteed": Guaranteed, "blr": Blr,
}  # fmt: skip
_KINDS = ("rounded", "sampled", "weighted")
_LEAST, _MOST = Fraction(1, 10**9), Fraction(10**4)
_SETTINGS = {name: tuple(inspect.signature(method).parameters) for name, method in _METHODS.items()}


@dataclass(frozen=True, slots=True)
class OutputSettings:
    """The files that are written after a release."""

    path: Path | None = None
    kind: str = "rounded"
    count: int | None = None
    report: Path | None = None


@dataclass(frozen=True, slots=True)
class SynthesisFile:
    """The contents of a synthesis file."""

    dataset: Path
    name: str
    workload: Workload
    epsilon: Fraction | None
    share: Fraction | None
    method: SynthesisMethod
    cells: int
    output: OutputSettings

    @classmethod
    def read(cls, path: str | Path) -> SynthesisFile:
        """Parse a synthesis file, or raise with all of its mistakes. Reads only the dataset's schema."""
        root = TomlTable.read(path)
        return root.finish(_read(root, Path(path).parent))

    @classmethod
    def of_words(  # noqa: PLR0913  what a release file says
        cls,
        dataset: Path,
        word: str | None,
        *,
        target: str | None,
        columns: tuple[str, ...] | None,
        epsilon: Exact | None,
        share: Exact | None,
        name: str,
        output: OutputSettings,
    ) -> SynthesisFile:
        """Return what a release file would say about a dataset, for a workload in words."""
        domain = DatasetFile.read(dataset).schema.domain
        workload = name_workload(domain, word, target=target, columns=columns)
        if (epsilon is None) == (share is None):
            raise InvalidRequest("Write one of --epsilon, such as 1, and --share of the whole budget, such as 10%.")
        for path, suffixes in ((output.path, SUFFIXES), (output.report, (".html",))):
            if path is not None and (path.suffix not in suffixes or not path.parent.is_dir()):
                raise InvalidRequest(
                    f"{path} is no place for it: name a file in a folder that exists, ending in {', '.join(suffixes)}."
                )
        price = None if epsilon is None else to_fraction(epsilon, argument="epsilon", lower=_LEAST, upper=_MOST)
        part = None if share is None else to_share(share, argument="share")
        return cls(dataset, name, workload, price, part, Annealed(), DEFAULT_CELLS, output)


def source_types(dataset: Path, table: str | None = None) -> SourceTypes | None:
    """Return the types of a table's columns, which are in the header of a Parquet file; None for other datasets."""
    file = DatasetFile.read(dataset)
    place = file.linked_places.get(table or "", file.rows)
    if file.kind != "parquet":
        return None
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(list_files(place)[0])
    except (OSError, pa.ArrowException):
        return None  # the rows may be where only the engine reads them
    return {field.name: field.type for field in schema}


def _read(root: TomlTable, folder: Path) -> SynthesisFile | None:
    root.whole("format", example="format = 1", lower=1, upper=1)
    dataset = root.text("dataset", example='dataset = "stays.toml"')
    name = root.text("name", example='name = "stays-2026"', default="release")
    epsilon, share = _price(root)
    method = _method(root)
    cells = root.whole("cells", example=f"cells = {DEFAULT_CELLS}", lower=2, upper=1 << 27, default=DEFAULT_CELLS)
    output = _output(root, folder)
    only = root.boolean("values_only", example="values_only = true", default=False)
    schema = None if dataset is None else DatasetFile.read(folder / dataset).schema
    workload = None if schema is None else _workload(root, schema, values_only=bool(only))
    root.close()
    if dataset is None or name is None or workload is None or method is None or cells is None:
        return None
    return SynthesisFile(folder / dataset, name, workload, epsilon, share, method, cells, output)


def _price(root: TomlTable) -> tuple[Fraction | None, Fraction | None]:
    has_epsilon, has_share = root.has("epsilon"), root.has("share")
    if has_epsilon == has_share:
        wrong = "and share contradict each other; write one of them" if has_epsilon else "is missing, and so is share"
        root.note("epsilon", f'{wrong}: epsilon = "1", or share = "1/2" of the whole budget')
        return None, None
    if has_epsilon:
        return root.exact("epsilon", example='epsilon = "1"', lower=_LEAST, upper=_MOST), None
    return None, root.share("share", example='share = "1/2"', lower=_LEAST)


def _method(root: TomlTable) -> SynthesisMethod | None:
    """Return the method with its settings; settings of another method are a contradiction."""
    word = root.choice("method", tuple(_METHODS), default="annealed")
    if not root.has("settings"):
        return None if word is None else _make_method(root, word, {})
    settings = root.table("settings", example="[settings] with rounds = 20")
    if settings is None or word is None:
        return None
    for key in settings.keys:
        if key in {setting for keys in _SETTINGS.values() for setting in keys} and key not in _SETTINGS[word]:
            settings.note(key, f"means nothing to method {word}; it has {', '.join(_SETTINGS[word])}")
            settings.has(key)
    values: dict[str, object] = {}
    readers: dict[str, Callable[[], object]] = {
        "rounds": lambda: settings.whole("rounds", example="rounds = 20", lower=1, upper=MAX_METHOD_ROUNDS),
        "rows": lambda: settings.whole("rows", example="rows = 5", lower=1, upper=10**9),
        "law": lambda: settings.choice("law", ("gaussian", "laplace")),
        "hypothesis": lambda: settings.choice("hypothesis", ("last", "average")),
        "update": lambda: settings.choice("update", ("refit", "step")),
        "within": lambda: _number(settings, "within", example="within = 0.2"),
        "confidence": lambda: _number(settings, "confidence", example="confidence = 0.95"),
    }
    for key in _SETTINGS[word]:
        if settings.has(key):
            value = readers[key]()
            if value is None:
                return None
            values[key] = value
    settings.close()
    return _make_method(settings, word, values)


def _number(settings: TomlTable, key: str, *, example: str) -> float | None:
    value = settings.exact(key, example=example, lower=Fraction(1, 10**9), upper=1 - Fraction(1, 10**9))
    return None if value is None else float(value)


def _make_method(place: TomlTable, word: str, settings: dict[str, object]) -> SynthesisMethod | None:
    try:
        return _METHODS[word](**settings)
    except InvalidRequest as fault:
        place.note(None, f"contradicts itself: {fault.message.rstrip('.')}")
        return None


def _output(root: TomlTable, folder: Path) -> OutputSettings:
    output = root.table("output", example='[output] with path = "synthetic.parquet"') if root.has("output") else None
    if output is None:
        return OutputSettings()
    path = _place(output, "path", folder, SUFFIXES) if output.has("path") else None
    report = _place(output, "report", folder, (".html",)) if output.has("report") else None
    kind = output.choice("kind", _KINDS, default="rounded")
    count = output.whole("count", example="count = 10000", lower=1, upper=MOST_ROWS) if output.has("count") else None
    if kind == "weighted" and count is not None:
        output.note("count", "contradicts weighted rows: there is one for each cell; leave it out")
    output.close()
    return OutputSettings(path, kind or "rounded", count, report)


def _place(output: TomlTable, key: str, folder: Path, suffixes: tuple[str, ...]) -> Path | None:
    text = output.text(key, example=f'{key} = "synthetic{suffixes[0]}"')
    if text is None:
        return None
    place = folder / text
    if place.suffix not in suffixes:
        output.note(key, f"ends in none of {', '.join(suffixes)}")
    elif not place.parent.is_dir():
        output.note(key, "is in a folder that does not exist; make it first")
    return place


def _workload(root: TomlTable, schema: Schema, *, values_only: bool) -> Workload | None:
    """Return all counts that should be answered well."""
    if root.has("target") or isinstance(root.content.get("workload"), str):
        return _named_workload(root, schema)
    entries = root.tables("workload", example="[[workload]] with ways = 2") or ()
    parts: list[Part] = []
    for place, entry in enumerate(entries):
        entry_parts = _entry(entry, schema)
        entry.close()
        for part in entry_parts:
            if part in parts:
                root.note(("workload", place), "asks for what stands before it already; write each part once")
                break
            parts.append(part)
    if not parts:
        return None
    try:
        return Workload.of_parts(schema.domain, parts, values_only=values_only)
    except InvalidRequest as fault:
        root.note("workload", f"cannot be released: {fault.message.rstrip('.')}")
        return None


def _named_workload(root: TomlTable, schema: Schema) -> Workload | None:
    """Return the workload that a word or a target column stands for."""
    word = root.text("workload", example=f'workload = "{WORDS[1]}"') if root.has("workload") else None
    target = root.text("target", example='target = "ward"') if root.has("target") else None
    columns = root.texts("columns", example='columns = ["sex", "age"]') if root.has("columns") else None
    try:
        return name_workload(schema.domain, word, target=target, columns=columns)
    except InvalidRequest as fault:
        at = next(key for key in ("columns", "target", "workload") if root.has(key))
        root.note(at, f"is not accepted: {fault.message.rstrip('.')}")
        return None


def _entry(entry: TomlTable, schema: Schema) -> list[Part]:
    words = [word for word in ("ways", "by", "sql") if entry.has(word)]
    if len(words) != 1:
        entry.note(None, 'must say one of ways = 2, by = ["sex", "age"] and sql = "SELECT count(*) …"')
        entry.has("columns")
        return []
    try:
        match words[0]:
            case "ways":
                return _ways(entry, schema.domain)
            case "by":
                names = entry.texts("by", example='by = ["sex", "age"]')
                return [] if names is None else [order_columns(schema.domain, names)]
            case _:
                text = entry.text("sql", example='sql = "SELECT count(*) FROM stays WHERE age >= 65"')
                blocks = () if text is None else compile_sql(text, schema).query.blocks
                return [marginal_columns(block) or block for block in blocks]
    except InvalidRequest as fault:
        entry.note(words[0], f"is not accepted: {fault.message.rstrip('.')}")
        return []


def _ways(entry: TomlTable, domain: Domain) -> list[Part]:
    columns = entry.texts("columns", example='columns = ["sex", "age"]') if entry.has("columns") else domain.names
    if columns is None:
        return []
    if len(set(columns)) != len(columns):
        entry.note("columns", "has a name twice; write each column once")
        return []
    ways = entry.whole("ways", example="ways = 2", lower=1, upper=len(columns))
    return [] if ways is None else [order_columns(domain, names) for names in combinations(columns, ways)]
