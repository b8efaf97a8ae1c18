"""What people try in SQL and is not answered: the reason, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

_UNION = ("Answers of several SELECTs are not put together.", "Ask them one by one, or group by a CASE.")
DISTINCT_REFUSAL = (
    "DISTINCT tells whether a value occurs at all, which one person can decide.",
    "Write count(*) with GROUP BY: every declared group is answered, with noise.",
)
_CLOCK = ("The time of day is not part of a question.", "Write current_date, or the time itself.")
_JOIN = (
    "A join could bring a person's rows many times, so one table alone is asked.",
    "Declare the joined table as a view for the owner to serve, and ask that.",
)
_NESTED = (
    "A question inside a question is not answered.",
    "Ask one plain SELECT; put conditions into WHERE, FILTER or CASE.",
)
_OVER = (
    "A window function shows rows one by one, and rows are never shown.",
    "Write an aggregate with GROUP BY, and ORDER BY over its answer.",
)
_TOTALS = ("Totals over several groupings are several questions.", "Ask them one by one with a GROUP BY each.")
_CURVED = ("This function gives numbers that are not exact.", "Write it over an answer, such as sqrt(avg(x)), or CASE.")
_ONE_ROW = ("This shows the value of single rows, and rows are never shown.", "Write count(*) with GROUP BY.")
_JOINED_TEXTS = (
    "This shows the values of rows in a text, and rows are never shown.",
    "Group by it, and join the labels: SELECT string_agg(x, ', ') FROM (SELECT x, count(*) FROM ... GROUP BY x) AS y.",
)
_NO_LIST = (
    "Lists and structures are not part of a question.",
    "Write single values; a list of them with IN (...), and one quantile(column, part) for each part.",
)
_SEVERAL_PARTS = (
    "A list of quantiles is not one value.",
    "Write quantile(column, 0.25), quantile(column, 0.5) and so on, each as a column.",
)
_BITS = ("Numbers are not read bit by bit.", "Write column % 2 = 1 for odd numbers, or IN with a list of values.")
_VALUE = ("A place for a value was left open.", "Write the value itself.")
INTERVAL_ENDS: Mapping[str, Literal["low", "high"]] = {"dp_interval_low": "low", "dp_interval_high": "high"}
"""The functions that show an end of an interval as a column."""
END_ALONE = (
    "The end of an interval is a column by itself.",
    "Write DP_INTERVAL_LOW(n) AS low in the outermost SELECT, and compute with the answer.",
)

REFUSED_KEYWORDS: Mapping[TokenType, tuple[str, str]] = {
    **dict.fromkeys((TokenType.SELECT, TokenType.WITH, TokenType.EXISTS), _NESTED),
    **dict.fromkeys((TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT), _UNION),
    **dict.fromkeys((TokenType.JOIN, TokenType.STRAIGHT_JOIN, TokenType.CROSS), _JOIN),
    TokenType.NATURAL: ("NATURAL leaves open what a join is by.", "Write JOIN ... USING (column)."),
    TokenType.LATERAL: ("LATERAL is not known.", "Join the answers with ON, or compute the column in a sub-select."),
    **dict.fromkeys((TokenType.OVER, TokenType.QUALIFY, TokenType.WINDOW), _OVER),
    **dict.fromkeys((TokenType.CURRENT_TIME, TokenType.CURRENT_DATETIME), _CLOCK),
    **dict.fromkeys((TokenType.CUBE, TokenType.ROLLUP, TokenType.GROUPING_SETS), _TOTALS),
    **dict.fromkeys((TokenType.L_BRACE, TokenType.R_BRACE), _NO_LIST),
    **dict.fromkeys((TokenType.LIST, TokenType.MAP, TokenType.STRUCT, TokenType.OBJECT), _NO_LIST),
    **dict.fromkeys((TokenType.NULLABLE, TokenType.LOWCARDINALITY, TokenType.NESTED), _NO_LIST),
    **dict.fromkeys((TokenType.ARROW, TokenType.DARROW, TokenType.HASH_ARROW, TokenType.DHASH_ARROW), _NO_LIST),
    **dict.fromkeys((TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.COLON), _VALUE),
    TokenType.USING: ("USING belongs to joins and samples, which are not answered.", "Leave it out."),
    TokenType.TABLE_SAMPLE: ("Samples are not drawn.", "Leave it out: the answer is about the whole table."),
    TokenType.COMMAND: ("Only SELECT is answered.", "Write SELECT count(*) FROM ... to begin with."),
    TokenType.DAMP: ("`&&` is not known.", "Write AND."),
    TokenType.HINT: ("Hints are not followed.", "Leave it out."),
    TokenType.INTO: ("An answer is not written into a table.", "Leave INTO out."),
}
"""Keywords and symbols that no plain SELECT contains, with the explanation for each."""

STATEMENT_KEYWORDS = frozenset(
    (
        *(TokenType.SELECT, TokenType.WITH, TokenType.EXISTS, TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT),
        *(TokenType.JOIN, TokenType.CROSS, TokenType.USING, TokenType.OVER, TokenType.QUALIFY, TokenType.WINDOW),
        *(TokenType.CUBE, TokenType.ROLLUP, TokenType.GROUPING_SETS),
    )
)
"""Those of them that a statement of several SELECTs may contain: what computes on answers is free."""

REFUSED_NODES: Mapping[type[exp.Expr], tuple[str, str]] = {
    exp.Distinct: DISTINCT_REFUSAL,
    exp.Join: _JOIN,
    exp.Subquery: _NESTED,
    exp.Window: _OVER,
    exp.Rand: ("A random choice of rows is no fact about the data.", "Leave it out."),
    exp.Tuple: ("Several values stand here together.", "Write (a, b) IN ((1, 2), (3, 4)), or each value by itself."),
    exp.TryCast: ("A cast that may fail would tell about rows.", "Write CAST of a literal, or no cast at all."),
    **dict.fromkeys((exp.Array, exp.Bracket, exp.Struct), _NO_LIST),
    **dict.fromkeys((exp.Sqrt, exp.Ln, exp.Log, exp.Exp, exp.Cbrt), _CURVED),
    **dict.fromkeys((exp.First, exp.Last, exp.AnyValue, exp.ArrayAgg, exp.ArgMax, exp.ArgMin), _ONE_ROW),
    exp.GroupConcat: _JOINED_TEXTS,
    exp.ApproxQuantiles: _SEVERAL_PARTS,
    exp.LogicalOr: ("One row would decide this.", "Write count_if(condition), or avg(condition) for the share."),
    exp.LogicalAnd: ("One row would decide this.", "Write count_if(NOT condition), or avg(condition) for the share."),
    exp.Any: ("ANY stands behind = alone.", "Write IN (...), or a comparison with the smallest or the largest value."),
    exp.IsNan: ("NaN counts as missing.", "Write column IS NULL."),
    exp.BitwiseXor: ("`^` is read in different ways.", "Write power(column, 2) for a square, or <> for one of two."),
    **dict.fromkeys(
        (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift), _BITS
    ),
    exp.Xor: ("XOR is not known.", "Write a <> b for two conditions; power(column, 2) for a square."),
    exp.Mode: ("The most frequent value is a choice among groups.", "Write count(*) with GROUP BY and ORDER BY."),
}
"""Refused nodes that people try, with the explanation for each."""

_FIRST = ("This shows the value of single rows, and rows are never shown.", "Write min, max, median or avg of it.")
_FREQUENT = (
    "The most frequent value is not an aggregate here.",
    "Write SELECT column, count(*) ... GROUP BY column ORDER BY count(*) DESC LIMIT 1.",
)
_LISTED = ("This shows the values of rows in a list, and rows are never shown.", "Write count(*) with GROUP BY.")
_SHAPE = ("This measure of shape is not known.", "Write stddev, or quantile(column, part) for several parts.")
_SQUARES = (
    "Sums of squares about the mean are not known by this name.",
    "Write regr_count(y, x) * var_pop(x), var_pop(y), or covar_pop(y, x).",
)
REFUSED_AGGREGATES: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("mode", "approx_top_k", "topk"), _FREQUENT),
    "histogram": (
        "A histogram is a count by groups.",
        "Write SELECT column, count(*) ... GROUP BY column, or group by bin(column, width).",
    ),
    "product": ("Rows are not multiplied.", "Write sum or avg of the column."),
    "geomean": ("Rows are not multiplied.", "Write avg or median of the column."),
    "total": ("Rows are added up by another name here.", "Write sum(column)."),
    **dict.fromkeys(("first", "last", "arbitrary"), _FIRST),
    **dict.fromkeys(("array_agg", "json_agg", "collect_list", "collect_set"), _LISTED),
    **dict.fromkeys(("approx_quantiles", "quantiles", "approx_percentiles"), _SEVERAL_PARTS),
    **dict.fromkeys(("skewness", "kurtosis", "entropy", "mad"), _SHAPE),
    **dict.fromkeys(("regr_sxx", "regr_syy", "regr_sxy"), _SQUARES),
}
"""Aggregates that people try, with what to write instead of each."""
REFUSED_FUNCTIONS: Mapping[str, tuple[str, str]] = {
    "bin": ("bin() makes groups, not values.", "Write it in GROUP BY; write >= and < in WHERE."),
    **REFUSED_AGGREGATES,
}
"""Refused functions that people try, with the explanation for each."""
FROM_OTHER_DIALECTS: Mapping[str, tuple[str, str]] = {
    "top": ("TOP is not known.", "Write LIMIT and the number at the end."),
    "=>": (
        "`=>` is not known.",
        "Write >= to compare; for bounds of a sum, write sum(greatest(least(column, upper), lower)).",
    ),
    "pivot": ("PIVOT is not known.", "Write an aggregate with FILTER (WHERE column = value) for each column."),
    "unpivot": ("UNPIVOT is not known.", "Write one SELECT for each column, with UNION ALL between them."),
    "[": (
        "Square brackets are not known here.",
        'Write names in double quotes or backticks, such as "region", and a list of values with IN (...).',
    ),
    "$": _VALUE,
    "describe": ("", "Tables and columns are shown by describe() in Python and by the command `dodona describe`."),
    "differential_privacy": (
        "WITH DIFFERENTIAL_PRIVACY stands behind the first SELECT of a statement.",
        "Write it there, or leave it out: every question is private.",
    ),
    "symmetric": ("BETWEEN SYMMETRIC is not known.", "Write BETWEEN, with the smaller value first."),
    "ties": ("FETCH is of a number of rows.", "Write FETCH FIRST 5 ROWS ONLY, or LIMIT 5."),
}
"""Words and signs of other dialects that the parser would only call unexpected."""
