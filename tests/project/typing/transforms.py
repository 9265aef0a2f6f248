"""Functions of functions: what is compiled, differentiated or batched keeps its parameters and results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

import nacre as nc

x, y = nc.tensor([1.0, 2.0]), nc.tensor([3.0, 4.0])


def dot(a: nc.Tensor, b: nc.Tensor, scale: float = 1.0) -> nc.Tensor:
    return scale * nc.sum(a * b)


@nc.jit
def compiled(a: nc.Tensor, *, twice: bool = False) -> nc.Tensor:
    return a * 2 if twice else a


@nc.jit(donate=("a",))
def donated(a: nc.Tensor) -> dict[str, nc.Tensor]:
    return {"sum": nc.sum(a)}


class Counter:
    """Has jitted methods."""

    @nc.jit
    def add(self, a: nc.Tensor, b: float = 1.0) -> nc.Tensor:
        return a + b

    @nc.jit(dynamic=False)
    def pair(self, a: nc.Tensor) -> tuple[nc.Tensor, nc.Tensor]:
        return a, a


assert_type(compiled(x, twice=True), nc.Tensor)
assert_type(donated(x + 0), dict[str, nc.Tensor])
assert_type(Counter().add(x, b=2.0), nc.Tensor)
assert_type(Counter().pair(x), tuple[nc.Tensor, nc.Tensor])
assert len(compiled.concrete_functions) == 1
assert "graph" in str(compiled.trace(x))

# ---- derivatives
assert_type(nc.grad(dot)(x, y, scale=2.0), nc.Tensor)
assert_type(nc.jit(nc.grad(dot))(x, y), nc.Tensor)
assert_type(nc.grad(dot, argnums=(0, 1))(x, y), Any)
assert_type(nc.value_and_grad(dot)(x, y), tuple[nc.Tensor, nc.Tensor])
assert_type(nc.hessian(dot)(x, y), nc.Tensor)
assert_type(nc.jacrev(nc.sin)(x), nc.Tensor)
value, pullback = nc.vjp(dot, x, y)
assert_type(value, nc.Tensor)
assert_type(pullback, Callable[[Any], tuple[Any, ...]])
assert_type(nc.jvp(dot, (x, y), (y, x)), tuple[nc.Tensor, nc.Tensor])
assert_type(nc.checkpoint(dot)(x, y), nc.Tensor)

# ---- batches
matrix = nc.stack([x, y])
assert_type(nc.vmap(dot)(matrix, matrix), nc.Tensor)
assert_type(nc.vmap(dot, in_axes=(0, None))(matrix, x, scale=3.0), nc.Tensor)

# ---- control flow
assert_type(nc.cond(x[0] > 0, lambda a: a * 2, lambda a: -a, x), nc.Tensor)
assert_type(nc.while_loop(lambda s: nc.sum(s) < 100, lambda s: s * 2, x), nc.Tensor)
assert_type(nc.fori_loop(0, 3, lambda i, s: s * 2, x), nc.Tensor)
assert_type(nc.fori_loop(0, 3, lambda i, s: s * 2, 1.0), Any)


def running(carry: nc.Tensor, row: nc.Tensor) -> tuple[nc.Tensor, nc.Tensor]:
    return carry + row, carry


last, all_of_them = nc.scan(running, x, matrix)
assert_type(last, nc.Tensor)
assert_type(all_of_them, nc.Tensor)
