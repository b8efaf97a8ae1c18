"""Rows that count and are kept: the same answers, and nothing else is taken for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dodona.engines.cells import SourceUnfit
from dodona.engines.postgres import PostgresSource
from dodona.engines.spark import SparkSource
from dodona.query.predicate import among
from dodona.query.query import Query
from dodona.schema.attributes import Boolean
from dodona.schema.schema import Schema
from dodona.trusted.source import SourceFailed
from tests.engines.scene import KEY, OPENED, Made, memory, values
from tests.engines.server import held, owner, type_of
from tests.engines.spark import MARKS, engine
from tests.engines.test_people import people
from tests.ledger.scene import shared_server

Opener = Callable[..., PostgresSource | SparkSource]


def on_postgres(made: Made, _: Path) -> tuple[Opener, Callable[[Any], None]]:
    types = {name: type_of(kind) for name, kind in made.types.items()}
    name = held(made.schema.table, made.columns, types)
    kept = f"{name.partition('.')[0]}.kept"

    def opened(
        schema: Schema = made.schema, *, version: str = "1", key: bytes = KEY, keep: bool = True
    ) -> PostgresSource:
        where = kept if keep else None
        source = PostgresSource(schema, shared_server().address, table=name, version=version, key=key, kept=where)
        OPENED.append(source)
        return source

    return opened, lambda source: source.keep_rows(shared_server().address, kept, key=KEY)


def on_spark(made: Made, folder: Path) -> tuple[Opener, Callable[[Any], None]]:
    import pyarrow as pa

    pa.parquet.write_table(made.arrow(), folder / "rows.parquet")

    def opened(schema: Schema = made.schema, *, version: str = "1", key: bytes = KEY, keep: bool = True) -> SparkSource:
        where = str(folder / "kept") if keep else None
        place = folder / "rows.parquet"
        source = SparkSource.parquet(schema, place, session=engine(), version=version, key=key, kept=where)
        OPENED.append(source)
        return source

    return opened, lambda source: source.keep_rows(str(folder / "kept"), key=KEY)


ENGINES = [
    pytest.param(on_postgres, id="postgres"),
    pytest.param(on_spark, id="spark", marks=MARKS),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_kept_rows_answer_as_the_table_does_and_belong_to_a_version_a_schema_and_a_key(engine, tmp_path: Path) -> None:
    made = people(7, 2)
    domain = made.schema.domain
    opened, keep = engine(made, tmp_path)
    with pytest.raises(SourceUnfit):
        opened()
    anew = opened(keep=False)
    keep(anew)
    kept = opened()
    where = among(domain["i"], {1, 3})
    query = Query.histogram(domain, ["i", "s"]).stacked(Query.people(domain, "s", where), Query.sum(domain, "i"))
    expected = values(memory(made, tmp_path)[0], query)
    assert values(anew, query) == expected
    assert values(kept, query) == expected
    assert kept.fingerprint() == anew.fingerprint()
    more = Schema.of("t", *domain, Boolean("b"), size=300, id="who", rows=2)
    for change in ({"version": "2"}, {"key": bytes(32)}, {"schema": more}):
        with pytest.raises(SourceUnfit, match="dodona keep"):
            opened(**change)


def test_rows_that_are_kept_anew_are_not_read_under_an_old_version(tmp_path: Path) -> None:
    made = people(8, 2)
    opened, keep = on_postgres(made, tmp_path)
    keep(opened(keep=False))
    old = opened()
    keep(opened(keep=False, version="2"))
    with pytest.raises(SourceFailed):
        old.exact(Query.histogram(made.schema.domain, ["i"]))
    assert sum(values(opened(version="2"), Query.histogram(made.schema.domain, ["i"]))) > 0


def test_kept_rows_beyond_the_cap_are_refused(tmp_path: Path) -> None:
    made = people(8, 2)
    opened, keep = on_postgres(made, tmp_path)
    keep(opened(keep=False))
    with owner() as connection:
        space = opened()._relations[0][1].space
        connection.execute(f"INSERT INTO {space}.kept SELECT * FROM {space}.kept")  # noqa: S608
    with pytest.raises(SourceUnfit, match="were changed"):
        opened()


def test_a_table_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    made = people(8, 2)
    opened, keep = on_postgres(made, tmp_path)
    source = opened(keep=False)
    with owner() as connection:
        connection.execute(f"CREATE TABLE {source._relations[0][1].space}.kept (x integer)")
    with pytest.raises(SourceUnfit, match="is left alone"):
        keep(source)
    with pytest.raises(SourceUnfit, match="cannot be written"):
        source.keep_rows("postgresql://nobody:wrong@127.0.0.1:1/none", "public.kept", key=KEY)


def test_the_comment_of_a_kept_table_does_not_hold_the_key(tmp_path: Path) -> None:
    made = people(8, 2)
    opened, keep = on_postgres(made, tmp_path)
    source = opened(keep=False)
    keep(source)
    with owner() as connection:
        (comment,) = connection.execute(
            "SELECT obj_description(%s::regclass, 'pg_class')", [f"{source._relations[0][1].space}.kept"]
        ).fetchone()
    assert comment.startswith("dodona kept rows ")
    assert KEY.hex() not in comment
