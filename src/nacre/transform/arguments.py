"""Code shared by the function transformations: arguments as flat values, direct or in variables."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from nacre.base import tree
from nacre.base.arguments import is_whole, shown, whole_numbers
from nacre.base.conversion import Number, element, natural_dtype
from nacre.base.dims import Dim
from nacre.base.errors import ArgumentError, DTypeError, KindError, explain
from nacre.base.records import dataclass
from nacre.interpret.evaluate import from_numpy
from nacre.interpret.numbers.staged_number import StagedNumber
from nacre.interpret.stage import holding
from nacre.ops.pointwise import dimension
from nacre.trace.guards import report
from nacre.trace.value import Value, make
from nacre.trace.variable import Variable
from nacre.transform.leftover import require_changeable


def name_of(f: Any, otherwise: str = "") -> str:
    """The name of a function if it is a string, else `other`, or the name of its type."""
    found = getattr(f, "__name__", None)
    return found if isinstance(found, str) else otherwise or type(f).__name__


def like(f: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`functools.wraps`, without names and annotations that are invalid for functions, such as those of a mock."""
    kinds = {"__name__": str, "__qualname__": str, "__annotations__": dict}
    taken = [n for n in functools.WRAPPER_ASSIGNMENTS if isinstance(getattr(f, n, None), kinds.get(n, object))]
    return functools.wraps(f, assigned=taken)


def as_value(x: Any, operation: str = "tensor") -> Value:
    """The value of a tensor, variable, NumPy array, Python number or symbolic size."""
    if isinstance(x, Value):
        return x
    if isinstance(x, Variable):
        return x.value
    if type(x) is StagedNumber:
        return x.tensor()
    if isinstance(x, Number):
        return from_numpy(element(x, natural_dtype(x), operation))
    if isinstance(x, Dim):
        return dimension(x)
    if isinstance(x, np.ndarray | np.generic):
        return from_numpy(x)
    raise DTypeError(f"{operation}: values must be tensors, variables, arrays or numbers; got {type(x).__name__}")


def unaliased(results: Sequence[Value], given: Sequence[Any]) -> list[Value]:
    """Results as new objects where they are tensors of the caller's, so that `y[0] = v` does not change x."""
    places = set(map(id, given))
    return [make(y.type, y.content, y.layout, y.node) if id(y) in places else y for y in results]


def is_pair(x: object) -> bool:
    """Whether x is a tuple of two items."""
    return isinstance(x, tuple) and len(cast("tuple[Any, ...]", x)) == 2


def is_tensor(x: object) -> bool:
    """Whether a leaf of a tree holds numbers that a transformation differentiates or batches."""
    return isinstance(x, Value | Variable | np.ndarray | np.generic)


LAZY: Final = (Generator, AsyncGenerator, Coroutine, map, filter, zip, enumerate, reversed)


