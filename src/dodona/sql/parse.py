"""Parse a SQL text into the syntax tree of one SELECT, using an allow-list.

Every node and argument of the returned tree is on the list; anything else is refused with a reason. Length, depth and
number of tokens are bounded before the parser runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from dodona.sql.scope import InvalidSql, node_start

# --- Grammar: the allowed nodes of a syntax tree and their arguments. Everything else is refused. ---


RELATIONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
"""The comparison operators, as written."""
_PAIR = frozenset(("this", "expression"))
_ONE = frozenset(("this",))
_CALL = frozenset(("this", "expressions"))
_NONE: frozenset[str] = frozenset()

ALLOWED_NODES: Mapping[type[exp.Expr], frozenset[str]] = {
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
DISTINCT_REFUSAL = (
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

REFUSED_KEYWORDS: Mapping[TokenType, tuple[str, str]] = {
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
"""Keywords and symbols that no accepted query contains, with the explanation for each."""

TUPLE_PARENTS = (exp.In, exp.EQ, exp.NEQ)
"""The nodes in which a tuple may occur."""

REFUSED_NODES: Mapping[type[exp.Expr], tuple[str, str]] = {
    exp.Distinct: DISTINCT_REFUSAL,
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
"""Refused nodes that people try, with the explanation for each."""

REFUSED_FUNCTIONS: Mapping[str, tuple[str, str]] = {
    "now": _ALWAYS,
    "today": _ALWAYS,
    "getdate": _ALWAYS,
    "bin": ("bin() makes groups, not values.", "Write it in GROUP BY; write >= and < in WHERE."),
}
"""Refused functions that people try, with the explanation for each."""


def flatten_chain(node: exp.Expr) -> list[exp.Expr]:
    """Return the parts of a chain of ANDs or ORs, without recursion."""
    found: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if type(part) is type(node):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found


# --- Parsing: from a text to the tree of one SELECT with only allowed nodes and arguments. ---


LONGEST_TEXT = 100_000
MOST_TOKENS = 20_000
DEEPEST = 16
"""The maximum nesting of brackets and CASE: the parser takes up to thirty Python stack frames per level."""
DEEPEST_TREE = 80
_MOST_SIGNS = 40
_SIGNS = frozenset((TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE))
_DEPTH = {TokenType.L_PAREN: 1, TokenType.CASE: 1, TokenType.R_PAREN: -1, TokenType.END: -1}
_TYPES = frozenset(Parser.TYPE_TOKENS) - {TokenType.VAR, TokenType.IDENTIFIER}
_OPENING = frozenset((TokenType.SELECT, TokenType.COMMA, TokenType.L_PAREN))
_CLOSING = frozenset(
    (
        TokenType.FROM,
        TokenType.R_PAREN,
        TokenType.WHERE,
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.ORDER_BY,
        TokenType.LIMIT,
        TokenType.SEMICOLON,
    )
)
_SIMPLER = "Write it in fewer levels, or ask several questions."


def parse(text: str) -> exp.Select:
    """Parse a text to the tree of its single SELECT."""
    tokens = _tokenize(text)
    _check_tokens(text, tokens)
    while tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    try:
        trees = Parser().parse(tokens, text)
    except ParseError as fault:
        raise _syntax_error(text, tokens, fault) from None
    except RecursionError:
        raise InvalidSql(text, 0, "This is nested too deeply.", _SIMPLER) from None
    tree = trees[0]
    if not isinstance(tree, exp.Select):
        raise InvalidSql(text, 0, "This is not one SELECT.", "Write SELECT ... FROM ... WHERE ... GROUP BY ...")
    _check_tree(text, tree)
    return tree


def _tokenize(text: str) -> list[Token]:
    if len(text) > LONGEST_TEXT:
        what = f"The text has {len(text)} characters; {LONGEST_TEXT} are read."
        raise InvalidSql(text, LONGEST_TEXT, what, "Write a shorter question: BETWEEN for long lists of IN.")
    try:
        return Tokenizer().tokenize(text)
    except TokenError as fault:
        place = len(text) if fault.end is None else fault.end
        raise InvalidSql(text, place, "The text ends inside quotes or a comment.", "Close them.") from None


def _check_tokens(text: str, tokens: list[Token]) -> None:
    """Refuse other statements, excessive depth and forbidden symbols before the parser runs."""
    if not tokens or tokens[0].token_type is not TokenType.SELECT:
        start = tokens[0].start if tokens else 0
        if tokens and tokens[0].token_type in REFUSED_KEYWORDS:
            raise InvalidSql(text, start, *REFUSED_KEYWORDS[tokens[0].token_type])
        raise InvalidSql(text, start, "Only SELECT is answered.", "Write SELECT count(*) FROM ... to begin with.")
    if len(tokens) > MOST_TOKENS:
        what = f"The text has {len(tokens)} words and signs; {MOST_TOKENS} are read."
        raise InvalidSql(
            text, tokens[MOST_TOKENS].start, what, "Write a shorter question: BETWEEN for long lists of IN."
        )
    depth = nots = 0
    for before, token in pairwise(tokens):
        kind = token.token_type
        nots = nots + 1 if kind in _SIGNS else 0
        depth += _DEPTH.get(kind, 0)
        if depth > DEEPEST or nots > _MOST_SIGNS:
            raise InvalidSql(text, token.start, f"This is nested more than {DEEPEST} levels deep.", _SIMPLER)
        if before.token_type is TokenType.SEMICOLON and kind is not TokenType.SEMICOLON:
            raise InvalidSql(text, token.start, "A second statement begins here.", "Ask one question at a time.")
        if kind in REFUSED_KEYWORDS:
            raise InvalidSql(text, token.start, *REFUSED_KEYWORDS[kind])
    _check_commas(text, tokens)
    _check_types(text, tokens)


def _check_commas(text: str, tokens: list[Token]) -> None:
    """Refuse commas with an empty side, which the parser ignores."""
    for before, token in pairwise((*tokens, None)):
        kind = TokenType.SEMICOLON if token is None else token.token_type
        stray = kind is TokenType.COMMA and before is not None and before.token_type in _OPENING
        if before is not None and (stray or (before.token_type is TokenType.COMMA and kind in _CLOSING)):
            start = token.start if stray and token is not None else before.start
            raise InvalidSql(text, start, "A comma has nothing before or after it.", "Leave the comma out.")


def _check_types(text: str, tokens: list[Token]) -> None:
    """Refuse type names used as functions: nested ones take the parser exponential time."""
    for index, token in enumerate(tokens[:-1]):
        if token.token_type in _TYPES and tokens[index + 1].token_type is TokenType.L_PAREN:
            if tokens[index - 1].token_type in {TokenType.ALIAS, TokenType.DCOLON}:
                continue
            name = token.text[:60]
            raise InvalidSql(text, token.start, f"`{name}(...)` is not known.", f"Write CAST(... AS {name}).")


def _syntax_error(text: str, tokens: list[Token], fault: ParseError) -> InvalidSql:
    """Reword the parser's error, pointing at the token where it stopped."""
    found = fault.errors[0] if fault.errors else {}
    place = (found.get("line"), found.get("col"))
    token = next((token for token in tokens if (token.line, token.col) == place), tokens[-1])
    said = str(found.get("description") or "")
    if said.startswith("Expecting"):
        return InvalidSql(text, token.start, f"Something is missing here: {said.lower()}.", "Write it before this.")
    if said.startswith("Required keyword"):
        return InvalidSql(text, token.start, "Something is missing around here.", "Complete the expression.")
    shown = token.text[:60]
    return InvalidSql(
        text, token.start, f"`{shown}` cannot be read here.", "Look for a missing comma, quote or bracket."
    )


