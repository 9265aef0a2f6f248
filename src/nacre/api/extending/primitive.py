"""`primitive`: define an operation outside of the package, with its kernel, its derivative and its batching."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any, Final

from nacre.api.extending.expression import ScalarExpression
from nacre.api.extending.nest import kernel_of_text
from nacre.api.operands import TensorLike, as_tensor, filled, operands
from nacre.api.tensor import Tensor
from nacre.base.arguments import shown
from nacre.base.dtypes import ALL, FLOATS, DType, as_dtype, float32
from nacre.base.errors import ArgumentError, DTypeError, Error, GradientError, KindError, ShapeError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.ir.primitive import (
    BatchRule,
    Constant,
    Derivative,
    Element,
    Jvp,
    Linear,
    Nest,
    Operand,
    Pointwise,
    Primitive,
    registered,
    withdraw,
)
from nacre.ir.text import RESERVED
from nacre.kernel.ast import Buffer, Expr, Kernel, Let, Load, Local, Store
from nacre.kernel.verify import verify
from nacre.ops.rules import require_same
from nacre.ops.shape import line_up
from nacre.trace.bind import bind
from nacre.trace.value import Value

__all__ = ["primitive"]

Rule = Callable[..., Any]
COST: Final = 20  # approximate instructions for an element
FORMS: Final = "pass one of them: element=lambda x: x * x, or nest= with result="


def primitive(
    name: str,
    *,
    element: Rule | None = None,
    nest: Rule | None = None,
    result: Rule | None = None,
    dtypes: Sequence[DType] = FLOATS,
    partials: Sequence[Rule | None] | None = None,
    transposes: Sequence[Rule | None] | None = None,
    jvp: Rule | None = None,
    batch: Rule | None = None,
    version: str = "",
) -> Callable[..., Tensor]:
    """Define a primitive, and return the function that applies it to tensors.

    With `element`, each element of the result is an expression of one element of each operand.  It has Python's
    operators, `x.apply("exp")` for an operation of kernel IR, `condition.where(yes, no)` and `x.astype(dtype)`.  The
    function promotes and broadcasts its operands, whose dtype is then one of `dtypes`.

    With `nest`, `nest(types, type, **params)` is the text of a kernel in kernel IR: its inputs are the operands, and
    its output is the result, whose type is `result(*types, **params)`: a type, or a shape and a dtype.

    A derivative is one of three.  `partials[i](y, *xs)` is the derivative of the result by operand i, for `element`.
    `transposes[i](g, *xs)` is the cotangent of operand i, for an operation that is linear in these operands together.
    `jvp(y, xs, ts)` is the tangent of the result, linear in `ts`, in which None is no tangent.  None in the place of
    a rule means no derivative.  Rules call public functions, so they are differentiated and batched, too.

    `batch(xs, axes)` gives the result for batched operands, and its batch axis; `element` needs none.  Keyword-only
    parameters of `element` or `result` are parameters of the function, and every rule takes them by name.

    Programs of the primitive are stored on disk only with a `version`; give a new one whenever a rule changes.  A name
    may be defined again; earlier functions have their old definition.

    >>> swish = nc.primitive(
    ...     "swish",
    ...     element=lambda x: x * x.apply("sigmoid"),
    ...     partials=[lambda y, x: nc.sigmoid(x) * (1 + x - y)],
    ... )
    >>> swish([0.0, 1.0])
    Tensor([0.       , 0.7310586], f32[2])
    >>> nc.grad(lambda x: swish(x).sum())(nc.tensor([0.0, 1.0]))
    Tensor([0.5       , 0.92767054], f32[2])
    """
    _require_name(name)
    if (element is None) == (nest is None) or (nest is None) != (result is None):
        given = [n for n, rule in (("element", element), ("nest", nest), ("result", result)) if rule is not None]
        raise ArgumentError(f"primitive: element, or nest with result, must be given; got {given}; {FORMS}")
    for word, rule in (("element", element), ("nest", nest), ("result", result), ("jvp", jvp), ("batch", batch)):
        if rule is not None and not callable(rule):
            raise KindError(f"primitive: {word} must be a function; got {shown(rule)}; pass a lambda or a def")
    accepted = _dtypes(dtypes)
    found = _Definition(name, accepted, *_derivative(name, partials, transposes, jvp, element is not None), version)
    if element is not None:
        return found.pointwise(element, batch)
    assert nest is not None and result is not None
    return found.explicit(nest, result, batch)


@dataclass(frozen=True)
class _Definition:
    """The common part of both forms of a definition."""

    name: str
    dtypes: tuple[DType, ...]
    derivative: Derivative | None
    count: int | None  # number of the derivative's rules
    version: str

    def pointwise(self, element: Rule, batch: BatchRule | None) -> Callable[..., Tensor]:
        """The function of a primitive whose elements are expressions."""
        count, name = _places(element), self.name
        self.require_count(count)
        made = {d: _result_dtype(name, element, count, d) for d in self.dtypes} if _plain(element) else {}
        derivative = self.derivative
        if derivative is None and made and not any(d.is_differentiable for d in made.values()):
            derivative = Constant()

        def type_rule(*types: TensorType, **params: Any) -> TensorType:
            """The operands' common shape, with the dtype of the expression."""
            x = require_same(name, types)
            return x.with_dtype(made.get(x.dtype) or _result_dtype(name, element, count, x.dtype, params))

        def rule(
            index: tuple[Expr, ...], read: tuple[Operand, ...], types: Any, result: TensorType, **params: Any
        ) -> Expr:
            """The expression of the operands' elements at the index."""
            return _expression(name, element, [operand(index) for operand in read], params)

        def lined(inputs: Sequence[Value], axes: Sequence[int | None], **params: Any) -> tuple[Value, int]:
            """Align the batch axes and apply the operation once."""
            met, place = line_up(inputs, axes)
            return bind(defined, *met, **params), place

        def applied(*xs: TensorLike, **params: Any) -> Tensor:
            """Promote and broadcast the operands, and apply the primitive."""
            _require_operands(name, element, count, len(xs), params)
            met = operands(name, *xs) if len(xs) > 1 else list(map(as_tensor, xs))
            self.require_dtype(met[0].type.dtype)
            return bind(defined, *met, **params)

        defined = self.define(type_rule, Element(rule, cost=COST), derivative, batch or lined)
        return _named(applied, defined, element)

    def explicit(self, nest: Rule, result: Rule, batch: BatchRule | None) -> Callable[..., Tensor]:
        """The function of a primitive with its own nest."""
        count, name = _places(result), self.name
        self.require_count(count)

        def type_rule(*types: TensorType, **params: Any) -> TensorType:
            """The type according to the definition."""
            return _as_type(name, result(*types, **params))

        def rule(types: tuple[TensorType, ...], results: tuple[TensorType, ...], **params: Any) -> Kernel:
            """The kernel of the definition's text."""
            return kernel_of_text(name, nest(types, results[0], **params), types, results)

        def applied(*xs: TensorLike, **params: Any) -> Tensor:
            """Apply the primitive to the unchanged operands."""
            _require_operands(name, result, count, len(xs), params)
            met = [as_tensor(x) for x in xs]
            for x in met:
                self.require_dtype(x.type.dtype)
            return bind(defined, *met, **params)

        defined = self.define(type_rule, Nest(rule), self.derivative, batch)
        return _named(applied, defined, result)

    def define(
        self, type_rule: Rule, lowering: Element | Nest, derivative: Derivative | None, batch: BatchRule | None
    ) -> Primitive:
        """The primitive, which replaces an earlier one of its name."""
        withdraw(self.name)
        held = derivative or Jvp(_no_derivative(self.name))
        return Primitive(self.name, type_rule, lowering, held, batch, version=self.version)

    def require_count(self, count: int) -> None:
        """Raise ArgumentError unless there is a rule for each operand."""
        if self.count is not None and self.count != count:
            raise ArgumentError(
                f"primitive: {self.name} must have a rule of its derivative for each of {count} operands; "
                f"got {self.count}; write None for an operand that is not differentiated"
            )

    def require_dtype(self, dtype: DType) -> None:
        """Raise DTypeError unless operands may have the dtype."""
        if dtype not in self.dtypes:
            known = ", ".join(d.name for d in self.dtypes)
            remedy = f"x.astype(nacre.{(float32 if float32 in self.dtypes else self.dtypes[0]).name})"
            raise DTypeError(f"{self.name}: operands must have dtype {known}; got {dtype.name}; write {remedy}")


