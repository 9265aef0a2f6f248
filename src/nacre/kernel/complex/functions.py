"""The table of operations: for each name a function of a block of statements and pairs of expressions.

complex64 is computed in float64 and each part is rounded once: its errors are at most 0.501 ulp, except for sums and
products.  The errors of complex128 in ulps of each part, measured against mpmath next to all branch points, circles and
thresholds:

    function                     greatest error found
    abs, angle                   0.5, 1.3
    div, sign                    2.8, 1.4
    sqrt, rsqrt                  2.0, 3.1
    exp, exp2                    2.1, 2.4
    log, log2, log10, log1p      2.1, 1.9, 2.3, 2.4
    sinh, cosh, sin, cos         2.7
    tanh, tan                    4.6
    asin, acos, asinh, acosh     3.0
    atan, atanh                  3.0
    expm1, sigmoid               4 (in the real part: of its largest term)
    pow                          1.5 of the result's length; n / 3 for a whole exponent n up to 31
"""

from __future__ import annotations

from collections.abc import Callable

from nacre.kernel.ast import Expr
from nacre.kernel.complex import arithmetic, exponential, hyperbolic, inverse, logarithm, powers, roots
from nacre.kernel.complex.pairs import LetBlock, Pair
from nacre.kernel.complex.terms import ComplexTerm, RealTerm

Function = Callable[..., Pair | Expr]  # (block, operands as pairs) -> a pair, or a real or bool expression
Definition = Callable[..., ComplexTerm | RealTerm]


def by_parts(definition: Definition) -> Function:
    """A definition on terms as a function of pairs."""

    def function(block: LetBlock, *args: Pair) -> Pair | Expr:
        """The result's expressions; the block has the statements before it."""
        terms = [ComplexTerm(*(RealTerm(block, block.let(part)) for part in pair)) for pair in args]
        found = definition(*terms)
        return found.pair() if isinstance(found, ComplexTerm) else found.expr

    return function


def in_float64(definition: Definition) -> Definition:
    """A definition for float64 that computes float32 in float64, and rounds each part once."""

    def defined(*args: ComplexTerm) -> ComplexTerm | RealTerm:
        """The result in the dtype of the operands."""
        return definition(*(z.wide() for z in args)).to(args[0].dtype)

    return defined


BY_DTYPE: dict[str, Definition] = {
    "add": arithmetic.add,
    "sub": arithmetic.sub,
    "mul": arithmetic.mul,
    "fma": arithmetic.multiply_add,
    "div": arithmetic.div,
    "neg": arithmetic.neg,
    "conj": arithmetic.conj,
    "real": arithmetic.real,
    "imag": arithmetic.imag,
    "modulus": arithmetic.absolute,
    "angle": arithmetic.angle,
    "sign": arithmetic.sign,
    "pow": powers.power,
    "eq": arithmetic.eq,
    "ne": arithmetic.ne,
    "isnan": ComplexTerm.is_nan,
    "isinf": ComplexTerm.is_infinite,
    "isfinite": arithmetic.isfinite,
}

ALWAYS_WIDE: dict[str, Definition] = {
    "sqrt": roots.sqrt,
    "rsqrt": roots.rsqrt,
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "sigmoid": exponential.sigmoid,
    "log": logarithm.log_natural,
    "log2": logarithm.log_binary,
    "log10": logarithm.log_decimal,
    "log1p": logarithm.log1p,
    "sinh": hyperbolic.sinh,
    "cosh": hyperbolic.cosh,
    "tanh": hyperbolic.tanh,
    "sin": hyperbolic.sin,
    "cos": hyperbolic.cos,
    "tan": hyperbolic.tan,
    "asin": inverse.asin,
    "acos": inverse.acos,
    "atan": inverse.atan,
    "asinh": inverse.asinh,
    "acosh": inverse.acosh,
    "atanh": inverse.atanh,
}

FUNCTIONS: dict[str, Function] = {
    **{name: by_parts(definition) for name, definition in BY_DTYPE.items()},
    **{name: by_parts(in_float64(definition)) for name, definition in ALWAYS_WIDE.items()},
}
