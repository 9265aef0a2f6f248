"""What a cell of the table of transformations says: the values are right, the error is, or something is wrong.

Values are compared with finite differences, batches with the loop over examples, and `jit` with eager code, to the bit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import numpy as np

import nacre as nc
from ops.samples import Array
from tensor_bits import bits
from transform.completeness.case import Case, Function

EXAMPLES = 3
GREEN, NOT_DEFINED = "green", "not defined"
PLACE = re.compile(r" \(/[^)]*\)")  # where a Python function is


class Difference(Exception):
    """Values that are wrong."""


def _near(what: str, found: Any, wanted: Any, tolerance: float) -> None:
    found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    scale = max(1.0, float(np.max(np.abs(wanted), initial=0.0)))
    if found.shape != wanted.shape or not np.allclose(found, wanted, rtol=tolerance, atol=tolerance * scale):
        raise Difference(f"{what}: {found.ravel()[:4]} for {wanted.ravel()[:4]}")


def _wide(x: Any) -> Array:
    return x.numpy().astype(np.float64)


class Checks:
    """The checks of one case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.rng = np.random.default_rng(crc32(case.name.encode()))
        self.xs = [nc.tensor(x) for x in case.xs]
        self.n = len(self.xs)
        self.argnums = tuple(range(self.n))
        self.exact = case.step == 1.0  # differences of a function of second degree in one operand
        drawn = self.direction()
        self.directions = [self.only(k, drawn) for k in self.argnums] if self.exact else [drawn, self.direction()]
        self.batch = [self.examples(x) for x in case.xs]

    def direction(self) -> list[Any]:
        """A random direction in the dtypes of the operands."""
        if any(x.dtype.kind in "biu" for x in self.case.xs):
            return [nc.ones_like(x) for x in self.xs]
        drawn = [
            self.rng.integers(-1, 2, x.shape) if self.exact else self.rng.normal(size=x.shape) for x in self.case.xs
        ]
        return [nc.tensor(np.asarray(t, x.dtype)) for t, x in zip(drawn, self.case.xs, strict=True)]

    def examples(self, x: Array) -> Any:
        """Several operands of one type, all as good as the first one."""
        if x.dtype.kind in "biu":
            rows = [np.roll(x, k) for k in range(EXAMPLES)]
        else:
            rows = [x + np.asarray(k * self.case.step * 10, x.dtype) for k in range(EXAMPLES)]
        return nc.tensor(np.stack(rows))

    def example(self, k: int) -> list[Any]:
        """One of the examples."""
        return [b[k] for b in self.batch]

    def only(self, k: int, t: Sequence[Any]) -> list[Any]:
        """A direction in which only one operand moves."""
        return [v if i == k else nc.zeros_like(v) for i, v in enumerate(t)]

    def real(self, f: Function) -> Function:
        """The results of a function as real numbers."""

        def outputs(*xs: Any) -> list[Any]:
            found = []
            for y in nc.tree.leaves(f(*xs)):
                parts = (nc.real(y), nc.imag(y)) if y.dtype in (nc.complex64, nc.complex128) else (y,)
                found += [nc.astype(p, nc.float64) for p in parts]
            return found

        return outputs

    def loss_of(self, f: Function) -> Function:
        """A function of second degree of the results."""
        outputs = self.real(f)

        def loss(*xs: Any) -> Any:
            total = nc.tensor(0.0, dtype=nc.float64)
            for y in outputs(*xs):
                size = int(np.prod(y.shape))
                w = nc.tensor(np.linspace(0.3, 1.1, size).reshape(y.shape))
                total = total + nc.sum(w * (y + 0.5 * y * y))
            return total

        return loss

    @property
    def loss(self) -> Function:
        """The loss whose derivatives are checked."""
        return self.loss_of(self.case.f)

    @property
    def seen(self) -> Function:
        """The function that finite differences see."""
        return self.case.like or self.case.f

    def apply(self, transformed: Function, *xs: Any) -> Any:
        """The result of a transformed function; Difference unless the compiled one has the same bits."""
        try:
            found = transformed(*xs)
        except nc.Error as fault:
            try:
                nc.jit(transformed)(*xs)
            except type(fault):
                raise fault from None
            raise Difference(f"jit: computes what eager code refuses: {fault}") from None
        if bits(nc.jit(transformed)(*xs)) != bits(found):
            raise Difference("jit: other bits than those of eager code")
        return found

    def moved(self, t: Sequence[Any], by: float) -> list[Any]:
        """The operands after a step in a direction."""
        return [nc.tensor(np.asarray(x + by * v.numpy(), x.dtype)) for x, v in zip(self.case.xs, t, strict=True)]

    def differences(self, f: Function, t: Sequence[Any]) -> list[Array]:
        """Central differences of all results of a function along a direction."""
        h = self.case.step
        high, low = (nc.tree.leaves(f(*self.moved(t, s))) for s in (h, -h))
        return [(_wide(a) - _wide(b)) / (2 * h) for a, b in zip(high, low, strict=True)]

    # ---- the transformations

    def grad(self) -> None:
        """The gradient, in two directions, against differences of the loss."""
        gradients = self.apply(nc.grad(self.loss, argnums=self.argnums), *self.xs)
        for t in self.directions:
            (wanted,) = self.differences(self.loss_of(self.seen), t)
            _near("grad", self.inner(gradients, t), wanted, self.case.tolerance)

    def inner(self, gradients: Sequence[Any], t: Sequence[Any]) -> float:
        """The inner product of trees of tensors."""
        return float(sum(np.sum(_wide(g) * _wide(v)) for g, v in zip(gradients, t, strict=True)))

    def jvp(self) -> None:
        """The tangents of all results against their differences."""
        f, n = self.real(self.case.f), self.n
        for t in self.directions:
            found = self.apply(lambda *v: nc.jvp(f, v[:n], v[n:])[1], *self.xs, *t)
            for a, b in zip(found, self.differences(self.real(self.seen), t), strict=True):
                _near("jvp", a.numpy(), b, self.case.tolerance)

    def vmap(self) -> None:
        """The results of a batch, to the bit, against those of its examples."""
        self.as_loop("vmap", self.case.f)

    def as_loop(self, what: str, f: Function) -> None:
        """A batch against the loop over its examples, to the bit."""
        found = nc.tree.leaves(self.apply(nc.vmap(f), *self.batch))
        for k in range(EXAMPLES):
            if bits([y[k] for y in found]) != bits(f(*self.example(k))):
                raise Difference(f"{what}: other bits than those of example {k}")

    def grad_of_vmap(self) -> None:
        """The gradient of the sum over a batch against the gradients of its examples."""
        loss = self.loss
        total = nc.grad(lambda *b: nc.sum(nc.vmap(loss)(*b)), argnums=self.argnums)
        found = self.apply(total, *self.batch)
        each = [nc.grad(loss, argnums=self.argnums)(*self.example(k)) for k in range(EXAMPLES)]
        for i, g in enumerate(found):
            _near("grad of vmap", g.numpy(), np.stack([_wide(e[i]) for e in each]), 1e-2 if self.exact else 1e-9)

    def vmap_of_grad(self) -> None:
        """The gradients of a batch, to the bit, against those of its examples."""
        self.as_loop("vmap of grad", nc.grad(self.loss, argnums=self.argnums))

    def hessian(self) -> None:
        """The Hessian times a direction against differences of the gradient."""
        found = self.apply(nc.hessian(self.loss, argnums=self.argnums), *self.xs)
        slopes = nc.grad(self.loss_of(self.seen), argnums=self.argnums)
        for t in self.directions:
            for row, wanted in zip(found, self.differences(slopes, t), strict=True):
                pairs = zip(row, t, strict=True)
                products = [np.tensordot(_wide(h), _wide(v), len(v.shape)) for h, v in pairs]
                _near("hessian", sum(products), wanted, self.case.tolerance)

    def checkpoint(self) -> None:
        """The gradient of a checkpointed function, to the bit, against that of the function."""
        loss = self.loss
        found = self.apply(nc.grad(nc.checkpoint(loss), argnums=self.argnums), *self.xs)
        if bits(found) != bits(nc.grad(loss, argnums=self.argnums)(*self.xs)):
            raise Difference("checkpoint: other bits than without it")


