"""Adaptive optimisers besides Adam: Adagrad, RMSprop, Adadelta, Adamax, NAdam, RAdam, Lion and LAMB.

Formulas, arguments and defaults are PyTorch's where it has them.  Factors that depend on the count of steps are
computed in float64, once for all parameters of a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nacre.api.operands import constant, filled, spread
from nacre.api.primitives import pointwise, reduce
from nacre.base.dtypes import float64
from nacre.optim.adaptive_moments import Moments, unbias
from nacre.optim.gradient_descent import prepared
from nacre.optim.group import Clock, ParameterGroup, commit
from nacre.optim.optimiser import Optimizer, Updated, zeros_for
from nacre.trace.variable import Variable

__all__ = [
    "LAMB",
    "Adadelta",
    "Adagrad",
    "Adamax",
    "Lion",
    "NAdam",
    "RAdam",
    "RMSprop",
]


def _mix(old: Any, new: Any, decay: float) -> Any:
    """decay · old + (1 − decay) · new, for a running mean of squares."""
    return pointwise.fma(old, filled(new, decay), pointwise.mul(new, filled(new, 1.0 - decay)))


def _towards(old: Any, new: Any, decay: float) -> Any:
    """old + (1 − decay) · (new − old)."""
    return pointwise.fma(pointwise.sub(new, old), filled(new, 1.0 - decay), old)


def _decayed(p: Any, scalars: Mapping[str, Any], group: ParameterGroup) -> Any:
    """p − lr · weight_decay · p."""
    return pointwise.fma(p, scalars["decay"], p) if group["weight_decay"] else p


class Adagrad(Optimizer):
    """Adagrad (Duchi et al. 2011): s += g²;  p −= lr / (1 + (t − 1) · lr_decay) · g / (√s + eps).

    Raises ArgumentError for hyper-parameters out of range.

    >>> p = nn.Parameter([1.0]); opt = optim.Adagrad([p], lr=0.5)
    >>> p.grad = nc.tensor([2.0]); opt.step(); p.data
    Tensor([0.5], f32[1])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "eps": eps, "maximize": maximize,
        })  # fmt: skip

    def scalars(self, group: ParameterGroup, count: Any) -> dict[str, Any]:
        """−lr / (1 + (t − 1) · lr_decay)."""
        before = pointwise.sub(pointwise.cast(count, float64), constant(1.0, float64))
        slower = pointwise.fma(before, constant(group["lr_decay"], float64), constant(1.0, float64))
        return {"rate": pointwise.div(pointwise.neg(group.rate.value), slower)}

    def fresh(self, p: Variable, group: ParameterGroup) -> dict[str, Variable]:
        """The sum of squares."""
        return {"sum": zeros_for(p, "sum", group["initial_accumulator_value"])}

    def update(self, p: Any, g: Any, state: dict[str, Any], scalars: dict[str, Any], group: ParameterGroup) -> Updated:
        """One step of Adagrad."""
        g = prepared(p, g, group)
        total = pointwise.fma(g, g, state["sum"])
        size = pointwise.add(pointwise.sqrt(total), filled(g, group["eps"]))
        return pointwise.fma(pointwise.div(g, size), scalars["rate"], p), {"sum": total}


