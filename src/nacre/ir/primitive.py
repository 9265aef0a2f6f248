"""`Primitive`: the complete definition of an operation, and the registry of primitives by name.

A primitive defines its type rule, its lowering to kernel IR, its derivative (one rule for both modes) and its batching
rule.  Derivative and batching rules call other primitives on values, so they run under every interpreter: eager,
staged, differentiated again, batched.

Primitives never broadcast or promote; the public functions do that first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from functools import cache
from importlib import import_module
from typing import Any, Generic, Self, TypeVar

from nacre.base.dims import Size
from nacre.base.dtypes import DType
from nacre.base.errors import ArgumentError
from nacre.base.records import dataclass
from nacre.base.types import Shape, TensorType
from nacre.ir.axes import AxisMap, AxisRule
from nacre.kernel.ast import Expr, Kernel

Params = Mapping[str, Hashable]
LOW, SINGLE = "low", "float32"  # precisions of operands inside of `autocast`


class ProcessParameter:
    """A parameter that exists only in this process, such as a Python function.  Text shows its name."""

    name: str

    def with_sizes(self, sizes: Mapping[str, Any]) -> Self:
        """The parameter with numbers, or other sizes, for its symbolic sizes."""
        return self


TypeRule = Callable[..., Any]  # (*types, **params) -> TensorType, or a tuple of them if `multiple`

# ---- derivatives: exactly one kind for each primitive


@dataclass(frozen=True, slots=True)
class Constant:
    """The derivative is zero (comparisons, integers, rounding)."""


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Elementwise: `partials[i](y, *xs, **params)` is ∂y/∂xᵢ, a value of y's shape; None where it is zero.

    `linear` numbers the operands in which the operation is linear, each while the others are fixed.  The partial by
    such an operand reads neither its value nor the result.
    """

    partials: tuple[Callable[..., Any] | None, ...]
    linear: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Linear:
    """Jointly linear in the operands that have a transpose (add, sum, broadcast, slice, select's branches).

    `transposes[i](g, *xs, **params)` maps the cotangent of the result to that of operand i.  It is None for an operand
    that is not differentiated (an index, a condition).  xs are the operands: values, or a `LinearInput` (which has a
    `.type`) for the operand being transposed.  With several results, g is a tuple, in which None is a zero cotangent.

    `alone[i](t)`, if present, is the tangent of the result if only operand i has one; the others then need no zeros.
    """

    transposes: tuple[Callable[..., Any] | None, ...]
    alone: tuple[Callable[..., Any], ...] | None = None


@dataclass(frozen=True, slots=True)
class Multilinear:
    """Linear in each operand separately (mul, dot, convolution); `transposes` as in `Linear`.

    `together(i, types, params)`, if present, gives the other operands in which the operation is linear together with
    operand i: they are zero in the term of its tangent.
    """

    transposes: tuple[Callable[..., Any] | None, ...]
    together: Callable[[int, Sequence[TensorType], Params], frozenset[int]] | None = None


