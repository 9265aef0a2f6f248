"""`Parameter` and `Buffer`: variables of a module, with the operators of the tensors in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from nacre.api.namespace import PUBLIC
from nacre.api.operands import TensorLike, as_tensor
from nacre.api.printing import represent
from nacre.api.tensor import BINARY, COMPARISONS, INITIALISERS, OPERANDS, SYMBOLS, UNARY, Tensor
from nacre.base.arguments import shown
from nacre.base.errors import DTypeError, GradientError, KindError, MissingAttribute
from nacre.base.state import STATE
from nacre.interpret.tape import require_no_record
from nacre.ops.identity import lend
from nacre.trace.value import Value, stripped
from nacre.trace.variable import Variable

__all__ = [
    "Buffer",
    "Parameter",
]


class ModuleVariable(Variable):
    """A variable with the operators and methods of its tensor.

    `p -= v`, `p[i] = v` and `p.data[i] = v` change its contents, like `assign`.  If it requires a gradient, the first
    two must be inside `nc.no_grad()`.

    >>> p = nn.Parameter([1.0, 2.0])
    >>> with nc.no_grad():
    ...     p -= 0.5
    >>> p.tolist()
    [0.5, 1.5]
    """

    __slots__ = ()
    __hash__ = Variable.__hash__  # as a key, a variable is compared by identity, although == compares its elements
    __array_ufunc__ = Tensor.__array_ufunc__
    __array_function__ = Tensor.__array_function__

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated by `backward`, or None."""
        return self.gradient

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        """Set or clear the gradient; raises KindError for anything but a tensor or None."""
        if value is not None and not isinstance(cast("object", value), Value):
            raise KindError(
                f"grad: the gradient must be a tensor or None; got {shown(value)}; write nacre.tensor(value)"
            )
        self.gradient = value

    @property
    def data(self) -> Tensor:
        """The tensor in it, not recorded for `backward`; assigning replaces it, `p.data[i] = v` changes it."""
        return lend(self)

    @data.setter
    def data(self, value: TensorLike) -> None:
        """Assign new contents, converted to the variable's dtype."""
        self.assign(as_tensor(value, self.dtype))

    def detach(self) -> Tensor:
        """The tensor in it, not recorded for `backward`; the same as `data`."""
        return lend(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in Variable.__slots__:
            raise AttributeError(name)
        if name in INITIALISERS:
            raise MissingAttribute(
                f"{name}: a {type(self).__name__.lower()} has no such method; write "
                f"`nacre.nn.init.{INITIALISERS[name]}` for a parameter p, or `p.data = v`"
            )
        if name.endswith("_"):
            raise MissingAttribute(
                f"{name}: a {type(self).__name__.lower()} has no such method; only `assign` and `requires_grad_` "
                "change it; write `p += v`, `p *= v` or `p[...] = v` inside `with nacre.no_grad():`, or `p.data = v`"
            )
        return getattr(self.value, name)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.value.__dlpack_device__()

    def __dlpack__(self, **request: Any) -> Any:
        return self.value.__dlpack__(**request)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.value.__array__(dtype, copy)

    def __getitem__(self, key: Any) -> Tensor:
        return self.value[key]

    def __setitem__(self, key: Any, value: TensorLike) -> None:
        self._change("p[i] = v", lambda held: PUBLIC["index_update"](held, key, value))

    def _change(self: _State, operation: str, f: Callable[[Tensor], Value]) -> _State:
        """Assign f of the contents.  Raises GradientError if that would have to be recorded."""
        if self.requires_grad and STATE.gradients:
            raise GradientError(
                f"{operation}: a parameter that requires a gradient cannot be changed in place here; got "
                f"{self.name or self.number}; "
                "write it inside `with nacre.no_grad():`"
            )
        held = f(stripped(self.value))  # type: ignore[arg-type]
        require_no_record(operation, self, held)
        self.assign(held)
        return self

    def __contains__(self, value: TensorLike) -> bool:
        return value in self.value

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
        return f"{type(self).__name__}{name}: {represent(self.cell, self.requires_grad)}"

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
        def __eq__(self, other: object, /) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object, /) -> Tensor: ...  # type: ignore[override]
        def __matmul__(self, other: TensorLike, /) -> Tensor: ...
        def __rmatmul__(self, other: TensorLike, /) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __iadd__(self: _State, other: TensorLike, /) -> _State: ...
        def __isub__(self: _State, other: TensorLike, /) -> _State: ...
        def __imul__(self: _State, other: TensorLike, /) -> _State: ...
        def __itruediv__(self: _State, other: TensorLike, /) -> _State: ...


_State = TypeVar("_State", bound=ModuleVariable)


def _forwarded(method: str) -> Callable[..., Any]:
    def operator(self: ModuleVariable, *others: Any) -> Any:
        """The operator applied to the contents."""
        if others and not isinstance(others[0], OPERANDS):
            return NotImplemented
        return getattr(self.value, method)(*others)

    return operator


def _in_place(method: str, symbol: str) -> Callable[..., Any]:
    def operator(self: ModuleVariable, other: Any) -> Any:
        """The operator in place: the result, in the variable's dtype, becomes its contents."""
        if not isinstance(other, OPERANDS):
            return NotImplemented
        return self._change(f"p {symbol}= v", lambda held: getattr(held, method)(other))  # pyright: ignore[reportPrivateUsage]

    return operator


def _install_operators() -> None:
    for name, _ in BINARY:
        setattr(ModuleVariable, f"__i{name}__", _in_place(f"__{name}__", SYMBOLS[name]))
    names = [f"__{n}__" for n, _ in (*BINARY, *COMPARISONS, *UNARY)] + [f"__r{n}__" for n, _ in BINARY]
    for name in (*names, "__divmod__", "__rdivmod__"):
        setattr(ModuleVariable, name, _forwarded(name))


_install_operators()


class Parameter(ModuleVariable):
    """A trained variable: it requires a gradient and belongs to the `parameters()` of its module.

    `value` is a tensor, array or list of any shape with a floating-point dtype.  Raises DTypeError for other dtypes.

    >>> p = nn.Parameter([1.0, 2.0])
    >>> (p * p).sum().backward()
    >>> p.grad
    Tensor([2., 4.], f32[2])
    """

    __slots__ = ()

    def __init__(self, data: TensorLike, requires_grad: bool = True) -> None:
        held = stripped(as_tensor(data))
        if requires_grad and not held.type.dtype.is_differentiable:
            raise DTypeError(f"Parameter: the dtype must be floating-point; got {held.type}")
        super().__init__(held, requires_grad=requires_grad)


class Buffer(ModuleVariable):
    """A variable that is not trained, such as a running mean; part of the state dict unless it is not persistent.

    >>> class Scale(nn.Module):
    ...     def __init__(self): self.factor = nn.Buffer(nc.tensor(2.0))
    ...     def forward(self, x): return x * self.factor
    >>> Scale()(nc.ones(2)).tolist(), list(Scale().state_dict()), list(Scale().parameters())
    ([2.0, 2.0], ['factor'], [])
    """

    __slots__ = ("persistent",)

    def __init__(self, data: TensorLike, persistent: bool = True) -> None:
        super().__init__(stripped(as_tensor(data)))
        self.persistent = persistent

    def __reduce__(self) -> tuple[Any, ...]:
        return *super().__reduce__(), {"persistent": self.persistent}

    def __setstate__(self, state: dict[str, bool]) -> None:
        self.persistent = state["persistent"]
