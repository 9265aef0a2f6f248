"""Optimisers: SGD, Adam and AdamW, with PyTorch's formulas, as explicit primitives.

All state is held in variables, so a compiled training step updates it in place.  Learning rates are held in
variables too: changing one does not compile anything again.  Other hyper-parameters are part of what a compiled
step depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from nacre.api.creation import zeros_like
from nacre.api.operands import as_tensor, constant, filled, spread
from nacre.api.primitives import pointwise
from nacre.base.dtypes import DType, bool_, float32, float64, int64
from nacre.base.errors import ArgumentError, StateError
from nacre.base.state import STATE, gradients
from nacre.trace.guards import report
from nacre.trace.value import Value, stripped
from nacre.trace.variable import Variable


class ParameterGroup(dict[str, Any]):
    """Parameters with their hyper-parameters, as a dict; `lr` is also held in the variable `rate`.

    `count` is a variable too: the number of steps taken.  So are other numbers that the steps share (`shared`), and
    the entries that a schedule changes (`varying`).

    >>> group = optim.SGD([nn.Parameter(1.0)], lr=0.1).param_groups[0]
    >>> group["lr"] = 0.01
    >>> group.rate.value
    Tensor(0.01, f64[])
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.rate = Variable(constant(float(settings["lr"]), float64), name="lr")
        self.count = Variable(constant(0, int64), name="step")  # steps taken
        self.shared: dict[str, Variable] = {"step": self.count}  # with what else the group's steps share
        self.varying: dict[str, Variable] = {}

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        if name == "lr":
            self.rate.assign(as_tensor(value, float64))
        elif name in self.varying:
            self.varying[name].assign(as_tensor(_first(value), float64))

    def vary(self, name: str) -> None:
        """Hold an entry (of a pair, the first) in a variable, so that changing it does not compile anything again."""
        if name not in self.varying:
            self.varying[name] = Variable(constant(float(_first(self[name])), float64), name=name)

    def varied(self, name: str) -> dict[str, Any]:
        """An entry as a tensor by its name, if it is held in a variable."""
        return {name: self.varying[name].value} if name in self.varying else {}

    def update(self, *others: Any, **more: Any) -> None:
        """Set several entries."""
        for name, value in dict(*others, **more).items():
            self[name] = value

    @property
    def params(self) -> list[Variable]:
        """The parameters."""
        return self["params"]

    @property
    def settings(self) -> Hashable:
        """The hyper-parameters that are plain, as a value to compare."""
        held = ("params", "lr", *self.varying)
        plain = [(k, tuple(cast("list[Any]", v)) if isinstance(v, list) else v)
                 for k, v in self.items() if k not in held]
        return tuple(plain + [(f"rest of {k}", self[k][1:]) for k in self.varying if isinstance(self[k], tuple)])


def _first(value: Any) -> Any:
    """The first of a pair, or the number itself."""
    return cast("tuple[Any, ...]", value)[0] if isinstance(value, tuple) else value


Updated = tuple[Any, dict[str, Any]]  # the new value of a parameter, and of its state by name


