"""Attention over blocks of keys has the bits of its definition in every mode, and the derivative of softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import nacre as nc
from compile.passes.test_attention import ISAS, Sizes, both, chosen, equations, normal
from nacre import nn
from nacre.base.dtypes import float32
from nacre.compile.pipeline import compile_graph
from nacre.interpret.evaluate import to_numpy
from nacre.interpret.stage import stage
from nacre.kernel.interpret import operate
from nacre.kernel.order_attention import KEYS, forward
from nacre.native.engine import host_target
from nacre.native.pool import pool
from nacre.ops import attention
from nacre.trace.value import make
from same_bits import canonical

F = nn.functional
Array = np.ndarray
pytestmark = pytest.mark.usefixtures("divided", "short")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of keys are small, so that rows take little time."""
    monkeypatch.setattr(attention, "LONG", KEYS + 1)
    monkeypatch.setattr(attention, "SEVERAL", 16)


def defined(q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False) -> bytes:
    """The bits of the result according to the definition."""
    scores = q @ k.mT * (1.0 / math.sqrt(q.shape[-1]))
    if causal:
        scores = nc.where(nc.tril(nc.ones(tuple(scores.shape[-2:]), dtype=nc.bool)), scores, -math.inf)
    if mask is not None:
        scores = nc.where(mask, scores, -math.inf) if mask.dtype is nc.bool else scores + mask
    mixed, _, total = forward(scores.numpy(), v.numpy(), lambda x: operate("exp", [x], float32, float32))
    if mask is not None:
        total = np.where(total == 0, np.float32(1), total)  # a row without keys
    with np.errstate(all="ignore"):
        return canonical(mixed * (np.float32(1) / total)[..., None])


def assert_defined(operands: list[nc.Tensor], mask: Any = None, causal: bool = False, isa: str | None = None) -> None:
    """The bits are those of the definition, eagerly and compiled, for any number of threads."""

    def f(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)

    wanted = defined(*operands, mask, causal)
    with nc.numerics("fast"):
        assert canonical(f(*operands)) == wanted
        trace = stage(lambda *xs: [f(*xs)], [x.type for x in operands])
    compiled = compile_graph(trace.graph, None, host_target(isa))
    assert [e.params["online"] for e in compiled.simplified.equations if e.primitive.name == "attend"] == [True]
    for threads in (1, 2, 5):
        pool().set_threads(threads)
        addresses = [x.content.address for x in (*operands, *trace.captures)]
        (buffer,) = compiled.executable.run(addresses, {})
        assert canonical(make(compiled.executable.output_types[0], buffer)) == wanted


SIZES = [
    Sizes((), 16, KEYS + 1, 3, 2),
    Sizes((2,), 40, KEYS + 300, 20, 65),
    Sizes((1, 2), 300, 2 * KEYS, 9, 16),
    Sizes((1,), 3 * KEYS // 2, 2 * KEYS + 20, 5, 17),
]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_sizes(causal: bool, isa: str) -> None:
    for k, sizes in enumerate(SIZES):
        assert_defined(sizes.operands(normal(k))[:3], causal=causal, isa=isa)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_masks(causal: bool) -> None:
    sizes, rng = Sizes((2, 3), 37, KEYS + 300, 8, 8), np.random.default_rng(1)
    operands = sizes.operands(normal(2))[:3]
    late = np.arange(KEYS + 300) >= KEYS - 5  # whole blocks of −∞ are first, last, or everywhere
    for mask in (late, ~late, late & False):
        assert_defined(operands, nc.asarray(mask), causal)
        assert_defined(operands, nc.asarray(np.where(mask, 0.5, -np.inf).astype(np.float32)), causal)
    for shape in [(37, KEYS + 300), (2, 1, 1, KEYS + 300), (2, 3, 37, 1)]:
        assert_defined(operands, nc.asarray(rng.random(shape) > 0.3), causal)
        assert_defined(operands, nc.asarray(rng.standard_normal(shape).astype(np.float32)), causal)


SPECIAL = {
    "zeros of both signs, tiny and large": [0.0, -0.0, 1e-45, -1e-45, 1e-30, -1e-30, 3.0, -3.0],
    "infinities": [1.0, -1.0, np.inf, -np.inf, 0.0],
    "rare nan": [1.0, -1.0] * 4000 + [np.nan],
    "rare infinity": [0.5] * 4000 + [-np.inf, np.inf],
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str) -> None:
    sizes = Sizes((1,), 600, KEYS + 100, 2, 3)
    special, plain = sizes.operands(chosen(0, SPECIAL[name])), sizes.operands(normal(0))
    assert_defined(special[:3], causal=True)
    for which in range(3):
        assert_defined([*plain[:which], special[which], *plain[which + 1 : 3]], causal=True)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_derivative(causal: bool) -> None:
    """The derivative is that of softmax, in one kernel, with the same bits eagerly and compiled."""
    operands = Sizes((2,), 40, KEYS + 88, 9, 16).operands(normal(0))
    mask = nc.asarray(np.random.default_rng(0).random((40, KEYS + 88)) > 0.2)
    for f in (both(causal=causal), both(mask, causal)):
        exact = [x.numpy() for x in f(*operands)]
        with nc.numerics("fast"):
            eager = f(*operands)
            names = [e.primitive.name for e in equations(f, *operands)]
            compiled = nc.jit(f)(*operands)
            _, pull = nc.vjp(lambda *xs: F.scaled_dot_product_attention(*xs, is_causal=causal), *operands[:3])
        assert names.count("attend") == names.count("attend_grads") == 1 and "exp" not in names
        assert list(map(canonical, eager)) == list(map(canonical, compiled))
        assert "attend_grads" in [s.label for s in nc.jit(pull).concrete(operands[3]).compiled.stages]
        for found, wanted in zip(eager, exact, strict=True):
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=2e-6)


