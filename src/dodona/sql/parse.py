"""Parse a SQL text into the syntax tree of one SELECT, or of a statement of several, using an allow-list.

Every node and argument of a SELECT over the table is on the list; anything else is refused with a reason. Length, depth
and number of tokens are bounded before the parser runs. The part of a statement that computes on answers has a longer
list, in `outer`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from difflib import get_close_matches
from itertools import pairwise
from typing import ClassVar

from sqlglot import Dialect, exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from dodona.query.column import OPERATORS
from dodona.sql.functions import FUNCTION_NODES
from dodona.sql.refusals import (
    END_ALONE,
    FROM_OTHER_DIALECTS,
    INTERVAL_ENDS,
    REFUSED_KEYWORDS,
    REFUSED_NODES,
    STATEMENT_KEYWORDS,
)
from dodona.sql.scope import InvalidSql, node_start
from dodona.sql.spellings import SPELLINGS, is_left, read_decode

# --- Grammar: the allowed nodes of a syntax tree and their arguments. Everything else is refused. ---


_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
RELATIONS: dict[type[exp.Expr], str] = dict(zip(_COMPARISONS, OPERATORS, strict=True))
"""The comparison operators, as written."""
_ONE, _PAIR = frozenset(("this",)), frozenset(("this", "expression"))
DATE_PART_NODES = (
    *(exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.DayOfMonth, exp.DayOfWeek, exp.DayOfYear),
    *(exp.DayOfWeekIso, exp.WeekOfYear, exp.YearOfWeekIso, exp.Hour, exp.Minute, exp.Second),
)
"""Functions that take a part of a date."""
_MARKS: Mapping[type[exp.Expr], tuple[str, ...]] = {
    exp.Concat: ("safe",),
    exp.DPipe: ("safe",),
    exp.Greatest: ("ignore_nulls",),
    exp.Least: ("ignore_nulls",),
    exp.Initcap: ("expression",),
    exp.Trim: ("position",),
    exp.Pad: ("is_left",),
}
"""Arguments that the parser adds by itself, or that change no value."""
ALLOWED_NODES: Mapping[type[exp.Expr], frozenset[str]] = {
    # the statement
    exp.Select: frozenset(("expressions", "distinct", "from_", "where", "group", "having", "order", "limit", "offset")),
    exp.Table: frozenset(("this", "db", "alias")),
    exp.Group: frozenset(("expressions", "all")),
    exp.Ordered: frozenset(("this", "desc", "nulls_first")),
    exp.Alias: frozenset(("this", "alias")),
    **dict.fromkeys((exp.From, exp.TableAlias, exp.Where, exp.Having), _ONE),
    **dict.fromkeys((exp.Limit, exp.Offset), frozenset(("expression",))),
    **dict.fromkeys((exp.Order, exp.Tuple, exp.Distinct), frozenset(("expressions",))),
    # names and values
    exp.Identifier: frozenset(("this", "quoted")),
    exp.Column: frozenset(("this", "table", "db")),
    exp.Literal: frozenset(("this", "is_string")),
    exp.Cast: frozenset(("this", "to", "_type")),
    exp.DataType: frozenset(("this", "expressions", "nested")),
    **dict.fromkeys((exp.Star, exp.Null), frozenset[str]()),
    **dict.fromkeys((exp.Var, exp.Boolean, exp.DataTypeParam, exp.Paren), _ONE),
    # conditions and arithmetic
    exp.Between: frozenset(("this", "low", "high")),
    exp.Case: frozenset(("this", "ifs", "default")),
    exp.If: frozenset(("this", "true", "false")),
    **dict.fromkeys((exp.In, exp.Coalesce, exp.Anonymous), frozenset(("this", "expressions"))),
    **dict.fromkeys((exp.Like, exp.ILike), frozenset(("this", "expression", "negate"))),
    **dict.fromkeys((exp.And, exp.Or, *RELATIONS, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.Escape), _PAIR),
    **{node: frozenset((*names, *_MARKS.get(node, ()))) for node, (_, names) in FUNCTION_NODES.items()},
    exp.Interval: frozenset(("this", "unit")),
    exp.Any: _ONE,
    exp.Array: frozenset(("expressions", "bracket_notation")),
    **dict.fromkeys((exp.CurrentDate, exp.CurrentTimestamp), frozenset[str]()),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Extract), _PAIR),
    **dict.fromkeys((exp.Not, exp.Neg, *DATE_PART_NODES), _ONE),
    **dict.fromkeys((exp.DateTrunc, exp.TimestampTrunc), frozenset(("unit", "this"))),
    # aggregates
    exp.Count: frozenset(("this", "big_int")),
    **dict.fromkeys((exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Median), _ONE),
    **dict.fromkeys((exp.Corr, exp.CovarPop, exp.CovarSamp, exp.RegrSlope, exp.RegrIntercept, exp.RegrR2), _PAIR),
    **dict.fromkeys((exp.RegrCount, exp.RegrAvgx, exp.RegrAvgy), _PAIR),
    **dict.fromkeys((exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevPop, exp.StddevSamp), _ONE),
    **dict.fromkeys((exp.Quantile, exp.ApproxQuantile), frozenset(("this", "quantile"))),
    **dict.fromkeys((exp.PercentileCont, exp.PercentileDisc, exp.WithinGroup, exp.Filter), _PAIR),
}

_STATEMENT_PARTS: Mapping[type[exp.Expr], frozenset[str]] = {
    exp.Table: frozenset(("this", "db", "alias", "joins")),
    exp.TableAlias: frozenset(("this", "columns")),
    exp.Subquery: frozenset(("this", "alias")),
    exp.Join: frozenset(("this", "on", "using", "side", "kind", "method", "match_condition")),
    exp.With: frozenset(("expressions", "recursive")),
    exp.CTE: frozenset(("this", "alias", "materialized")),
    **dict.fromkeys(
        (exp.Union, exp.Intersect, exp.Except),
        frozenset(("this", "expression", "distinct", "with_", "order", "limit", "offset")),
    ),
    **{node: ALLOWED_NODES[node] for node in (exp.From, exp.Where, exp.Group, exp.Having, exp.Limit, exp.Offset)},
    **dict.fromkeys((exp.Rollup, exp.Cube, exp.GroupingSets), frozenset(("expressions",))),
    exp.Qualify: _ONE,
}
"""The arguments of the clauses of a statement; what computes on answers is checked in `outer`."""

TUPLE_PARENTS = (exp.In, exp.EQ, exp.NEQ)
"""The nodes in which a tuple may occur."""


def function_name(node: exp.Expr) -> str:
    """Return the name of a function in lower case; an empty text if a node is none."""
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def flatten_chain(node: exp.Expr) -> list[exp.Expr]:
    """Return the parts of a chain of ANDs or ORs, without recursion."""
    parts: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if type(part) is type(node):
            waiting += [part.expression, part.this]
        else:
            parts.append(part)
    return parts


def bare(node: exp.Expr) -> exp.Expr:
    """Return an expression without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """Return the parts of a condition that AND joins."""
    node = bare(node)
    return (
        [part for operand in flatten_chain(node) for part in conjuncts(operand)]
        if isinstance(node, exp.And)
        else [node]
    )


