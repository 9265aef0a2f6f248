"""The examples in the docstrings of `nacre.train` run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import nacre as nc
from nacre import data, nn, optim, train
from nacre.train.state import packed, unpacked

MODULES = ("checkpoint", "history", "loop", "metrics", "state", "stopping")


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {
        "nc": nc,
        "nn": nn,
        "optim": optim,
        "data": data,
        "train": train,
        "packed": packed,
        "unpacked": unpacked,
        "Means": train.Means,
    }
    failed, attempted = doctest.testmod(importlib.import_module(f"nacre.train.{name}"), extraglobs=names)
    assert attempted > 0
    assert failed == 0