# ---- checks of a definition


def _require_name(name: object) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name in RESERVED:
        raise ArgumentError(
            f"primitive: the name must be an identifier of letters, digits and _; got {shown(name)}; "
            "write a name such as 'swish'"
        )
    known = registered().get(name)
    if known is not None and not known.outside:
        raise ArgumentError(f"primitive: the name must be new; got {name!r}, which Nacre defines; put a prefix before")


def _dtypes(dtypes: Sequence[DType]) -> tuple[DType, ...]:
    found = tuple(as_dtype(d) for d in dtypes)
    if not found:
        known = ", ".join(d.name for d in ALL)
        raise ArgumentError(f"primitive: dtypes must not be empty; got {shown(dtypes)}; list some of {known}")
    return found


def _derivative(
    name: str,
    partials: Sequence[Rule | None] | None,
    transposes: Sequence[Rule | None] | None,
    jvp: Rule | None,
    elementwise: bool,
) -> tuple[Derivative | None, int | None]:
    given = [word for word, r in (("partials", partials), ("transposes", transposes), ("jvp", jvp)) if r is not None]
    if len(given) > 1:
        raise ArgumentError(f"primitive: a derivative must be given once; got {' and '.join(given)}; keep one of them")
    if partials is not None:
        if not elementwise:
            raise ArgumentError("primitive: partials must belong to an element; got a nest; write transposes or jvp")
        return Pointwise(tuple(f and _partial(name, f) for f in partials)), len(partials)
    if transposes is not None:
        return Linear(tuple(transposes)), len(transposes)
    return (None if jvp is None else Jvp(jvp)), None


