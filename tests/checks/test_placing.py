"""Checks become few steps, early, in their order, without repetition; the kernel of checks; stored programs."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.compile.passes.checks import place_checks
from nacre.compile.passes.simplify import simplify
from nacre.ir.graph import Graph
from nacre.ir.parse import parse
from nacre.runtime import check
from nacre.runtime.layouts import Outcome, Stopped
from nacre.runtime.tables import row_type
from native.python.compiled import compiled

F = nn.functional
X = nc.tensor([0.0, 1.0, 2.0, 3.0, 4.0])
I, J = nc.tensor([1, 2]), nc.tensor([0, 3])


def placed(f: Callable[..., Any], *args: Any) -> Graph:
    return place_checks(simplify(nc.jit(f).trace(*args))).verify()


def names(graph: Graph) -> list[str]:
    return [e.primitive.name for e in graph.equations]


def test_equal_checks_are_one() -> None:
    assert names(placed(lambda i: X[i] + nc.cos(X)[i], I)).count("checks") == 1
    graph = placed(lambda i: X[i] + nc.cos(X)[i], I)
    (step,) = [e for e in graph.equations if e.primitive.name == "checks"]
    assert len(step.params["bounds"]) == 1


def test_checks_of_arguments_are_one_step_at_the_beginning() -> None:
    def loss(table: Any, i: Any, y: Any) -> Any:
        return F.cross_entropy(F.embedding(i, table) @ table.T, y)

    graph = placed(loss, nc.ones((5, 3)), I, J)
    found = names(graph)
    assert found.count("checks") == 1
    assert found.index("checks") < min(found.index("take"), found.index("dot"))
    (step,) = [e for e in graph.equations if e.primitive.name == "checks"]
    assert [bounds[3].partition(":")[0] for bounds in step.params["bounds"]] == ["embedding", "cross_entropy"]


def test_checks_stay_between_host_calls() -> None:
    graph = placed(lambda i, j: [nc.host_call(abs, X[0].type, X[k].sum()) for k in (i, j)], I, J)
    assert [n for n in names(graph) if n in ("checks", "host_call")] == ["checks", "host_call"] * 2


def test_a_check_of_a_result_is_behind_it() -> None:
    found = names(placed(lambda x, i: X[i].sum() + X[nc.sum(nc.cumulative_sum(x)).astype(nc.int64)], X, I))
    assert found.count("checks") == 2


def test_what_labels_alone_decide_is_ready_behind_their_check() -> None:
    def gradient(table: Any, i: Any, y: Any) -> Any:
        return nc.grad(lambda t: F.cross_entropy(F.embedding(i, t) @ t.T, y))(table)

    found = names(placed(gradient, nc.ones((5, 3)), I, J))
    behind = found[found.index("checks") : found.index("dot")]
    assert "sum" in behind and "div" in behind  # how many labels count, and what the gradient is divided by


def test_large_values_are_computed_where_they_are_read() -> None:
    i = nc.zeros((1 << 18,), dtype=nc.int64)
    found = names(placed(lambda x, i: [X[i].sum(), nc.sum(nc.exp(x)), nc.sum(i * 3)], X, i))
    assert found.index("mul") > found.index("exp")


def test_choices_that_a_check_decides_are_gone() -> None:
    def rows(table: Any, i: Any) -> Any:
        return F.embedding(i, table)

    found = names(placed(rows, nc.ones((5, 3)), I))
    assert found[found.index("checks") :] == ["checks", "take"]

    def both_ways(i: Any) -> Any:
        return nc.where(i < 0, i + 5, i), X[i]

    f = nc.jit(both_ways)  # the choice is before the check, which allows negative integers
    i = nc.tensor([-2, 1])
    assert [f(i)[0].numpy().tolist(), f(i)[1].numpy().tolist()] == [[3, 1], [3.0, 1.0]]


@pytest.mark.parametrize("bad", [-1, 5, 1 << 40])
def test_decided_choices_do_not_hide_a_failure(bad: int) -> None:
    def rows(i: Any) -> Any:
        found = F.embedding(i, nc.reshape(X, (5, 1)))
        return found, nc.where(i < 0, 7, i)

    f = nc.jit(rows)
    assert f(I)[1].numpy().tolist() == [1, 2]
    with pytest.raises(nc.AxisError, match=f"got {bad}"):
        f(nc.tensor([0, bad]))


def test_graphs_are_read_back() -> None:
    traced = nc.jit(lambda i: X[i]).trace(I)
    for graph in (traced, place_checks(simplify(traced))):
        assert parse(str(graph)) == graph


def test_a_graph_without_checks_is_unchanged() -> None:
    graph = simplify(nc.jit(lambda x: x * 2).trace(X))
    assert place_checks(graph) is graph


def test_programs_on_disk(tmp_path: Path) -> None:
    script = (
        "import nacre as nc\n"
        "from nacre.native import cache\n"
        "f = nc.jit(lambda x, i: x[i] * 2)\n"
        "x = nc.arange(5.0)\n"
        "print(f(x, nc.tensor([1, -2])).tolist())\n"
        "try: f(x, nc.tensor([1, 8]))\n"
        "except nc.AxisError as error: print(error)\n"
        "print(cache.shared().compiled)\n"
    )
    around = {**os.environ, "NACRE_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    runs = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=around) for _ in "ab"]
    lines = [done.stdout.splitlines() for done in runs]
    assert lines[0][:2] == lines[1][:2] == ["[2.0, 6.0]", "index: indices for axis 0 must be in [-5, 5); got 8"]
    assert int(lines[0][2]) > 0 == int(lines[1][2])


# ---- the kernel

WIDTHS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64, -1: np.uint8, -2: np.uint16, -4: np.uint32, -8: np.uint64}


@pytest.mark.parametrize("width", WIDTHS)
def test_the_kernel_finds_the_first_of_few(width: int) -> None:
    (kernel,) = compiled(check.check)
    dtype = WIDTHS[width]
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    cases: list[tuple[list[int], int, int]] = [([3, 4], 3, 5), ([4, 2, most], 3, 5), ([4, least], 1, 5), ([], 0, 0)]
    for numbers, low, high in (*cases, ([4, most, 9], 0, 5)):
        values = np.array(numbers, dtype)
        arguments = np.array([0, 1, 0, values.ctypes.data, len(numbers), width, low, high], np.int64)
        outcome = np.zeros(1, row_type(Outcome))
        kernel(arguments.ctypes.data, 0, 1, outcome.ctypes.data)
        wrong = [n for n in numbers if not low <= n < high]
        assert outcome["stopped"][0] == (Stopped.FAILED if wrong else Stopped.NO)
        if wrong:
            assert int(outcome["got"][0]) % (1 << 64) == wrong[0] % (1 << 64)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_kernel_reports_the_first_failure(width: int) -> None:
    (kernel,) = compiled(check.check)
    values = np.array([1, np.iinfo(WIDTHS[width]).max, 3, np.iinfo(WIDTHS[width]).min], WIDTHS[width])
    positions = [(1 << 63) - 1] * 3
    for failing in (None, 0, 2):
        places = [ctypes.c_int64(1 if k == failing else p) for k, p in enumerate(positions)]
        words = [7, 3]
        for k, place in enumerate(places):
            words += [ctypes.addressof(place), values.ctypes.data, 4, width, -k, 10 + k]
        arguments = np.array(words, np.int64)
        outcome = np.zeros(1, row_type(Outcome))
        outcome["stopped"] = 99
        kernel(arguments.ctypes.data, 0, 1, outcome.ctypes.data)
        if failing is None:
            assert outcome["stopped"][0] == Stopped.NO
        else:
            wanted = int(values[1].astype(np.int64))
            assert outcome[0].tolist() == (Stopped.FAILED, 7 + failing, -failing, 10 + failing, wanted)


def test_checks_come_before_updates_in_place() -> None:
    def f(x: Any, row: Any, i: Any) -> Any:
        y = nc.dynamic_update_slice(x, row, (i,))
        return nc.take(y, (i + 1) * 2, axis=0), y

    graph = placed(f, X, nc.ones(1), nc.tensor(1))
    found = names(graph)
    assert found.index("checks") < found.index("dynamic_update_slice")
    assert [x.tolist() for x in nc.jit(f)(X, nc.ones(1), nc.tensor(1))] == [4.0, [0, 1, 2, 3, 4]]


def test_checks_of_what_updates_give_come_after_them() -> None:
    def f(x: Any, row: Any, i: Any) -> Any:
        return X[nc.dynamic_update_slice(x, row, (i,))[0]]

    found = names(placed(f, I, nc.tensor([2]), nc.tensor(0)))
    assert found.index("dynamic_update_slice") < found.index("checks")
    assert nc.jit(f)(I, nc.tensor([2]), nc.tensor(0)).item() == 2
