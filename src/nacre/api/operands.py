"""How Python numbers, arrays and variables become tensors, and how operands are promoted and broadcast.

Python numbers are weak: they take the dtype of the tensor operand, unless their kind is higher.  An integer tensor and
a Python float give float32.  Lists of Python numbers are weak beside inexact tensors.  Tensors of different kinds are
not promoted.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, MutableSequence, Sequence
from functools import partial
from typing import Any, Final, cast

import numpy as np

from nacre.api.primitives import checking, pointwise, view
from nacre.base.arguments import few, is_whole, plain_number, shown
from nacre.base.conversion import Number, bounds, element, elements, natural_dtype, not_numbers, plain, require_unmasked
from nacre.base.dims import Dim, Size, require_fitting
from nacre.base.dtypes import (
    FLOATING,
    INEXACT,
    DType,
    DTypeSet,
    as_dtype,
    bool_,
    complex128,
    float32,
    float64,
    int64,
    promote,
)
from nacre.base.errors import (
    CHECKED,
    TRACED,
    ArgumentError,
    DTypeError,
    Error,
    GradientError,
    KindError,
    ShapeError,
    UnknownNumber,
    explain,
)
from nacre.base.state import STATE
from nacre.base.types import Shape, TensorType, broadcast_shapes, require_addressable
from nacre.interpret.anomalies.detector import is_examined
from nacre.interpret.evaluate import from_numpy, of_placeholder, to_numpy
from nacre.interpret.numbers.staged_number import StagedNumber
from nacre.interpret.numbers.traced_number import TracedNumber
from nacre.interpret.tape import another
from nacre.trace.reads import array_capture, is_capture
from nacre.trace.value import PLACEHOLDERS, DonatedValue, Value, is_concrete
from nacre.trace.variable import Variable, scope

Scalar = bool | int | float | complex | Dim
HALF = 65504  # the greatest float16
TensorLike = Value | Variable | Scalar | np.ndarray | np.generic | MutableSequence[Any] | tuple[Any, ...] | memoryview
SCALARS, ARRAYS = (bool, int, float, complex, Dim), (np.ndarray, np.generic)  # each call would make unions again
DEFAULT_FLOAT: Final = float32
DEFAULT_INTEGER: Final = int64

_constants: dict[tuple[DType, Any], Value] = {}


def is_scalar(x: object) -> bool:
    """Whether x is a Python number, or a symbolic size."""
    return isinstance(x, SCALARS)


def default_float(x: Any) -> Any:
    """A Python number that is real as a tensor of the default dtype; others unchanged."""
    return as_tensor(x, DEFAULT_FLOAT) if is_scalar(x) and not isinstance(x, complex) else x


def constant(value: Number, dtype: DType) -> Any:
    """A rank-0 tensor of a Python number, cached by number and dtype."""
    given: Any = value
    if type(given) is StagedNumber:
        return given.tensor(dtype)
    if type(given) is TracedNumber:
        made = given.tensor(dtype)
        if made is not None:
            return made
        value = given.itself
    value = plain(value)
    key = dtype, _named(value)
    found = _constants.get(key)
    if found is None:
        if len(_constants) > 4096:
            _constants.clear()
        found = _constants[key] = from_numpy(element(value, dtype))
    return found


def _named(value: Number) -> object:
    """A number for keys, where zeros of two signs must differ."""
    return value if value and not isinstance(value, complex) else str(value)


def scalar(value: Scalar, dtype: DType) -> Any:
    """A rank-0 tensor of a Python number or a symbolic size."""
    if isinstance(value, Dim):
        kind = dtype if dtype.is_integer else int64
        low, high = bounds(kind)
        require_fitting(value, *((-HALF, HALF) if dtype.is_float and dtype.bits <= 16 else (low, high)))
        return extent(value, dtype)
    return constant(value, dtype)


def requested_dtype(operation: str, dtype: Any, x: object) -> DType:
    """The dtype that a caller names for a tensor or an array x.

    Python's float and complex have parts of float32; raises DTypeError where they would take digits of x.
    """
    found = as_dtype(dtype)
    if (dtype is float or dtype is complex) and isinstance(x, Value | Variable | np.ndarray):
        given = as_tensor(x).type.dtype
        if given.real is float64:
            wide = float64 if dtype is float else complex128
            raise DTypeError(
                f"{operation}: Python's {dtype.__name__} as a dtype means {found.name}, so the tensor must not be "
                f"wider; got {given.name}; write nacre.{wide.name} to keep its digits, or nacre.{found.name}"
            )
    return found


def extent(size: Size, dtype: DType = int64) -> Any:
    """The size of an axis, or the number of a tensor's elements, as a rank-0 tensor; these always fit an int64."""
    if not isinstance(size, Dim):
        return constant(size, dtype)
    number = pointwise.dimension(size)
    return number if dtype is int64 else pointwise.cast(number, dtype)


