"""Whether each call gets to an access whose index is known, and whether the element exists.

Both follow from sizes.  Where these are symbols, conditions on them are decided as in a function that is traced: a
trace that notes needs then has other bounds.  Sizes that are symbols to the end are checked at the call.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, Final

from nacre.base.dims import Size, lower, upper
from nacre.base.dtypes import bool_
from nacre.base.errors import ShapeError
from nacre.base.records import dataclass
from nacre.kernel.ast import Apply, Const, Expr, Extent, const, size_expr

Decide = Callable[[Any, Any], Any]
COMPARED: Final[dict[str, Decide]] = {
    **{"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le},
    **{"gt": operator.gt, "ge": operator.ge},
}
OPPOSITE: Final = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}
COMPUTED: Final[dict[str, Decide]] = {
    **{"add": operator.add, "sub": operator.sub, "mul": operator.mul},
    **{"idiv": lambda a, b: a // b, "rem": operator.mod},
}


@dataclass(frozen=True)
class SizeCheck:
    """A size of which a call must have at least a number; the error of a call has the text."""

    size: Size
    least: int
    text: str

    def is_open(self) -> bool:
        """Whether the size may be less.  Where needs are noted, it is noted as one that is needed."""
        try:
            return not self.size >= self.least
        except ShapeError:
            return True


def has_rounds(extent: Size) -> Expr | bool:
    """Whether a loop has a round: a condition on sizes if it depends on them."""
    if lower(extent) > 0 or upper(extent) <= 0:
        return lower(extent) > 0
    return Apply("gt", (size_expr(extent), const(0)), bool_)


def is_of_sizes(e: Expr) -> bool:
    """Whether a condition follows from sizes."""
    if isinstance(e, Apply):
        return e.op in (*COMPARED, *COMPUTED, "and", "or", "not") and all(map(is_of_sizes, e.args))
    return isinstance(e, Const | Extent)


def holds(e: Expr) -> Any:
    """The value of a condition on sizes.  Raises ShapeError if it depends on symbols, and notes that it is needed."""
    match e:
        case Const():
            return e.value
        case Extent():
            return e.size
        case Apply(op="and"):
            return all(map(holds, e.args))
        case Apply(op="or"):
            return any(map(holds, e.args))
        case Apply(op="not"):
            return not holds(e.args[0])
        case Apply():
            a, b = map(holds, e.args)
            return {**COMPARED, **COMPUTED}[e.op](a, b)
        case _:
            raise ShapeError("kernel: a condition must be one on sizes; got another; write one")


def implied(needed: Size, conditions: tuple[Expr, ...]) -> bool:
    """Whether a size is at least 0 where conditions hold, each of which is looked at alone."""
    return lower(needed) >= 0 or any(lower(needed - known) >= 0 for c in conditions for known in _at_least_zero(c))


def _at_least_zero(e: Expr, negated: bool = False) -> Iterator[Size]:
    """Sizes that are at least 0 where a condition holds."""
    if not isinstance(e, Apply):
        return
    if e.op == "not":
        yield from _at_least_zero(e.args[0], not negated)
    elif e.op == ("or" if negated else "and"):
        for part in e.args:
            yield from _at_least_zero(part, negated)
    elif e.op in COMPARED and all(isinstance(x, Const | Extent) for x in e.args):
        a, b = map(holds, e.args)
        match OPPOSITE[e.op] if negated else e.op:
            case "lt":
                yield b - a - 1
            case "le":
                yield b - a
            case "gt":
                yield a - b - 1
            case "ge":
                yield a - b
            case "eq":
                yield from (a - b, b - a)
            case _:
                pass
