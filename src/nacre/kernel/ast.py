"""The kernel IR: loop nests over buffers, an algebraic data type that fits on a page.

A `Kernel` names its buffers and its symbolic sizes, and has a body of statements.  Shapes and strides are sizes (`int`
or `Dim`); a buffer without strides is dense and row-major.  The outermost `For` loops marked `parallel` make up the
kernel's parallel extent: their iterations are independent of each other and may run in any order on any thread.  A loop
marked `vector` may run a vector at a time.

A reduction is an `Alloc` of a buffer of shape (), one loop, and an `Accumulate` in that loop; it has the canonical
order of `kernel/order`, however the loop is split.  An accumulator is read by `Load` after its loop.  Other scratch is
an `Alloc` too, private to each iteration of the enclosing loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from nacre.base.dims import Size
from nacre.base.dtypes import DType, bool_, int64
from nacre.base.records import dataclass

# ---- expressions


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A number.  Zeros of different signs are different, and all NaNs are equal."""

    value: Any
    dtype: DType

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Const) and self.dtype is other.dtype and _identity(self.value) == _identity(other.value)
        )

    def __hash__(self) -> int:
        return hash((_identity(self.value), self.dtype))


def _identity(value: Any) -> object:
    if isinstance(value, complex):
        return _identity(value.real), _identity(value.imag)
    return value if value and value == value else str(float(value))


@dataclass(frozen=True, slots=True)
class Index:
    """The index of an enclosing loop, as an int64."""

    name: str
    dtype: DType = int64


@dataclass(frozen=True, slots=True)
class Extent:
    """A size as an int64 value."""

    size: Size
    dtype: DType = int64


@dataclass(frozen=True, slots=True)
class Local:
    """The value that a `Let` bound to a name."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Load:
    """The element of a buffer at int64 indices, one for each axis."""

    buffer: str
    index: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Apply:
    """A scalar operation of `OPERATIONS` applied to expressions; `dtype` is the result's."""

    op: str
    args: tuple[Expr, ...]
    dtype: DType


Expr = Const | Index | Extent | Local | Load | Apply

# ---- statements


@dataclass(frozen=True, slots=True)
class Buffer:
    """A named block of elements; `strides`, in elements, are row-major if None."""

    name: str
    dtype: DType
    shape: tuple[Size, ...]
    strides: tuple[Size, ...] | None = None


@dataclass(frozen=True, slots=True)
class For:
    """for index in range(extent): body."""

    index: str
    extent: Size
    body: tuple[Stmt, ...]
    parallel: bool = False
    vector: bool = False


@dataclass(frozen=True, slots=True)
class Let:
    """Bind a name for the statements that follow in the block."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Store:
    """buffer[index] = value."""

    buffer: str
    index: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Reduce values into accumulators of shape () by one of `REDUCTIONS`, in the canonical order.

    `argmax` and `argmin` take two accumulators and two values: the element and its int64 index.
    """

    op: str
    accumulators: tuple[str, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Alloc:
    """Scratch memory, private to an iteration of the enclosing loops; not initialised unless accumulated into."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class If:
    """body if the condition holds, else orelse."""

    condition: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class While:
    """Repeat body while the condition, evaluated before each iteration, holds."""

    condition: Expr
    body: tuple[Stmt, ...]


Stmt = For | Let | Store | Accumulate | Alloc | If | While


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: parameters in order (inputs, then outputs) and the statements that compute the outputs."""

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    body: tuple[Stmt, ...]

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """All parameters in order."""
        return self.inputs + self.outputs


# ---- operations and reductions

Signature = Literal["same", "compare", "logic", "shift", "select", "cast", "test", "pair", "part"]

# name -> (number of operands, how types relate)
#   same: operands and result share a dtype; compare: operands share one, the result is bool;
#   logic: bool or integers; shift: integers; select: (bool, T, T) -> T;
#   cast: any -> any (`cast` converts, `bitcast` keeps the bits); test: float or complex -> bool;
#   pair: real and imaginary part -> complex number; part: complex -> real
SPECIAL: dict[str, int] = {  # the special functions, and their operands
    **dict.fromkeys(("lgamma", "gamma", "digamma", "erfinv", "erfcinv", "erfcx", "ndtr", "log_ndtr"), 1),
    **dict.fromkeys(("i0", "i0e", "i1", "i1e", "logit", "entr", "sinc"), 1),
    **dict.fromkeys(("zeta", "betaln", "xlogy", "xlog1py"), 2),
    **dict.fromkeys(("gammainc", "gammaincc", "gammainc_slope", "gamma_density", "implicit_gamma"), 2),
    **dict.fromkeys(("betainc", "beta_density"), 3),
}

OPERATIONS: dict[str, tuple[int, Signature]] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "idiv", "rem", "minimum", "maximum"), (2, "same")),
    **dict.fromkeys(("pow", "atan2", "copysign"), (2, "same")),
    **dict.fromkeys(("neg", "abs", "sign", "floor", "ceil", "trunc", "round", "sqrt", "rsqrt"), (1, "same")),
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sigmoid"), (1, "same")),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan"), (1, "same")),
    **dict.fromkeys(("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "cbrt"), (1, "same")),
    **{name: (operands, "same") for name, operands in SPECIAL.items()},
    "fma": (3, "same"),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), (2, "compare")),
    **dict.fromkeys(("and", "or", "xor"), (2, "logic")),
    "not": (1, "logic"),
    **dict.fromkeys(("shl", "shr"), (2, "shift")),
    "select": (3, "select"),
    **dict.fromkeys(("cast", "bitcast"), (1, "cast")),
    **dict.fromkeys(("isnan", "isinf", "isfinite"), (1, "test")),
    "complex": (2, "pair"),
    **dict.fromkeys(("real", "imag", "modulus"), (1, "part")),
    "conj": (1, "same"),
}

