"""`primitive`: define an operation outside of the package, with its kernel, its derivative and its batching."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from inspect import Parameter, Signature, signature
from typing import Any, Final, cast

from nacre.api.extending.checks import require_function, require_version
from nacre.api.extending.expression import ScalarExpression
from nacre.api.extending.nest import kernel_of_text
from nacre.api.extending.parameters import Declared, declared, plain_params
from nacre.api.extending.rules import (
    Rule,
    Transposes,
    batch_rule,
    no_derivative,
    partial_rule,
    require_sizes,
    tangent_rule,
)
from nacre.api.extending.running import running
from nacre.api.operands import TensorLike, as_tensor, operands
from nacre.api.tensor import Tensor
from nacre.base.arguments import shown
from nacre.base.dtypes import ALL, FLOATS, DType, as_dtype, float32
from nacre.base.errors import ArgumentError, DTypeError, Error, KindError, ShapeError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.ir.primitive import (
    BatchRule,
    Constant,
    Derivative,
    Element,
    Jvp,
    Multilinear,
    Nest,
    Operand,
    Pointwise,
    Primitive,
    known_primitive,
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

PLACES: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
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
    `transposes[i](g, *xs)` is the cotangent of operand i, for an operation that is linear in it when the others are
    fixed.  The operation is linear in operands i and j together, as a sum is, if rule i does not read operand j.
    `jvp(y, xs, ts)` is the tangent of the result, linear in `ts`, in which None is no tangent.  Both may return None
    for zero.  None in the place of a rule makes it an error to differentiate by the operand.  Rules call public
    functions, run when a program is made, and depend on their arguments alone.

    `batch(xs, axes)` gives the result for batched operands and its batch axis, or None; `element` needs none.
    Keyword-only parameters of `element` or `result` are parameters of the function, and every rule takes them by name.
    `result(*types)` must name each operand.

    Programs of the primitive are stored on disk and saved only with a `version`; give a new one whenever a rule
    changes.  A name may be defined again; earlier functions have their old definition.

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
    rules = {"element": element, "nest": nest, "result": result, "jvp": jvp, "batch": batch}
    _require_definition(name, rules, version)
    lists = _derivatives(partials, transposes, jvp, element is not None)
    main = element or result
    assert main is not None
    count, params = _places(main), declared(name, _parameters(main))
    _require_rules(name, lists, {"jvp": jvp, "batch": batch, "nest": nest}, count, params)
    found = _Definition(
        name, count, _dtypes(dtypes), params, lists["partials"], lists["transposes"], jvp, batch, version
    )
    if element is not None:
        return found.pointwise(element)
    assert nest is not None and result is not None
    return found.explicit(nest, result)


@dataclass(frozen=True)
class _Definition:
    """The common part of both forms of a definition."""

    name: str
    count: int  # of operands
    dtypes: tuple[DType, ...]
    params: Declared
    partials: tuple[Rule | None, ...] | None
    transposes: tuple[Rule | None, ...] | None
    jvp: Rule | None
    batch: Rule | None
    version: str
    made: dict[DType, DType] = field(default_factory=dict[DType, DType])  # dtypes of results, without parameters

    def pointwise(self, element: Rule) -> Callable[..., Tensor]:
        """The function of a primitive whose elements are expressions."""
        count, name, made = self.count, self.name, self.made
        if _plain(element):
            made.update({d: _result_dtype(name, element, count, d, {}) for d in self.dtypes})

        def type_rule(*types: TensorType, **params: Any) -> TensorType:
            """The operands' common shape, with the dtype of the expression."""
            x = require_same(name, types)
            dtype = made.get(x.dtype)
            return x.with_dtype(dtype or _result_dtype(name, element, count, x.dtype, plain_params(params)))

        def rule(
            index: tuple[Expr, ...], read: tuple[Operand, ...], types: Any, result: TensorType, /, **params: Any
        ) -> Expr:
            """The expression of the operands' elements at the index."""
            return _expression(name, element, [operand(index) for operand in read], plain_params(params))

        def lined(inputs: Sequence[Value], axes: Sequence[int | None], /, **params: Any) -> tuple[Value, int]:
            """Align the batch axes and apply the operation once."""
            met, place = line_up(inputs, axes)
            return bind(defined, *met, **params), place

        def applied(*xs: TensorLike, **params: Any) -> Tensor:
            """Promote and broadcast the operands, and apply the primitive."""
            held = self.arranged(xs, params)
            met = operands(name, *xs) if len(xs) > 1 else list(map(as_tensor, xs))
            self.require_dtype(met[0].type.dtype)
            return bind(defined, *met, **held)

        defined = self.define(type_rule, Element(rule, cost=COST), lined)
        return _named(applied, defined, element)

    def explicit(self, nest: Rule, result: Rule) -> Callable[..., Tensor]:
        """The function of a primitive with its own nest."""
        name = self.name

        def type_rule(*types: TensorType, **params: Any) -> TensorType:
            """The type according to the definition."""
            with running(f"result of {name}"):
                return _as_type(name, result(*types, **plain_params(params)))

        def rule(types: tuple[TensorType, ...], results: tuple[TensorType, ...], /, **params: Any) -> Kernel:
            """The kernel of the definition's text."""
            with running(f"nest of {name}"):
                return kernel_of_text(name, nest(types, results[0], **plain_params(params)), types, results)

        def applied(*xs: TensorLike, **params: Any) -> Tensor:
            """Apply the primitive to the unchanged operands."""
            held = self.arranged(xs, params)
            met = [as_tensor(x) for x in xs]
            for x in met:
                self.require_dtype(x.type.dtype)
            return bind(defined, *met, **held)

        defined = self.define(type_rule, Nest(rule), None)
        return _named(applied, defined, result)

    def define(self, type_rule: Rule, lowering: Element | Nest, batch: BatchRule | None) -> Primitive:
        """The primitive, which replaces an earlier one of its name."""

        def result(types: tuple[TensorType, ...], params: Mapping[str, Any]) -> TensorType:
            """The type of the result."""
            return type_rule(*types, **params)

        withdraw(self.name)
        derivative = self.derivative(result)
        batch = batch if self.batch is None else batch_rule(self.name, self.batch, result)
        arranged = self.params.arranged
        return Primitive(self.name, type_rule, lowering, derivative, batch, arranged=arranged, version=self.version)

    def derivative(self, result: Callable[[tuple[TensorType, ...], Mapping[str, Any]], TensorType]) -> Derivative:
        """The derivative by the rules of the definition."""
        name = self.name
        if self.partials is not None:
            return Pointwise(tuple(partial_rule(name, k, rule) for k, rule in enumerate(self.partials)))
        if self.transposes is not None:
            held = Transposes(name, self.transposes, result)
            return Multilinear(tuple(map(held.transposed, range(self.count))), held.together)
        if self.jvp is not None:
            return Jvp(tangent_rule(name, self.jvp))
        if self.made and not any(d.is_differentiable for d in self.made.values()):
            return Constant()
        return Jvp(no_derivative(name))

    def arranged(self, given: tuple[TensorLike, ...], params: dict[str, Any]) -> dict[str, Any]:
        """All parameters of a call, with defaults.  Raises ArgumentError for a wrong number of operands."""
        if len(given) != self.count:
            raise ArgumentError(
                f"{self.name}: the operation takes {self.count} operands; got {len(given)}; pass one tensor for each"
            )
        return self.params.arranged(params) if params or self.params.defaults else params

    def require_dtype(self, dtype: DType) -> None:
        """Raise DTypeError unless operands may have the dtype."""
        if dtype not in self.dtypes:
            known = ", ".join(d.name for d in self.dtypes)
            remedy = f"x.astype(nacre.{(float32 if float32 in self.dtypes else self.dtypes[0]).name})"
            raise DTypeError(f"{self.name}: operands must have dtype {known}; got {dtype.name}; write {remedy}")


