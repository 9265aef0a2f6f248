"""Arithmetic of native Python: operators by type, comparisons, and conversions between numbers.

Integers wrap around.  `//` and `%` are for unsigned ones; the divisor must not be 0.  A shift by a variable takes the
number of bits modulo the width.  `/` is for floats.
"""

from __future__ import annotations

import ast
import operator
from typing import Final

from nacre.native.python.body import Body, Item
from nacre.native.python.ssa import Computed
from nacre.native.python.types import BOOL, FloatKind, IntKind

SIGNS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.LShift: "<<",
    ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<",
    ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.USub: "-", ast.Invert: "~", ast.Not: "not", ast.UAdd: "+",
    ast.Pow: "**", ast.MatMult: "@", ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
OPERATORS: Final = {  # LLVM's name, and that in Python's `operator`
    "+": ("add", "add"), "-": ("sub", "sub"), "*": ("mul", "mul"), "//": ("udiv", "floordiv"), "%": ("urem", "mod"),
    "<<": ("shl", "lshift"), ">>": ("lshr", "rshift"), "&": ("and", "and_"), "|": ("or", "or_"), "^": ("xor", "xor"),
    "==": ("eq", "eq"), "!=": ("ne", "ne"), "<": ("lt", "lt"), "<=": ("le", "le"), ">": ("gt", "gt"),
    ">=": ("ge", "ge"), "/": ("fdiv", "truediv"),
}  # fmt: skip
OF_FLOATS: Final = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv", "==": "oeq", "!=": "une", "<": "olt",
                    "<=": "ole", ">": "ogt", ">=": "oge"}  # fmt: skip


class ArithmeticTranslation(Body):
    """Operators and conversions."""

    def binary(self, name: str, a: Computed, b: Computed) -> Computed:
        """An instruction of two operands of one type, and of the same result."""
        return self.op(a.kind, f"{name} {{0}}, {{1.text}}", a, b)

    def test(self, predicate: str, a: Computed, b: Computed, name: str = "icmp") -> Computed:
        """A comparison, by default of integers or pointers."""
        return self.op(BOOL, f"{name} {predicate} {{0}}, {{1.text}}", a, b, stem="c")

    def operate(self, sign: str, left: Item, right: Item, node: ast.AST) -> Item:
        """The result of an operator or a comparison; that of two Python numbers is one too."""
        if sign not in OPERATORS:
            self.fail(node, f"the operator must be one of {' '.join(OPERATORS)}; got {sign}; use one of them", sign)
        name, of_constants = OPERATORS[sign]
        if isinstance(left, int | float) and isinstance(right, int | float):
            try:
                return getattr(operator, of_constants)(left, right)
            except (TypeError, ValueError, ArithmeticError) as fault:
                self.fail(node, f"the operator must apply to {left} and {right}; {fault}; correct the constant", sign)
        kinds = [x.kind for x in (left, right) if isinstance(x, Computed)]
        if not kinds or kinds[0] != kinds[-1]:
            got = " and ".join(map(str, kinds)) or "none"
            self.fail(node, f"both operands must have one type; got {got}; convert one of them", sign)
        kind = kinds[0]
        a, b = self.typed(left, kind, node), self.typed(right, kind, node)
        if not isinstance(kind, IntKind) or sign == "/":  # bools and pointers are equal or not, and bools have bits
            if isinstance(kind, FloatKind) and sign in OF_FLOATS:
                name = OF_FLOATS[sign]
                return self.binary(name, a, b) if name[0] == "f" else self.test(name, a, b, "fcmp")
            if sign in ("==", "!=") and (kind is BOOL or kind.llvm == "ptr"):
                return self.test(name, a, b)
            if sign in ("&", "|", "^") and kind is BOOL:
                return self.binary(name, a, b)
            self.fail(node, f"the operator must exist for the type; {kind} has none; convert the operands", sign)
        if sign in ("//", "%") and (kind.signed or right == 0):
            got = "0" if right == 0 else f"{kind}, which C and Python round differently"
            self.fail(node, f"the operands must be unsigned, and the divisor not 0; got {got}; convert them", sign)
        if sign in ("<<", ">>"):
            if isinstance(right, Computed):
                b = self.binary("and", b, self.constant(kind, kind.bits - 1))
            elif right not in range(kind.bits):
                self.fail(node, f"{kind} shifts by 0 to {kind.bits - 1} bits; got {right}; correct it", sign)
            name = "ashr" if name == "lshr" and kind.signed else name
        elif sign[0] in "=!<>":
            return self.test(name if sign[0] in "=!" else f"{'s' if kind.signed else 'u'}{name}", a, b)
        return self.binary(name, a, b)

    def unary(self, sign: str, found: Item, node: ast.AST) -> Item:
        """The result of - or ~."""
        if isinstance(found, int | float) and (sign == "-" or (sign == "~" and isinstance(found, int))):
            return -found if sign == "-" else ~int(found)
        if isinstance(found, Computed) and isinstance(found.kind, FloatKind) and sign == "-":
            return self.op(found.kind, "fneg {0}", found)
        if not isinstance(found, Computed) or not isinstance(found.kind, IntKind) or sign == "+":
            got = found.kind if isinstance(found, Computed) else found
            self.fail(node, f"it must be - of a number or ~ of an integer; got {sign} of {got}; convert it", sign)
        if sign == "-":
            return self.binary("sub", self.constant(found.kind, 0), found)
        return self.binary("xor", found, self.constant(found.kind, -1))

    def convert(self, found: Computed, to: IntKind | FloatKind, node: ast.AST) -> Computed:
        """A number, bool or pointer as a number of another type."""
        kind = found.kind
        if kind == to:
            return found
        if isinstance(kind, FloatKind):
            if isinstance(to, IntKind):  # out of bounds: the least or greatest number, and 0 for a NaN
                return self.intrinsic(to, f"fpto{'s' if to.signed else 'u'}i.sat.{to.llvm}.{kind}", found)
            name = "fptrunc" if kind.bits > to.bits else "fpext"
        elif isinstance(to, FloatKind) and (isinstance(kind, IntKind) or kind is BOOL):
            name = "sitofp" if isinstance(kind, IntKind) and kind.signed else "uitofp"
        elif isinstance(kind, IntKind):
            name = "" if kind.bits == to.bits else "trunc" if kind.bits > to.bits else "sext" if kind.signed else "zext"
        elif kind is BOOL:
            name = "zext"
        elif kind.llvm == "ptr" and to.llvm == "i64":
            name = "ptrtoint"
        else:
            self.fail(node, f"the value must be a number; got {kind}; use `cast` from pointers to u64", str(to))
        return self.op(to, f"{name} {{0}} to {to.llvm}" if name else "", found)