@dataclass(frozen=True, slots=True)
class Jvp:
    """All other primitives: `rule(ys, xs, ts, **params) -> tangents`, linear in ts, written with primitives.

    `ys` is the result (a tuple if the primitive has several).  `ts[i]` is None if operand i has no tangent.

    `transposes[i]`, as in `Linear`, belongs to an operand in which the operation is linear while the others are fixed.
    The rule may apply the primitive to its tangent.
    """

    rule: Callable[..., Any]
    transposes: tuple[Callable[..., Any] | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Structural:
    """A primitive with graph parameters: `interpret` registers how it is differentiated and batched."""


Derivative = Constant | Pointwise | Linear | Multilinear | Jvp | Structural


@dataclass(frozen=True, slots=True)
class LinearInput:
    """The operand of a linear equation that is being transposed: it has a type and no value."""

    type: TensorType

    @property
    def shape(self) -> Shape:
        """The shape."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """The dtype."""
        return self.type.dtype


# ---- lowerings: how a primitive becomes kernel IR

Operand = Callable[[tuple[Expr, ...]], Expr]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the elements of a view are stored: offset and strides, in elements of its buffer."""

    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Element:
    """Each element of the result is an expression over elements of the operands.

    `rule(index, operands, types, result, **params) -> Expr`: `index` has one int64 expression for each axis of the
    result, `operands[i](index)` reads operand i, `types` are the operands' types, and `result` is the result's type.

    `view(layout, type, result, **params) -> Layout | None`, if present, gives the result as a view of the operand's
    memory.

    `op` is the operation of kernel IR that the rule applies to the operands' elements at the index, if it is one.

    `resized` says that elements of the view have another size.  It is then one inside of programs alone, because eager
    views count their beginning in elements of the memory.
    """

    rule: Callable[..., Expr]
    view: Callable[..., Layout | None] | None = None
    cost: int = 1  # instructions for an element, roughly
    op: str | None = None
    resized: bool = False


@dataclass(frozen=True, slots=True)
class Reduce:
    """Fold the first operand over `params["axes"]` by one of the kernel IR's reductions, in the canonical order."""

    op: str


@dataclass(frozen=True, slots=True)
class Nest:
    """An explicit kernel: `rule(types, results, **params) -> Kernel`; its buffers are the operands, then the results.

    With `onto`, the result starts as a copy of that operand, in place if the operand has no later use.  The kernel does
    not read the operand and stores only changed elements.

    With `partial`, elements of results that the kernel does not store are zero.

    With `optimised`, LLVM's passes run on the kernel's code.  They keep every bit: no instruction has a fast-math flag.
    """

    rule: Callable[..., Kernel]
    onto: int | None = None
    partial: bool = False
    optimised: bool = False


@dataclass(frozen=True, slots=True)
class Template:
    """Kernels that `codegen` generates (matrix product, convolution) and `compile` registers; the family's name.

    `late` is the module of `compile.lowering` that registers them, if the first program that needs it imports it.
    """

    name: str
    late: str = ""


@dataclass(frozen=True, slots=True)
class Flow:
    """Control flow over graph parameters; `compile` registers how it is written into a program."""


@dataclass(frozen=True, slots=True)
class Host:
    """A call of a Python function in the middle of a program.

    `function(*arrays, **params)` gives the results, as a tuple of arrays.  It is pure: passes may remove and merge such
    equations.  Without it, the function is the user's, a parameter of the equation (see `ops.host`).
    """

    function: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """A check in the middle of a program, which ends with an error if it fails (see `ops.check`)."""


Lowering = Element | Reduce | Nest | Template | Flow | Host | RangeCheck


def operation(primitive: Primitive) -> str | None:
    """The operation of kernel IR that a primitive applies to elements, or reduces with; None if there is none."""
    low = primitive.lowering
    return low.op if isinstance(low, Element | Reduce) else None


def copies(primitive: Primitive) -> bool:
    """Whether a primitive only copies its operand's elements, in their order, to new memory."""
    low = primitive.lowering
    return primitive.keeps_order and isinstance(low, Element) and low.view is None


# batching: (inputs, axes, **params) -> (result(s), axis or axes); axes[i] is None without a batch axis
BatchRule = Callable[..., tuple[Any, Any]]

# ---- rules that later layers define

T = TypeVar("T")


class RuleKind(Generic[T]):
    """A kind of rule that a later layer defines, such as how control flow is batched; primitives store their rules."""

    def __init__(self, name: str) -> None:
        self.name = name

    def of(self, primitive: Primitive) -> T | None:
        """The rule of a primitive; None if it has none."""
        return primitive.rules.get(self)

    def required(self, primitive: Primitive) -> T:
        """The rule of a primitive that needs one."""
        found = self.of(primitive)
        if found is None:
            raise ArgumentError(
                f"{primitive.name}: the primitive must have a rule of the kind {self.name!r}; it has none; "
                "call `register_rule`"
            )
        return found


def register_rule(primitive: Primitive, kind: RuleKind[T], rule: T) -> None:
    """Give a primitive a rule of a kind; a later one replaces it."""
    primitive.rules[kind] = rule


@dataclass(frozen=True)
class FreeSizes:
    """Independent sizes, of which the operands' types and some parameters of a call consist.

    A slice, for example, has the elements before it, in it and behind it, so no stop is beyond the axis.  `names` are
    those parameters.  `of` (types, params) gives the sizes; one is negative if the call is an error.  `made` (types,
    params, sizes) gives the types and those parameters for other sizes.
    """

    names: frozenset[str]
    of: Callable[[Sequence[TensorType], Params], tuple[Size, ...]]
    made: Callable[[Sequence[TensorType], Params, Sequence[Size]], tuple[list[TensorType], dict[str, Any]]]


@dataclass(frozen=True, eq=False)
class Primitive:
    """An operation.  Compared and hashed by identity; registered under its name."""

    name: str
    type_rule: TypeRule
    lowering: Lowering
    derivative: Derivative = field(default_factory=Constant)
    batch: BatchRule | None = None
    multiple: bool = False  # several results, given as a tuple
    effects: bool = False  # must run once where it stands, even if its results are unused
    axes: AxisRule | None = None
    simplify: Callable[..., Any] | None = None  # (e, facts) -> Atom | Equation, see `ir.facts`
    is_one: Callable[..., bool] | None = None  # (e, facts): whether all elements of the result are known to be 1
    expansion: Callable[[Params], Any] | None = None  # (params): the graph that is equivalent to an equation
    axis_map: Callable[[Any], AxisMap] | None = None  # (e): see `ir.axes`
    fitted: Callable[..., Any] | None = None  # (types, params): the types, those that others determine made from them
    numbers: Callable[..., Any] | None = None  # (types, params): the sizes that its kernels must have as numbers
    free_sizes: FreeSizes | None = None  # where the sizes of operands and parameters bound each other
    keeps_order: bool = False  # the result has the operand's elements in the same row-major order
    converts: bool = False  # each element of the result is the operand's element in another dtype
    product: bool = False  # sums products of two factors over pairs of axes, `contract`, for each index of `batch`
    takes_prologue: bool = False  # its kernels may compute a pointwise cluster that only they read
    takes_epilogue: bool = False  # its kernels may compute a pointwise cluster that reads their result
    arranged: Callable[[Params], dict[str, Any]] | None = None  # checks parameters from outside, which == may confuse
    version: str | None = None  # of a definition outside of the package; programs without one are not cached on disk
    precision: str | None = None  # of its operands inside of autocast: LOW or SINGLE
    main_results: frozenset[str] | None = None  # the parameter `results` names the computed ones, at least one of these
    kernels: list[Any] = field(default_factory=list[Any])  # `compile` chooses among them, see `register_kernel`
    rules: dict[RuleKind[Any], Any] = field(default_factory=dict[RuleKind[Any], Any])  # see `register_rule`

    def __post_init__(self) -> None:
        late = _late.get(self.name)
        if self.name in _registry or (late is not None and late.module != self.type_rule.__module__):
            raise ArgumentError(f"primitive: the name must be new; {self.name!r} exists")
        _registry[self.name] = self
        if late is not None:
            late.own[self] = self.lowering

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return primitive_named, (self.name, self.version)

    def __copy__(self) -> Primitive:
        return self

    def __deepcopy__(self, memo: object) -> Primitive:
        return self

    @property
    def outside(self) -> bool:
        """Whether it is defined outside of the package."""
        return self.version is not None

    def result_types(self, types: tuple[TensorType, ...], params: Params) -> tuple[TensorType, ...]:
        """The types of the results, always as a tuple.  Raises the errors of the type rule."""
        found = self.type_rule(*types, **params)
        return found if self.multiple else (found,)


@dataclass(frozen=True, slots=True)
class LateHome:
    """The module that defines a primitive, and the table in which its lowering is noted then."""

    module: str
    own: dict[Primitive, Lowering]


_registry: dict[str, Primitive] = {}
_late: dict[str, LateHome] = {}  # by the primitives' names


def declare_late(homes: Mapping[str, str], own: dict[Primitive, Lowering]) -> None:
    """Declare primitives whose modules are imported when their names first occur, in graphs' text for example.

    `homes` has the primitives' names, separated by blanks, for each module.  The primitives are added to `own`.
    """
    _late.update({name: LateHome(module, own) for module, names in homes.items() for name in names.split()})


def known_primitive(name: str) -> Primitive | None:
    """The registered primitive of a name; None if there is none."""
    if name in _late:
        import_module(_late[name].module)
    return _registry.get(name)


def primitive_named(name: str, version: str | None = None) -> Primitive:
    """The registered primitive of a name, whose `version` must be this one if it is given."""
    found = known_primitive(name)
    if found is None:
        raise ArgumentError(
            f"primitive: a primitive must be named {name!r}; got none; import the module that defines it first"
        )
    if version is not None and found.version != version:
        raise ArgumentError(
            f"primitive: {name} must have version {version!r}; got {found.version!r}; import the module that defines "
            "that version"
        )
    return found


@cache
def applying(op: str) -> Primitive:
    """The package's primitive that applies an operation of kernel IR to elements, or reduces with it."""
    return next(p for p in _registry.values() if operation(p) == op and not p.outside)


def withdraw(name: str) -> None:
    """Unregister a name, so that it can be defined again; its primitive, if there is one, remains usable."""
    _registry.pop(name, None)


def registered() -> Mapping[str, Primitive]:
    """All primitives by name, also those of modules that are imported late."""
    for module in dict.fromkeys(late.module for late in _late.values()):
        import_module(module)
    return _registry
