"""What else a caller learns: the public description of a dataset, and the history of its charges.

Both are read from a ledger, or from the JSON of a server.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from fractions import Fraction
from html import escape
from typing import Any, Self, assert_never

from dodona.errors import InvalidArgument, printable, printable_json
from dodona.numbers import format_decimal, format_fraction, format_percent
from dodona.privacy.budget import BudgetState
from dodona.schema.attributes import Attribute, Boolean, Category, Date, Integer, Label, Number, Timestamp
from dodona.schema.schema import Domain, Neighbours, Schema, Unit

# --- The description of a dataset: what an analyst may know before asking. All of it is declared and public. ---


_MOST_SHOWN = 8
HEADINGS = ("column", "kind", "values", "groups", "anything else")


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultRequest:
    """What a question asks for where it does not say."""

    within: int | float | str | None
    epsilon: Fraction | None
    confidence: float
    max_price: Fraction
    """A share of the whole budget."""
    price: Fraction | None = None
    """What an answer takes of the budget that is more than counts and sums; None if `within` holds for it too."""

    def to_document(self) -> dict[str, object]:
        """Return the defaults as JSON represents them."""
        return {
            "within": self.within,
            "epsilon": None if self.epsilon is None else format_fraction(self.epsilon),
            "confidence": self.confidence,
            "max_price": format_fraction(self.max_price),
            "price": None if self.price is None else format_fraction(self.price),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the defaults that `to_document` described."""
        epsilon = document["epsilon"]
        return cls(
            within=document["within"],
            epsilon=None if epsilon is None else Fraction(epsilon),
            confidence=document["confidence"],
            max_price=Fraction(document["max_price"]),
            price=None if document["price"] is None else Fraction(document["price"]),
        )


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A further table that may be asked or joined, or a computed column: its columns, and in words how."""

    name: str
    columns: tuple[str, ...]
    how: str


def describe_tables(schema: Schema) -> tuple[TableDescription, ...]:
    """Return the linked and the public tables of a schema, and its computed columns."""
    tables = []
    for linked in schema.linked:
        most = "one row" if linked.rows == 1 else f"at most {linked.rows:,} rows"
        many = (
            ""
            if linked.rows > 1
            else f" Its columns may be asked beside those of other tables: JOIN {linked.name} USING ({linked.id})."
        )
        about = f"private; about {linked.size or schema.unit.size:,} rows, of each person {most}.{many}"
        tables.append(TableDescription(linked.name, linked.domain.names, about))
    for computed in schema.computed:
        bounds = f"from {format_fraction(computed.lower)} to {format_fraction(computed.upper)}"
        how = f"computed: {computed.expression}, {bounds}; a row beyond counts as the bound."
        tables.append(TableDescription(computed.name, (), how))
    for public in schema.public:
        how = f"public, {len(public.keys):,} rows; JOIN {public.name} ON a column = {public.name}.{public.key}."
        tables.append(TableDescription(public.name, (public.key, *public.columns), how))
    return tuple(tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The columns of a dataset, the protected unit, the remaining budget, and the default accuracy."""

    dataset: str
    table: str
    columns: tuple[Attribute, ...]
    unit: Unit
    budget: BudgetState
    default: DefaultRequest
    analyst: str | None
    left: Fraction
    """What this analyst may still spend, as a share of the whole budget."""
    left_out: str
    """What was published of the rows that the cap leaves out, in words; empty where nothing was."""
    tables: tuple[TableDescription, ...] = ()
    """Further tables. The columns of private ones are among the columns."""
    meanings: Mapping[str, str] = field(default_factory=dict)
    """What columns mean, in the owner's words; not all have some."""

    @property
    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """One row of texts per column, under the headings."""
        return [
            (
                column.name,
                column.kind,
                printable(_describe_values(column)),
                printable(_describe_groups(column)),
                printable(_describe_other_values(column)),
            )
            for column in self.columns
        ]

    @property
    def sentences(self) -> list[str]:
        """What columns mean, the protection, the budget and the defaults, in words."""
        meanings = [f"{name}: {meaning}" for name, meaning in self.meanings.items()]
        further = [
            f"Table {table.name} ({', '.join(table.columns)}): {table.how}"
            if table.columns
            else f"Column {table.name}, {table.how}"
            for table in self.tables
        ]
        return [
            printable(line) for line in (*meanings, *further, self._protected(), *self._spending(), *self._defaults())
        ]

    def to_json(self) -> str:
        """Return everything as JSON text."""
        unit = self.unit
        document = {
            "dataset": self.dataset,
            "table": self.table,
            "columns": [_json_column(column, self.meanings.get(column.name)) for column in self.columns],
            "tables": [asdict(table) for table in self.tables],
            "unit": {
                "protects": "row" if unit.id is None else "person",
                "id": unit.id,
                "rows": unit.rows,
                "caps": [list(cap) for cap in unit.caps],
                "neighbours": unit.neighbours.value,
                "size": unit.size,
                "left_out": self.left_out,
            },
            "budget": {name: value for name, value in self.budget.to_json().items() if name != "analysts"}
            | {"yours": str(self.left)},
            "defaults": self.default.to_document(),
            "analyst": self.analyst,
        }
        return printable_json(json.dumps(document, ensure_ascii=False))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the description that `to_json` wrote."""
        document = json.loads(text)
        unit, budget = document["unit"], document["budget"]
        return cls(
            dataset=document["dataset"],
            table=document["table"],
            columns=tuple(map(_read_column, document["columns"])),
            unit=Unit(
                neighbours=unit["neighbours"],
                size=unit["size"],
                id=unit["id"],
                rows=unit["rows"],
                caps=tuple((name, rows) for name, rows in unit["caps"]),
            ),
            budget=BudgetState.from_json(budget),
            default=DefaultRequest.from_document(document["defaults"]),
            analyst=document["analyst"],
            left=Fraction(budget["yours"]),
            left_out=unit["left_out"],
            meanings={column["name"]: column["means"] for column in document["columns"] if "means" in column},
            tables=tuple(
                TableDescription(table["name"], tuple(table["columns"]), table["how"]) for table in document["tables"]
            ),
        )

    @property
    def schema(self) -> Schema:
        """The schema of the dataset."""
        return Schema(table=self.table, domain=Domain(self.columns), unit=self.unit)

    def __str__(self) -> str:
        table = [HEADINGS, *self.rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([self.title, "", *lines, "", *self.sentences])

    __repr__ = __str__  # so that a prompt shows the table

    @property
    def title(self) -> str:
        """The names of the dataset and its table."""
        return f"Dataset {printable(self.dataset)}, table {self.table}, about {self.unit.size:,} rows"

    def _repr_html_(self) -> str:
        cell = "padding:2px 10px;border-bottom:1px solid #e5e5e5;text-align:left"
        head = "".join(f'<th style="{cell}">{escape(name)}</th>' for name in HEADINGS)
        cells = ("".join(f'<td style="{cell}">{escape(text)}</td>' for text in row) for row in self.rows)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        under = "".join(f'<p style="margin:2px 0;color:#555">{escape(line)}</p>' for line in self.sentences)
        table = f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        title = f'<p style="margin:2px 0"><b>{escape(self.title)}</b></p>'
        return f'<div style="font-family:sans-serif;font-size:13px">{title}{table}{under}</div>'

    def _protected(self) -> str:
        unit = self.unit
        size = "exactly" if unit.fixed else "about"
        change = "changing" if unit.neighbours is Neighbours.REPLACE else "adding or removing"
        if unit.id is None:
            return (
                f"Protected: every row, against {change} it. There are {size} {unit.size:,} rows; 1% means 1% of that."
            )
        counted = unit.about.removeprefix("Of each person ").removesuffix(".")
        return (
            f"Protected: every person ({unit.id}), against {change} them with all their rows; of each, {counted}. "
            f"There are {size} {unit.size:,} rows; 1% means 1% of that. count(DISTINCT {unit.id}) counts people."
            f"{' ' if self.left_out else ''}{self.left_out}"
        )

    def _spending(self) -> list[str]:
        yours = (
            f" {self.analyst} may spend {format_percent(self.left)} of the whole." if self.analyst is not None else ""
        )
        return [f"{self.budget}{yours}"]

    def _defaults(self) -> list[str]:
        default = self.default
        wanted = f"within {default.within}" if default.epsilon is None else f"epsilon {default.epsilon}"
        if default.price is not None:
            wanted = f"counts and sums {wanted}, others for {format_percent(default.price)} of the budget"
        return [
            f"By default: {wanted}, intervals that hold with probability {default.confidence:.15g} or more.",
            f"One call takes at most {format_percent(default.max_price)} of the budget, unless it says max_price.",
        ]


def _describe_values(attribute: Attribute) -> str:
    match attribute:
        case Category(labels=labels):
            more = f", … ({len(labels):,} in all)" if len(labels) > _MOST_SHOWN else ""
            return ", ".join(labels[:_MOST_SHOWN]) + more
        case Integer() | Date():
            return f"{attribute.lower} to {attribute.upper}"
        case Timestamp():
            return f"{attribute.lower} to {attribute.upper} in steps of {attribute.step:,} seconds"
        case Number():
            lower, upper, step = map(format_decimal, (attribute.lower, attribute.upper, attribute.step))
            return f"{lower} to {upper} in steps of {step}"
        case Boolean():
            return "false, true"
        case _:
            assert_never(attribute)


def _describe_groups(attribute: Attribute) -> str:
    """Return the groups that GROUP BY makes of a column, except `<missing>` and `<outside>`."""
    if isinstance(attribute, Category | Boolean) or attribute.bins is None:
        return f"{attribute.size:,}: each value"
    if isinstance(attribute.bins, str):
        return f"{len(attribute.starts or ()):,}: by {attribute.bins}"
    edges = [_text(edge) for edge in attribute.bins]
    shown = edges if len(edges) <= _MOST_SHOWN else [*edges[: _MOST_SHOWN - 2], "…", edges[-1]]
    return f"{len(edges) - 1:,}: from {', '.join(shown)}"


def _describe_other_values(attribute: Attribute) -> str:
    """Return how missing and undeclared values are handled."""
    if attribute.otherwise is None:
        return "<missing>, <outside>"
    return f"counts as {_text(attribute.otherwise)}"


def _text(value: Label) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return format_decimal(value) if isinstance(value, Fraction) else str(value)


def _json_column(attribute: Attribute, means: str | None) -> dict[str, object]:
    """Return a column with the keys of the dataset file."""
    column: dict[str, object] = {"name": attribute.name, "kind": attribute.kind}
    for key in ("labels", "lower", "upper", "step", "bins", "otherwise"):
        value = getattr(attribute, key, None)
        if value is not None:
            column[key] = [_plain(element) for element in value] if isinstance(value, tuple) else _plain(value)
    return column if means is None else column | {"means": means}


def _read_column(document: Mapping[str, Any]) -> Attribute:
    """Return a column from the keys of the dataset file."""
    name, otherwise = document["name"], document.get("otherwise")
    match document["kind"]:
        case Category.kind:
            return Category(name, document["labels"], otherwise=otherwise)
        case Boolean.kind:
            return Boolean(name, otherwise=otherwise)
        case Integer.kind:
            return Integer(name, document["lower"], document["upper"], document.get("bins"), otherwise=otherwise)
        case Number.kind:
            lower, upper, step = document["lower"], document["upper"], document["step"]
            return Number(name, lower, upper, step, document.get("bins"), otherwise=otherwise)
        case Date.kind:
            day, bins = date.fromisoformat, document.get("bins")
            return Date(
                name,
                day(document["lower"]),
                day(document["upper"]),
                bins if bins is None or isinstance(bins, str) else [day(edge) for edge in bins],
                otherwise=None if otherwise is None else day(otherwise),
            )
        case Timestamp.kind:
            moment = datetime.fromisoformat
            return Timestamp(
                name,
                moment(document["lower"]),
                moment(document["upper"]),
                document["step"],
                document.get("bins"),
                otherwise=None if otherwise is None else moment(otherwise),
            )
        case kind:
            raise InvalidArgument("kind", kind, "install a newer version: this one does not know such columns")


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | None) else _text(value)  # type: ignore[arg-type]


# --- The history of charges, in the order of the ledger. ---


_LONGEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One charge and its outcome."""

    time: str
    analyst: str | None
    text: str
    """The question as it was written, or what it was for."""
    share: Fraction
    """Of the whole budget."""
    version: str
    receipt: str
    answered: bool
    """Whether its answer was recorded; a watch, weights and checks count as answered: they tell while open."""
    key: str | None = None
    """The key under which its analyst asked; `recall` takes it."""