class RMSprop(Optimizer):
    """RMSprop (Hinton 2012): v = αv + (1 − α)g²;  p −= lr · g / (√v + eps), optionally centred or with momentum.

    Raises ArgumentError for hyper-parameters out of range.

    >>> optim.RMSprop([nn.Parameter(1.0)]).param_groups[0]["alpha"]
    0.99
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum,
            "centered": centered, "maximize": maximize,
        })  # fmt: skip

    def scalars(self, group: ParameterGroup, count: Any) -> dict[str, Any]:
        """−lr."""
        return {"rate": pointwise.neg(group.rate.value), **group.varied("momentum")}

    occasional = frozenset({"grad_avg", "momentum_buffer"})

    def fresh(self, p: Variable, group: ParameterGroup) -> dict[str, Variable]:
        """The running mean of squares; with `centered` also that of the gradient, with momentum also the momentum."""
        names = ["square_avg"] + ["grad_avg"] * group["centered"]
        names += ["momentum_buffer"] * (group["momentum"] > 0 or "momentum" in group.varying)
        return {name: zeros_for(p, name) for name in names}

    def update(self, p: Any, g: Any, state: dict[str, Any], scalars: dict[str, Any], group: ParameterGroup) -> Updated:
        """One step of RMSprop."""
        g = prepared(p, g, group)
        new = {"square_avg": _mix(state["square_avg"], pointwise.mul(g, g), group["alpha"])}
        spread_out = new["square_avg"]
        if group["centered"]:
            mean = new["grad_avg"] = _towards(state["grad_avg"], g, group["alpha"])
            spread_out = pointwise.sub(spread_out, pointwise.mul(mean, mean))
        step = pointwise.div(g, pointwise.add(pointwise.sqrt(spread_out), filled(g, group["eps"])))
        if group["momentum"] > 0 or "momentum" in group.varying:
            factor = scalars["momentum"] if "momentum" in scalars else filled(g, group["momentum"])
            step = new["momentum_buffer"] = pointwise.fma(state["momentum_buffer"], factor, step)
        return pointwise.fma(step, scalars["rate"], p), new


class Adadelta(Optimizer):
    """Adadelta (Zeiler 2012): steps as large as the running size of former ones: Δ = √(d + eps) / √(v + eps) · g.

    Raises ArgumentError for hyper-parameters out of range.

    >>> optim.Adadelta([nn.Parameter(1.0)]).param_groups[0]["rho"]
    0.9
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        })  # fmt: skip

    def scalars(self, group: ParameterGroup, count: Any) -> dict[str, Any]:
        """−lr."""
        return {"rate": pointwise.neg(group.rate.value)}

    def fresh(self, p: Variable, group: ParameterGroup) -> dict[str, Variable]:
        """The running means of squared gradients and of squared steps."""
        return {"square_avg": zeros_for(p, "square_avg"), "acc_delta": zeros_for(p, "acc_delta")}

    def update(self, p: Any, g: Any, state: dict[str, Any], scalars: dict[str, Any], group: ParameterGroup) -> Updated:
        """One step of Adadelta."""
        g = prepared(p, g, group)
        eps = filled(g, group["eps"])
        squares = _mix(state["square_avg"], pointwise.mul(g, g), group["rho"])
        former = pointwise.sqrt(pointwise.add(state["acc_delta"], eps))
        step = pointwise.mul(pointwise.div(former, pointwise.sqrt(pointwise.add(squares, eps))), g)
        steps = _mix(state["acc_delta"], pointwise.mul(step, step), group["rho"])
        return pointwise.fma(step, scalars["rate"], p), {"square_avg": squares, "acc_delta": steps}