class Optimizer:
    """Changes parameters by their gradients: `loss.backward(); opt.step(); opt.zero_grad()`.

    `params` is an iterable of parameters, or of dicts with "params" and their own hyper-parameters.  A kind of
    optimiser defines `update`, which gives a parameter's new value, and its state's, from its gradient.

    Raises ArgumentError without parameters, for one that is given twice, and for hyper-parameters that it does not
    have.

    >>> class SignDescent(optim.Optimizer):
    ...     def __init__(self, params, lr=0.1): super().__init__(params, {"lr": lr})
    ...     def scalars(self, group, count): return {"lr": group.rate.value}
    ...     def fresh(self, p, group): return {}
    ...     def update(self, p, g, state, scalars, group): return p - scalars["lr"] * nc.sign(g), {}
    >>> p = nn.Parameter([1.0, -2.0])
    >>> opt = SignDescent([p], lr=0.5)
    >>> (p * p).sum().backward(); opt.step(); p.tolist()
    [0.5, -1.5]
    """

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.param_groups: list[ParameterGroup] = []
        self.state: dict[Variable, dict[str, Variable]] = {}
        listed = list(params)
        if not listed:
            raise ArgumentError(f"{type(self).__name__}: parameters are required; got none")
        groups = listed if isinstance(listed[0], Mapping) else [{"params": listed}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Add parameters with hyper-parameters of their own."""
        given = group["params"]
        variables = [given] if isinstance(given, Variable) else list(given)
        known = {id(p) for g in self.param_groups for p in g.params}
        for p in variables:
            if not isinstance(p, Variable):
                raise ArgumentError(f"{type(self).__name__}: parameters are required; got {type(p).__name__}")
            if id(p) in known:
                raise ArgumentError(f"{type(self).__name__}: each parameter once is required; got {p.name!r} again")
            known.add(id(p))
        settings = {**self.defaults, **group, "params": variables}
        unknown = sorted(set(settings) - {*self.defaults, "params", "initial_lr"})
        if unknown:
            known_settings = sorted(self.defaults)
            raise ArgumentError(f"{type(self).__name__}: settings of {known_settings} are required; got {unknown}")
        self.check(settings)
        made = ParameterGroup(settings)
        made.shared |= self.shared()
        self.param_groups.append(made)

    def shared(self) -> dict[str, Variable]:
        """What the steps of a group share beside their count, before the first."""
        return {}

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise ArgumentError for hyper-parameters outside their range."""
        if "betas" in settings and not all(0.0 <= b < 1.0 for b in settings["betas"]):
            raise ArgumentError(f"{type(self).__name__}: betas in [0, 1) are required; got {settings['betas']}")
        for name in ("alpha", "rho"):
            if name in settings and not 0.0 <= settings[name] <= 1.0:
                raise ArgumentError(f"{type(self).__name__}: a {name} in [0, 1] is required; got {settings[name]}")
        for name in ("lr", "weight_decay", "momentum", "eps", "lr_decay", "momentum_decay"):
            if name in settings and not settings[name] >= 0:
                raise ArgumentError(
                    f"{type(self).__name__}: a {name} that is not negative is required; got {settings[name]}"
                )

    @property
    def fingerprint(self) -> Hashable:
        """The plain settings that a compiled step depends on."""
        return tuple([(len(g.params), g.settings) for g in self.param_groups])

    # ---- stepping

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters that have a gradient.  A closure computes the loss first and is returned.

        >>> p = nn.Parameter([1.0])
        >>> opt = optim.SGD([p], lr=0.5)
        >>> (p * p).sum().backward(); opt.step(); p.value
        Tensor([0.], f32[1])
        """
        loss = closure() if closure is not None else None
        if STATE.word:
            report(self, "fingerprint")
        with gradients(False):
            for group in self.param_groups:
                self._step_group(group)
        return loss

    def _step_group(self, group: ParameterGroup) -> None:
        given = [(p, p.gradient) for p in group.params]
        present = [(p, g) for p, g in given if g is not None]
        if not present:
            return
        count: Any = pointwise.add(group.count.value, constant(1, int64))
        group.count.assign(count)
        scalars = self.scalars(group, count)
        for p, g in present:
            held = self.state.get(p)
            if held is None:
                held = self.state[p] = self.fresh(p, group)
            value, wide = stripped(p.value), _computing(p)
            new, states = self.update(
                as_tensor(value, wide),
                as_tensor(stripped(g), wide),
                {k: v.value for k, v in held.items()},
                {k: spread(as_tensor(s, wide), p.shape) for k, s in scalars.items()},
                group,
            )
            p.assign(as_tensor(new, p.dtype))
            for k, v in states.items():
                held[k].assign(v)

    def scalars(self, group: ParameterGroup, count: Any) -> dict[str, Any]:
        """Rank-0 float64 tensors that the step of number `count` shares among a group's parameters."""
        raise NotImplementedError

    def fresh(self, p: Variable, group: ParameterGroup) -> dict[str, Variable]:
        """The state of a parameter before its first step."""
        raise NotImplementedError

    def update(
        self, p: Any, g: Any, state: dict[str, Any], scalars: dict[str, Any], group: ParameterGroup
    ) -> Updated:
        """The new value of a parameter and of its state."""
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero."""
        for group in self.param_groups:
            for p in group.params:
                if set_to_none:
                    p.gradient = None
                elif p.gradient is not None:
                    p.gradient = zeros_like(p.gradient)

    # ---- saving

    def variables(self) -> Iterator[Variable]:
        """All variables of the optimiser's own: state, learning rates, counts of steps."""
        for group in self.param_groups:
            yield group.rate
            yield from group.shared.values()
            yield from group.varying.values()
        for held in self.state.values():
            yield from held.values()

    def state_dict(self) -> dict[str, Any]:
        """State and hyper-parameters, parameters by number, in PyTorch's form."""
        number = {id(p): k for k, p in enumerate(p for g in self.param_groups for p in g.params)}
        groups = [{**g, "params": [number[id(p)] for p in g.params]} for g in self.param_groups]
        steps = {id(p): {k: v.value for k, v in g.shared.items()} for g in self.param_groups for p in g.params}
        state = {
            number[id(p)]: {**steps[id(p)], **{k: v.value for k, v in held.items()}} for p, held in self.state.items()
        }
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take what `state_dict` gave, for parameters in the same order.

        Raises StateError where groups differ in number or size.
        """
        groups: Sequence[Mapping[str, Any]] = saved["param_groups"]
        sizes, own = [len(g["params"]) for g in groups], [len(g.params) for g in self.param_groups]
        if sizes != own:
            raise StateError(f"load_state_dict: groups of {own} parameters are required; got {sizes}")
        for mine, theirs in zip(self.param_groups, groups, strict=True):
            mine.update({k: v for k, v in theirs.items() if k in mine and k != "params"})
        self._forget_steps(groups, saved["state"])
        places = [n for g in groups for n in g["params"]]
        owners = [(p, g) for g in self.param_groups for p in g.params]
        for number, (p, group) in zip(places, owners, strict=True):
            if number not in saved["state"]:
                self.state.pop(p, None)
                continue
            held = self.state.setdefault(p, self.fresh(p, group))
            for k, v in saved["state"][number].items():
                cell = group.shared.get(k) or held.get(k)
                if cell is not None and v is not None:
                    array = v.detach().numpy() if not isinstance(v, Value) and hasattr(v, "detach") else v
                    cell.assign(as_tensor(array, cell.dtype))

    def _forget_steps(self, groups: Sequence[Mapping[str, Any]], state: Mapping[int, Any]) -> None:
        """Groups of which nothing was saved have taken no step."""
        for mine, theirs in zip(self.param_groups, groups, strict=True):
            if not any(n in state for n in theirs["params"]):
                first = {"step": Variable(constant(0, int64)), **self.shared()}
                for name, cell in mine.shared.items():
                    cell.assign(first[name].value)

    def __repr__(self) -> str:
        groups = [", ".join(f"{k}={v}" for k, v in g.items() if k != "params") for g in self.param_groups]
        return f"{type(self).__name__}({'; '.join(groups)})"


def _computing(p: Variable) -> DType:
    """The dtype in which a parameter's update is computed."""
    return float32 if p.dtype.bits == 16 else p.dtype


def zeros_for(p: Variable, name: str, value: float = 0.0) -> Variable:
    """A variable of zeros, or another number, for a parameter; it is made at once, even while tracing."""
    numbers = np.full(p.shape, value, _computing(p).numpy)  # type: ignore[arg-type]
    return Variable(as_tensor(numbers), name=f"{p.name}.{name}")


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum as in PyTorch.

    g += weight_decay · p;  b = momentum · b + (1 − dampening) · g, and b = g at first;  p −= lr · b, or with
    nesterov lr · (g + momentum · b).

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
            raise ArgumentError("SGD: momentum and no dampening are required with nesterov; got others")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize,
        })  # fmt: skip

    def scalars(self, group: ParameterGroup, count: Any) -> dict[str, Any]:
        """−lr, and the momentum where a schedule changes it."""
        return {"rate": pointwise.neg(group.rate.value), **group.varied("momentum")}

    def fresh(self, p: Variable, group: ParameterGroup) -> dict[str, Variable]:
        """The momentum, if there is to be one; with dampening also whether it has had its first value."""
        if not group["momentum"] and "momentum" not in group.varying:
            return {}
        held = {"momentum_buffer": zeros_for(p, "momentum_buffer")}
        if group["dampening"]:
            held["started"] = Variable(constant(False, bool_), name=f"{p.name}.started")
        return held

    def update(
        self, p: Any, g: Any, state: dict[str, Any], scalars: dict[str, Any], group: ParameterGroup
    ) -> Updated:
        """One step of gradient descent."""
        g = prepared(p, g, group)
        if "momentum_buffer" not in state:
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

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """As every optimiser's; a momentum that was saved has had its first value."""
        super().load_state_dict(saved)
        for held in self.state.values():
            if "started" in held:
                held["started"].assign(constant(True, bool_))


