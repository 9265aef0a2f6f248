"""The forms of values that a program chooses or carries: trees of tensors, numbers and constant objects.

A value is *opened* into its leaves where it is made.  The form of two opened values (the ends of two branches, or the
begin and the end of an iteration) says which leaves the program holds, and of which type; the others must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any, Final, cast

import numpy as np

from nacre.base import tree
from nacre.base.conversion import bounds, element
from nacre.base.dtypes import bool_, float64, int64
from nacre.base.exact import exact_key
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.interpret.numbers.staged_number import StagedNumber
from nacre.interpret.numbers.traced_number import itself
from nacre.ir.graph import Atom, Equation, Literal, Var
from nacre.ops import pointwise
from nacre.ops.shape import broadcast_p
from nacre.trace.value import Payload, Value
from nacre.trace.variable import Variable
from nacre.transform.arguments import as_value
from nacre.transform.autograph.appends import AppendedList
from nacre.transform.autograph.cells import MISSING

CONTAINERS: Final = (tuple, list, dict)
PLAIN: Final = (str, bytes, type(None), type, frozenset)
WHOLE, FLOAT, TRUTH = TensorType((), int64), TensorType((), float64), TensorType((), bool_)
OF_KIND: Final[dict[type, TensorType]] = {int: WHOLE, float: FLOAT, bool: TRUTH}


@dataclass
class FormLeaf:
    """A leaf of a value: the object, and the tensor that has its numbers, if a program can hold these."""

    object: Any
    held: Value | None

    @property
    def kind(self) -> type | None:
        """The kind of a Python number; None for tensors and other objects."""
        x: Any = self.object
        kind = _class(x)
        if kind is StagedNumber:
            return x.kind
        return kind if kind in OF_KIND and (kind is not int or -(1 << 63) <= x < 1 << 63) else None

    @property
    def type(self) -> TensorType | None:
        """The type that the program would hold it with."""
        return self.held.type if self.held is not None else OF_KIND.get(self.kind) if self.kind else None  # type: ignore[arg-type]

    @property
    def shown(self) -> str:
        """Its description in messages."""
        if self.kind is not None:
            return (
                f"the {self.kind.__name__} {self.object}"
                if type(self.object) is not StagedNumber
                else f"a {self.kind.__name__}"
            )
        if self.held is not None:
            return f"a tensor of type {self.held.type}"
        if isinstance(self.object, complex):
            return f"the complex number {self.object}"
        if isinstance(self.object, int):
            return f"the int {self.object}, which has more than 64 bits"
        if isinstance(self.object, type | FunctionType):
            return f"the {'class' if isinstance(self.object, type) else 'function'} {self.object.__name__}"
        return repr(self.object) if self.is_plain else f"an object of {_class(self.object).__name__}"

    @property
    def is_plain(self) -> bool:
        """Whether it is a constant that is compared by its value."""
        return isinstance(self.object, PLAIN)


@dataclass
class Opened:
    """A value as its leaves."""

    value: Any
    leaves: list[FormLeaf]
    structure: tree.Structure | None  # None if the variable has no value

    @property
    def tensors(self) -> list[Value]:
        """The tensors that a program may hold, in order."""
        return [leaf.held for leaf in self.leaves if leaf.held is not None]

    @property
    def shown(self) -> str:
        """Its description in messages."""
        if self.structure is None:
            return "unbound"
        if self.structure == tree.LEAF:
            return self.leaves[0].shown
        kind = type(self.value).__name__
        if not self.leaves:
            return f"an empty {kind}"
        return f"a {kind} of ({', '.join(leaf.shown for leaf in self.leaves)})"


def opened(value: Any, known: Mapping[int, Any] | None = None) -> Opened:
    """A value as its leaves, under the interpreter that is active.

    `known` has the objects for which placeholders stand, by the identities of these.
    """
    found = _opened(value)
    for leaf in found.leaves if known else ():
        leaf.object = known.get(id(leaf.object), leaf.object)  # type: ignore[union-attr]
    if known and id(value) in known:
        found.value = known[id(value)]
    return found


def _opened(value: Any) -> Opened:
    if value is MISSING:
        return Opened(value, [], None)
    kind = _class(value)
    if kind is AppendedList:
        return Opened(value, list(map(_leaf, value.leaves)), value.structure)
    container = issubclass(kind, CONTAINERS) or (hasattr(kind, "__dataclass_fields__") and not tree.is_own(kind))
    if not container or kind is StagedNumber:
        return Opened(value, [_leaf(value)], tree.LEAF)
    leaves, structure = tree.flatten(value)
    return Opened(value, list(map(_leaf, leaves)), structure)


def _leaf(x: Any) -> FormLeaf:
    x = itself(x)
    if type(x) is StagedNumber:
        return FormLeaf(x, x.held)
    if isinstance(x, Value | Variable | np.ndarray | np.generic):
        return FormLeaf(x, as_value(x))
    return FormLeaf(x, None)


@dataclass(frozen=True)
class Held:
    """A leaf that a program holds: its type, and the kind of the Python number that it is."""

    type: TensorType
    kind: type | None = None

    def wrapped(self, x: Value) -> Any:
        """The leaf with the program's value."""
        return StagedNumber(self.kind, x) if self.kind in (int, float) else x


