"""Inspection of numbers, of the compiler's output, and of the machine that it compiles for."""

from nacre.base.boundary import publish_all
from nacre.inspect.activations import RangeRow, RangeTable, ranges
from nacre.inspect.digits import LostDigits, Precision, precision

__all__ = ["LostDigits", "Precision", "RangeRow", "RangeTable", "precision", "ranges"]

publish_all(__name__, __all__)
