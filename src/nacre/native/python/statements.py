"""Statements of native Python: assignments, branches, loops, returns, and functions that are expanded at a call."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from nacre.native.python.arithmetic import SIGNS
from nacre.native.python.body import FunctionScope, Item, shown
from nacre.native.python.declarations import NativeFunction
from nacre.native.python.expressions import ExpressionTranslation
from nacre.native.python.ssa import BasicBlock, Computed
from nacre.native.python.types import BOOL, VOID, IntKind, Kind, TupleKind
from nacre.native.python.unit import NativeModule

NUMBERED: Final = "the bounds must be integers of one type, and the step a number that is not 0"


class StatementTranslation(ExpressionTranslation):
    """The translation of statements: the method `do_X` is for the syntax tree's node `X`."""

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
        if isinstance(target, ast.Name):
            self.assign(target.id, self.any_value(node.value, self.frame.kinds.get(target.id)), node)
        elif isinstance(target, ast.Tuple):
            self._assign_several(target, node)
        else:  # as in Python, the value is computed before the place
            if _calls(target):
                value = self.any_value(node.value)
            else:
                value = self.value(node.value, self._kind_of_place(target))
            address, kind = self.place(target)
            self.store(address, kind, self.typed(value, kind, node.value), node)

    def _kind_of_place(self, target: ast.expr) -> Kind:
        """The type of a place without calls, whose code is dropped."""
        assert self.ssa.here is not None
        code = self.ssa.here.code
        begun = len(code)
        kind = self.place(target)[1]
        del code[begun:]
        return kind

    def _assign_several(self, target: ast.Tuple, node: ast.Assign) -> None:
        names = [t.id for t in target.elts if isinstance(t, ast.Name)]
        if isinstance(node.value, ast.Tuple):
            pairs = zip(node.value.elts, [*names, *names])
            found: Item = tuple(self.any_value(v, self.frame.kinds.get(n)) for v, n in pairs)
        else:
            found = self.item(node.value)
        values = found if isinstance(found, tuple) else ()
        if not len(names) == len(target.elts) == len(values):
            got = f"{len(target.elts)} values for names are needed; got {len(values)}; correct it"
            self.fail(node, got, "assignment")
        for name, value in zip(names, values):
            self.assign(name, value, node)

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
        target, sign = node.target, SIGNS[type(node.op)]
        if isinstance(target, ast.Name):
            old = self.local(target.id, node)
            new = self.operate(sign, old, self.item(node.value, old.kind), node)
            self.assign(target.id, self.typed(new, old.kind, node), node)
        else:
            address, kind = self.place(target)
            old = self.load(address, kind)
            new = self.operate(sign, old, self.item(node.value, kind), node)
            self.store(address, kind, self.typed(new, kind, node), node)

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
            old = self.ssa.read(key, kind)
            new = self.binary("add", old, self.constant(kind, step))
            self.ssa.write(key, new)
            if abs(step) == 1:
                more = self.test(order, new, end)
            else:
                rest = self.binary("sub", *((end, old) if step > 0 else (old, end)))
                more = self.test("ugt", rest, self.constant(kind, abs(step)))
            self.ssa.jump(body, after, condition=more)
        self.ssa.seal(body)
        self.ssa.begin(after, seal=True)

    def _range(self, node: ast.For, name: str) -> tuple[Computed, Computed, int, IntKind]:
        """The start, the end and the step of a loop, and the type of its numbers."""
        call = node.iter
        is_range = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"
        if not isinstance(call, ast.Call) or not is_range or call.keywords or not 1 <= len(call.args) <= 3:
            self.fail(node, f"it must be over range(…); got {shown(call)}; use range or while", "for")
        known = self.frame.kinds.get(name)
        items = [self.item(a, known) for a in call.args]
        start, end, step = [*([0] if len(items) == 1 else []), *items, 1][:3]
        kind = next((x.kind for x in (start, end) if isinstance(x, Computed)), known)
        if kind is None:
            self.fail(node, "the numbers must have a type; got none; write range(u64(…))", name)
        if not isinstance(kind, IntKind) or not isinstance(step, int) or step == 0:
            self.fail(node, f"{NUMBERED}; got {shown(call)}; correct it", "range")
        return self.typed(start, kind, call), self.typed(end, kind, call), step, kind

    # ---- results

    def do_Return(self, node: ast.Return) -> None:
        """The end of the function: of the compiled one, or of one that is expanded in it."""
        frame, kind = self.frame, self.frame.result
        if (node.value is None) != (kind is VOID):
            got = "none" if node.value is None else "a value"
            self.fail(node, f"the result must be {kind}; got {got}; correct it or the annotation", "return")
        if frame.ways is not None and node.value is not None:
            return self.branch(node.value, *frame.ways)
        if isinstance(kind, TupleKind) and node.value is not None:
            for k, value in enumerate(self._results(node.value, kind)):
                self.ssa.write((frame, k), value)
            value = None
        else:
            value = None if node.value is None else self.value(node.value, kind)
        if frame.exit is None:
            return self.ssa.leave(value)
        if value is not None:
            self.ssa.write((frame, 0), value)
        return self.ssa.jump(frame.exit)

    def _results(self, node: ast.expr, kind: TupleKind) -> list[Computed]:
        if isinstance(node, ast.Tuple) and len(node.elts) == len(kind.items):
            return [self.value(x, k) for x, k in zip(node.elts, kind.items)]
        found = self.item(node)
        if not isinstance(found, tuple) or len(found) != len(kind.items):
            self.fail(node, f"{len(kind.items)} values are needed; got {shown(node)}; correct it", "return")
        return [self.typed(x, k, node) for x, k in zip(found, kind.items)]

    def expand(
        self, function: NativeFunction, call: ast.Call, ways: tuple[BasicBlock, BasicBlock] | None = None
    ) -> Item:
        """The result of an inlined function; with two ways, its returns lead to one of them."""
        signature = self.unit.signature(function)
        arguments = self.arguments(call, signature.kinds)
        if any(scope.function is function for scope in self.frame.chain):
            self.fail(call, "an inlined function must not call itself; got a cycle; use @native", function.symbol)
        definition = self.unit.sources.definition(function)
        caller, self.frame = self.frame, FunctionScope(function, definition, signature.result, self.frame)
        frame, frame.exit, frame.ways = self.frame, BasicBlock("result"), ways
        self.whole(arguments)
        self.ssa.begin(frame.exit, seal=True)
        self.frame = caller
        if self.ssa.here is None and ways is None:
            self.fail(call, "an inlined function must return; got one without an end; use @native", function.symbol)
        if isinstance(frame.result, TupleKind):
            return tuple(self.ssa.read((frame, k), kind) for k, kind in enumerate(frame.result.items))
        if frame.result is VOID or ways is not None:
            return self.known(VOID, "")
        return self.ssa.read((frame, 0), frame.result)

    def whole(self, arguments: Sequence[Computed]) -> None:
        """All of a function, from its arguments to its end."""
        frame, node = self.frame, self.frame.node
        kinds = self.unit.signature(frame.function).kinds
        for name, kind, value in zip(frame.function.code.co_varnames, kinds, arguments):
            frame.kinds[name] = kind
            self.assign(name, value, node)
        self.block(node.body)
        if self.ssa.here is not None:
            if frame.result is not VOID:
                self.fail(node, f"every way must end in a return; got one without; return {frame.result}", node.name)
            self.ssa.jump(*([frame.exit] if frame.exit is not None else []))


def _calls(node: ast.expr) -> bool:
    """Whether an expression has calls or branches."""
    return any(isinstance(n, ast.Call | ast.IfExp | ast.BoolOp) for n in ast.walk(node))


def compile_function(unit: NativeModule, function: NativeFunction) -> None:
    """Write a function into its module."""
    node, signature = unit.sources.definition(function), unit.signature(function)
    linkage = "dso_local" if "visible" in function.attributes else "" if function in unit.entries else "internal"
    attributes = "nounwind noinline" if function.attributes & {"noinline", "cold"} else "nounwind"
    if "cold" in function.attributes:
        attributes += " optnone"
    if "baseline" in function.attributes:
        attributes = f"{attributes} {unit.architecture.baseline}".rstrip()
    result = "zeroext i1" if signature.result is BOOL else signature.result.llvm
    parameters = {f"{name}.in": kind.llvm for name, kind in zip(function.code.co_varnames, signature.kinds)}
    f = unit.module.function(unit.symbol(function), result, parameters, linkage=linkage, attributes=attributes)
    body = StatementTranslation(unit, FunctionScope(function, node, signature.result, None))
    body.whole([body.known(kind, f"%{name}") for name, kind in zip(parameters, signature.kinds)])
    body.ssa.write_to(f)
