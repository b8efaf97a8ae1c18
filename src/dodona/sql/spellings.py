"""How functions are called in one dialect or another, and the one form in which each is read here.

PostgreSQL, DuckDB, BigQuery, Snowflake, Spark, MySQL and SQL Server have names and orders of arguments of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from sqlglot import exp

from dodona.sql.calendar import DATE_PARTS, PART_SYNONYMS, parse_interval

COUNTED = "counted"
"""Marks a difference of times under a name by which some dialects count whole units, and others where they begin."""

_ISO, _ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d"), len("2024-01-31")

# --- Dates. ---


def _date_trunc(arguments: list[exp.Expr]) -> exp.Expr:
    """Read date_trunc('month', d), and date_trunc(d, MONTH) as BigQuery has it."""
    if len(arguments) == 2 and _unit_word(arguments[1]) and not arguments[0].is_string:  # noqa: PLR2004  both orders
        return exp.DateTrunc.from_arg_list([exp.Literal.string(arguments[1].name), arguments[0]])
    return exp.DateTrunc.from_arg_list(arguments)


def _date_part(arguments: list[exp.Expr]) -> exp.Expr:
    """Read date_part('month', d), and datepart(month, d) as SQL Server has it."""
    named = [exp.Literal.string(node.name) if _unit_word(node) else node for node in arguments[:1]]
    return exp.Anonymous(this="date_part", expressions=[*named, *arguments[1:]])


def _days_between(arguments: list[exp.Expr]) -> exp.Expr:
    """Read datediff('day', first, last).

    The unit may be a word. BigQuery names the later day first and the unit last; MySQL and Spark have days from the
    second to the first.
    """
    arguments = [_written_day(argument) for argument in arguments]
    if len(arguments) == 2:  # noqa: PLR2004  MySQL and Spark
        return exp.Anonymous(this="days_between", expressions=arguments)
    unit, others = _unit_and_others(arguments)
    if unit is not None and unit is arguments[-1]:
        others.reverse()
    return _with_unit("datediff", unit, others)


def _written_day(node: exp.Expr) -> exp.Expr:
    """Return a day or a time that is written as a text as what it means."""
    if not isinstance(node, exp.Literal) or not node.is_string or not _ISO.match(node.name):
        return node
    kind = exp.DType.DATE if len(node.name) == _ISO_DAY else exp.DType.TIMESTAMP
    return exp.Cast(this=node, to=exp.DataType(this=kind))


def _times_between(arguments: list[exp.Expr]) -> exp.Expr:
    """Read timestampdiff(unit, first, last), which counts whole units in some dialects: the answer notes it."""
    node = _days_between(arguments)
    node.meta[COUNTED] = len(arguments) == 3  # noqa: PLR2004  a unit and two times
    return node


def _moved_day(arguments: list[exp.Expr], *, sign: type[exp.Binary] = exp.Add) -> exp.Expr:
    """Read dateadd('day', number, column), whose unit may be a word, and date_add(column, INTERVAL '7 days')."""
    if len(arguments) == 2 and isinstance(arguments[1], exp.Interval):  # noqa: PLR2004  a day and an interval
        return exp.Paren(this=sign(this=arguments[0], expression=arguments[1]))
    unit, others = _unit_and_others(arguments)
    if unit is not None and sign is exp.Add and others[0].is_int:
        width = exp.Interval(this=exp.Literal.string(others[0].sql()), unit=exp.var(unit.name))
        return exp.Paren(this=exp.Add(this=others[1], expression=width))
    return _with_unit("dateadd" if sign is exp.Add else "date_sub", unit, others)


def _months_added(arguments: list[exp.Expr]) -> exp.Expr:
    """Read add_months(column, number)."""
    return _with_unit("dateadd", exp.Literal.string("month"), arguments[::-1])


def _unit_and_others(arguments: list[exp.Expr]) -> tuple[exp.Expr | None, list[exp.Expr]]:
    """Return the argument that is the name of a unit of dates, and the other ones."""
    ends = (arguments[0], arguments[-1]) if len(arguments) == 3 else ()  # noqa: PLR2004  a unit and two values
    unit = next((node for node in ends if _is_unit(node)), None)
    return unit, [node for node in arguments if node is not unit]


def _is_unit(node: exp.Expr) -> bool:
    plain = isinstance(node, exp.Var | exp.Literal) or (isinstance(node, exp.Column) and not node.args.get("table"))
    return plain and parse_interval("1", node.name) is not None


def _with_unit(name: str, unit: exp.Expr | None, others: list[exp.Expr]) -> exp.Expr:
    named = [] if unit is None else [exp.Literal.string(unit.name)]
    return exp.Anonymous(this=name, expressions=[*named, *others])


def _day(arguments: list[exp.Expr]) -> exp.Expr:
    """Read date(t), the day of a time, and date(2024, 1, 31) as BigQuery has it."""
    if len(arguments) == 1:
        return exp.Cast(this=arguments[0], to=exp.DataType(this=exp.DType.DATE))
    return exp.Anonymous(this="make_date", expressions=arguments)


def _regexp_replace(arguments: list[exp.Expr]) -> exp.Expr:
    """Read regexp_replace(text, pattern, new, flags), as PostgreSQL and DuckDB have it."""
    replacement = exp.RegexpReplace.from_arg_list(arguments[:3])
    for flags in arguments[3:]:
        replacement.set("modifiers", flags)
    return replacement


def _unit_word(node: exp.Expr) -> bool:
    """Whether a node is the name of a part of a date, without quotes."""
    bare = isinstance(node, exp.Var) or (isinstance(node, exp.Column) and not node.args.get("table"))
    return bare and PART_SYNONYMS.get(node.name.lower(), node.name.lower()) in DATE_PARTS


# --- Divisions, choices and NULL. ---


def _quotient(arguments: list[exp.Expr]) -> exp.Expr:
    """Read safe_divide(a, b): here every division by zero is NULL."""
    return exp.Paren(this=exp.Div(this=exp.Paren(this=arguments[0]), expression=exp.Paren(this=arguments[1])))


def _quotient_or_zero(arguments: list[exp.Expr]) -> exp.Expr:
    """Read div0(a, b), which is 0 where b is."""
    zero = exp.EQ(this=exp.Paren(this=arguments[1].copy()), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=zero, true=exp.Literal.number(0))], default=_quotient(arguments))


def _quotient_or_zero_of_null(arguments: list[exp.Expr]) -> exp.Expr:
    """Read div0null(a, b), which is 0 where b is 0 or NULL."""
    return _quotient_or_zero([arguments[0], _zero_for_null(arguments[1:])])


def _zero_for_null(arguments: list[exp.Expr]) -> exp.Expr:
    """Read zeroifnull(x)."""
    return exp.Coalesce(this=arguments[0], expressions=[exp.Literal.number(0)])


def _null_for_zero(arguments: list[exp.Expr]) -> exp.Expr:
    """Read nullifzero(x)."""
    return exp.Nullif(this=arguments[0], expression=exp.Literal.number(0))


def _is_null(arguments: list[exp.Expr]) -> exp.Expr:
    """Read isnull(x), and isnull(x, other) as SQL Server has it."""
    if len(arguments) == 1:
        return exp.Paren(this=exp.Is(this=arguments[0], expression=exp.null()))
    return exp.Coalesce(this=arguments[0], expressions=arguments[1:])


def _by_null(arguments: list[exp.Expr]) -> exp.Expr:
    """Read nvl2(x, where it has a value, where it is NULL)."""
    missing = exp.Is(this=exp.Paren(this=arguments[0]), expression=exp.null())
    return exp.Case(ifs=[exp.If(this=missing, true=arguments[2])], default=arguments[1])


def read_decode(arguments: list[exp.Expr]) -> exp.Expr:
    """Read decode(x, value, result, ..., default), where NULL equals NULL."""
    if len(arguments) < 3:  # noqa: PLR2004  no value with a result
        return exp.Anonymous(this="decode", expressions=arguments)
    subject, *rest = arguments
    pairs = zip(rest[::2], rest[1::2], strict=False)
    ifs = [exp.If(this=_same(subject.copy(), value), true=result) for value, result in pairs]
    return exp.Case(ifs=ifs, default=rest[-1] if len(rest) % 2 else None)


def _same(subject: exp.Expr, value: exp.Expr) -> exp.Expr:
    kind = exp.Is if isinstance(value, exp.Null) else exp.EQ
    return kind(this=exp.Paren(this=subject), expression=value)


# --- Aggregates. ---


def _where(aggregate: type[exp.AggFunc], arguments: list[exp.Expr]) -> exp.Expr:
    """Read sumif(x, condition) and its like."""
    return exp.Filter(this=aggregate(this=arguments[0]), expression=exp.Where(this=arguments[1]))


def _different(arguments: list[exp.Expr]) -> exp.Expr:
    """Read approx_count_distinct(x)."""
    return exp.Count(this=exp.Distinct(expressions=arguments[:1]))


_Build = Callable[[list[exp.Expr]], exp.Expr]


def _of(least: int, most: int, build: _Build, name: str) -> _Build:
    """Return a builder that leaves a call with another number of arguments as it is written."""

    def built(arguments: list[exp.Expr]) -> exp.Expr:
        fits = least <= len(arguments) <= most
        return build(arguments) if fits else exp.Anonymous(this=name, expressions=arguments)

    return built


_BY_NUMBER: tuple[tuple[tuple[str, ...], int, int, _Build], ...] = (
    (("SAFE_DIVIDE", "TRY_DIVIDE", "DIVIDE_SAFE"), 2, 2, _quotient),
    (("DIV0",), 2, 2, _quotient_or_zero),
    (("DIV0NULL",), 2, 2, _quotient_or_zero_of_null),
    (("ZEROIFNULL",), 1, 1, _zero_for_null),
    (("NULLIFZERO",), 1, 1, _null_for_zero),
    (("ISNULL",), 1, 2, _is_null),
    (("NVL2",), 3, 3, _by_null),
    (("IFF",), 3, 3, exp.If.from_arg_list),
    (("SUMIF", "SUM_IF"), 2, 2, partial(_where, exp.Sum)),
    (("AVGIF", "AVG_IF"), 2, 2, partial(_where, exp.Avg)),
    (("APPROX_COUNT_DISTINCT", "APPROX_DISTINCT", "NUNIQUE"), 1, 1, _different),
    (("EVERY",), 1, 1, exp.LogicalAnd.from_arg_list),
)
SPELLINGS: dict[str, _Build] = {
    "DATE_TRUNC": _date_trunc,
    **dict.fromkeys(("DATE_PART", "DATEPART"), _date_part),
    **dict.fromkeys(("DATEDIFF", "DATE_DIFF"), _days_between),
    **dict.fromkeys(("TIMESTAMPDIFF", "TIMESTAMP_DIFF"), _times_between),
    **dict.fromkeys(("DATEADD", "DATE_ADD", "TIMESTAMPADD", "TIMESTAMP_ADD"), _moved_day),
    "ADD_MONTHS": _months_added,
    **dict.fromkeys(("DATE_SUB", "TIMESTAMP_SUB"), partial(_moved_day, sign=exp.Sub)),
    "DATE": _day,
    "REGEXP_REPLACE": _regexp_replace,
    **dict.fromkeys(("REGEXP_MATCHES", "REGEXP_CONTAINS", "RLIKE"), exp.RegexpLike.from_arg_list),
    **{name: _of(least, most, build, name.lower()) for names, least, most, build in _BY_NUMBER for name in names},
}
"""What builds the node of a function, by its name."""
_LEFT = re.compile("(DATE|TIMESTAMP|TS_OR_DS|DATETIME|TIME)_?(DIFF|ADD|SUB)|MONTHS_BETWEEN|ADD_MONTHS")


def is_left(name: str) -> bool:
    """Whether a function keeps its name and arguments, where the parser would read them in one dialect's way."""
    return _LEFT.fullmatch(name) is not None
