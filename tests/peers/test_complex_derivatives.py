"""Derivatives of complex functions are those of PyTorch and JAX, and the same bits in batches and compiled."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import nacre as nc
from peers.complex_functions import CASES
from peers.forms import PEERS, check_bits, compare, gradient, second, tangent, values, weights
from peers.libraries import JAX, NACRE, jax

BY_NAME = {case.name: case for case in CASES}
FORMS = {"values": values, "gradients": gradient, "second derivatives": second, "tangents": tangent}
each_case = pytest.mark.parametrize("name", BY_NAME)
each_peer = pytest.mark.parametrize("peer", PEERS)
each_form = pytest.mark.parametrize("form", FORMS)


@each_form
@each_peer
@each_case
def test_derivatives_are_those_of_a_peer(name: str, peer: str, form: str) -> None:
    compare(BY_NAME[name], peer, form, FORMS, 1e-9, 1e-10)


@each_form
@each_case
def test_compiled_and_batched_derivatives_have_the_same_bits(name: str, form: str) -> None:
    check_bits(BY_NAME[name], FORMS[form])


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