# --- Parsing: from a text to the tree of one SELECT with only allowed nodes and arguments. ---


LONGEST_TEXT = 100_000
MOST_TOKENS = 20_000
DEEPEST = 16
"""The maximum nesting of brackets and CASE: the parser takes up to thirty Python stack frames per level."""
DEEPEST_TREE = 80
_MOST_SIGNS = 40
_SIGNS = frozenset((TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE))
_DEPTH = {
    **dict.fromkeys((TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE), 1),
    **dict.fromkeys((TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END), -1),
}
_TYPES = frozenset(Parser.TYPE_TOKENS) - {TokenType.VAR, TokenType.IDENTIFIER}
_OPENING = frozenset((TokenType.SELECT, TokenType.COMMA, TokenType.L_PAREN))
_CLAUSES = (TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT)
_BEFORE_OPERATORS = frozenset((TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.NOT))
_BEFORE_TYPES = frozenset((TokenType.ALIAS, TokenType.DCOLON))
_PLAIN_WORDS = frozenset((TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING))
_MOST_TRIED = 4
_CLOSING = frozenset((*_CLAUSES, TokenType.R_PAREN, TokenType.SEMICOLON))
_SHORTER = "Write a shorter question: BETWEEN for long lists of IN."
_SIMPLER = "Write it in fewer levels, or ask several questions."


