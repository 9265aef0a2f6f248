"""A rough cost model of a kernel's straight-line code, in instructions."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.base.dims import Dim, Size
from nacre.kernel.ast import SPECIAL, Accumulate, Apply, Expr, For, If, Kernel, Let, Load, Stmt, Store, While

HEAVY = frozenset(
    (
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "cbrt", "sigmoid", "erf", "erfc"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        *SPECIAL,
    )
)

UNKNOWN = 64  # assumed iterations of a loop of unknown length
TYPICAL = 1024  # assumed number of a symbol
ACCESS = 4  # the cost of a vector read or written: instructions that take as long where it is in no near cache


def instructions(block: Sequence[Stmt]) -> int:
    """A rough count of a straight-line block's instructions."""
    total = 0
    for s in block:
        match s:
            case Let():
                total += work(s.value)
            case Store():
                total += ACCESS + work(s.value)
            case _:
                total += 1
    return total


def round_cost(kernel: Kernel, lanes: int) -> int:
    """Instructions for `lanes` iterations of a nest's parallel loops; a vectorised loop runs these at once.

    Inner loops count with all their iterations; a `while` and a loop of unknown length count `UNKNOWN` times.
    """
    body, vector = kernel.body, False
    while len(body) == 1 and isinstance(body[0], For) and body[0].parallel:
        vector = body[0].vector
        body = body[0].body
    total = scalar_cost(body, lanes)
    return max(1, total if vector else total * lanes)


def scalar_cost(body: Sequence[Stmt], lanes: int = 1) -> int:
    """Instructions of a body; its loops run one iteration at a time, or one for each lane."""
    total = instructions([s for s in body if not isinstance(s, For | If | While)])
    for s in body:
        match s:
            case For():
                inner = _rounds(s.extent) * scalar_cost(s.body, lanes)
                total += -(-inner // lanes) if s.vector else inner
            case If():
                total += 1 + scalar_cost(s.body, lanes) + scalar_cost(s.orelse, lanes)
            case While():
                total += UNKNOWN * scalar_cost(s.body, lanes)
            case Accumulate():
                total += sum(map(work, s.values))
            case _:
                pass
    return total


def _rounds(extent: Size) -> int:
    return extent if isinstance(extent, int) else UNKNOWN


def typical(size: Size) -> int:
    """A size, or its number where its symbols are large.

    >>> from nacre.base.dims import Dim
    >>> typical(3), typical(2 * Dim.symbol("n"))
    (3, 2048)
    """
    if not isinstance(size, Dim):
        return size
    return size.evaluate({s.name: min(max(s.low, TYPICAL), s.high) for s in size.symbols()})


def work(e: Expr, access: int = ACCESS) -> int:
    """A rough count of an expression's instructions; a load counts as `access`."""
    match e:
        case Apply():
            own = 20 if e.op in HEAVY else 8 if e.op in ("div", "sqrt", "idiv", "rem") else 1
            return own + sum([work(a, access) for a in e.args])
        case Load():
            return access
        case _:
            return 0
