"""Division as PostgreSQL means it: between whole numbers without the fraction, which a question writes as //.

In a question `/` is exact. So what is divided must be known, or the statement is refused: an answer to another question
would look like the right one.
"""

from dodona.errors import InvalidRequest
from dodona.server.door.shape import Range, Shape

_WHOLE_TYPES = frozenset(("int", "int2", "int4", "int8", "integer", "smallint", "bigint"))
_TYPES = frozenset(("float", "float4", "float8", "real", "numeric", "decimal", "precision"))
_KEEPING = frozenset(("abs", "mod", "greatest", "least", "coalesce"))
_WHOLE = frozenset(("year", "quarter", "month", "week", "day", "width_bucket", "length"))
_WITH_FRACTION = frozenset(
    ("floor", "ceil", "ceiling", "round", "trunc", "extract", "date_part", "sqrt", "power", "sign")
)


class DivisionUnclear(InvalidRequest):
    """Whether a division in a question is one of whole numbers cannot be decided from its text."""

    code = "division-unclear"
    sqlstate = "0A000"

    def __init__(self) -> None:
        """Say what to write."""
        super().__init__(
            "PostgreSQL divides whole numbers without the fraction, and here it is not clear what is divided. Write "
            "div(a, b) to leave the fraction out, or (a)::float / b to keep it."
        )


def is_whole_division(shape: Shape, place: int) -> bool:
    """Return whether the / at a place divides whole numbers; raises DivisionUnclear if that cannot be decided."""
    verdicts = [_whole(shape, _after(shape, place + 1))]
    end = place
    while True:
        operand = _before(shape, end)
        verdicts.append(_whole(shape, operand))
        end = operand[0] - 1
        if end < 0 or not shape.tokens[end].says("*", "/", "%"):
            break
    if None in verdicts:
        if False in verdicts:  # one with a fraction is enough
            return False
        raise DivisionUnclear
    return all(verdicts)


def _after(shape: Shape, start: int) -> Range:
    """Return the operand that begins at a place."""
    tokens, end = shape.tokens, start
    while end + 1 < len(tokens) and tokens[end].names and tokens[end + 1].says("."):
        end += 2
    if end + 1 < len(tokens) and tokens[end].names and tokens[end + 1].says("("):
        end += 1
    end = shape.closing.get(end, end) + 1
    while end + 1 < len(tokens) and tokens[end].says("::"):
        end += 3 if tokens[end + 1].says("double") else 2
    return start, end


def _before(shape: Shape, end: int) -> Range:
    """Return the operand that ends before a place."""
    tokens, start = shape.tokens, end - 1
    if tokens[start].says(")"):
        start = next(opening for opening, closing in shape.closing.items() if closing == start)
        if start > 0 and tokens[start - 1].names:
            start -= 1
    elif tokens[start].says("precision") and tokens[start - 1].says("double"):
        start -= 1
    while start > 1 and tokens[start - 1].says(".") and tokens[start - 2].names:
        start -= 2
    if start > 1 and tokens[start - 1].says("::"):
        return _before(shape, start - 1)[0], end
    return start, end


def _whole(shape: Shape, operand: Range) -> bool | None:
    """Return whether an operand is a whole number; None if that cannot be decided."""
    tokens, (start, end) = shape.tokens, operand
    last = tokens[end - 1]
    if end - start > 2 and (tokens[end - 2].says("::") or tokens[end - 2].says("double")):  # noqa: PLR2004  a cast
        return True if last.word in _WHOLE_TYPES else False if last.word in _TYPES else None
    if last.kind == "number":
        return last.text.isdigit()
    if last.says(")"):
        return _of_brackets(shape, operand)
    return shape.catalog.wholes.get(last.word) if last.names else None


def _of_brackets(shape: Shape, operand: Range) -> bool | None:
    tokens, (start, end) = shape.tokens, operand
    name = tokens[start].word if tokens[start].names else ""
    if name in _WHOLE:
        return True
    if name in _WITH_FRACTION:
        return False
    if name and name not in _KEEPING:
        return None
    opening = start if not name else start + 1
    verdicts: list[bool | None] = []
    place = opening + 1
    while place < end - 1:
        token = tokens[place]
        if token.kind == "number" or token.names or token.says("("):
            operand = _after(shape, place)
            verdicts.append(_whole(shape, operand))
            place = operand[1]
        elif token.says("+", "-", "*", "/", "%", ","):
            place += 1
        else:
            return None
    return None if None in verdicts else all(verdicts)