class _Parser(Parser):
    """Keeps the arguments of functions as they are written, where the parser would read them in one dialect's way."""

    FUNCTIONS: ClassVar = {name: build for name, build in Parser.FUNCTIONS.items() if not is_left(name)} | SPELLINGS
    FUNCTION_PARSERS: ClassVar = Parser.FUNCTION_PARSERS | {
        "LISTAGG": lambda self: self._parse_string_agg(),
        "DECODE": lambda self: read_decode(self._parse_csv(self._parse_disjunction)),
    }


class _Tokenizer(Tokenizer):
    """Reads names in double quotes, and in backticks as BigQuery, Spark and MySQL write them."""

    IDENTIFIERS: ClassVar = ['"', "`"]


class _StatementDialect(Dialect):
    """Unknown values sort last, as in answers, unless NULLS FIRST is written."""

    NULL_ORDERING = "nulls_are_last"


def parse(text: str) -> exp.Select:
    """Parse a text to the tree of its single SELECT."""
    tokens = _tokenize(text)
    _check_tokens(text, tokens, REFUSED_KEYWORDS)
    tree = _parse_tokens(text, tokens, _Parser())
    if not isinstance(tree, exp.Select):
        raise InvalidSql(text, 0, "This is not one SELECT.", "Write SELECT ... FROM ... WHERE ... GROUP BY ...")
    check_tree(text, tree)
    return tree


def parse_statement(text: str) -> exp.Query:
    """Parse a text to the tree of one statement of several SELECTs; its nodes are not checked yet."""
    tokens = _tokenize(text)
    refused = {kind: why for kind, why in REFUSED_KEYWORDS.items() if kind not in STATEMENT_KEYWORDS}
    _check_tokens(text, tokens, refused, opening=(TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN))
    tree = _parse_tokens(text, tokens, _Parser(dialect=_StatementDialect))
    for node in () if tree is None else tree.find_all(*_STATEMENT_PARTS):
        _check_arguments(text, node, _STATEMENT_PARTS[type(node)])
    while isinstance(tree, exp.Subquery) and not tree.args.get("alias"):
        tree = tree.this
    if not isinstance(tree, exp.Select | exp.SetOperation):
        raise InvalidSql(text, 0, "This is not one SELECT.", "Write SELECT ... FROM ... WHERE ... GROUP BY ...")
    return tree


def explain_reserved_word(text: str, names: Collection[str]) -> InvalidSql | None:
    """Return an error about a column that is named by a word of SQL, if the text can be read with it in quotes."""
    folded = {name.casefold() for name in names}
    words = [
        token for token in _tokenize(text) if token.text.casefold() in folded and token.token_type not in _PLAIN_WORDS
    ]
    if not words:
        return None
    kinds = dict.fromkeys(token.token_type for token in words)
    alike = [[token for token in words if token.token_type is kind] for kind in kinds]
    for tried in (words, *alike[:_MOST_TRIED], *([token] for token in words[:_MOST_TRIED])):
        quoted = text
        for token in reversed(tried):
            quoted = f'{quoted[: token.start]}"{token.text}"{quoted[token.end + 1 :]}'
        with suppress(InvalidSql):
            parse_statement(quoted)
            what, instead = f"`{tried[0].text}` is a word of SQL.", "Write the column in double quotes"
            return InvalidSql(text, tried[0].start, what, f'{instead}: "{tried[0].text}".')
    return None


def _parse_tokens(text: str, tokens: list[Token], parser: Parser) -> exp.Expr | None:
    while tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    try:
        tree = parser.parse(tokens, text)[0]
        return _normalize(text, tree) if any(token.token_type in _NORMALIZED for token in tokens) else tree
    except ParseError as fault:
        raise _syntax_error(text, tokens, fault) from None
    except RecursionError:
        raise InvalidSql(text, 0, "This is nested too deeply.", _SIMPLER) from None


