"""Cases of control flow, of functions with derivative rules, and of operations that derivatives and batches refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import nacre as nc
from nacre.base.dtypes import float64
from nacre.base.types import TensorType
from nacre.interpret.stage import stage
from nacre.ops import control
from nacre.ops import pointwise as pw
from transform.completeness.case import DERIVATIVES, REVERSE, Case

X = np.array([0.7, -0.4, 1.3])
POINT = np.array(0.7)
SCALAR = TensorType((), float64)
RECOMPUTE = {"reverse": "recompute"}


def _cond(x: Any) -> Any:
    return nc.cond(x.sum() > 1, lambda x: nc.sin(x) * x, lambda x: x * x * x, x)


def _switch(x: Any) -> Any:
    k = nc.astype(nc.clip(x.sum(), 0.0, 2.0), nc.int64)
    return nc.switch(k, [nc.sin, lambda x: x * x, lambda x: nc.exp(x) * x], x)


def _while(x: Any, **way: Any) -> Any:
    return nc.while_loop(
        lambda s: s[1] < 4, lambda s: (nc.sin(s[0]) * 1.1 + x * 0.1, s[1] + 1), (x, nc.tensor(0)), **way
    )[0]


def _until(x: Any, **way: Any) -> Any:
    """A loop whose number of iterations depends on the operand, so that a batch is masked."""
    return nc.while_loop(lambda y: y > 0.2, lambda y: y * y * 0.9, x, **way)


def _fori(x: Any) -> Any:
    return nc.fori_loop(0, 3, lambda k, y: nc.sin(y) + x, x)


def _scan(x: Any) -> Any:
    return nc.scan(lambda c, row: (nc.tanh(c * row + 0.1), c * row), x.sum(), x)


def _map(x: Any) -> Any:
    return nc.map(lambda row: row * nc.sin(row), x)


def _associative(x: Any) -> Any:
    return nc.associative_scan(lambda p, q: (q[0] * p[0], q[0] * p[1] + q[1]), (x, nc.cos(x)))


@nc.custom_jvp
def _by_forward(x: Any) -> Any:
    return nc.sin(x) * x


_by_forward.defjvp(lambda xs, ts: (_by_forward(*xs), (nc.cos(xs[0]) * xs[0] + nc.sin(xs[0])) * ts[0]))


@nc.custom_vjp
def _by_reverse(x: Any) -> Any:
    return nc.sin(x) * x


_by_reverse.defvjp(lambda x: (_by_reverse(x), x), lambda x, g: (g * (nc.cos(x) * x + nc.sin(x)),))


def _captured(x: Any) -> Any:
    """A function whose rule leaves out a tensor that it captures."""

    @nc.custom_vjp
    def scaled(y: Any) -> Any:
        return y * x

    scaled.defvjp(lambda y: (scaled(y), y), lambda y, g: (g,))
    return scaled(nc.ones(3, dtype=nc.float64))


def _on_the_host(x: Any) -> Any:
    return nc.host_call(lambda v: v * 2.0, x.type, x)


def _solved(x: Any) -> Any:
    """A system with an operator that reads the operand, by a method that iterates."""

    def operator(v: Any) -> Any:
        return v * (2.0 + x * x) + 0.1 * x * (x * v).sum()

    return nc.optimize.linear_solve(operator, nc.sin(x), symmetric=True, method="cg").x


def _solved_by_factors(x: Any) -> Any:
    return nc.optimize.linear_solve(lambda v: v * (2.0 + x) + 0.1 * (x * v).sum(), x * x, method="dense").x


def _masked(x: Any) -> Any:
    rows = nc.stack([x, -x, x * 2.0])
    return nc.vmap(nc.vmap(lambda v: nc.cond(v > 0, nc.sqrt, lambda v: v * v, v)))(rows)


def _in_registers(x: Any) -> Any:
    """A loop over scalars as the compiler writes it."""
    more = stage(lambda y: [pw.lt(pw.fill(0.2, (), float64), y)], [SCALAR], "more").graph
    body = stage(lambda y: [pw.mul(y, y)], [SCALAR], "body").graph
    return control.scalar_loop(more, body, 100, x)[0]


@nc.jit
def _compiled(x: Any) -> Any:
    return nc.sin(x) * x


def _all(pattern: str, *more: tuple[str, str]) -> dict[str, str]:
    """One error of all derivatives, and other ones."""
    return {**dict.fromkeys(DERIVATIVES, pattern), **dict(more)}


UNBOUNDED = dict.fromkeys(
    REVERSE, r"^while: the derivative does not exist; .*; give the most iterations, as in while_loop"
)
CASES: dict[str, Sequence[Case]] = {
    "call": (Case("call", _compiled, (X,)),),
    "cond": (Case("cond", _cond, (X,)), Case("cond-other", _cond, (-X,))),
    "switch": (Case("switch", _switch, (X,)),),
    "while (max_iterations)": (
        Case("while-bounded", lambda x: _while(x, max_iterations=6), (X,)),
        Case("while-bounded-scalar", lambda x: _until(x, max_iterations=6), (POINT,)),
    ),
    "while (recompute)": (
        Case("while-recomputed", lambda x: _while(x, **RECOMPUTE), (X,)),
        Case("while-recomputed-scalar", lambda x: _until(x, **RECOMPUTE), (POINT,)),
    ),
    "while": (Case("while", _while, (X,), UNBOUNDED), Case("while-scalar", _until, (POINT,), UNBOUNDED)),
    "fori_loop": (Case("fori_loop", _fori, (X,)),),
    "scan": (Case("scan", _scan, (X,)),),
    "map": (Case("map", _map, (X,)), Case("map-by-two", lambda x: nc.map(nc.sin, x, batch_size=2), (X,))),
    "associative_scan": (Case("associative_scan", _associative, (X,)),),
    "linear_solve": (Case("linear_solve", _solved, (X,)), Case("linear_solve-dense", _solved_by_factors, (X,))),
    "masked": (Case("masked", _masked, (X,)),),
    "checkpoint": (Case("checkpoint", nc.checkpoint(lambda x: nc.sin(x) * nc.exp(x)), (X,)),),
    "custom_jvp": (Case("custom_jvp", _by_forward, (X,)),),
    "custom_vjp": (
        Case(
            "custom_vjp",
            _by_reverse,
            (X,),
            dict.fromkeys(
                ("jvp", "hessian"),
                r"^custom_vjp: forward mode .* must not pass through _by_reverse, .*; use grad, vjp, jacrev",
            ),
        ),
    ),
    "refused": (
        Case(
            "refused", _captured, (X,), _all(r"^custom_vjp: the rule of scaled has derivatives by its arguments only")
        ),
    ),
    "host_call": (
        Case(
            "host_call",
            _on_the_host,
            (X,),
            _all(
                r"^host_call: the derivative does not exist; .*; stop the gradient with x.detach\(\)",
                ("vmap", "^vmap: a host call has no batching rule; .*; call it outside of vmap"),
                ("grad of vmap", "^vmap: a host call has no batching rule"),
                ("vmap of grad", "^vmap: a host call has no batching rule"),
                ("checkpoint", "^checkpoint: .* calls the host, which must run once; call nc.host_call outside"),
            ),
        ),
    ),
    "scalar_loop": (
        Case(
            "scalar_loop",
            _in_registers,
            (POINT,),
            _all(
                "^scalar_loop: .* while_loop",
                ("vmap", "^vmap: the primitive must have a batch rule; scalar_loop has none"),
                ("grad of vmap", "^vmap: the primitive must have a batch rule; scalar_loop has none"),
            ),
        ),
    ),
}