@dataclass
class VariableForm:
    """What two values have in common: the structure, and for each leaf what the program holds, or the object."""

    structure: tree.Structure | None
    parts: list[Any]  # Held, or a leaf that stays
    whole: Any = None  # the value itself, if it is the same object

    @property
    def types(self) -> list[TensorType]:
        """The types of the leaves that the program holds."""
        return [p.type for p in self.parts if isinstance(p, Held)]

    def value(self, values: Iterator[Value]) -> Any:
        """The value with the program's values."""
        if self.structure is None:
            return MISSING
        leaves = [p.wrapped(next(values)) if isinstance(p, Held) else p.object for p in self.parts]
        if not self.types and self.whole is not None:
            return self.whole
        if self.structure.kind is AppendedList:
            return cast("AppendedList", self.whole).filled(leaves)
        return tree.unflatten(self.structure, leaves)


def _class(x: Any) -> Any:
    return cast("Any", type(x))


def same(a: Any, b: Any) -> bool:
    """Whether two objects are one, or equal constants."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, (*PLAIN, *OF_KIND)) or type(a) is StagedNumber:
        return False
    return exact_key(a) == exact_key(b)


def common(a: FormLeaf, b: FormLeaf) -> Any:
    """What a program holds for either of two leaves: Held, the leaf that both are, or None if they do not match."""
    if same(a.object, b.object):
        return a
    if a.type is None or b.type is None:
        return None
    if a.kind is None and b.kind is None:
        return Held(a.type) if a.type is b.type else None
    if a.kind is not None and b.kind is not None:
        if bool in (a.kind, b.kind):
            return Held(TRUTH, bool) if a.kind is b.kind else None
        kind = float if float in (a.kind, b.kind) else int
        return Held(OF_KIND[kind], kind)
    tensor, number = (a.type, b) if a.kind is None else (b.type, a)
    return Held(tensor) if _takes(tensor, number) else None


def _takes(tensor: TensorType, number: FormLeaf) -> bool:
    """Whether a scalar tensor's dtype takes a Python number as an operand."""
    if tensor.shape != () or number.kind is None:
        return False
    if number.kind is bool or tensor.dtype is bool_:
        return number.kind is bool and tensor.dtype is bool_
    if number.kind is float:
        return tensor.dtype.is_inexact
    if tensor.dtype.is_inexact:
        return True
    low, high = bounds(tensor.dtype)
    return type(number.object) is StagedNumber or low <= number.object <= high


def form_of(a: Opened, b: Opened) -> VariableForm | None:
    """The form of two values; None if they have none."""
    if a.structure is None and b.structure is None:
        return VariableForm(None, [])
    if a.structure != b.structure:
        return None
    if a.value is b.value and _class(a.value) not in (list, dict):
        return VariableForm(a.structure, list(a.leaves), a.value)
    parts = [common(x, y) for x, y in zip(a.leaves, b.leaves, strict=True)]
    return None if any(p is None for p in parts) else VariableForm(a.structure, parts, a.value)


def carried(a: Opened) -> VariableForm:
    """The form of a value that an iteration may change: the program holds all that it can."""
    parts = [leaf if leaf.type is None else Held(leaf.type, leaf.kind) for leaf in a.leaves]
    return VariableForm(a.structure, parts, a.value)


def alone(a: Opened) -> VariableForm:
    """The form of a value where the other one is never read: the program holds the value of the part."""
    parts = [
        leaf if leaf.held is None or not ended(leaf.held) else Held(leaf.held.type, leaf.kind) for leaf in a.leaves
    ]
    return VariableForm(a.structure, parts, a.value)


def ended(x: Value) -> bool:
    """Whether a value belongs to a part that was recorded."""
    return isinstance(x.content, Payload) and bool(getattr(x.content.interpreter, "ended", False))


class Ends:
    """The results of a staged function, and equations that convert them to the types of a form."""

    def __init__(self, atoms: dict[int, Atom]) -> None:
        self.atoms = atoms  # those of tensors, by identity
        self.equations: list[Equation] = []

    def of(self, value: Opened | None, form: VariableForm) -> list[Atom]:
        """What the program holds for a value, or zeros where it is never read."""
        found: list[Atom] = []
        leaves = [None] * len(form.parts) if value is None or form.structure is None else value.leaves
        for leaf, part in zip(leaves, form.parts, strict=True):
            if isinstance(part, Held):
                found.append(self._zeros(part.type) if leaf is None else self._of_leaf(leaf, part.type))
        return found

    def _of_leaf(self, leaf: FormLeaf, wanted: TensorType) -> Atom:
        if leaf.held is None:
            return Literal(np.array(element(leaf.object, wanted.dtype)), wanted)
        atom = self.atoms[id(leaf.held)]
        if atom.type is wanted:
            return atom
        return self._add(pointwise.cast_p, (atom,), {"dtype": wanted.dtype})

    def _zeros(self, wanted: TensorType) -> Atom:
        if not wanted.shape:
            return Literal(np.zeros((), wanted.dtype.numpy), wanted)
        zero = Literal(np.zeros((), wanted.dtype.numpy), TensorType((), wanted.dtype))
        return self._add(broadcast_p, (zero,), {"shape": wanted.shape, "axes": ()})

    def _add(self, primitive: Any, inputs: tuple[Atom, ...], params: dict[str, Any]) -> Var:
        (type,) = primitive.result_types(tuple(a.type for a in inputs), params)
        made = Var(type)
        self.equations.append(Equation(primitive, inputs, params, (made,)))
        return made