_NORMALIZED = (TokenType.DISTINCT, TokenType.FETCH, TokenType.WITH, TokenType.ALL)


def _normalize(text: str, tree: exp.Expr | None) -> exp.Expr | None:
    """Return a tree with LIMIT for FETCH FIRST n ROWS ONLY, and count(DISTINCT (column)) in its plain form."""
    for distinct in [] if tree is None else list(tree.find_all(exp.Distinct)):
        if isinstance(distinct.parent, exp.Count):
            distinct.set("expressions", [bare(part) for part in distinct.expressions])
            _filter_counted(distinct.parent, distinct)
    for group in () if tree is None else tree.find_all(exp.Group):
        for name in ("rollup", "cube"):  # GROUP BY a, b WITH ROLLUP, as MySQL and SQL Server have it
            for node in group.args.get(name) or ():
                node.set("expressions", group.expressions)
                group.set("expressions", [node])
            group.set(name, None)
        if group.expressions:
            group.set("all", None)  # GROUP BY ALL a is GROUP BY a
    for node in () if tree is None else tree.find_all(exp.Fetch):
        options = node.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            raise InvalidSql(text, node_start(node, text), *FROM_OTHER_DIALECTS["ties"])
        node.replace(exp.Limit(expression=node.args.get("count") or exp.Literal.number(1)))
    return tree


def _filter_counted(count: exp.Count, distinct: exp.Distinct) -> None:
    """Read count(DISTINCT CASE WHEN condition THEN x END), as dashboards write it, with the condition as a FILTER."""
    value = distinct.expressions[0] if len(distinct.expressions) == 1 else None
    if isinstance(value, exp.Case) and value.this is None and len(value.args["ifs"]) == 1:
        branch, other = value.args["ifs"][0], value.args.get("default")
    elif isinstance(value, exp.If):
        branch, other = value, value.args.get("false")
    else:
        return
    counted, condition = bare(branch.args["true"]), branch.this
    if not isinstance(counted, exp.Column) or not (other is None or isinstance(bare(other), exp.Null)):
        return
    distinct.set("expressions", [counted])
    if isinstance(count.parent, exp.Filter):
        given = count.parent.expression
        given.set("this", exp.And(this=exp.Paren(this=given.this), expression=exp.Paren(this=condition)))
    else:
        count.replace(exp.Filter(this=count.copy(), expression=exp.Where(this=condition)))


def _tokenize(text: str) -> list[Token]:
    if len(text) > LONGEST_TEXT:
        what = f"The text has {len(text)} characters; {LONGEST_TEXT} are read."
        raise InvalidSql(text, LONGEST_TEXT, what, _SHORTER)
    try:
        return _join_signs(_Tokenizer().tokenize(text))
    except TokenError as fault:
        place = len(text) if fault.end is None else fault.end
        raise InvalidSql(text, place, "The text ends inside quotes or a comment.", "Close them.") from None


def _join_signs(tokens: list[Token]) -> list[Token]:
    """Read `//` as one sign, the division of whole numbers, and `~` between values as a match.

    `div(` and `date(` are functions.
    """
    joined: list[Token] = []
    for token, after in pairwise((*tokens, None)):
        if token is None:
            continue
        last = joined[-1] if joined else None
        if token.token_type is last_type(last) is TokenType.SLASH and last is not None and last.end + 1 == token.start:
            joined[-1] = Token(TokenType.DIV, "//", last.line, last.col, last.start, token.end)
        elif last_type(after) is TokenType.L_PAREN and (
            token.token_type is TokenType.DIV
            or (token.token_type is TokenType.DATE and last_type(last) not in _BEFORE_TYPES)
        ):
            joined.append(Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end))
        elif token.token_type is TokenType.TILDE and last_type(last) in _BEFORE_OPERATORS:
            joined.append(Token(TokenType.RLIKE, token.text, token.line, token.col, token.start, token.end))
        else:
            joined.append(token)
    return joined


