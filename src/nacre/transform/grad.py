"""Derivatives of functions: `grad`, `value_and_grad`, `vjp`, `jvp`, `jacfwd`, `jacrev`, `hessian`.

Arguments and results may be trees: tuples, lists, dictionaries, modules.  For an argument that holds variables, such as
a module, the derivative is with respect to the variables that require a gradient.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, overload

from nacre.base import tree
from nacre.base.dims import Size, product
from nacre.base.dtypes import int64
from nacre.base.errors import ArgumentError, DepthError, DTypeError, Error, GradientError
from nacre.base.types import TensorType, unlike
from nacre.interpret import forward
from nacre.interpret.batch import batch, to_axis
from nacre.interpret.evaluate import to_numpy
from nacre.interpret.vjp import vjp as vjp_of_values
from nacre.interpret.vjp import with_zeros
from nacre.ops.pointwise import cast, eq, full_like, iota
from nacre.ops.view import reshape
from nacre.trace.function_types import P, R, T, V
from nacre.trace.value import Value, is_concrete
from nacre.trace.variable import scope
from nacre.transform.arguments import Argnums, Arguments, as_value, chosen, is_one, is_pair, is_tensor, like, unaliased

__all__ = [
    "grad",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "value_and_grad",
    "vjp",
]

Function = Callable[..., Any]


@overload
def grad(
    f: Callable[Concatenate[T, P], Any], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> Callable[Concatenate[T, P], T]: ...
@overload
def grad(f: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[P, Any]: ...
def grad(f: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """The function that computes the gradient of f, which must return a floating-point scalar.

    `argnums` is the position or the name of an argument, whose structure the gradient has.  With several of them in a
    tuple, the gradient is a tuple.  For complex arguments it is the direction of steepest ascent, ∂f/∂x + i·∂f/∂y.
    With `has_aux`, f returns `(scalar, aux)` and the new function `(gradient, aux)`.

    Raises GradientError if the result is not a scalar, and DTypeError if an input is not floating-point.

    >>> import nacre as nc
    >>> nc.grad(lambda x: (x * x).sum())(nc.tensor([1.0, 2.0]))
    Tensor([2., 4.], f32[2])
    """
    inner = value_and_grad(f, argnums, has_aux)

    @like(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        """The gradient at the arguments, with the auxiliary result where there is one."""
        value, found = inner(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


@overload
def value_and_grad(
    f: Callable[Concatenate[T, P], R], argnums: Literal[0] = 0, has_aux: bool = False
) -> Callable[Concatenate[T, P], tuple[R, T]]: ...
@overload
def value_and_grad(f: Callable[P, R], argnums: Argnums = 0, has_aux: bool = False) -> Callable[P, tuple[R, Any]]: ...
def value_and_grad(f: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """The function that computes f's value and its gradient, as `grad` does; with aux the value is `(scalar, aux)`.

    >>> import nacre as nc
    >>> nc.value_and_grad(lambda x: (x * x).sum())(nc.tensor([1.0, 2.0]))
    (Tensor(5., f32[]), Tensor([2., 4.], f32[2]))
    """

    @like(f)
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        """The value and the gradient at the arguments."""
        arguments = Arguments("grad", args, kwargs, chosen(argnums, f, args, kwargs, "grad"))
        try:
            outputs, pull = vjp_of_values(arguments.flat(f, has_aux, _require_scalar), arguments.primals)
        except RecursionError as fault:
            if isinstance(fault, Error) or scope() is not None:  # the outer trace adds its own note
                raise
            raise DepthError(
                "grad: calls must not be nested deeper than Python's recursion limit; nested derivatives or f reached "
                f"the limit of {sys.getrecursionlimit()}; nest fewer, or raise it with sys.setrecursionlimit"
            ) from None
        loss = outputs[0]
        cotangents = pull([full_like(loss, 1), *(None for _ in outputs[1:])], retain_graph=False)
        gradients = arguments.restore(with_zeros(cotangents, arguments.primals))
        loss, *_ = outputs = unaliased(outputs, arguments.primals)
        _, aux = arguments.results(outputs)
        return ((loss, aux) if has_aux else loss), gradients[0] if is_one(argnums) else gradients

    return value_and_gradient


def _kind(x: Any) -> str:
    return f"a tensor of type {x.type}" if isinstance(x, Value) else type(x).__name__


def _require_scalar(result: Any) -> None:
    if not is_tensor(result) and not isinstance(result, float):
        remedy = "write has_aux=True for (scalar, aux), or vjp for trees" if is_pair(result) else "use vjp for trees"
        raise GradientError(f"grad: the result of f must be a scalar tensor; got {_kind(result)}; {remedy}")
    loss = as_value(result).type
    if loss.shape != ():
        raise GradientError(
            f"grad: the result of f must be a scalar; got type {loss}; reduce it with sum() or mean(), or use jacrev"
        )
    if not loss.dtype.is_float:
        remedy = "take its real part, or its abs" if loss.dtype.is_complex else "convert it with `astype`"
        raise DTypeError(f"grad: the result of f must be floating-point; got type {loss}; {remedy}")


@overload
def vjp(
    f: Callable[..., R], *primals: Any, has_aux: Literal[False] = False
) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...
@overload
def vjp(f: Function, *primals: Any, has_aux: bool) -> Any: ...
def vjp(f: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The result of f at the primals, and the function from its cotangent to a tuple of the primals' cotangents.

    With `has_aux`, f returns `(result, aux)`, and vjp returns `(result, pullback, aux)`.

    >>> import nacre as nc
    >>> y, pullback = nc.vjp(lambda x: x * x, nc.tensor(3.0))
    >>> pullback(nc.tensor(1.0))
    (Tensor(6., f32[]),)
    """
    arguments = Arguments("vjp", primals, {}, range(len(primals)), floats_only=False)
    outputs, pull = vjp_of_values(arguments.flat(f, has_aux), arguments.primals)
    nothing = [None] * (len(outputs) - arguments.count)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        """The cotangents of the arguments from one of the result."""
        given = _like("vjp: a cotangent", cotangent, arguments.structure, outputs[: arguments.count])
        return arguments.restore(unaliased(with_zeros(pull([*given, *nothing]), arguments.primals), given))

    result, aux = arguments.results(unaliased(outputs, arguments.primals))
    return (result, pullback, aux) if has_aux else (result, pullback)


