"""Kernels in Python in all modes: threads, LLVM's passes, sizes, batches, derivatives, files; and the six examples."""

from __future__ import annotations

import importlib.util
import math
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from deploy.calls import can_link
from nacre.compile.program import launches

ROOT = Path(__file__).parents[3]


def load_examples() -> Any:
    spec = importlib.util.spec_from_file_location("kernel_examples", ROOT / "docs" / "kernel_examples.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernel_examples"] = module
    spec.loader.exec_module(module)
    return module


examples = load_examples()
PROBLEMS = examples.problems(0.03)


@pytest.mark.parametrize("name", PROBLEMS)
def test_examples_agree_with_plain_python(name: str) -> None:
    k, inputs, wanted = PROBLEMS[name]
    k.function(*inputs, *wanted)
    found = k(*inputs)
    for y, w in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        if name == "black_scholes":  # its functions are Nacre's own, within 2 units in the last place
            np.testing.assert_allclose(y.numpy(), w, rtol=1e-12, atol=1e-12)
        else:
            np.testing.assert_array_equal(y.numpy(), w)


@pytest.mark.parametrize("name", PROBLEMS)
def test_llvm_passes_keep_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    k, inputs, _ = PROBLEMS[name]
    xs = [nc.asarray(x) for x in inputs]
    found = nc.jit(lambda *xs: k(*xs))(*xs)
    generate = launches.generated
    seen: list[bool] = []

    def plain(kernel: Any, isa: Any, streams: Any = frozenset(), optimised: bool = False) -> Any:
        seen.append(optimised)
        return generate(kernel, isa, streams, False)

    monkeypatch.setattr(launches, "generated", plain)
    fresh = secrets.randbelow(1 << 40)  # a program that no cache has
    other, _ = nc.jit(lambda *xs: (k(*xs), nc.asarray(fresh) + 1))(*xs)
    assert True in seen
    for y, w in zip(*((v if isinstance(v, tuple) else (v,)) for v in (found, other)), strict=True):
        np.testing.assert_array_equal(y.numpy().view(np.uint8), w.numpy().view(np.uint8))


@nc.kernel(out=lambda x, y: x)
def hypotenuse(x, y, out):
    for i in nc.prange(x.shape[0]):
        out[i] = math.sqrt(x[i] * x[i] + y[i] * y[i])


@nc.kernel(out=lambda x: x)
def smooth(x, out, *, weight=0.5):
    for i in nc.prange(1, x.shape[0] - 1):
        out[i] = weight * x[i] + (1 - weight) * 0.5 * (x[i - 1] + x[i + 1])


def test_symbolic_sizes() -> None:
    f = nc.jit(lambda x: smooth(x, weight=0.25), dynamic_shapes={"x": {0: nc.Dim("n", max=100)}})
    for n in (0, 1, 2, 3, 7, 50):
        x = np.arange(n, dtype=np.float32) ** 2
        wanted = np.zeros_like(x)
        smooth.function(x, wanted, weight=0.25)
        np.testing.assert_array_equal(f(nc.asarray(x)).numpy(), wanted)
        np.testing.assert_array_equal(smooth(x, weight=0.25).numpy(), wanted)
    assert len(f.concrete_functions) == 1


def test_views_and_batches() -> None:
    x = nc.arange(24.0).reshape((4, 6))
    each = [smooth(x[:, k]) for k in range(6)]
    np.testing.assert_array_equal(nc.vmap(smooth, 1, 1)(x).numpy(), nc.stack(each, axis=1).numpy())
    y = nc.ones(4)
    both = nc.vmap(nc.vmap(hypotenuse, (0, None)), (None, 0))(x.T, nc.stack([y, 2 * y]))
    np.testing.assert_array_equal(both[1, 3].numpy(), hypotenuse(x[:, 3], 2 * y).numpy())


