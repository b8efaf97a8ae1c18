"""Compile WHERE conditions and row expressions from the syntax tree, including IN, LIKE, CASE and date parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from functools import partial

from sqlglot import exp

from dodona.query import predicate as predicates
from dodona.query.column import describe_undeclared_value
from dodona.query.query import MOST_TABLE
from dodona.sql import comparison, functions
from dodona.sql.arithmetic import calculate, cast_leaf, combine_values, type_kind
from dodona.sql.comparison import null_predicate
from dodona.sql.date_functions import compile_date_function
from dodona.sql.joins import LOOKUP, PRESENT
from dodona.sql.membership import compile_in, compile_tuple_equality, list_any
from dodona.sql.parse import RELATIONS, bare, flatten_chain
from dodona.sql.refusals import REFUSED_FUNCTIONS
from dodona.sql.scalar import (
    ZERO,
    Computed,
    Constant,
    Formula,
    Leaf,
    Mismatch,
    Scalar,
    Subject,
    build_case,
    combine,
    constant_value,
    leaf_columns,
    leaf_kind,
    leaf_truth,
    literal_constant,
    locate_mismatch,
    scalar_from_leaf,
)
from dodona.sql.scope import TODAY, Scope
from dodona.sql.spellings import COUNTED
from dodona.sql.tables import apply_function, strict, tabulate_scalar

# --- Row conditions and scalars, compiled from the tree. ---


_Join = Callable[..., predicates.Predicate]
_CHUNK = 64  # parts joined at once, so that long chains do not hold all their sets
_MOST_BRANCHES = 256
_MOST_PAIRS = 256
_MOST_GUARDS = 64  # parts of conditions up to which a value stays a CASE, where a table of it has a bounded size
_MOST_CHOSEN = 1_000  # parts of conditions among which the greatest or the least is chosen


def compile_condition(scope: Scope, node: exp.Expr) -> comparison.Truth:
    """Return where a condition is true and where it is false."""
    read = _CONDITIONS.get(type(node)) or _as_condition
    truth = locate_mismatch(scope, node, lambda: read(scope, node))
    scope.bounded(node, *truth)
    return truth


def compile_scalar(scope: Scope, node: exp.Expr) -> Scalar:
    """Compile an expression to its value in a row."""
    scalar = locate_mismatch(scope, node, lambda: _compile_scalar(scope, node))
    return _settle(scope, node, scalar) if scalar.branches else scalar


def _settle(scope: Scope, node: exp.Expr, scalar: Scalar) -> Scalar:
    """Return a value whose conditions grew long as a table of its values; what is too large for one is refused.

    Nested functions of several columns make conditions of conditions, whose length would grow with every level.
    """
    guards = [guard for guard, _ in scalar.branches]
    if predicates.count_parts(guards, most=_MOST_GUARDS) <= _MOST_GUARDS:
        return scalar
    names = {column.name for leaf in scalar.leaves for column in leaf_columns(leaf)}
    names |= frozenset().union(*map(predicates.predicate_attributes, guards))
    if math.prod(scope.schema.domain[name].cells for name in names) <= MOST_TABLE:
        return scalar_from_leaf(locate_mismatch(scope, node, lambda: tabulate_scalar(scalar, scope.schema.domain)))
    scope.bounded(node, *guards)
    return scalar


def _compile_scalar(scope: Scope, node: exp.Expr) -> Scalar:
    read = _SCALARS.get(type(node))
    if read is not None:
        return read(scope, node)
    if type(node) in _CONDITIONS:
        true, false = compile_condition(scope, node)
        known = [(true, scalar_from_leaf(leaf=True)), (false, scalar_from_leaf(leaf=False))]
        return build_case(known, scalar_from_leaf(None))
    scalar = compile_date_function(scope, node, lambda part: compile_scalar(scope, part))
    if scalar is not None:
        return scalar
    scalar = _function(scope, node)
    if scalar is not None:
        return scalar
    if isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup):
        raise scope.fault(node, "An aggregate stands where single rows are meant.", "Write it in SELECT or HAVING.")
    if isinstance(node, exp.Anonymous) and node.name == LOOKUP:
        return _lookup(scope, node)
    if isinstance(node, exp.Anonymous):
        raise scope.fault(node, *_unknown_function(node.name))
    instead = "Write a column, a number, a text in single quotes or a CASE."
    raise scope.fault(node, "This is no value of a row.", instead)


def _column(scope: Scope, node: exp.Expr) -> Scalar:
    """Return a column of the table, or one that the owner declared as computed from others."""
    declared = scope.computed(node)
    if declared is None:
        return scalar_from_leaf(Subject(scope.column(node)))
    from dodona.sql.computed import compile_computed  # it compiles expressions by this module

    return compile_computed(scope, node, declared)


def _lookup(scope: Scope, node: exp.Anonymous) -> Scalar:
    """Return a column of a public table, looked up by a value of the row: a public map of that value."""
    key, *names = node.expressions
    tables = scope.schema.public if len(names) == 2 else ()  # noqa: PLR2004
    table = next((public for public in tables if public.name == names[0].name), None)
    if table is None:
        raise scope.fault(node, *_unknown_function(node.name))
    column, scalar = names[1].name, compile_scalar(scope, key)

    def looked_up(value: Constant) -> Constant:
        plain = int(value) if isinstance(value, Fraction) and value.denominator == 1 else value
        known = plain if plain in table.keys else str(plain)
        if column == PRESENT:
            return known in table.keys
        outcome = table.columns[column].get(known)  # type: ignore[arg-type]
        return Fraction(outcome) if isinstance(outcome, int) and not isinstance(outcome, bool) else outcome

    scope.work(node, len(scalar.leaves) * scalar.width)
    function = strict(looked_up)
    return locate_mismatch(scope, key, lambda: scalar.mapped(lambda leaf: apply_function(function, (leaf,))))


_EVEN_UNITS = frozenset(("week", "day", "second"))
_COUNTED = (
    "timestampdiff counts how often a new {} begins between two times, as datediff does. For whole years write "
    "extract(year FROM age(last, first))."
)


def _function(scope: Scope, node: exp.Expr) -> Scalar | None:
    """Compile a function of single rows; None if the node is not one."""
    if isinstance(node, exp.CurrentDate | exp.CurrentTimestamp):
        return scalar_from_leaf(scope.today())
    if isinstance(node, exp.Anonymous):
        name, nodes = node.name.lower(), list(node.expressions)
        if name in TODAY and not nodes:
            return scalar_from_leaf(scope.today())
        name = functions.SYNONYMS.get(name, name)
        if name not in functions.FUNCTIONS:
            return None
        if node.meta.get(COUNTED) and nodes[0].name.lower() not in _EVEN_UNITS:
            scope.warn(_COUNTED.format(nodes[0].name.lower()[:20]))
    elif type(node) in functions.FUNCTION_NODES:
        name, keys = functions.FUNCTION_NODES[type(node)]
        listed = (node.args.get(key) for key in keys)
        nodes = [part for arg in listed if arg is not None for part in (arg if isinstance(arg, list) else [arg])]
        if node.args.get("is_left"):
            name = "lpad"
        if name == "trim":
            name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")), name)
    else:
        return None
    arguments = [compile_scalar(scope, part) for part in nodes]
    if name == "age" and len(arguments) == 1:
        arguments.insert(0, scalar_from_leaf(scope.today()))
    scope.work(node, sum(len(argument.leaves) * argument.width for argument in arguments))
    return locate_mismatch(scope, node, lambda: _call(scope, node, name, arguments))


def _call(scope: Scope, node: exp.Expr, name: str, arguments: list[Scalar]) -> Scalar:
    """Return a function of scalars; of columns too wide to list, some functions are a CASE."""
    if name in {"abs", "sign", "greatest", "least"}:
        columns = {column for argument in arguments for leaf in argument.leaves for column in leaf_columns(leaf)}
        if len(columns) > 1 or any(column.cells > MOST_TABLE for column in columns):
            return _choose(scope, node, name, arguments)
    if name == "power" and len(arguments) == 2 and len(arguments[0].leaves) == 1:  # noqa: PLR2004
        base, times = arguments[0].otherwise, constant_value(arguments[1])
        wide = isinstance(base, Formula) or (isinstance(base, Subject) and base.attribute.cells > MOST_TABLE)
        if wide and times is not None and times in range(1, 9):
            return combine(lambda *factors: _product(factors), [arguments[0]] * int(times))
    return functions.call_of_scalars(name, arguments)


def _product(factors: tuple[Leaf, ...]) -> Leaf:
    product = factors[0]
    for leaf in factors[1:]:
        product = calculate("*", product, leaf)
    return product


def _choose(scope: Scope, node: exp.Expr, name: str, arguments: list[Scalar]) -> Scalar:
    """Return abs, sign, greatest or least of several columns as a CASE."""
    guards = [guard for argument in arguments for guard, _ in argument.branches]
    if predicates.count_parts(guards, most=_MOST_CHOSEN) > _MOST_CHOSEN:
        raise Mismatch(f"Too many conditions are nested in this {name}.", "Write fewer levels of functions or of CASE.")
    if name in {"abs", "sign"}:
        (value,) = arguments
        negative = value.mapped(partial(calculate, "-", Fraction(0)))
        signs = [(relation, scalar_from_leaf(number)) for relation, number in _SIGNS]
        chosen = signs if name == "sign" else [(">=", value), ("<", negative)]
        tested = [(compare_scalars(value, relation, ZERO)[0], scalar) for relation, scalar in chosen]
        return build_case(tested, scalar_from_leaf(None))
    extreme = arguments[0]
    for other in arguments[1:]:
        here, there = (argument.where(null_predicate) for argument in (extreme, other))
        wins = compare_scalars(extreme, ">=" if name == "greatest" else "<=", other)
        branches = [(wins[0], extreme), (wins[1], other), (here, other), (there, extreme)]
        extreme = build_case(branches, scalar_from_leaf(None))
        extreme = _settle(scope, node, extreme)
    return extreme


_SIGNS = ((">", Fraction(1)), ("<", Fraction(-1)), ("=", Fraction(0)))


def compare_scalars(left: Scalar, relation: str, right: Scalar) -> comparison.Truth:
    """Return where one scalar compares true with another, and where it compares false."""
    tests: dict[tuple[int, int], comparison.Truth] = {}
    left, right = (comparison.admit_texts(side, left.leaves, right.leaves) for side in (left, right))

    def tested(leaf: Leaf, other: Leaf) -> comparison.Truth:
        place = id(leaf), id(other)
        if place not in tests:
            tests[place] = comparison.compare_leaves(leaf, relation, other)
        return tests[place]

    true = left.where(lambda leaf: right.where(lambda other: tested(leaf, other)[0]))
    return true, left.where(lambda leaf: right.where(lambda other: tested(leaf, other)[1]))


def _unknown_function(name: str) -> tuple[str, str]:
    """Explain a function that is not known, with the nearest name that is."""
    if name.lower() in REFUSED_FUNCTIONS:
        return REFUSED_FUNCTIONS[name.lower()]
    near = get_close_matches(name.lower(), [*functions.FUNCTIONS, *functions.SYNONYMS, *_AGGREGATE_NAMES], n=1)
    hint = f"Did you mean {near[0]}()?" if near else "Leave it out."
    return f"`{name[:60]}` is no function that is known here.", hint


_AGGREGATE_NAMES = ("count", "sum", "avg", "median", "quantile", "stddev", "variance", "min", "max", "count_if", "bin")


def _chain(scope: Scope, node: exp.Expr, if_true: _Join, if_false: _Join) -> comparison.Truth:
    pairs = [compile_condition(scope, part) for part in flatten_chain(node)]
    truths, falsehoods = ([pair[place] for pair in pairs] for place in (0, 1))
    return _fold_in_chunks(if_true, truths), _fold_in_chunks(if_false, falsehoods)


def _not(scope: Scope, node: exp.Expr) -> comparison.Truth:
    true, false = compile_condition(scope, node.this)
    return false, true


def _between(scope: Scope, node: exp.Expr) -> comparison.Truth:
    low, high = node.args["low"], node.args["high"]
    above, below = _compare_ratio(scope, node.this, ">=", low), _compare_ratio(scope, node.this, "<=", high)
    if above is None or below is None:
        middle = _Operand(node.this, compile_scalar(scope, node.this))
        above = _compare_scalars(scope, node, (middle, _compile_operand(scope, low)), ">=")
        below = _compare_scalars(scope, node, (middle, _compile_operand(scope, high)), "<=")
    return predicates.conjunction(above[0], below[0]), predicates.disjunction(above[1], below[1])


def _as_condition(scope: Scope, node: exp.Expr) -> comparison.Truth:
    """Read a scalar as a condition: a boolean column, or a CASE of booleans."""
    scalar = compile_scalar(scope, node)
    if None in map(leaf_truth, scalar.leaves):
        raise scope.fault(node, "This is no condition.", "Write a comparison, such as age >= 65, or a boolean column.")

    def side(number: int) -> predicates.Predicate:
        return scalar.where(lambda leaf: (leaf_truth(leaf) or comparison.ALWAYS_NULL)[number])

    return side(0), side(1)


def _fold_in_chunks(join: _Join, parts: list[predicates.Predicate]) -> predicates.Predicate:
    if len(parts) <= _CHUNK:
        return join(*parts)
    return _fold_in_chunks(join, [join(*parts[first : first + _CHUNK]) for first in range(0, len(parts), _CHUNK)])


@dataclass(frozen=True, slots=True)
class _Operand:
    """One side of a comparison: its node and its value in a row, compiled once."""

    node: exp.Expr
    value: Scalar


def _compile_operand(scope: Scope, node: exp.Expr) -> _Operand:
    if isinstance(node, exp.Null):
        scope.warn("A comparison with NULL is never true: IS NULL asks for missing values.")
    return _Operand(node, compile_scalar(scope, node))


def _comparison(scope: Scope, node: exp.Expr) -> comparison.Truth:
    if isinstance(node.this, exp.Tuple):
        true, false = compile_tuple_equality(scope, node, lambda part: compile_scalar(scope, part))
        return (true, false) if isinstance(node, exp.EQ) else (false, true)
    if isinstance(node.expression, exp.Any):
        return compile_in(scope, list_any(scope, node), lambda part: compile_scalar(scope, part))
    relation = RELATIONS[type(node)]
    ratio = _compare_ratio(scope, node.this, relation, node.expression)
    ratio = ratio or _compare_ratio(scope, node.expression, comparison.MIRRORED.get(relation, relation), node.this)
    if ratio is not None:
        return ratio
    sides = _compile_operand(scope, node.this), _compile_operand(scope, node.args["expression"])
    return _compare_scalars(scope, node, sides, relation)


def _compare_ratio(scope: Scope, node: exp.Expr, relation: str, other: exp.Expr) -> comparison.Truth | None:
    """Compare a / b of columns with more ratios than are listed, as a with b times the other side; None for all else.

    Where b is negative the relation is the other way round, and where b is 0 the ratio is NULL.
    """
    ratio = bare(node)
    if not isinstance(ratio, exp.Div):
        return None
    value, divisor = (compile_scalar(scope, part) for part in (ratio.this, ratio.expression))
    columns = {column for side in (value, divisor) for leaf in side.leaves for column in leaf_columns(leaf)}
    if not divisor.width or math.prod(column.cells for column in columns) <= MOST_TABLE:
        return None
    product = locate_mismatch(scope, node, lambda: combine_values("*", [divisor, compile_scalar(scope, other)]))
    truths = []
    for sign, turned in ((">", relation), ("<", comparison.MIRRORED.get(relation, relation))):
        holds = locate_mismatch(scope, node, partial(compare_scalars, divisor, sign, ZERO))[0]
        truth = locate_mismatch(scope, node, partial(compare_scalars, value, turned, product))
        truths.append([predicates.conjunction(holds, part) for part in truth])
    (above, not_above), (below, not_below) = truths
    return predicates.disjunction(above, below), predicates.disjunction(not_above, not_below)


def _compare_scalars(scope: Scope, node: exp.Expr, sides: tuple[_Operand, _Operand], relation: str) -> comparison.Truth:
    """Compare two scalars, leaf by leaf."""
    left, right = sides[0].value, sides[1].value
    pairs = len(left.leaves) * len(right.leaves)
    if left.branches and right.branches and pairs > _MOST_PAIRS:
        raise scope.fault(node, "Two long CASEs are compared.", "Compare one of them with constants.")
    scope.work(node, pairs * max(left.width, right.width, pairs))
    try:
        return compare_scalars(left, relation, right)
    except Mismatch as fault:
        fixed = [side.node for side in sides if not side.value.width]
        raise scope.fault(fixed[-1] if len(fixed) == 1 else node, *fault.args) from None


def _null_safe(scope: Scope, node: exp.Expr) -> comparison.Truth:
    """Compile IS [NOT] DISTINCT FROM: true or false everywhere, with NULL as an ordinary value."""
    first, second = (_Operand(side, compile_scalar(scope, side)) for side in (node.this, node.expression))
    sides = first, second
    equal, _ = _compare_scalars(scope, node, sides, "=")
    nulls = predicates.conjunction(*(side.value.where(null_predicate) for side in sides))
    same = predicates.disjunction(equal, nulls)
    pair = same, predicates.complement(same)
    return pair if isinstance(node, exp.NullSafeEQ) else (pair[1], pair[0])


def _is(scope: Scope, node: exp.Expr) -> comparison.Truth:
    match node.expression:
        case exp.Null():
            asked = compile_scalar(scope, node.this)
            columns = [leaf.attribute for leaf in asked.leaves if isinstance(leaf, Subject)]
            predicate = asked.where(null_predicate)
            full = [column for column in columns if column.otherwise is not None and predicate == predicates.NOTHING]
            for attribute in full:
                scope.warn(f"`{attribute.name}` is never NULL: what is missing {describe_undeclared_value(attribute)}.")
        case exp.Boolean(this=wanted):
            pair = compile_condition(scope, node.this)
            predicate = pair[0] if wanted else pair[1]
        case _:
            raise scope.fault(node.expression, "IS is followed by something else than NULL, TRUE or FALSE.", "Write =.")
    return predicate, predicates.complement(predicate)


def _like(scope: Scope, node: exp.Expr) -> comparison.Truth:
    escape: object = ""
    if isinstance(node, exp.Escape):
        escape, node = compile_scalar(scope, node.expression).otherwise, node.this
    scalar, other = compile_scalar(scope, node.this), compile_scalar(scope, node.expression)
    pattern, leaf = other.otherwise, scalar.otherwise
    if (
        scalar.branches
        or other.branches
        or not isinstance(leaf, Computed)
        or not isinstance(pattern, str)
        or not isinstance(escape, str)
    ):
        raise scope.fault(node, "LIKE compares a column with a text.", "Write column LIKE 'pattern%'.")
    folded = str.lower if isinstance(node, exp.ILike) else str
    scope.work(node, scalar.width * len(pattern))
    true, false = locate_mismatch(
        scope, node, lambda: comparison.match_like(leaf, pattern, escape=escape, folded=folded)
    )
    return (false, true) if node.args.get("negate") else (true, false)


def _case(scope: Scope, node: exp.Expr) -> Scalar:
    """Compile a CASE: with conditions, or with a subject compared with each value in turn."""
    ifs = [node] if isinstance(node, exp.If) else node.args["ifs"]
    default = node.args.get("false" if isinstance(node, exp.If) else "default")
    if len(ifs) > _MOST_BRANCHES:
        what = f"This CASE has more than {_MOST_BRANCHES} branches."
        raise scope.fault(node, what, "Write IN (...), or fewer branches.")
    subject = _compile_operand(scope, node.this) if isinstance(node, exp.Case) and node.this is not None else None
    branches = []
    for branch in ifs:
        if subject is None:
            guard = compile_condition(scope, branch.this)
        else:
            guard = _compare_scalars(scope, branch, (subject, _compile_operand(scope, branch.this)), "=")
        branches.append((guard[0], compile_scalar(scope, branch.args["true"])))
    scalar = build_case(branches, scalar_from_leaf(None) if default is None else compile_scalar(scope, default))
    scope.bounded(node, *(guard for guard, _ in scalar.branches))
    return scalar


def _coalesce(scope: Scope, node: exp.Expr) -> Scalar:
    """Return the first argument that is not NULL. `<outside>` is not NULL."""
    parts = (node.this, *node.args["expressions"])
    if len(parts) > _MOST_BRANCHES:
        raise scope.fault(node, f"coalesce has more than {_MOST_BRANCHES} arguments.", "Write fewer.")
    scalars = [compile_scalar(scope, part) for part in parts]
    branches = [(predicates.complement(part.where(null_predicate)), part) for part in scalars[:-1]]
    scope.bounded(node, *(guard for guard, _ in branches))
    chosen, texts = build_case(branches, scalars[-1]), [part.otherwise for part in scalars]
    return chosen if chosen.branches else comparison.admit_texts(chosen, texts)


def _cast(scope: Scope, node: exp.Expr) -> Scalar:
    """Compile a cast."""
    to = type_kind(node.args["to"])
    inner = compile_scalar(scope, node.this)
    return locate_mismatch(scope, node, lambda: inner.mapped(lambda leaf: cast_leaf(leaf, to)))


def _negative(scope: Scope, node: exp.Expr) -> Scalar:
    inner = compile_scalar(scope, node.this)
    return locate_mismatch(scope, node, lambda: inner.mapped(partial(calculate, "-", Fraction(0))))


def _arithmetic(scope: Scope, node: exp.Expr) -> Scalar:
    sides, sign = [compile_scalar(scope, part) for part in (node.this, node.expression)], _OPERATORS[type(node)]
    scope.work(node, sum(side.width for side in sides))
    if sign == "/" and any(leaf_kind(leaf) == "date" for side in sides for leaf in side.leaves):
        raise scope.fault(node, "A day is divided.", "Divide numbers only.")
    return locate_mismatch(scope, node, lambda: combine_values(sign, sides))


_OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}


_CONDITIONS: dict[type[exp.Expr], Callable[[Scope, exp.Expr], comparison.Truth]] = {
    exp.And: lambda scope, node: _chain(scope, node, predicates.conjunction, predicates.disjunction),
    exp.Or: lambda scope, node: _chain(scope, node, predicates.disjunction, predicates.conjunction),
    exp.Not: _not,
    exp.Is: _is,
    exp.In: lambda scope, node: compile_in(scope, node, lambda part: compile_scalar(scope, part)),
    exp.Between: _between,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _like,
    exp.NullSafeEQ: _null_safe,
    exp.NullSafeNEQ: _null_safe,
    **dict.fromkeys(RELATIONS, _comparison),
}
_SCALARS: dict[type[exp.Expr], Callable[[Scope, exp.Expr], Scalar]] = {
    exp.Paren: lambda scope, node: compile_scalar(scope, node.this),
    exp.Column: _column,
    **dict.fromkeys(
        (exp.Literal, exp.Boolean, exp.Null),
        lambda scope, node: scalar_from_leaf(literal_constant(scope, node)),
    ),
    **dict.fromkeys((exp.Case, exp.If), _case),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div), _arithmetic),
    exp.Coalesce: _coalesce,
    exp.Cast: _cast,
    exp.Neg: _negative,
}
