"""Tables of Arrow, Parquet and CSV files as datasets, through pyarrow (the extra `data`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np

from nacre.base.conversion import integers
from nacre.base.errors import ArgumentError, DTypeError, MissingExtra, MissingFile, StateError
from nacre.data.dataset import Dataset, IterableDataset, checked

Paths = str | Path | Sequence[str | Path]


def _module(name: str) -> Any:
    """The module pyarrow, or a part of it."""
    try:
        return import_module(name)
    except ImportError as fault:
        raise MissingExtra(
            f"data: pyarrow is required for tables; no module {name}; install the extra: pip install 'nacre[data]'"
        ) from fault


def _listed(paths: Paths) -> list[str]:
    listed = [str(paths)] if isinstance(paths, str | Path) else [str(p) for p in paths]
    missing = [p for p in listed if not Path(p).exists()]
    if not listed:
        raise ArgumentError("data: at least one file is required; got none")
    if missing:
        raise MissingFile(f"data: the files must exist; missing: {missing}")
    return listed


class ArrowDataset(Dataset):
    """The rows of a pyarrow table, each a dict of its columns; a batch is a dict of arrays.

    Columns of numbers become arrays, columns of texts become lists, and columns of lists of one length become matrices.
    In floating-point columns a missing value is NaN.  Raises DTypeError for missing values in other columns, and for
    other types.

    >>> import pyarrow
    >>> rows = data.ArrowDataset(pyarrow.table({"x": [1.5, 2.5], "name": ["a", "b"]}))
    >>> len(rows), rows.columns, rows[1]["name"]
    (2, ['x', 'name'], 'b')
    >>> next(iter(data.DataLoader(rows, batch_size=2)))
    {'x': Tensor([1.5, 2.5], f64[2]), 'name': ['a', 'b']}
    """

    def __init__(self, table: Any) -> None:
        self.table = table

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.table.column_names)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        at = checked(index, len(self), "ArrowDataset")
        return {name: column[0] for name, column in _arrays(self.table.slice(at, 1)).items()}

    def batch(self, indices: Sequence[int]) -> dict[str, Any]:
        """Several rows, collated into one batch."""
        return _arrays(self.table.take(_module("pyarrow").array(integers(indices, "ArrowDataset"))))


def _arrays(table: Any) -> dict[str, Any]:
    return {name: _column(name, table.column(name)) for name in table.column_names}


def _column(name: str, column: Any) -> Any:
    """The values of a column as an array, or as a list of texts."""
    types = _module("pyarrow").types
    kind = column.type
    if column.null_count and not types.is_floating(kind):
        raise DTypeError(f"data: column {name!r} must not have missing values; it has {column.null_count}, in {kind}")
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind):
        return column.to_pylist()
    if types.is_dictionary(kind):
        return column.cast(kind.value_type).to_pylist()
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        rows = [np.asarray(row) for row in column.to_pylist()]
        if len({len(row) for row in rows}) > 1:
            raise DTypeError(f"data: the lists in column {name!r} must have one length")
        return np.stack(rows) if rows else np.zeros((0,))
    if types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind):
        return column.to_numpy()
    raise DTypeError(f"data: column {name!r} must hold numbers, texts or lists of numbers; got {kind}")


def read_csv(paths: Paths, columns: Sequence[str] | None = None, delimiter: str = ",") -> ArrowDataset:
    """The rows of CSV files; the first line names the columns, and pyarrow finds their types.

    `columns` selects columns, all by default.  Raises DeviceError (also a FileNotFoundError) for files
    that do not exist, ArgumentError for other columns, MissingExtra without pyarrow.

    >>> import pyarrow, pyarrow.csv
    >>> pyarrow.csv.write_csv(pyarrow.table({"x": [1.5, 2.5], "y": [0, 1]}), "rows.csv")
    >>> next(iter(data.DataLoader(data.read_csv("rows.csv"), batch_size=2)))
    {'x': Tensor([1.5, 2.5], f64[2]), 'y': Tensor([0, 1], i64[2])}
    """
    csv, tables = _module("pyarrow.csv"), list[Any]()
    options = csv.ParseOptions(delimiter=delimiter)
    for path in _listed(paths):
        tables.append(_chosen(csv.read_csv(path, parse_options=options), columns))
    return ArrowDataset(_module("pyarrow").concat_tables(tables))


def read_parquet(paths: Paths, columns: Sequence[str] | None = None) -> ArrowDataset:
    """The rows of Parquet files, in memory.

    `columns` selects columns, all by default.  Raises DeviceError (also a FileNotFoundError) for files
    that do not exist, ArgumentError for other columns, MissingExtra without pyarrow.

    >>> import pyarrow, pyarrow.parquet
    >>> pyarrow.parquet.write_table(pyarrow.table({"x": [1.5, 2.5], "y": [0, 1]}), "rows.parquet")
    >>> next(iter(data.DataLoader(data.read_parquet("rows.parquet", columns=["y"]), batch_size=2)))
    {'y': Tensor([0, 1], i64[2])}
    """
    parquet = _module("pyarrow.parquet")
    tables = [_chosen(parquet.ParquetFile(path).read(), columns) for path in _listed(paths)]
    return ArrowDataset(_module("pyarrow").concat_tables(tables))


def read_arrow(paths: Paths, columns: Sequence[str] | None = None) -> ArrowDataset:
    """The rows of Arrow (Feather) files, mapped into memory; only rows that are read are loaded.

    `columns` selects columns, all by default.  Raises DeviceError (also a FileNotFoundError) for files
    that do not exist, ArgumentError for other columns, MissingExtra without pyarrow.

    >>> import pyarrow, pyarrow.feather
    >>> pyarrow.feather.write_feather(pyarrow.table({"x": [1.5, 2.5]}), "rows.arrow", compression="uncompressed")
    >>> len(data.read_arrow("rows.arrow"))
    2
    """
    arrow = _module("pyarrow")
    tables = [_chosen(arrow.ipc.open_file(arrow.memory_map(path)).read_all(), columns) for path in _listed(paths)]
    return ArrowDataset(arrow.concat_tables(tables))


def _chosen(table: Any, columns: Sequence[str] | None) -> Any:
    if columns is None:
        return table
    missing = [c for c in columns if c not in table.column_names]
    if missing:
        raise ArgumentError(f"data: columns must be among {table.column_names}; got {missing}")
    return table.select(list(columns))


class ParquetStream(IterableDataset):
    """A stream of the rows of Parquet files; one row group is in memory at a time.

    Its state is the place (file, row group, row).  A restored stream continues there and does not read the rows before.

    >>> import pyarrow, pyarrow.parquet
    >>> pyarrow.parquet.write_table(pyarrow.table({"x": [1, 2, 3]}), "many.parquet", row_group_size=2)
    >>> stream = data.ParquetStream("many.parquet")
    >>> _ = next(iter(stream))
    >>> stream.state_dict()
    {'place': [0, 0, 1]}
    """

    def __init__(self, paths: Paths, columns: Sequence[str] | None = None) -> None:
        self.paths, self.columns = _listed(paths), None if columns is None else list(columns)
        self._place = self._start = (0, 0, 0)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        first, self._start = self._start, (0, 0, 0)
        parquet = _module("pyarrow.parquet")
        for k in range(first[0], len(self.paths)):
            file = parquet.ParquetFile(self.paths[k])
            first_group = first[1] if k == first[0] else 0
            for group in range(first_group, file.num_row_groups):
                rows = ArrowDataset(_chosen(file.read_row_group(group), self.columns))
                start = first[2] if (k, group) == first[:2] else 0
                for n in range(start, len(rows)):
                    self._place = k, group, n + 1
                    yield rows[n]

    def state_dict(self) -> dict[str, Any]:
        """The place after the last row that was read."""
        return {"place": list(self._place)}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Make the next iteration begin at a saved place.  Raises StateError for anything else."""
        saved_place: object = saved.get("place") if isinstance(cast("object", saved), Mapping) else None
        place = tuple(cast("list[object]", saved_place)) if isinstance(saved_place, list | tuple) else ()
        if len(place) != 3 or not all(type(n) is int and n >= 0 for n in place):
            raise StateError(
                f"load_state_dict: a place must have three counts; got {saved!r:.60}; pass a result of state_dict"
            )
        self._start = self._place = cast("tuple[int, int, int]", place)