def test_a_kernel_between_other_operations() -> None:
    f = nc.jit(lambda x: nc.exp(-smooth(nc.sin(x), weight=0.75)).sum())
    x = nc.arange(40.0)
    assert f(x).item() == nc.exp(-smooth(nc.sin(x), weight=0.75)).sum().item()
    loop = nc.jit(lambda x: nc.fori_loop(0, 5, lambda k, y: smooth(y), x))
    want = x
    for _ in range(5):
        want = smooth(want)
    np.testing.assert_array_equal(loop(x).numpy(), want.numpy())


def test_derivatives_by_a_rule() -> None:
    @nc.kernel(out=lambda x, y: x)
    def product(x, y, out):
        for i in nc.prange(x.shape[0]):
            out[i] = x[i] * y[i]

    x, y = nc.arange(3.0), nc.asarray([2.0, 3.0, 4.0])
    with pytest.raises(nc.GradientError, match=r"product must have a rule .*product\.defvjp"):
        nc.grad(lambda x: product(x, y).sum())(x)
    product.defvjp(lambda x, y: (product(x, y), (x, y)), lambda kept, g: (g * kept[1], g * kept[0]))
    assert nc.grad(lambda x: product(x, y).sum())(x).tolist() == y.tolist()
    x.requires_grad = True
    product(x, y).sum().backward()
    assert x.grad is not None and x.grad.tolist() == y.tolist()


def test_derivatives_in_both_modes_with_parameters() -> None:
    @nc.kernel(out=lambda x: x)
    def power(x, out, *, by=2):
        for i in nc.prange(x.shape[0]):
            y = 1.0
            for _ in range(by):
                y *= x[i]
            out[i] = y

    @power.defjvp
    def rule(by, primals, tangents):
        (x,), (t,) = primals, tangents
        return power(x, by=by), by * x ** (by - 1) * t

    x = nc.asarray([1.0, 2.0, 3.0])
    assert power(x, by=3).tolist() == [1, 8, 27]
    assert nc.grad(lambda x: power(x, by=3).sum())(x).tolist() == [3, 12, 27]
    assert nc.jvp(lambda x: power(x, by=3), (x,), (nc.ones(3),))[1].tolist() == [3, 12, 27]
    assert nc.jit(nc.grad(lambda x: power(x).sum()))(x).tolist() == [2, 4, 6]


FACTOR = 2.0


@nc.kernel(out=lambda x: x)
def by_factor(x, out):
    for i in nc.prange(x.shape[0]):
        out[i] = FACTOR * x[i]


def test_numbers_of_the_module_are_read_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    x = nc.ones(2)
    assert by_factor(x).tolist() == [2, 2]
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert by_factor(x).tolist() == [3, 3]


def test_programs_with_kernels_are_saved(tmp_path: Path) -> None:
    f = nc.jit(lambda x: smooth(x) + by_factor(x))
    x = nc.arange(5.0)
    wanted = f(x).tolist()
    nc.save_program(nc.freeze(f, x), tmp_path / "f.nacre")
    assert nc.load_program(tmp_path / "f.nacre")(x).tolist() == wanted


@pytest.mark.skipif(not can_link(), reason="the machine has no linker for executables")
def test_executables_with_kernels(tmp_path: Path) -> None:
    x = np.arange(9, dtype=np.float32) ** 2
    np.save(tmp_path / "x.npy", x)
    nc.deploy.compile(lambda x: smooth(x, weight=0.3), [nc.asarray(x)], tmp_path / "program")
    subprocess.run([tmp_path / "program", tmp_path / "x.npy", tmp_path / "y.npy"], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), smooth(x, weight=0.3).numpy())


def test_plain_functions() -> None:
    assert list(nc.prange(3)) == [0, 1, 2] and list(nc.prange(4, 0, -2)) == [4, 2]
    assert nc.pairwise_sum([]) == 0 and nc.pairwise_sum([1, 2]) == 3
    x = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    found = nc.pairwise_sum(iter(x))
    assert found.dtype == np.float32 and found == nc.sum(nc.asarray(x)).numpy()