def last_type(token: Token | None) -> TokenType | None:
    """Return the type of a token, if there is one."""
    return None if token is None else token.token_type


def _check_tokens(
    text: str,
    tokens: list[Token],
    refused: Mapping[TokenType, tuple[str, str]],
    *,
    opening: tuple[TokenType, ...] = (TokenType.SELECT,),
) -> None:
    """Refuse other statements, excessive depth and forbidden symbols before the parser runs."""
    if not tokens or tokens[0].token_type not in opening:
        start = tokens[0].start if tokens else 0
        if tokens and tokens[0].token_type in refused:
            raise InvalidSql(text, start, *refused[tokens[0].token_type])
        shows = bool(tokens) and tokens[0].text.upper() in _SHOWING
        instead = FROM_OTHER_DIALECTS["describe"][1] if shows else "Write SELECT count(*) FROM ... to begin with."
        raise InvalidSql(text, start, "Only SELECT is answered.", instead)
    if len(tokens) > MOST_TOKENS:
        what = f"The text has {len(tokens)} words and signs; {MOST_TOKENS} are read."
        raise InvalidSql(text, tokens[MOST_TOKENS].start, what, _SHORTER)
    depth = nots = 0
    for before, token in pairwise(tokens):
        kind = token.token_type
        nots = nots + 1 if kind in _SIGNS else 0
        depth += _DEPTH.get(kind, 0)
        if depth > DEEPEST or nots > _MOST_SIGNS:
            raise InvalidSql(text, token.start, f"This is nested more than {DEEPEST} levels deep.", _SIMPLER)
        if before.token_type is TokenType.SEMICOLON and kind is not TokenType.SEMICOLON:
            raise InvalidSql(text, token.start, "A second statement begins here.", "Ask one question at a time.")
        if kind in refused:
            raise InvalidSql(text, token.start, *refused[kind])
    _check_commas(text, tokens)
    _check_types(text, tokens)
    _check_words(text, tokens)


def _check_words(text: str, tokens: list[Token]) -> None:
    """Refuse words of other dialects that the parser would only call unexpected."""
    for before, token in pairwise(tokens):
        if before.token_type is TokenType.SELECT and token.text.upper() == "TOP":
            raise InvalidSql(text, token.start, *FROM_OTHER_DIALECTS["top"])
        if before.token_type is TokenType.WITH and token.text.upper() == "DIFFERENTIAL_PRIVACY":
            raise InvalidSql(text, before.start, *FROM_OTHER_DIALECTS["differential_privacy"])
        if token.text[:1] == "$" and token.text[1:].isdecimal():
            raise InvalidSql(text, token.start, *FROM_OTHER_DIALECTS["$"])
        if token.token_type is TokenType.FARROW:
            raise InvalidSql(text, token.start, *FROM_OTHER_DIALECTS["=>"])
        if token.token_type in {TokenType.PIVOT, TokenType.UNPIVOT} and before.token_type is not TokenType.ALIAS:
            raise InvalidSql(text, token.start, *FROM_OTHER_DIALECTS[token.token_type.name.lower()])


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
            if tokens[index - 1].token_type in _BEFORE_TYPES:
                continue
            name = token.text[:60]
            raise InvalidSql(text, token.start, f"`{name}(...)` is not known.", f"Write CAST(... AS {name}).")


_SHOWING = frozenset(("DESCRIBE", "DESC", "SHOW"))
_KEYWORDS = ("SELECT", "FROM", "JOIN", "WHERE", "BETWEEN", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "OVER")


