"""Expressions of native Python: names, fields, operators, conditions and calls."""

from __future__ import annotations

import ast
from types import ModuleType
from typing import Any, Final

from nacre.native.llvm_values import Val
from nacre.native.python.arithmetic import SIGNS
from nacre.native.python.body import Item
from nacre.native.python.declarations import NativeFunction, NativeVariable, null
from nacre.native.python.intrinsics import HANDLERS, target_is
from nacre.native.python.memory import MemoryAccess
from nacre.native.python.ssa import BasicBlock, Computed
from nacre.native.python.types import BOOL, FloatKind, FunctionKind, IntKind, Kind, PointerKind, struct_of

PURE: Final = (
    ast.Name,
    ast.Constant,
    ast.Compare,
    ast.UnaryOp,
    ast.BinOp,
    ast.operator,
    ast.unaryop,
    ast.cmpop,
    ast.Load,
)


class ExpressionTranslation(MemoryAccess):
    """The translation of expressions."""

    def expand(self, function: NativeFunction, arguments: list[Computed], call: ast.Call) -> Item:
        """The result of an inlined function."""
        raise NotImplementedError

    def expand_condition(
        self, function: NativeFunction, arguments: list[Computed], call: ast.Call, yes: BasicBlock, no: BasicBlock
    ) -> None:
        """An inlined function whose returns lead to one block or the other."""
        raise NotImplementedError

    def item(self, node: ast.expr, wanted: Kind | None = None) -> Item:
        """The value of an expression; a number without a type stays a Python number."""
        if isinstance(node, ast.Constant):
            return self._literal(node)
        if isinstance(node, ast.Name | ast.Attribute):
            found = self._global(node)
            if found is not None:
                return self._global_value(found, node)
            return self.local(node.id, node) if isinstance(node, ast.Name) else self.load(*self.place(node))
        if isinstance(node, ast.Subscript):
            return self.load(*self.place(node))
        if isinstance(node, ast.BinOp):
            return self._operator(node, wanted)
        if isinstance(node, ast.UnaryOp):
            if isinstance(node.op, ast.Not):
                return self._negated(node)
            return self.unary(SIGNS[type(node.op)], self.item(node.operand, wanted), node)
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        if isinstance(node, ast.BoolOp):
            return self._logic(node)
        if isinstance(node, ast.IfExp):
            return self._choice(node, wanted)
        if isinstance(node, ast.Call):
            return self._call(node, wanted)
        self.fail(
            node,
            f"{ast.unparse(node)}: an expression must be native Python; got {type(node).__name__}; "
            "docs/native_python.md lists what there is",
        )

    # ---- names and constants

    def _literal(self, node: ast.Constant) -> Item:
        if isinstance(node.value, int | float):
            return node.value
        if isinstance(node.value, bytes):
            name = self.unit.text(node.value + b"\0")
            return self.symbol(name, PointerKind(IntKind(8, False)))
        self.fail(
            node, f"{node.value!r}: a constant must be a number, a bool or bytes; got another kind; use null or b…"
        )

    def _global(self, node: ast.expr) -> Any:
        """The object that a global name, or one of another module, stands for; None for other expressions."""
        if isinstance(node, ast.Name) and not self.is_local(node.id):
            return self.global_item(node.id, node)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and not self.is_local(node.value.id):
            owner = self.global_item(node.value.id, node)
            if isinstance(owner, ModuleType):
                found = getattr(owner, node.attr, None)
                if found is None:
                    self.fail(node, f"{ast.unparse(node)}: a name must be defined; got none; correct the spelling")
                return found
        return None

    def _global_value(self, found: Any, node: ast.expr) -> Item:
        if isinstance(found, int | float | NativeFunction) or found is null:
            return found
        if isinstance(found, NativeVariable):
            return self.symbol(self.unit.variable(found), PointerKind(struct_of(found.owner)))
        self.fail(
            node,
            f"{ast.unparse(node)}: a value must be a number, function or variable; got {found!r}; use another name",
        )

    # ---- operators

    def _operator(self, node: ast.BinOp, wanted: Kind | None) -> Item:
        sign = SIGNS[type(node.op)]
        left = self.item(node.left, wanted)
        return self.operate(sign, left, self.item(node.right, wanted), node)

    def _comparison(self, node: ast.Compare) -> Item:
        if len(node.ops) > 1:  # as in Python: each operand is computed once, and the rest only where it matters
            left, middle = self.item(node.left), self.any_value(node.comparators[0])
            first = self.compare(SIGNS[type(node.ops[0])], left, middle, node)
            return self._both_hold(first, middle, node)
        right = node.comparators[0]
        return self.compare(SIGNS[type(node.ops[0])], self.item(node.left), self.item(right), node)

    def _both_hold(self, first: Item, middle: Computed, node: ast.Compare) -> Item:
        """Whether the first comparison and the rest of a chain hold."""
        for sign, right in zip(node.ops[1:], node.comparators[1:]):
            if not _is_pure(right):
                self.fail(node, "comparison: a chain must end in plain values; got a call or a place; use `and`")
            following = self.item(right)
            second = self.compare(SIGNS[type(sign)], middle, following, node)
            first = self.operate("&", self.typed(first, BOOL, node), self.typed(second, BOOL, node), node)
            middle = self.typed(following, middle.kind, node)
        return first

    def _negated(self, node: ast.UnaryOp) -> Item:
        found = self.item(node.operand)
        if isinstance(found, bool):
            return not found
        value = self.typed(found, BOOL, node.operand)
        return self.add(BOOL, (value,), lambda f, v: f.xor(v[0], Val("true", "i1")))

    def _logic(self, node: ast.BoolOp) -> Item:
        """`and` or `or` as a value: later operands are computed only where they matter."""
        conjunction = isinstance(node.op, ast.And)
        if all(map(_is_pure, node.values)):
            found = self.value(node.values[0], BOOL)
            for each in node.values[1:]:
                found = self.operate("&" if conjunction else "|", found, self.value(each, BOOL), node)
            return found
        key, end = (node, self.frame), BasicBlock("known", sealed=False)
        for each in node.values[:-1]:
            value, following = self.value(each, BOOL), BasicBlock("more")
            self.ssa.write(key, value)
            self.ssa.jump(*((following, end) if conjunction else (end, following)), condition=value)
            self.ssa.begin(following)
        self.ssa.write(key, self.value(node.values[-1], BOOL))
        return self._joined(key, end, BOOL)

    def _joined(self, key: Any, end: BasicBlock, kind: Kind) -> Computed:
        """Go on where ways meet, with the value that each of them has written."""
        self.ssa.jump(end)
        self.ssa.begin(end)
        self.seal(end)
        return self.ssa.read(key, kind)

    def _choice(self, node: ast.IfExp, wanted: Kind | None) -> Item:
        constant = self.known_condition(node.test)
        if constant is not None:
            return self.item(node.body if constant else node.orelse, wanted)
        if _is_pure(node.body) and _is_pure(node.orelse):
            condition = self.value(node.test, BOOL)
            arms = [self.item(node.body, wanted), self.item(node.orelse, wanted)]
            kind = next((a.kind for a in arms if isinstance(a, Computed)), wanted)
            if kind is None:
                self.fail(node, f"{ast.unparse(node)}: one side must have a type; got none; write one, as u64(…)")
            yes, no = (self.typed(a, kind, node) for a in arms)
            return self.add(kind, (condition, yes, no), lambda f, v: f.select(v[0], v[1], v[2]))
        yes, no, end = (
            BasicBlock("yes", sealed=False),
            BasicBlock("no", sealed=False),
            BasicBlock("chosen", sealed=False),
        )
        self.branch(node.test, yes, no)
        key = node, self.frame
        kind = wanted
        for part, arm in ((yes, node.body), (no, node.orelse)):
            self.ssa.begin(part)
            self.seal(part)
            if self.ssa.here is None:
                continue
            value = self.any_value(arm, kind) if kind is None else self.value(arm, kind)
            kind = value.kind
            self.ssa.write(key, value)
            self.ssa.jump(end)
        self.ssa.begin(end)
        self.seal(end)
        assert kind is not None
        return self.ssa.read(key, kind)

    # ---- conditions

    def known_condition(self, node: ast.expr) -> bool | None:
        """The value of a condition that is a constant, or None."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            found = self.known_condition(node.operand)
            return None if found is None else not found
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return node.value
        if isinstance(node, ast.Call) and self._global(node.func) is target_is:
            return bool(self.item(node))
        found = self._global(node)
        return found if isinstance(found, bool) else None

    def branch(self, node: ast.expr, yes: BasicBlock, no: BasicBlock) -> None:
        """End the block: to one block where a condition holds, else to the other."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.branch(node.operand, no, yes)
        if isinstance(node, ast.BoolOp):
            for each in node.values[:-1]:
                following = BasicBlock("also" if isinstance(node.op, ast.And) else "else", sealed=False)
                arms = (following, no) if isinstance(node.op, ast.And) else (yes, following)
                self.branch(each, *arms)
                self.ssa.begin(following)
                self.seal(following)
                if self.ssa.here is None:  # decided by a constant
                    return None
            return self.branch(node.values[-1], yes, no)
        known = self.known_condition(node)
        if known is not None:
            return self.ssa.jump(yes if known else no)
        callee = self._global(node.func) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and isinstance(callee, NativeFunction) and callee.kind == "inline":
            signature = self.unit.signature(callee)
            if signature.result == BOOL and _is_plain(node):
                return self.expand_condition(callee, self._arguments(node, signature.kinds, False), node, yes, no)
        found = self.item(node)
        if isinstance(found, bool):
            return self.ssa.jump(yes if found else no)
        return self.ssa.jump(yes, no, condition=self.typed(found, BOOL, node))

    # ---- calls

    def _call(self, node: ast.Call, wanted: Kind | None) -> Item:
        callee = self._global(node.func)
        if not _is_plain(node):
            self.fail(node, f"{ast.unparse(node.func)}: arguments must be in order; got a name or a star; write each")
        if isinstance(callee, IntKind | FloatKind):
            return self._conversion(callee, node)
        if isinstance(callee, NativeFunction):
            return self._direct(callee, node)
        if callee is not None:
            handler = next((h for f, h in HANDLERS.items() if f is callee), None)
            if handler is None:
                self.fail(node, f"{ast.unparse(node.func)}: the function must be native; got {callee!r}; decorate it")
            return handler(self, node, wanted)
        pointer = self.any_value(node.func)
        if not isinstance(pointer.kind, FunctionKind):
            self.fail(
                node, f"{ast.unparse(node.func)}: only functions are called; got {pointer.kind}; correct the name"
            )
        kind = pointer.kind
        arguments = self._arguments(node, kind.parameters, False)
        return self.add(kind.result, (pointer, *arguments), lambda f, v: f.call_value(v[0], kind.result.llvm, v[1:]))

    def _conversion(self, to: IntKind | FloatKind, node: ast.Call) -> Item:
        if len(node.args) != 1:
            self.fail(node, f"{to}: one argument is needed; got {len(node.args)}; write one")
        found = self.item(node.args[0])
        if isinstance(found, int | float) and not isinstance(found, bool):
            if isinstance(to, IntKind) and isinstance(found, float):
                self.fail(node, f"{to}: an integer must be whole; got {found}; round the constant")
            return self.typed(found, to, node) if isinstance(to, IntKind) else self.constant(to, found)
        return self.convert(self.any_value_of(found, node.args[0]), to, node)

    def any_value_of(self, found: Item, node: ast.expr) -> Computed:
        """An item as a value of its own type."""
        if isinstance(found, Computed):
            return found
        if isinstance(found, bool):
            return self.constant(BOOL, found)
        return self.any_value(node)

    def _direct(self, callee: NativeFunction, node: ast.Call) -> Item:
        signature = self.unit.signature(callee)
        arguments = self._arguments(node, signature.kinds, signature.variadic)
        if callee.kind == "inline":
            return self.expand(callee, arguments, node)
        symbol, result = self.unit.symbol(callee), signature.result.llvm
        if not signature.variadic:
            target = Val(f"@{symbol}", "ptr")
            return self.add(signature.result, arguments, lambda f, v: f.call_value(target, result, v))
        kinds = ", ".join([*(k.llvm for k in signature.kinds), "..."])
        target = Val(f"({kinds}) @{symbol}", "ptr")
        return self.add(signature.result, arguments, lambda f, v: f.call_value(target, result, v))

    def _arguments(self, node: ast.Call, kinds: tuple[Kind, ...], variadic: bool) -> list[Computed]:
        count = len(node.args)
        if count < len(kinds) or (count > len(kinds) and not variadic):
            name = ast.unparse(node.func)
            self.fail(node, f"{name}: the number of arguments must be {len(kinds)}; got {count}; correct the call")
        further = [self.any_value(a) for a in node.args[len(kinds) :]]
        for value in further:
            if value.kind.nbytes < 4 or value.kind == FloatKind(32):
                name = ast.unparse(node.func)
                self.fail(
                    node, f"{name}: further arguments have 32 or 64 bits and are no f32; got {value.kind}; convert it"
                )
        return [*(self.value(a, k) for a, k in zip(node.args, kinds)), *further]


def _is_plain(node: ast.Call) -> bool:
    """Whether all arguments of a call stand in order."""
    return not node.keywords and not any(isinstance(a, ast.Starred) for a in node.args)


def _is_pure(node: ast.expr) -> bool:
    """Whether an expression is of names, numbers and operators alone, so that it may be computed without need."""
    parts = list(ast.walk(node))
    return all(isinstance(n, PURE) and not isinstance(n, ast.FloorDiv | ast.Mod) for n in parts)
