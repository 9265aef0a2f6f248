"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nacre.api.operands import filled
from nacre.api.primitives import pointwise
from nacre.base.dtypes import float64
from nacre.optim.gradient_descent import prepared
from nacre.optim.group import ParameterGroup
from nacre.optim.optimiser import Optimizer, Updated, zeros_for
from nacre.trace.variable import Variable

__all__ = [
    "Adam",
    "AdamW",
]


class Moments(Optimizer):
    """An optimiser with running means of the gradient (by β₁) and of its square (by β₂)."""

    def fresh(self, p: Variable, group: ParameterGroup) -> dict[str, Variable]:
        """The running means of the gradient and of its square."""
        return {"exp_avg": zeros_for(p, "exp_avg"), "exp_avg_sq": zeros_for(p, "exp_avg_sq")}


class Adam(Moments):
    """Adam (Kingma and Ba 2015), as in PyTorch; the weight decay is added to the gradient.

    m += (1 − β₁)(g − m);  v = β₂v + (1 − β₂)g²;  p −= lr / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + eps).  t counts the
    parameter's own steps.  With amsgrad, v is the largest so far (Reddi et al. 2018).  Raises ArgumentError for
    hyper-parameters out of range.

    >>> optim.Adam([nn.Parameter(1.0)]).param_groups[0]["betas"]
    (0.9, 0.999)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize,
        })  # fmt: skip

    def scalars(self, group: ParameterGroup, count: Any) -> dict[str, Any]:
        """−lr / (1 − β₁ᵗ), 1 / √(1 − β₂ᵗ), −lr · weight_decay; and 1 − β₁ where a schedule changes it."""
        varied = group.varied("betas")
        first, second = unbias(varied.get("betas", group["betas"][0]), count), unbias(group["betas"][1], count)
        rate = pointwise.neg(group.rate.value)
        found = {
            "rate": pointwise.div(rate, first),
            "root": pointwise.div(filled(second, 1.0), pointwise.sqrt(second)),
            "decay": pointwise.mul(rate, filled(rate, group["weight_decay"])),
        }
        if varied:
            found["share"] = pointwise.sub(filled(rate, 1.0), varied["betas"])
        return found

    occasional = frozenset({"max_exp_avg_sq"})

    def fresh(self, p: Variable, group: ParameterGroup) -> dict[str, Variable]:
        """The running means of the gradient and of its square; with amsgrad also the largest mean square."""
        more = {"max_exp_avg_sq": zeros_for(p, "max_exp_avg_sq")} if group["amsgrad"] else {}
        return super().fresh(p, group) | more

    def update(self, p: Any, g: Any, state: dict[str, Any], scalars: dict[str, Any], group: ParameterGroup) -> Updated:
        """One step of Adam."""
        if self.decoupled:
            g = pointwise.neg(g) if group["maximize"] else g
            p = pointwise.fma(p, scalars["decay"], p) if group["weight_decay"] else p
        else:
            g = prepared(p, g, group)
        first, second = group["betas"]
        m, v = state["exp_avg"], state["exp_avg_sq"]
        share = scalars["share"] if "share" in scalars else filled(g, 1.0 - first)
        m = pointwise.fma(pointwise.sub(g, m), share, m)
        v = pointwise.fma(v, filled(g, second), pointwise.mul(pointwise.mul(g, g), filled(g, 1.0 - second)))
        new = {"exp_avg": m, "exp_avg_sq": v}
        if group["amsgrad"]:
            v = new["max_exp_avg_sq"] = pointwise.maximum(state["max_exp_avg_sq"], v)
        size = pointwise.fma(pointwise.sqrt(v), scalars["root"], filled(v, group["eps"]))
        return pointwise.fma(pointwise.div(m, size), scalars["rate"], p), new


def unbias(beta: Any, count: Any) -> Any:
    """1 − βᵗ, for a number or a tensor β."""
    t = pointwise.cast(count, float64)
    base = filled(t, beta) if isinstance(beta, float | int) else beta
    return pointwise.sub(filled(t, 1.0), pointwise.pow_(base, t))


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019): p −= lr · weight_decay · p first.

    Raises ArgumentError for hyper-parameters out of range.

    >>> optim.AdamW([nn.Parameter(1.0)], lr=3e-3).param_groups[0]["weight_decay"]
    0.01
    """

    decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize)
