"""`Tensor`: the array type.  Its value is immutable; `x[i] = v` assigns a new value to the object.

Operators are generated from one table.  Methods call the public functions, which `api.namespace` puts into `FUNCTIONS`
when it is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from nacre.api.constants import require_version
from nacre.api.interchange.conversions import (
    deep_copy,
    finite,
    real_number,
    reduced,
    shallow_copy,
    to_array,
    to_buffer,
    whole,
)
from nacre.api.operands import TensorLike, numbers, plain_numbers
from nacre.api.other_names.methods import FUNCTIONS, Axes, Methods
from nacre.api.printing import as_html, as_text, formatted, represent
from nacre.base.arguments import require_device, whole_number
from nacre.base.boundary import DIFFERENT
from nacre.base.dims import Dim, Size
from nacre.base.errors import (
    TRACED,
    ArgumentError,
    DTypeError,
    KindError,
    MissingAttribute,
    ShapeError,
    StateError,
    UnknownNumber,
    explain,
)
from nacre.base.hints import Absent, ListedClass, listed, mark_absent
from nacre.base.lazy import LateModule
from nacre.base.porting.methods import IN_PLACE, TENSOR
from nacre.base.state import STATE
from nacre.base.types import ElementCount
from nacre.compile.program.executor import OPERATIONS
from nacre.interpret import tape
from nacre.interpret.evaluate import of_placeholder
from nacre.trace.bind import NATIVE
from nacre.trace.iteration import begin_rows
from nacre.trace.loans import loan_of
from nacre.trace.value import PLACEHOLDERS, Value, is_concrete, register_public
from nacre.trace.variable import Variable

if TYPE_CHECKING:
    from nacre.api.interchange import borrow, numpy_composed, of_numpy
    from nacre.runtime import dlpack
else:
    borrow, of_numpy = LateModule("nacre.api.interchange.borrow"), LateModule("nacre.api.interchange.of_numpy")
    numpy_composed = LateModule("nacre.api.interchange.numpy_composed")
    dlpack = LateModule("nacre.runtime.dlpack")


class Tensor(Methods, metaclass=ListedClass):
    """An n-dimensional array with one dtype.

    >>> x = nc.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x @ x + 1
    Tensor([[ 8., 11.],
            [16., 23.]], f32[2, 2])
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # see __getattr__-free refusal below

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise KindError("Tensor: functions make tensors; write nacre.tensor(data), or nacre.zeros(shape)")

    def __dir__(self) -> list[str]:
        return listed(self)

    # ---- properties

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.type.shape)

    @property
    def size(self) -> Size:
        """The number of elements."""
        size = self.type.size
        return ElementCount(size) if type(size) is int else size

    @property
    def nbytes(self) -> Size:
        """The size of the elements in bytes."""
        return self.type.nbytes

    @property
    def device(self) -> str:
        """Where the numbers are stored: always `"cpu"`."""
        return "cpu"

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        require_version(api_version)
        return sys.modules["nacre"]

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """The tensor itself: every tensor is on the device `"cpu"`.  Raises ArgumentError for another device."""
        require_device(device, "to_device")
        if stream is not None:
            raise ArgumentError(f"to_device: the CPU has no streams; got {stream!r}; leave it out")
        return self

    # ---- conversion to Python and NumPy

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return of_numpy.of_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return of_numpy.of_function(function, types, args, kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        return borrow.to_capsule(self, stream, max_version, dl_device, copy, "__dlpack__")

    def numpy(self) -> np.ndarray:
        """The numbers as a read-only NumPy array, without a copy where possible.

        Raises TraceError for a traced tensor, and GradientError inside `grad` for one that depends on its arguments.

        >>> nc.tensor([1, 2]).numpy()
        array([1, 2])
        """
        return plain_numbers(self, "numpy")

    def __buffer__(self, flags: int, /) -> memoryview:
        return to_buffer(self, flags)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return to_array(self, dtype, copy)

    def item(self) -> Any:
        """The only element as a Python number.  Raises ShapeError unless the tensor has one element."""
        if self.type.static and self.type.size != 1:
            raise ShapeError(f"item: the tensor must have one element; got shape {self.shape}; index it")
        return plain_numbers(self, "item").item()

    def tolist(self) -> Any:
        """The numbers as nested lists of Python numbers."""
        return whole(self, "tolist", np.ndarray.tolist)

    def __float__(self) -> float:
        return float(real_number(_one(self, "float", plain_numbers), "float"))

    def __complex__(self) -> complex:
        return complex(_one(self, "complex", plain_numbers))

    def __int__(self) -> int:
        return int(finite(real_number(_one(self, "int"), "int"), "int"))

    def __round__(self, ndigits: Any = None) -> Tensor:
        decimals = 0 if ndigits is None else whole_number(ndigits, "round", "ndigits")
        return numpy_composed.rounded(self, decimals)

    def __index__(self) -> int:
        if not self.type.dtype.is_integer or self.type.shape:
            raise DTypeError(f"index: the tensor must be an integer of shape (); got {self.type}; round and cast first")
        return int(_one(self, "index"))

    def __bool__(self) -> bool:
        if not is_concrete(self):
            if self.content.level == PLACEHOLDERS:
                raise of_placeholder(self, "bool", "x if x > 0 else -x", "nc.where(x > 0, x, -x)")
            raise UnknownNumber(_TRUTH.format(type=self.type), "bool")
        return bool(_one(self, "bool"))

    def __len__(self) -> int:
        if not self.type.shape:
            raise DTypeError("len: the tensor must have at least one axis; got shape ()")
        return int(self.type.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        begin_rows(self)
        return map(self.__getitem__, range(len(self)))

    def __contains__(self, value: TensorLike) -> bool:
        return bool(FUNCTIONS.any(FUNCTIONS.equal(self, value)))

    def __repr__(self) -> str:
        return represent(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    def __str__(self) -> str:
        return as_text(self)

    def __format__(self, spec: str) -> str:
        return formatted(self, spec) if spec else str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced(self)

    def __copy__(self) -> Tensor:
        return shallow_copy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return deep_copy(self)

    # ---- indexing

    def __getitem__(self, key: Any) -> Tensor:
        return FUNCTIONS.index(self, key)

    def __setitem__(self, key: Any, value: TensorLike) -> None:
        tape.require_no_leaf(self)
        if sys.getrefcount(self) <= TEMPORARY and loan_of(self) is None and not _named(self, sys._getframe(1)):  # pyright: ignore[reportPrivateUsage]
            raise StateError(
                "x[i] = v: x must be a named tensor; got a temporary one, as `x[i]` is in `x[i][j] = v`; "
                "the change would be lost; write `x[i, j] = v`, or give the tensor a name"
            )
        tape.write(self, lambda x: FUNCTIONS.index_update(x, key, value))

    # ---- methods of the public functions

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix (rank 2)."""
        if self.ndim != 2:
            raise ShapeError(f"T: the tensor must be a matrix; got shape {self.shape}; use mT or permute_dims")
        return FUNCTIONS.permute_dims(self, (1, 0))

    @property
    def mT(self) -> Tensor:
        """The transpose of the last two axes."""
        return FUNCTIONS.matrix_transpose(self)

    @property
    def mH(self) -> Tensor:
        """The conjugate transpose of the last two axes."""
        return FUNCTIONS.conj(FUNCTIONS.matrix_transpose(self))

    @property
    def real(self) -> Tensor:
        """The real part."""
        return FUNCTIONS.real(self)

    @property
    def imag(self) -> Tensor:
        """The imaginary part; of real numbers 0."""
        return FUNCTIONS.imag(self)

    def conj(self) -> Tensor:
        """The complex conjugate; of real numbers the tensor itself."""
        return FUNCTIONS.conj(self)

    def astype(self, dtype: Any, *, copy: bool = True, device: Any = None, saturate: bool = False) -> Tensor:
        """The elements converted to a dtype; with `saturate`, to its nearest finite number."""
        return FUNCTIONS.astype(self, dtype, copy=copy, device=device, saturate=saturate)

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape; one size may be −1."""
        return FUNCTIONS.reshape(self, shape[0] if len(shape) == 1 else shape)

    def view(self, *shape: Any) -> Tensor:
        """An alias of `reshape`."""
        return self.reshape(*shape)

    def transpose(self, *axes: Any) -> Tensor:
        """The axes in NumPy's order: all reversed without arguments; raises KindError for two, which PyTorch swaps."""
        if len(axes) != 2:
            return self.permute(*(axes or reversed(range(self.ndim))))
        raise KindError(
            f"transpose: NumPy and PyTorch read two numbers differently; got transpose{axes}; write "
            f"permute{axes} for the order of all axes, nacre.swapaxes(x, {axes[0]}, {axes[1]}) to exchange two"
        )

    def repeat(self, *counts: Any) -> Tensor:
        """Raises KindError: NumPy repeats elements, PyTorch repeats the whole tensor."""
        raise KindError(f"repeat: the method is ambiguous; got repeat{counts}; {DIFFERENT['repeat']}")

    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Tensor:
        """Merges axes start_axis to end_axis into one."""
        return FUNCTIONS.flatten(self, start_axis, end_axis)

    def permute(self, *axes: Any) -> Tensor:
        """The axes in another order."""
        return FUNCTIONS.permute_dims(self, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)

    def squeeze(self, axis: int | tuple[int, ...]) -> Tensor:
        """The tensor without axes of size 1."""
        return FUNCTIONS.squeeze(self, axis)

    def sum(self, axis: Axes = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
        """The sum over axes."""
        return FUNCTIONS.sum(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(self, axis: Axes = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
        """The product over axes."""
        return FUNCTIONS.prod(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(self, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
        """The arithmetic mean over axes."""
        return FUNCTIONS.mean(self, axis=axis, keepdims=keepdims)

    def var(self, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        """The variance over axes."""
        return FUNCTIONS.var(self, axis=axis, correction=correction, keepdims=keepdims)

    def std(self, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        """The standard deviation over axes."""
        return FUNCTIONS.std(self, axis=axis, correction=correction, keepdims=keepdims)

    def max(self, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The largest element over axes."""
        return FUNCTIONS.max(self, axis=axis, keepdims=keepdims)

    def min(self, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The smallest element over axes."""
        return FUNCTIONS.min(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """The index of the first largest element."""
        return FUNCTIONS.argmax(self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """The index of the first smallest element."""
        return FUNCTIONS.argmin(self, axis=axis, keepdims=keepdims)

    def any(self, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
        """Whether any element is true."""
        return FUNCTIONS.any(self, axis=axis, keepdims=keepdims)

    def all(self, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
        """Whether all elements are true."""
        return FUNCTIONS.all(self, axis=axis, keepdims=keepdims)

    if TYPE_CHECKING:

        def __add__(self, other: TensorLike, /) -> Tensor: ...
        def __radd__(self, other: TensorLike, /) -> Tensor: ...
        def __sub__(self, other: TensorLike, /) -> Tensor: ...
        def __rsub__(self, other: TensorLike, /) -> Tensor: ...
        def __mul__(self, other: TensorLike, /) -> Tensor: ...
        def __rmul__(self, other: TensorLike, /) -> Tensor: ...
        def __truediv__(self, other: TensorLike, /) -> Tensor: ...
        def __rtruediv__(self, other: TensorLike, /) -> Tensor: ...
        def __floordiv__(self, other: TensorLike, /) -> Tensor: ...
        def __rfloordiv__(self, other: TensorLike, /) -> Tensor: ...
        def __mod__(self, other: TensorLike, /) -> Tensor: ...
        def __rmod__(self, other: TensorLike, /) -> Tensor: ...
        def __pow__(self, other: TensorLike, /) -> Tensor: ...
        def __rpow__(self, other: TensorLike, /) -> Tensor: ...
        def __matmul__(self, other: TensorLike, /) -> Tensor: ...
        def __rmatmul__(self, other: TensorLike, /) -> Tensor: ...
        def __and__(self, other: TensorLike, /) -> Tensor: ...
        def __rand__(self, other: TensorLike, /) -> Tensor: ...
        def __or__(self, other: TensorLike, /) -> Tensor: ...
        def __ror__(self, other: TensorLike, /) -> Tensor: ...
        def __xor__(self, other: TensorLike, /) -> Tensor: ...
        def __rxor__(self, other: TensorLike, /) -> Tensor: ...
        def __lshift__(self, other: TensorLike, /) -> Tensor: ...
        def __rlshift__(self, other: TensorLike, /) -> Tensor: ...
        def __rshift__(self, other: TensorLike, /) -> Tensor: ...
        def __rrshift__(self, other: TensorLike, /) -> Tensor: ...
        def __lt__(self, other: TensorLike, /) -> Tensor: ...
        def __le__(self, other: TensorLike, /) -> Tensor: ...
        def __gt__(self, other: TensorLike, /) -> Tensor: ...
        def __ge__(self, other: TensorLike, /) -> Tensor: ...
        def __eq__(self, other: object, /) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object, /) -> Tensor: ...  # type: ignore[override]
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...


INITIALISERS: Final = {
    "normal_": "normal_(p)", "uniform_": "uniform_(p)", "zero_": "zeros_(p)", "fill_": "constant_(p, v)",
}  # fmt: skip


class _InPlace(Absent):
    """A descriptor for methods that would change a tensor."""

    def __get__(self, instance: object, owner: type) -> NoReturn:
        written = f"`x = ...` with the result of `{self.name[:-1]}`, or `x[...] = v`"
        if self.name in INITIALISERS:
            written = f"`nacre.nn.init.{INITIALISERS[self.name]}` for a parameter p, or `x[...] = v`"
        raise MissingAttribute(
            f"{self.name}: tensors have no methods that change them; write {written}; for gradients `p.grad = None`"
        )


class _ReferenceProbe:
    """Counts the references to an object in `__setitem__`, which differ between versions of Python."""

    def __setitem__(self, found: list[int], value: object) -> None:
        found.append(sys.getrefcount(self))


def _temporary() -> int:
    """The reference count of an object in `__setitem__` to which only the statement refers."""
    found: list[int] = []
    _ReferenceProbe()[found] = None
    return found[0]


TEMPORARY: Final = _temporary()


def _named(x: Tensor, frame: FrameType) -> bool:
    """Whether a local variable of a frame is a tensor; some versions of Python do not count it while it is in use."""
    return any(held is x for held in frame.f_locals.values())


def _one(x: Tensor, operation: str, read: Callable[[Tensor, str], np.ndarray] = numbers) -> Any:
    if x.type.static and x.type.size != 1:
        remedy = "; use .any() or .all()" if operation == "bool" else ""
        raise ShapeError(f"{operation}: the tensor must have one element; got shape {x.shape}{remedy}")
    return read(x, operation if read is plain_numbers or operation == "index" else "item").item()


_TRUTH: Final = explain(
    "bool: the tensor must have known numbers; got a traced tensor of type {type}",
    "@nc.jit\ndef f(x):\n    if x > 0:\n        return x\n    return -x",
    f"{TRACED}\n  `x > 0` is a placeholder without a value, so Python cannot choose a branch.",
    "@nc.jit\ndef f(x):\n    return nc.where(x > 0, x, -x)",
)

# ---- operators

BINARY: Final = (
    ("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "divide"), ("floordiv", "floor_divide"),
    ("mod", "remainder"), ("pow", "pow"), ("matmul", "matmul"), ("and", "bitwise_and"), ("or", "bitwise_or"),
    ("xor", "bitwise_xor"), ("lshift", "bitwise_left_shift"), ("rshift", "bitwise_right_shift"),
)  # fmt: skip
SYMBOLS: Final = dict(
    add="+", sub="-", mul="*", truediv="/", floordiv="//", mod="%", pow="**", matmul="@", lshift="<<", rshift=">>",
    **{"and": "&", "or": "|", "xor": "^"},
)  # fmt: skip
COMPARISONS: Final = (
    ("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"), ("eq", "equal"),
    ("ne", "not_equal"),
)  # fmt: skip
UNARY: Final = (("neg", "negative"), ("pos", "positive"), ("abs", "abs"), ("invert", "bitwise_invert"))

OPERANDS: Final = (Value, Variable, bool, int, float, complex, Dim, np.ndarray, np.generic, list, tuple)


def _foreign(function: str, other: object) -> Any:
    """NotImplemented, so that Python tries the other operand; raises an error for tensors of some libraries."""
    kind = type(other)
    if hasattr(kind, "__dlpack__"):
        raise KindError(
            f"{function}: operands must be tensors of Nacre; got a {kind.__module__}.{kind.__name__}; "
            "convert it with nacre.asarray"
        )
    return NotImplemented


_target = NATIVE.get  # of an operation by its name and types, and the numbers in it


def _forward(function: str) -> Callable[[Tensor, Any], Any]:
    def general(self: Any, other: Any) -> Any:
        """The operation through the public function, which has a target for each pair of types."""
        return getattr(FUNCTIONS, function)(self, other)

    def operator(self: Tensor, other: Any) -> Any:
        """The operator method: a native entry for these operand types, or the first call."""
        kind = type(other)  # pyright: ignore[reportUnknownVariableType]
        if kind is Tensor:
            native = _target((function, self.type, other.type))
            return general(self, other) if native is None else native(self, other)
        if kind is int or (kind is float and other):  # zeros of floats differ in sign but compare equal
            key = function, self.type, kind, other
            native = _target(key)
            if native is None:

                def of_tensor(x: Any) -> Any:
                    """The operation with this number."""
                    return getattr(FUNCTIONS, function)(x, other)

                return OPERATIONS.first_with_number(key, of_tensor, (self,))
            return native(self)
        if kind is ElementCount:
            return operator(self, int(other))
        if not isinstance(other, OPERANDS):
            return _foreign(function, other)
        return general(self, other)

    return operator


def _reflected(function: str) -> Callable[[Tensor, Any], Any]:
    def general(self: Any, other: Any) -> Any:
        """The operation through the public function."""
        return getattr(FUNCTIONS, function)(other, self)

    def operator(self: Tensor, other: Any) -> Any:
        """The operator method whose tensor is the right operand."""
        kind = type(other)  # pyright: ignore[reportUnknownVariableType]
        if kind is int or (kind is float and other):
            key = function, kind, other, self.type
            native = _target(key)
            if native is None:

                def of_tensor(x: Any) -> Any:
                    """The operation with this number."""
                    return getattr(FUNCTIONS, function)(other, x)

                return OPERATIONS.first_with_number(key, of_tensor, (self,))
            return native(self)
        if kind is ElementCount:
            return operator(self, int(other))
        if not isinstance(other, OPERANDS):
            return _foreign(function, other)
        return general(self, other)

    return operator


def _augmented(method: str, symbol: str) -> Callable[[Tensor, Any], Any]:
    def operator(self: Tensor, other: Any) -> Any:
        """The operation; inside `no_grad`, a leaf that requires a gradient gets the result as its value."""
        result = getattr(self, method)(other)
        if self.node is None or STATE.gradients or result is NotImplemented:
            return result
        return tape.updated(f"x {symbol}= v", self, result)

    return operator


def _unary(function: str) -> Callable[[Tensor], Any]:
    def operator(self: Tensor) -> Any:
        """The operator method of one operand."""
        native = _target((function, self.type))
        return getattr(FUNCTIONS, function)(self) if native is None else native(self)

    return operator


def _unhashable(self: Tensor) -> int:
    raise DTypeError("hash: tensors cannot be keys, because == compares elements; use id(x), or the number x.item()")


def _install() -> None:
    for name, function in BINARY:
        setattr(Tensor, f"__{name}__", _forward(function))
        setattr(Tensor, f"__r{name}__", _reflected(function))
        setattr(Tensor, f"__i{name}__", _augmented(f"__{name}__", SYMBOLS[name]))
    for name, function in COMPARISONS:
        setattr(Tensor, f"__{name}__", _forward(function))
    for name, function in UNARY:
        setattr(Tensor, f"__{name}__", _unary(function))
    for name in IN_PLACE.split():
        setattr(Tensor, f"{name}_", _InPlace(f"{name}_", ""))
    mark_absent(Tensor, TENSOR)
    Tensor.__hash__ = _unhashable  # type: ignore[method-assign,assignment]


_install()
register_public(Tensor)