def as_tensor(x: Any, dtype: DType | None = None) -> Any:
    """The tensor of a tensor, variable, Python number, NumPy array, nested list, memoryview or `array`.

    With `dtype`, tensors and arrays are converted as by `astype`; Python numbers, also in lists, must fit it.
    """
    if isinstance(x, Variable):
        x = x.value
    if isinstance(x, Value):
        return x if dtype is None or x.type.dtype is dtype else pointwise.cast(x, dtype)
    if isinstance(x, ARRAYS):
        return _from_array(np.asanyarray(cast("np.ndarray", x)), dtype)
    if is_scalar(x):
        return scalar(x, dtype or natural_dtype(x))
    if isinstance(x, memoryview | array):
        return _from_array(np.asarray(x), dtype)
    if isinstance(x, list | tuple):
        try:
            return _from_nested(cast("Sequence[Any]", x), dtype)
        except RecursionError:
            raise DTypeError("tensor: a list must not contain itself; got one that does") from None
    if hasattr(x, "__array__"):
        return _from_array(np.asarray(x), dtype)
    if isinstance(x, str | bytes):
        raise not_numbers("tensor", type(x))
    raise DTypeError(
        f"tensor: the value must be a tensor, number, NumPy array or nested list of numbers; got {type(x).__name__}"
    )


def _from_array(array: np.ndarray, dtype: DType | None) -> Any:
    require_unmasked("tensor", array)
    held = array_capture(array, lambda: from_numpy(array)) if STATE.word else None
    held = from_numpy(array) if held is None else held  # in the byte order of the machine
    return held if dtype is None or held.type.dtype is dtype else pointwise.cast(held, dtype)


def _from_nested(items: Sequence[Any], dtype: DType | None) -> Any:
    leaves: list[Any] = []
    arrays = _holds_tensor(items, leaves)
    strong = [] if arrays else [np.asarray(leaf).dtype for leaf in leaves if _is_array(leaf)]
    if arrays or (strong and len(strong) < len(leaves)):
        return _from_parts(items, dtype)
    try:
        array = np.array(items)
        if any(isinstance(leaf, np.ma.MaskedArray) for leaf in leaves):
            _from_array(np.ma.MaskedArray(array), None)  # raises the error for masked arrays
    except ValueError:
        got = _ragged_lengths(items) or "ragged lists"
        raise ShapeError(
            f"tensor: nested lists must have equal lengths; got {got}; pad them, or keep a list of tensors"
        ) from None
    if not strong:
        return from_numpy(elements(array, leaves, dtype, "tensor"))
    met = _promoted("tensor", [as_dtype(d) for d in dict.fromkeys(strong)])
    return _from_array(array.astype(met.numpy), dtype)


def _from_parts(items: Sequence[Any], dtype: DType | None) -> Any:
    """A list that contains tensors or arrays: its items are promoted as operands are."""
    weak = [dtype is None and (is_scalar(item) or is_plain(item)) for item in items]
    met, _ = meet("tensor", [x if w else as_tensor(x, dtype) for x, w in zip(items, weak, strict=True)])
    rows = [view.reshape(p, (1, *p.type.shape)) for p in met]
    for row in rows[1:]:
        if row.type.shape != rows[0].type.shape:
            raise _ragged(rows[0].type.shape[1:], row.type.shape[1:])
    return view.concatenate(rows, 0)


def is_plain(x: object) -> bool:
    """Whether x is a list of Python numbers, which have no dtype yet."""
    if not isinstance(x, list | tuple):
        return False
    leaves: list[Any] = []
    try:
        held = _holds_tensor(cast("Sequence[Any]", x), leaves)
    except RecursionError:  # a list that contains itself, which `as_tensor` refuses
        return False
    return not held and not any(map(_is_array, leaves))


