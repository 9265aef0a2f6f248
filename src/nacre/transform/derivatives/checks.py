"""`check_grads`: derivatives of any order compared with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from nacre.base import tree
from nacre.base.arguments import is_whole, shown
from nacre.base.dtypes import complex128, float64
from nacre.base.errors import ArgumentError, DTypeError, GradientError
from nacre.interpret import forward
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.interpret.vjp import vjp, with_zeros
from nacre.ops.pointwise import cast
from nacre.trace.modes import gradients
from nacre.trace.value import Value
from nacre.transform.arguments import as_value, is_tensor, name_of
from nacre.transform.reasons import paths

__all__ = ["check_grads"]

Flat = Callable[..., Sequence[Value]]
MODES: Final = ("fwd", "rev")
HIGHEST: Final = 8  # order, whose combinations of modes are 2⁸
SEED: Final = 20240229  # of the directions


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = MODES,
    atol: float = 1e-6,
    rtol: float = 1e-6,
    eps: float = 1e-4,
) -> None:
    """Check the derivatives of f at `args`, a tuple, up to an order from 1 to 8, by finite differences.

    Floating-point tensors, arrays and numbers in the arguments' trees become float64, complex ones complex128, and f is
    differentiated by each of them, along a fixed random direction.  `modes` is "fwd" for forward mode, "rev" for
    reverse mode, or both; at order 2 each is checked over each.  The differences have four points at multiples of
    `eps`.  A derivative may differ by `atol + rtol · |expected|`.

    Raises GradientError with the leaf, the mode, the order, the expected and the found number.

    >>> import nacre as nc
    >>> nc.check_grads(lambda x: nc.tanh(x).sum(), (nc.tensor([0.5, -1.0]),))
    >>> wrong = nc.custom_jvp(lambda x: x * x)
    >>> _ = wrong.defjvp(lambda primals, tangents: (wrong(*primals), primals[0] * tangents[0]))
    >>> try:
    ...     nc.check_grads(wrong, (nc.tensor(3.0),), order=1)
    ... except nc.GradientError as error:
    ...     print(str(error)[:64])
    check_grads: the derivative of result by argument 0, of <lambda>
    """
    if not isinstance(args, tuple | list):
        raise ArgumentError(f"check_grads: args must be a tuple of arguments; got {shown(args)}; write (x,)")
    if not is_whole(order) or not 1 <= order <= HIGHEST:
        raise ArgumentError(f"check_grads: order must be an integer from 1 to {HIGHEST}; got {shown(order)}")
    listed = (modes,) if isinstance(modes, str) else tuple(modes)
    if not listed or any(m not in MODES for m in listed):
        raise ArgumentError(f'check_grads: modes must be "fwd", "rev", or a tuple of both; got {shown(modes)}')
    check = _Check(f, list(args), listed, atol, rtol, eps)
    with gradients(True):
        check.orders(check.flat, check.outputs(), order, ())


class _Check:
    """The derivatives of one function at one point."""

    def __init__(
        self, f: Callable[..., Any], args: list[Any], modes: Sequence[str], atol: float, rtol: float, eps: float
    ) -> None:
        self.f, self.args, self.modes = f, args, modes
        self.atol, self.rtol, self.eps = atol, rtol, eps
        self.leaves, structure = tree.flatten(args)
        self.at: list[int] = []
        self.values: list[Value] = []
        for k, leaf in enumerate(self.leaves):
            if is_tensor(leaf) or isinstance(leaf, float | complex):
                x = as_value(leaf, "check_grads")
                if x.type.dtype.is_differentiable:
                    self.at.append(k)
                    self.values.append(
                        from_numpy(to_numpy(cast(x, complex128 if x.type.dtype.is_complex else float64)))
                    )
        if not self.at:
            raise DTypeError("check_grads: an argument must be floating-point; got none; convert one with `astype`")
        every = [p for n, child in enumerate(structure.children) for p in paths(f"argument {n}", child)]
        self.names = [every[k] for k in self.at]
        self.random = np.random.default_rng(SEED)

    def flat(self, *values: Value) -> list[Value]:
        """The floating-point leaves of the result, from those of the arguments."""
        return [x for x, _ in self._results(values)]

    def _results(self, values: Sequence[Value]) -> list[tuple[Value, str]]:
        """The floating-point leaves of the result for these leaves of the arguments, and their names."""
        filled = list(self.leaves)
        for k, x in zip(self.at, values, strict=True):
            filled[k] = x
        leaves, structure = tree.flatten(self.f(*tree.replaced(self.args, iter(filled), [])))
        found = [(as_value(leaf, "check_grads"), p) for leaf, p in zip(leaves, paths("result", structure), strict=True)]
        return [(x, p) for x, p in found if x.type.dtype.is_differentiable]

    def outputs(self) -> list[str]:
        """The names of the results."""
        return [p for _, p in self._results(self.values)]

    def direction(self, like: Value) -> np.ndarray:
        """Random numbers of a value's type."""
        shape = tuple(int(n) for n in like.type.shape)
        found = np.asarray(self.random.standard_normal(shape))
        if like.type.dtype.is_complex:
            found = found + 1j * self.random.standard_normal(shape)
        return found.astype(like.type.dtype.numpy)

    def orders(self, f: Flat, outputs: Sequence[str], order: int, over: tuple[str, ...]) -> None:
        """Check a derivative of f in each mode, and then the derivatives of these derivatives."""
        for mode in self.modes:
            self.first(f, outputs, mode, over)
        if order == 1:
            return
        tangents = [from_numpy(self.direction(x)) for x in self.values]
        cotangents = [from_numpy(self.direction(y)) for y in f(*self.values)]

        def pushed(*values: Value) -> list[Value]:
            """The tangents of the results."""
            ys, ts = forward.jvp(f, values, tangents)
            return with_zeros(ts, ys)

        def pulled(*values: Value) -> list[Value]:
            """The cotangents of the arguments."""
            return with_zeros(vjp(f, values)[1](cotangents), values)

        for mode in self.modes:
            if mode == "fwd":
                self.orders(pushed, [f"the tangent of {p}" for p in outputs], order - 1, ("fwd", *over))
            else:
                self.orders(pulled, [f"the cotangent of {p}" for p in self.names], order - 1, ("rev", *over))

    def first(self, f: Flat, outputs: Sequence[str], mode: str, over: tuple[str, ...]) -> None:
        """Compare the derivative of f by each leaf with finite differences."""
        for k, x in enumerate(self.values):
            t = self.direction(x)
            expected = self.differences(f, k, t)
            if mode == "fwd":
                ts: list[Value | None] = [None] * len(self.values)
                ts[k] = from_numpy(t)
                ys, found = forward.jvp(f, self.values, ts)
                for name, e, g in zip(outputs, expected, with_zeros(found, ys), strict=True):
                    self.compare(f"{name} by {self.names[k]}", (mode, *over), e, to_numpy(g))
                continue
            ys, pull = vjp(f, self.values)
            cotangents = [self.direction(y) for y in ys]
            c = with_zeros(pull(list(map(from_numpy, cotangents))), self.values)[k]
            want = sum(float(np.real(np.vdot(a, b))) for a, b in zip(cotangents, expected, strict=True))
            got = float(np.real(np.vdot(to_numpy(c), t)))
            names = " and ".join(outputs)
            self.compare(f"{names} by {self.names[k]}", (mode, *over), np.asarray(want), np.asarray(got))

    def differences(self, f: Flat, k: int, t: np.ndarray) -> list[np.ndarray]:
        """The derivatives of the results along t in the k-th leaf, by differences of fourth order."""

        def at(steps: int) -> list[np.ndarray]:
            """The results some steps away."""
            values = list(self.values)
            values[k] = from_numpy(np.asarray(to_numpy(values[k]) + steps * self.eps * t))
            with gradients(False):
                return [np.array(to_numpy(y)) for y in f(*values)]

        near, far = zip(at(1), at(-1), strict=True), zip(at(2), at(-2), strict=True)
        return [(8 * (a - b) - (c - d)) / (12 * self.eps) for (a, b), (c, d) in zip(near, far, strict=True)]

    def compare(self, what: str, modes: Sequence[str], expected: np.ndarray, got: np.ndarray) -> None:
        """Raise GradientError for the greatest difference, unless all are small."""
        wrong = ~(np.abs(got - expected) <= self.atol + self.rtol * np.abs(expected))
        if not wrong.any():
            return
        excess = np.where(wrong, np.nan_to_num(np.abs(got - expected), nan=np.inf), -1.0)
        place = np.unravel_index(int(np.argmax(excess)), excess.shape)
        where = f", at {list(map(int, place))}" if place else ""
        raise GradientError(
            f"check_grads: the derivative of {what}{where}, of {name_of(self.f)}, order {len(modes)}, mode "
            f"{' over '.join(modes)}, must be {expected[place]:.10g}; got {got[place]:.10g}; correct the rule of the "
            "derivative, or choose a point where f is smooth"
        )