class Adamax(Moments):
    """Adam by the largest gradient, not the mean square: u = max(β₂u, |g| + eps);  p −= lr / (1 − β₁ᵗ) · m / u.

    Raises ArgumentError for hyper-parameters out of range.

    >>> optim.Adamax([nn.Parameter(1.0)]).param_groups[0]["lr"]
    0.002
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        })  # fmt: skip

    def scalars(self, group: ParameterGroup, count: Any) -> dict[str, Any]:
        """−lr / (1 − β₁ᵗ)."""
        return {"rate": pointwise.div(pointwise.neg(group.rate.value), unbias(group["betas"][0], count))}

    def fresh(self, p: Variable, group: ParameterGroup) -> dict[str, Variable]:
        """The running mean of the gradient, and its largest size."""
        return {"exp_avg": zeros_for(p, "exp_avg"), "exp_inf": zeros_for(p, "exp_inf")}

    def update(self, p: Any, g: Any, state: dict[str, Any], scalars: dict[str, Any], group: ParameterGroup) -> Updated:
        """One step of Adamax."""
        g = prepared(p, g, group)
        m = _towards(state["exp_avg"], g, group["betas"][0])
        faded = pointwise.mul(state["exp_inf"], filled(g, group["betas"][1]))
        u = pointwise.maximum(faded, pointwise.add(pointwise.abs_(g), filled(g, group["eps"])))
        return pointwise.fma(pointwise.div(m, u), scalars["rate"], p), {"exp_avg": m, "exp_inf": u}


class NAdam(Moments):
    """Adam with Nesterov's momentum (Dozat 2016).

    Raises ArgumentError for hyper-parameters out of range.

    >>> optim.NAdam([nn.Parameter(1.0)]).param_groups[0]["momentum_decay"]
    0.004
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
        })  # fmt: skip

    def shared(self) -> dict[str, Variable]:
        """The product of all momenta so far."""
        return {"mu_product": Variable(constant(1.0, float64), name="mu_product")}

    def advance(self, group: ParameterGroup, clock: Clock) -> dict[str, Any]:
        """The factors of the gradient and of its mean, from the momenta of this step and of the next."""
        count = clock.ticked()
        t = pointwise.cast(count, float64)
        one, rate = constant(1.0, float64), pointwise.neg(group.rate.value)
        now, after = (self._momentum(t + n, group) for n in (0.0, 1.0))
        made = clock.numbers["mu_product"]
        whole = pointwise.mul(made.value, now)
        commit(made, whole)
        return {
            "gradient": rate * (one - now) / (one - whole),
            "mean": rate * after / (one - whole * after),
            "root": pointwise.sqrt(pointwise.div(one, unbias(group["betas"][1], count))),
            "decay": pointwise.mul(rate, constant(group["weight_decay"], float64)),
        }

    def _momentum(self, t: Any, group: ParameterGroup) -> Any:
        """β₁ · (1 − ½ · 0.96^(t · momentum_decay))."""
        fading = pointwise.pow_(filled(t, 0.96), t * group["momentum_decay"])
        return group["betas"][0] * (1.0 - 0.5 * fading)

    def update(self, p: Any, g: Any, state: dict[str, Any], scalars: dict[str, Any], group: ParameterGroup) -> Updated:
        """One step of NAdam."""
        if group["decoupled_weight_decay"]:
            g = pointwise.neg(g) if group["maximize"] else g
            p = _decayed(p, scalars, group)
        else:
            g = prepared(p, g, group)
        first, second = group["betas"]
        m = _towards(state["exp_avg"], g, first)
        v = _mix(state["exp_avg_sq"], pointwise.mul(g, g), second)
        size = pointwise.fma(pointwise.sqrt(v), scalars["root"], filled(v, group["eps"]))
        new = pointwise.fma(pointwise.div(g, size), scalars["gradient"], p)
        new = pointwise.fma(pointwise.div(m, size), scalars["mean"], new)
        return new, {"exp_avg": m, "exp_avg_sq": v}


class RAdam(Moments):
    """Adam with rectified variance, which takes plain steps at first (Liu et al. 2020).

    Raises ArgumentError for hyper-parameters out of range.

    >>> optim.RAdam([nn.Parameter(1.0)]).param_groups[0]["lr"]
    0.001
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "decoupled_weight_decay": decoupled_weight_decay,
        })  # fmt: skip

    def scalars(self, group: ParameterGroup, count: Any) -> dict[str, Any]:
        """−lr / (1 − β₁ᵗ), the rectification · √(1 − β₂ᵗ), and whether it applies (1 or 0)."""
        first, second = group["betas"]
        t = pointwise.cast(count, float64)
        unbiased = unbias(second, count)
        longest = 2.0 / (1.0 - second) - 1.0
        length: Any = longest - 2.0 * t * (1.0 - unbiased) / unbiased
        rectified = length > 5.0
        safe = pointwise.select(rectified, length, filled(length, 6.0))
        factor = pointwise.sqrt((safe - 4.0) * (safe - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * safe))
        rate = pointwise.neg(group.rate.value)
        return {
            "rate": pointwise.div(rate, unbias(first, count)),
            "factor": pointwise.mul(factor, pointwise.sqrt(unbiased)),
            "rectified": pointwise.cast(rectified, float64),
            "decay": pointwise.mul(rate, constant(group["weight_decay"], float64)),
        }

    def update(self, p: Any, g: Any, state: dict[str, Any], scalars: dict[str, Any], group: ParameterGroup) -> Updated:
        """One step of RAdam."""
        if group["decoupled_weight_decay"]:
            g = pointwise.neg(g) if group["maximize"] else g
            p = _decayed(p, scalars, group)
        else:
            g = prepared(p, g, group)
        first, second = group["betas"]
        m = _towards(state["exp_avg"], g, first)
        v = _mix(state["exp_avg_sq"], pointwise.mul(g, g), second)
        size = pointwise.add(pointwise.sqrt(v), filled(v, group["eps"]))
        adapted = pointwise.div(pointwise.mul(m, scalars["factor"]), size)
        applies = pointwise.gt(scalars["rectified"], filled(m, 0.0))
        step = pointwise.select(applies, adapted, m)
        return pointwise.fma(step, scalars["rate"], p), {"exp_avg": m, "exp_avg_sq": v}


class Lion(Optimizer):
    """Lion (Chen et al. 2023): p −= lr · (sign(β₁m + (1 − β₁)g) + weight_decay · p);  m = β₂m + (1 − β₂)g.

    Raises ArgumentError for hyper-parameters out of range.

    >>> p = nn.Parameter([1.0]); opt = optim.Lion([p], lr=0.25)
    >>> p.grad = nc.tensor([3.0]); opt.step(); p.data
    Tensor([0.75], f32[1])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "betas": tuple(betas), "weight_decay": weight_decay, "maximize": maximize,
        })  # fmt: skip

    def scalars(self, group: ParameterGroup, count: Any) -> dict[str, Any]:
        """−lr, and −lr · weight_decay."""
        rate = pointwise.neg(group.rate.value)
        return {"rate": rate, "decay": pointwise.mul(rate, filled(rate, group["weight_decay"]))}

    def fresh(self, p: Variable, group: ParameterGroup) -> dict[str, Variable]:
        """The running mean of the gradient."""
        return {"exp_avg": zeros_for(p, "exp_avg")}

    def update(self, p: Any, g: Any, state: dict[str, Any], scalars: dict[str, Any], group: ParameterGroup) -> Updated:
        """One step of Lion."""
        g = pointwise.neg(g) if group["maximize"] else g
        first, second = group["betas"]
        m = state["exp_avg"]
        new = pointwise.fma(pointwise.sign(_towards(m, g, first)), scalars["rate"], _decayed(p, scalars, group))
        return new, {"exp_avg": _towards(m, g, second)}


