"""Functions that create tensors: from data, filled, and as sequences.  Names follow the array API standard."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nacre.api.elementwise.one_program import one_program
from nacre.api.operands import (
    DEFAULT_FLOAT,
    DEFAULT_INTEGER,
    Scalar,
    TensorLike,
    as_tensor,
    constant,
    distinct,
    extent,
    is_scalar,
    natural_dtype,
    requested_dtype,
    scalar,
    settled_number,
    shape_of,
    spread,
)
from nacre.api.primitives import parts, pointwise, view
from nacre.api.tensor import Tensor
from nacre.base.arguments import require_device, whole_number
from nacre.base.conversion import Number, bounds, converted, number, plain, real_number
from nacre.base.dims import LIMIT, Dim, Size, require_fitting
from nacre.base.dtypes import DType, as_dtype, complex64, float64, uint64
from nacre.base.errors import ArgumentError, DTypeError
from nacre.base.lazy import LateModule
from nacre.interpret.evaluate import from_numpy
from nacre.interpret.numbers.staged_number import StagedNumber
from nacre.interpret.tape import another
from nacre.runtime.buffer import require_room
from nacre.trace.reads import is_capture
from nacre.trace.value import Value, owned
from nacre.trace.variable import Variable

if TYPE_CHECKING:
    from nacre.api.interchange import borrow, dlpack
else:
    borrow, dlpack = LateModule("nacre.api.interchange.borrow"), LateModule("nacre.api.interchange.dlpack")

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tensor",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


Sizes = Size | tuple[Size, ...] | list[Size]


def _dtype(dtype: Any, default: DType) -> DType:
    return default if dtype is None else as_dtype(dtype)


def tensor(data: Any, dtype: Any = None) -> Tensor:
    """A tensor from a Python number, nested lists, a NumPy array, a tensor, or lists of tensors.

    Python floats become float32 and Python ints int64.  Arrays keep their dtype unless `dtype` is given.  With an
    integer `dtype`, Python numbers must fit it; otherwise DTypeError is raised.  Tensors and arrays are converted as by
    `astype`: integers wrap, and floats are truncated and saturate.

    >>> nc.tensor([[1, 2], [3, 4]], dtype=nc.float32)
    Tensor([[1., 2.],
            [3., 4.]], f32[2, 2])
    """
    held = as_tensor(data, None if dtype is None else requested_dtype("tensor", dtype, data))
    if is_capture(held):
        return another(held)
    return distinct(owned(held), held) if is_scalar(data) or held is data else held


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """`tensor` under the array API's name.  A tensor of the requested dtype is returned itself, unless `copy` is True.

    An array is copied.  With `copy=False` the tensor is in the array's own memory, and shows changes of the array.
    With `copy=False`, raises ArgumentError for numbers that have to be converted or are in lists, and ExchangeError for
    elements that have another byte order, or no memory of their own.

    >>> nc.asarray([1.0, 2.0])
    Tensor([1., 2.], f32[2])
    """
    require_device(device, "asarray")
    if copy is False and not isinstance(obj, Value | Variable):
        return _shared(obj, None if dtype is None else as_dtype(dtype))
    held = tensor(obj, dtype)
    if isinstance(obj, Value):
        if held.type is obj.type and not copy:
            return obj  # type: ignore[return-value]
        if copy is False:
            raise _must_copy(str(obj.type), held.type)
    return held


def _shared(obj: Any, dtype: DType | None) -> Any:
    """The tensor in the memory of an array, or of another object that exports memory; numbers and lists have none."""
    held: Any = np.asarray(cast("Any", obj)) if isinstance(obj, memoryview | array) else obj
    given = type(cast("object", held)).__name__
    if isinstance(held, np.ndarray):
        made = borrow.of_array(cast("np.ndarray", held))
    elif hasattr(held, "__dlpack__"):
        made = dlpack.from_dlpack(held, copy=False)
    else:
        tensor(held, dtype)  # raises its own error for what cannot become a tensor
        raise _must_copy(given, "a tensor")
    if dtype is not None and made.type.dtype is not dtype:
        raise _must_copy(f"{given} of {made.type.dtype.name}", dtype.name)
    return made


def _must_copy(given: str, wanted: object) -> ArgumentError:
    return ArgumentError(f"asarray: {given} must be copied to become {wanted}; got copy=False; pass copy=None")


def full(shape: Sizes, fill_value: Scalar | TensorLike, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor with one number in every element.  A fill value that is a tensor keeps its dtype and its gradient.

    Raises ArgumentError for a fill value with axes.

    >>> nc.full((2,), 7)
    Tensor([7, 7], i64[2])
    """
    require_device(device, "full")
    sizes = shape_of(shape, "full")
    given: Any = fill_value
    if not isinstance(fill_value, Number) or type(given) is StagedNumber:
        held = as_tensor(given)
        if held.type.shape:
            raise ArgumentError(
                f"full: the fill value must be one number; got shape {held.type.shape}; use broadcast_to"
            )
        return spread(as_tensor(held, _dtype(dtype, held.type.dtype)), sizes)
    return pointwise.fill(fill_value, sizes, _dtype(dtype, natural_dtype(fill_value)))


