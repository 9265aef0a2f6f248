"""Attention whose keys and values have fewer heads than its queries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc

F = nc.nn.functional


def normal(*shape: int) -> Any:
    return nc.asarray(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


MASKS: dict[str, Any] = {
    "no mask": None,
    "bools for all heads": np.tri(8, 9, dtype=bool),
    "one for all heads of a batch": np.random.default_rng(0).standard_normal((2, 1, 8, 9)).astype(np.float32),
    "one for each head": np.random.default_rng(0).standard_normal((2, 6, 8, 9)).astype(np.float32),
}


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("name", MASKS)
def test_bits_and_derivatives_are_those_of_repeated_heads(name: str, causal: bool) -> None:
    q, k, v, g = normal(2, 6, 8, 4), normal(2, 2, 9, 4), normal(2, 2, 9, 5), normal(2, 6, 8, 5)
    mask = None if MASKS[name] is None else nc.asarray(MASKS[name])

    def grouped(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=True)

    def repeated(q: Any, k: Any, v: Any) -> Any:
        k, v = (nc.repeat(x, 3, axis=1) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)

    def results(f: Any) -> Any:
        def all_of(q: Any, k: Any, v: Any) -> tuple[Any, ...]:
            out, pull = nc.vjp(f, q, k, v)
            return (out, *pull(g))

        return all_of

    compiled = nc.jit(results(grouped))
    wanted = [x.numpy() for x in results(repeated)(q, k, v)]
    for run in (results(grouped), compiled):
        for a, b in zip(run(q, k, v), wanted, strict=True):
            np.testing.assert_array_equal(a.numpy(), b)
    assert str(compiled.explain(q, k, v).plan).count("attend") >= 2


def test_as_many_heads_as_queries_have() -> None:
    q, k, v = (normal(6, n, 4) for n in (8, 9, 9))
    found = F.scaled_dot_product_attention(q, k, v, enable_gqa=True).numpy()
    np.testing.assert_array_equal(found, F.scaled_dot_product_attention(q, k, v).numpy())


def test_errors() -> None:
    with pytest.raises(nc.ShapeError, match="must divide"):
        F.scaled_dot_product_attention(normal(6, 8, 4), normal(4, 9, 4), normal(4, 9, 4), enable_gqa=True)
    with pytest.raises(nc.ShapeError, match="must divide"):
        F.scaled_dot_product_attention(normal(8, 4), normal(9, 4), normal(9, 4), enable_gqa=True)
    with pytest.raises(nc.ShapeError, match="mask must have 1 or 6 heads"):
        F.scaled_dot_product_attention(
            normal(6, 8, 4), normal(2, 9, 4), normal(2, 9, 4), nc.zeros((2, 8, 9)), enable_gqa=True
        )