def _is_array(x: object) -> bool:
    return isinstance(x, np.generic | np.ndarray) or (not isinstance(x, Number) and hasattr(x, "__array__"))


def _ragged_lengths(items: Sequence[Any], at: str = "x") -> str:
    """Two items of one list that differ in size, with their places; nothing where the lists have equal sizes."""
    sizes = [_extent(item) for item in items]
    for k, size in enumerate(sizes):
        if size != sizes[0]:
            return f"{_extent_in_words(sizes[0])} at {at}[0] and {_extent_in_words(size)} at {at}[{k}]"
    inner = (
        _ragged_lengths(cast("Sequence[Any]", item), f"{at}[{k}]")
        for k, item in enumerate(items)
        if isinstance(item, list | tuple)
    )
    return next(filter(None, inner), "")


def _extent(item: Any) -> tuple[int, ...]:
    """The shape of an array, the length of a list, () for a number."""
    if isinstance(item, list | tuple):
        return (len(cast("Sequence[Any]", item)),)
    return tuple(getattr(item, "shape", ()))


def _extent_in_words(size: tuple[int, ...]) -> str:
    if not size:
        return "one number"
    return f"{size[0]} item{'' if size[0] == 1 else 's'}" if len(size) == 1 else f"an array of shape {size}"


def _ragged(first: Shape, other: Shape) -> ShapeError:
    return ShapeError(f"tensor: items must have equal shapes; got {first} and {other}; pad them")


def _holds_tensor(items: Sequence[Any], leaves: list[Any]) -> bool:
    for item in items:
        if isinstance(item, Value | Variable) or type(item) is StagedNumber:
            return True
        if isinstance(item, list | tuple):
            if _holds_tensor(cast("Sequence[Any]", item), leaves):
                return True
        else:
            leaves.append(item)
    return False


def distinct(result: Any, x: Any) -> Any:
    """The result as a new object if a function returned its operand, so that `y[0] = v` does not change x."""
    return another(result) if result is x else result


def meet(operation: str, xs: Sequence[Any]) -> tuple[list[Any], DType]:
    """Operands promoted to one dtype (shapes are unchanged), and that dtype.

    Lists of Python numbers beside inexact tensors take the dtype of these, as Python numbers do.
    """
    held = [x if is_scalar(x) or is_plain(x) else as_tensor(x) for x in xs]
    dtype = _promoted(operation, [x.type.dtype for x in held if isinstance(x, Value)])
    if any(isinstance(x, list | tuple) for x in held):
        held = [_listed(x, dtype) if isinstance(x, list | tuple) else x for x in held]
        dtype = _promoted(operation, [x.type.dtype for x in held if isinstance(x, Value)])
    for x in held:
        if not isinstance(x, Value) and natural_dtype(x).category.level > dtype.category.level:
            dtype = dtype.paired if dtype.is_float else natural_dtype(x)
    return [as_tensor(x, dtype) for x in held], dtype


def _listed(x: Any, dtype: DType) -> Any:
    """The tensor of a list of Python numbers, in an inexact dtype of other operands unless its own kind is higher."""
    made = as_tensor(x)
    own: DType = made.type.dtype
    weak = dtype.is_inexact and own is not dtype and own.category.level <= dtype.category.level
    return as_tensor(x, dtype) if weak else made


def _promoted(operation: str, dtypes: Sequence[DType]) -> DType:
    try:
        return promote(*dtypes) if dtypes else bool_
    except DTypeError as fault:
        raise DTypeError(str(fault).replace("promotion", operation, 1)) from None


def require(operation: str, dtype: DType, accepted: DTypeSet) -> None:
    """Raise DTypeError unless the dtype is one of those accepted."""
    if dtype not in accepted:
        floats = accepted in (FLOATING, INEXACT)
        remedy = "; convert it, as in `x.astype(nacre.float32)`" if floats else ""
        remedy = "; take its abs, or a part" if dtype.is_complex else remedy
        if dtype.is_storage:
            wanted = "float32" if floats else dtype.number.name
            remedy = f", which is only stored; write x.astype(nacre.{wanted})"
        raise DTypeError(f"{operation}: operands must have {accepted.name}; got {dtype.name}{remedy}")


def is_half(x: Any) -> bool:
    """Whether x is a tensor of float16 or bfloat16, for which library functions compute in float32."""
    return x.type.dtype.is_widened