class LAMB(Moments):
    """LAMB (You et al. 2020): AdamW whose step, for each parameter, is scaled by its norm over the step's norm.

    Raises ArgumentError for hyper-parameters out of range.

    >>> optim.LAMB([nn.Parameter([1.0])]).param_groups[0]["eps"]
    1e-06
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        })  # fmt: skip

    def scalars(self, group: ParameterGroup, count: Any) -> dict[str, Any]:
        """−lr, 1 / (1 − β₁ᵗ) and 1 / √(1 − β₂ᵗ)."""
        first, second = (unbias(beta, count) for beta in group["betas"])
        one = filled(first, 1.0)
        return {
            "rate": pointwise.neg(group.rate.value),
            "mean": pointwise.div(one, first),
            "root": pointwise.div(one, pointwise.sqrt(second)),
        }

    def update(self, p: Any, g: Any, state: dict[str, Any], scalars: dict[str, Any], group: ParameterGroup) -> Updated:
        """One step of LAMB; a norm of 0 leaves the step as it is."""
        g = pointwise.neg(g) if group["maximize"] else g
        first, second = group["betas"]
        m = _towards(state["exp_avg"], g, first)
        v = _mix(state["exp_avg_sq"], pointwise.mul(g, g), second)
        size = pointwise.fma(pointwise.sqrt(v), scalars["root"], filled(v, group["eps"]))
        step = pointwise.div(pointwise.mul(m, scalars["mean"]), size)
        step = pointwise.fma(p, filled(p, group["weight_decay"]), step) if group["weight_decay"] else step
        ratio = _trust(_norm(p), _norm(step))
        new = pointwise.fma(pointwise.mul(step, spread(ratio, step.type.shape)), scalars["rate"], p)
        return new, {"exp_avg": m, "exp_avg_sq": v}


def _norm(x: Any) -> Any:
    axes = tuple(range(len(x.type.shape)))
    squares = pointwise.mul(x, x)
    return pointwise.sqrt(reduce.sum_(squares, axes) if axes else squares)


def _trust(own: Any, step: Any) -> Any:
    """own / step, or 1 where either is 0."""
    zero, one = filled(own, 0.0), filled(own, 1.0)
    counts = pointwise.and_(pointwise.gt(own, zero), pointwise.gt(step, zero))
    return pointwise.select(counts, pointwise.div(own, pointwise.select(counts, step, one)), one)