def test_derivative_of_an_added_mask() -> None:
    q, k, v, _ = Sizes((2,), 20, KEYS + 88, 9, 16).operands(normal(0))

    def loss(m: Any) -> Any:
        return nc.sum(F.scaled_dot_product_attention(q, k, v, m) ** 2)

    mask = nc.random.normal((20, KEYS + 88))
    wanted = nc.grad(loss)(mask)
    with nc.numerics("fast"):
        np.testing.assert_allclose(nc.grad(loss)(mask).numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)
        assert canonical(nc.jit(nc.grad(loss))(mask)) == canonical(nc.grad(loss)(mask))


def test_half_types() -> None:
    operands = [x.astype(nc.bfloat16) for x in Sizes((2,), 40, KEYS + 88, 9, 16).operands(normal(0))]
    f = both(causal=True)
    with nc.numerics("fast"):
        eager, found = f(*operands), equations(f, *operands)
        assert list(map(canonical, nc.jit(f)(*operands))) == list(map(canonical, eager))
    (e,) = (e for e in found if e.primitive.name == "attend")
    assert {x.type.dtype for x in e.inputs} == {nc.bfloat16} and e.outputs[0].type.dtype is nc.bfloat16


def test_batches() -> None:
    operands = Sizes((3,), 20, KEYS + 88, 4, 4).operands(normal(0))
    f = both(causal=True)
    with nc.numerics("fast"):
        wanted = list(map(canonical, f(*operands)))
        assert list(map(canonical, nc.vmap(f)(*operands))) == wanted
        one = nc.vmap(lambda q: F.scaled_dot_product_attention(q, operands[1][0], operands[2][0]))(operands[0])
        k, v = (nc.broadcast_to(x[0], x.shape) for x in operands[1:3])
        assert canonical(one) == canonical(F.scaled_dot_product_attention(operands[0], k, v))
        shared = F.scaled_dot_product_attention(operands[0], operands[1][0], operands[2][0])
        assert canonical(shared) == canonical(one)


def test_blocks_of_keys_are_used_for_long_rows_in_fast_numerics_only() -> None:
    def names(keys: int, **dynamic: Any) -> list[str]:
        xs = Sizes((1,), 20, keys, 4, 4).operands(normal(0))[:3]
        compiled = nc.jit(F.scaled_dot_product_attention, **dynamic).concrete(*xs).compiled
        return [str(e.params.get("online")) for e in compiled.simplified.equations if e.primitive.name == "attend"]

    assert names(KEYS + 1) == ["False"]
    with nc.numerics("fast"):
        assert names(KEYS + 1) == ["True"] and names(KEYS) == ["False"]
        q, k, v, _ = Sizes((1,), 20, KEYS + 1, 4, 4).operands(normal(0))
        found = equations(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=-1.0), q, k, v)
        assert "attend" not in [e.primitive.name for e in found]
    assert to_numpy(F.scaled_dot_product_attention(q, k, v)).shape == (1, 20, 4)
