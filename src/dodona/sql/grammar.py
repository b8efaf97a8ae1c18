"""The grammar: which nodes of a syntax tree are known, and which of their arguments. All else is refused.

The list says what is allowed. A node or an argument that a later version of the parser brings is refused until
somebody has thought about it, and is never passed over in silence.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

RELATIONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
"""The comparisons, as they are written."""
_PAIR = frozenset(("this", "expression"))
_ONE = frozenset(("this",))
_CALL = frozenset(("this", "expressions"))
_NONE: frozenset[str] = frozenset()

NODES: Mapping[type[exp.Expr], frozenset[str]] = {
    # the statement
    exp.Select: frozenset(("expressions", "distinct", "from_", "where", "group", "having", "order", "limit", "offset")),
    exp.From: _ONE,
    exp.Table: frozenset(("this", "db", "alias")),
    exp.TableAlias: _ONE,
    exp.Where: _ONE,
    exp.Group: frozenset(("expressions", "all")),
    exp.Having: _ONE,
    exp.Order: frozenset(("expressions",)),
    exp.Ordered: frozenset(("this", "desc", "nulls_first")),
    exp.Limit: frozenset(("expression",)),
    exp.Offset: frozenset(("expression",)),
    exp.Alias: frozenset(("this", "alias")),
    # names and values
    exp.Identifier: frozenset(("this", "quoted")),
    exp.Column: frozenset(("this", "table", "db")),
    exp.Star: _NONE,
    exp.Var: _ONE,
    exp.Literal: frozenset(("this", "is_string")),
    exp.Boolean: _ONE,
    exp.Null: _NONE,
    exp.Cast: frozenset(("this", "to", "_type")),
    exp.DataType: frozenset(("this", "expressions", "nested")),
    exp.DataTypeParam: _ONE,
    # conditions
    exp.Paren: _ONE,
    exp.And: _PAIR,
    exp.Or: _PAIR,
    exp.Not: _ONE,
    exp.EQ: _PAIR,
    exp.NEQ: _PAIR,
    exp.LT: _PAIR,
    exp.LTE: _PAIR,
    exp.GT: _PAIR,
    exp.GTE: _PAIR,
    exp.NullSafeEQ: _PAIR,
    exp.NullSafeNEQ: _PAIR,
    exp.Is: _PAIR,
    exp.In: _CALL,
    exp.Tuple: frozenset(("expressions",)),
    exp.Distinct: frozenset(("expressions",)),
    exp.Between: frozenset(("this", "low", "high")),
    exp.Like: frozenset(("this", "expression", "negate")),
    exp.ILike: frozenset(("this", "expression", "negate")),
    exp.Case: frozenset(("this", "ifs", "default")),
    exp.If: frozenset(("this", "true", "false")),
    exp.Coalesce: _CALL,
    # arithmetic
    exp.Add: _PAIR,
    exp.Sub: _PAIR,
    exp.Mul: _PAIR,
    exp.Div: _PAIR,
    exp.Neg: _ONE,
    # dates
    exp.DateTrunc: frozenset(("unit", "this")),
    exp.TimestampTrunc: frozenset(("unit", "this")),
    exp.Extract: _PAIR,
    exp.Year: _ONE,
    exp.Quarter: _ONE,
    exp.Month: _ONE,
    exp.Week: _ONE,
    exp.Day: _ONE,
    exp.DayOfMonth: _ONE,
    exp.DayOfWeek: _ONE,
    exp.DayOfYear: _ONE,
    # aggregates
    exp.Count: frozenset(("this", "big_int")),
    exp.CountIf: _ONE,
    exp.Sum: _ONE,
    exp.Avg: _ONE,
    exp.Min: _ONE,
    exp.Max: _ONE,
    exp.Variance: _ONE,
    exp.VariancePop: _ONE,
    exp.Stddev: _ONE,
    exp.StddevPop: _ONE,
    exp.StddevSamp: _ONE,
    exp.Median: _ONE,
    exp.Quantile: frozenset(("this", "quantile")),
    exp.ApproxQuantile: frozenset(("this", "quantile")),
    exp.PercentileCont: _PAIR,
    exp.PercentileDisc: _PAIR,
    exp.WithinGroup: _PAIR,
    exp.Filter: _PAIR,
    exp.Anonymous: _CALL,
}

_LINKED = "A join could bring a person's rows many times, so one table alone is asked."
_WITHIN = "A question inside a question is not answered."
_PLAIN = "Ask one plain SELECT; put conditions into WHERE, FILTER or CASE."
_ONE_TABLE = "Declare the joined table as a view for the owner to serve, and ask that."
_WINDOW = "A window function shows rows one by one, and rows are never shown."
_GROUP = "Write an aggregate with GROUP BY, and ORDER BY over its answer."
_UNION = ("Answers of several SELECTs are not put together.", "Ask them one by one, or group by a CASE.")
DISTINCT = (
    "DISTINCT tells whether a value occurs at all, which one person can decide.",
    "Write count(*) with GROUP BY: every declared group is answered, with noise.",
)
_SAMPLE = ("Samples are not drawn.", "Leave it out: the answer is about the whole table.")
_ALWAYS = ("The time of asking is no fact about the data.", "Write the day itself, such as DATE '2024-01-31'.")
_JOIN = (_LINKED, _ONE_TABLE)
_NESTED = (_WITHIN, _PLAIN)
_OVER = (_WINDOW, _GROUP)
_TOTALS = ("Totals over several groupings are several questions.", "Ask them one by one with a GROUP BY each.")
_NO_LIST = ("Lists and structures are not part of a question.", "Write single values; a list of them with IN (...).")
_VALUE = ("A place for a value was left open.", "Write the value itself.")

WORDS: Mapping[TokenType, tuple[str, str]] = {
    TokenType.SELECT: _NESTED,
    TokenType.WITH: _NESTED,
    TokenType.EXISTS: _NESTED,
    TokenType.ANY: _NESTED,
    TokenType.SOME: _NESTED,
    TokenType.UNION: _UNION,
    TokenType.INTERSECT: _UNION,
    TokenType.EXCEPT: _UNION,
    TokenType.JOIN: _JOIN,
    TokenType.STRAIGHT_JOIN: _JOIN,
    TokenType.CROSS: _JOIN,
    TokenType.NATURAL: _JOIN,
    TokenType.USING: ("USING belongs to joins and samples, which are not answered.", "Leave it out."),
    TokenType.LATERAL: _JOIN,
    TokenType.OVER: _OVER,
    TokenType.QUALIFY: _OVER,
    TokenType.WINDOW: _OVER,
    TokenType.TABLE_SAMPLE: _SAMPLE,
    TokenType.INTERVAL: ("Reckoning with intervals is not part of a question.", "Write the day itself."),
    TokenType.CURRENT_DATE: _ALWAYS,
    TokenType.CURRENT_TIME: _ALWAYS,
    TokenType.CURRENT_TIMESTAMP: _ALWAYS,
    TokenType.CURRENT_DATETIME: _ALWAYS,
    TokenType.FETCH: ("FETCH is not known.", "Write LIMIT."),
    TokenType.CUBE: _TOTALS,
    TokenType.ROLLUP: _TOTALS,
    TokenType.GROUPING_SETS: _TOTALS,
    TokenType.L_BRACKET: _NO_LIST,
    TokenType.R_BRACKET: _NO_LIST,
    TokenType.L_BRACE: _NO_LIST,
    TokenType.R_BRACE: _NO_LIST,
    TokenType.ARRAY: _NO_LIST,
    TokenType.LIST: _NO_LIST,
    TokenType.MAP: _NO_LIST,
    TokenType.STRUCT: _NO_LIST,
    TokenType.NULLABLE: _NO_LIST,
    TokenType.LOWCARDINALITY: _NO_LIST,
    TokenType.NESTED: _NO_LIST,
    TokenType.OBJECT: _NO_LIST,
    TokenType.ARROW: _NO_LIST,
    TokenType.DARROW: _NO_LIST,
    TokenType.HASH_ARROW: _NO_LIST,
    TokenType.DHASH_ARROW: _NO_LIST,
    TokenType.PLACEHOLDER: _VALUE,
    TokenType.PARAMETER: _VALUE,
    TokenType.COLON: _VALUE,
    TokenType.HINT: ("Hints are not followed.", "Leave it out."),
    TokenType.INTO: ("An answer is not written into a table.", "Leave INTO out."),
}
"""Words and signs that no accepted question has, and what to say about them."""

TOGETHER = (exp.In, exp.EQ, exp.NEQ)
"""Where several values may stand together."""

SUBJECTS: Mapping[type[exp.Expr], tuple[str, str]] = {
    exp.Distinct: DISTINCT,
    exp.Join: _JOIN,
    exp.Subquery: _NESTED,
    exp.Window: _OVER,
    exp.CurrentDate: _ALWAYS,
    exp.CurrentTimestamp: _ALWAYS,
    exp.Rand: ("A random choice of rows is no fact about the data.", "Leave it out."),
    exp.Tuple: ("Several values stand here together.", "Write (a, b) IN ((1, 2), (3, 4)), or each value by itself."),
    exp.TryCast: ("A cast that may fail would tell about rows.", "Write CAST of a literal, or no cast at all."),
    exp.Fetch: ("FETCH is not known.", "Write LIMIT."),
    exp.Escape: ("LIKE has no ESCAPE here.", "Write the labels with IN (...)."),
    exp.Round: ("An answer is rounded where it is shown, not in the question.", "Leave round() out."),
    exp.Mod: ("A remainder is not part of a question.", "Write IN (...) or BETWEEN, or group by bin(column, width)."),
    exp.Interval: ("Reckoning with intervals is not part of a question.", "Write the day itself."),
    exp.Pow: ("Powers are not part of a question.", "Write var_pop(x) or stddev_pop(x) for a measure of spread."),
    exp.Nullif: ("NULLIF is not known.", "Write a CASE, or a WHERE that leaves the value out."),
    exp.Concat: ("Texts are not put together.", "Write the labels as they are declared."),
    exp.DPipe: ("Texts are not put together.", "Write the labels as they are declared."),
    exp.Lower: ("Labels are compared as they are declared.", "Write the labels with IN (...)."),
    exp.Upper: ("Labels are compared as they are declared.", "Write the labels with IN (...)."),
    exp.Mode: ("The most frequent value is a choice among groups.", "Write count(*) with GROUP BY and ORDER BY."),
}
"""Nodes that people try, and what to say about them."""

CALLS: Mapping[str, tuple[str, str]] = {
    "now": _ALWAYS,
    "today": _ALWAYS,
    "getdate": _ALWAYS,
    "bin": ("bin() makes groups, not values.", "Write it in GROUP BY; write >= and < in WHERE."),
}
"""Functions that people try, and what to say about them."""


def chain(node: exp.Expr) -> list[exp.Expr]:
    """Return the parts of a chain of ANDs, or of ORs, without recursion."""
    found: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if type(part) is type(node):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found
