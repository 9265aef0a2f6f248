"""Statements of native Python: assignments, branches, loops and returns."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from nacre.native.python.arithmetic import SIGNS
from nacre.native.python.body import FunctionScope, Item, shown
from nacre.native.python.declarations import NativeFunction
from nacre.native.python.expressions import ExpressionTranslation
from nacre.native.python.ssa import BasicBlock, Computed
from nacre.native.python.types import BOOL, IntKind, Kind
from nacre.native.python.unit import NativeModule

NUMBERED: Final = "the bounds must be integers of one type, and the step 1 or -1"


class StatementTranslation(ExpressionTranslation):
    """The translation of statements."""

    def do_Pass(self, node: ast.Pass) -> None:
        """Nothing."""

    def do_Expr(self, node: ast.Expr) -> None:
        """A call, or the description of a function."""
        if isinstance(node.value, ast.Call):
            self.item(node.value)
        elif not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
            self.fail(node, "a statement must do something; got a value; assign or remove it")

    # ---- assignments

    def do_Assign(self, node: ast.Assign) -> None:
        """A value for a name, for several names, or for a place."""
        target = node.targets[0]
        if len(node.targets) != 1:
            self.fail(node, "there must be one target; got several; write one line for each", "assignment")
        if isinstance(target, ast.Tuple):
            names = [t.id if isinstance(t, ast.Name) else "" for t in target.elts]
            if "" in names:
                self.fail(
                    node, "several values are for names; got another target; write one line for each", "assignment"
                )
            values = self._several(node.value, [self.frame.kinds.get(name) for name in names], "assignment")
            for name, value in zip(names, values):
                self.assign(name, value, node)
        elif isinstance(target, ast.Name):
            self.assign(target.id, self.any_value(node.value, self.frame.kinds.get(target.id)), node)
        else:  # as in Python, the value is computed before the place
            value = self.any_value(node.value, self._kind_of_place(target))
            address, kind = self.place(target)
            self.store(address, kind, self.typed(value, kind, node.value), node)

    def _kind_of_place(self, target: ast.expr) -> Kind | None:
        """The type of a place, whose code is dropped; None where that has calls or branches."""
        parts = () if type(target) is ast.Attribute and type(target.value) is ast.Name else ast.walk(target)
        if self.ssa.here is None or any(isinstance(n, ast.Call | ast.IfExp | ast.BoolOp) for n in parts):
            return None
        code = self.ssa.here.code
        begun = len(code)
        kind = self.place(target)[1]
        del code[begun:]
        return kind

    def _several(self, node: ast.expr, kinds: Sequence[Kind | None], about: str) -> Sequence[Computed]:
        """The values of several expressions, or of an inlined function that has several results."""
        found: Item = ()
        if not isinstance(node, ast.Tuple):
            found = self.item(node)
        elif len(node.elts) == len(kinds):
            found = tuple([self.any_value(v, k) for v, k in zip(node.elts, kinds)])
        if not isinstance(found, tuple) or len(found) != len(kinds):
            self.fail(node, f"{len(kinds)} values are needed; got {shown(node)}; correct it", about)
        return found

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        """A variable with a type, and perhaps a value."""
        if not isinstance(node.target, ast.Name):
            self.fail(node, "only a name is annotated; got a place; remove the type", "assignment")
        name = node.target.id
        kind = self.unit.kind(self.frame.function, node.annotation, name, node)
        self.declare(name, kind, node)
        if node.value is not None:
            self.assign(name, self.value(node.value, kind), node)

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        """An operator whose result replaces its first operand."""
        if isinstance(node.target, ast.Name):
            self.assign(node.target.id, self._changed(self.local(node.target.id, node), node), node)
        else:
            address, kind = self.place(node.target)
            self.store(address, kind, self._changed(self.load(address, kind), node), node)

    def _changed(self, old: Computed, node: ast.AugAssign) -> Computed:
        new = self.operate(SIGNS[type(node.op)], old, self.item(node.value, old.kind), node)
        return self.typed(new, old.kind, node)

    # ---- control

    def _arm(self, part: BasicBlock, nodes: Sequence[ast.stmt], end: BasicBlock) -> None:
        """A block of statements, from which control goes to another block."""
        self.ssa.begin(part, seal=True)
        self.block(nodes)
        self.ssa.jump(end)

    def do_If(self, node: ast.If) -> None:
        """A branch."""
        yes, end = BasicBlock("then"), BasicBlock("end")
        no = BasicBlock("else") if node.orelse else end
        self.branch(node.test, yes, no)
        self._arm(yes, node.body, end)
        if node.orelse:
            self._arm(no, node.orelse, end)
        self.ssa.begin(end, seal=True)

    def do_Break(self, node: ast.Break | ast.Continue) -> None:
        """Leave the loop, or begin its next round."""
        self.ssa.jump(self.frame.loops[-1][isinstance(node, ast.Break)])

    do_Continue = do_Break

    def do_While(self, node: ast.While) -> None:
        """A loop with a condition."""
        self._without_else(node)
        head, body, end = BasicBlock("loop"), BasicBlock("body"), BasicBlock("end")
        self.ssa.jump(head)
        self.ssa.begin(head)
        self.frame.loops.append((head, end))
        self.branch(node.test, body, end)
        self._arm(body, node.body, head)
        self.frame.loops.pop()
        self.ssa.seal(head)
        self.ssa.begin(end, seal=True)

    def _without_else(self, node: ast.While | ast.For) -> None:
        if node.orelse:
            self.fail(node.orelse[0], "a loop must have none; got one; set a flag before `break`", "else")

    def do_For(self, node: ast.For) -> None:
        """A loop over the numbers of a range."""
        self._without_else(node)
        if not isinstance(node.target, ast.Name):
            self.fail(node, "the variable must be a name; got another target; assign it in the loop", "for")
        start, end, step, kind = self._range(node, node.target.id)
        key, body, following, after = (node, self.frame), BasicBlock("body"), BasicBlock("next"), BasicBlock("end")
        order = ("s" if kind.signed else "u") + ("lt" if step > 0 else "gt")
        self.ssa.write(key, start)
        self.ssa.jump(body, after, condition=self.test(order, start, end))
        self.ssa.begin(body)
        self.assign(node.target.id, self.ssa.read(key, kind), node)
        self.frame.loops.append((following, after))
        self.block(node.body)
        self.frame.loops.pop()
        self.ssa.jump(following)
        self.ssa.begin(following, seal=True)
        if self.ssa.here is not None:  # the next number, unless it reaches the end; nothing wraps around
            new = self.binary("add", self.ssa.read(key, kind), self.constant(kind, step))
            self.ssa.write(key, new)
            self.ssa.jump(body, after, condition=self.test(order, new, end))
        self.ssa.seal(body)
        self.ssa.begin(after, seal=True)

    def _range(self, node: ast.For, name: str) -> tuple[Computed, Computed, int, IntKind]:
        """The start, the end and the step of a loop, and the type of its numbers."""
        call = node.iter
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "range":
            self.fail(node, f"it must be over range(…); got {shown(call)}; use range or while", "for")
        self.count(call, 1, 3)
        known = self.frame.kinds.get(name)
        items = [self.item(a, known) for a in call.args]
        start, end, step = [*([0] if len(items) == 1 else []), *items, 1][:3]
        kind = next((x.kind for x in (start, end) if isinstance(x, Computed)), known)
        if kind is None:
            self.fail(node, "the numbers must have a type; got none; write range(u64(…))", name)
        if not isinstance(kind, IntKind) or step not in (1, -1):
            self.fail(node, f"{NUMBERED}; got {shown(call)}; use `while` for others", "range")
        return self.typed(start, kind, call), self.typed(end, kind, call), 1 if step == 1 else -1, kind

    # ---- results

    def do_Return(self, node: ast.Return) -> None:
        """The end of the function: of the compiled one, or of one that is expanded in it."""
        frame, kinds, values = self.frame, self.frame.results, list[Computed]()
        if (node.value is None) != (not kinds):
            got = "none" if node.value is None else "a value"
            self.fail(node, f"the result must be {frame.result}; got {got}; correct it or the annotation", "return")
        if frame.ways is not None and node.value is not None:
            return self.branch(node.value, *frame.ways)
        if node.value is not None:
            one = len(kinds) == 1
            found = [self.item(node.value, kinds[0])] if one else self._several(node.value, kinds, "return")
            values = [self.typed(value, kind, node.value) for value, kind in zip(found, kinds)]
        return self.leave(values)


def compile_function(unit: NativeModule, function: NativeFunction) -> None:
    """Write a function into its module."""
    signature = unit.signature(function)
    linkage = "" if function in unit.entries else "internal"
    attributes = "nounwind noinline" if function.attributes & {"noinline", "cold"} else "nounwind"
    if "cold" in function.attributes:
        attributes += " optnone"
    if "baseline" in function.attributes:
        attributes = f"{attributes} {unit.architecture.baseline}".rstrip()
    result = "zeroext i1" if signature.result is BOOL else signature.result.llvm
    parameters = {f"{name}.in": kind.llvm for name, kind in zip(function.code.co_varnames, signature.kinds)}
    f = unit.module.function(unit.symbol(function), result, parameters, linkage=linkage, attributes=attributes)
    body = StatementTranslation(unit, FunctionScope(unit, function))
    body.whole([body.known(kind, f"%{name}") for name, kind in zip(parameters, signature.kinds)])
    body.ssa.write_to(f)
