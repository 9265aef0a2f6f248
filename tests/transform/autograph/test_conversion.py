"""Conversion and its time: captures, threads, exceptions, printing, the converted source."""

from __future__ import annotations

import ast
import importlib
import linecache
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.transform.autograph.build import is_converted

X = nc.tensor([1.0, 2.0])
SCALE = nc.tensor(3.0)
FACTOR = 2.0
BINDINGS = {"y": 1.0}
y = 5.0


def scaled(x: Any) -> Any:
    if x.sum() > 0:
        return x * SCALE * FACTOR
    return x


def reads_y() -> float:
    return y


def with_a_local_y(x: Any) -> Any:
    if x.sum() > 0:
        y = x * 2
    else:
        y = x
    return y * reads_y()


def test_functions_have_their_own_code_after_a_trace() -> None:
    before = scaled.__code__
    jitted = nc.jit(scaled)
    assert jitted(X).tolist() == [6.0, 12.0]
    assert scaled.__code__ is before and not is_converted(before)
    assert jitted.conversions.texts


def test_functions_have_their_own_code_after_an_error() -> None:
    def fails(x: Any) -> Any:
        if x.sum() > 0:
            return x.no_such_name
        return x

    before = fails.__code__
    with pytest.raises(AttributeError):
        nc.jit(fails)(X)
    assert fails.__code__ is before


def test_globals_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    jitted = nc.jit(scaled)
    assert jitted(X).tolist() == [6.0, 12.0]
    monkeypatch.setitem(globals(), "FACTOR", 10.0)
    assert jitted(X).tolist() == [30.0, 60.0]
    monkeypatch.setitem(globals(), "SCALE", nc.tensor(1.0))
    assert jitted(X).tolist() == [10.0, 20.0]
    assert len(jitted.concrete_functions) == 2


def test_a_global_with_the_name_of_a_local_variable_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    jitted = nc.jit(with_a_local_y)
    assert jitted(X).tolist() == [10.0, 20.0]
    monkeypatch.setitem(globals(), "y", 1.0)
    assert jitted(X).tolist() == [2.0, 4.0]


def test_cells_are_watched() -> None:
    offset, names = 1.0, ["a"]

    @nc.jit
    def f(x: Any) -> Any:
        n = 0
        while x.sum() > 1:
            x = x / 2
            n = n + len(names)
        return x * n + offset

    assert f(X).tolist() == [1.5, 2.0]
    offset = 2.0
    assert f(X).tolist() == [2.5, 3.0]
    names.append("b")
    assert f(X).tolist() == [3.0, 4.0]


def test_local_variables_are_not_captures() -> None:
    def inner(x: Any) -> Any:
        k = 1
        if x.sum() > 0:
            x = x + k
        k = 2
        return x * k

    def called(g: Any, x: Any) -> Any:
        return g(x)

    functions = {"inner": inner}
    jitted = nc.jit(lambda x: called(functions["inner"], x))
    for _ in range(3):
        assert jitted(X).tolist() == [4.0, 6.0]
    assert len(jitted.concrete_functions) == 1


def test_attributes_are_watched() -> None:
    class Model(nn.Module):
        """Scales by a number."""

        def __init__(self) -> None:
            super().__init__()
            self.scale = 2.0

        def forward(self, x: Any) -> Any:
            """The scaled vector."""
            if x.sum() > 0:
                return x * self.scale
            return x

    model = Model()
    jitted = nc.jit(model)
    assert jitted(X).tolist() == [2.0, 4.0]
    model.scale = 3.0
    assert jitted(X).tolist() == [3.0, 6.0]


def test_nothing_is_converted_without_need() -> None:
    runs: list[int] = []

    @nc.jit
    def f(x: Any, n: int) -> Any:
        runs.append(1)
        for k in range(n):
            if k % 2 and n > 1:
                x = x + k
        return x if n else -x

    assert f(X, 4).tolist() == [5.0, 6.0]
    assert runs == [1] and f.converted_source == ""


