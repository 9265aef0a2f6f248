"""Statements of native Python: assignments, branches, loops, returns, and functions that are expanded at a call."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from nacre.base.errors import CompileError
from nacre.native.python.arithmetic import SIGNS
from nacre.native.python.body import FunctionScope, Item, Several
from nacre.native.python.declarations import NativeFunction
from nacre.native.python.expressions import ExpressionTranslation
from nacre.native.python.source import NativeSyntaxError, definition
from nacre.native.python.ssa import BasicBlock, Computed, nothing
from nacre.native.python.types import BOOL, VOID, IntKind, Kind, TupleKind
from nacre.native.python.unit import NativeModule, annotation, refuse

ENDS: Final = (ast.Return, ast.Break, ast.Continue)
NUMBERED: Final = "range: the bounds must be integers of one type, and the step a number that is not 0"


class StatementTranslation(ExpressionTranslation):
    """The translation of statements."""

    def block(self, nodes: Sequence[ast.stmt]) -> None:
        """Statements in order; those that control never reaches because of a constant are left out."""
        for before, node in zip([None, *nodes], nodes):
            if isinstance(before, ENDS):
                self.fail(node, f"{type(node).__name__}: control must reach every statement; got one behind a return, "
                          "break or continue; remove it")  # fmt: skip
            if self.ssa.here is not None:
                self._statement(node)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            self._assign(node)
        elif isinstance(node, ast.AnnAssign):
            self._declare(node)
        elif isinstance(node, ast.AugAssign):
            self._change(node)
        elif isinstance(node, ast.If):
            self._if(node)
        elif isinstance(node, ast.While):
            self._while(node)
        elif isinstance(node, ast.For):
            self._for(node)
        elif isinstance(node, ast.Return):
            self._return(node)
        elif isinstance(node, ast.Break | ast.Continue):
            self.ssa.jump(self.frame.loops[-1][isinstance(node, ast.Break)])
        elif isinstance(node, ast.Expr):
            if isinstance(node.value, ast.Call):
                self.item(node.value)
            elif not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
                self.fail(node, f"{ast.unparse(node)}: a statement must do something; got a value; assign or remove it")
        elif not isinstance(node, ast.Pass):
            self.fail(
                node,
                f"{type(node).__name__}: a statement must be native Python; got another one; "
                "docs/native_python.md lists what there is",
            )

    # ---- assignments

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            self.fail(node, "assignment: there must be one target; got several; write one line for each")
        target = node.targets[0]
        if isinstance(target, ast.Name):
            self.assign(target.id, self.any_value(node.value, self.frame.kinds.get(target.id)), node)
        elif isinstance(target, ast.Tuple):
            self._assign_several(target, node)
        else:
            self._assign_place(target, node)

    def _assign_place(self, target: ast.expr, node: ast.Assign) -> None:
        """Write to a field or element.  As in Python, the value is computed before the place."""
        if _calls(target):
            value = self.any_value(node.value)
            address, kind = self.place(target)
        else:
            kind = self._kind_of_place(target)
            value = self.value(node.value, kind)
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
            values: Sequence[Computed] = [self.any_value(v, self.frame.kinds.get(n)) for v, n in pairs]
        else:
            found = self.item(node.value)
            values = found.items if isinstance(found, Several) else []
        if not len(names) == len(target.elts) == len(values):
            self.fail(
                node, f"assignment: {len(target.elts)} values for names are needed; got {len(values)}; correct it"
            )
        for name, value in zip(names, values):
            self.assign(name, value, node)

    def _declare(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name):
            self.fail(node, "assignment: only a name is annotated; got a place; remove the type")
        name = node.target.id
        kind = annotation(self.frame.function, node.annotation, node, name)
        known = self.frame.kinds.setdefault(name, kind)
        if known != kind:
            self.fail(node, f"{name}: a variable must keep its type {known}; got {kind}; use another name")
        if node.value is not None:
            self.assign(name, self.value(node.value, kind), node)

    def _change(self, node: ast.AugAssign) -> None:
        sign = SIGNS[type(node.op)]
        if isinstance(node.target, ast.Name):
            old = self.local(node.target.id, node)
            new = self.operate(sign, old, self.item(node.value, old.kind), node)
            self.assign(node.target.id, self.typed(new, old.kind, node), node)
        else:
            address, kind = self.place(node.target)
            old = self.load(address, kind)
            new = self.operate(sign, old, self.item(node.value, kind), node)
            self.store(address, kind, self.typed(new, kind, node), node)

    # ---- control

    def _arm(self, part: BasicBlock, nodes: Sequence[ast.stmt], end: BasicBlock) -> None:
        """A block of statements, from which control goes to another block."""
        self.ssa.begin(part)
        self.seal(part)
        self.block(nodes)
        self.ssa.jump(end)

    def _if(self, node: ast.If) -> None:
        yes, end = BasicBlock("then", sealed=False), BasicBlock("end", sealed=False)
        no = BasicBlock("else", sealed=False) if node.orelse else end
        self.branch(node.test, yes, no)
        self._arm(yes, node.body, end)
        if node.orelse:
            self._arm(no, node.orelse, end)
        self.ssa.begin(end)
        self.seal(end)

    def _while(self, node: ast.While) -> None:
        self._without_else(node)
        head, body, end = (
            BasicBlock("loop", sealed=False),
            BasicBlock("body", sealed=False),
            BasicBlock("end", sealed=False),
        )
        self.ssa.jump(head)
        self.ssa.begin(head)
        self.frame.loops.append((head, end))
        self.branch(node.test, body, end)
        self._arm(body, node.body, head)
        self.frame.loops.pop()
        self.seal(head)
        self.ssa.begin(end)
        self.seal(end)

    def _without_else(self, node: ast.While | ast.For) -> None:
        if node.orelse:
            self.fail(node.orelse[0], "else: a loop must have none; got one; set a flag before `break`")

    def _for(self, node: ast.For) -> None:
        self._without_else(node)
        if not isinstance(node.target, ast.Name):
            self.fail(node, "for: the variable must be a name; got another target; assign it in the loop")
        start, end, step = self._range(node, node.target.id)
        kind, key = start.kind, (node, self.frame)
        body, following, after = (
            BasicBlock("body", sealed=False),
            BasicBlock("next", sealed=False),
            BasicBlock("end", sealed=False),
        )
        self.ssa.write(key, start)
        order = ("s" if isinstance(kind, IntKind) and kind.signed else "u") + ("lt" if step > 0 else "gt")
        self.ssa.jump(
            body, after, condition=self.add(BOOL, (start, end), lambda f, v: f.icmp(order, v[0], v[1]))
        )  # fmt: skip
        self.ssa.begin(body)
        self.assign(node.target.id, self.ssa.read(key, kind), node)
        self.frame.loops.append((following, after))
        self.block(node.body)
        self.frame.loops.pop()
        self.ssa.jump(following)
        self.ssa.begin(following)
        self.seal(following)
        if self.ssa.here is not None:
            self._advance(key, end, step, order, body, after)
        self.seal(body)
        self.ssa.begin(after)
        self.seal(after)

    def _advance(self, key: object, end: Computed, step: int, order: str, body: BasicBlock, after: BasicBlock) -> None:
        """The next number of a range, unless it reaches the end; nothing wraps around."""
        kind = end.kind
        old = self.ssa.read(key, kind)
        new = self.add(kind, (old, self.constant(kind, step)), lambda f, v: f.binary("add", v[0], v[1]))
        self.ssa.write(key, new)
        if abs(step) == 1:
            more = self.add(BOOL, (new, end), lambda f, v: f.icmp(order, v[0], v[1]))
        else:
            pair = (end, old) if step > 0 else (old, end)
            rest = self.add(kind, pair, lambda f, v: f.binary("sub", v[0], v[1]))
            more = self.add(BOOL, (rest,), lambda f, v: f.icmp("ugt", v[0], abs(step)))
        self.ssa.jump(body, after, condition=more)

    def _range(self, node: ast.For, name: str) -> tuple[Computed, Computed, int]:
        """The start, the end and the step of a loop."""
        call = node.iter
        is_range = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"
        if not isinstance(call, ast.Call) or not is_range or call.keywords or not 1 <= len(call.args) <= 3:
            self.fail(node, f"for: it must be over range(…); got {ast.unparse(call)}; use range or while")
        known = self.frame.kinds.get(name)
        items = [self.item(a, known) for a in call.args]
        start, end, step = {1: lambda: (0, items[0], 1), 2: lambda: (*items, 1), 3: lambda: items}[len(items)]()
        kind = next((x.kind for x in (start, end) if isinstance(x, Computed)), known)
        if kind is None:
            self.fail(node, f"{name}: the numbers must have a type; got none; write range(u64(…))")
        if not isinstance(kind, IntKind) or not isinstance(step, int) or step == 0:
            self.fail(node, f"{NUMBERED}; got {ast.unparse(call)}; correct it")
        return self.typed(start, kind, call), self.typed(end, kind, call), step

    # ---- results

    def _return(self, node: ast.Return) -> None:
        kind, exit = self.frame.result, self.frame.exit
        if (node.value is None) != (kind == VOID):
            self.fail(node, f"return: the result must be {kind}; got {'none' if node.value is None else 'a value'}; "
                      "correct it or the annotation")  # fmt: skip
        if exit is None:
            self.ssa.leave(None if node.value is None else self.value(node.value, kind))
            return
        if self.frame.ways is not None and node.value is not None:
            self.branch(node.value, *self.frame.ways)
            return
        if isinstance(kind, TupleKind) and node.value is not None:
            for k, value in enumerate(self._results(node.value, kind)):
                self.ssa.write((self.frame, k), value)
        elif node.value is not None:
            self.ssa.write((self.frame, 0), self.value(node.value, kind))
        self.ssa.jump(exit)

    def _results(self, node: ast.expr, kind: TupleKind) -> list[Computed]:
        if isinstance(node, ast.Tuple) and len(node.elts) == len(kind.items):
            return [self.value(x, k) for x, k in zip(node.elts, kind.items)]
        found = self.item(node)
        if not isinstance(found, Several) or len(found.items) != len(kind.items):
            self.fail(node, f"return: {len(kind.items)} values are needed; got {ast.unparse(node)}; correct it")
        return [self.typed(x, k, node) for x, k in zip(found.items, kind.items)]

    def expand(self, function: NativeFunction, arguments: list[Computed], call: ast.Call) -> Item:
        """The result of an inlined function."""
        exit = BasicBlock("result", sealed=False)
        frame = self._expand(function, arguments, call, exit, None)
        self.ssa.begin(exit)
        self.seal(exit)
        if self.ssa.here is None:
            self.fail(call, f"{function.symbol}: an inlined function must return; got one without an end; use @native")
        if isinstance(frame.result, TupleKind):
            return Several([self.ssa.read((frame, k), kind) for k, kind in enumerate(frame.result.items)])
        return self.add(VOID, (), nothing) if frame.result == VOID else self.ssa.read((frame, 0), frame.result)

    def expand_condition(
        self, function: NativeFunction, arguments: list[Computed], call: ast.Call, yes: BasicBlock, no: BasicBlock
    ) -> None:
        """An inlined function whose returns lead to one block or the other."""
        self._expand(function, arguments, call, BasicBlock("result"), (yes, no))

    def _expand(
        self,
        function: NativeFunction,
        arguments: list[Computed],
        call: ast.Call,
        exit: BasicBlock,
        ways: tuple[BasicBlock, BasicBlock] | None,
    ) -> FunctionScope:
        """The statements of an inlined function, whose returns lead to the exit or to one of two ways."""
        outer: FunctionScope | None = self.frame
        while outer is not None:
            if outer.function is function:
                self.fail(
                    call, f"{function.symbol}: an inlined function must not call itself; got a cycle; use @native"
                )
            outer = outer.outer
        signature = self.unit.signature(function)
        caller, frame = self.frame, FunctionScope(function, definition(function), signature.result, self.frame)
        frame.exit, frame.ways = exit, ways
        self.frame = frame
        self.enter(signature.names, signature.kinds, arguments)
        self.block(frame.node.body)
        self.finish(exit)
        self.frame = caller
        return frame

    def enter(self, names: Sequence[str], kinds: Sequence[Kind], values: Sequence[Computed]) -> None:
        """Give the parameters their values."""
        for name, kind, value in zip(names, kinds, values):
            self.frame.kinds[name] = kind
            self.assign(name, value, self.frame.node)

    def finish(self, exit: BasicBlock | None) -> None:
        """The end of a function's statements."""
        if self.ssa.here is None:
            return
        if self.frame.result != VOID:
            node = self.frame.node
            self.fail(node, f"{node.name}: every way must end in a return; got one without; return {self.frame.result}")
        if exit is None:
            self.ssa.leave(None)
        else:
            self.ssa.jump(exit)


