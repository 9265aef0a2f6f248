"""Cotangents of complex values as users see them: conjugated once, where a backward pass begins and where it ends.

Inside, a cotangent c pairs with a tangent t as Re(c·t), so that the transposes of holomorphic operations do not
conjugate.  What users give and get pairs as Re(conj(c)·t): the gradient of a real function is then the direction of
steepest ascent, ∂f/∂x + i·∂f/∂y.
"""

from __future__ import annotations

from nacre.ops.parts import conjugate
from nacre.trace.value import Value


def conjugated(cotangent: Value) -> Value:
    """A cotangent of one side as the other side has it; the same value if it is real."""
    return conjugate(cotangent)
