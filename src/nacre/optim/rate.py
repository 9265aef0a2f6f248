"""Schedules of the learning rate, and clipping of gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nacre.api.operands import as_tensor, constant, filled, spread
from nacre.api.primitives import pointwise, reduce
from nacre.api.tensor import Tensor
from nacre.base.dtypes import float32
from nacre.base.errors import ArgumentError
from nacre.base.state import gradients
from nacre.optim.optimiser import Optimizer
from nacre.trace.value import stripped
from nacre.trace.variable import Variable

# ---- clipping


def _gradients(parameters: Variable | Iterable[Variable]) -> list[tuple[Variable, Any]]:
    listed = [parameters] if isinstance(parameters, Variable) else list(parameters)
    found = ((p, p.gradient) for p in listed)
    return [(p, stripped(g)) for p, g in found if g is not None]


def clip_grad_norm_(parameters: Variable | Iterable[Variable], max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scale the gradients so that their norm together is at most max_norm; gives the norm they had (float32).

    `norm_type` is 1, 2 or infinity.

    >>> p = nn.Parameter([0.0, 0.0]); p.grad = nc.tensor([3.0, 4.0])
    >>> optim.clip_grad_norm_([p], 1.0), p.grad
    (Tensor(5., f32[]), Tensor([0.5999999 , 0.79999983], f32[2]))
    """
    if norm_type not in (1.0, 2.0, math.inf):
        raise ArgumentError(f"clip_grad_norm_: a norm_type of 1, 2 or inf is required; got {norm_type}")
    given = _gradients(parameters)
    if not given:
        return constant(0.0, float32)
    with gradients(False):
        parts = [_norm_part(as_tensor(g, float32), norm_type) for _, g in given]
        norm = parts[0]
        for part in parts[1:]:
            norm = pointwise.maximum(norm, part) if norm_type == math.inf else pointwise.add(norm, part)
        norm = pointwise.sqrt(norm) if norm_type == 2.0 else norm
        factor = pointwise.div(filled(norm, max_norm), pointwise.add(norm, filled(norm, 1e-6)))
        factor = pointwise.minimum(factor, filled(norm, 1.0))
        for p, g in given:
            p.gradient = pointwise.mul(g, spread(as_tensor(factor, p.dtype), p.shape))
    return norm


def _norm_part(g: Any, norm_type: float) -> Any:
    axes = tuple(range(len(g.type.shape)))
    if norm_type == 2.0:
        squares = pointwise.mul(g, g)
        return reduce.sum_(squares, axes) if axes else squares
    sizes = pointwise.abs_(g)
    fold = reduce.max_ if norm_type == math.inf else reduce.sum_
    return fold(sizes, axes) if axes else sizes


def clip_grad_value_(parameters: Variable | Iterable[Variable], clip_value: float) -> None:
    """Limit every element of the gradients to ±clip_value.

    >>> p = nn.Parameter([0.0]); p.grad = nc.tensor([3.0])
    >>> optim.clip_grad_value_([p], 1.0); p.grad
    Tensor([1.], f32[1])
    """
    if not clip_value >= 0:
        raise ArgumentError(f"clip_grad_value_: a value that is not negative is required; got {clip_value}")
    with gradients(False):
        for p, g in _gradients(parameters):
            p.gradient = pointwise.minimum(pointwise.maximum(g, filled(g, -clip_value)), filled(g, clip_value))


# ---- schedules


class Schedule:
    """Sets each group's learning rate from the number of times `step` was called.  A kind defines `rate`."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = 0
        self._set()

    def rate(self, base: float, epoch: int, group: int) -> float:
        """The learning rate of a group after so many steps, from the one it started with."""
        raise NotImplementedError

    def step(self) -> None:
        """Go on by one."""
        self.last_epoch += 1
        self._set()

    def _set(self) -> None:
        for k, (group, base) in enumerate(zip(self.optimizer.param_groups, self.base_lrs, strict=True)):
            group["lr"] = self.rate(base, self.last_epoch, k)

    def get_last_lr(self) -> list[float]:
        """Each group's learning rate now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.last_epoch, self.base_lrs = saved["last_epoch"], list(saved["base_lrs"])
        self._set()


class StepLR(Schedule):
    """lr · gamma^⌊epoch / step_size⌋.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.StepLR(opt, 1, gamma=0.5); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        if step_size < 1:
            raise ArgumentError(f"StepLR: a positive step_size is required; got {step_size}")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · gamma^⌊epoch / step_size⌋."""
        return base * self.gamma ** (epoch // self.step_size)


class CosineAnnealingLR(Schedule):
    """From lr down to eta_min along half a cosine over T_max steps (and up again after).

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.CosineAnnealingLR(opt, 2); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        if T_max < 1:
            raise ArgumentError(f"CosineAnnealingLR: a positive T_max is required; got {T_max}")
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """eta_min + ½(base − eta_min)(1 + cos(π · epoch / T_max))."""
        return self.eta_min + 0.5 * (base - self.eta_min) * (1 + _cosine(epoch, self.T_max))


def _cosine(part: int, whole: int) -> float:
    """cos(π · part / whole), exact at multiples of a right angle."""
    turn = 2 * part % (4 * whole)
    exact = {0: 1.0, whole: 0.0, 2 * whole: -1.0, 3 * whole: 0.0}
    return exact[turn] if turn in exact else math.cos(math.pi * part / whole)


class LambdaLR(Schedule):
    """lr times a function of the epoch, one for all groups or one for each.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.LambdaLR(opt, optim.warm_up(4)); schedule.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]]
    ) -> None:
        count = len(optimizer.param_groups)
        self.lambdas = [lr_lambda] * count if callable(lr_lambda) else list(lr_lambda)
        if len(self.lambdas) != count:
            raise ArgumentError(f"LambdaLR: a function for each of {count} groups is required; got {len(self.lambdas)}")
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · f(epoch)."""
        return base * self.lambdas[group](epoch)


def warm_up(steps: int, after: Callable[[int], float] = lambda epoch: 1.0) -> Callable[[int], float]:
    """A function for `LambdaLR`: a line up to 1 over so many steps, then another function of the steps since.

    >>> [optim.warm_up(2)(k) for k in range(4)]
    [0.5, 1.0, 1.0, 1.0]
    """
    if steps < 1:
        raise ArgumentError(f"warm_up: a positive number of steps is required; got {steps}")
    return lambda epoch: (epoch + 1) / steps if epoch < steps else after(epoch - steps)