def zeros(shape: Sizes, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor of zeros of the given shape.  The default dtype is float32.

    >>> nc.zeros(3)
    Tensor([0., 0., 0.], f32[3])
    """
    require_device(device, "zeros")
    return full(shape, 0, _dtype(dtype, DEFAULT_FLOAT))


def ones(shape: Sizes, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor of ones of the given shape.  The default dtype is float32.

    >>> nc.ones(3)
    Tensor([1., 1., 1.], f32[3])
    """
    require_device(device, "ones")
    return full(shape, 1, _dtype(dtype, DEFAULT_FLOAT))


def empty(shape: Sizes, dtype: Any = None, *, device: Any = None) -> Tensor:
    """`zeros` under another name: no memory without defined numbers is visible.  The default dtype is float32.

    >>> nc.empty(3).shape
    (3,)
    """
    require_device(device, "empty")
    return zeros(shape, dtype)


def full_like(x: TensorLike, /, fill_value: Scalar | TensorLike, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor of one number, with the shape and dtype of x.

    >>> nc.full_like([1, 2], 7)
    Tensor([7, 7], i64[2])
    """
    require_device(device, "full_like")
    held = as_tensor(x)
    wanted = held.type.dtype if dtype is None else requested_dtype("full_like", dtype, held)
    return full(held.type.shape, fill_value, wanted)


def zeros_like(x: TensorLike, /, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor of zeros, with the shape and dtype of x.

    >>> nc.zeros_like([1, 2])
    Tensor([0, 0], i64[2])
    """
    require_device(device, "zeros_like")
    return full_like(x, 0, dtype)


def ones_like(x: TensorLike, /, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor of ones, with the shape and dtype of x.

    >>> nc.ones_like([1, 2])
    Tensor([1, 1], i64[2])
    """
    require_device(device, "ones_like")
    return full_like(x, 1, dtype)


def empty_like(x: TensorLike, /, dtype: Any = None, *, device: Any = None) -> Tensor:
    """`zeros_like` under another name: no memory without defined numbers is visible.

    >>> nc.empty_like([1, 2]).type
    i64[2]
    """
    require_device(device, "empty_like")
    return zeros_like(x, dtype)


def arange(
    start: Scalar, /, stop: Scalar | None = None, step: Scalar = 1, dtype: Any = None, *, device: Any = None
) -> Tensor:
    """The numbers start, start + step, … below stop; `arange(n)` is 0 … n − 1.

    Symbolic sizes are allowed, among integers and multiples of 1/16.  Raises DTypeError if a number does not fit an
    integer dtype.  Raises ArgumentError for a step of 0 and for numbers that are not finite.

    >>> nc.arange(2, 8, 2)
    Tensor([2, 4, 6], i64[3])
    """
    require_device(device, "arange")
    if stop is None:
        start, stop = 0, start
    ends: list[Any] = [v if isinstance(v, Dim) else real_number(plain(v)) for v in (start, stop, step)]
    start, stop, step = ends
    real, symbolic = (any(isinstance(v, kind) for v in ends) for kind in (float, Dim))
    found = _dtype(dtype, DEFAULT_FLOAT if real else DEFAULT_INTEGER)
    if found.is_storage:
        raise DTypeError(
            f"arange: dtype must have arithmetic; got {found.name}, which is only stored; "
            f"write nacre.arange(...).astype(nacre.{found.name})"
        )
    count = _symbolic_count(*ends) if symbolic else _count(*ends)
    if symbolic and start == 0 and step == 1 and not found.is_integer:
        return pointwise.iota((count,), 0, found)
    if real and found.is_float:
        return as_tensor(_progression(start, step, count, found.arithmetic), found)
    kind = found if found.is_integer else DEFAULT_INTEGER
    for end in (start, start + (count - 1) * step) if count != 0 else ():
        if isinstance(end, Dim):
            if not _fits(start, step, kind):
                require_fitting(end, *bounds(kind))
        else:
            number(end, kind, "arange")
    return as_tensor(_progression(start, step, count, kind if kind is uint64 else DEFAULT_INTEGER), found)


def _fits(start: Any, step: Any, kind: DType) -> bool:
    """Whether all numbers of a sequence whose count is a size of an axis fit a dtype, whatever the size."""
    low, high = bounds(kind)
    return (
        isinstance(start, int)
        and isinstance(step, int)
        and low <= start + LIMIT * min(step, 0)
        and (start + LIMIT * max(step, 0) <= high)
    )


STEPS = 16  # numbers between symbolic sizes are multiples of 1/16: the count is exact for every size


def _symbolic_count(*ends: Any) -> Size:
    """The count of the sequence's numbers below stop, for start, stop and step of which some are symbolic."""
    scale = STEPS if any(isinstance(v, float) for v in ends) else 1
    if any(isinstance(v, float) and v * STEPS != v * STEPS // 1 for v in ends):
        raise ArgumentError(
            f"arange: with symbolic sizes, numbers must be multiples of 1/{STEPS}; got {', '.join(map(str, ends))}; "
            "scale the result instead"
        )
    start, stop, step = (v * scale if isinstance(v, int | Dim) else int(v * scale) for v in ends)
    if step == 0:
        raise ArgumentError("arange: step must not be 0; got 0")
    way, step = (stop - start, step) if step > 0 else (start - stop, -step)
    if isinstance(step, Dim):
        count = way // step
        if count * step != way:
            raise ArgumentError(f"arange: a symbolic step must divide stop - start; got {step} for {way}")
    else:
        count = (way + (step - 1)) // step
    return 0 if count < 0 else count


def _count(start: float, stop: float, step: float) -> int:
    """The count of the sequence's numbers below stop."""
    if step == 0:
        raise ArgumentError("arange: step must not be 0; got 0")
    if not any(isinstance(v, float) for v in (start, stop, step)):
        return max(0, int(-((start - stop) // step)))
    first, last, by = (float(number(v, float64, "arange")) for v in (start, stop, step))
    steps = (last - first) / by
    if not all(map(math.isfinite, (first, last, by, steps))):
        raise ArgumentError(f"arange: start, stop and step must be finite; got {start}, {stop} and {step}")
    return max(0, math.ceil(steps))


def _progression(start: Any, step: Any, count: Size, dtype: DType) -> Any:
    """start + k · step for k below count.  64-bit intermediate results may wrap; the final results are right."""
    counted = pointwise.iota((count,), 0, dtype)
    downwards = dtype.is_inexact and not isinstance(step, Dim) and step < 0  # 0 · step is -0
    if step != 1 and (count > 1 if downwards or isinstance(count, int) else True):
        counted = pointwise.mul(counted, spread(_end(step, dtype), (count,)))
    moves = start > 0 or start < 0 if downwards and isinstance(start, Dim) else start != 0
    if moves and count != 0:
        counted = pointwise.add(counted, spread(_end(start, dtype), (count,)))
    return counted


def _end(value: Any, dtype: DType) -> Any:
    return scalar(value, dtype) if isinstance(value, Dim) else constant(_wrapped(value, dtype), dtype)


def _wrapped(value: float, dtype: DType) -> float:
    if dtype is uint64 and value == int(value):
        return int(value) % (1 << 64)
    return number(value, dtype, "arange")


def linspace(
    start: complex, stop: complex, /, num: int, dtype: Any = None, endpoint: bool = True, *, device: Any = None
) -> Tensor:
    """Evenly spaced numbers from start to stop, `num` of them, each rounded once; for complex ends, by their parts.

    Raises DTypeError if a number does not fit an integer dtype: NumPy rounds it down, PyTorch towards 0.

    >>> nc.linspace(0, 1, 5)
    Tensor([0.  , 0.25, 0.5 , 0.75, 1.  ], f32[5])
    """
    require_device(device, "linspace")
    found = _dtype(dtype, complex64 if any(isinstance(v, complex) for v in (start, stop)) else DEFAULT_FLOAT)
    if found.component is not None:
        if isinstance(start, Dim) or isinstance(stop, Dim):
            raise ArgumentError("linspace: symbolic ends must have a floating-point dtype; convert the result")
        ends = [complex(v) for v in (start, stop)]
        re = linspace(ends[0].real, ends[1].real, num, found.component, endpoint)
        im = linspace(ends[0].imag, ends[1].imag, num, found.component, endpoint)
        return parts.complex_(re, im)
    num = whole_number(num, "linspace", "num")
    start, stop = (
        v if isinstance(v, Dim) else settled_number(v, "linspace", name)
        for v, name in ((start, "start"), (stop, "stop"))
    )
    if num < 0:
        raise ArgumentError(f"linspace: num must be at least 0; got {num}")
    if any(isinstance(v, Dim) for v in (start, stop, num)):
        if not found.is_float:
            raise ArgumentError(
                f"linspace: with symbolic sizes, dtype must be floating-point; got {found.name}; convert the result"
            )
        return as_tensor(_symbolic_linspace(start, stop, num, endpoint), found)
    require_room(num * (16 + found.itemsize))  # for the numbers, a copy and the result
    with np.errstate(all="ignore"):
        exact = np.linspace(start, stop, num, endpoint=endpoint, dtype=np.float64)
    if found.is_integer and not (exact == np.trunc(exact)).all():
        advice = f"convert the result, as in `nacre.linspace(0, 10, 5).astype(nacre.{found.name})`"
        raise DTypeError(f"linspace: numbers must fit {found.name}, so be whole; got {exact[:4].tolist()}; {advice}")
    return from_numpy(converted(exact, found, "linspace"))  # type: ignore[return-value]


def _symbolic_linspace(start: Any, stop: Any, num: Size, endpoint: bool) -> Any:
    """The numbers of `numpy.linspace` in float64, with the same operations and so the same bits."""

    def wide(value: Any) -> Any:
        """A number in every element."""
        return spread(scalar(value, float64), (num,))

    counted, first, last, zero = pointwise.iota((num,), 0, float64), wide(start), wide(stop), wide(0)
    delta = pointwise.sub(last, first)
    parts = pointwise.maximum(spread(extent(num - 1 if endpoint else num, float64), (num,)), wide(1))
    step = pointwise.div(delta, parts)
    tiny = pointwise.mul(pointwise.div(counted, parts), delta)  # the step is 0, but the whole is not
    moved = pointwise.select(pointwise.eq(step, zero), tiny, pointwise.mul(counted, step))
    found = pointwise.add(moved, first)
    return pointwise.select(pointwise.eq(counted, parts), last, found) if endpoint else found


def eye(n_rows: Size, n_cols: Size | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """A matrix of zeros with ones on the k-th diagonal.

    >>> nc.eye(2)
    Tensor([[1., 0.],
            [0., 1.]], f32[2, 2])
    """
    require_device(device, "eye")
    shape = shape_of((n_rows, n_rows if n_cols is None else n_cols), "eye")
    row, column = pointwise.iota(shape, 0, DEFAULT_INTEGER), pointwise.iota(shape, 1, DEFAULT_INTEGER)
    moved = pointwise.add(row, spread(scalar(_diagonal(k, "eye"), DEFAULT_INTEGER), shape))
    return pointwise.cast(pointwise.eq(moved, column), _dtype(dtype, DEFAULT_FLOAT))


def _diagonal(k: int, operation: str) -> int:
    """k, clamped to a value beyond every diagonal that does not wrap when added to a row index."""
    found = whole_number(k, operation, "k")
    return found if isinstance(found, Dim) else max(-(1 << 62), min(found, 1 << 62))


def _triangle(x: TensorLike, k: int, operation: str, keep: Any) -> Any:
    held = as_tensor(x)
    shape = held.type.shape
    if len(shape) < 2:
        raise ArgumentError(f"{operation}: x must have at least 2 axes; got shape {shape}")
    plane = shape[-2:]
    row, column = pointwise.iota(plane, 0, DEFAULT_INTEGER), pointwise.iota(plane, 1, DEFAULT_INTEGER)
    moved = pointwise.add(row, spread(scalar(_diagonal(k, operation), DEFAULT_INTEGER), plane))
    zero = spread(constant(0, held.type.dtype), shape)
    return pointwise.select(spread(keep(column, moved), shape), held, zero)


@one_program()
def tril(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """The lower triangle of matrices, up to the k-th diagonal; zeros above.

    >>> nc.tril([[1, 2], [3, 4]])
    Tensor([[1, 0],
            [3, 4]], i64[2, 2])
    """
    return _triangle(x, k, "tril", pointwise.le)


@one_program()
def triu(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """The upper triangle of matrices, from the k-th diagonal; zeros below.

    >>> nc.triu([[1, 2], [3, 4]])
    Tensor([[1, 2],
            [0, 4]], i64[2, 2])
    """
    return _triangle(x, k, "triu", pointwise.ge)


def meshgrid(*xs: TensorLike, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinate tensors from coordinate vectors; `indexing` is "xy" or "ij".  A number is a vector of one element.

    >>> nc.meshgrid([1, 2], [3, 4], indexing="ij")[0]
    Tensor([[1, 1],
            [2, 2]], i64[2, 2])
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f'meshgrid: indexing must be "xy" or "ij"; got {indexing!r}')
    held = [as_tensor(x) for x in xs]
    if any(len(x.type.shape) > 1 for x in held):
        raise ArgumentError(
            "meshgrid: arguments must be vectors or numbers; got " + ", ".join(str(x.type) for x in held)
        )
    order = list(range(len(held)))
    if indexing == "xy" and len(held) > 1:
        order[0], order[1] = 1, 0
    shape: list[Any] = [None] * len(held)
    for k, x in enumerate(held):
        shape[order[k]] = x.type.shape[0] if x.type.shape else 1
    return tuple([view.broadcast(x, tuple(shape), (order[k],) * len(x.type.shape)) for k, x in enumerate(held)])