# ---- checks of a definition


def _require_definition(name: object, rules: Mapping[str, object], version: object) -> None:
    """Raise an error unless a definition has a name, one of the forms, functions for rules, and a version."""
    _require_name(name)
    given = [word for word in ("element", "nest", "result") if rules[word] is not None]
    if given not in (["element"], ["nest", "result"]):
        raise ArgumentError(f"primitive: element, or nest with result, must be given; got {given}; {FORMS}")
    for word, rule in rules.items():
        if rule is not None:
            require_function("primitive", word, rule)
    require_version("primitive", version)


def _require_name(name: object) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name in RESERVED:
        raise ArgumentError(
            f"primitive: the name must be an identifier of letters, digits and _; got {shown(name)}; "
            "write a name such as 'swish'"
        )
    known = known_primitive(name)
    if known is not None and not known.outside:
        raise ArgumentError(f"primitive: the name must be new; got {name!r}, which Nacre defines; put a prefix before")


def _dtypes(dtypes: Sequence[DType]) -> tuple[DType, ...]:
    found = tuple(as_dtype(d) for d in dtypes)
    if not found:
        known = ", ".join(d.name for d in ALL)
        raise ArgumentError(f"primitive: dtypes must not be empty; got {shown(dtypes)}; list some of {known}")
    for d in found:
        if d.is_storage:
            raise DTypeError(
                f"primitive: dtypes must have arithmetic; got {d.name}, which is only stored; list {d.number.name}, "
                f"and write x.astype(nacre.{d.number.name}) before the call"
            )
    return found


Lists = dict[str, tuple[Rule | None, ...] | None]


def _derivatives(partials: Any, transposes: Any, jvp: Rule | None, elementwise: bool) -> Lists:
    """The lists of rules by their words.  Raises ArgumentError for more than one derivative."""
    lists = {"partials": _listed("partials", partials), "transposes": _listed("transposes", transposes)}
    given = [word for word, rule in (*lists.items(), ("jvp", jvp)) if rule is not None]
    if len(given) > 1:
        raise ArgumentError(f"primitive: a derivative must be given once; got {' and '.join(given)}; keep one of them")
    if partials is not None and not elementwise:
        raise ArgumentError("primitive: partials must belong to an element; got a nest; write transposes or jvp")
    return lists