def require_function(f: Any, operation: str) -> None:
    """Raise KindError for functions whose call computes no result: generators, `async` functions and classes."""
    kind = type(cast("object", f))
    for given in (f, *(getattr(kind, name, None) for name in ("forward", "__call__"))):
        if any(
            test(given)
            for test in (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
        ):
            raise _without_return(
                f"{operation}: the function must return its results",
                f"{name_of(f)}, {'a generator' if inspect.isgeneratorfunction(given) else 'an async'} function",
            )
    if inspect.isclass(f):
        raise KindError(
            f"{operation}: the function must be a function or a module; got the class {f.__name__}; pass "
            f"an instance, or a function that makes one, as in lambda *args: {f.__name__}(*args)"
        )


def require_results(operation: str, leaves: Sequence[Any]) -> None:
    """Raise KindError for results that are not computed yet, such as a generator; coroutines are closed."""
    for leaf in leaves:
        if isinstance(leaf, LAZY):
            if isinstance(leaf, Coroutine):
                leaf.close()
            raise _without_return(
                f"{operation}: results must be tensors, or tuples, lists and dicts of them",
                f"an object of {type(cast('object', leaf)).__name__}",
            )


def _without_return(what: str, got: str) -> KindError:
    """The error for a function that yields or awaits."""
    return KindError(
        explain(
            f"{what}; got {got}",
            "def f(x):\n    for k in range(3):\n        yield x * k",
            "Python runs the body of a generator or an `async` function only after the call, bit by bit,\n"
            "  when there is nothing left that could compile or differentiate it.",
            "def f(x):\n    return [x * k for k in range(3)]      # or nc.stack of them",
        )
    )


Place = int | str  # of an argument: its position, or its name if it is given by name
Argnums = int | str | Sequence[int | str]


def chosen(
    argnums: Argnums, f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], operation: str
) -> tuple[Place, ...]:
    """The places of arguments that positions or names choose; raises ArgumentError for others."""
    listed = list(argnums) if isinstance(argnums, tuple | list) else [argnums]
    found: list[Place] = []
    for each in listed:
        if isinstance(each, str):
            found.append(_named(each, f, args, kwargs, operation))
            continue
        if not is_whole(each):
            raise KindError(f"{operation}: argnums must be integers, or names of arguments; got {shown(each)}")
        (n,) = whole_numbers(each, operation, "argnums")
        if not -len(args) <= n < len(args):
            raise ArgumentError(
                f"{operation}: argnums must be less than {len(args)}, the number of positional arguments; got {n}"
                + (f"; write a name for one of {sorted(kwargs)}" if kwargs else "")
            )
        found.append(n % len(args))
    if len(set(found)) < len(found):
        raise ArgumentError(f"{operation}: argnums must be distinct; got {argnums}")
    return tuple(found)


def is_one(argnums: Argnums) -> bool:
    """Whether argnums chooses one argument, and not a tuple of them."""
    return isinstance(argnums, str) or is_whole(argnums)


def _named(name: str, f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], operation: str) -> Place:
    if name in kwargs:
        return name
    try:
        parameters = list(inspect.signature(getattr(f, "forward", f)).parameters.values())
    except (TypeError, ValueError):  # of functions not written in Python
        parameters = []
    fixed = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if name in fixed[: len(args)]:
        return fixed.index(name)
    given = [*fixed[: len(args)], *kwargs]
    raise ArgumentError(f"{operation}: argnums must name an argument of the call; got {name!r}; the call has {given}")


@dataclass
class _Argument:
    """A differentiated argument: its structure, its leaves, and the position of each among the values."""

    original: Any
    structure: tree.Structure
    leaves: list[Any]
    places: list[int | None]  # among the primals; None if not differentiated


