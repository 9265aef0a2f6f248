"""Loops, scans and updates by index, under one set of names; in PyTorch, most are Python's loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nacre as nc

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

Array = Any
Function = Callable[..., Any]


def _nacre_while(condition: Function, body: Function, init: Any, bound: int) -> Any:
    return nc.while_loop(condition, body, init, max_iterations=bound)


def _jax_while(condition: Function, body: Function, init: Any, bound: int) -> Any:
    """A scan that leaves the carry as it is once the condition is false, for JAX has no bounded loop."""
    return jax.lax.scan(lambda c, _: (jax.lax.cond(condition(c), body, lambda c: c, c), None), init, None, bound)[0]


def _jax_linear_recurrence(a: Array, b: Array) -> Array:
    return jax.lax.associative_scan(lambda p, q: (q[0] * p[0], q[0] * p[1] + q[1]), (a, b))[1]


def _nacre_linear_recurrence(a: Array, b: Array) -> Array:
    return nc.associative_scan(lambda p, q: (q[0] * p[0], q[0] * p[1] + q[1]), (a, b))[1]


def _torch_linear_recurrence(a: Array, b: Array) -> Array:
    return _torch_scan(lambda h, ab: (ab[0] * h + ab[1],) * 2, torch.zeros_like(a[0]), torch.stack((a, b), 1))[1]


def _torch_scan(f: Function, init: Any, xs: Array) -> tuple[Any, Array]:
    rows: list[Any] = []
    for x in xs:
        init, row = f(init, x)
        rows.append(row)
    return init, torch.stack(rows)


def _torch_while(condition: Function, body: Function, init: Any, bound: int) -> Any:
    for _ in range(bound):
        if not bool(condition(init)):
            break
        init = body(init)
    return init


def _torch_for(start: int, end: int, body: Function, init: Any) -> Any:
    for i in range(start, end):
        init = body(i, init)
    return init


def _torch_updated(x: Array, key: Any, value: Array) -> Array:
    made = x.clone()
    made[key] = value
    return made


def _torch_chosen(pred: Array, then: Function, otherwise: Function, *operands: Any) -> Any:
    return (then if bool(pred) else otherwise)(*operands)


NACRE = {
    "scan": nc.scan,
    "while_loop": _nacre_while,
    "fori_loop": nc.fori_loop,
    "choose": nc.cond,
    "map": nc.map,
    "linear_recurrence": _nacre_linear_recurrence,
    "cummax": lambda x: nc.associative_scan(nc.maximum, x),
    "logcumsumexp": lambda x: nc.associative_scan(nc.logaddexp, x),
    "index_update": nc.index_update,
    "checkpoint": nc.checkpoint,
}
TORCH = {
    "scan": _torch_scan,
    "while_loop": _torch_while,
    "fori_loop": _torch_for,
    "choose": _torch_chosen,
    "map": lambda f, xs: torch.stack([f(x) for x in xs]),
    "linear_recurrence": _torch_linear_recurrence,
    "cummax": lambda x: torch.cummax(x, 0).values,
    "logcumsumexp": lambda x: torch.logcumsumexp(x, 0),
    "index_update": _torch_updated,
    "checkpoint": lambda f: f,
}
JAX = {
    "scan": jax.lax.scan,
    "while_loop": _jax_while,
    "fori_loop": jax.lax.fori_loop,
    "choose": jax.lax.cond,
    "map": jax.lax.map,
    "linear_recurrence": _jax_linear_recurrence,
    "cummax": jax.lax.cummax,
    "logcumsumexp": jax.lax.cumlogsumexp,
    "index_update": lambda x, key, value: x.at[key].set(value),
    "checkpoint": jax.checkpoint,
}