def test_the_second_signature_starts_converted() -> None:
    runs: list[int] = []

    @nc.jit
    def f(x: Any) -> Any:
        runs.append(1)
        return x if x.sum() > 0 else -x

    f(X)
    assert len(runs) == 2
    f(X.astype(nc.float64))
    assert len(runs) == 3


def test_the_converted_source() -> None:
    assert nc.jit(scaled).converted_source == ""
    jitted = nc.jit(scaled)
    jitted(X)
    text = jitted.converted_source
    assert text.startswith("def scaled(x: Any) -> Any:") and "autograph.if_(" in text
    assert ast.parse(text)


def test_conversion_can_be_off() -> None:
    jitted = nc.jit(scaled, autograph=False)
    with pytest.raises(nc.TraceError, match="bool: the tensor must have known numbers"):
        jitted(X)
    with pytest.raises(nc.TraceError):
        pickle.loads(pickle.dumps(nc.jit(scaled, autograph=False)))(X)
    assert nc.jit(autograph=False)(lambda x: x * 2)(X).tolist() == [2.0, 4.0]


def test_another_thread_calls_the_function_eagerly_meanwhile() -> None:
    found: list[Any] = []

    def slow(x: Any) -> Any:
        if isinstance(threading.current_thread(), threading._MainThread):
            thread = threading.Thread(target=lambda: found.append(slow(-X).tolist()))
            thread.start()
            thread.join()
        if x.sum() > 0:
            x = x + 1
        else:
            x = x * 10
        return x

    assert nc.jit(slow)(X).tolist() == [2.0, 3.0]
    assert found and all(each == [-10.0, -20.0] for each in found)


def test_printing_happens_when_the_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    @nc.jit
    def f(x: Any) -> Any:
        print("begin", x.shape)
        n = 0
        while x.sum() > 1:
            x = x / 2
            n += 1
            print("halved", n, x, sep=" | ")
        if x[0] > 0.2:
            print(f"end: {x.sum():.2f} after {n:03d}, {x!r}")
        return x

    f(X)
    first = capsys.readouterr().out.splitlines()
    assert first[-3:] == [
        "halved | 1 | [0.5 1. ]",
        "halved | 2 | [0.25 0.5 ]",
        "end: 0.75 after 002, Tensor([0.25, 0.5 ], f32[2])",
    ]
    f(X * 2)
    assert capsys.readouterr().out.splitlines()[-1] == "end: 0.75 after 003, Tensor([0.25, 0.5 ], f32[2])"


def test_assertions_keep_their_messages() -> None:
    @nc.jit
    def f(x: Any) -> Any:
        assert x.sum() > 0, "the sum {must} be positive"
        for _ in range(5):
            assert x.max() < 100
            x = x * 2
            if x.sum() > 50:
                break
        return x

    f(X)
    with pytest.raises(
        AssertionError, match=r"^the sum \{must\} be positive \(test_conversion.py:\d+, in .*f\)$"
    ) as caught:
        f(-X)
    assert isinstance(caught.value, nc.FailedAssertion)
    with pytest.raises(nc.FailedAssertion, match=r"x.max\(\) < 100"):
        f(nc.tensor([200.0, -190.0]))


def test_variables_are_assigned_in_branches_and_loops() -> None:
    count, norm = nn.Parameter(nc.tensor(0.0)), nn.BatchNorm1d(2)

    @nc.jit
    def f(x: Any) -> Any:
        while x.sum() > 1:
            x = x / 2
            with nc.no_grad():
                count.assign(count.value + 1)
        if x[0, 0] > 0.2:
            x = norm(x)
        return x

    def plain(x: Any) -> int:
        steps = 0
        while float(x.sum()) > 1:
            x, steps = x / 2, steps + 1
        return steps

    x = nc.tensor([[1.0, 2.0], [3.0, 5.0]])
    f(x)
    assert float(count) == plain(x)
    f(x * 4)
    assert float(count) == plain(x) + plain(x * 4)


