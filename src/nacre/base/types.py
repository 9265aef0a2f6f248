"""`TensorType`: a shape and a dtype, interned so that equal types are one object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from sys import getrefcount
from typing import Any, ClassVar, Final, NoReturn, cast

from nacre.base.arguments import PLAIN, few, is_whole, shown
from nacre.base.dims import NEEDS, Dim, Size, evaluate, product
from nacre.base.dtypes import BYTE, DType
from nacre.base.errors import AxisError, DTypeError, KindError, OutOfMemory, ShapeError
from nacre.base.locks import forkable
from nacre.base.size_pattern import LEAST

Shape = tuple[Size, ...]
UNUSED: Final = 2  # references to an object in a local variable, as `getrefcount` gives them
MOST_TYPES: Final = 1 << 13
MOST_AXES: Final = 64  # NumPy's limit; loop nests and their compile time grow with the axes


_listing = forkable()


def require_addressable(size: Size, operation: str) -> None:
    """Raise OutOfMemory for a size that no machine addresses."""
    if (type(size) is int or not isinstance(size, Dim)) and size >= 1 << 63:
        raise OutOfMemory(f"{operation}: a size must fit the machine's address space; got {size}; use a smaller size")


class TensorType:
    """The type of a tensor value, printed as `f32[B, 784]`.  Equal types are identical."""

    __slots__ = ("dtype", "kind", "shape", "sizes", "static")
    shape: Shape
    dtype: DType
    static: bool  # every size is a plain int
    kind: tuple[object, ...] | None  # the dtype, and the sizes that are 0 or 1; equal types have one; None if symbolic
    sizes: tuple[int, ...]  # the other sizes; none if one is symbolic

    _interned: ClassVar[dict[tuple[Shape, DType], TensorType]] = {}
    _most: ClassVar[int] = MOST_TYPES  # types at which those that nothing refers to are dropped

    def __new__(cls, shape: Sequence[Size], dtype: DType) -> TensorType:
        key = (tuple(shape), dtype)
        for s in key[0]:
            if s is True or s is False:  # equal to 0 or 1, but printed differently in generated code
                raise KindError(f"tensor: sizes must be integers; got {show_shape(key[0])}; write int(n)")
        found = cls._interned.get(key)
        return cls._new(key) if found is None else found

    @classmethod
    def _new(cls, key: tuple[Shape, DType]) -> TensorType:
        """A new type, unless another thread has made an equal one."""
        shape, dtype = key
        if len(shape) > MOST_AXES:
            raise ShapeError(f"tensor: at most {MOST_AXES} axes are allowed; got {len(shape)}; merge some")
        static = PLAIN.issuperset(map(type, shape))
        if not static:
            shape = tuple([s if type(s) is int or isinstance(s, Dim) else index(s) for s in shape])
            static = PLAIN.issuperset(map(type, shape))
        noted = NEEDS.note is not None
        least = min(cast("tuple[int, ...]", shape), default=LEAST) if static else 0
        if least < 0 or (
            not static and any([n < 0 for n in shape if type(n) is int or (noted and isinstance(n, Dim))])
        ):
            raise ShapeError(f"tensor: sizes must not be negative; got {show_shape(shape)}")
        with _listing:
            known = cls._interned.get((shape, dtype))
            if known is not None:  # another thread has made it
                return known
            if len(cls._interned) >= cls._most:
                cls._forget()
            found = super().__new__(cls)
            found.shape, found.dtype, found.static = shape, dtype, static
            if least >= LEAST:
                found.sizes, found.kind = cast("tuple[int, ...]", shape), _kind(dtype, (-1,) * len(shape))
            cls._interned[shape, dtype] = found
            return found

    @classmethod
    def _forget(cls) -> None:
        """Drop the types that nothing refers to; a type that is used stays the only one of its shape and dtype."""
        for key in list(cls._interned):
            found = cls._interned.pop(key)  # from here on, no other thread finds it, or makes another one
            if getrefcount(found) > UNUSED:
                cls._interned[key] = found
        cls._most = max(MOST_TYPES, 2 * len(cls._interned))

    def __getattr__(self, name: str) -> Any:
        """`kind` and `sizes`, when one of them is first read, of types with other sizes."""
        if name not in ("kind", "sizes"):
            raise AttributeError(f"TensorType has no attribute {name!r}")
        shape = cast("tuple[int, ...]", self.shape)
        if not self.static:
            self.sizes, self.kind = (), None
        else:
            self.sizes = tuple([s for s in shape if s >= LEAST])
            self.kind = _kind(self.dtype, tuple([s if s < LEAST else -1 for s in shape]))
        return getattr(self, name)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Size:
        """The number of elements."""
        return product(self.shape)

    @property
    def nbytes(self) -> Size:
        """Bytes of a dense buffer, in which elements are packed."""
        return bytes_of(self.size, self.dtype)

    def at(self, sizes: Mapping[str, int]) -> TensorType:
        """The type with numbers for its symbolic sizes."""
        return self if self.static else TensorType([evaluate(n, sizes) for n in self.shape], self.dtype)

    def with_shape(self, shape: Sequence[Size]) -> TensorType:
        """The type with another shape."""
        return TensorType(shape, self.dtype)

    def with_dtype(self, dtype: DType) -> TensorType:
        """The type with another dtype."""
        return TensorType(self.shape, dtype)

    def __call__(self, *dtype: object) -> NoReturn:
        """Raises KindError: PyTorch's `x.type()` has another meaning."""
        raise KindError(
            f"type: x.type is the type of the tensor, {self}; write x.dtype for PyTorch's x.type(), and "
            "x.astype(dtype) to convert"
        )

    def __repr__(self) -> str:
        return f"{self.dtype.short}[{', '.join(map(str, self.shape))}]"

    def __reduce__(self) -> tuple[object, ...]:
        return TensorType, (self.shape, self.dtype)


