"""`Module` and `Parameter`: named trees of variables, with state dicts in PyTorch's names and layouts.

A module's attributes are ordinary ones.  Those that are variables or modules are found by looking, in the order in
which they were set.  Modules are trees (`base.tree`): their leaves are their variables, and what is left of their
attributes is the structure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from nacre.api.namespace import PUBLIC
from nacre.api.operands import TensorLike, as_tensor
from nacre.api.tensor import BINARY, COMPARISONS, OPERANDS, UNARY, Tensor
from nacre.base.dtypes import as_dtype
from nacre.base.errors import ArgumentError, DTypeError, Error, ShapeError, explain
from nacre.base.state import STATE
from nacre.base.tree import register
from nacre.trace.guards import report
from nacre.trace.value import Value, stripped
from nacre.trace.variable import Variable

Self = TypeVar("Self", bound="Module")


class State(Variable):
    """A variable with the operators and methods of the tensor it holds."""

    __slots__ = ()
    __array_ufunc__ = None

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated by `backward`, or None."""
        return self.gradient

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        """Set or clear the gradient."""
        self.gradient = value

    @property
    def data(self) -> Tensor:
        """The tensor it holds, not recorded for `backward`; assigning replaces it."""
        return stripped(self.value)  # type: ignore[return-value]

    @data.setter
    def data(self, value: TensorLike) -> None:
        """Assign new contents, converted to the state's dtype."""
        self.assign(as_tensor(value, self.dtype))

    def requires_grad_(self: _State, required: bool = True) -> _State:
        """Record operations on it for `backward`, or stop that.  Returns itself."""
        if required and not self.dtype.is_float:
            raise DTypeError(f"requires_grad_: a floating-point dtype is required; got {self.dtype.name}")
        self.requires_grad = required
        if not required:
            self.cell = stripped(self.cell)
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in Variable.__slots__:
            raise AttributeError(name)
        return getattr(self.value, name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.value.__array__(dtype, copy)

    def __getitem__(self, key: Any) -> Tensor:
        return self.value[key]

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __repr__(self) -> str:
        name = f" {self.name}" if self.name else ""
        return f"{type(self).__name__}{name}: {self.cell!r}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), stripped(self.value), self.requires_grad, self.name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = memo[id(self)] = _restored(type(self), stripped(self.value), self.requires_grad, self.name)
        return copied

    if TYPE_CHECKING:

        def __add__(self, other: TensorLike, /) -> Tensor: ...
        def __radd__(self, other: TensorLike, /) -> Tensor: ...
        def __sub__(self, other: TensorLike, /) -> Tensor: ...
        def __rsub__(self, other: TensorLike, /) -> Tensor: ...
        def __mul__(self, other: TensorLike, /) -> Tensor: ...
        def __rmul__(self, other: TensorLike, /) -> Tensor: ...
        def __truediv__(self, other: TensorLike, /) -> Tensor: ...
        def __rtruediv__(self, other: TensorLike, /) -> Tensor: ...
        def __pow__(self, other: TensorLike, /) -> Tensor: ...
        def __matmul__(self, other: TensorLike, /) -> Tensor: ...
        def __rmatmul__(self, other: TensorLike, /) -> Tensor: ...
        def __neg__(self) -> Tensor: ...


_State = TypeVar("_State", bound=State)


def _restored(cls: type[_State], value: Value, requires_grad: bool, name: str) -> _State:
    restored = cls.__new__(cls)
    Variable.__init__(restored, value, requires_grad=requires_grad, name=name)
    return restored


def _forwarded(method: str) -> Callable[..., Any]:
    def operator(self: State, *others: Any) -> Any:
        """The operator applied to the state's value."""
        if others and not isinstance(others[0], OPERANDS):
            return NotImplemented
        return getattr(self.value, method)(*others)

    return operator


def _install_operators() -> None:
    names = [f"__{n}__" for n, _ in (*BINARY, *COMPARISONS, *UNARY)] + [f"__r{n}__" for n, _ in BINARY]
    for name in names:
        if name not in ("__eq__", "__ne__"):  # variables are told apart by identity
            setattr(State, name, _forwarded(name))


_install_operators()


class Parameter(State):
    """A variable that is trained: it requires a gradient and belongs to the `parameters()` of its module.

    >>> p = nn.Parameter([1.0, 2.0])
    >>> (p * p).sum().backward()
    >>> p.grad
    Tensor([2., 4.], f32[2])
    """

    __slots__ = ()

    def __init__(self, data: TensorLike, requires_grad: bool = True) -> None:
        held = stripped(as_tensor(data))
        if requires_grad and not held.type.dtype.is_float:
            raise DTypeError(f"Parameter: a floating-point dtype is required; got {held.type}")
        super().__init__(held, requires_grad=requires_grad)


class Buffer(State):
    """A variable that is not trained, such as a running mean; part of the state dict unless not persistent."""

    __slots__ = ("persistent",)

    def __init__(self, data: TensorLike, persistent: bool = True) -> None:
        super().__init__(stripped(as_tensor(data)))
        self.persistent = persistent

    def __reduce__(self) -> tuple[Any, ...]:
        return Buffer, (stripped(self.value), self.persistent)

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        copied = memo[id(self)] = Buffer(self.value, self.persistent)
        return copied


class Module:
    """A function with parameters: set parameters and modules as attributes, and define `forward`.

    >>> class Scale(nn.Module):
    ...     def __init__(self):
    ...         self.factor = nn.Parameter(2.0)
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(nc.tensor([1.0, 2.0]))
    Tensor([2., 4.], f32[2])
    """

    training: bool = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module computes; defined by each kind of module."""
        raise ArgumentError(
            explain(
                f"{type(self).__name__}: a method `forward` is required",
                f"class {type(self).__name__}(nn.Module):\n    def __call__(self, x): ...",
                "Calling a module records what a compiled function depends on, and then calls `forward`.",
                f"class {type(self).__name__}(nn.Module):\n    def forward(self, x): ...",
            )
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if STATE.word:
            report(self, "fingerprint")
        return self.forward(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Variable) and not value.name:
            value.name = name
        object.__setattr__(self, name, value)
        vars(self).pop(FINGERPRINT, None)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        vars(self).pop(FINGERPRINT, None)

    @property
    def fingerprint(self) -> Hashable:
        """What a compiled function that calls this module depends on: attributes by value, what it holds by identity.

        It is kept until an attribute is set; a list or dict changed in place goes unnoticed.
        """
        found = vars(self).get(FINGERPRINT)
        if found is None:
            held = {"training": self.training, **vars(self)}
            found = vars(self)[FINGERPRINT] = Fingerprint((k, frozen(v)) for k, v in held.items())
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != FINGERPRINT}

    # ---- what it holds

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that are attributes of this one, with their names."""
        return ((k, v) for k, v in vars(self).items() if isinstance(v, Module))

    def children(self) -> Iterator[Module]:
        """The modules that are attributes of this one."""
        return (child for _, child in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with dotted names."""
        yield from _walk(self, prefix, set())

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def _named(self, kind: type[Variable], prefix: str, recurse: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self.named_modules(prefix) if recurse else [(prefix, self)]:
            for name, value in vars(module).items():
                if isinstance(value, kind) and id(value) not in seen:
                    seen.add(id(value))
                    yield _join(path, name), value

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """The parameters, each once, with dotted names."""
        return self._named(Parameter, prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Buffer]]:
        """The buffers, each once, with dotted names."""
        return self._named(Buffer, prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[Buffer]:
        """The buffers, each once."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def register_buffer(self, name: str, value: TensorLike, persistent: bool = True) -> None:
        """Set an attribute to a buffer holding a value."""
        setattr(self, name, Buffer(value, persistent))

    # ---- changing it

    def train(self: Self, mode: bool = True) -> Self:
        """Set training mode (dropout drops, batch norm uses the batch) here and below.  Returns itself."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """Set evaluation mode here and below.  Returns itself."""
        return self.train(False)

    def requires_grad_(self: Self, required: bool = True) -> Self:
        """Train the parameters, or freeze them.  Returns itself."""
        for p in self.parameters():
            p.requires_grad_(required)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the parameters' gradients, or set them to zero."""
        for p in self.parameters():
            p.gradient = None if set_to_none or p.gradient is None else PUBLIC["zeros_like"](p.gradient)

    def apply(self: Self, f: Callable[[Module], Any]) -> Self:
        """Call f on every module below and then on this one.  Returns itself."""
        for child in self.children():
            child.apply(f)
        f(self)
        return self

    def to(self: Self, dtype: Any) -> Self:
        """Convert the floating-point parameters and buffers to a dtype.  Returns itself."""
        found = as_dtype(dtype)
        if not found.is_float:
            raise DTypeError(f"to: a floating-point dtype is required; got {found.name}")
        for variable in (*self.parameters(), *self.buffers()):
            if variable.dtype.is_float and variable.dtype is not found:
                variable.cell = stripped(as_tensor(stripped(variable.cell), found))
                variable.gradient_cell = None
        return self

    # ---- state dicts

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """The tensors of parameters and persistent buffers by dotted name, in PyTorch's names and layouts.

        >>> {k: v.shape for k, v in nn.Linear(3, 2).state_dict().items()}
        {'weight': (2, 3), 'bias': (2,)}
        """
        return {name: variable.data for name, variable in _stateful(self, prefix)}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> tuple[list[str], list[str]]:
        """Take tensors or arrays by dotted name; gives the missing and the unexpected names.

        Raises ArgumentError for those when strict, ShapeError for wrong shapes; nothing is changed then.
        """
        own = dict(_stateful(self, ""))
        missing, unexpected = [k for k in own if k not in state], [k for k in state if k not in own]
        if strict and (missing or unexpected):
            raise ArgumentError(
                f"load_state_dict: the names of {type(self).__name__} are required; missing {missing}, unexpected "
                f"{unexpected}; pass strict=False to take what fits"
            )
        found = {k: as_tensor(_plain_array(state[k]), own[k].dtype) for k in own if k in state}
        wrong = [f"{k}: {list(own[k].shape)}, got {list(v.type.shape)}" for k, v in found.items()
                 if v.type.shape != own[k].shape]
        if wrong:
            raise ShapeError("load_state_dict: tensors of these shapes are required: " + "; ".join(wrong))
        for k, v in found.items():
            own[k].assign(v)
        return missing, unexpected

    # ---- as text

    def extra_repr(self) -> str:
        """What stands between the parentheses of a module without modules."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): " + repr(child).replace("\n", "\n  ") for name, child in self.named_children()]
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        inner = ([extra] if extra else []) + lines
        return f"{type(self).__name__}(\n  " + "\n  ".join(inner) + "\n)"


def _plain_array(value: Any) -> Any:
    """A tensor of any library as what `as_tensor` takes."""
    return value.detach().numpy() if hasattr(value, "detach") and not isinstance(value, Value) else value


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _walk(module: Module, path: str, seen: set[int]) -> Iterator[tuple[str, Module]]:
    if id(module) in seen:
        return
    seen.add(id(module))
    yield path, module
    for name, child in module.named_children():
        yield from _walk(child, _join(path, name), seen)


def _stateful(module: Module, path: str) -> Iterator[tuple[str, State]]:
    """Parameters and persistent buffers under every name they have, as state dicts list them."""
    held = vars(module)
    for kind in (Parameter, Buffer):
        for name, value in held.items():
            if isinstance(value, kind) and getattr(value, "persistent", True):
                yield _join(path, name), value
    for name, child in module.named_children():
        yield from _stateful(child, _join(path, name))


# ---- what a compiled function depends on


FINGERPRINT = " fingerprint"  # the key in a module's attributes; no attribute is named so
REBUILT = " rebuilt"  # the same, where a module was rebuilt with values in its variables' places


class Fingerprint(tuple[tuple[str, Hashable], ...]):
    """Names and frozen values; shown without what is compared by identity."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = (f"{k}={v!r}" for k, v in self if not isinstance(v, Frozen))
        return f"({', '.join(shown)})"


class Exact(tuple[str, str]):
    """A bool or float by type and digits, so that True is not 1 and 0.0 not -0.0."""

    __slots__ = ()

    def __repr__(self) -> str:
        return self[1]


class Frozen:
    """An attribute that cannot be hashed or compared by value: told apart by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frozen) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value) >> 4


def frozen(value: Any) -> Hashable:
    """A value as something to compare: lists and dicts by their items, other mutable things by identity."""
    if isinstance(value, list | tuple):
        return tuple(frozen(v) for v in cast("Sequence[Any]", value))
    if isinstance(value, Mapping):
        return "dict", tuple((frozen(k), frozen(v)) for k, v in cast("Mapping[Any, Any]", value).items())
    if isinstance(value, set | frozenset):
        return "set", frozenset(frozen(v) for v in cast("frozenset[Any]", value))
    if isinstance(value, bool | float):
        return Exact((type(value).__name__, str(value)))
    if isinstance(value, Value | np.ndarray | Variable | Module):
        return Frozen(value)
    try:
        hash(value)
    except (TypeError, Error):
        return Frozen(value)
    return value


# ---- modules as trees


class Frame:
    """What of a module is not its variables: class, names and plain attributes.  Compared by their values."""

    __slots__ = ("cls", "key", "names", "plain")

    def __init__(self, module: Module) -> None:
        held = vars(module)
        self.cls = type(module)
        self.names = tuple(k for k, v in held.items() if isinstance(v, Variable | Module))
        self.plain = {k: v for k, v in held.items() if k not in (*self.names, FINGERPRINT, REBUILT)}
        self.key = self.cls, self.names, frozen(self.plain)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frame) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return self.cls.__name__


def _flatten(module: Module) -> tuple[Sequence[Any], Hashable]:
    held = vars(module)
    frame = held.get(REBUILT) or Frame(module)
    return [held[name] for name in frame.names], frame


def _rebuild(frame: Any, children: Sequence[Any]) -> Module:
    module: Module = frame.cls.__new__(frame.cls)
    names: tuple[str, ...] = frame.names
    plain: dict[str, Any] = frame.plain
    vars(module).update(plain)
    if not all(isinstance(c, Variable | Module) for c in children):
        vars(module)[REBUILT] = frame  # what stands in the variables' places does not show that it does
    vars(module).update(zip(names, children, strict=True))
    return module


register(Module, _flatten, _rebuild)

