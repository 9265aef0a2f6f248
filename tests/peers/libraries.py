"""Nacre, PyTorch and JAX under one set of names: arrays, gradients, tangents, and what each of them names its own way.

All gradients here are those of the convention that Nacre and PyTorch share, ∂f/∂x + i·∂f/∂y of a real function f.
JAX returns the conjugate, so its gradients are conjugated here, each of a nested one too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from peers import flow, jax_layers

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

Function = Callable[..., Any]


class Names(SimpleNamespace):
    """The functions of a library, with names of our own before its names; `constant` makes an array of numbers."""

    def __init__(self, library: Any, **own: Any) -> None:
        super().__init__(library=library, **own)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.library, name)


@dataclass(frozen=True, eq=False)
class Library:
    """What a comparison needs of a library; functions of it get its names first, then operands."""

    name: str
    names: Names
    array: Function
    numpy: Function
    grad: Callable[[Function, int], Function]  # of a real function, by its first n operands, as a tuple
    jvp: Callable[[Function, Sequence[Any], Sequence[Any]], Any]  # the tangent of the result
    hessian: Callable[[Function], Function]  # of a real function, by its first operand


def _torch_hessian(f: Function) -> Function:
    return lambda x, *rest: torch.autograd.functional.hessian(lambda x: f(x, *rest), x)


def _cell(made: Any) -> Function:
    """A cell of Nacre as a function of its weights too."""
    structure = nc.tree.structure(made)
    return lambda x, state, *weights: nc.tree.unflatten(structure, weights)(x, state)


def _torch_attention(*qkv: Any, **named: Any) -> Any:
    """Attention by products and softmax: PyTorch's fused one has no forward mode and no second derivatives."""
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(*qkv, **named)


NACRE_LSTM = _cell(nn.LSTMCell(2, 3))


def _torch_grad(f: Function, count: int) -> Function:
    return torch.func.grad(f, argnums=tuple(range(count)))


def _jax_grad(f: Function, count: int) -> Function:
    derivative = jax.grad(f, argnums=tuple(range(count)))
    return lambda *xs: tuple(map(jax.numpy.conj, derivative(*xs)))


NACRE = Library(
    "nacre",
    Names(
        nc,
        constant=lambda x: nc.asarray(np.asarray(x)),
        axes="axes",
        linalg=Names(
            nc.linalg,
            svd=lambda z: nc.linalg.svd(z, full_matrices=False),
            eigensum=lambda z, f: nc.sum(f(nc.linalg.eigvals(z))),
        ),
        cumsum=lambda z: nc.cumulative_sum(z, axis=0),
        cumprod=lambda z: nc.cumulative_prod(z, axis=0),
        transpose=nc.matrix_transpose,
        amax=nc.max,
        amin=nc.min,
        solve_triangular=lambda a, b: nc.linalg.solve_triangular(a, b, upper=False),
        statistic=lambda x: nc.Variable(nc.asarray(x)),
        nn=Names(
            nn.functional,
            rnn_cell=_cell(nn.RNNCell(2, 3)),
            gru_cell=_cell(nn.GRUCell(2, 3)),
            lstm_cell=lambda x, h, s, *weights: NACRE_LSTM(x, (h, s), *weights),
        ),
        **flow.NACRE,
    ),
    nc.asarray,
    lambda x: x.numpy(),
    lambda f, count: nc.grad(f, argnums=tuple(range(count))),
    lambda f, xs, ts: nc.jvp(f, tuple(xs), tuple(ts))[1],
    nc.hessian,
)
TORCH = Library(
    "torch",
    Names(
        torch,
        constant=lambda x: torch.asarray(np.asarray(x)),
        axes="dims",
        linalg=Names(
            torch.linalg,
            expm=torch.linalg.matrix_exp,
            svd=lambda z: torch.linalg.svd(z, full_matrices=False),
            eigensum=lambda z, f: torch.sum(f(torch.linalg.eigvals(z))),
            trace=lambda z: torch.sum(torch.diagonal(z, dim1=-2, dim2=-1), -1),
        ),
        cumsum=lambda z: torch.cumsum(z, 0),
        cumprod=lambda z: torch.cumprod(z, 0),
        transpose=lambda z: z.mT,
        sign=torch.sgn,
        flip=lambda z: torch.flip(z, (0, 1)),
        vecdot=torch.linalg.vecdot,
        amax=lambda x, axis: torch.amax(x, axis),
        amin=lambda x, axis: torch.amin(x, axis),
        take=lambda x, indices, axis: torch.index_select(x, axis, indices),
        take_along_axis=lambda x, indices, axis: torch.take_along_dim(x, indices, axis),
        sort=lambda x, axis: torch.sort(x, axis).values,
        solve_triangular=lambda a, b: torch.linalg.solve_triangular(a, b, upper=False),
        statistic=torch.asarray,
        nn=Names(
            torch.nn.functional,
            scaled_dot_product_attention=_torch_attention,
            rnn_cell=torch.rnn_tanh_cell,
            gru_cell=torch.gru_cell,
            lstm_cell=lambda x, h, s, *weights: torch.lstm_cell(x, (h, s), *weights),
        ),
        **flow.TORCH,
    ),
    torch.asarray,
    lambda x: x.detach().resolve_conj().resolve_neg().numpy(),
    _torch_grad,
    lambda f, xs, ts: torch.func.jvp(f, tuple(xs), tuple(ts))[1],
    _torch_hessian,
)
JAX = Library(
    "jax",
    Names(
        jax.numpy,
        constant=lambda x: jax.numpy.asarray(np.asarray(x)),
        axes="axes",
        linalg=Names(
            jax.numpy.linalg,
            expm=jax.scipy.linalg.expm,
            svd=lambda z: jax.numpy.linalg.svd(z, full_matrices=False),
            eigensum=lambda z, f: jax.numpy.sum(f(jax.numpy.linalg.eigvals(z))),
        ),
        cumsum=lambda z: jax.numpy.cumsum(z, 0),
        cumprod=lambda z: jax.numpy.cumprod(z, 0),
        transpose=jax.numpy.matrix_transpose,
        complex=jax.lax.complex,
        rsqrt=lambda z: 1 / jax.numpy.sqrt(z),
        polar=lambda r, t: r * jax.numpy.exp(1j * t),
        view_as_real=lambda z: jax.numpy.stack((jax.numpy.real(z), jax.numpy.imag(z)), -1),
        view_as_complex=lambda x: jax.lax.complex(x[..., 0], x[..., 1]),
        erf=jax.lax.erf,
        erfc=jax.lax.erfc,
        sigmoid=jax.nn.sigmoid,
        topk=jax.lax.top_k,
        logsumexp=jax.scipy.special.logsumexp,
        solve_triangular=lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True),
        statistic=jax.numpy.asarray,
        nn=Names(jax_layers),
        **flow.JAX,
    ),
    jax.numpy.asarray,
    np.asarray,
    _jax_grad,
    lambda f, xs, ts: jax.jvp(f, tuple(xs), tuple(ts))[1],
    jax.hessian,
)
