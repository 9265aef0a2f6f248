"""Arithmetic of native Python: operators by type, comparisons, and conversions between numbers.

Integers wrap around.  `//` and `%` round down, as in Python; the divisor must not be 0.  A shift by a variable takes
the number of bits modulo the width.
"""

from __future__ import annotations

import ast
from typing import Final

from nacre.native.python.body import Body, Item
from nacre.native.python.ssa import Computed
from nacre.native.python.types import BOOL, VOID, BoolKind, FloatKind, IntKind, Kind

SIGNS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.LShift: "<<",
    ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<",
    ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.USub: "-", ast.Invert: "~", ast.Not: "not", ast.UAdd: "+",
    ast.Pow: "**", ast.MatMult: "@", ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
OF_INTEGERS: Final = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}
OF_FLOATS: Final = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
OF_BOOLS: Final = {"&": "and", "|": "or", "^": "xor"}
PREDICATES: Final = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


class ArithmeticTranslation(Body):
    """Operators and conversions."""

    def binary(self, name: str, a: Computed, b: Computed) -> Computed:
        """An instruction of two operands of one type, and of the same result."""
        return self.op(a.kind, f"{name} {{0}}, {{1.text}}", a, b)

    def test(self, predicate: str, a: Computed, b: Computed) -> Computed:
        """A comparison of integers or pointers."""
        return self.op(BOOL, f"icmp {predicate} {{0}}, {{1.text}}", a, b, stem="c")

    def select(self, condition: Computed, yes: Computed, no: Computed) -> Computed:
        """One value where a condition holds, else another one."""
        return self.op(yes.kind, "select {0}, {1}, {2}", condition, yes, no)

    def _both(self, sign: str, left: Item, right: Item, node: ast.AST) -> tuple[Computed, Computed]:
        """Both operands with one type."""
        kinds = [x.kind for x in (left, right) if isinstance(x, Computed)]
        if not kinds or kinds[0] is VOID:
            self.fail(node, f"operands must be numbers; got {left} and {right}; correct the expression", sign)
        if kinds[0] != kinds[-1]:
            self.fail(
                node, f"both operands must have one type; got {kinds[0]} and {kinds[1]}; convert one of them", sign
            )
        return self.typed(left, kinds[0], node), self.typed(right, kinds[0], node)

    def _folded(self, sign: str, left: float, right: float, node: ast.AST) -> int | float:
        try:
            return eval(f"left {sign} right", {"left": left, "right": right})
        except (TypeError, ValueError, ArithmeticError) as fault:
            self.fail(node, f"the operator must apply to {left} and {right}; {fault}; correct the constant", sign)

    def operate(self, sign: str, left: Item, right: Item, node: ast.AST) -> Item:
        """The result of a binary operator; that of two Python numbers is one too."""
        if isinstance(left, int | float) and isinstance(right, int | float):
            return self._folded(sign, left, right, node)
        a, b = self._both(sign, left, right, node)
        kind, names = a.kind, OF_FLOATS if isinstance(a.kind, FloatKind) else OF_BOOLS
        if isinstance(kind, IntKind):
            names = OF_INTEGERS
            if sign in ("//", "%"):
                return self._divided(sign, a, b, right, kind, node)
            if sign in ("<<", ">>"):
                return self._shifted(sign, a, b, right, kind, node)
        if sign not in names or not isinstance(kind, IntKind | FloatKind | BoolKind):
            self.fail(node, f"the operator must exist for the type; {kind} has none; convert the operands", sign)
        return self.binary(names[sign], a, b)

    def _divided(self, sign: str, a: Computed, b: Computed, right: Item, kind: IntKind, node: ast.AST) -> Computed:
        if right == 0:
            self.fail(node, "the divisor must not be 0; got 0; correct it", sign)
        if not kind.signed:
            return self.binary("udiv" if sign == "//" else "urem", a, b)
        rest, zero = self.binary("srem", a, b), self.constant(kind, 0)
        differ = self.test("slt", self.binary("xor", rest, b), zero)
        below = self.binary("and", differ, self.test("ne", rest, zero))  # C rounds to zero: one more step down
        if sign == "%":
            return self.select(below, self.binary("add", rest, b), rest)
        step = self.op(kind, f"sext {{0}} to {kind.llvm}", below)
        return self.binary("add", self.binary("sdiv", a, b), step)

    def _shifted(self, sign: str, a: Computed, b: Computed, right: Item, kind: IntKind, node: ast.AST) -> Computed:
        if isinstance(right, Computed):
            b = self.binary("and", b, self.constant(kind, kind.bits - 1))
        elif right not in range(kind.bits):
            self.fail(node, f"{kind} shifts by 0 to {kind.bits - 1} bits; got {right}; correct it", sign)
        return self.binary("shl" if sign == "<<" else "ashr" if kind.signed else "lshr", a, b)

    def compare(self, sign: str, left: Item, right: Item, node: ast.AST) -> Item:
        """The result of a comparison: signed or unsigned by type; of pointers, only whether they are equal."""
        predicate = PREDICATES.get(sign)
        if predicate is None:
            self.fail(node, f"the operator must be a comparison of numbers; got {sign}; use == or !=", sign)
        if isinstance(left, int | float) and isinstance(right, int | float):
            return self._folded(sign, left, right, node)
        a, b = self._both(sign, left, right, node)
        if isinstance(a.kind, FloatKind):
            name = "une" if sign == "!=" else f"o{predicate}"
            return self.op(BOOL, f"fcmp {name} {{0}}, {{1.text}}", a, b, stem="c")
        if sign not in ("==", "!="):
            if not isinstance(a.kind, IntKind):
                self.fail(node, f"the order must exist; {a.kind} has none; compare numbers, as by cast(u64, …)", sign)
            predicate = ("s" if a.kind.signed else "u") + predicate
        return self.test(predicate, a, b)

    def unary(self, sign: str, found: Item, node: ast.AST) -> Item:
        """The result of -, + or ~."""
        if isinstance(found, int | float):
            if sign == "~" and not isinstance(found, int):
                self.fail(node, f"the operand must be an integer; got {found}; correct it", sign)
            return -found if sign == "-" else +found if sign == "+" else ~int(found)
        kind = found.kind if isinstance(found, Computed) else None
        if isinstance(found, Computed) and isinstance(kind, FloatKind) and sign == "-":
            return self.op(kind, "fneg {0}", found)
        if not isinstance(found, Computed) or not isinstance(kind, IntKind):
            self.fail(node, f"the operand must be a number; got {kind or found}; convert it", sign)
        if sign == "+":
            return found
        if sign == "-":
            return self.binary("sub", self.constant(kind, 0), found)
        return self.binary("xor", found, self.constant(kind, -1))

    def convert(self, found: Computed, to: IntKind | FloatKind, node: ast.AST) -> Computed:
        """A number, bool or pointer as a number of another type."""
        kind = found.kind
        if kind == to:
            return found
        name = "ptrtoint" if kind.llvm == "ptr" and to.llvm == "i64" else _conversion(kind, to)
        if name is None:
            self.fail(
                node, f"the value must be a number; got {kind}; use `cast` for pointers, from and to u64", str(to)
            )
        if name.endswith("sat"):  # out of bounds: the least or greatest value, and 0 for a NaN
            return self.intrinsic(to, f"{name}.{to.llvm}.f{kind.nbytes * 8}", found)
        return self.op(to, f"{name} {{0}} to {to.llvm}" if name else "", found)


def _conversion(kind: Kind, to: IntKind | FloatKind) -> str | None:
    """LLVM's conversion between two types; "" where the bits stay, None where there is none."""
    if isinstance(kind, BoolKind):
        return "uitofp" if isinstance(to, FloatKind) else "zext"
    if isinstance(kind, IntKind):
        if isinstance(to, FloatKind):
            return "sitofp" if kind.signed else "uitofp"
        return "" if kind.bits == to.bits else "trunc" if kind.bits > to.bits else "sext" if kind.signed else "zext"
    if isinstance(kind, FloatKind) and isinstance(to, IntKind):
        return f"fpto{'s' if to.signed else 'u'}i.sat"
    return ("fptrunc" if kind.nbytes > to.nbytes else "fpext") if isinstance(kind, FloatKind) else None
