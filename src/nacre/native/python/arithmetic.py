"""Arithmetic of native Python: operators by type, comparisons, and conversions between numbers.

Integers wrap around.  `//` and `%` round down, as in Python; the divisor must not be 0.  A shift by a variable takes
the number of bits modulo the width.
"""

from __future__ import annotations

import ast
import operator
from typing import Final

from nacre.native.python.body import Body, Item
from nacre.native.python.ssa import Computed
from nacre.native.python.types import BOOL, BoolKind, FloatKind, FunctionKind, IntKind, Kind, PointerKind

SIGNS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.LShift: "<<",
    ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<",
    ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.USub: "-", ast.Invert: "~", ast.Not: "not", ast.UAdd: "+",
    ast.Pow: "**", ast.MatMult: "@", ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
PYTHON: Final = {  # names in `operator`
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "<<": "lshift", ">>": "rshift",
    "&": "and_", "|": "or_", "^": "xor", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
}  # fmt: skip
OF_INTEGERS: Final = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor", "<<": "shl"}
OF_FLOATS: Final = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
PREDICATES: Final = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


class ArithmeticTranslation(Body):
    """Operators and conversions."""

    def operate(self, sign: str, left: Item, right: Item, node: ast.AST) -> Item:
        """The result of a binary operator; that of two Python numbers is one too."""
        if isinstance(left, int | float) and isinstance(right, int | float):
            return self._folded(sign, left, right, node)
        kind = left.kind if isinstance(left, Computed) else right.kind if isinstance(right, Computed) else None
        if kind is None:
            self.fail(node, f"{sign}: operands must be numbers; got {left} and {right}; correct the expression")
        a, b = self._both(sign, left, right, kind, node)
        if isinstance(kind, IntKind):
            if sign in ("//", "%"):
                return self._divided(sign, a, b, right, kind, node)
            if sign in ("<<", ">>"):
                return self._shifted(sign, a, b, right, kind, node)
            if sign in OF_INTEGERS:
                return self._binary(OF_INTEGERS[sign], kind, a, b)
        if isinstance(kind, FloatKind) and sign in OF_FLOATS:
            return self._binary(OF_FLOATS[sign], kind, a, b)
        if isinstance(kind, BoolKind) and sign in ("&", "|", "^"):
            return self._binary(OF_INTEGERS[sign], kind, a, b)
        self.fail(node, f"{sign}: the operator must exist for the type; {kind} has none; convert the operands")

    def _binary(self, name: str, kind: Kind, a: Computed, b: Computed) -> Computed:
        return self.add(kind, (a, b), lambda f, v: f.binary(name, v[0], v[1]))

    def _both(self, sign: str, left: Item, right: Item, kind: Kind, node: ast.AST) -> tuple[Computed, Computed]:
        """Both operands with one type."""
        if isinstance(left, Computed) and isinstance(right, Computed) and left.kind != right.kind:
            self.fail(
                node, f"{sign}: both operands must have one type; got {left.kind} and {right.kind}; convert one of them"
            )
        return self.typed(left, kind, node), self.typed(right, kind, node)

    def _folded(self, sign: str, left: float, right: float, node: ast.AST) -> int | float:
        try:
            found: int | float = getattr(operator, PYTHON[sign])(left, right)
        except (KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError) as fault:
            self.fail(node, f"{sign}: the operator must apply to {left} and {right}; {fault}; correct the constant")
        return found

    def _divided(self, sign: str, a: Computed, b: Computed, right: Item, kind: IntKind, node: ast.AST) -> Computed:
        if right == 0:
            self.fail(node, f"{sign}: the divisor must not be 0; got 0; correct it")
        if not kind.signed:
            return self._binary("udiv" if sign == "//" else "urem", kind, a, b)
        rest = self._binary("srem", kind, a, b)
        zero = self.constant(kind, 0)
        differ = self.add(BOOL, (self._binary("xor", kind, rest, b), zero), lambda f, v: f.icmp("slt", v[0], v[1]))
        some = self.add(BOOL, (rest, zero), lambda f, v: f.icmp("ne", v[0], v[1]))
        below = self._binary("and", BOOL, differ, some)  # C rounds to zero: one more step down
        if sign == "%":
            more = self._binary("add", kind, rest, b)
            return self.add(kind, (below, more, rest), lambda f, v: f.select(v[0], v[1], v[2]))
        step = self.add(kind, (below,), lambda f, v: f.cast("sext", v[0], kind.llvm))
        return self._binary("add", kind, self._binary("sdiv", kind, a, b), step)

    def _shifted(self, sign: str, a: Computed, b: Computed, right: Item, kind: IntKind, node: ast.AST) -> Computed:
        name = "shl" if sign == "<<" else "ashr" if kind.signed else "lshr"
        if isinstance(right, Computed):
            b = self._binary("and", kind, b, self.constant(kind, kind.bits - 1))
        elif not 0 <= float(right) < kind.bits:  # pyright: ignore[reportArgumentType]
            self.fail(node, f"{sign}: {kind} shifts by 0 to {kind.bits - 1} bits; got {right}; correct it")
        return self._binary(name, kind, a, b)

    def compare(self, sign: str, left: Item, right: Item, node: ast.AST) -> Item:
        """The result of a comparison: signed or unsigned by type; of pointers, only whether they are equal."""
        if sign not in PREDICATES:
            self.fail(node, f"{sign}: the operator must be a comparison of numbers; got {sign}; use == or !=")
        if isinstance(left, int | float) and isinstance(right, int | float):
            return self._folded(sign, left, right, node)
        kind = left.kind if isinstance(left, Computed) else right.kind if isinstance(right, Computed) else None
        if kind is None:
            self.fail(node, f"{sign}: operands must be values; got {left} and {right}; correct the expression")
        a, b = self._both(sign, left, right, kind, node)
        predicate = PREDICATES[sign]
        if isinstance(kind, FloatKind):
            name = "une" if sign == "!=" else f"o{predicate}"
            return self.add(BOOL, (a, b), lambda f, v: f.fcmp(name, v[0], v[1]))
        equality = sign in ("==", "!=")
        if not equality and not isinstance(kind, IntKind):
            self.fail(node, f"{sign}: the order must exist; {kind} has none; compare numbers, as by cast(u64, …)")
        if isinstance(kind, IntKind | PointerKind | FunctionKind | BoolKind):
            signed = "s" if isinstance(kind, IntKind) and kind.signed else "u"
            name = predicate if equality else signed + predicate
            return self.add(BOOL, (a, b), lambda f, v: f.icmp(name, v[0], v[1]))
        self.fail(node, f"{sign}: operands must be numbers, bools or pointers; got {kind}; compare their fields")

    def unary(self, sign: str, found: Item, node: ast.AST) -> Item:
        """The result of -, + or ~."""
        if isinstance(found, int | float):
            if sign == "~" and not isinstance(found, int):
                self.fail(node, f"~: the operand must be an integer; got {found}; correct it")
            return -found if sign == "-" else +found if sign == "+" else ~int(found)
        kind = found.kind if isinstance(found, Computed) else None
        if isinstance(found, Computed) and isinstance(kind, FloatKind) and sign == "-":
            return self.add(kind, (found,), lambda f, v: f.fneg(v[0]))
        if isinstance(found, Computed) and isinstance(kind, IntKind):
            if sign == "-":
                return self._binary("sub", kind, self.constant(kind, 0), found)
            if sign == "~":
                return self._binary("xor", kind, found, self.constant(kind, -1))
            return found
        self.fail(node, f"{sign}: the operand must be a number; got {kind or found}; convert it")

    def convert(self, found: Computed, to: IntKind | FloatKind, node: ast.AST) -> Computed:
        """A number, bool or pointer as a number of another type."""
        kind = found.kind
        if kind == to:
            return found
        if isinstance(kind, PointerKind | FunctionKind) and isinstance(to, IntKind) and to.bits == 64:
            return self.add(to, (found,), lambda f, v: f.op(f"ptrtoint {v[0]} to {to.llvm}", to.llvm))
        name = _conversion(kind, to)
        if name is None:
            self.fail(node, f"{to}: the value must be a number; got {kind}; use `cast` for pointers, from and to u64")
        if name.startswith("fpto"):  # out of bounds: the least or greatest value, and 0 for a NaN
            return self.add(to, (found,), lambda f, v: f.intrinsic(name, to.llvm, v, overload=[to.llvm, v[0].ty]))
        if not name:
            return self.add(to, (found,), lambda _, v: v[0])
        return self.add(to, (found,), lambda f, v: f.cast(name, v[0], to.llvm))


def _conversion(kind: Kind, to: IntKind | FloatKind) -> str | None:
    """LLVM's conversion between two types; "" where the bits stay, None where there is none."""
    if isinstance(kind, BoolKind):
        return "uitofp" if isinstance(to, FloatKind) else "zext"
    if isinstance(kind, IntKind) and isinstance(to, IntKind):
        return "" if kind.bits == to.bits else "trunc" if kind.bits > to.bits else "sext" if kind.signed else "zext"
    if isinstance(kind, IntKind):
        return "sitofp" if kind.signed else "uitofp"
    if isinstance(kind, FloatKind) and isinstance(to, IntKind):
        return f"fpto{'s' if to.signed else 'u'}i.sat"
    if isinstance(kind, FloatKind):
        return "fptrunc" if kind.bits > to.bits else "fpext"
    return None
