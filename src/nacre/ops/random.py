"""Counter-based random bits: Threefry-2x32 with 20 rounds.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.  Each element encrypts its
position under the key, so it does not depend on the shape, the threads or other elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.base.dtypes import DType, uint32, uint64
from nacre.base.errors import DTypeError, ShapeError
from nacre.base.types import Shape, TensorType
from nacre.ir.primitive import Nest, Primitive
from nacre.kernel.ast import (
    Apply,
    Buffer,
    Const,
    Expr,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    apply,
    const,
    index_add,
    index_mul,
    size_expr,
)
from nacre.kernel.ast import cast as convert
from nacre.ops.reduce import loops
from nacre.ops.shape import front
from nacre.trace.bind import bind
from nacre.trace.value import Value

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA


def random_bits(key: Value, shape: Shape, dtype: DType = uint32) -> Value:
    """Uniformly random unsigned integers of a shape, from a key uint32[2].

    The element at flat position p is Threefry of the counter (p mod 2³², p div 2³²): its first word, truncated as
    needed.  For uint64, the second word is the high half.  A key [..., 2] gives a tensor [..., *shape], with the
    numbers of each key in its part.
    """
    return bind(random_bits_p, key, shape=tuple(shape), dtype=dtype)


def _random_type(key: TensorType, shape: Shape, dtype: DType) -> TensorType:
    if key.dtype is not uint32:
        raise DTypeError(f"random_bits: the key must have dtype uint32; got {key}")
    if not key.rank or key.shape[-1] != 2:
        raise ShapeError(f"random_bits: the last axis of the key must have size 2; got {key}")
    if not dtype.is_integer or dtype.is_signed:
        raise DTypeError(f"random_bits: the dtype must be an unsigned integer; got {dtype.name}")
    return TensorType((*key.shape[:-1], *shape), dtype)


class _Words:
    """Writes the rounds as statements that bind each value to a name."""

    def __init__(self) -> None:
        self.statements: list[Stmt] = []

    def let(self, value: Expr) -> Local:
        """Bind a value to a name, so that it is computed once."""
        name = f"w{len(self.statements)}"
        self.statements.append(Let(name, value))
        return Local(name, value.dtype)

    def rotate(self, x: Expr, by: int) -> Expr:
        """A uint32 rotated left by a number of bits."""
        left = apply("shl", x, Const(by, uint32))
        right = apply("shr", x, Const(32 - by, uint32))
        return apply("or", left, right)

    def threefry(self, key: tuple[Expr, Expr], counter: tuple[Expr, Expr]) -> tuple[Local, Local]:
        """The two words of a counter encrypted under a key."""
        parity = apply("xor", apply("xor", key[0], key[1]), Const(PARITY, uint32))
        keys = (self.let(key[0]), self.let(key[1]), self.let(parity))
        a = self.let(apply("add", counter[0], keys[0]))
        b = self.let(apply("add", counter[1], keys[1]))
        for k in range(20):
            a = self.let(apply("add", a, b))
            b = self.let(apply("xor", self.rotate(b, ROTATIONS[k % 8]), a))
            if k % 4 == 3:
                turn = k // 4 + 1
                a = self.let(apply("add", a, keys[turn % 3]))
                mixed = apply("add", keys[(turn + 1) % 3], Const(turn, uint32))
                b = self.let(apply("add", b, mixed))
        return a, b


def _random_kernel(types: Sequence[TensorType], results: Sequence[TensorType], shape: Shape, dtype: DType) -> Kernel:
    key, result = types[0], results[0]
    ahead = key.rank - 1
    place = [Index(f"i{k}") for k in range(result.rank)]
    flat: Expr = const(0)
    for i, size in zip(place[ahead:], shape, strict=True):
        flat = index_add(index_mul(flat, size_expr(size)), i)
    words = _Words()
    position = words.let(Apply("bitcast", (flat,), uint64))
    high = apply("shr", position, Const(32, uint64))
    at = tuple(place[:ahead])
    first, second = words.threefry(
        (Load("key", (*at, const(0)), uint32), Load("key", (*at, const(1)), uint32)),
        (convert(position, uint32), convert(high, uint32)),
    )
    bits: Expr = convert(first, dtype)
    if dtype is uint64:
        upper = apply("shl", convert(second, uint64), Const(32, uint64))
        bits = apply("or", upper, bits)
    body = (*words.statements, Store("y", tuple(place), bits))
    buffers = (Buffer("key", uint32, key.shape),), (Buffer("y", dtype, result.shape),)
    return Kernel("random_bits", *buffers, loops(place, result.shape, body))


def _random_batch(inputs: Sequence[Value], axes: Sequence[int], shape: Shape, dtype: DType) -> tuple[Value, int]:
    return random_bits(front(inputs[0], axes[0]), shape, dtype), 0


random_bits_p = Primitive("random_bits", _random_type, Nest(_random_kernel), batch=_random_batch)
