"""Profiles add up, change nothing, and count right; the machine's ceilings are upper limits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim
from nacre.base.errors import ArgumentError
from nacre.compile.program.clock import divided
from nacre.inspect import ceilings as limits
from nacre.inspect.profile import profile
from nacre.inspect.roofline import chart
from nacre.native.engine import host_target
from nacre.native.pool import pool
from nacre.runtime.layouts import Stamp
from nacre.runtime.tables import row_type
from nacre.runtime.texts import driver_text


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small measurements of the ceilings; restores the threads afterwards."""
    monkeypatch.setattr(limits, "SIZES", (1 << 14, 1 << 17))
    monkeypatch.setattr(limits, "MULTIPLIES", 500)
    monkeypatch.setattr(limits, "MOVED", 1 << 18)
    monkeypatch.setattr(limits, "_known", {})
    before = pool().threads
    yield
    pool().set_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_rows_add_up_to_the_walk(threads: int) -> None:
    nc.set_threads(threads)
    x, w = nc.random.normal((300, 200)), nc.random.normal((200, 400))
    told = profile(lambda x, w: nn.functional.softmax(x @ w), x, w, rounds=5)
    assert [r.label.split("+")[0] for r in told.rows] == ["contract", "max"]
    assert 0 < told.walked <= told.stamped
    assert all(r.seconds > 0 and 0 < r.busy <= 1.001 for r in told.rows)
    assert told.rows[0].flops == 2 * 300 * 200 * 400
    assert told.rows[0].bytes == 4 * (300 * 200 + 200 * 400 + 300 * 400)
    assert told.whole > 0 and told.floor > 0 and told.share > 0


def test_epochs_are_divided_by_busy_time() -> None:
    # two threads, three steps; a barrier before the last; thread 1 is idle in step 1
    rows = [[(5, 15, 10), (15, 45, 30), (55, 65, 10)], [(5, 35, 30), (0, 0, 0), (55, 75, 20)]]  # begin, end, busy
    stamps = np.array(rows, row_type(Stamp))
    seconds, busy = divided(stamps, np.array([False, False, True]))
    np.testing.assert_allclose(busy, [40e-9, 30e-9, 30e-9])
    np.testing.assert_allclose(seconds, [40e-9 * 4 / 7, 40e-9 * 3 / 7, 30e-9])


def test_a_profiled_training_step_changes_nothing() -> None:
    model = nn.Linear(40, 30)
    optimiser = optim.Adam(model.parameters())

    @nc.jit
    def step(x: nc.Tensor) -> nc.Tensor:
        loss = nc.sum(model(x) ** 2)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return loss

    x = nc.ones((8, 40))
    step(x)
    before = [v.value.numpy().copy() for v in (*model.parameters(), *optimiser.variables())]
    told = profile(step, x, rounds=3)
    after = [v.value.numpy() for v in (*model.parameters(), *optimiser.variables())]
    assert len(told.rows) > 2 and all(map(np.array_equal, before, after))


def test_views_and_symbolic_sizes() -> None:
    f = nc.jit(lambda x: nc.sum(nc.exp(x), axis=1), dynamic_shapes={"x": {0: nc.Dim("n", max=64)}})
    told = profile(f, nc.ones((20, 48)).T[:12], rounds=2)
    assert told.rows[-1].bytes == 4 * (12 * 20 + 12)


def test_misuse_is_explained() -> None:
    with pytest.raises(ArgumentError, match="at least 1"):
        profile(lambda x: x + 1, nc.ones(3), rounds=0)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_kernel_in_a_loop_is_one_row(threads: int) -> None:
    nc.set_threads(threads)

    def turned(w: nc.Tensor, x: nc.Tensor) -> nc.Tensor:
        last, sums = nc.scan(lambda h, x: (nc.tanh(h @ w + x), nc.sum(h)), nc.zeros((16, 32)), x)
        return nc.exp(last) + nc.sum(sums)

    told = profile(turned, nc.ones((32, 32)), nc.ones((50, 16, 32)), rounds=3)
    (product,) = (r for r in told.rows if r.label.startswith("contract"))
    assert product.flops >= 50 * 2 * 16 * 32 * 32 and product.seconds > 0
    assert 0 < told.walked <= told.stamped


def test_a_loop_of_unknown_length_and_the_side_of_a_branch_that_runs() -> None:
    def counted(x: nc.Tensor) -> nc.Tensor:
        x = nc.while_loop(lambda v: nc.sum(v) < 9, lambda v: v + 1, x)
        return nc.cond(nc.sum(x) > 0, lambda v: nc.exp(v), lambda v: nc.sin(v), x)

    told = profile(counted, nc.ones(3), rounds=2)
    assert {r.label for r in told.rows if not r.seconds} <= {"sin", "copy"}
    assert 0 < told.walked <= told.stamped


def test_the_plain_driver_has_no_clock() -> None:
    assert "clock" not in driver_text(host_target())
    assert driver_text(host_target(), stamped=True).count("call void @stamped_driver.stamp(") == 1


def test_a_program_without_steps() -> None:
    told = profile(lambda x: x, nc.ones(3), rounds=1)
    assert told.flops == 0


def test_ceilings_only_rise() -> None:
    first = limits.ceilings()
    assert limits.ceilings() is first
    again = limits.measure()
    assert all(again.flops[d] >= first.flops[d] > 0 for d in ("f32", "f64"))
    rates = [rate for _, rate in again.bandwidths]
    assert rates == sorted(rates, reverse=True) and again.memory == rates[-1] > 0
    assert again.bandwidth(1) == rates[0] and again.bandwidth(1 << 40) == rates[-1]
    assert again.floor(again.flops["f32"], 0) == pytest.approx(1.0)


def test_the_roofline_shows_the_kernels() -> None:
    told = profile(lambda x: nn.functional.softmax(x), nc.ones((64, 64)), rounds=2)
    picture = chart([told]).svg()
    assert picture.count("<circle") == 1 and "of the roof" in picture and picture.rstrip().endswith("</svg>")
