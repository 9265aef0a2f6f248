"""Tables through pyarrow: values, batches, streams that resume, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import data
from nacre.data import arrow


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(arrow, "import_module", missing)
    with pytest.raises(nc.MissingExtra, match=r"pip install 'nacre\[data\]'"):
        data.read_csv(tmp_path / "rows.csv")


@pytest.fixture
def pa() -> Any:
    return pytest.importorskip("pyarrow")


@pytest.fixture
def table(pa: Any) -> Any:
    numbers = np.arange(25)
    return pa.table({
        "x": numbers * 0.5, "k": numbers, "name": [f"row {k}" for k in numbers],
        "pixels": [[k, k + 1] for k in numbers.tolist()],
    })  # fmt: skip


def test_csv(pa: Any, tmp_path: Path) -> None:
    paths = [tmp_path / "one.csv", tmp_path / "two.csv"]
    paths[0].write_text("a;b\n1;x\n2;y\n")
    paths[1].write_text("a;b\n3;z\n")
    rows = data.read_csv(paths, delimiter=";")
    assert len(rows) == 3 and rows.columns == ["a", "b"] and rows[2] == {"a": 3, "b": "z"}
    with pytest.raises(nc.ArgumentError, match="columns of"):
        data.read_csv(paths, ["c"], ";")
    with pytest.raises(FileNotFoundError, match="exist"):
        data.read_csv(tmp_path / "none.csv")


def test_parquet_and_arrow(pa: Any, table: Any, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(table, tmp_path / "rows.parquet")
    with pa.ipc.new_file(tmp_path / "rows.arrow", table.schema) as out:
        out.write_table(table)
    for rows in (data.read_parquet(tmp_path / "rows.parquet"), data.read_arrow(tmp_path / "rows.arrow")):
        batches = list(data.DataLoader(rows, 10, shuffle=True))
        assert len(batches) == 3 and batches[0]["pixels"].shape == (10, 2) and isinstance(batches[0]["name"], list)
        for batch in batches:
            np.testing.assert_array_equal(batch["x"].numpy(), batch["k"].numpy() * 0.5)
            assert batch["name"] == [f"row {k}" for k in batch["k"].tolist()]
    assert data.read_parquet(tmp_path / "rows.parquet", ["k"]).columns == ["k"]


@pytest.mark.parametrize("workers", [0, 2])
def test_streams_resume(pa: Any, table: Any, tmp_path: Path, workers: int) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    paths = [tmp_path / f"{k}.parquet" for k in range(2)]
    for k, path in enumerate(paths):
        parquet.write_table(table.slice(13 * k, 13), path, row_group_size=4)

    def loader() -> data.DataLoader:
        return data.DataLoader(data.ParquetStream(paths, ["k"]), 3, num_workers=workers)

    whole = [b["k"].tolist() for b in loader()]
    assert [k for b in whole for k in b] == list(range(25))
    for stop in range(1, len(whole)):
        first = loader()
        batches = iter(first)
        seen = [next(batches)["k"].tolist() for _ in range(stop)]
        second = loader()
        second.load_state_dict(first.state_dict())
        assert seen + [b["k"].tolist() for b in second] == whole


def test_missing_values(pa: Any) -> None:
    rows = data.ArrowDataset(pa.table({"x": [1.0, None]}))
    assert np.isnan(rows.batch([0, 1])["x"]).tolist() == [False, True]
    for values, message in (([1, None], "missing"), ([[1], [1, 2]], "one length"), ([{"a": 1}], "numbers")):
        with pytest.raises(nc.DTypeError, match=message):
            data.ArrowDataset(pa.table({"x": values})).batch(range(len(values)))
