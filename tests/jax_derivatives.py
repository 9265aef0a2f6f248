"""JAX's check of derivatives: those in float64 with differences, and those in the dtypes of a test with them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import nacre as nc
from jax_names import jvp, returning, vjp
from jax_values import array, arrays, conjugated, kind, walked, widened

STEP, EXACT = 1e-5, 1e-5  # of differences in float64, and the tolerance of derivatives in float64
TOLERANCES = {np.dtype(np.float16): 2e-3, np.dtype(ml_dtypes.bfloat16): 2e-2}  # of derivatives in a dtype; others: 2e-5


def drawn_like(tree: Any, draw: Any) -> Any:
    """A tree of random numbers with the shapes and dtypes of another."""

    def like(x: Any) -> Any:
        real = array(draw.randn(*x.shape)).astype(x.dtype)
        return real + array(1j * draw.randn(*x.shape)).astype(x.dtype) if kind(x) == 3 else real

    return walked(like, tree)


def derivatives(f: Any, at: Any, along: Any, seed: Any, modes: Any) -> dict[str, list[Any]]:
    """The numbers of `nc.jvp` along a direction, and of `nc.vjp` for a cotangent."""
    found = {}
    if "fwd" in modes:
        found["forward"] = jvp(f, at, along)[1]
    if "rev" in modes:
        found["reverse"] = walked(conjugated, vjp(f, *at)[1](walked(conjugated, arrays(seed))))
    return {mode: [x.numpy() for x in nc.tree.leaves(tree)] for mode, tree in found.items()}


def products(a: Any, b: Any) -> Any:
    """The products of the leaves of two trees, whose sum is the inner product over the real numbers."""
    pairs = zip(nc.tree.leaves(a), nc.tree.leaves(b), strict=True)
    return np.concatenate([np.ravel((np.conj(x) * y).real) for x, y in pairs] or [np.zeros(0)])


def close(found: Any, wanted: Any, tolerance: float, told: str) -> None:
    """Compare numbers, of which some may be nan, relative to the largest."""
    size = 1 + max((float(v) for v in np.abs(np.ravel(wanted)) if np.isfinite(v)), default=0.0)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * size, err_msg=told)


def check_grads(f: Any, args: Any, order: int, modes: Any = ("fwd", "rev"), *_: Any, **__: Any) -> None:
    """Compare derivatives in float64 with differences, and those in the dtypes of the operands with those in float64.

    The directions and cotangents are random.  Derivatives of higher orders are those of both modes.
    """
    at, draw = arrays(tuple(args)), np.random.RandomState(0)
    along, y = drawn_like(at, draw), returning(f)(*at)
    seed = drawn_like(y, draw)
    found = derivatives(f, at, along, seed, modes)
    with widened():
        at64, along64, seed64 = arrays((at, along, seed))
        high, low = (
            returning(f)(*nc.tree.map(lambda x, t, s=s: x + s * t, at64, along64)) for s in (STEP / 2, -STEP / 2)
        )
        exact = derivatives(f, at64, along64, seed64, modes)
        near = [(a.numpy() - b.numpy()) / STEP for a, b in zip(*map(nc.tree.leaves, (high, low)), strict=True)]
        ways, ends = ([x.numpy() for x in nc.tree.leaves(tree)] for tree in (along64, seed64))
    for x, wanted in zip(exact.get("forward", ()), near, strict="fwd" in modes):
        close(x, wanted, EXACT, "forward mode in float64, and differences")
    if "rev" in modes:
        back, wanted = products(exact["reverse"], ways), products(near, ends)
        size = 1 + np.nansum(np.abs(wanted)) + np.nansum(np.abs(back))
        told = f"reverse mode in float64: {np.nansum(back)}, by differences: {np.nansum(wanted)}"
        assert abs(np.nansum(back) - np.nansum(wanted)) < EXACT * size, told
    tolerance = max((TOLERANCES.get(np.dtype(x.dtype), 2e-5) for x in nc.tree.leaves((at, y))), default=2e-5)
    for mode, numbers in found.items():
        for x, wanted in zip(numbers, exact[mode], strict=True):
            told = f"{mode} mode in {x.dtype} and in float64"
            close(x.astype(wanted.dtype), wanted, tolerance, told)
    if order > 1 and "fwd" in modes:
        check_grads(lambda *xs: jvp(f, xs, along)[1], args, order - 1, modes)
    if order > 1 and "rev" in modes:
        check_grads(lambda *xs: vjp(f, *xs)[1](seed), args, order - 1, modes)