def _like(what: str, given: Any, structure: tree.Structure | None, wanted: Sequence[Value]) -> list[Value]:
    """The leaves of a tree, which must have the structure and types of the given values."""
    leaves, found = tree.flatten(given)
    if found != structure:
        raise ArgumentError(f"{what} must have structure {structure}; got {found}")
    values = [as_value(leaf, what) for leaf in leaves]
    for x, y in zip(values, wanted, strict=True):
        if x.type is not y.type:
            raise unlike(what, y.type, x.type)
    return values


@overload
def jvp(
    f: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[False] = False
) -> tuple[R, R]: ...
@overload
def jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool) -> Any: ...
def jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """The result of f at the primals, and its tangent in the given direction, by forward mode.

    `primals` and `tangents` are tuples of f's arguments; None in a tangent's tree is zero.  With `has_aux`, f returns
    `(result, aux)`, and aux comes third.

    >>> import nacre as nc
    >>> nc.jvp(lambda x: x * x, (nc.tensor(3.0),), (nc.tensor(1.0),))
    (Tensor(9., f32[]), Tensor(6., f32[]))
    """
    return directional("jvp", f, primals, tangents, has_aux)


def directional(
    operation: str, f: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """`jvp` by the name of a public function, which its errors begin with."""
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise ArgumentError(f"{operation}: primals and tangents must be tuples; write {operation}(f, (x,), (t,))")
    arguments = Arguments(operation, primals, {}, range(len(primals)))
    given = _tangents(arguments, tangents)
    ys, ts = forward.jvp(arguments.flat(f, has_aux), arguments.primals, given)
    result, aux = arguments.results(unaliased(ys, arguments.primals))
    moved, _ = arguments.results(unaliased(with_zeros(ts, ys), given))
    return (result, moved, aux) if has_aux else (result, moved)


def _tangents(arguments: Arguments, tangents: Sequence[Any]) -> list[Value | None]:
    operation = arguments.operation
    if len(tangents) != len(arguments.arguments):
        raise ArgumentError(
            f"{operation}: each of the {len(arguments.arguments)} primals needs a tangent; got {len(tangents)}"
        )
    found: list[Value | None] = [None] * len(arguments.primals)
    for a, tangent in zip(arguments.arguments.values(), tangents, strict=True):
        leaves = tree.leaves_as(a.structure, tangent, f"{operation}: a tangent")
        for place, leaf in zip(a.places, leaves, strict=True):
            if place is not None and leaf is not None:
                primal, before = arguments.primals[place], found[place]
                found[place] = given = _like(f"{operation}: a tangent", leaf, tree.LEAF, [primal])[0]
                if before is not None and not _equal(before, given):
                    raise ArgumentError(
                        f"{operation}: a variable that occurs several times must have one tangent; got different ones"
                    )
    return found


def _equal(x: Value, y: Value) -> bool:
    """Whether two values are known to be equal."""
    if x.content is y.content and x.layout is y.layout:
        return True
    return is_concrete(x) and is_concrete(y) and bool((to_numpy(x) == to_numpy(y)).all())


# ---- Jacobians


@overload
def jacfwd(
    f: Callable[Concatenate[V, P], V], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> Callable[Concatenate[V, P], V]: ...
@overload
def jacfwd(f: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[P, Any]: ...
def jacfwd(f: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """The Jacobian of f by forward mode, with one pass for each input element: for few inputs and many outputs.

    For a result of shape R and an input of shape S the Jacobian has shape R + S; that of an integer result is zero.
    For trees it is the result's tree, with the input's tree in place of each leaf.  `argnums` is as in `grad`.  With
    `has_aux`, f returns `(result, aux)` and the new function `(Jacobian, aux)`.  Raises DTypeError for complex inputs.

    >>> import nacre as nc
    >>> nc.jacfwd(lambda x: x * x)(nc.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    return _forward_jacobian("jacfwd", f, argnums, has_aux)


def _forward_jacobian(operation: str, f: Function, argnums: Argnums, has_aux: bool) -> Function:
    """`jacfwd` by the name of a public function, which its errors begin with."""

    @like(f)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        """The Jacobian at the arguments, column by column."""
        arguments = Arguments(operation, args, kwargs, chosen(argnums, f, args, kwargs, operation))
        primals, flat = arguments.primals, arguments.flat(f, has_aux)
        _require_real(f"{operation}: inputs", primals, "write jvp for the derivative in one direction")
        columns: list[list[Value]] = []
        extra = [] if primals else flat()[arguments.count :]  # without an element there is no pass
        for k, x in enumerate(primals):
            size = x.type.size

            def push(t: Value, at: int = k) -> list[Value]:
                """The results' tangents from one tangent of the k-th argument, then the tensors of aux."""
                ys, ts = forward.jvp(flat, primals, [t if i == at else None for i in range(len(primals))])
                n = arguments.count
                return with_zeros(ts[:n], ys[:n]) + ys[n:]

            found, axes = batch(push, [_basis(x.type)], [0], size)
            n = arguments.count
            moved = [to_axis(c, a, _rank(c, a), size) for c, a in zip(found[:n], axes, strict=False)]
            extra[:] = found[n:]
            floats = [c if c.type.dtype.is_differentiable else cast(c, x.type.dtype) for c in moved]
            columns.append([reshape(c, (*c.type.shape[:-1], *x.type.shape)) for c in floats])
        return _blocks(arguments, columns, argnums, extra, has_aux)

    return jacobian


def _require_real(what: str, values: Sequence[Value], remedy: str) -> None:
    """Raise DTypeError for complex values: where a function is not holomorphic, one number cannot be its derivative."""
    for x in values:
        if x.type.dtype.is_complex:
            raise DTypeError(f"{what} must be real; got {x.type}; {remedy}")


def _rank(x: Value, axis: int | None) -> int:
    return x.type.rank - (axis is not None)


@overload
def jacrev(
    f: Callable[Concatenate[V, P], V], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> Callable[Concatenate[V, P], V]: ...
@overload
def jacrev(f: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[P, Any]: ...
def jacrev(f: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """The Jacobian of f by reverse mode, with one pass for each result element: for few outputs and many inputs.

    Shapes are as in `jacfwd`.  Raises DTypeError for complex results.

    >>> import nacre as nc
    >>> nc.jacrev(lambda x: (x * x).sum())(nc.tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """

    return _reverse_jacobian("jacrev", f, argnums, has_aux)


def _reverse_jacobian(operation: str, f: Function, argnums: Argnums, has_aux: bool) -> Function:
    """`jacrev` by the name of a public function, which its errors begin with."""

    @like(f)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        """The Jacobian at the arguments, row by row."""
        arguments = Arguments(operation, args, kwargs, chosen(argnums, f, args, kwargs, operation))
        primals = arguments.primals
        outputs, pull = vjp_of_values(arguments.flat(f, has_aux), primals)
        _require_real(
            f"{operation}: results", outputs[: arguments.count], "return nacre.view_as_real of them, or write vjp"
        )
        rows: list[list[Value]] = []
        for k, y in enumerate(outputs[: arguments.count]):
            size = y.type.size

            def pull_one(c: Value, at: int = k) -> list[Value]:
                """The arguments' cotangents from one cotangent of the k-th result."""
                return with_zeros(pull([c if i == at else None for i in range(len(outputs))]), primals)

            found, axes = batch(pull_one, [_basis(y.type)], [0], size)
            fronted = [to_axis(g, a, 0, size) for g, a in zip(found, axes, strict=True)]
            rows.append([reshape(g, (*y.type.shape, *g.type.shape[1:])) for g in fronted])
        extra = unaliased(outputs[arguments.count :], primals)
        return _blocks(arguments, [list(column) for column in zip(*rows, strict=True)], argnums, extra, has_aux)

    return jacobian


def _basis(type: TensorType) -> Value:
    """One-hot values of a type along a new leading axis."""
    size: Size = product(type.shape)
    shape = (size, size)
    hot = cast(eq(iota(shape, 0, int64), iota(shape, 1, int64)), type.dtype)
    return reshape(hot, (size, *type.shape))


def _blocks(
    arguments: Arguments, columns: Sequence[Sequence[Value]], argnums: Argnums, extra: Sequence[Value], has_aux: bool
) -> Any:
    """The result tree with each leaf replaced by the arguments' trees; `columns[i][j]` is d result j / d primal i.

    With aux, whose tensors are `extra`, a pair with it.
    """
    assert arguments.structure is not None
    blocks: list[Any] = []
    for j in range(arguments.count):
        restored = arguments.restore([column[j] for column in columns])
        blocks.append(restored[0] if is_one(argnums) else restored)
    whole = tree.unflatten(arguments.structure, blocks)
    return (whole, arguments.auxiliary(extra)) if has_aux else whole


@overload
def hessian(
    f: Callable[Concatenate[V, P], V], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> Callable[Concatenate[V, P], V]: ...
@overload
def hessian(f: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[P, Any]: ...
def hessian(f: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """The matrix of second derivatives of f, by forward mode over reverse mode.

    >>> import nacre as nc
    >>> nc.hessian(lambda x: (x * x * x).sum())(nc.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    inner = _reverse_jacobian("hessian", f, argnums, has_aux)
    return _forward_jacobian("hessian", inner, argnums, has_aux)
