"""Read the schema from a dataset file: its `source.table`, `[unit]` and `[columns.*]` entries."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

from dodona.schema import attributes as kinds
from dodona.schema.names import NAME_RULE, is_name
from dodona.schema.schema import LARGEST_SIZE, MOST_ROWS, ComputedColumn, Domain, LinkedTable, Neighbours, Schema, Unit
from dodona.schema.toml import TomlTable

_WIDEST = 2**63
_LONGEST_MEANING = 300
_NEIGHBOURS = tuple(relation.value for relation in Neighbours)


def load_schema(written: TomlTable) -> Schema:
    """Return the schema of a dataset file, or raise `InvalidFile` with every mistake found so far.

    >>> text = '''
    ... source.table = "stays"
    ... unit = {protects = "row", neighbours = "add-remove", size = 200_000}
    ... columns.age = {kind = "integer", lower = 0, upper = 110}
    ... '''
    >>> load_schema(TomlTable.parse(text, file="stays.toml")).domain.names
    ('age',)
    """
    return written.finish(read_schema(written))


def read_schema(written: TomlTable) -> Schema | None:
    """Return the schema, or None after noting mistakes, so that the caller can go on to other tables.

    The root table and `source` also have keys that are not the schema's; the code that reads those closes them.
    """
    source = written.table("source", example='[source] with table = "stays"')
    table = None if source is None else source.text("table", example='table = "stays"')
    columns = written.table("columns", example="[columns.age] with the kind and the bounds of a column")
    unit = _read_unit(written, declared=() if columns is None else columns.keys)
    domain = None if columns is None else _read_domain(columns)
    linked = _read_linked(written, unit)
    if source is None or table is None or unit is None or domain is None or linked is None:
        return None
    computed = _read_computed(written)
    if computed is None:
        return None
    alone = source.make(lambda: Schema(table=table, domain=domain, unit=unit, computed=computed))
    return None if alone is None else written.make(lambda: alone.link(linked))


def read_meanings(root: TomlTable) -> dict[str, str]:
    """Return what columns mean, by the column; analysts see it beside kind and bounds."""
    meanings = dict[str, str]()
    for _, _, column in columns_with("means", root):
        text = column.text("means", example='means = "Nights in hospital"')
        if text is None or (text.isprintable() and len(text) <= _LONGEST_MEANING):
            meanings[str(column.path[-1])] = text or ""
        else:
            column.note(
                "means", f"is too long or has signs that cannot be seen; write 1 to {_LONGEST_MEANING} characters"
            )
    return meanings


def columns_with(key: str, root: TomlTable) -> Iterator[tuple[str, str, TomlTable]]:
    """Yield the columns that have a key: the table, the name in the data, and what the file says."""
    source, linked = root.content.get("source"), root.content.get("tables")
    main = source.get("table") if isinstance(source, dict) else None
    tables = root.table("tables", example="[tables.patients]") if isinstance(linked, dict) else None
    inner = [] if tables is None else [(name, tables.table(name, example=f"[tables.{name}]")) for name in tables.keys]
    for table, written in ((main, root), *inner):
        if written is None or not isinstance(written.content.get("columns"), dict):
            continue
        columns = written.table("columns", example="[columns.age]")
        for name in () if columns is None else columns.keys:
            column = None if columns is None else columns.table(name, example=f"[columns.{name}]")
            if column is not None and column.has(key):
                yield str(table), str(column.content.get("source", name)), column


def _read_computed(written: TomlTable) -> tuple[ComputedColumn, ...] | None:
    """Return the declared expressions; None after noting mistakes. The compiler reads them when they are asked for."""
    if not written.has("computed"):
        return ()
    tables = written.table("computed", example="[computed.revenue] with expression, lower and upper")
    columns = list[ComputedColumn | None]()
    for name in () if tables is None else tables.keys:
        table = (
            None
            if tables is None
            else tables.table(name, example=f"[computed.{name}] with expression, lower and upper")
        )
        columns.append(None if table is None else _read_computed_column(table, name))
    kept = [column for column in columns if column is not None]
    return tuple(kept) if tables is not None and len(kept) == len(columns) else None


def _read_computed_column(table: TomlTable, name: str) -> ComputedColumn | None:
    expression = table.text("expression", example='expression = "quantity * unit_price"')
    ends = {"lower": Fraction(-(10**15)), "upper": Fraction(10**15)}
    lower, upper = (table.exact(key, example=f"{key} = 0", **ends) for key in ends)
    table.close()
    if expression is None or lower is None or upper is None:
        return None
    return table.make(lambda: ComputedColumn(name, expression, lower, upper))


def _read_linked(written: TomlTable, unit: Unit | None) -> tuple[LinkedTable, ...] | None:
    """Return the further private tables; None after noting mistakes. Where they are is not part of the schema."""
    if not written.has("tables"):
        return ()
    tables = written.table("tables", example="[tables.patients] with path, rows and columns")
    linked = list[LinkedTable | None]()
    for name in () if tables is None else tables.keys:
        table = None if tables is None else tables.table(name, example=f'[tables.{name}] with path = "{name}.csv"')
        if table is None:
            linked.append(None)
        elif not table.boolean("public", example="public = true", default=False):
            linked.append(_read_linked_table(table, name, unit))
    kept = [linked_table for linked_table in linked if linked_table is not None]
    return tuple(kept) if tables is not None and len(kept) == len(linked) else None


def _read_linked_table(table: TomlTable, name: str, unit: Unit | None) -> LinkedTable | None:
    person = table.text("id", example='id = "patient_id"', default=None if unit is None else unit.id or "")
    rows = table.whole("rows", example="rows = 1", lower=1, upper=MOST_ROWS, default=1)
    sized = table.has("size")
    size = table.whole("size", example="size = 50_000", lower=1, upper=LARGEST_SIZE) if sized else None
    columns = table.table("columns", example=f"[tables.{name}.columns.age] with the kind and the bounds of a column")
    domain = None if columns is None else _read_domain(columns)
    if unit is not None and unit.id is None:
        table.note(None, 'is linked by people; write protects = "person" in [unit], or public = true here')
        return None
    if person is None or rows is None or domain is None or (sized and size is None):
        return None
    return table.make(lambda: LinkedTable(name, domain, person, rows, size))


def _read_unit(written: TomlTable, *, declared: tuple[str, ...]) -> Unit | None:
    unit = written.table("unit", example='[unit] with protects = "row" or "person"')
    if unit is None:
        return None
    protects = unit.choice("protects", ("row", "person"))
    neighbours = unit.choice("neighbours", _NEIGHBOURS)
    size = unit.whole("size", example="size = 200_000", lower=1, upper=LARGEST_SIZE)
    person, rows = None, 1
    if protects == "person":
        person = _read_person_column(unit, declared=declared)
        cap = unit.whole("rows", example="rows = 4", lower=1, upper=MOST_ROWS)
        if person is None or cap is None:
            neighbours = None
        else:
            rows = cap
    for key in ("id", "rows"):
        if unit.has(key) and protects == "row":
            unit.note(key, 'is for protects = "person"; take it away, or write protects = "person"')
    unit.close()
    if protects is None or neighbours is None or size is None:
        return None
    return unit.make(lambda: Unit(neighbours=neighbours, size=size, id=person, rows=rows))


def _read_person_column(unit: TomlTable, *, declared: tuple[str, ...]) -> str | None:
    """Return the person column, which must not be a declared column."""
    person = unit.text("id", example='id = "patient_id"')
    for name in declared:
        if person is not None and name.casefold() == person.casefold():
            unit.note("id", f"is a column too; remove [columns.{name}]: the id of a row is never answered")
            return None
    return person


def _read_domain(columns: TomlTable) -> Domain | None:
    if not columns.keys:
        columns.note(None, "has no column; write a table for each one, such as [columns.age]")
    attributes = list[kinds.Attribute | None]()
    seen = dict[str, str]()
    for name in columns.keys:
        other = seen.setdefault(name.casefold(), name)
        if not is_name(name):
            columns.note(name, f"is no name: {NAME_RULE}")
        elif other != name:
            columns.note(name, f"has the name of columns.{other}; capitals make no difference, so write another name")
        column = columns.table(name, example=f"[columns.{name}] with its kind and bounds")
        attributes.append(None if column is None else _read_column(column, name if is_name(name) else "unnamed"))
    kept = [attribute for attribute in attributes if attribute is not None]
    complete = len(kept) == len(attributes) == len(seen) and all(map(is_name, columns.keys))
    return Domain(tuple(kept)) if kept and complete else None


def _read_column(column: TomlTable, name: str) -> kinds.Attribute | None:
    kind = column.choice("kind", tuple(_READERS))
    if kind is None:
        return None  # which other keys are valid depends on the kind
    column.has("otherwise")
    column.has("null")  # read with the format of the files
    column.has("means")  # for people to read, and no part of the schema
    if column.has("source") and column.text("source", example='source = "hours-per-week"') is None:
        return None
    attribute = _READERS[kind](column, name)
    column.close()
    return attribute


def _read_category(column: TomlTable, name: str) -> kinds.Attribute | None:
    labels = column.texts("labels", example='labels = ["female", "male", "other"]')
    if labels is None:
        return None
    wrong = list(kinds.find_label_errors(labels))
    for place, accepted in wrong:
        column.note(("labels", place), f"may not be a label: {accepted}")
    return None if wrong else column.make(lambda: kinds.Category(name, labels, **_read_common_fields(column)))


_Bounded = kinds.BinnedAttribute | kinds.Timestamp


def _read_bounded(column: TomlTable, name: str, kind: str) -> kinds.Attribute | None:
    """Read a column with bounds, and a step or bins if it has them."""
    build, examples, bins_example = _BOUNDED[kind]
    bounds = [_read_bound(column, kind, key, f"{key} = {text}") for key, text in examples.items()]
    column.has("bins")
    if None in bounds:
        return None
    common = _read_common_fields(column)
    return _read_bins(column, lambda bins: build(name, *bounds, bins, **common), bins_example)


def _read_bound(column: TomlTable, kind: str, key: str, example: str) -> object:
    match kind:
        case "integer":
            return column.whole(key, example=example, lower=-_WIDEST, upper=_WIDEST)
        case "number":
            return column.exact(key, example=example, lower=Fraction(-_WIDEST), upper=Fraction(_WIDEST))
        case "timestamp":
            return column.text(key, example=example) if key == "step" else column.moment(key, example=example)
        case _:
            return column.date(key, example=example)


def _read_boolean(column: TomlTable, name: str) -> kinds.Attribute | None:
    return column.make(lambda: kinds.Boolean(name, **_read_common_fields(column)))


def _read_common_fields(column: TomlTable) -> dict[str, Any]:
    """Return the fields common to all columns: the fallback for undeclared values, and the name in the data."""
    return {key: column.content.get(key) for key in ("otherwise", "source")}


def _read_bins(column: TomlTable, build: Callable[[Any], _Bounded], example: str) -> _Bounded | None:
    """Return the attribute with its declared bins, if any; each invalid edge is noted at its position."""
    attribute = column.make(lambda: build(None))
    if attribute is None or not column.has("bins"):
        return attribute
    if isinstance(column.content["bins"], str) or isinstance(attribute, kinds.Timestamp):
        word = column.text("bins", example=example)
        return None if word is None else column.make(lambda: build(word))
    edges = column.items("bins", example=example)
    if edges is None:
        return None
    wrong = list(kinds.find_edge_errors(attribute, edges))
    for place, accepted in wrong:
        column.note("bins" if place is None else ("bins", place), f"is not accepted: {accepted}")
    return None if wrong else column.make(lambda: build(edges))


_BOUNDED: dict[str, tuple[Callable[..., _Bounded], dict[str, str], str]] = {
    "integer": (kinds.Integer, {"lower": "0", "upper": "110"}, "bins = [0, 18, 65, 110]"),
    "number": (kinds.Number, {"lower": '"0"', "upper": '"365"', "step": '"0.25"'}, 'bins = ["0", "1", "7", "365"]'),
    "date": (kinds.Date, {"lower": "2020-01-01", "upper": "2026-12-31"}, 'bins = "month"'),
    "timestamp": (
        kinds.Timestamp,
        {"lower": "2024-01-01T00:00:00", "upper": "2026-12-31T23:00:00", "step": '"1 hour"'},
        'bins = "day"',
    ),
}
_READERS: dict[str, Callable[[TomlTable, str], kinds.Attribute | None]] = {
    "category": _read_category,
    **{kind: partial(_read_bounded, kind=kind) for kind in _BOUNDED},
    "boolean": _read_boolean,
}
