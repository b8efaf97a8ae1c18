"""Spark for tests: one local engine a process, with little memory for results, and the rows of a scene as Parquet."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pyspark
import pytest
from pyspark.sql import SparkSession

from dodona.engines.spark import SparkSource

MARKS = [
    pytest.mark.slow,  # the engine takes half a minute to start
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # pyspark leaves them to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
QUICK = {
    # A short life on two cores, with memory from the start: the parser keeps how it read each statement, and megabytes
    # of a long one, and memory that is nearly full is swept all the time.
    "spark.driver.memory": "3g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms2g -XX:MetaspaceSize=256m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.maxResultSize": "8m",
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",  # to compile a statement takes longer than to run it on few rows
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@cache
def engine() -> SparkSession:
    """The session of this process; it stops when the process ends."""
    builder = SparkSession.builder.master("local[2]")
    for name, value in QUICK.items():
        builder = builder.config(name, value)
    warehouse = tempfile.mkdtemp(prefix="warehouse-")
    return builder.config("spark.sql.warehouse.dir", warehouse).getOrCreate()


def connect_server(port: int) -> list[str]:
    """The command that starts a Spark Connect server on this machine, from the jars that pyspark brings along."""
    settings = QUICK | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": tempfile.mkdtemp(prefix="warehouse-"),
    }
    listed = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    return [str(submit), "--master", "local[2]", *listed, "--class", SERVER]


def write(rows: pa.Table, path: Path) -> None:
    """Write rows as Spark can read them: times of nanoseconds in microseconds."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            coarse = rows.column(place).cast(pa.timestamp("us", tz=field.type.tz))
            rows = rows.set_column(place, field.name, coarse)
    pa.parquet.write_table(rows, path)


def source_of(schema, rows: pa.Table, folder: Path) -> SparkSource:
    """Rows behind Spark, as two files of a folder."""
    place = folder / "rows"
    place.mkdir()
    middle = len(rows) // 2
    write(rows.slice(0, middle), place / "first.parquet")
    write(rows.slice(middle), place / "second.parquet")
    return SparkSource.parquet(schema, place, session=engine(), key=bytes(range(32)))