TRANSFORMATIONS: dict[str, Callable[[Checks], None]] = {
    "grad": Checks.grad,
    "jvp": Checks.jvp,
    "vmap": Checks.vmap,
    "grad of vmap": Checks.grad_of_vmap,
    "vmap of grad": Checks.vmap_of_grad,
    "hessian": Checks.hessian,
    "checkpoint": Checks.checkpoint,
}


def cell(case: Case, transformation: str) -> str:
    """What the table says of a case: "green", "not defined: " and the error, or "red: " and the fault."""
    wanted = case.refused.get(transformation)
    try:
        TRANSFORMATIONS[transformation](Checks(case))
    except Difference as difference:
        return f"red: {difference}"
    except nc.Error as fault:
        text = str(fault)
        if wanted is None or not re.search(wanted, text):
            return f"red: {type(fault).__name__}: {text}"
        return f"{NOT_DEFINED}: {PLACE.sub('', text)}"
    return GREEN if wanted is None else f"red: must be refused: {wanted}"


def cells(cases: Sequence[Case]) -> dict[str, str]:
    """The cells of an operation; of several cases, that of the worst one."""
    found: dict[str, str] = {}
    for name in TRANSFORMATIONS:
        each = [cell(case, name) for case in cases]
        found[name] = max(each, key=lambda c: (c.startswith("red"), c != GREEN))
    return found