class Arguments:
    """A call `f(*args, **kwargs)` as a function of the values in the arguments at `argnums`.

    Tensors, arrays and numbers are replaced in place.  Variables stay and hold other values while f runs; variables
    without `requires_grad` are not differentiated.
    """

    def __init__(
        self,
        operation: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        argnums: Sequence[Place],
        floats_only: bool = True,
    ) -> None:
        self.operation, self.args, self.kwargs = operation, list(args), kwargs
        self.floats_only = floats_only
        self.primals: list[Value] = []
        self.variables: dict[Variable, int] = {}
        self.arguments = {n: self._argument(n, kwargs[n] if isinstance(n, str) else args[n]) for n in argnums}
        self.structure: tree.Structure | None = None  # of f's result, after f has run
        self.aux: list[Any] = []
        self.aux_structure: tree.Structure | None = None
        self.count = 0  # leaves of the result

    def _argument(self, n: Place, argument: Any) -> _Argument:
        leaves, structure = tree.flatten(argument)
        places = tree.mapped_once(structure, leaves, lambda leaf: self._place(n, leaf))
        return _Argument(argument, structure, leaves, places)

    def _place(self, n: Place, leaf: Any) -> int | None:
        if isinstance(leaf, Variable):
            report(leaf, "requires_grad")
            if not leaf.requires_grad:
                return None
            if leaf not in self.variables:
                self.variables[leaf] = self._add(leaf.value)
            return self.variables[leaf]
        x = as_value(leaf, self.operation)
        if self.floats_only and not x.type.dtype.is_differentiable:
            raise DTypeError(
                f"{self.operation}: inputs must be floating-point; got {x.type} in argument "
                f"{n}; convert it with "
                "`astype`, or leave it out of argnums"
            )
        return self._add(x)

    def _add(self, x: Value) -> int:
        self.primals.append(x)
        return len(self.primals) - 1

    def call(self, f: Callable[..., Any], values: Sequence[Value]) -> Any:
        """The result of f with the arguments' values replaced by the primals."""
        args: list[Any] = list(self.args)
        kwargs = dict(self.kwargs)
        for n, a in self.arguments.items():
            if any(not isinstance(leaf, Variable) for leaf in a.leaves):
                filled = [
                    leaf if isinstance(leaf, Variable) or place is None else values[place]
                    for leaf, place in zip(a.leaves, a.places, strict=True)
                ]
                new = tree.replaced(a.original, iter(filled), [])
                if isinstance(n, str):
                    kwargs[n] = new
                else:
                    args[n] = new
        with holding({v: values[place] for v, place in self.variables.items()}):
            return f(*args, **kwargs)

    def flat(
        self,
        f: Callable[..., Any],
        has_aux: bool = False,
        check: Callable[[Any], None] | None = None,
    ) -> Callable[..., list[Value]]:
        """f from primals to the leaves of its result, followed by the tensors of aux; `results` rebuilds both.

        With `has_aux`, f returns `(result, aux)`; `check` sees the result.
        """

        def function(*values: Value) -> list[Value]:
            """The function on flat values; records the structure of its result."""
            before = [x.content for x in values]
            result: Any = self.call(f, values)
            changed = [k for k, x in enumerate(values) if x.content is not before[k]]
            require_changeable(name_of(f, self.operation), *self._leaves(changed), through=False)
            aux: Any = None
            if has_aux:
                if not is_pair(result):
                    raise ArgumentError(
                        f"{self.operation}: with has_aux, f must return (result, aux); got {type(result).__name__}"
                    )
                result, aux = result
            leaves, self.structure = tree.flatten(result)
            require_results(self.operation, leaves)
            if check is not None:
                check(result)
            self.aux, self.aux_structure = tree.flatten(aux)
            outputs = [as_value(leaf, self.operation) for leaf in leaves]
            self.count = len(outputs)
            return outputs + [x for x in self.aux if isinstance(x, Value)]

        return function

    def _leaves(self, places: Sequence[int]) -> tuple[list[Any], list[int]]:
        """All leaves of the call's arguments, and the places of some primals among them."""
        if not places:
            return [], []
        given: list[Any] = []
        found: list[int] = []
        for n, argument in (*enumerate(self.args), *self.kwargs.items()):
            a = self.arguments.get(n)
            leaves: list[Any] = tree.flatten(argument)[0] if a is None else a.leaves
            places_of = [None] * len(leaves) if a is None else a.places
            found += [len(given) + k for k, place in enumerate(places_of) if place in places]
            given += leaves
        return given, found

    def results(self, outputs: Sequence[Value]) -> tuple[Any, Any]:
        """The trees of the result and of aux, from the results of the flat function."""
        assert self.structure is not None
        return tree.unflatten(self.structure, outputs[: self.count]), self.auxiliary(outputs[self.count :])

    def auxiliary(self, tensors: Sequence[Value]) -> Any:
        """The tree of aux, from its tensors."""
        assert self.aux_structure is not None
        rest = iter(tensors)
        return tree.unflatten(self.aux_structure, [next(rest) if isinstance(x, Value) else x for x in self.aux])

    def restore(self, found: Sequence[Any]) -> tuple[Any, ...]:
        """One tree for each argument, with the value for each primal; None where an argument is not differentiated."""
        return tuple(
            tree.unflatten(a.structure, [None if place is None else found[place] for place in a.places])
            for a in self.arguments.values()
        )