def prepared(p: Any, g: Any, group: ParameterGroup) -> Any:
    """The gradient, turned over to maximise, with the decay of weights added."""
    if group["maximize"]:
        g = pointwise.neg(g)
    return pointwise.fma(p, filled(p, group["weight_decay"]), g) if group["weight_decay"] else g


class Moments(Optimizer):
    """An optimiser with running means of the gradient (by β₁) and of its square (by β₂)."""

    def fresh(self, p: Variable, group: ParameterGroup) -> dict[str, Variable]:
        """The running means of the gradient and of its square."""
        return {"exp_avg": zeros_for(p, "exp_avg"), "exp_avg_sq": zeros_for(p, "exp_avg_sq")}


class Adam(Moments):
    """Adam (Kingma and Ba 2015), as in PyTorch; the weights' decay is added to the gradient.

    m += (1 − β₁)(g − m);  v = β₂v + (1 − β₂)g²;  p −= lr / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + eps).  The count t of
    steps is the group's.  With amsgrad v is the largest so far (Reddi et al. 2018).

    >>> optim.Adam([nn.Parameter(1.0)]).param_groups[0]["betas"]
    (0.9, 0.999)
    """

    decoupled = False

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

    def fresh(self, p: Variable, group: ParameterGroup) -> dict[str, Variable]:
        """The running means of the gradient and of its square; with amsgrad also the largest of those."""
        more = {"max_exp_avg_sq": zeros_for(p, "max_exp_avg_sq")} if group["amsgrad"] else {}
        return super().fresh(p, group) | more

    def update(
        self, p: Any, g: Any, state: dict[str, Any], scalars: dict[str, Any], group: ParameterGroup
    ) -> Updated:
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
