"""Schedules of the learning rate.

A schedule gives each group's rate in closed form from the number of steps, so it can be gone on with anywhere, and
schedules can be put together.  Rates, and the momenta that two of them move too, are held in variables: a compiled
training step stays as it is.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nacre.base.errors import ArgumentError
from nacre.optim.optimiser import Optimizer


class Schedule:
    """Sets each group's learning rate from the number of times `step` was called.  A kind defines `rate`.

    >>> class Halving(optim.Schedule):
    ...     def rate(self, base, epoch, group): return base / 2**epoch
    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=0.1)
    >>> schedule = Halving(opt)
    >>> schedule.step(); opt.param_groups[0]["lr"]
    0.05
    """

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
        self.lambdas = _each_function("LambdaLR", optimizer, lr_lambda)
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · f(epoch)."""
        return base * self.lambdas[group](epoch)


def _each_function(
    kind: str, optimizer: Optimizer, given: Callable[[int], float] | Sequence[Callable[[int], float]]
) -> list[Callable[[int], float]]:
    """One function for each group."""
    count = len(optimizer.param_groups)
    listed = [given] * count if callable(given) else list(given)
    if len(listed) != count:
        raise ArgumentError(f"{kind}: a function for each of {count} groups is required; got {len(listed)}")
    return listed


class MultiplicativeLR(Schedule):
    """lr times the product of a function's values at 1, 2, … up to the epoch; one function, or one for each group.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.MultiplicativeLR(opt, lambda epoch: 0.5); schedule.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]]
    ) -> None:
        self.lambdas = _each_function("MultiplicativeLR", optimizer, lr_lambda)
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · Π f(k)."""
        return base * math.prod(self.lambdas[group](k) for k in range(1, epoch + 1))


class MultiStepLR(Schedule):
    """lr · gamma^(the number of milestones reached).

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.MultiStepLR(opt, [1, 3], gamma=0.5); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · gamma^(milestones up to the epoch)."""
        return base * self.gamma ** bisect_right(self.milestones, epoch)


class ExponentialLR(Schedule):
    """lr · gamma^epoch.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.ExponentialLR(opt, 0.5); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        self.gamma = gamma
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · gamma^epoch."""
        return base * self.gamma**epoch


class ConstantLR(Schedule):
    """lr times a factor for so many steps, then lr.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> optim.ConstantLR(opt, 0.25, total_iters=2).get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5) -> None:
        if not 0.0 <= factor <= 1.0:
            raise ArgumentError(f"ConstantLR: a factor in [0, 1] is required; got {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · factor at first."""
        return base * (self.factor if epoch < self.total_iters else 1.0)


class LinearLR(Schedule):
    """lr times a factor that goes from one number to another along a line: a warm-up, by default.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.LinearLR(opt, 0.5, total_iters=2); schedule.step(); schedule.get_last_lr()
    [0.75]
    """

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5
    ) -> None:
        if not 0.0 < start_factor <= 1.0 or not 0.0 <= end_factor <= 1.0 or total_iters < 1:
            raise ArgumentError(
                f"LinearLR: factors in (0, 1] and a positive total_iters are required; got {start_factor}, "
                f"{end_factor}, {total_iters}"
            )
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · (start + (end − start) · epoch / total)."""
        part = min(epoch, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * part)


class PolynomialLR(Schedule):
    """lr · (1 − epoch / total)^power, and 0 after.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.PolynomialLR(opt, 2, power=2.0); schedule.step(); schedule.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0) -> None:
        if total_iters < 1:
            raise ArgumentError(f"PolynomialLR: a positive total_iters is required; got {total_iters}")
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · (1 − epoch / total)^power."""
        return base * (1.0 - min(epoch, self.total_iters) / self.total_iters) ** self.power


class CosineAnnealingWarmRestarts(Schedule):
    """From lr down to eta_min along half a cosine over T_0 steps, again over T_0 · T_mult, and so on.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.CosineAnnealingWarmRestarts(opt, 2); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0) -> None:
        if T_0 < 1 or T_mult < 1:
            raise ArgumentError(
                f"CosineAnnealingWarmRestarts: positive T_0 and T_mult are required; got {T_0}, {T_mult}"
            )
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """The cosine over the period that the epoch is in."""
        period = self.T_0
        while epoch >= period:
            if self.T_mult == 1:
                epoch %= period
            else:
                epoch, period = epoch - period, period * self.T_mult
        return self.eta_min + 0.5 * (base - self.eta_min) * (1 + _cosine(epoch, period))


def warm_up(steps: int, after: Callable[[int], float] = lambda epoch: 1.0) -> Callable[[int], float]:
    """A function for `LambdaLR`: a line up to 1 over so many steps, then another function of the steps since.

    >>> [optim.warm_up(2)(k) for k in range(4)]
    [0.5, 1.0, 1.0, 1.0]
    """
    if steps < 1:
        raise ArgumentError(f"warm_up: a positive number of steps is required; got {steps}")
    return lambda epoch: (epoch + 1) / steps if epoch < steps else after(epoch - steps)
