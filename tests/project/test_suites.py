"""The shims for other projects' tests: NumPy's calls are repeated and compared."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import numpy_calls
import tinygrad_ops
from numpy_calls import Watched, compared, leaves, tensors, watched_source


def outcomes(report: Path) -> list[list[str]]:
    return [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]


def test_calls_of_watched_arrays_are_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = tmp_path / "report"
    monkeypatch.setenv(numpy_calls.REPORT, str(report))
    watched = numpy_calls.PROXIES["numpy"]
    x = np.array([1.0, 2.0, 3.0]).view(Watched)
    assert watched.sum(x + 1).item() == 9.0 and x[1] == 2.0
    x[0] = 5.0
    watched.delete(x, 0)
    with pytest.raises(IndexError):
        x[7]
    found = [(name, outcome) for _, name, outcome, _ in outcomes(report)]
    assert found[:4] == [("add", "same"), ("numpy.sum", "same"), ("getitem", "same"), ("setitem", "same")]
    assert found[4:] == [("numpy.delete", "error"), ("getitem", "both")]


def test_results_are_compared_by_shape_numbers_and_dtype() -> None:
    x = np.array([1.0, np.nan])
    assert compared(x, tensors(x)) == ("same", "")
    assert compared(x, tensors(x.astype(np.float32)))[0] == "dtype"
    assert compared(x, tensors(x[:1]))[0] == "value" and compared([x, x], x)[0] == "value"
    assert compared(np.array([2**53 + 1]), tensors(np.array([2**53])))[0] == "value"
    assert len(leaves([x, (x, [x])])) == 3


def test_the_source_of_a_test_imports_the_proxies() -> None:
    text = watched_source("import numpy as np\nfrom numpy.testing import assert_\nfrom numpy import ma\nimport sys\n")
    assert text.splitlines()[1:] == [
        "from watched_numpy_testing import assert_",
        "from watched_numpy import ma",
        "import sys",
    ]


FILE = """
import unittest
import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.helpers import getenv

class torch:
    manual_seed = staticmethod(lambda n: None)

class TestOps(unittest.TestCase):
    def test_kinds(self):
        y = Tensor([1, 2]) + Tensor([0.5, 0.5])
        assert y.numpy().tolist() == [1.5, 2.5] and y.dtype == dtypes.float
    def test_gradient(self):
        x = Tensor([1.0, 2.0])
        assert (x * x).sum().gradient(x)[0].numpy().tolist() == [2.0, 4.0]
    def test_methods(self):
        x = Tensor([[1, 2], [3, 4]])
        assert x.transpose().cat(x, dim=1).shape == (2, 4) and x.sum(axis=[0, 1]).numpy() == 10
        assert Tensor.arange(3).dtype == dtypes.int and Tensor(3.0).softmax(-1).numpy() == 1
    def test_an_error(self):
        with self.assertRaises(RuntimeError):
            Tensor([1.0]).reshape(3)
    def test_wrong(self):
        assert Tensor([1.0]).numpy() == 2
"""


def test_tinygrads_tests_run_with_tensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "test_ops.py"
    path.write_text(FILE)
    assert tinygrad_ops.main([str(path)]) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "failed: test_wrong: AssertionError",
        "4 passed, 1 failed, 0 skipped",
    ]
    assert tinygrad_ops.main([str(path), "test_kinds"]) == 0