# name -> number of accumulators
REDUCTIONS: dict[str, int] = {
    **dict.fromkeys(("sum", "prod", "max", "min", "any", "all"), 1),
    **dict.fromkeys(("argmax", "argmin"), 2),
}


def const(value: float | int | bool, dtype: DType = int64) -> Const:
    """A constant, by default an index."""
    return Const(value, dtype)


def apply(op: str, *args: Expr) -> Expr:
    """Apply an operation whose result type follows from its operands."""
    kind = OPERATIONS[op][1]
    from_args = args[1].dtype if kind == "select" else args[0].dtype
    if kind in ("pair", "part"):
        from_args = from_args.paired if kind == "pair" else from_args.real
    return Apply(op, args, bool_ if kind in ("compare", "test") else from_args)


def number_of(value: complex, dtype: DType) -> Expr:
    """A number of any dtype; a complex one is a pair of constants."""
    if dtype.component is None:
        return Const(value, dtype)  # type: ignore[arg-type]
    given = complex(value)
    return apply("complex", Const(given.real, dtype.component), Const(given.imag, dtype.component))


def zero_of(dtype: DType) -> Const:
    """The zero of a dtype of real numbers; that of bool is False."""
    return Const(False if dtype.is_bool else 0, dtype)


def cast(x: Expr, dtype: DType) -> Expr:
    """x converted to dtype; x itself if it has that dtype."""
    return x if x.dtype is dtype else Apply("cast", (x,), dtype)


def index_add(a: Expr, b: Expr) -> Expr:
    """a + b of int64 indices, constant-folded if both are known."""
    if isinstance(a, Const) and isinstance(b, Const):
        return const(int(a.value) + int(b.value))
    if isinstance(a, Const) and a.value == 0:
        return b
    if isinstance(b, Const) and b.value == 0:
        return a
    return Apply("add", (a, b), int64)


def index_mul(a: Expr, b: Expr) -> Expr:
    """a · b of int64 indices, constant-folded if both are known."""
    if isinstance(a, Const) and isinstance(b, Const):
        return const(int(a.value) * int(b.value))
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Const) and x.value == 1:
            return y
        if isinstance(x, Const) and x.value == 0:
            return const(0)
    return Apply("mul", (a, b), int64)


def size_expr(size: Size) -> Expr:
    """A size as an index expression."""
    return const(size) if isinstance(size, int) else Extent(size)


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """All statements of a body, outer ones first."""
    for s in body:
        yield s
        match s:
            case For() | While():
                yield from statements(s.body)
            case If():
                yield from statements(s.body)
                yield from statements(s.orelse)
            case _:
                pass


def expressions(s: Stmt) -> tuple[Expr, ...]:
    """The expressions that a statement itself evaluates, without those of nested statements."""
    match s:
        case Let():
            return (s.value,)
        case Store():
            return (*s.index, s.value)
        case Accumulate():
            return s.values
        case If() | While():
            return (s.condition,)
        case _:
            return ()


def children(e: Expr) -> tuple[Expr, ...]:
    """The operands of an expression."""
    match e:
        case Load():
            return e.index
        case Apply():
            return e.args
        case _:
            return ()
