"""Elements whose index is known: with symbolic sizes they are required as with numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc

KERNELS: list[Callable[..., Any]] = []
SIZES = (6, 7, 9, 3, 5, 4, 2, 1, 0, 8)


def listed(f: Callable[..., Any]) -> Callable[..., Any]:
    KERNELS.append(f)
    return f


@listed
def sixth(x, out):
    for i in range(len(x)):
        out[i] = x[5]


@listed
def largest(x, out):
    m = x[0]
    for i in range(1, len(x)):
        m = max(m, x[i])
    for i in range(len(x)):
        out[i] = m + x[-1]


@listed
def under_conditions(x, out):
    if len(x) > 5 and x[5] > 0:
        out[0] = x[5]
    if x.shape[0] == 4:
        out[1] = x[3]
    if x.size % 2 == 1:
        out[0] = x[0]
    if len(x) > 7:
        pass
    elif len(x) > 2:
        out[0] = x[-4] if x.shape[0] > 3 else x[-3]


@listed
def wrong_condition(x, out):
    if len(x) >= 5:
        out[0] = x[5]


@pytest.mark.parametrize("f", KERNELS, ids=lambda f: f.__name__)
def test_jit_and_calls_of_new_sizes_raise_where_python_does(f: Callable[..., Any]) -> None:
    k = nc.kernel(f, out=lambda x: x)
    jitted = nc.jit(k)
    for n in SIZES:
        x, wanted = np.arange(1.0, n + 1), np.zeros(n)
        try:
            f(x, wanted)
        except IndexError:
            for call in (k, jitted):
                with pytest.raises(nc.GraphError, match=r"an index must be from|an array must have elements"):
                    call(x)
        else:
            for call in (k, jitted):
                np.testing.assert_array_equal(call(x).numpy(), wanted)


@pytest.mark.parametrize("f", KERNELS[:3], ids=lambda f: f.__name__)
def test_a_saved_program_checks_its_size(f: Callable[..., Any], tmp_path: Path) -> None:
    k = nc.kernel(f, out=lambda x: x)
    least = 6 if f is sixth else 0
    sizes = {"x": {0: nc.Dim("n", min=least)}}
    nc.save_program(lambda x: k(x), tmp_path / "p.safetensors", nc.zeros(6), dynamic_shapes=sizes)
    loaded = nc.load_program(tmp_path / "p.safetensors")
    for n in (n for n in SIZES if n >= least):
        x, wanted = np.arange(1.0, n + 1, dtype=np.float32), np.zeros(n, np.float32)
        if n or f is under_conditions:
            f(x, wanted)
            np.testing.assert_array_equal(loaded(nc.asarray(x)).numpy(), wanted)
        else:
            with pytest.raises(nc.AxisError, match="an axis must have 1 elements or more; got 0"):
                loaded(nc.asarray(x))


def test_a_condition_that_is_not_enough_is_refused_for_symbolic_sizes(tmp_path: Path) -> None:
    for f in (sixth, wrong_condition):
        k = nc.kernel(f, out=lambda x: x)
        with pytest.raises(nc.GraphError, match=r"must follow from the conditions around it; .*min=6"):
            nc.save_program(
                lambda x, k=k: k(x), tmp_path / "p.safetensors", nc.zeros(6), dynamic_shapes={"x": {0: nc.Dim("n")}}
            )
