"""Host calls in programs: their launches, their rows in the plan, and the programs that are never run or stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import nacre as nc
from nacre.base.errors import CompileError
from nacre.compile.buffers.verify import verify_plan
from nacre.compile.program import cache
from nacre.compile.program.tune import tune
from nacre.compile.scheduling.barriers import barrier_order
from nacre.inspect.explain import explain
from nacre.inspect.profile import profile
from nacre.runtime.plan import Launch

F = nc.nn.functional


def identity(x: Any) -> Any:
    """The tensor."""
    return x


def called(x: Any) -> Any:
    """A function with work beside a host call."""
    y = nc.host_call(identity, x.type, x)
    return y, nc.exp(x) @ x, nc.sin(x)


def test_a_plan_has_barriers_around_a_call() -> None:
    lines = str(explain(called, nc.ones((8, 8))).plan).splitlines()
    at = next(k for k, line in enumerate(lines) if "host_call" in line)
    assert all("barrier" in lines[k] for k in (at - 1, at + 1) if k >= 0)


def test_names_and_lines_are_shown() -> None:
    explained = explain(called, nc.ones((8, 8)))
    assert "host_call identity (test_host_launches.py:" in explained.plan
    assert "it calls a Python function" in str(explained)
    report = profile(called, nc.ones((8, 8)), rounds=2)
    assert any(row.label.startswith("host_call identity (test_host_launches.py:") for row in report.rows)


def test_a_launch_beside_a_call_is_a_fault() -> None:
    plan = explain(called, nc.ones((8, 8))).compiled.executable.plan
    verify_plan(plan)
    apart = replace(plan)
    apart.__dict__["rows"] = tuple(replace(row, sync=False) for row in plan.rows)
    with pytest.raises(CompileError, match="barriers must separate a host call"):
        verify_plan(apart)


def test_launches_do_not_pass_a_call() -> None:
    def launch(reads: tuple[int, ...], writes: tuple[int, ...], host: object = None) -> Launch:
        return Launch(0, "k", (), 1, 1, 0, reads, writes, host=host)

    steps = [
        launch((0,), (1,)),
        launch((1,), (2,)),
        launch((), (), called),
        launch((0,), (3,)),
        launch((3,), (), called),
    ]
    assert barrier_order(steps) == [0, 1, 2, 3, 4]


def convolved(see: Any, x: Any, v: Any, w: Any) -> Any:
    """Convolutions in blocks of channels, with calls between them."""
    y = F.relu(F.conv2d(x, v, padding=1))
    nc.host_call(see, None, y)
    y = F.relu(F.conv2d(nc.host_call(lambda y: y * 2, y.type, y), w, padding=1))
    nc.host_call(see, None)
    nc.host_call(see, None, F.max_pool2d(y, 2), y)
    return y.mean(axis=(2, 3))


def classified(see: Any, h: Any, w: Any) -> Any:
    """Scores in strips, with calls before and after."""
    scores = h @ w
    nc.host_call(see, None, h)
    loss = F.cross_entropy(scores, nc.arange(512))
    nc.host_call(see, None, loss)
    return loss


def attended(see: Any, q: Any, k: Any, v: Any) -> Any:
    """Attention whose parts calls read."""
    nc.host_call(see, None, q)
    p = F.softmax(q @ k.mT / 8.0)
    nc.host_call(see, None, p)
    out = p @ v
    nc.host_call(see, None, out)
    return out + F.softmax(out @ k.mT / 8.0) @ v


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (convolved, [(2, 16, 8, 8), (32, 16, 3, 3), (32, 32, 3, 3)]),
        (classified, [(512, 32), (32, 4096)]),
        (attended, [(2, 4, 64, 64)] * 3),
    ],
)
def test_passes_keep_calls_and_what_they_read(function: Any, shapes: Any) -> None:
    seen: list[Any] = []

    def see(*xs: Any) -> None:
        seen.append([x.numpy().tobytes() for x in xs])

    key = nc.random.split(nc.random.key(0), len(shapes))
    given = [nc.random.normal(shape, key=k) for shape, k in zip(shapes, key, strict=True)]
    eager, compiled = function(see, *given), nc.jit(lambda *xs: function(see, *xs))(*given)
    assert bool(nc.all(eager == compiled))
    half = len(seen) // 2
    assert seen[:half] == seen[half:] and half >= 2


def test_programs_with_calls_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[Any] = []
    monkeypatch.setattr(cache, "_encode", lambda found: stored.append(found) or b"")
    nc.jit(called)(nc.ones((5, 5)))
    nc.jit(lambda x: nc.exp(x) @ x)(nc.ones((5, 7)).T @ nc.ones((5, 7)))
    assert stored and not any(found.plan.calls_host for found in stored)


def test_a_search_of_options_calls_no_function() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        nc.host_call(lambda: seen.append(1), None)
        return x @ x

    assert tune(explain(f, nc.ones((64, 64))).compiled.executable) == []
    assert not seen
