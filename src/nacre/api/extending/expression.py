"""`ScalarExpression`: an element of an operand in the function that defines a pointwise primitive."""

from __future__ import annotations

from typing import Any, NoReturn

from nacre.base.arguments import shown
from nacre.base.conversion import number
from nacre.base.dtypes import DType, as_dtype
from nacre.base.errors import ArgumentError, TraceError
from nacre.kernel.ast import OPERATIONS, Const, Expr, apply
from nacre.kernel.ast import cast as convert


class ScalarExpression:
    """An expression of kernel IR.  Python's operators, `apply`, `where` and `astype` return larger ones."""

    __slots__ = ("expr",)
    __hash__ = None  # type: ignore[assignment] - as == returns an expression

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    @property
    def dtype(self) -> DType:
        """The dtype of the value."""
        return self.expr.dtype

    def apply(self, operation: str, *others: Any) -> ScalarExpression:
        """An operation of kernel IR, by its name, on this expression and others; numbers take this one's dtype."""
        if operation not in OPERATIONS or OPERATIONS[operation][1] in ("cast", "select"):
            known = ", ".join(n for n, (_, kind) in OPERATIONS.items() if kind not in ("cast", "select"))
            raise ArgumentError(f"primitive: the operation must be one of {known}; got {shown(operation)}")
        count = OPERATIONS[operation][0]
        if len(others) != count - 1:
            raise ArgumentError(f"primitive: {operation} must have {count} operands; got {1 + len(others)}")
        return ScalarExpression(apply(operation, self.expr, *(self._like(x) for x in others)))

    def where(self, yes: Any, no: Any) -> ScalarExpression:
        """`yes` where this expression is true, else `no`; one of them at least is an expression."""
        known = next((x for x in (yes, no) if isinstance(x, ScalarExpression)), None)
        if known is None:
            raise ArgumentError(
                "primitive: one side of `where` must be an expression; got two numbers; write `x * 0 + number`"
            )
        return ScalarExpression(apply("select", self.expr, known._like(yes), known._like(no)))

    def astype(self, dtype: DType) -> ScalarExpression:
        """The value converted to another dtype."""
        return ScalarExpression(convert(self.expr, as_dtype(dtype)))

    def _like(self, x: Any) -> Expr:
        if isinstance(x, ScalarExpression):
            return x.expr
        if not isinstance(x, bool | int | float):
            raise ArgumentError(
                f"primitive: operands of an element's operations must be expressions or numbers; got {shown(x)}"
            )
        return Const(number(x, self.dtype, "primitive"), self.dtype)

    def _reflected(self, operation: str, x: Any) -> ScalarExpression:
        return ScalarExpression(apply(operation, self._like(x), self.expr))

    def __add__(self, x: Any) -> ScalarExpression:
        return self.apply("add", x)

    def __radd__(self, x: Any) -> ScalarExpression:
        return self._reflected("add", x)

    def __sub__(self, x: Any) -> ScalarExpression:
        return self.apply("sub", x)

    def __rsub__(self, x: Any) -> ScalarExpression:
        return self._reflected("sub", x)

    def __mul__(self, x: Any) -> ScalarExpression:
        return self.apply("mul", x)

    def __rmul__(self, x: Any) -> ScalarExpression:
        return self._reflected("mul", x)

    def __truediv__(self, x: Any) -> ScalarExpression:
        return self.apply("div", x)

    def __rtruediv__(self, x: Any) -> ScalarExpression:
        return self._reflected("div", x)

    def __neg__(self) -> ScalarExpression:
        return self.apply("neg")

    def __abs__(self) -> ScalarExpression:
        return self.apply("abs")

    def __and__(self, x: Any) -> ScalarExpression:
        return self.apply("and", x)

    def __or__(self, x: Any) -> ScalarExpression:
        return self.apply("or", x)

    def __xor__(self, x: Any) -> ScalarExpression:
        return self.apply("xor", x)

    def __invert__(self) -> ScalarExpression:
        return self.apply("not")

    def __lt__(self, x: Any) -> ScalarExpression:
        return self.apply("lt", x)

    def __le__(self, x: Any) -> ScalarExpression:
        return self.apply("le", x)

    def __gt__(self, x: Any) -> ScalarExpression:
        return self.apply("gt", x)

    def __ge__(self, x: Any) -> ScalarExpression:
        return self.apply("ge", x)

    def __eq__(self, x: object) -> ScalarExpression:  # type: ignore[override]
        return self.apply("eq", x)

    def __ne__(self, x: object) -> ScalarExpression:  # type: ignore[override]
        return self.apply("ne", x)

    def __bool__(self) -> NoReturn:
        raise TraceError(
            "primitive: an element has no value while its expression is made; got a condition; "
            "write `condition.where(yes, no)`"
        )