@pytest.mark.parametrize("autograph", ["if", "for", "expression"])
def test_gradients_are_those_of_python(autograph: str) -> None:
    def branch(w: Any) -> Any:
        if w.sum() > 0:
            y = nc.sin(w) * w
        else:
            y = w * 3
        return (y * w).sum()

    def loop(w: Any) -> Any:
        total = w.sum()
        for k in range(6):
            total = total * 1.1 + nc.sin(w * k).sum()
            if total > 4:
                break
        return total

    def expression(w: Any) -> Any:
        return (w * w if w[0] > 0 and w[1] > 0 else -w * 5).sum()

    f = {"if": branch, "for": loop, "expression": expression}[autograph]
    for w in (X, -X, X * 0.1):
        wanted, found = nc.grad(f)(w), nc.jit(nc.grad(f))(w)
        assert np.allclose(wanted.numpy(), found.numpy(), rtol=1e-6)
        assert np.allclose(nc.jit(nc.jacfwd(f))(w).numpy(), wanted.numpy(), rtol=1e-6)


def test_lists_are_filled_by_compiled_loops() -> None:
    @nc.jit
    def f(x: Any) -> Any:
        rows = [x]
        for k in range(8):
            x = x * 1.5 + k
            if x.sum() > 1000:
                continue
            rows.append(x)
        return nc.stack(rows)

    with pytest.raises(nc.TraceError, match=r"got nc\.stack without a size"):
        f(X)


def test_sizes_may_be_symbols() -> None:
    @nc.jit(dynamic_shapes={"x": {0: nc.Dim("n", max=64)}})
    def f(x: Any) -> Any:
        if x.sum() > 3:
            y = x * 2
        else:
            y = x * x
        while y.max() > 1:
            y = y / 2
        return y

    for n in (2, 5, 9):
        x = nc.tensor(np.linspace(0, 1, n, dtype=np.float32))
        y = x * 2 if float(x.sum()) > 3 else x * x
        while float(y.max()) > 1:
            y = y / 2
        assert f(x).tolist() == y.tolist()
    assert len(f.concrete_functions) == 1


def test_closures_of_one_code_that_no_name_leads_to() -> None:
    def scaled_by(k: float) -> Any:
        def f(x: Any) -> Any:
            if x.sum() > 0:
                return x * k
            return x

        return f

    class Layers:
        """Functions that the trace finds as they run."""

        def __init__(self) -> None:
            self.held = {1: [scaled_by(2.0)], 2: [[[[scaled_by(3.0)]]]]}

    layers = Layers()

    @nc.jit
    def f(x: Any) -> Any:
        return layers.held[1][0](x) + layers.held[2][0][0][0][0](x)

    assert f(X).tolist() == [5.0, 10.0]
    assert f(-X).tolist() == [-2.0, -4.0]


def test_compiled_functions_within_compiled_functions() -> None:
    @nc.jit
    def inner(x: Any) -> Any:
        while x.sum() > 1:
            x = x / 2
        return x

    @nc.jit
    def outer(x: Any) -> Any:
        if x.sum() > 2:
            x = inner(x)
        return nc.checkpoint(lambda y: y * 2 if y[0] > 0.2 else y)(x)

    assert outer(X).tolist() == [0.5, 1.0]
    assert outer(-X).tolist() == [-1.0, -2.0]
    assert inner.converted_source and "inner" not in outer.converted_source.split("def ")[1].split("(")[0]


def test_recursion_of_a_function_that_each_trace_makes_again() -> None:
    @nc.jit
    def f(x: Any, n: int) -> Any:
        def power(y: Any, k: int) -> Any:
            if k == 0:
                return nc.ones_like(y)
            if y.sum() > 0:
                return power(y, k - 1) * y
            return power(y, k - 1) * 2

        return power(x, n)

    assert f(X, 3).tolist() == [1.0, 8.0]
    assert f(-X, 3).tolist() == [8.0, 8.0]


