"""Many numbers as one program, which needs no memory for single operations between the bits and the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Final

from nacre.api.primitives import view
from nacre.base.dims import Dim
from nacre.base.dtypes import DType, uint32
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.interpret.stage import derived
from nacre.ir.graph import Graph
from nacre.trace.bind import executor
from nacre.trace.value import is_concrete

MANY: Final = 1 << 18  # numbers from which on the memory of single operations matters
COUNT: Final = Dim.symbol("count", MANY)

Numbers = Callable[[Any, DType, Any], Any]  # of a shape and dtype, from a key


def whole(numbers: Numbers) -> Numbers:
    """A decorator of numbers that depend on their flat positions alone: many of them come from one program."""

    @cache
    def program(dtype: DType) -> Graph:
        """The numbers for any count."""

        def of_key(held: Any) -> list[Any]:
            """The numbers of a key."""
            return [numbers((COUNT,), dtype, held)]

        return derived(of_key, (TensorType((2,), uint32),), numbers.__name__)

    @wraps(numbers)
    def drawn(shape: Any, dtype: DType, held: Any) -> Any:
        """The numbers, by single operations where these are few, traced, or examined."""
        if STATE.word or not STATE.usual or not is_concrete(held):
            return numbers(shape, dtype, held)
        count = math.prod(shape)
        if count < MANY:
            return numbers(shape, dtype, held)
        (flat,) = executor().execute_at(program(dtype), [held], {"count": count})
        return view.reshape(flat, shape)

    return drawn
