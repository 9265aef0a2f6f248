"""The forms of a function that are compared with those of a peer: values, and first and second derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import nacre as nc
from peers.cases import Case
from peers.libraries import JAX, NACRE, TORCH, Library

Form = Callable[[Library, Case], Callable[..., Any]]
PEERS = {library.name: library for library in (TORCH, JAX)}


def parts(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def weights(shape: tuple[int, ...], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def paired(library: Library, results: Any, seed: int) -> Any:
    """A real number from any results: linear and quadratic, by weights that are drawn."""
    total = 0.0
    for at, y in enumerate(parts(results)):
        w = weights(tuple(y.shape), seed + at)
        xp = library.names
        if "complex" in str(y.dtype):
            total = total + xp.sum(xp.real(y * library.array(w)) + xp.abs(y) ** 2 * library.array(w.real))
        else:
            total = total + xp.sum(y * library.array(w.real) + y * y * library.array(w.imag))
    return total


def values(library: Library, case: Case) -> Callable[..., Any]:
    return partial(case.f, library.names)


def loss(library: Library, case: Case) -> Callable[..., Any]:
    return lambda *xs: paired(library, case.f(library.names, *xs), seed=10)


def gradient(library: Library, case: Case) -> Callable[..., Any]:
    return library.grad(loss(library, case), len(case.shapes))


def second(library: Library, case: Case) -> Callable[..., Any]:
    """The gradient of a real function of the gradients."""
    return library.grad(lambda *xs: paired(library, gradient(library, case)(*xs), seed=20), len(case.shapes))


def tangent(library: Library, case: Case) -> Callable[..., Any]:
    return pushed(library, case, values(library, case))


def pushed(library: Library, case: Case, f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: library.jvp(f, xs, [library.array(t) for t in case.operands(seed=1)])


def forward_over_reverse(library: Library, case: Case) -> Callable[..., Any]:
    """The product of the Hessian of the loss and a vector, as the tangent of the gradient."""
    return pushed(library, case, gradient(library, case))


def hessian(library: Library, case: Case) -> Callable[..., Any]:
    """The Hessian of the loss by the first operand."""
    return library.hessian(loss(library, case))


@cache
def _computed(library: Library, case: Case, form: Form) -> list[Any]:
    return list(map(library.numpy, parts(form(library, case)(*map(library.array, case.operands())))))


def compare(case: Case, peer: str, name: str, forms: Mapping[str, Form], relative: float, absolute: float) -> None:
    """Compare a form with that of a peer; `absolute` is relative to the largest number of the result."""
    if why := case.apart.get(peer) or case.apart.get(f"{peer} {name}"):
        pytest.skip(why)
    ours, theirs = (_computed(library, case, forms[name]) for library in (NACRE, PEERS[peer]))
    for found, wanted in zip(ours, theirs, strict=True):
        assert found.shape == wanted.shape and found.dtype == wanted.dtype and np.all(np.isfinite(wanted))
        np.testing.assert_allclose(found, wanted, relative, absolute * max(1.0, float(np.max(np.abs(wanted)))))


def same_bits(found: Any, wanted: Any) -> bool:
    return all(x.numpy().tobytes() == y.numpy().tobytes() for x, y in zip(parts(found), parts(wanted), strict=True))


def check_bits(case: Case, form: Form) -> None:
    """Compiled, and in a batch, a form has the bits that it has eagerly and alone."""
    f = form(NACRE, case)
    batches = [list(map(nc.asarray, case.operands(seed))) for seed in (0, 2, 3)]
    singles = [f(*xs) for xs in batches]
    assert same_bits(nc.jit(f)(*batches[0]), singles[0])
    together = parts(nc.vmap(f)(*(nc.stack(xs) for xs in zip(*batches, strict=True))))
    for at, single in enumerate(singles):
        assert same_bits([y[at] for y in together], single)
