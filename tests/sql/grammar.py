"""Statements that are grammatical and make no particular sense, over a shop with several tables."""
# ruff: noqa: S311  made-up statements from a stated seed
# ruff: noqa: S608  that is what this module writes
# ruff: noqa: DTZ001  times are declared without a zone, and mean UTC

from __future__ import annotations

import datetime as dt
import random
import warnings
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

import dodona
from dodona import Budget, Category, Date, Domain, Integer, LinkedTable, Number, PublicTable, Schema
from dodona.curator.curator import Curator
from dodona.schema.attributes import Boolean, Timestamp

REGIONS = ("north", "south", "east")
SCHEMA = Schema.of(
    "orders",
    Category("region", REGIONS),
    Category("product", tuple(f"p{number}" for number in range(6)), otherwise="p0"),
    Integer("quantity", 1, 20),
    Number("unit_price", 0, 200, "0.5"),
    Number("discount", 0, 1, "0.05"),
    Date("ordered", dt.date(2023, 1, 1), dt.date(2024, 12, 31)),
    Timestamp("placed", dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 3), "1 hour"),
    Boolean("returned"),
    size=300,
    id="customer",
    rows=3,
    linked=[
        LinkedTable("customers", Domain((Category("segment", ("home", "work")), Integer("age", 0, 99))), "customer"),
        LinkedTable("calls", Domain((Integer("minutes", 0, 60), Boolean("solved"))), "customer", 2),
    ],
    public=[
        PublicTable.of(
            "regions",
            "region",
            [{"region": name, "country": "xy"[place % 2], "floor": place} for place, name in enumerate(REGIONS)],
        )
    ],
)
_NARROW = {
    "unit_price": Number("unit_price", 0, 20, "0.5"),
    "ordered": Date("ordered", dt.date(2023, 11, 15), dt.date(2024, 1, 31)),
}
NARROW = replace(SCHEMA, domain=Domain(tuple(_NARROW.get(attribute.name, attribute) for attribute in SCHEMA.domain)))
"""The same shop with fewer prices and days: functions of two columns have short tables, so reading is faster."""


Tables = dict[str, dict[str, list[object]]]


def tables() -> Tables:
    """Return 300 orders, with customers and calls, by table and column."""
    draw = random.Random(7)
    number = range(300)
    start = dt.date(2023, 1, 1)
    orders = {
        "region": [draw.choice([*REGIONS, None, "elsewhere"]) for _ in number],
        "product": [draw.choice(["p1", "p2", "p5", None]) for _ in number],
        "quantity": [draw.choice([None, draw.randrange(25)]) for _ in number],
        "unit_price": [draw.randrange(500) / 2 for _ in number],
        "discount": [draw.randrange(25) / 20 for _ in number],
        "ordered": [start + dt.timedelta(draw.randrange(760)) for _ in number],
        "placed": [dt.datetime(2024, 1, 1) + dt.timedelta(minutes=draw.randrange(3000)) for _ in number],
        "returned": [draw.choice([True, False, None]) for _ in number],
        "customer": [f"c{draw.randrange(120)}" for _ in number],
    }
    customers = {
        "segment": [draw.choice(["home", "work", None]) for _ in range(100)],
        "age": [draw.randrange(100) for _ in range(100)],
        "customer": [f"c{place}" for place in range(100)],
    }
    calls = {
        "minutes": [draw.randrange(70) for _ in range(80)],
        "solved": [draw.choice([True, False]) for _ in range(80)],
        "customer": [f"c{draw.randrange(120)}" for _ in range(80)],
    }
    return {"orders": orders, "customers": customers, "calls": calls}


