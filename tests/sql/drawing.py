"""Random statements over the scene's table: expressions of single rows in conditions, sums, averages and groups."""

from __future__ import annotations

from random import Random

_LABELS = ("'female'", "'male'", "'other'")
_DAYS = ("DATE '2023-12-24'", "DATE '2024-01-01'", "DATE '2024-02-29'")


def number(draw: Random, depth: int = 2) -> str:
    """An expression with a number as its value; the same text means the same in DuckDB."""
    if depth == 0 or draw.random() < 0.2:
        return draw.choice(
            ("age", "stay", "age", "stay", str(draw.randint(-3, 12)), "0.5", "CAST(emergency AS INTEGER)")
        )
    inner = number(draw, depth - 1)
    column = draw.choice(("age", "stay"))
    other = draw.choice((column, str(draw.randint(1, 9))))
    return draw.choice(
        (
            f"({inner} + {number(draw, depth - 1)})",
            f"({inner} - {number(draw, depth - 1)})",
            f"({column} * {other})",
            f"-({inner})",
            f"floor({column} / {draw.randint(2, 7)})",
            f"ceil({column} - {draw.choice(('0.5', '3', '1.25'))})",
            f"round({column} / 4)",
            f"abs({column} - {draw.randint(0, 12)})",
            f"sign({column} - 3)",
            f"mod({column}, {draw.randint(2, 5)})",
            f"coalesce({column}, {draw.randint(0, 3)})",
            f"nullif({column}, {draw.randint(0, 3)})",
            f"CASE WHEN {condition(draw, depth - 1)} THEN {column} ELSE {draw.choice(('NULL', '2', 'stay'))} END",
            f"{draw.choice(('month', 'day', 'quarter', 'dayofweek', 'week'))}(admitted)",
            f"(admitted - {draw.choice(_DAYS)})",
        )
    )


def condition(draw: Random, depth: int = 2) -> str:
    """A condition on a row."""
    if depth > 0 and draw.random() < 0.4:
        left, two = condition(draw, depth - 1), condition(draw, depth - 1)
        return draw.choice((f"({left} AND {two})", f"({left} OR {two})", f"NOT ({left})"))
    relation = draw.choice(("=", "<>", "<", "<=", ">", ">="))
    return draw.choice(
        (
            f"{number(draw, min(depth, 1))} {relation} {number(draw, min(depth, 1))}",
            f"{number(draw, min(depth, 1))} {draw.choice(('<', '>='))} {draw.randint(-2, 20)}",
            f"age {relation} stay",
            f"upper(sex) {draw.choice(('=', '<>'))} upper({draw.choice(_LABELS)})",
            f"substr(sex, 1, {draw.randint(1, 2)}) = '{draw.choice(('f', 'm', 'fe', 'ma', 'ot'))}'",
            f"admitted + {draw.randint(-9, 9)} {draw.choice(('<', '>='))} {draw.choice(_DAYS)}",
            f"strftime(admitted, '%Y-%m') {draw.choice(('=', '>='))} '2024-0{draw.randint(1, 3)}'",
            f"{draw.choice(('age', 'stay', 'admitted'))} IS NOT NULL",
            "emergency",
        )
    )


def statement(draw: Random) -> tuple[str, str]:
    """A statement with up to two aggregates, a condition, and perhaps a computed group; and its text for DuckDB.

    A sum of nothing is 0 here, and NULL there.
    """
    aggregates = [
        draw.choice(("count(*)", f"sum({number(draw)})", f"avg({number(draw)})", f"count({number(draw)})"))
        for _ in range(draw.randint(1, 2))
    ]
    where = f" WHERE sex <> '<outside>' AND {condition(draw)}"
    key = draw.choice(
        (
            None,
            None,
            "upper(sex)",
            f"floor(age / {draw.randint(2, 9)})",
            f"mod(age, {draw.randint(2, 5)})",
            f"abs(age - {draw.randint(1, 12)})",
            "strftime(admitted, '%b')",
            "round(stay)",
            condition(draw, 0),
            "CASE WHEN age < 5 THEN 0 ELSE floor(age / 5) * 5 END",
        )
    )
    others = [f"coalesce({aggregate}, 0)" if aggregate.startswith("sum") else aggregate for aggregate in aggregates]
    if key is None:
        return tuple(f"SELECT {', '.join(items)} FROM stays{where}" for items in (aggregates, others))  # type: ignore[return-value]  # noqa: S608
    texts = (f"SELECT {key} AS k, {', '.join(items)} FROM stays{where} GROUP BY k" for items in (aggregates, others))  # noqa: S608
    return tuple(texts)  # type: ignore[return-value]