ROWS = nc.tensor(np.linspace(-1, 1, 120, dtype=np.float32).reshape(40, 3))


def weighted(x: Any) -> Any:
    total = None
    for k, (row, other) in enumerate(zip(x, x * 2), start=1):
        total = row * k if total is None else total * 0.9 + row * other
    return total


def test_many_rows_are_a_loop_of_the_program() -> None:
    jitted = nc.jit(weighted)
    assert jitted(ROWS).tolist() == weighted(ROWS).tolist()
    assert len(str(jitted.trace(ROWS)).splitlines()) < 40
    assert jitted(ROWS[:8]).tolist() == weighted(ROWS[:8]).tolist()
    assert "scan" not in str(nc.jit(weighted).trace(ROWS[:8]))
    wanted = nc.grad(lambda x: weighted(x).sum())(ROWS)
    assert np.allclose(nc.jit(nc.grad(lambda x: weighted(x).sum()))(ROWS).numpy(), wanted.numpy(), atol=1e-5)


def test_rows_of_a_symbolic_number() -> None:
    @nc.jit(dynamic_shapes={"x": {0: nc.Dim("n", min=1, max=64)}})
    def f(x: Any) -> Any:
        total, steps = x[0] * 0, []
        for row in x:
            if row.sum() > 0:
                continue
            total = total + row
        for row in x:
            steps.append(row * 2)
        return total, nc.stack(steps)

    for n in (1, 9, 40):
        total = sum((row for row in ROWS[:n] if float(row.sum()) <= 0), nc.zeros((3,)))
        found, doubled = f(ROWS[:n])
        assert found.tolist() == total.tolist() and doubled.tolist() == (ROWS[:n] * 2).tolist()
    assert len(f.concrete_functions) == 1


def test_rows_of_a_body_that_is_no_part_of_a_program_are_unrolled() -> None:
    scales = [1.0 + k for k in range(40)]

    @nc.jit
    def f(x: Any) -> Any:
        total = x[0] * 0
        for k, row in enumerate(x):
            total = total + row * scales[k]
        return total

    total = nc.zeros((3,))
    for k, row in enumerate(ROWS):
        total = total + row * scales[k]
    assert f(ROWS).tolist() == total.tolist()


def test_lists_of_loops_with_a_known_number_of_items_are_lists() -> None:
    @nc.jit
    def f(x: Any) -> Any:
        steps = [x[0]]
        for row in x:
            if row.sum() > 0:
                steps.append(row)
            else:
                steps.append(-row)
        return nc.stack(steps), steps[-1], len(steps)

    rows, last, count = f(ROWS)
    assert rows.shape == (41, 3) and count == 41 and last.tolist() == nc.abs(ROWS[-1]).tolist()


def test_a_list_that_a_while_fills() -> None:
    def f(x: Any) -> Any:
        steps = []
        while x.sum() > 1:
            nc.set_loop_options(max_iterations=20)
            x = x / 2
            if x[0] < 0.2:
                continue
            steps.append(x)
        return nc.stack([x * 0, *steps], size=21) if isinstance(steps, list) else nc.stack(steps, size=20)

    def loss(x: Any) -> Any:
        steps = []
        while x.sum() < 30:
            nc.set_loop_options(max_iterations=20)
            x = x * 1.5 + nc.sin(x)
            steps.append(x * x)
        return nc.stack(steps, size=20).sum()

    x = nc.tensor([1.0, 20.0])
    assert nc.jit(f)(x).tolist() == f(x).tolist()[1:]
    assert np.allclose(nc.jit(nc.grad(loss))(X).numpy(), nc.grad(loss)(X).numpy(), rtol=1e-5)
    batch = nc.stack([X, X * 2])
    assert np.allclose(nc.jit(nc.vmap(loss))(batch).numpy(), [float(loss(row)) for row in batch], rtol=1e-6)