def _calls(node: ast.expr) -> bool:
    """Whether an expression has calls or branches."""
    return any(isinstance(n, ast.Call | ast.IfExp | ast.BoolOp) for n in ast.walk(node))


def compile_function(unit: NativeModule, function: NativeFunction) -> None:
    """Write a function into its module."""
    node = definition(function)
    try:
        _compile(unit, function, node)
    except NativeSyntaxError:
        raise
    except CompileError as fault:  # of a structure or variable that it uses
        refuse(function, node, str(fault))


def _compile(unit: NativeModule, function: NativeFunction, node: ast.FunctionDef) -> None:
    signature = unit.signature(function)
    linkage = "dso_local" if "visible" in function.attributes else "" if function in unit.entries else "internal"
    attributes = "nounwind noinline" if "noinline" in function.attributes else "nounwind"
    if "baseline" in function.attributes:
        attributes = f"{attributes} {unit.architecture.baseline}".rstrip()
    result = "zeroext i1" if signature.result == BOOL else signature.result.llvm
    parameters = {f"{name}.in": kind.llvm for name, kind in zip(signature.names, signature.kinds)}
    f = unit.module.function(unit.symbol(function), result, parameters, linkage=linkage, attributes=attributes)
    body = StatementTranslation(unit, FunctionScope(function, node, signature.result, None))
    values = [body.add(kind, (), lambda f, _, n=n: f[n]) for n, kind in zip(parameters, signature.kinds)]
    body.enter(signature.names, signature.kinds, values)
    body.block(node.body)
    body.finish(None)
    body.ssa.write_to(f)
