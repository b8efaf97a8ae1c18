"""The outer half's allow-list: which nodes and functions may compute on answers, and how DuckDB is to read them.

Everything that is not listed is refused, so that no file, setting, extension or table can be named.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from dodona.sql.parse import RELATIONS, bare
from dodona.sql.refusals import END_ALONE, INTERVAL_ENDS
from dodona.sql.scope import InvalidSql, node_start

SELECT_PARTS = frozenset(
    (
        *("with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "qualify", "windows"),
        *("order", "limit", "offset", "kind", "hint"),
    )
)
_STRUCTURE: tuple[type[exp.Expr], ...] = (
    *(exp.Select, exp.Subquery, exp.Union, exp.Intersect, exp.Except, exp.With, exp.CTE, exp.From, exp.Join),
    *(exp.Table, exp.TableAlias, exp.Where, exp.Having, exp.Group, exp.Order, exp.Ordered, exp.Limit, exp.Offset),
    *(exp.Qualify, exp.Window, exp.WindowSpec, exp.Distinct, exp.Filter, exp.IgnoreNulls, exp.RespectNulls),
    *(exp.WithinGroup, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Grouping, exp.Exists),
)
_VALUES: tuple[type[exp.Expr], ...] = (
    *(exp.Alias, exp.Identifier, exp.Column, exp.Star, exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.Tuple),
    *(exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.Interval, exp.Var, exp.Case, exp.If, exp.In),
    *(exp.Between, exp.Like, exp.ILike, exp.Not, exp.Neg, exp.And, exp.Or, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.DPipe, exp.Escape),
    *RELATIONS,
)
_SCALARS: tuple[type[exp.Expr], ...] = (
    *(exp.Round, exp.Floor, exp.Ceil, exp.Trunc, exp.Abs, exp.Sign, exp.Sqrt, exp.Ln, exp.Log, exp.Exp, exp.Pow),
    *(exp.Greatest, exp.Least, exp.Coalesce, exp.Nullif, exp.Concat, exp.ConcatWs, exp.Lower, exp.Upper, exp.Trim),
    *(exp.Substring, exp.Length, exp.Replace, exp.Left, exp.Right, exp.Pad, exp.StrPosition, exp.Initcap),
    *(exp.Repeat, exp.Reverse, exp.SplitPart, exp.StartsWith, exp.Contains, exp.RegexpLike, exp.RegexpILike),
    *(exp.RegexpReplace, exp.RegexpExtract, exp.RegexpFullMatch),
    *(exp.DateTrunc, exp.TimestampTrunc, exp.Extract, exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day),
    *(exp.DayOfMonth, exp.DayOfWeek, exp.DayOfYear, exp.DateAdd, exp.DateSub, exp.DateDiff, exp.LastDay),
    *(exp.Hour, exp.Minute, exp.Second, exp.DayOfWeekIso, exp.WeekOfYear, exp.YearOfWeekIso),
    *(exp.TimeToStr, exp.ToChar, exp.Dayname, exp.Monthname, exp.Date, exp.TsOrDsToDate),
)
_AGGREGATES: tuple[type[exp.Expr], ...] = (
    *(exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Count, exp.CountIf, exp.Median, exp.Stddev, exp.StddevPop),
    *(exp.StddevSamp, exp.Variance, exp.VariancePop, exp.Quantile, exp.PercentileCont, exp.PercentileDisc),
    *(exp.Corr, exp.CovarPop, exp.CovarSamp, exp.RegrSlope, exp.RegrIntercept, exp.RegrR2, exp.AnyValue),
    *(exp.ArgMax, exp.ArgMin, exp.GroupConcat, exp.LogicalAnd, exp.LogicalOr),
)
RANKING: tuple[type[exp.Expr], ...] = (
    *(exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile, exp.ArgMax, exp.ArgMin),
)
"""Functions that tell an order: of noisy values no honest interval of it is known."""
_WINDOWED: tuple[type[exp.Expr], ...] = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue, *RANKING)
_ALLOWED = frozenset((*_STRUCTURE, *_VALUES, *_SCALARS, *_AGGREGATES, *_WINDOWED))
AGGREGATES = frozenset(_AGGREGATES)
_NAMED_AGGREGATES = frozenset(("quantile_cont", "quantile_disc", "mean", "mode", "count_if", "mad", "skewness"))
_NAMED_DATES = frozenset(("datediff", "date_part", "epoch", "strftime"))
_NAMED = frozenset(
    ("trunc", "cbrt", "degrees", "radians", "sin", "cos", "tan", "pi", *_NAMED_DATES, *_NAMED_AGGREGATES)
)
"""Further functions, which the parser knows only by name."""
_FORMATTED = ("Numbers are not formatted.", "Write round(value, 2), or CAST(round(value, 2) AS text).")
_INSTEAD: dict[str, tuple[str, str]] = {
    "rand": ("A random number is not computed from answers.", "Leave it out."),
    "random": ("A random number is not computed from answers.", "Leave it out."),
    "unnest": ("Lists are not unnested.", "Write FROM (VALUES ('a'), ('b')) AS list(name)."),
    **dict.fromkeys(
        ("array_agg", "json_object_agg", "json_agg", "list"),
        ("Lists and structures are not computed on answers.", "Write string_agg(label, ', '), or one row for each."),
    ),
    "bracket": ("Lists and structures are not computed on answers.", "Write single values, or a CASE."),
    "similarto": ("SIMILAR TO is not computed on answers.", "Write regexp_matches(label, pattern), or LIKE."),
    **dict.fromkeys(
        ("getdate", "sysdate", "now", "curdate", "today", "currentdate", "currenttimestamp"),
        ("The day of asking is not computed on answers.", "Write it in WHERE, as current_date, or as a date."),
    ),
    **dict.fromkeys(INTERVAL_ENDS, END_ALONE),
    "ratio_to_report": ("Shares are written in another way here.", "Write count(*) / sum(count(*)) OVER ()."),
    "divide": ("Divisions are written in another way here.", "Write a / b, which is NULL where b is 0."),
    "all": ("ALL compares with a list.", "Write value >= (SELECT max(...) ...), or <= (SELECT min(...) ...)."),
    **dict.fromkeys(("format", "to_varchar", "printf"), _FORMATTED),
    **dict.fromkeys(
        ("date_format", "format_date", "format_timestamp", "formatdatetime"),
        ("Days are written as text by another name here.", "Write strftime(day, '%Y-%m'), or to_char(day, 'YYYY-MM')."),
    ),
    "grouping_id": ("Groupings are told apart by another name here.", "Write grouping(a, b)."),
}
_FREE = "Round, arithmetic, CASE, dates, texts and windows are; see the page on SQL."


def is_outer_aggregate(node: exp.Expr) -> bool:
    """Whether a node is an aggregate of released rows."""
    return type(node) in AGGREGATES or (isinstance(node, exp.Anonymous) and node.name.lower() in _NAMED_AGGREGATES)


def check_outer(text: str, node: exp.Expr) -> None:
    """Refuse a node of the outer half that is not on the list."""
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        if name in _NAMED:
            return
        near = get_close_matches(name, _known_names(), n=1)
        hint = f"Did you mean {near[0]}?" if near else _FREE
        what, instead = _INSTEAD.get(name, (f"`{name[:60]}` is not computed on answers.", hint))
        raise InvalidSql(text, node_start(node, text), what, instead)
    if type(node) not in _ALLOWED:
        name = node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__.lower()
        what, instead = _INSTEAD.get(name, (f"`{name[:60]}` is not computed on answers.", _FREE))
        raise InvalidSql(text, node_start(node, text), what, instead)
    if isinstance(node, exp.Select):
        for name, value in node.args.items():
            if value and (name not in SELECT_PARTS or name in {"kind", "hint"}):
                what = f"This part of SELECT is not known here ({name.strip('_')})."
                raise InvalidSql(text, node_start(node, text), what, "Leave it out.")


def _known_names() -> list[str]:
    functions = (*_SCALARS, *_AGGREGATES, *_WINDOWED)
    return [*_NAMED, *(function.sql_name().lower() for function in functions if issubclass(function, exp.Func))]


# --- Reading by DuckDB: the same meaning for every number, and NULL where a number has no value. ---


_LONGEST_REPEAT = 1_000
"""Beyond it a repeated text is NULL, so that no noisy number makes a result too large."""
_LONGEST_TEXT, _LONGEST_PART = 10_000, 100
"""The lengths to which texts that are joined, padded or replaced are cut, and the parts that are repeated in them."""
_CONSTANTS = {"strftime": 1, "date_part": 0}
"""The place of an argument that must be a constant."""
_SIGNS = dict(
    zip(
        (
            "YYYY",
            "YY",
            "IYYY",
            "MM",
            "FMMonth",
            "Mon",
            "IW",
            "DDD",
            "DD",
            "FMDay",
            "Dy",
            "HH24",
            "HH12",
            "AM",
            "MI",
            "SS",
        ),
        ("%Y", "%y", "%G", "%m", "%B", "%b", "%V", "%j", "%d", "%A", "%a", "%H", "%I", "%p", "%M", "%S"),
        strict=True,
    )
)
"""How DuckDB writes the patterns of to_char."""
_PATTERNS = re.compile("|".join((*sorted(_SIGNS, key=len, reverse=True), "[-/:., ]")))
_INTEGERS = frozenset((exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT, exp.DType.TINYINT))
_DECIMALS = frozenset((exp.DType.DECIMAL, exp.DType.FLOAT, exp.DType.DOUBLE))
_TEXTS = frozenset((exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.CHAR))
_CASTS = _INTEGERS | _DECIMALS | _TEXTS | {exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.BOOLEAN}


def total_functions(text: str, tree: exp.Expr) -> exp.Expr:
    """Return the tree with NULL for what has no value: a division by zero, a logarithm of 0, a cast that fails.

    A decimal is a double, rounded to its places: answers are doubles, and no digits of theirs may overflow. Texts have
    a bounded length, as no limit on memory holds them.
    """
    for node in reversed(list(tree.walk())):  # what is inside comes first, as what is around may be made anew
        changed = _total(text, node)
        if changed is not node:
            node.replace(changed)
            tree = changed if node is tree else tree
    return tree


def _total(text: str, node: exp.Expr) -> exp.Expr:
    """Return one node with a value, or NULL, for all values of its parts."""
    match node:
        case exp.Div() | exp.Mod() | exp.IntDiv():
            below = bare(node.expression)
            if not isinstance(below, exp.Literal):
                node.set("expression", exp.Nullif(this=node.expression, expression=exp.Literal.number(0)))
            elif not below.is_string and float(below.this) == 0:
                raise InvalidSql(text, node_start(below, text), "This divides by zero.", "Write another divisor.")
            return _whole(node)
        case exp.Sqrt():
            node.set("this", _where(node.this, exp.GTE))
        case exp.Ln() | exp.Log():
            name = "expression" if node.args.get("expression") is not None else "this"
            node.set(name, _where(node.args[name], exp.GT))
        case exp.Cast() | exp.ToChar() | exp.Anonymous():
            return _read_constants(text, node)
        case (
            exp.Repeat() | exp.Pad() | exp.Replace() | exp.RegexpReplace() | exp.Concat() | exp.ConcatWs() | exp.DPipe()
        ):
            return _short(node)
        case exp.GroupConcat():
            node.set("this", _cut(node.this, _LONGEST_PART))
    return node


def _read_constants(text: str, node: exp.Cast | exp.ToChar | exp.Anonymous) -> exp.Expr:
    """Return a cast, or a function of which one argument must be a constant: no text may grow from one to the next."""
    match node:
        case exp.Cast():
            return _cast(text, node)
        case exp.ToChar():
            return _day_text(text, node)
    place = _CONSTANTS.get(node.name.lower())
    constant = None if place is None else (*node.expressions, None, None)[place]
    if place is not None and not (isinstance(constant, exp.Literal) and len(constant.name) <= _LONGEST_PART):
        instead = "Write strftime(day, '%Y-%m'), or date_part('month', day)."
        raise InvalidSql(text, node_start(node, text), f"`{node.name[:60]}` is written with a constant.", instead)
    return node


def _day_text(text: str, node: exp.ToChar) -> exp.Expr:
    """Return to_char of a day or a time as DuckDB has it, with % signs."""
    pattern = node.args.get("format")
    parts = _PATTERNS.findall(pattern.name) if isinstance(pattern, exp.Literal) else []
    if pattern is None or not parts or "".join(parts) != pattern.name:
        instead = "Write to_char(day, 'YYYY-MM-DD') or 'Mon YYYY', strftime(day, '%Y-%m'), or round(number, 2)."
        raise InvalidSql(text, node_start(node, text), "This pattern is not written on answers.", instead)
    signs = exp.Literal.string("".join(_SIGNS.get(part, part) for part in parts))
    return exp.Anonymous(this="strftime", expressions=[node.this, signs])


def _short(node: exp.Expr) -> exp.Expr:
    """Return a function that makes longer texts of short ones, with a bound on what it reads and on what it gives."""
    if isinstance(node, exp.Repeat | exp.Pad):
        name, most = ("times", _LONGEST_REPEAT) if isinstance(node, exp.Repeat) else ("expression", _LONGEST_TEXT)
        number = exp.TryCast(this=node.args[name], to=exp.DataType(this=exp.DType.INT))
        within = exp.Between(this=number.copy(), low=exp.Literal.number(0), high=exp.Literal.number(most))
        node.set(name, exp.Case(ifs=[exp.If(this=within, true=number)]))
    if isinstance(node, exp.Repeat | exp.Replace | exp.RegexpReplace):
        node.set("this", _cut(node.this, _LONGEST_TEXT if node.args.get("replacement") else _LONGEST_PART))
        if node.args.get("replacement"):
            node.set("replacement", _cut(node.args["replacement"], _LONGEST_PART))
    around = node.parent
    chained = isinstance(node, exp.DPipe) and isinstance(around, exp.DPipe)
    return node if chained else _cut(node.copy(), _LONGEST_TEXT)  # the node itself still stands in the tree


def _cut(value: exp.Expr, most: int) -> exp.Expr:
    """Return a text cut to a length."""
    return exp.Left(this=value, expression=exp.Literal.number(most))


def _whole(node: exp.Expr) -> exp.Expr:
    """Return a division of whole numbers without its fraction; answers are doubles, which `//` would divide in full."""
    if not isinstance(node, exp.IntDiv):
        return node
    ratio = exp.Div(this=exp.Paren(this=node.this), expression=exp.Paren(this=node.expression))
    return exp.Trunc(this=ratio)


def _where(value: exp.Expr, comparison: type[exp.Binary]) -> exp.Expr:
    """Return a value where it is above zero, and NULL elsewhere."""
    condition = comparison(this=value.copy(), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=condition, true=value.copy())])


def _cast(text: str, node: exp.Cast) -> exp.Expr:
    kind = node.args["to"]
    if kind.this not in _CASTS:
        instead = "Cast to integer, double, decimal, text, date, timestamp or boolean."
        raise InvalidSql(text, node_start(node, text), "Answers are not cast to this type.", instead)
    if kind.this in _DECIMALS:
        places = [part.this for part in kind.expressions]
        number: exp.Expr = exp.TryCast(this=node.this, to=exp.DataType(this=exp.DType.DOUBLE))
        if kind.this is exp.DType.DECIMAL and places:
            number = exp.Round(this=number, decimals=places[1].copy() if len(places) > 1 else exp.Literal.number(0))
        return number
    target = exp.DType.BIGINT if kind.this in _INTEGERS else exp.DType.TEXT if kind.this in _TEXTS else kind.this
    return exp.TryCast(this=node.this, to=exp.DataType(this=target))


def render(text: str, tree: exp.Expr) -> str:
    """Return a tree as DuckDB reads it."""
    try:
        return tree.sql(dialect="duckdb", identify=True, comments=False, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as fault:
        what = f"This is not computed on answers: {str(fault).rstrip('.')[:200]}."
        raise InvalidSql(text, 0, what, "Write it in another way.") from None