def test_a_while_with_a_limit_has_a_derivative() -> None:
    def f(x: Any) -> Any:
        while x.sum() < 30:
            nc.set_loop_options(max_iterations=20)
            x = x * 1.5 + nc.sin(x)
        return x.sum()

    assert nc.jit(f)(X).tolist() == f(X).tolist()
    assert np.allclose(nc.jit(nc.grad(f))(X).numpy(), nc.grad(f)(X).numpy(), rtol=1e-5)
    with pytest.raises(nc.FailedAssertion, match="within the 20 iterations"):
        nc.jit(f)(X * 1e-9)


def test_requests_that_a_try_catches_are_seen() -> None:
    @nc.jit
    def f(x: Any) -> Any:
        try:
            if x.sum() > 0:
                x = x * 2
        except Exception:
            x = x * 3
        return x

    assert f(X).tolist() == [2.0, 4.0] and f(-X).tolist() == [-1.0, -2.0]


def test_a_file_that_has_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def f(x):\n    if x.sum() > 0:\n        return x * 2\n    return -x\n"
    path = tmp_path / "edited_later.py"
    path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("edited_later")
    path.write_text(text.replace("* 2", "* 9"))
    linecache.checkcache()
    with pytest.raises(nc.TraceError, match="the file has changed"):
        nc.jit(module.f)(X)


def test_constant_prints_of_branches_happen_when_the_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    @nc.jit
    def f(x: Any) -> Any:
        if x.sum() > 0:
            print("positive")
        else:
            print("negative")
        return x

    f(X)
    assert capsys.readouterr().out == "positive\n"
    f(-X)
    assert capsys.readouterr().out == "negative\n"


def test_stack_with_a_size() -> None:
    assert nc.stack([X, X * 2], size=3).tolist() == [[1.0, 2.0], [2.0, 4.0], [0.0, 0.0]]
    assert nc.stack([X], size=1).tolist() == [[1.0, 2.0]]
    with pytest.raises(nc.ArgumentError, match="at most 1 items; got 2"):
        nc.stack([X, X], size=1)
    with pytest.raises(nc.ArgumentError, match="axis must be 0"):
        nc.stack([X], axis=1, size=2)
    with pytest.raises(nc.ArgumentError, match="at least 1"):
        nc.set_loop_options(max_iterations=0)


def test_an_exception_of_a_branch_says_that_both_branches_are_recorded() -> None:
    def refuses() -> None:
        raise ValueError("too large")

    @nc.jit
    def f(x: Any) -> Any:
        if x.sum() > 100:
            x = x * 2
            refuses() if x[0] > 3 else None
        return x

    with pytest.raises(ValueError, match="too large") as caught:
        f(X)
    (note,) = caught.value.__notes__
    assert "recorded, whatever the tensors hold (test_conversion.py:" in note


def test_keys_of_max_are_computed_once() -> None:
    seen: list[float] = []

    def weight(x: float) -> float:
        seen.append(x)
        return -x

    @nc.jit
    def f(x: Any) -> Any:
        seen.clear()
        if x.sum() > 0:
            x = x * 2
        return x * max(3.0, 2.0, 5.0, key=weight)

    assert f(X).tolist() == [4.0, 8.0] and seen == [3.0, 2.0, 5.0]


def test_functions_of_the_package_under_names_of_built_in_ones() -> None:
    max, min, sum, abs, all, any = nc.max, nc.min, nc.sum, nc.abs, nc.all, nc.any

    @nc.jit
    def f(x: Any) -> Any:
        if any(x > 0) and not all(x > 5):
            x = abs(x) + max(x)
        return min(x) + sum(x), max(x, axis=0)

    assert [float(y) for y in f(X)] == [10.0, 4.0]
    assert [float(y) for y in f(-X)] == [-5.0, -1.0]
