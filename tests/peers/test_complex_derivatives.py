"""Derivatives of complex functions are those of PyTorch and JAX, and the same bits in batches and compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import nacre as nc
from peers.complex_functions import CASES, Case
from peers.libraries import JAX, NACRE, TORCH, Library, jax

PEERS = {library.name: library for library in (TORCH, JAX)}
BY_NAME = {case.name: case for case in CASES}
each_case = pytest.mark.parametrize("name", BY_NAME)
each_peer = pytest.mark.parametrize("peer", PEERS)


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
        total = total + xp.sum(xp.real(y * library.array(w)) + xp.abs(y) ** 2 * library.array(w.real))
    return total


def loss(library: Library, case: Case) -> Callable[..., Any]:
    return lambda *xs: paired(library, case.f(library.names, *xs), seed=10)


def gradient(library: Library, case: Case) -> Callable[..., Any]:
    return library.grad(loss(library, case), len(case.shapes))


def second(library: Library, case: Case) -> Callable[..., Any]:
    """The gradient of a real function of the gradients."""
    return library.grad(lambda *xs: paired(library, gradient(library, case)(*xs), seed=20), len(case.shapes))


def tangent(library: Library, case: Case) -> Callable[..., Any]:
    f = partial(case.f, library.names)
    return lambda *xs: library.jvp(f, xs, [library.array(t) for t in case.operands(seed=1)])


FORMS = {
    "values": lambda library, case: partial(case.f, library.names),
    "gradients": gradient,
    "second derivatives": second,
    "tangents": tangent,
}
each_form = pytest.mark.parametrize("form", FORMS)


def computed(library: Library, case: Case, form: str) -> list[Any]:
    """The results of a form of a function, as arrays of NumPy."""
    return list(map(library.numpy, parts(FORMS[form](library, case)(*map(library.array, case.operands())))))


@each_form
@each_peer
@each_case
def test_derivatives_are_those_of_a_peer(name: str, peer: str, form: str) -> None:
    case = BY_NAME[name]
    if why := case.apart.get(peer) or case.apart.get(f"{peer} {form}"):
        pytest.skip(why)
    for found, wanted in zip(computed(NACRE, case, form), computed(PEERS[peer], case, form), strict=True):
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, 1e-9, 1e-10 * max(1.0, float(np.max(np.abs(wanted)))))


def same_bits(found: Any, wanted: Any) -> bool:
    return all(x.numpy().tobytes() == y.numpy().tobytes() for x, y in zip(parts(found), parts(wanted), strict=True))


@each_form
@each_case
def test_compiled_and_batched_derivatives_have_the_same_bits(name: str, form: str) -> None:
    case = BY_NAME[name]
    f = FORMS[form](NACRE, case)
    batches = [list(map(nc.asarray, case.operands(seed))) for seed in (0, 2, 3)]
    singles = [f(*xs) for xs in batches]
    assert same_bits(nc.jit(f)(*batches[0]), singles[0])
    together = parts(nc.vmap(f)(*(nc.stack(xs) for xs in zip(*batches, strict=True))))
    for at, single in enumerate(singles):
        assert same_bits([y[at] for y in together], single)


@pytest.mark.parametrize("name", ["exp", "conj", "abs", "phase", "fft", "inv", "irfft"])
def test_pullbacks_of_jax_are_those_of_conjugate_cotangents(name: str) -> None:
    case = BY_NAME[name]
    (z,) = case.operands()
    theirs, pull = jax.vjp(partial(case.f, JAX.names), jax.numpy.asarray(z))
    ours, pullback = nc.vjp(partial(case.f, NACRE.names), nc.asarray(z))
    drawn = weights(theirs.shape, seed=4)
    cotangent = drawn if np.iscomplexobj(theirs) else drawn.real
    found = pullback(nc.conj(nc.asarray(cotangent)))[0].conj().numpy()
    np.testing.assert_allclose(found, np.asarray(pull(jax.numpy.asarray(cotangent))[0]), 1e-9, 1e-10)
    assert ours.shape == theirs.shape