class ElementCount(int):
    """A number of elements; a call of it, as in PyTorch, raises an error with the right spelling."""

    __slots__ = ()

    def __call__(self, *axes: Any) -> NoReturn:
        shape = "x.shape" + "".join(f"[{axis}]" for axis in axes[:1])
        raise KindError(f"size: x.size is the number of elements, {int(self)}; write {shape} for PyTorch's x.size()")

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)


def _kind(dtype: DType, marks: tuple[int, ...]) -> tuple[object, ...]:
    """The kind of types, which equal ones share."""
    kind = dtype, marks
    return _kinds.setdefault(kind, kind)


_kinds: dict[tuple[object, ...], tuple[object, ...]] = {}
known_type: Final = TensorType._interned.get  # pyright: ignore[reportPrivateUsage] - of (shape, dtype), of plain ints


def bytes_of(count: Size, dtype: DType) -> Size:
    """Bytes of a number of packed elements, rounded up to a whole byte.

    >>> from nacre.base.dtypes import bool_, float32
    >>> bytes_of(3, float32), bytes_of(3, bool_)
    (12, 3)
    """
    bits = dtype.storage_bits
    return count * (bits // BYTE) if bits % BYTE == 0 else (count * bits + BYTE - 1) // BYTE


def row_major(shape: Sequence[Size]) -> tuple[Size, ...]:
    """Strides, in elements, of a dense row-major tensor."""
    strides: list[Size] = []
    step: Size = 1
    for s in reversed(shape):
        strides.append(step)
        step = step * (s if isinstance(s, Dim) else max(s, 1))
    return tuple(reversed(strides))


def show_shape(shape: Shape) -> str:
    """A shape as a tuple, with symbolic sizes by name.

    >>> show_shape((2, 3)), show_shape((Dim.symbol("n", max=8),)), show_shape(())
    ('(2, 3)', '(n,)', '()')
    """
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def agreeing(sizes: Sequence[Size], otherwise: str) -> str:
    """The advice for sizes that must be equal and are not: one Dim, if several have names."""
    return "use one Dim for both" if sum(isinstance(s, Dim) for s in sizes) > 1 else otherwise


def broadcast_shapes(*shapes: Shape, operation: str = "broadcast") -> Shape:
    """The common shape of shapes by NumPy's broadcasting rules.  Raises ShapeError if there is none."""
    rank = max(map(len, shapes), default=0)
    result: list[Size] = []
    for k in range(rank):
        sizes = [s[k - rank + len(s)] for s in shapes if k - rank + len(s) >= 0]
        big = [s for s in sizes if s != 1]
        if any(s != big[0] for s in big):
            raise ShapeError(
                f"{operation}: sizes must be equal or 1 in each axis; got {' and '.join(map(str, sizes))} in axis "
                f"{k - rank} (shapes {' and '.join(map(show_shape, shapes))}); "
                + agreeing(sizes, "reshape or transpose one of them")
            )
        result.append(big[0] if big else 1)
    return tuple(result)


def unlike(what: str, wanted: TensorType, found: TensorType) -> ShapeError | DTypeError:
    """The error for a tensor of another type: ShapeError for another shape, DTypeError if only the dtype differs."""
    if found.shape != wanted.shape:
        return ShapeError(f"{what} must have type {wanted}; got {found}, of another shape; reshape or broadcast it")
    return DTypeError(f"{what} must have type {wanted}; got {found}; convert it with astype(nacre.{wanted.dtype.name})")


def normal_axis(axis: int, rank: int, operation: str) -> int:
    """A non-negative axis.  Raises AxisError if it is out of range, KindError if it is not a whole number."""
    if type(axis) is not int and not is_whole(axis):
        raise KindError(f"{operation}: axis must be an integer; got {shown(axis)}")
    axis = axis if type(axis) is int else index(axis)
    if not -rank <= axis < rank:
        raise AxisError(f"{operation}: axis must be in [{-rank}, {rank}); got {axis}")
    return axis % rank if rank else 0


def normal_axes(axes: int | Sequence[int] | None, rank: int, operation: str) -> tuple[int, ...]:
    """Sorted, distinct, non-negative axes; None means all axes."""
    if axes is None:
        return tuple(range(rank))
    if type(axes) is int:
        return (normal_axis(axes, rank, operation),)
    given: object = axes
    one = isinstance(given, str) or getattr(given, "shape", None) == ()
    single = one or is_whole(given) or not hasattr(type(given), "__iter__")
    listed: list[int] = [cast("int", axes)] if single else list(few(cast("Sequence[int]", axes), operation))
    normal = sorted(normal_axis(a, rank, operation) for a in listed)
    if len(set(normal)) != len(normal):
        raise ShapeError(f"{operation}: axes must be distinct; got {tuple(listed)}")
    return tuple(normal)
