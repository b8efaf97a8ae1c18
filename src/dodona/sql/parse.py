"""Parsing: from a text to the tree of one SELECT, every node and argument of which is known."""

from __future__ import annotations

from itertools import pairwise

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from dodona.sql.faults import InvalidSql
from dodona.sql.grammar import NODES, SUBJECTS, TOGETHER, WORDS
from dodona.sql.scope import start_of

LONGEST_TEXT = 100_000
MOST_TOKENS = 20_000
DEEPEST = 16
"""How deep brackets and CASE may be nested: the parser takes up to thirty frames of Python's stack for each."""
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
    """Return the tree of the one SELECT that a text is."""
    tokens = _read(text)
    _check_tokens(text, tokens)
    while tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    try:
        trees = Parser().parse(tokens, text)
    except ParseError as fault:
        raise _unreadable(text, tokens, fault) from None
    except RecursionError:
        raise InvalidSql(text, 0, "This is nested too deeply.", _SIMPLER) from None
    tree = trees[0]
    if not isinstance(tree, exp.Select):
        raise InvalidSql(text, 0, "This is not one SELECT.", "Write SELECT ... FROM ... WHERE ... GROUP BY ...")
    _check_tree(text, tree)
    return tree


def _read(text: str) -> list[Token]:
    if len(text) > LONGEST_TEXT:
        what = f"The text has {len(text)} characters; {LONGEST_TEXT} are read."
        raise InvalidSql(text, LONGEST_TEXT, what, "Write a shorter question: BETWEEN for long lists of IN.")
    try:
        return Tokenizer().tokenize(text)
    except TokenError as fault:
        place = len(text) if fault.end is None else fault.end
        raise InvalidSql(text, place, "The text ends inside quotes or a comment.", "Close them.") from None


def _check_tokens(text: str, tokens: list[Token]) -> None:
    """Refuse what the parser need not see: other statements, depth, and signs that no question has."""
    if not tokens or tokens[0].token_type is not TokenType.SELECT:
        start = tokens[0].start if tokens else 0
        if tokens and tokens[0].token_type in WORDS:
            raise InvalidSql(text, start, *WORDS[tokens[0].token_type])
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
        if kind in WORDS:
            raise InvalidSql(text, token.start, *WORDS[kind])
    _check_commas(text, tokens)
    _check_types(text, tokens)


def _check_commas(text: str, tokens: list[Token]) -> None:
    """Refuse commas with nothing on one side, which the parser passes over."""
    for before, token in pairwise((*tokens, None)):
        kind = TokenType.SEMICOLON if token is None else token.token_type
        stray = kind is TokenType.COMMA and before is not None and before.token_type in _OPENING
        if before is not None and (stray or (before.token_type is TokenType.COMMA and kind in _CLOSING)):
            start = token.start if stray and token is not None else before.start
            raise InvalidSql(text, start, "A comma has nothing before or after it.", "Leave the comma out.")


def _check_types(text: str, tokens: list[Token]) -> None:
    """Refuse the name of a type as a function: nested ones take the parser exponentially long."""
    for index, token in enumerate(tokens[:-1]):
        if token.token_type in _TYPES and tokens[index + 1].token_type is TokenType.L_PAREN:
            if tokens[index - 1].token_type in {TokenType.ALIAS, TokenType.DCOLON}:
                continue
            name = token.text[:60]
            raise InvalidSql(text, token.start, f"`{name}(...)` is not known.", f"Write CAST(... AS {name}).")


def _unreadable(text: str, tokens: list[Token], fault: ParseError) -> InvalidSql:
    """Return what the parser says, in our words, at the token where it stopped."""
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
        allowed = NODES.get(type(node))
        if allowed is None or _misplaced(node):
            raise InvalidSql(text, start_of(node, text), *_refusal(node))
        if depth > DEEPEST_TREE:
            raise InvalidSql(text, start_of(node, text), f"More than {DEEPEST_TREE} steps are chained here.", _SIMPLER)
        for name, value in node.args.items():
            if value is None or value is False or value == []:
                continue
            if name not in allowed:
                first = value[0] if isinstance(value, list) else value
                place = start_of(first if isinstance(first, exp.Expr) else node, text)
                raise InvalidSql(text, place, *_unknown_argument(node, name, first))
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, exp.Expr):
                    chained = isinstance(node, exp.Connector) and type(child) is type(node)
                    waiting.append((child, depth if chained else depth + 1))


def _misplaced(node: exp.Expr) -> bool:
    """Whether a node stands where it means nothing: several values, or DISTINCT but for one counted column."""
    if isinstance(node, exp.Distinct) and isinstance(node.parent, exp.Select):
        return node.args.get("on") is not None
    if isinstance(node, exp.Distinct):
        counted = isinstance(node.parent, exp.Count) and len(node.expressions) == 1
        return not counted or not isinstance(node.expressions[0], exp.Column)
    return isinstance(node, exp.Tuple) and not isinstance(node.parent, TOGETHER)


def _refusal(node: exp.Expr) -> tuple[str, str]:
    if type(node) in SUBJECTS:
        return SUBJECTS[type(node)]
    name = node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__
    return f"`{name}` is not part of a question.", "See the page on SQL for what is."


def _unknown_argument(node: exp.Expr, name: str, first: object) -> tuple[str, str]:
    if isinstance(first, exp.Expr) and type(first) in SUBJECTS:
        return SUBJECTS[type(first)]
    called = node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__.lower()
    what = f"`{called}` is written with something that is not known here ({name.strip('_')})."
    return what, "Leave that part out."