def _syntax_error(text: str, tokens: list[Token], fault: ParseError) -> InvalidSql:
    """Reword the parser's error, pointing at the token where it stopped."""
    error = fault.errors[0] if fault.errors else {}
    place = (error.get("line"), error.get("col"))
    token = next((token for token in tokens if (token.line, token.col) == place), tokens[-1])
    said = str(error.get("description") or "")
    if said.startswith("Expecting"):
        return InvalidSql(text, token.start, f"Something is missing here: {said.lower()}.", "Write it before this.")
    if said.startswith("Required keyword"):
        return InvalidSql(text, token.start, "Something is missing around here.", "Complete the expression.")
    if token.token_type is TokenType.L_BRACKET:
        return InvalidSql(text, token.start, *FROM_OTHER_DIALECTS["["])
    last = tokens.index(token)
    for word in tokens[max(0, last - 1) : last + 1]:  # a misspelled word may have been read as an alias
        near = get_close_matches(str(word.text).upper(), _KEYWORDS, n=1, cutoff=0.7)
        if near and word.token_type is TokenType.VAR:
            return InvalidSql(text, word.start, f"`{word.text[:60]}` cannot be read here.", f"Did you mean {near[0]}?")
    what = f"`{token.text[:60]}` cannot be read here."
    return InvalidSql(text, token.start, what, "Look for a missing comma, quote or bracket.")


def check_tree(text: str, tree: exp.Expr) -> None:
    """Refuse every node and argument that is not on the list, without recursion."""
    waiting: list[tuple[exp.Expr, int]] = [(tree, 0)]
    for node, depth in waiting:
        allowed = ALLOWED_NODES.get(type(node))
        if allowed is None or (type(node) in _PLACED and _is_misplaced(node)):
            raise InvalidSql(text, node_start(node, text), *_refusal(node))
        if depth > DEEPEST_TREE:
            what = f"More than {DEEPEST_TREE} steps are chained here."
            raise InvalidSql(text, node_start(node, text), what, _SIMPLER)
        for value in _check_arguments(text, node, allowed):
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, exp.Expr):
                    chained = isinstance(node, exp.Connector) and type(child) is type(node)
                    waiting.append((child, depth if chained else depth + 1))


def _check_arguments(text: str, node: exp.Expr, allowed: Collection[str]) -> list[object]:
    """Return the arguments that a node is written with; refuses one that is not on a list."""
    written = {name: value for name, value in node.args.items() if value is not None and value not in (False, [])}
    for name, value in written.items():
        if name not in allowed:
            first = value[0] if isinstance(value, list) else value
            place = node_start(first if isinstance(first, exp.Expr) else node, text)
            raise InvalidSql(text, place, *_unknown_argument(node, name, first))
    return list(written.values())


_PLACED = frozenset({exp.Distinct, exp.Anonymous, exp.Any, exp.Array, exp.Tuple})
"""What has a meaning in some places only."""


def _is_misplaced(node: exp.Expr) -> bool:
    """Whether a node has no meaning in its place: a tuple, or DISTINCT other than on one counted column."""
    if isinstance(node, exp.Distinct) and isinstance(node.parent, exp.Select):
        return node.args.get("on") is not None
    if isinstance(node, exp.Distinct):
        counted = isinstance(node.parent, exp.Count) and len(node.expressions) == 1
        return not counted or not isinstance(node.expressions[0], exp.Column)
    if isinstance(node, exp.Anonymous) and node.name.lower() in INTERVAL_ENDS:
        return not isinstance(node.parent, exp.Select | exp.Alias)
    if isinstance(node, exp.Any):
        return not isinstance(node.parent, exp.EQ)
    if isinstance(node, exp.Array):
        return not isinstance(node.parent_select and node.find_ancestor(exp.Any, exp.Select), exp.Any)
    return isinstance(node, exp.Tuple) and not isinstance(node.parent, TUPLE_PARENTS)


def _refusal(node: exp.Expr) -> tuple[str, str]:
    if isinstance(node, exp.Anonymous):
        return END_ALONE
    if type(node) in REFUSED_NODES:
        return REFUSED_NODES[type(node)]
    name = node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__
    return f"`{name}` is not part of a question.", "See the page on SQL for what is."


def _unknown_argument(node: exp.Expr, name: str, first: object) -> tuple[str, str]:
    if isinstance(first, exp.Expr) and type(first) in REFUSED_NODES:
        return REFUSED_NODES[type(first)]
    if name in FROM_OTHER_DIALECTS:
        return FROM_OTHER_DIALECTS[name]
    called = node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__.lower()
    what = f"`{called}` is written with something that is not known here ({name.strip('_')})."
    return what, "Leave that part out."
