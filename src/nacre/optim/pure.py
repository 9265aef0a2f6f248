"""`functional`: optimisers as pure functions of parameters, gradients and state, for `vmap`, `grad` and `scan`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from nacre.api.creation import zeros
from nacre.api.operands import as_tensor, constant
from nacre.base import tree
from nacre.base.dtypes import int64
from nacre.base.errors import ArgumentError, DTypeError, KindError
from nacre.base.state import without_autocast
from nacre.base.types import TensorType
from nacre.interpret.stage import closed, stage
from nacre.ir.graph import Graph
from nacre.ops.control import call
from nacre.optim.group import Clock
from nacre.optim.lbfgs import LBFGS
from nacre.optim.optimiser import Optimizer
from nacre.trace.value import Value
from nacre.trace.variable import Variable

__all__ = ["FunctionalOptimizer", "functional"]


class OptimizerState(NamedTuple):
    """The state of a functional optimiser: a tree of tensors."""

    rate: Any  # the learning rate, float64
    numbers: dict[str, Any]  # the count of steps, and numbers that depend on it
    slots: list[dict[str, Any]]  # of each parameter, by name


class _Form:
    """An optimiser of variables with given types, its variables in the order of a flat state, and its step's graph."""

    def __init__(self, kind: type[Optimizer], settings: dict[str, Any], types: Sequence[TensorType]) -> None:
        parameters = [Variable(as_tensor(zeros(t.shape, t.dtype))) for t in types]
        self.optimizer = kind(parameters, **settings)
        (self.group,) = self.optimizer.param_groups
        self.parameters = parameters
        self.clock = Clock({"step": Variable(constant(0, int64), name="step"), **self.optimizer.shared()})
        for p in parameters:
            self.optimizer.state.hold(p, self.optimizer.fresh(p, self.group))
            self.group.clocks[p] = self.clock
        self.group.settled = self.group.settings
        self.made: Graph | None = None

    @property
    def start(self) -> OptimizerState:
        """The state before the first step."""
        numbers = {k: v.value for k, v in self.clock.numbers.items()}
        held = self.optimizer.state
        return OptimizerState(
            self.group.rate.value, numbers, [{k: v.value for k, v in held[p].items()} for p in self.parameters]
        )

    @property
    def step(self) -> Graph:
        """(parameters, gradients, state) → (parameters, state): the optimiser's own step as a graph."""
        if self.made is None:
            held = self.optimizer.state
            of_state = [self.group.rate, *self.clock.numbers.values()]
            of_state += [v for p in self.parameters for v in held[p].values()]
            count = len(self.parameters)

            def stepped(*values: Value) -> list[Value]:
                """One step; every variable has a value from outside."""
                for v, x in zip((*self.parameters, *of_state), (*values[:count], *values[2 * count :]), strict=True):
                    v.assign(x)
                for p, g in zip(self.parameters, values[count : 2 * count], strict=True):
                    p.gradient = g
                self.optimizer.step_group(self.group)  # `step` records no derivatives
                return [v.value for v in (*self.parameters, *of_state)]

            types = [v.type for v in (*self.parameters, *self.parameters, *of_state)]
            traced = without_autocast(lambda: stage(stepped, types, type(self.optimizer).__name__, ""))
            graph = closed(traced)
            self.made = Graph(graph.inputs[: len(types)], graph.equations, graph.outputs[: traced.results], graph.name)
        return self.made


class FunctionalOptimizer:
    """An optimiser as two pure functions, `start` and `step`.  `functional` makes it.

    >>> import nacre as nc
    >>> from nacre import optim
    >>> opt = optim.functional(optim.SGD, lr=0.5)
    >>> params, state = opt.step(nc.ones(2), nc.tensor([1.0, 2.0]), opt.start(nc.ones(2)))
    >>> params.tolist(), state.numbers["step"].tolist()
    ([0.5, 0.0], 1)
    """

    def __init__(self, kind: type[Optimizer], settings: dict[str, Any]) -> None:
        self.kind, self.settings = kind, settings
        self._forms: dict[tuple[TensorType, ...], _Form] = {}

    def _form(self, values: Sequence[Value]) -> _Form:
        types = tuple(x.type for x in values)
        if types not in self._forms:
            wrong = [t for t in types if not t.dtype.is_differentiable]
            if wrong or not types:
                raise DTypeError(
                    f"functional: parameters must be floating-point tensors; got {wrong[0] if wrong else 'none'}; "
                    "leave others out of the tree"
                )
            self._forms[types] = _Form(self.kind, self.settings, types)
        return self._forms[types]

    def start(self, params: Any) -> OptimizerState:
        """The state before the first step, for a tree of parameters."""
        return self._form([as_tensor(x) for x in tree.flatten(params)[0]]).start

    def step(self, params: Any, gradients: Any, state: OptimizerState) -> tuple[Any, OptimizerState]:
        """The parameters and the state after one step.  Raises ArgumentError for gradients of another structure."""
        leaves, structure = tree.flatten(params)
        given, other = tree.flatten(gradients)
        if structure != other:
            raise ArgumentError(
                f"functional: gradients must have the structure of the parameters, {structure}; got {other}; leave "
                "parameters without a gradient out of the tree"
            )
        values, slopes = ([as_tensor(x) for x in xs] for xs in (leaves, given))
        form = self._form(values)
        held, shape = tree.flatten(state)
        if shape != tree.flatten(form.start)[1]:
            raise ArgumentError(
                f"functional: the state must be that of start, for these parameters; got structure {shape}"
            )
        found = call(form.step, *values, *slopes, *(as_tensor(x) for x in held))
        return tree.unflatten(structure, found[: len(values)]), tree.unflatten(shape, found[len(values) :])

    def __repr__(self) -> str:
        return f"functional({self.kind.__name__}, {', '.join(f'{k}={v}' for k, v in self.settings.items())})"


def functional(kind: type[Optimizer], **settings: Any) -> FunctionalOptimizer:
    """An optimiser as pure functions: `start(params)` → state, `step(params, gradients, state)` → (params, state).

    `kind` is a class of `nacre.optim`, or a subclass of `Optimizer`, and `settings` are its hyper-parameters.  `params`
    is a tree of tensors, such as a model whose parameters are stacked.  A step has the bits of the optimiser's own.  It
    works in `vmap`, one optimiser for each model, and in `jit`, `scan` and `grad`.  `state.rate` is the learning rate,
    which a batch may have for each model: `state._replace(rate=rates)`.

    Raises KindError for anything else than such a class.  LBFGS, which decides by numbers, is refused; in its place,
    there is `nacre.optimize.minimize`.

    >>> import nacre as nc
    >>> from nacre import optim
    >>> opt = optim.functional(optim.SGD, lr=0.5)
    >>> params = {"w": nc.tensor([[1.0], [2.0], [3.0]])}  # of three models
    >>> state = nc.vmap(opt.start)(params)
    >>> params, state = nc.vmap(opt.step)(params, {"w": nc.ones((3, 1))}, state)
    >>> params["w"].tolist()
    [[0.5], [1.5], [2.5]]
    """
    given: Any = kind
    if not isinstance(given, type) or not issubclass(given, Optimizer) or given is Optimizer:
        raise KindError(
            f"functional: kind must be a class of optimisers; got {kind!r:.60}; write "
            "optim.functional(optim.Adam, lr=1e-3)"
        )
    if issubclass(given, LBFGS):
        raise KindError(
            "functional: kind must be an optimiser whose steps are one graph; got LBFGS; write "
            'nc.optimize.minimize(loss, params, method="l-bfgs")'
        )
    return FunctionalOptimizer(kind, settings)
