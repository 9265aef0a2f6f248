"""Expressions of native Python: names, fields, operators, conditions and calls."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Final

from nacre.native.python.arithmetic import SIGNS
from nacre.native.python.body import FunctionScope, Item, Ways, shown
from nacre.native.python.declarations import NativeFunction, NativeVariable, null
from nacre.native.python.intrinsics import OF_PYTHON, Intrinsic, IntrinsicTranslation, Use
from nacre.native.python.ssa import BasicBlock, Computed
from nacre.native.python.types import (
    BOOL,
    VOID,
    FloatKind,
    FunctionKind,
    IntKind,
    Kind,
    TupleKind,
    pointer_to,
    struct_of,
)

PURE: Final = (ast.Name, ast.Constant, ast.Compare, ast.UnaryOp, ast.BinOp)  # what may be computed without need


class ExpressionTranslation(IntrinsicTranslation):
    """The translation of expressions, and of functions that are expanded at a call."""

    # ---- names and constants

    def of_Constant(self, node: ast.Constant, _: Kind | None) -> Item:
        """A number, a bool or bytes."""
        if isinstance(node.value, bytes):
            return self.known(pointer_to(IntKind(8, False)), "@" + self.unit.text(node.value + b"\0"))
        if not isinstance(node.value, int | float):
            self.fail(node, "a constant must be a number, a bool or bytes; got another kind; use null or b…")
        return node.value

    def of_Name(self, node: ast.Name | ast.Attribute, _: Kind | None) -> Item:
        """A local variable, or a constant, function or variable of a module."""
        found = self.global_item(node)
        if found is None:
            return self.local(node.id, node) if isinstance(node, ast.Name) else self.load(*self.place(node))
        if isinstance(found, int | float | NativeFunction) or found is null:
            return found
        if isinstance(found, NativeVariable):
            return self.known(pointer_to(struct_of(found.owner)), f"@{self.unit.variable(found)}")
        self.fail(node, f"a value must be a number, function or variable; got {found!r}; use another name")

    of_Attribute = of_Name

    def of_Subscript(self, node: ast.Subscript, _: Kind | None) -> Item:
        """An element."""
        return self.load(*self.place(node))

    # ---- operators

    def of_BinOp(self, node: ast.BinOp, wanted: Kind | None) -> Item:
        """An operator of two numbers or bools."""
        left = self.item(node.left, wanted)
        return self.operate(SIGNS[type(node.op)], left, self.item(node.right, wanted), node)

    def of_UnaryOp(self, node: ast.UnaryOp, wanted: Kind | None) -> Item:
        """`not`, or an operator of a number."""
        if not isinstance(node.op, ast.Not):
            return self.unary(SIGNS[type(node.op)], self.item(node.operand, wanted), node)
        return self.binary("xor", self.value(node.operand, BOOL), self.constant(BOOL, True))

    def of_Compare(self, node: ast.Compare, _: Kind | None) -> Item:
        """A comparison."""
        if len(node.ops) > 1:
            self.fail(node, "a comparison must be of two values; got a chain; use `and`")
        return self.operate(SIGNS[type(node.ops[0])], self.item(node.left), self.item(node.comparators[0]), node)

    def of_BoolOp(self, node: ast.BoolOp, _: Kind | None) -> Item:
        """`and` or `or` as a value: later operands are computed only where they matter."""
        conjunction = isinstance(node.op, ast.And)
        found = self.value(node.values[0], BOOL)
        if all(map(_is_pure, node.values)):
            for each in node.values[1:]:
                found = self.binary("and" if conjunction else "or", found, self.value(each, BOOL))
            return found
        key, end = (node, self.frame), BasicBlock("known")
        for each in node.values[1:]:
            following = BasicBlock("more")
            self.ssa.write(key, found)
            self.ssa.jump(*((following, end) if conjunction else (end, following)), condition=found)
            self.ssa.begin(following, seal=True)
            found = self.value(each, BOOL)
        self.ssa.write(key, found)
        self.ssa.jump(end)
        self.ssa.begin(end, seal=True)
        return self.ssa.read(key, BOOL)

    def of_IfExp(self, node: ast.IfExp, wanted: Kind | None) -> Item:
        """One of two values; only the chosen one is computed, unless both need no more than operators."""
        if _is_pure(node.body) and _is_pure(node.orelse):
            condition = self.item(node.test)
            if isinstance(condition, bool):
                return self.item(node.body if condition else node.orelse, wanted)
            arms = [self.item(node.body, wanted), self.item(node.orelse, wanted)]
            kind = next((a.kind for a in arms if isinstance(a, Computed)), wanted)
            if kind is None:
                self.fail(node, "one side must have a type; got none; write one, as u64(…)")
            yes, no = (self.typed(a, kind, node) for a in arms)
            return self.op(kind, "select {0}, {1}, {2}", self.typed(condition, BOOL, node.test), yes, no)
        key, kind, end = (node, self.frame), wanted, BasicBlock("chosen")
        yes, no = BasicBlock("yes"), BasicBlock("no")
        self.branch(node.test, yes, no)
        for part, arm in ((yes, node.body), (no, node.orelse)):
            self.ssa.begin(part, seal=True)
            if self.ssa.here is not None:
                value = self.any_value(arm) if kind is None else self.value(arm, kind)
                kind = value.kind
                self.ssa.write(key, value)
                self.ssa.jump(end)
        self.ssa.begin(end, seal=True)
        assert kind is not None
        return self.ssa.read(key, kind)

    # ---- conditions

    def branch(self, node: ast.expr, yes: BasicBlock, no: BasicBlock) -> None:
        """End the block: to one block where a condition holds, else to the other."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.branch(node.operand, no, yes)
        if isinstance(node, ast.BoolOp):
            conjunction = isinstance(node.op, ast.And)
            for each in node.values[:-1]:
                following = BasicBlock("also" if conjunction else "else")
                self.branch(each, *((following, no) if conjunction else (yes, following)))
                self.ssa.begin(following, seal=True)
                if self.ssa.here is None:  # decided by a constant
                    return None
            return self.branch(node.values[-1], yes, no)
        if isinstance(node, ast.Call):
            callee = self.global_item(node.func)
            inlined = isinstance(callee, NativeFunction) and callee.kind == "inline"
            if inlined and self.unit.signature(callee).result is BOOL:
                self.expand(callee, node, (yes, no))
                return None
        found = self.item(node)
        if isinstance(found, bool):
            return self.ssa.jump(yes if found else no)
        return self.ssa.jump(yes, no, condition=self.typed(found, BOOL, node))

    # ---- calls

    def of_Call(self, node: ast.Call, wanted: Kind | None) -> Item:
        """A call of a function or of a type."""
        callee = self.global_item(node.func)
        if isinstance(callee, IntKind | FloatKind):
            self.count(node, 1, 1)
            return self.convert(self.own_value(self.item(node.args[0]), node.args[0], callee), callee, node)
        if isinstance(callee, NativeFunction):
            return self.expand(callee, node) if callee.kind == "inline" else self._direct(callee, node)
        name = getattr(callee, "__name__", "")
        if isinstance(callee, Intrinsic) or (callee is not None and OF_PYTHON.get(name) is callee):
            return self.use(Use(name, node, wanted))
        if callee is not None:
            self.fail(node, f"the function must be native; got {callee!r}; decorate it", shown(node.func))
        pointer = self.any_value(node.func)
        if not isinstance(pointer.kind, FunctionKind):
            self.fail(node, f"only functions are called; got {pointer.kind}; correct the name", shown(node.func))
        return self.call(pointer.kind.result, pointer, *self.arguments(node, pointer.kind.kinds))

    def _direct(self, callee: NativeFunction, node: ast.Call) -> Item:
        signature = self.unit.signature(callee)
        values = self.arguments(node, signature.kinds, callee.variadic)
        types = f"({', '.join([*(k.llvm for k in signature.kinds), '...'])}) " if callee.variadic else ""
        return self.call(signature.result, f"{types}@{self.unit.symbol(callee)}", *values)

    def arguments(self, node: ast.Call, kinds: tuple[Kind, ...], variadic: bool = False) -> list[Computed]:
        """The arguments of a call; those beyond the parameters have their own types."""
        least = len(kinds)
        self.count(node, least, math.inf if variadic else least)
        values = [self.value(a, k) for a, k in zip(node.args, kinds)]
        for each in node.args[least:]:
            values.append(self.any_value(each))
            if values[-1].kind.nbytes < 4 or values[-1].kind.llvm == "float":
                got = f"further arguments have 32 or 64 bits and are no f32; got {values[-1].kind}; convert it"
                self.fail(node, got, shown(node.func))
        return values

    # ---- functions that are expanded at a call

    def expand(self, function: NativeFunction, call: ast.Call, ways: Ways | None = None) -> Item:
        """The result of an inlined function; with two ways, its returns lead to one of them."""
        caller, frame = self.frame, FunctionScope(self.unit, function, self.frame)
        arguments = self.arguments(call, frame.signature.kinds)
        if any(scope.function is function for scope in frame.around):
            self.fail(call, "an inlined function must not call itself; got a cycle; use @native", function.symbol)
        self.frame, frame.exit, frame.ways = frame, BasicBlock("result"), ways
        self.whole(arguments)
        self.ssa.begin(frame.exit, seal=True)
        self.frame = caller
        if ways is not None:
            return ()
        if self.ssa.here is None:
            self.fail(call, "an inlined function must return; got one without an end; use @native", function.symbol)
        values = tuple([self.ssa.read((frame, k), kind) for k, kind in enumerate(frame.results)])
        return values if isinstance(frame.result, TupleKind) else values[0] if values else self.known(VOID, "")

    def whole(self, arguments: Sequence[Computed]) -> None:
        """All of a function, from its arguments to its end."""
        frame = self.frame
        for name, kind, value in zip(frame.function.code.co_varnames, frame.signature.kinds, arguments):
            frame.kinds[name] = kind
            self.assign(name, value, frame.node)
        self.block(frame.node.body)
        if self.ssa.here is not None:
            if frame.results:
                missing = f"every way must end in a return; got one without; return {frame.result}"
                self.fail(frame.node, missing, frame.node.name)
            self.leave(())

    def leave(self, values: Sequence[Computed]) -> None:
        """End the function with its results: the compiled one, or one that is expanded in it."""
        if self.frame.exit is None:
            return self.ssa.jump(condition=values[0] if values else None)
        for k, value in enumerate(values):
            self.ssa.write((self.frame, k), value)
        return self.ssa.jump(self.frame.exit)


def _is_pure(node: ast.AST) -> bool:
    """Whether an expression is of names, numbers and operators alone, so that it may be computed without need."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mod):
        return False
    return isinstance(node, PURE) and all(_is_pure(n) for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr))