def in_single(f: Callable[..., Any], *xs: Any) -> Any:
    """f of half-type tensors, computed in float32 and rounded once."""
    dtype: DType = xs[0].type.dtype
    return as_tensor(f(*(as_tensor(x, dtype.arithmetic) for x in xs)), dtype)


def in_double(f: Callable[..., Any], *xs: Any) -> Any:
    """f of tensors of floats, computed in float64 and rounded; half types are rounded from float32."""
    if is_half(xs[0]):
        return in_single(partial(in_double, f), *xs)
    return as_tensor(f(*(as_tensor(x, float64) for x in xs)), xs[0].type.dtype)


def spread(x: Any, shape: Shape) -> Any:
    """x broadcast to a shape by NumPy's rules."""
    held: TensorType = x.type
    if held.shape == shape:
        return x
    shift = len(shape) - len(held.shape)
    return view.broadcast(x, shape, tuple(range(shift, len(shape))))


SMALL: Final = 1 << 18  # most bytes of a tensor of one number that is cached
KEPT: Final = 1 << 24  # most bytes of all cached ones
_filled: dict[tuple[TensorType, Any], Value] = {}
_kept_bytes = [0]


def filled(x: Value, value: Number) -> Any:
    """A tensor of the type of x with one number in every element.  Small ones are cached in eager mode."""
    if not (type := x.type).shape:
        return constant(value, type.dtype)
    if (STATE.word and not is_examined()) or not type.static or type.nbytes > SMALL:
        return spread(constant(value, type.dtype), type.shape)
    value = plain(value)
    key = type, _named(value)
    found = _filled.get(key)
    if found is None:
        if _kept_bytes[0] > KEPT:
            _filled.clear()
            _kept_bytes[0] = 0
        _kept_bytes[0] += int(type.nbytes) + 512  # with the objects around it
        found = _filled[key] = from_numpy(np.full(tuple(map(int, type.shape)), element(value, type.dtype)))
    return found


def operands(operation: str, *xs: Any) -> list[Any]:
    """Operands with one dtype and one shape.  Raises DTypeError or ShapeError if promotion or broadcasting fails."""
    if len(xs) == 2:
        pair = _pair(*xs)
        if pair is not None:
            return pair
    met, _ = meet(operation, xs)
    first = met[0].type.shape
    if all(x.type.shape == first for x in met):
        return met
    shape = broadcast_shapes(*(x.type.shape for x in met), operation=operation)
    return [spread(x, shape) for x in met]


def _pair(x: Any, y: Any) -> list[Any] | None:
    """Two operands that need no promotion: of one type, or a tensor and a number of no higher kind."""
    if isinstance(x, Value):
        if isinstance(y, Value):
            return [x, y] if x.type is y.type else None
        if isinstance(y, Number) and natural_dtype(y).category.level <= x.type.dtype.category.level:
            return [x, filled(x, y)]
        return None
    met = _pair(y, x) if isinstance(y, Value) and isinstance(x, Number) else None
    return None if met is None else met[::-1]


def require_inside(
    x: Any, low: Size, high: Size, error: type[Error], text: str, allowed: int | None = None, known: bool = False
) -> None:
    """Require that a tensor's integers are in [low, high), or `allowed`: at once, or when a traced program runs.

    The text of the error has {low}, {high} and {got}, the first integer that is out of bounds.  With `known`, integers
    with numbers are checked now in any case.
    """
    if is_concrete(x) and isinstance(low, int) and isinstance(high, int) and (known or not is_capture(x)):
        wrong = _outside(to_numpy(x), low, high, allowed)
        if not wrong.size:
            return
        if known or scope() is None:  # else the part of the program that is traced may never run
            raise error(text.format(low=low, high=high, got=wrong[0]))
    kind = next(name for name, kind in CHECKED.items() if kind is error)
    if allowed is not None:
        x = pointwise.select(pointwise.eq(x, filled(x, allowed)), filled(x, cast("int", low)), x)
    checking.check(x, low, high, kind, text)


def _outside(array: np.ndarray, low: int, high: int, allowed: int | None) -> np.ndarray:
    """The integers that are not in [low, high) and not allowed, as a vector."""
    if not array.size or (array.min() >= low and array.max() < high):
        return array.reshape(-1)[:0]
    wrong = array[(array < low) | (array >= high)]
    return wrong if allowed is None else wrong[wrong != allowed]