def _listed(word: str, rules: Any) -> tuple[Rule | None, ...] | None:
    """The rules of a list; raises KindError unless they are functions, or None."""
    if rules is None:
        return None
    if not isinstance(rules, list | tuple):
        raise KindError(f"primitive: {word} must be a list of functions; got {shown(rules)}; write [f]")
    listed = tuple(cast("Sequence[Any]", rules))
    for k, rule in enumerate(listed):
        if rule is not None and not callable(rule):
            raise KindError(f"primitive: {word}[{k}] must be a function, or None; got {shown(rule)}; pass a lambda")
    return listed


ARGUMENTS: Final = {"jvp": ("y", "xs", "ts"), "batch": ("xs", "axes"), "nest": ("types", "type")}


def _require_rules(name: str, lists: Lists, others: Mapping[str, Rule | None], count: int, params: Declared) -> None:
    """Raise ArgumentError unless each list has a rule for each operand, and each rule takes its arguments."""
    for word, rule in others.items():
        _require_arguments(f"{word} of {name}", rule, ARGUMENTS[word], params)
    for word, rules in lists.items():
        if rules is not None and len(rules) != count:
            raise ArgumentError(
                f"primitive: {name} must have a rule of its derivative for each of {count} operands; "
                f"got {len(rules)}; write None for an operand that is not differentiated"
            )
        given = ["y" if word == "partials" else "g", *(f"x{k}" for k in range(count))]
        for k, rule in enumerate(rules or ()):
            _require_arguments(f"{word}[{k}] of {name}", rule, given, params)


def _require_arguments(what: str, rule: Rule | None, given: Sequence[str], params: Declared) -> None:
    """Raise KindError unless a rule takes its arguments, and the parameters by name."""
    if rule is None:
        return
    try:
        taken = signature(rule)
    except (TypeError, ValueError):  # a builtin without a signature
        return
    try:
        taken.bind(*given, **dict.fromkeys(params.defaults))
    except TypeError as fault:
        wanted = ", ".join([*given, *(["*", *params.defaults] if params.defaults else [])])
        raise KindError(f"primitive: {what} must take ({wanted}); got {taken}: {fault}") from None


def _parameters(rule: Rule) -> list[Parameter]:
    return list(signature(rule).parameters.values())


def _plain(rule: Rule) -> bool:
    """Whether a rule has no parameters besides the operands."""
    return all(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in _parameters(rule))


def _places(rule: Rule) -> int:
    """The number of operands that a rule takes."""
    listed = _parameters(rule)
    count = sum(p.kind in PLACES for p in listed)
    if not count or any(p.kind is p.VAR_POSITIONAL for p in listed):
        raise ArgumentError(
            f"primitive: element or result must have a parameter for each operand; got {signature(rule)}; "
            "write, for example, `lambda x, y: x * y`"
        )
    return count


def _named(applied: Callable[..., Tensor], defined: Primitive, rule: Rule) -> Callable[..., Tensor]:
    places = [p.replace(kind=p.POSITIONAL_ONLY) for p in _parameters(rule) if p.kind in PLACES]
    keywords = [p for p in _parameters(rule) if p.kind not in PLACES]
    applied.__signature__ = Signature([*places, *keywords])  # type: ignore[attr-defined] - names for `dynamic_shapes`
    applied.__name__ = applied.__qualname__ = defined.name
    applied.__doc__ = rule.__doc__ or f"The primitive {defined.name}."
    applied.primitive = defined  # type: ignore[attr-defined] - for `register_kernel`
    return applied


# ---- expressions and types of a definition


def _expression(name: str, element: Rule, read: Sequence[Expr], params: dict[str, Any]) -> Expr:
    with running(f"element of {name}"):
        found = element(*map(ScalarExpression, read), **params)
    if not isinstance(found, ScalarExpression):
        raise KindError(
            f"primitive: the element of {name} must be an expression; got {shown(found)}; compute it from its "
            'arguments, as in `x * x.apply("exp")`'
        )
    return found.expr


def _result_dtype(name: str, element: Rule, count: int, dtype: DType, params: dict[str, Any]) -> DType:
    """The dtype of the expression for operands of a dtype, after a check of the expression's own types."""
    inputs = tuple(Buffer(f"x{k}", dtype, ()) for k in range(count))
    reads = [Local(f"v{k}", dtype) for k in range(count)]
    expr = _expression(name, element, reads, params)
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
        require_sizes(name, found.shape)
        return found
    try:
        shape, dtype = found
        require_sizes(name, tuple(shape))
        return TensorType(tuple(shape), as_dtype(dtype))
    except ShapeError:
        raise
    except (TypeError, ValueError):
        raise KindError(
            f"primitive: the result of {name} must be a type, or a shape and a dtype; got {shown(found)}; "
            "return, for example, `(x.shape, x.dtype)`"
        ) from None
