"""The reader of .npy files: unchanged arrays, and the reason for any other file."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from nacre.base.errors import ArgumentError, DeviceError
from nacre.formats.npy import read_array

WHOLE = np.arange(6.0).reshape(2, 3)


def written(path: Path, array: np.ndarray) -> bytes:
    np.save(path, array, allow_pickle=True)
    return path.read_bytes()


def test_arrays(tmp_path: Path) -> None:
    written(tmp_path / "x.npy", WHOLE)
    assert np.array_equal(read_array(tmp_path / "x.npy", "run"), WHOLE)


def test_other_files_are_refused_without_advice_to_unpickle(tmp_path: Path) -> None:
    whole, path = written(tmp_path / "x.npy", WHOLE), tmp_path / "y.npy"
    for data, words in (
        (b"1.0 2.0\n", "it begins with b'1.0 2.0\\\\n'"),
        (b"", "it is empty"),
        (pickle.dumps([1]), "it begins with b'.x80"),
        (whole[:-3], "could only read"),
        (whole[:40], "header"),
        (whole.replace(b"}", b" "), "its header is malformed"),
        (whole.replace(b"'descr'", b"'other'"), "keys"),
        (written(tmp_path / "o.npy", np.array([{}], dtype=object)), "it holds Python objects"),
        (whole[:8] + b"\xff\xff" + b" " * 65535, "its header is malformed"),
    ):
        path.write_bytes(data)
        with pytest.raises(ArgumentError, match=f"run: a .npy file is required; .*y.npy is not: .*{words}") as said:
            read_array(path, "run")
        assert "pickle" not in str(said.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, kind in ((tmp_path / "none", FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(DeviceError, match="npy file is required") as said:
            read_array(path, "run")
        assert isinstance(said.value, kind)