def settled_number(x: Any, operation: str, what: str) -> float:
    """A plain number, through which no gradient flows.  Raises GradientError for a tensor that requires one."""
    held = x.value if isinstance(x, Variable) else x
    if isinstance(held, Value) and held.node is not None and STATE.gradients:
        raise GradientError(
            f"{operation}: {what} must be a plain number, which records no gradient; got a tensor "
            "that requires one; write float(x.detach()) where no gradient is needed"
        )
    return plain_number(held, operation, what)


def numbers(x: Value, operation: str) -> np.ndarray:
    """The numbers of a tensor as a read-only NumPy array.  Raises TraceError for a traced tensor."""
    if not is_concrete(x) and not isinstance(x.content, DonatedValue):
        if x.content.level == PLACEHOLDERS:
            raise of_placeholder(x, operation, _SHOWN.get(operation, f"{operation}(x)"))
        raise UnknownNumber(
            explain(
                f"{operation}: the tensor must have known numbers; got a traced tensor of type {x.type}",
                f"@nc.jit\ndef f(x):\n    return compute({_SHOWN.get(operation, operation + '(x)')})",
                f"{TRACED}\n  a tensor is a placeholder without numbers, so Python cannot read it.",
                _INDEXED
                if operation == "index"
                else '@nc.jit\ndef f(x):\n    print(f"{x:.3f}")                   # printed when the program runs\n'
                "    return nc.where(x > 0, x, 0.0)      # stay with tensors\n\n"
                "float(f(x))                               # read numbers outside",
            ),
            operation,
        )
    array = to_numpy(x).view()
    array.flags.writeable = False
    return array


_INDEXED: Final = (
    "@nc.jit\ndef f(x):\n    for k in range(x):       # a loop of the program, with a known step\n        ...\n"
    "    return compute(nc.asarray(data)[x])      # an index of a tensor"
)
_SHOWN: Final = {"numpy": "x.numpy()", "item": "x.item()", "tolist": "x.tolist()", "index": "data[x]"}


def require_no_gradient(x: Value, operation: str) -> None:
    """Raise GradientError inside `grad` and `vjp` for a tensor that depends on their differentiated arguments."""
    if x.node is not None and x.node.level and STATE.gradients and is_concrete(x):
        raise GradientError(
            explain(
                f"{operation}: the tensor must not depend on an argument that is being differentiated for; got one of "
                f"type {x.type} that does",
                f"@nc.grad\ndef f(x):\n    return compute({_SHOWN.get(operation, operation + '(x)')}) * x",
                "Python and NumPy compute with plain numbers.  The part of the gradient that goes through them would "
                "be lost.",
                "@nc.grad\ndef f(x):\n    print(x.detach().item())                   # plain numbers on purpose\n"
                "    return nc.sin(x) * x                        # functions of Nacre",
            )
        )


def plain_numbers(x: Value, operation: str) -> np.ndarray:
    """`numbers` for code of Python and NumPy, through which no gradient flows; see `require_no_gradient`."""
    require_no_gradient(x, operation)
    return numbers(x, operation)


def shape_of(shape: Any, operation: str) -> Shape:
    """A shape as a tuple, from an int, a symbolic size, or a sequence of sizes."""
    given: object = shape
    sizes = whole_sizes((shape,) if isinstance(given, int | Dim | np.integer) else shape, operation)
    for s in sizes:
        if isinstance(s, int) and s < 0:
            raise ArgumentError(f"{operation}: sizes must be at least 0; got {sizes}")
    return sizes


def whole_sizes(shape: Any, operation: str) -> Shape:
    """The sizes of a shape.  Raises KindError for sizes that are not whole numbers, OutOfMemory for too large ones."""
    given: object = shape
    if isinstance(given, Value) and not given.type.shape:
        raise KindError(f"{operation}: sizes must be integers; got a tensor of type {given.type}; write int(n) outside")
    listed: tuple[Any, ...] = (shape,) if isinstance(shape, str | bytes) else few(shape, operation)
    for s in listed:
        if type(s) is not int and not is_whole(s):
            raise KindError(f"{operation}: sizes must be integers; got {shown(s)}; write int(n) or n // 2")
        require_addressable(s, operation)
    return tuple([s if type(s) is int or isinstance(s, Dim) else int(s) for s in listed])
