"""Derivatives of real functions are those of PyTorch and JAX, in both modes and to second order."""

from __future__ import annotations

import numpy as np
import pytest

import nacre as nc
from peers import network_functions, real_functions
from peers.forms import (
    PEERS,
    check_bits,
    compare,
    forward_over_reverse,
    gradient,
    hessian,
    loss,
    parts,
    second,
    tangent,
    values,
)
from peers.libraries import NACRE, TORCH, torch

CASES = (*real_functions.CASES, *network_functions.CASES)
BY_NAME = {case.name: case for case in CASES}
FORMS = {
    "values": values,
    "gradients": gradient,
    "tangents": tangent,
    "forward over reverse": forward_over_reverse,
    "reverse over reverse": second,
    "hessians": hessian,
}
each_case = pytest.mark.parametrize("name", BY_NAME)
each_peer = pytest.mark.parametrize("peer", PEERS)
each_form = pytest.mark.parametrize("form", FORMS)


def test_each_function_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(CASES)


@each_form
@each_peer
@each_case
def test_derivatives_are_those_of_a_peer(name: str, peer: str, form: str) -> None:
    compare(BY_NAME[name], peer, form, FORMS, 1e-10, 1e-11)


def test_the_gradient_of_ctc_is_that_of_pytorch() -> None:
    """`torch.func` does not reach PyTorch's CTC loss, `torch.autograd` does."""
    case = BY_NAME["ctc_loss"]
    (x,) = case.operands()
    theirs = torch.asarray(x).requires_grad_()
    loss(TORCH, case)(theirs).backward()
    (found,) = gradient(NACRE, case)(nc.asarray(x))
    np.testing.assert_allclose(found.numpy(), theirs.grad.numpy(), 1e-10, 1e-12)


ATTENTION = [case.name for case in network_functions.ATTENTION]


@pytest.mark.parametrize("name", ATTENTION)
def test_forward_mode_through_attention_is_that_of_finite_differences(name: str) -> None:
    """Along a line, by central differences of fourth order, of attention and of its gradient."""
    case = BY_NAME[name]
    xs, ts = case.operands(), case.operands(seed=1)
    for f, form in ((values, tangent), (gradient, forward_over_reverse)):
        (found,) = parts(form(NACRE, case)(*map(nc.asarray, xs)))[:1]
        steps = {}
        for h in (-2, -1, 1, 2):
            moved = [nc.asarray(x + h * 1e-3 * t) for x, t in zip(xs, ts, strict=True)]
            steps[h] = parts(f(NACRE, case)(*moved))[0].numpy()
        wanted = (8 * (steps[1] - steps[-1]) - (steps[2] - steps[-2])) / 12e-3
        np.testing.assert_allclose(found.numpy(), wanted, 1e-7, 1e-8 * float(np.max(np.abs(wanted))))


SAME_BITS = (
    *("attention causal", "conv2d strided, padded", "group_norm", "lstm_cell", "ctc_loss", "max_pool2d overlapping"),
    *("solve", "expm", "fft and back", "topk", "cumprod", "index_update by an array", "scan", "while_loop", "cond"),
)


@each_form
@pytest.mark.parametrize("name", SAME_BITS)
def test_compiled_and_batched_derivatives_have_the_same_bits(name: str, form: str) -> None:
    check_bits(BY_NAME[name], FORMS[form])
