"""How much a kernel's straight code costs, roughly, in instructions."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.kernel.ast import Apply, Expr, Let, Load, Stmt, Store

HEAVY = frozenset((
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "cbrt", "sigmoid", "erf", "erfc"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
))


def instructions(block: Sequence[Stmt]) -> int:
    """A rough count of a straight block's work."""
    total = 0
    for s in block:
        match s:
            case Let():
                total += _weight(s.value)
            case Store():
                total += 1 + _weight(s.value)
            case _:
                total += 1
    return total


def _weight(e: Expr) -> int:
    match e:
        case Apply():
            own = 20 if e.op in HEAVY else 8 if e.op in ("div", "sqrt", "idiv", "rem") else 1
            return own + sum(map(_weight, e.args))
        case Load():
            return 1
        case _:
            return 0
