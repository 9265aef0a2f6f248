"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nacre.api.operands import constant, filled, spread
from nacre.api.primitives import pointwise
from nacre.base.dtypes import bool_
from nacre.base.errors import ArgumentError
from nacre.optim.group import ParameterGroup
from nacre.optim.optimiser import Optimizer, Updated, zeros_for
from nacre.trace.variable import Variable

__all__ = [
    "SGD",
]


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum as in PyTorch.

    g += weight_decay · p;  b = momentum · b + (1 − dampening) · g, and b = g at first;  p −= lr · b, or with nesterov
    lr · (g + momentum · b).  Raises ArgumentError for hyper-parameters out of range.

    >>> optim.SGD([nn.Parameter(1.0)], lr=0.1, momentum=0.9).param_groups[0]["momentum"]
    0.9
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        maximize: bool = False,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ArgumentError(f"SGD: nesterov needs a momentum, and a dampening of 0; got {momentum}, {dampening}")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize,
        })  # fmt: skip

    occasional = frozenset({"momentum_buffer", "started"})
    optional = frozenset({"step", "momentum_buffer", "started"})  # PyTorch's state has no count, and None at first

    def scalars(self, group: ParameterGroup, count: Any) -> dict[str, Any]:
        """−lr, and the momentum where a schedule changes it."""
        return {"rate": pointwise.neg(group.rate.value), **group.varied("momentum")}

    def fresh(self, p: Variable, group: ParameterGroup) -> dict[str, Variable]:
        """The momentum, if it is used; with dampening also whether it has had its first value."""
        if not group["momentum"] and "momentum" not in group.varying:
            return {}
        held = {"momentum_buffer": zeros_for(p, "momentum_buffer")}
        if group["dampening"]:
            held["started"] = Variable(constant(False, bool_), name=f"{p.name}.started")
        return held

    def update(self, p: Any, g: Any, state: dict[str, Any], scalars: dict[str, Any], group: ParameterGroup) -> Updated:
        """One step of gradient descent."""
        g = prepared(p, g, group)
        if not group["momentum"] and "momentum" not in group.varying:
            return pointwise.fma(g, scalars["rate"], p), {}
        factor = scalars["momentum"] if "momentum" in scalars else filled(g, group["momentum"])
        new: dict[str, Any] = {}
        moved = g
        if group["dampening"]:
            damped = pointwise.mul(g, filled(g, 1.0 - group["dampening"]))
            moved = pointwise.select(spread(state["started"], g.type.shape), damped, g)
            new["started"] = constant(True, bool_)
        moved = new["momentum_buffer"] = pointwise.fma(state["momentum_buffer"], factor, moved)
        step = pointwise.fma(moved, factor, g) if group["nesterov"] else moved
        return pointwise.fma(step, scalars["rate"], p), new

    def completed(self, held: Mapping[str, Variable], fresh: Mapping[str, Variable]) -> dict[str, Variable]:
        """The completed state; a momentum that was there without dampening has had its first value."""
        if "started" in fresh and "momentum_buffer" in held and "started" not in held:
            return {**held, "started": Variable(constant(True, bool_), name=fresh["started"].name)}
        return super().completed(held, fresh)


def prepared(p: Any, g: Any, group: ParameterGroup) -> Any:
    """The gradient, negated to maximise, plus the weight decay."""
    if group["maximize"]:
        g = pointwise.neg(g)
    return pointwise.fma(p, filled(p, group["weight_decay"]), g) if group["weight_decay"] else g