def _partial(name: str, rule: Rule) -> Rule:
    def checked(y: Value, *xs: Value, **params: Any) -> Any:
        """The partial derivative; a number stands for a tensor of it."""
        found = rule(y, *xs, **params)
        if isinstance(found, bool | int | float):
            return filled(y, float(found))
        held = as_tensor(found)
        if held.type != y.type:
            raise ShapeError(
                f"{name}: a partial derivative must have the type of the result, {y.type}; got {held.type}; "
                "compute it from the operands, element by element"
            )
        return held

    return checked


def _no_derivative(name: str) -> Rule:
    def refused(*args: Any, **params: Any) -> Any:
        """Raise GradientError."""
        raise GradientError(
            f"{name}: a derivative must be defined to differentiate it; got none; give `primitive` its partials, "
            "transposes or jvp"
        )

    return refused


def _parameters(rule: Rule) -> list[Parameter]:
    return list(signature(rule).parameters.values())


def _plain(rule: Rule) -> bool:
    """Whether a rule has no parameters besides the operands."""
    return all(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in _parameters(rule))


def _places(rule: Rule) -> int:
    """The number of operands that a rule takes."""
    listed = _parameters(rule)
    count = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in listed)
    if not count or any(p.kind is p.VAR_POSITIONAL for p in listed):
        raise ArgumentError(
            f"primitive: element or result must have a parameter for each operand; got {signature(rule)}; "
            "write, for example, `lambda x, y: x * y`"
        )
    return count


def _require_operands(name: str, rule: Rule, count: int, given: int, params: dict[str, Any]) -> None:
    """Raise ArgumentError unless a call has the operands and the parameters that a definition names."""
    if given != count:
        raise ArgumentError(f"{name}: the operation takes {count} operands; got {given}; pass one tensor for each")
    listed = [p for p in _parameters(rule) if p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
    if not listed and not params:
        return
    needed = {p.name for p in listed if p.kind is p.KEYWORD_ONLY and p.default is p.empty}
    known = {p.name for p in listed if p.kind is p.KEYWORD_ONLY}
    wrong: set[str] = params.keys() - known
    free = any(p.kind is p.VAR_KEYWORD for p in listed)
    if (wrong and not free) or needed - params.keys():
        raise KindError(
            f"{name}: the parameters must be {', '.join(sorted(known)) or 'none'}; got "
            f"{', '.join(params) or 'none'}; pass each that has no default by its name"
        )
    for word, value in params.items():
        try:
            hash(value)
        except TypeError:
            raise KindError(
                f"{name}: parameters must be numbers, strings, dtypes or tuples; got {word}={shown(value)}; "
                "pass tensors as operands"
            ) from None


def _named(applied: Callable[..., Tensor], defined: Primitive, rule: Rule) -> Callable[..., Tensor]:
    applied.__name__ = applied.__qualname__ = defined.name
    applied.__doc__ = rule.__doc__ or f"The primitive {defined.name}."
    applied.primitive = defined  # type: ignore[attr-defined] - for `register_kernel`
    return applied


# ---- expressions and types of a definition


def _expression(name: str, element: Rule, read: Sequence[Expr], params: dict[str, Any]) -> Expr:
    found = element(*map(ScalarExpression, read), **params)
    if not isinstance(found, ScalarExpression):
        raise KindError(
            f"primitive: the element of {name} must be an expression; got {shown(found)}; compute it from its "
            'arguments, as in `x * x.apply("exp")`'
        )
    return found.expr


def _result_dtype(name: str, element: Rule, count: int, dtype: DType, params: dict[str, Any] | None = None) -> DType:
    """The dtype of the expression for operands of a dtype, after a check of the expression's own types."""
    inputs = tuple(Buffer(f"x{k}", dtype, ()) for k in range(count))
    reads = [Local(f"v{k}", dtype) for k in range(count)]
    expr = _expression(name, element, reads, params or {})
    lets = [Let(f"v{k}", Load(f"x{k}", (), dtype)) for k in range(count)]
    body = (*lets, Store("y", (), expr))
    try:
        verify(Kernel(name, inputs, (Buffer("y", expr.dtype, ()),), body))
    except Error as fault:
        raise DTypeError(
            f"primitive: the element of {name} must be valid for {dtype.name}; got an expression that is not: {fault}; "
            "convert with astype, or leave the dtype out of dtypes"
        ) from None
    return expr.dtype


def _as_type(name: str, found: Any) -> TensorType:
    if isinstance(found, TensorType):
        return found
    try:
        shape, dtype = found
        return TensorType(tuple(shape), as_dtype(dtype))
    except (TypeError, ValueError):
        raise KindError(
            f"primitive: the result of {name} must be a type, or a shape and a dtype; got {shown(found)}; "
            "return, for example, `(x.shape, x.dtype)`"
        ) from None