@dataclass(frozen=True, slots=True)
class History:
    """All charges of a dataset."""

    charges: tuple[HistoryEntry, ...]

    def to_json(self) -> str:
        """Return the charges as a JSON list, oldest first."""
        listed = [asdict(charge) | {"share": str(charge.share)} for charge in self.charges]
        return printable_json(json.dumps(listed, ensure_ascii=False))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the charges that `to_json` wrote."""
        return cls(tuple(HistoryEntry(**entry | {"share": Fraction(entry["share"])}) for entry in json.loads(text)))

    def __iter__(self) -> Iterator[HistoryEntry]:
        return iter(self.charges)

    def __len__(self) -> int:
        return len(self.charges)

    def __getitem__(self, number: int) -> HistoryEntry:
        return self.charges[number]

    def __str__(self) -> str:
        lines = (
            f"{charge.time[:19]}  {100 * float(charge.share):8.4f}%  {printable(charge.analyst or '-'):<12}  "
            f"{shorten(charge.text)}"
            for charge in self.charges
        )
        return "\n".join(lines) if self.charges else "Nothing was charged yet."


def shorten(text: str) -> str:
    r"""Return a question on one line; a batch of thousands is truncated.

    >>> shorten("SELECT count(*)\n  FROM stays")
    'SELECT count(*) FROM stays'
    """
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