def _check_tree(text: str, tree: exp.Select) -> None:
    """Refuse every node and argument that is not on the list, without recursion."""
    waiting: list[tuple[exp.Expr, int]] = [(tree, 0)]
    for node, depth in waiting:
        allowed = ALLOWED_NODES.get(type(node))
        if allowed is None or _is_misplaced(node):
            raise InvalidSql(text, node_start(node, text), *_refusal(node))
        if depth > DEEPEST_TREE:
            raise InvalidSql(
                text, node_start(node, text), f"More than {DEEPEST_TREE} steps are chained here.", _SIMPLER
            )
        for name, value in node.args.items():
            if value is None or value is False or value == []:
                continue
            if name not in allowed:
                first = value[0] if isinstance(value, list) else value
                place = node_start(first if isinstance(first, exp.Expr) else node, text)
                raise InvalidSql(text, place, *_unknown_argument(node, name, first))
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, exp.Expr):
                    chained = isinstance(node, exp.Connector) and type(child) is type(node)
                    waiting.append((child, depth if chained else depth + 1))


def _is_misplaced(node: exp.Expr) -> bool:
    """Whether a node has no meaning in its place: a tuple, or DISTINCT other than on one counted column."""
    if isinstance(node, exp.Distinct) and isinstance(node.parent, exp.Select):
        return node.args.get("on") is not None
    if isinstance(node, exp.Distinct):
        counted = isinstance(node.parent, exp.Count) and len(node.expressions) == 1
        return not counted or not isinstance(node.expressions[0], exp.Column)
    return isinstance(node, exp.Tuple) and not isinstance(node.parent, TUPLE_PARENTS)


def _refusal(node: exp.Expr) -> tuple[str, str]:
    if type(node) in REFUSED_NODES:
        return REFUSED_NODES[type(node)]
    name = node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__
    return f"`{name}` is not part of a question.", "See the page on SQL for what is."


def _unknown_argument(node: exp.Expr, name: str, first: object) -> tuple[str, str]:
    if isinstance(first, exp.Expr) and type(first) in REFUSED_NODES:
        return REFUSED_NODES[type(first)]
    called = node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__.lower()
    what = f"`{called}` is written with something that is not known here ({name.strip('_')})."
    return what, "Leave that part out."
