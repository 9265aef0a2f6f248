"""Statements of Python as statements of kernel IR: assignments, branches, loops, and functions that are called."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from nacre.base.dtypes import bool_
from nacre.kernel.ast import Const, If, Load, Stmt, Store, apply
from nacre.kernel.python.expressions import ExpressionTranslator
from nacre.kernel.python.flow import always_ends, ends_round, exposed, homes, stored_in
from nacre.kernel.python.frame import CallFrame, KernelWriter
from nacre.kernel.python.loops import LoopTranslator
from nacre.kernel.python.operators import binary
from nacre.kernel.python.refusal import Refused
from nacre.kernel.python.returns import has_result, in_tail_position, without_returns
from nacre.kernel.python.scalars import Array, Known, Scalar, ScalarType, Value, converted, described


class StatementTranslator(LoopTranslator):
    """Translates the statements of the frame in progress."""

    def __init__(self, w: KernelWriter) -> None:
        super().__init__(w, ExpressionTranslator(w, self.inlined, self.reduced))

    # ---- blocks

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Translate statements in order; those behind one that may end the iteration run only if it did not."""
        for k, s in enumerate(body):
            rest = body[k + 1 :]
            if isinstance(s, ast.If) and rest and ends_round(s):
                sides = (s.body, s.orelse)
                ends = [always_ends(b) for b in sides]
                if any(ends) and all(e or not any(map(ends_round, b)) for e, b in zip(ends, sides, strict=True)):
                    self.branch(s, *(b if e else [*b, *rest] for e, b in zip(ends, sides, strict=True)))
                else:
                    self.statement(s)
                    self.rest(rest, s)
                return
            self.statement(s)
            if isinstance(s, ast.Break | ast.Continue):
                if rest:
                    raise Refused(rest[0], "a statement must be reached", "remove it, or put it before break")
                return

    def rest(self, body: Sequence[ast.stmt], node: ast.AST) -> None:
        """Statements that run only if the iteration has not ended."""
        skip = self.loops[-1].skip
        assert skip is not None
        with self.w.block() as inside:
            self.block(body)
        self.w.emit(If(apply("not", Load(skip, (), bool_)), tuple(inside)), node)
        self.w.forget(stored_in(body))

    def statement(self, s: ast.stmt) -> None:
        """Translate one statement."""
        match s:
            case ast.Assign():
                self.assignment(s)
            case ast.AnnAssign() if s.value is not None:
                self.assign(s.target, self.e.value(s.value), s)
            case ast.AugAssign():
                self.augmented(s)
            case ast.If():
                self.branch(s, s.body, s.orelse)
            case ast.For():
                self.for_loop(s)
            case ast.While():
                self.while_loop(s)
            case ast.Break() | ast.Continue():
                self.end_round(s)
            case ast.Pass() | ast.AnnAssign():
                pass
            case ast.Expr() if isinstance(s.value, ast.Constant):
                pass  # a docstring
            case ast.Return():
                raise Refused(s, "a kernel must store its results, and return nothing", "write out[i] = x")
            case ast.Expr(value=ast.Call() as call) if self.e.is_own(call):
                self.e.call(call)
            case ast.Expr():
                raise Refused(s, "an expression alone has no effect", "store its value")
            case _:
                raise Refused(
                    s, "a statement of a kernel must be an assignment, if, for, while, break or continue",
                    "write the loop with these",
                )  # fmt: skip

    # ---- assignments

    def assignment(self, s: ast.Assign) -> None:
        """`a = b = value`."""
        value = self.e.value(s.value)
        for target in s.targets:
            self.assign(target, value, s)

    def assign(self, target: ast.expr, value: Value, node: ast.AST) -> None:
        """Assign a value to a local, an element, or several of them."""
        match target:
            case ast.Name():
                self.assign_local(target, value, node)
            case ast.Subscript():
                self.store(target, self.place(target), self.e.number(value, node), node)
            case ast.Tuple() | ast.List():
                parts = value if isinstance(value, tuple) else ()
                if len(parts) != len(target.elts) or any(isinstance(t, ast.Starred) for t in target.elts):
                    raise Refused(
                        node, f"{len(target.elts)} targets must get as many values", "write one for each",
                        described(value),
                    )  # fmt: skip
                named = [self._named(v, node) for v in parts]
                for t, v in zip(target.elts, named, strict=True):
                    self.assign(t, v, node)
            case _:
                raise Refused(target, "only locals and elements can be assigned", "store into an output")

    def _named(self, value: Value, node: ast.AST) -> Value:
        """A value that stays when locals change."""
        if isinstance(value, Scalar):
            return Scalar(self.w.let(value.expr, "next", node), value.type, value.value, value.size)
        return value

    def assign_local(self, target: ast.Name, value: Value, node: ast.AST) -> None:
        """Assign to a local: numbers are in scratch, from which later branches and iterations read them."""
        w, name = self.w, target.id
        frame = w.frame
        if name not in frame.homes:
            raise Refused(target, f"{name} counts a loop, which alone changes it", "assign another local", name)
        if isinstance(value, Array) and not value.shape:
            value = self.e.load(value, node)
        if not isinstance(value, Scalar):
            if name in frame.memory or (frame.loops != [] and frame.homes[name] is not frame.loops[-1]):
                raise Refused(target, f"the local {name} must be a number", "use the array itself", described(value))
            frame.env[name] = value
            return
        self.require_private(name, target)
        type = w.takes(name, value, node)
        if value.value is None and value.size is None:
            value = Scalar(w.let(value.expr, name, node), value.type, early=value.early)
        memory = frame.memory.get(name)
        if memory is not None:
            w.emit(Store(memory, (), converted(value, type, node).expr), node)
        frame.env[name] = value  # until a branch or a loop it is Python's number, of which the memory may be narrower

    def require_private(self, name: str, node: ast.AST) -> None:
        """Raise Refused if iterations of a parallel loop would share a local that they assign."""
        home, around = self.w.frame.homes[name], self.w.frame.loops
        if self.w.frame.key:
            return  # locals of a function that is called are made at the call
        depth = around.index(home) if home in around else -1
        for loop in self.parallel:
            if around.index(loop) > depth:
                raise Refused(
                    node, f"rounds of the parallel loop of line {loop.lineno} must not share the local {name}, "
                    "which they assign", f"assign {name} in each round before it is read, or write nacre.pairwise_sum",
                    f"`{ast.unparse(node)}` used in other rounds or behind the loop",
                )  # fmt: skip

    def place(self, target: ast.Subscript) -> Array:
        """The element of an output, or of scratch, that a statement stores to."""
        held = self.e.value(target.value)
        found = self.e.element(target, held)
        if found.shape:
            raise Refused(target, "a store must be to one element", "write a loop over the other axes")
        if found.buffer not in self.w.outputs:
            raise Refused(
                target, "only elements of outputs can be stored", "make the array an output: a parameter behind those "
                "of `out`", f"the input {found.buffer}",
            )  # fmt: skip
        return found

    def store(self, target: ast.AST, place: Array, value: Scalar, node: ast.AST) -> None:
        """Store a number to an element of an output."""
        if (value.dtype.is_float and not place.dtype.is_float) or (place.dtype.is_bool and not value.dtype.is_bool):
            raise Refused(
                node, f"the elements of {place.buffer} are {place.dtype.name}", f"convert the number, as in "
                f"numpy.{place.dtype.numpy}(x)", f"a number of type {value.type}",
            )  # fmt: skip
        held = converted(value, ScalarType(place.dtype), node)
        self.w.emit(Store(place.buffer, place.index, held.expr), node)

    def augmented(self, s: ast.AugAssign) -> None:
        """`x += value` of a local or of an element."""
        operation = ast.copy_location(ast.BinOp(s.target, s.op, s.value), s)
        if isinstance(s.target, ast.Name):
            operation.left = ast.copy_location(ast.Name(s.target.id, ast.Load()), s.target)
            self.assign_local(s.target, self.e.value(operation), s)
            return
        if not isinstance(s.target, ast.Subscript):
            raise Refused(s, "only locals and elements can be assigned", "store into an output")
        place = self.place(s.target)
        x, y = self.e.load(place, s), self.e.scalar(s.value)
        self.store(s.target, place, binary(s.op, x, y, operation), s)

    # ---- branches

    def branch(self, s: ast.If, then: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> None:
        """An if; one whose condition is known is the side that is taken."""
        condition = self.e.condition(s.test)
        if condition.value is not None:
            self.block(then if condition.value else other)
            return
        sides: list[tuple[Stmt, ...]] = []
        for body, runs in ((then, condition.expr), (other, apply("not", condition.expr))):
            with self.w.block(runs) as inside:
                self.block(body)
            sides.append(tuple(inside))
        self.w.emit(If(condition.expr, *sides), s)
        self.w.forget(stored_in([*then, *other]))

    def end_round(self, s: ast.Break | ast.Continue) -> None:
        """`break` and `continue`."""
        if not self.loops:
            raise Refused(s, "break and continue must be in a loop", "remove it")
        state = self.loops[-1]
        if isinstance(s, ast.Break):
            if state.going is None:
                raise Refused(s, "a parallel loop must run all of its rounds", "write `for i in range(n):`")
            self.w.emit(Store(state.going, (), Const(False, bool_)), s)
        if state.skip is not None:
            self.w.emit(Store(state.skip, (), Const(True, bool_)), s)

    # ---- functions

    def begin(self, body: Sequence[ast.stmt], node: ast.AST) -> None:
        """Declare the locals of the frame in progress; parameters that its statements change are some of them."""
        w, frame = self.w, self.w.frame
        changed = stored_in(body) & frame.env.keys()
        frame.homes = {**homes(body), **dict.fromkeys(changed, None)}
        for name in sorted(frame.homes.keys() - changed):
            reader = exposed(body, name)
            if reader is not None:
                raise Refused(
                    reader, "a local must have a value on every way to its use", "assign it before, as in s = 0.0", name
                )
        w.declare(None, node)
        for name in sorted(changed):
            target = ast.copy_location(ast.Name(name, ast.Store()), node)
            self.assign_local(target, frame.env.pop(name), node)

    @staticmethod
    def ended(node: ast.FunctionDef) -> tuple[list[ast.stmt], str | None]:
        """The statements of a function that is called, and the local of its result if it has one."""
        return in_tail_position(node) if has_result(node) else (without_returns(node.body), None)

    def inlined(self, frame: CallFrame, node: ast.Call) -> Value:
        """The value of a function of the user's, whose statements become a part of the kernel."""
        w, outer, loops = self.w, self.w.frame, self.loops
        body, result = self.ended(frame.definition.node)
        direct, self.e.direct = self.e.direct, False
        w.frame, self.loops = frame, []
        self.begin(body, node)
        self.block(body)
        found = Known(None) if result is None else frame.env.get(result) or w.read(result, node)
        w.frame, self.loops, self.e.direct = outer, loops, direct
        if found is None:
            raise Refused(node, "a function in a kernel must return a number", "end each way with return")
        return found
