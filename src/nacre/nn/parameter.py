"""`Parameter` and `Buffer`: variables that a module holds, with the operators of the tensors in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nacre.api.operands import TensorLike, as_tensor
from nacre.api.tensor import BINARY, COMPARISONS, OPERANDS, UNARY, Tensor
from nacre.base.errors import DTypeError
from nacre.trace.value import Value, stripped
from nacre.trace.variable import Variable


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
    """A variable that is not trained, such as a running mean; part of the state dict unless not persistent.

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
        return Buffer, (stripped(self.value), self.persistent)

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        copied = memo[id(self)] = Buffer(self.value, self.persistent)
        return copied