def shop(schema: Schema = SCHEMA) -> Curator:
    """Open a shop of 300 orders with a large budget, in memory."""
    frames = {name: pa.table(columns) for name, columns in tables().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the ledger is in memory
        return dodona.open(frames, schema=schema, budget=Budget(10_000, "1e-6"), max_price="100%")


# --- The grammar. Each rule is a method; a level bounds how deep they nest. ---


class Writer:
    """Writes statements from one seed."""

    def __init__(self, seed: int) -> None:
        """Take the seed."""
        self.draw = random.Random(seed)
        self.numbers: tuple[str, ...] = ()
        self.texts: tuple[str, ...] = ()
        self.days: tuple[str, ...] = ()
        self.truths: tuple[str, ...] = ()
        self.person = "customer"

    def pick(self, *parts: str) -> str:
        """Return one of some texts."""
        return self.draw.choice(parts)

    def rule(self, *rules: Callable[[int], str], level: int) -> str:
        """Follow one of some rules."""
        return self.draw.choice(rules)(level)

    def maybe(self, text: str, chance: float = 0.5) -> str:
        """Return a text or nothing."""
        return text if self.draw.random() < chance else ""

    def listed(self, rule: Callable[[], str], most: int) -> str:
        """Return one to some items with commas."""
        return ", ".join(rule() for _ in range(self.draw.randint(1, most)))

    # Rows.

    def rows(self) -> str:
        """Choose what FROM names, and which columns there are then."""
        orders = ("quantity", "unit_price", "discount"), ("region", "product"), ("ordered", "placed"), ("returned",)
        people = ("age",), ("segment",), (), ()
        kind = self.draw.randrange(8)
        if kind <= 3:
            columns, text = orders, self.pick("orders", "orders o", '"public"."orders"', "main.orders AS o")
        elif kind == 4:
            columns, text = (*map(tuple, map(sum, zip(orders, people, strict=True), [()] * 4)),), ""  # type: ignore[assignment]
            text = f"orders {self.pick('JOIN', 'LEFT JOIN', 'INNER JOIN')} customers USING (customer)"
        elif kind == 5:
            columns = (*orders[0], "floor"), (*orders[1], "country"), *orders[2:]  # type: ignore[assignment]
            by = self.pick("USING (region)", "ON orders.region = regions.region")
            text = f"orders {self.pick('JOIN', 'LEFT JOIN')} regions {by}"
        elif kind == 6:
            columns, text = people, "customers"
        else:
            columns, text = (("minutes",), (), (), ("solved",)), "calls"  # type: ignore[assignment]
        self.numbers, self.texts, self.days, self.truths = columns
        if self.draw.random() < 0.2:
            where = self.maybe(f" WHERE {self.condition(1)}")
            return f"(SELECT *{self.maybe(f', {self.number(1)} AS extra')} FROM {text}{where}) AS inside"
        return text

    def number(self, level: int) -> str:
        """Write a number of a row."""
        if level <= 0 or not self.numbers or self.draw.random() < 0.4:
            literal = str(self.draw.choice([0, 1, 2, 3, 7, 10, 0.5, -1, 100, 1e9, "1e-3", "'5'", "NULL"]))
            return self.pick(*self.numbers, *self.numbers, literal) if self.numbers else literal
        low = level - 1
        a, b = self.number(low), self.number(low)
        forms = [
            f"{a} {self.pick('+', '-', '*', '/', '//', '%')} {b}",
            f"({a} {self.pick('+', '-', '*')} {b})",
            f"{self.pick('abs', 'sign', 'floor', 'ceil', 'round', 'trunc', 'sqrt', 'ln')}({a})",
            f"{self.pick('least', 'greatest', 'coalesce', 'nullif', 'mod', 'div', 'power')}({a}, {b})",
            f"least(greatest({a} * {b}, 0), {self.draw.randrange(1, 500)})",
            f"round({a}, {self.draw.randrange(-2, 3)})",
            f"width_bucket({a}, 0, 100, 5)",
            f"CASE WHEN {self.condition(low)} THEN {a}{self.maybe(f' ELSE {b}')} END",
            f"CAST({a} AS {self.pick('DOUBLE', 'INTEGER', 'DECIMAL(10, 2)', 'VARCHAR')})",
            f"{self.pick('year', 'month', 'day', 'hour', 'dow', 'quarter')}({self.day(low)})",
            f"extract({self.pick('year', 'month', 'epoch', 'hour')} FROM {self.day(low)})",
            f"datediff('{self.pick('day', 'month', 'hour', 'year')}', {self.day(low)}, {self.day(low)})",
            f"{self.pick('safe_divide', 'div0', 'div0null')}({a}, {b})",
            f"{self.pick('zeroifnull', 'nullifzero', 'isnull')}({a})",
            f"{self.pick('iff', 'nvl2')}({self.condition(0)}, {a}, {b})",
            f"length({self.label(low)})",
        ]
        return self.draw.choice(forms)

    def day(self, level: int) -> str:
        """Write a day or a time of a row."""
        literal = self.pick(
            "DATE '2024-01-31'", "'2023-12-24'", "TIMESTAMP '2024-01-02 03:00:00'", "current_date", "NULL"
        )
        if level <= 0 or not self.days or self.draw.random() < 0.5:
            return self.pick(*self.days, *self.days, literal) if self.days else literal
        inner = self.day(level - 1)
        unit = self.pick("day", "week", "month", "quarter", "year", "hour")
        return self.pick(
            f"date_trunc('{unit}', {inner})",
            f"{inner} {self.pick('+', '-')} INTERVAL '{self.draw.randrange(90)} {unit}'",
            f"CAST({inner} AS {self.pick('DATE', 'TIMESTAMP')})",
            f"{inner} + {self.draw.randrange(40)}",
            f"coalesce({inner}, {literal})",
        )

    def label(self, level: int) -> str:
        """Write a text of a row."""
        literal = self.pick("'north'", "'p1'", "'home'", "''", "'x'", "'<missing>'", "NULL")
        if level < 0:
            return literal
        if level == 0 or not self.texts or self.draw.random() < 0.5:
            return self.pick(*self.texts, *self.texts, literal) if self.texts else literal
        inner = self.label(level - 1)
        return self.pick(
            f"{self.pick('upper', 'lower', 'trim', 'reverse', 'initcap')}({inner})",
            f"substr({inner}, 1, 2)",
            f"{inner} || {self.label(0)}",
            f"coalesce({inner}, 'none')",
            f"regexp_replace({inner}, '{self.pattern()}', 'x')",
            f"regexp_extract({inner}, '{self.pattern()}', {self.draw.randrange(2)})",
            f"CASE WHEN {self.condition(0)} THEN {inner} ELSE {self.label(0)} END",
            f"to_char({self.day(0)}, 'YYYY-MM')",
            f"decode({inner}, {self.label(0)}, 'x', NULL, {self.label(0)}, 'other')",
        )

    def pattern(self) -> str:
        """Write a regular expression."""
        return self.pick("^n", "(o|h).*", "[a-m]+$", "(.)r", "p?1", "(", "", "x{2,3}")

    def condition(self, level: int) -> str:
        """Write a condition on a row."""
        if level > 0 and self.draw.random() < 0.4:
            first, second = self.condition(level - 1), self.condition(level - 1)
            return self.pick(f"{first} AND {second}", f"({first} OR {second})", f"NOT ({first})")
        relation = self.pick("=", "<>", "<", "<=", ">", ">=")
        forms = [
            f"{self.number(level)} {relation} {self.number(0)}",
            f"{self.day(level)} {relation} {self.day(0)}",
            f"{self.label(level)} {self.pick('=', '<>')} {self.label(0)}",
            f"{self.label(0)} IN ({self.listed(lambda: self.label(-1), 3)})",
            f"{self.number(0)} {self.maybe('NOT ')}BETWEEN {self.number(-1)} AND {self.number(-1)}",
            f"{self.number(0)} / {self.number(level)} {relation} {self.number(0)}",
            f"{self.number(0)} / {self.number(0)} {self.maybe('NOT ')}BETWEEN {self.number(-1)} AND 3",
            f"coalesce({self.label(0)}, '') {self.pick('=', '<>')} ''",
            f"{self.label(0)} {self.pick('LIKE', 'ILIKE', 'SIMILAR TO')} '{self.pick('n%', '%o%', '_')}'",
            f"{self.label(0)} {self.pick('~', '~*', '!~')} '{self.pattern()}'",
            f"{self.pick(self.number(level), self.label(0), self.day(0))} IS {self.maybe('NOT ')}NULL",
            self.pick(*self.truths, "TRUE") + self.maybe(" IS NOT TRUE"),
        ]
        return self.draw.choice(forms)

    # Aggregates.

    def aggregate(self) -> str:
        """Write an aggregate over rows."""
        value = self.number(2)
        level = self.pick("0.5", "0.9", "0.25", "1", "0.333")
        where = self.maybe(f" FILTER (WHERE {self.condition(1)})", 0.15)
        forms = [
            "count(*)",
            "count(*)",
            f"count({self.pick(value, self.label(0), self.day(0))})",
            f"count(DISTINCT {self.pick(self.person, self.label(0), self.number(0))})",
            f"sum({value})",
            f"avg({value})",
            f"{self.pick('var_pop', 'stddev')}({value})",
            f"{self.pick('min', 'max', 'median')}({self.pick(value, self.number(0), self.day(0))})",
            f"percentile_cont({level}) WITHIN GROUP (ORDER BY {self.pick(self.number(0), self.day(0))})",
            f"quantile({self.number(1)}, {level})",
            f"{self.pick('corr', 'covar_pop', 'regr_slope', 'regr_r2')}({self.number(0)}, {self.number(1)})",
            f"count_if({self.condition(1)})",
            f"avg(CASE WHEN {self.condition(1)} THEN 1 ELSE 0 END)",
        ]
        return self.draw.choice(forms) + where

    def value(self) -> str:
        """Write arithmetic of aggregates."""
        if self.draw.random() < 0.7:
            return self.aggregate()
        first, second = self.aggregate(), self.pick(self.aggregate(), "100", "2")
        return self.pick(
            f"{first} {self.pick('+', '-', '*', '/')} {second}",
            f"round({first}, 2)",
            f"coalesce({first}, 0)",
            f"100.0 * {first} / nullif({second}, 0)",
        )

    def key(self) -> str:
        """Write a key of GROUP BY."""
        return self.pick(
            *self.texts,
            *self.truths,
            *(f"date_trunc('{self.pick('month', 'year', 'day')}', {column})" for column in self.days),
            *(f"{self.pick('bin', 'div')}({column}, 10)" for column in self.numbers[:1]),
            self.label(1),
            f"CASE WHEN {self.condition(0)} THEN 'a' ELSE 'b' END",
            f"floor({self.number(0)} / 10) * 10",
            f"extract(month FROM {self.day(0)})",
            f"{self.day(0)} - {self.day(0)}",
            f"{self.number(0)} - {self.number(0)}",
            "'all'",
        )

    def grouped(self) -> str:
        """Write a SELECT that aggregates rows: keys k, values v."""
        source = self.rows()
        keys = [self.key() for _ in range(self.draw.choice([0, 1, 1, 1, 2]))]
        items = [f"{key} AS k{place}" for place, key in enumerate(keys)]
        items += [f"{self.value()} AS v{place}" for place in range(self.draw.choice([1, 1, 2, 3]))]
        text = f"SELECT {', '.join(items)} FROM {source}{self.maybe(f' WHERE {self.condition(2)}')}"
        if keys:
            names = [self.pick(f"k{place}", str(place + 1), key) for place, key in enumerate(keys)]
            shape = self.pick("{}", "{}", "{}", "{}", "ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())")
            shape = self.pick(shape, shape, shape, "{} WITH ROLLUP")
            text += f" GROUP BY {shape.format(', '.join(names))}"
        return text + self.maybe(f" HAVING {self.aggregate()} > {self.draw.randrange(20)}", 0.1)

    def united(self) -> str:
        """Write a SELECT over rows that UNION ALL puts together."""
        sides = []
        for _ in range(self.draw.randint(2, 3)):
            source = self.rows()
            where = self.maybe(f" WHERE {self.condition(1)}")
            sides.append(f"SELECT {self.key()} AS k0, {self.number(1)} AS x FROM {source}{where}")
        value = self.pick(
            "sum(x)", "avg(x)", "count(*)", "count(x) FILTER (WHERE x > 3)", "sum(x) / count(*)", "median(x)"
        )
        rows = f"({' UNION ALL '.join(sides)}) AS u{self.maybe(' WHERE x > 1', 0.2)}"
        key = self.pick("k0", "u.k0", "upper(k0) AS k0")
        return f"SELECT {key}, {value} AS v0 FROM {rows} GROUP BY {self.pick('k0', '1')}"

    def of_people(self) -> str:
        """Write a question about people."""
        self.rows()
        self.numbers, self.texts, self.days, self.truths = ("quantity", "unit_price"), ("region",), (), ("returned",)
        inner, other = (
            self.pick(
                *("count(*)", "sum(quantity)", "max(unit_price)", "least(sum(quantity * unit_price), 500)"),
                *("min(ordered)", "min(date_trunc('month', ordered))", f"max({self.number(2)})", "bool_or(returned)"),
            )
            for _ in range(2)
        )
        where = self.maybe(f" WHERE {self.condition(1)}")
        people = f"SELECT customer, {inner} AS n, {other} AS m FROM orders{where} GROUP BY customer"
        chosen = f"IN (SELECT customer FROM orders{where})"
        return self.pick(
            f"SELECT {self.pick('n', 'm')}, avg(n), {self.pick('median', 'count')}(m) FROM ({people}) AS p GROUP BY 1",
            f"SELECT segment, avg(age), count(n), median(m) FROM customers LEFT JOIN ({people}) AS p USING (customer) "
            "GROUP BY 1",
            f"SELECT count(*), sum(coalesce(n, 0)) FROM customers c LEFT JOIN ({people}) AS p "
            f"ON c.customer = p.customer WHERE {self.pick('n IS NULL', 'm > 3', 'age > 20', 'p.customer IS NULL')}",
            f"SELECT segment, count(*) FROM customers WHERE customer {self.maybe('NOT ')}{chosen} GROUP BY segment",
            f"SELECT count(*), avg(age) FROM customers c WHERE {self.maybe('NOT ')}EXISTS (SELECT 1 FROM orders o "
            f"WHERE o.customer = c.customer{self.maybe(' AND returned')}) AND customer NOT {chosen}",
            f"SELECT n, count(*) FROM ({people}) AS p GROUP BY n",
            f"SELECT k, count(*) FROM (SELECT DISTINCT {self.key()} AS k, customer FROM orders{where}) AS p GROUP BY k",
            f"SELECT count(*), count(customer) FROM (SELECT DISTINCT customer FROM orders{where}) AS p",
            f"SELECT avg(n), {self.pick('median', 'sum', 'max', 'stddev')}(n) FROM ({people}) AS p",
            f"SELECT count(*) FROM ({people}) AS p WHERE n > {self.draw.randrange(60)}",
        )

    # The outer half.

    def outer_value(self) -> str:
        """Write a value over released rows."""
        v = "v0"
        over = self.pick("OVER ()", "OVER (ORDER BY 1)", "OVER (PARTITION BY k0)", "OVER (ORDER BY v0 DESC)")
        return self.pick(
            v,
            f"{v} / nullif(sum({v}) OVER (), 0)",
            f"{self.pick('sum', 'avg', 'min', 'max', 'count')}({v}) {over}",
            f"{self.pick('lag', 'lead', 'first_value')}({v}) OVER (ORDER BY k0)",
            f"{self.pick('rank', 'row_number', 'dense_rank')}() OVER (ORDER BY {v})",
            f"{self.pick('round', 'sqrt', 'ln', 'exp', 'floor', 'abs')}({v})",
            f"CASE WHEN {v} > {self.draw.randrange(50)} THEN 'high' ELSE 'low' END",
            f"{v} - (SELECT {self.pick('avg', 'max', 'sum')}(v0) FROM x)",
            f"CAST({v} AS {self.pick('INTEGER', 'VARCHAR', 'DECIMAL(12, 2)')})",
            f"coalesce({v}, 0) * {self.draw.randrange(5)}",
            f"CAST({self.pick('sqrt', 'ln', 'abs')}({v} - 3) AS {self.pick('INTEGER', 'DOUBLE', 'VARCHAR')})",
            f"{v} // {self.draw.randrange(9)}",
            f"{self.pick('rpad', 'lpad')}('x', {v}, 'yz')",
            f"repeat('x', {v}) || CAST({v} AS VARCHAR)",
            "current_date",
            "DP_INTERVAL_LOW(v0)",
            "k0",
        )

    def statement(self) -> str:
        """Write a statement."""
        kind = self.draw.randrange(10)
        if kind <= 3:
            text = self.grouped() + self.maybe(f" ORDER BY {self.pick('1', '2', 'v0', 'v0 DESC', 'count(*)')}", 0.3)
        elif kind == 4:
            text = self.of_people() if self.draw.random() < 0.7 else self.united()
        elif kind == 5:
            text = f"{self.grouped()} UNION ALL {self.grouped()}"
        else:
            where = self.maybe(f" WHERE {self.pick('v0 > 10', 'k0 IS NOT NULL', 'v0 IN (SELECT max(v0) FROM x)')}", 0.3)
            items = self.listed(self.outer_value, 3)
            tail = self.pick("", "", " ORDER BY 1", " QUALIFY row_number() OVER (ORDER BY v0) < 3", " GROUP BY ALL")
            joined = self.maybe(" JOIN x AS y ON x.k0 = y.k0", 0.1)
            text = f"WITH x AS ({self.grouped()}) SELECT {items} FROM x{joined}{where}{tail}"
        cut = self.pick("LIMIT {}", "LIMIT {}", "FETCH FIRST {} ROWS ONLY").format(self.draw.choice([0, 1, 5, 100]))
        return text + self.maybe(f" {cut}", 0.2)
