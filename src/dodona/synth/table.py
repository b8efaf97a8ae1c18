"""Synthetic rows as a table: codes, values with their types, made-up ids, and files that are written whole or not."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dodona.errors import InvalidRequest
from dodona.schema.schema import Domain
from dodona.synth.values import SourceTypes, decode, output_types

SUFFIXES = (".parquet", ".csv", ".arrow")
_BATCH = 1 << 16
_ID = "synthetic-"


class RowsNotWritten(InvalidRequest):
    """A file could not be written whole, so that none was; what was released is still recorded."""

    code = "rows-not-written"

    def __init__(self, name: str, why: str) -> None:
        """Name the file and the reason, and say how to go on."""
        super().__init__(
            f"{name} could not be written: {why}. No part of it was kept. What was released stays recorded: with more "
            "room, or another path, the same call takes it up again and pays for nothing twice."
        )


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticRows:
    """Codes of synthetic rows, one column per attribute, and a weight for each row if they are weighted."""

    domain: Domain
    codes: Mapping[str, NDArray[np.int64]] = field(repr=False)
    weights: NDArray[np.float64] | None = field(default=None, repr=False)
    id: str | None = None
    """The name of the column of made-up people, where people are protected."""
    people: NDArray[np.int64] | None = field(default=None, repr=False)
    """The number of the made-up person of each row."""
    redrawn: int = 0
    """How many rows were drawn anew, because a constraint that the model does not hold forbade them."""

    def __len__(self) -> int:
        return len(next(iter(self.codes.values())))

    def to_arrow(self, types: SourceTypes | pa.Schema | None = None) -> pa.Table:
        """Return the rows as an Arrow table of values; missing values are null.

        Values outside the domain are null too, except in categories, where they are the text `<outside>`. With the
        types of the source, columns have these where they hold all declared values.
        """
        return pa.Table.from_batches(self._batches(types), schema=self._schema(types))

    def to_pandas(self) -> Any:  # noqa: ANN401  from an optional library
        """Return the rows as a pandas frame."""
        return self.to_arrow().to_pandas()

    def write(self, path: str | Path, *, types: SourceTypes | pa.Schema | None = None) -> Path:
        """Write the rows to a Parquet, CSV or Arrow file, chosen by the suffix, and return its path.

        The file appears when it is whole: an error or a full disk leaves what was there before.
        """
        place = check_output_path(path)
        schema = self._schema(types)
        with replace_whole(place) as file, _writer(file, place.suffix, schema) as out:
            for batch in self._batches(types):
                out.write(batch)
        return place

    def _schema(self, types: SourceTypes | pa.Schema | None) -> pa.Schema:
        fields = [pa.field(name, kind) for name, kind in output_types(self.domain, types).items()]
        if self.people is not None and self.id is not None:
            fields.insert(0, pa.field(self.id, _id_type(self.id, types)))
        if self.weights is not None:
            fields.append(pa.field(weight_column_name(self.domain), pa.float64()))
        return pa.schema(fields)

    def _batches(self, types: SourceTypes | pa.Schema | None) -> Iterator[pa.RecordBatch]:
        schema = self._schema(types)
        for start in range(0, len(self), _BATCH):
            here, columns = slice(start, start + _BATCH), []
            if self.people is not None and self.id is not None:
                columns.append(_ids(self.people[here], schema.field(self.id).type))
            for attribute in self.domain:
                kind = schema.field(attribute.name).type
                columns.append(decode(attribute, np.asarray(self.codes[attribute.name][here]), kind))
            if self.weights is not None:
                columns.append(pa.array(self.weights[here]))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def check_output_path(path: str | Path) -> Path:
    """Return a path that rows can be written to; refuse others before anything is charged."""
    place = Path(path)
    if place.suffix not in SUFFIXES or not place.parent.is_dir():
        instead = f"write a file in a folder that exists, that ends in {', '.join(SUFFIXES)}"
        raise InvalidRequest(f"{place} is no place for rows: {instead}.")
    return place


@contextmanager
def replace_whole(place: Path) -> Iterator[IO[bytes]]:
    """Yield a file that takes the place of another in one step, once it is written and on the disk."""
    partial = place.with_name(f".{place.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(place)
    except OSError as fault:
        raise RowsNotWritten(place.name, fault.strerror or str(fault)) from fault
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def weight_column_name(domain: Domain) -> str:
    """Return the name of the weight column: one that no attribute has."""
    name = "weight"
    while name in {other.casefold() for other in domain.names}:
        name += "_"
    return name


def _writer(file: IO[bytes], suffix: str, schema: pa.Schema) -> Any:  # noqa: ANN401  one of three writers
    match suffix:
        case ".parquet":
            import pyarrow.parquet as pq

            return pq.ParquetWriter(file, schema)
        case ".csv":
            import pyarrow.csv as pc

            return pc.CSVWriter(file, schema)
        case _:
            return pa.ipc.new_file(file, schema)


def _id_type(name: str, types: SourceTypes | pa.Schema | None) -> pa.DataType:
    known = {field.name: field.type for field in types} if isinstance(types, pa.Schema) else dict(types or {})
    return pa.int64() if name in known and pa.types.is_integer(known[name]) else pa.string()


def _ids(people: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """Return fresh ids: whole numbers from 1 if the source has such, else texts that cannot be taken for real ones."""
    numbers = pa.array(people + 1)
    if kind == pa.int64():
        return numbers
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(_ID, numbers.cast(pa.string()), "")
