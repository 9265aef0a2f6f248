"""Statements of Python as statements of kernel IR: assignments, branches, loops, and functions that are called."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from nacre.base.dims import Size, lower
from nacre.base.dtypes import bool_, int64
from nacre.base.records import dataclass
from nacre.kernel.ast import (
    Accumulate,
    Alloc,
    Buffer,
    Const,
    Expr,
    Extent,
    For,
    If,
    Index,
    Load,
    Store,
    While,
    apply,
    index_add,
    index_mul,
    size_expr,
)
from nacre.kernel.python.expressions import Expressions
from nacre.kernel.python.flow import always_ends, breaks, ends_round, homes, stored_in
from nacre.kernel.python.frame import Frame, Writer
from nacre.kernel.python.operators import binary
from nacre.kernel.python.refusal import Refused
from nacre.kernel.python.returns import in_tail_position
from nacre.kernel.python.scalars import (
    WEAK_INT,
    Array,
    Known,
    Scalar,
    ScalarType,
    Value,
    converted,
    described,
    number,
)


@dataclass(frozen=True)
class Rounds:
    """The iterations of a for loop: from `start` in steps, before `stop`; `extent` is their number if it is a size."""

    start: Scalar
    stop: Scalar
    step: int
    extent: Size | None
    parallel: bool


@dataclass
class LoopState:
    """A loop in progress: the scratch that holds whether it goes on, and whether the iteration does."""

    going: str | None
    skip: str | None = None


class Statements:
    """Translates the statements of the frame in progress."""

    def __init__(self, w: Writer) -> None:
        self.w = w
        self.e = Expressions(w, self.inlined, self.reduced)
        self.loops: list[LoopState] = []
        self.parallel: list[ast.For] = []  # parallel loops around the position

    # ---- blocks

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Translate statements in order; those behind one that may end the iteration run only if it did not."""
        for k, s in enumerate(body):
            rest = body[k + 1 :]
            if isinstance(s, ast.If) and rest and ends_round(s):
                sides = (always_ends(s.body), always_ends(s.orelse))
                clean = [
                    not any(map(ends_round, b[:-1] if a else b)) for a, b in zip(sides, (s.body, s.orelse), strict=True)
                ]
                if any(sides) and all(clean):
                    then = s.body if sides[0] else [*s.body, *rest]
                    other = s.orelse if sides[1] else [*s.orelse, *rest]
                    self.branch(s, then, other)
                    return
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
        type = w.takes(name, value.type, node)
        held = converted(value, type, node)
        if held.value is None and held.size is None:
            held = Scalar(w.let(held.expr, name, node), type)
        memory = frame.memory.get(name)
        if memory is not None:
            w.emit(Store(memory, (), held.expr), node)
        frame.env[name] = held

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
        operation = ast.BinOp(s.target, s.op, s.value)  # type: ignore[arg-type]
        ast.copy_location(operation, s)
        if isinstance(s.target, ast.Name):
            read: Any = ast.copy_location(ast.Name(s.target.id, ast.Load()), s.target)
            operation.left = read
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
        sides: list[list[Any]] = []
        for body in (then, other):
            with self.w.block() as inside:
                self.block(body)
            sides.append(inside)
        self.w.emit(If(condition.expr, *map(tuple, sides)), s)  # type: ignore[arg-type]
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

    # ---- loops

    def for_loop(self, s: ast.For) -> None:
        """A for loop over a range."""
        if s.orelse:
            raise Refused(s.orelse[0], "a loop must have no else", "write it behind the loop")
        if not isinstance(s.target, ast.Name):
            raise Refused(s.target, "a loop must count with one name", "write `for i in range(n):`")
        if s.target.id in self.w.frame.homes:
            raise Refused(s.target, f"{s.target.id} is a local, too", "count with another name", s.target.id)
        rounds = self.rounds(s)
        if rounds.parallel:
            self.require_parallel(s, rounds)
            self.parallel.append(s)
        self.w.forget(stored_in(s.body))
        self.w.frame.loops.append(s)
        outer, self.loops = self.loops, [LoopState(None)] if rounds.parallel else [*self.loops, LoopState(None)]
        if rounds.extent is not None and not breaks(s.body):
            self.counted(s, rounds, rounds.extent)
        else:
            self.open_ended(s, rounds)
        self.loops = outer
        self.w.frame.loops.pop()
        if rounds.parallel:
            self.parallel.pop()
        self.w.forget(stored_in(s.body))
        self.w.frame.env.pop(s.target.id, None)

    def require_parallel(self, s: ast.For, rounds: Rounds) -> None:
        """Raise Refused unless a parallel loop is outermost, or in another one, and its rounds follow from sizes."""
        around = self.w.frame.loops
        if self.w.frame.key or len(around) != len(self.parallel):
            raise Refused(s, "a parallel loop must be the outermost one", "write range for the inner loop")
        if breaks(s.body):
            raise Refused(s, "a parallel loop must run all of its rounds", "write range for a loop with break")
        if rounds.extent is None:
            raise Refused(
                s, "the rounds of a parallel loop must follow from shapes and parameters", "write range here",
                f"`{ast.unparse(s.iter)}`",
            )  # fmt: skip

    def rounds(self, s: ast.For) -> Rounds:
        """The range of a for loop."""
        call = s.iter
        held = self.e.value(call.func) if isinstance(call, ast.Call) else None
        word = held.object if isinstance(held, Known) else None
        parallel = getattr(word, "kernel_word", None) == "parallel"
        if not isinstance(call, ast.Call) or not (parallel or word is range):
            raise Refused(s.iter, "a for loop must be over range or nacre.prange", "write `for i in range(n):`")
        return self.range_of(call, parallel)

    def range_of(self, call: ast.Call, parallel: bool = False) -> Rounds:
        """The rounds of a call of range."""
        args = self.e.operands(*call.args)
        if call.keywords or not 1 <= len(args) <= 3 or not all(a.dtype.is_integer for a in args):
            raise Refused(call, "a range must have one to three integers", "write range(start, stop, step)")
        start, stop = (number(0), args[0]) if len(args) == 1 else args[:2]
        step = args[2].value if len(args) == 3 else 1
        if not isinstance(step, int) or step == 0:
            raise Refused(call, "the step of a range must be a number other than 0", "write a while loop")
        extent: Size | None = None
        if start.size is not None and stop.size is not None:
            apart = stop.size - start.size if step > 0 else start.size - stop.size
            width = abs(step)
            if width == 1:
                extent = apart
            elif isinstance(apart, int) or lower(apart) >= 0:
                extent = (apart + (width - 1)) // width
        return Rounds(start, stop, step, max(extent, 0) if isinstance(extent, int) else extent, parallel)

    def counted(self, s: ast.For, r: Rounds, extent: Size) -> None:
        """A loop whose number of iterations is a size.

        If that may be negative for some sizes, the loop has more iterations, and runs those that exist.
        """
        w, name = self.w, self.w.fresh(s.target.id)  # type: ignore[attr-defined]
        more = max(0, -lower(extent))
        start = size_expr(r.start.size or 0)
        index = index_add(start, index_mul(Const(r.step, int64), Index(name)))
        with w.block() as inside:
            self.body(s, Scalar(index, WEAK_INT))
        body = tuple(inside)
        if more:
            body = (If(apply("lt", Index(name), Extent(extent)), body),)  # type: ignore[arg-type]
        w.emit(For(name, extent + more, body, parallel=r.parallel), s)

    def body(self, s: ast.For, index: Scalar) -> None:
        """The body of an iteration, at an index."""
        w, state = self.w, self.loops[-1]
        w.declare(s, s)
        if any(map(_ends_deeply, s.body)):
            state.skip = w.scratch("skip", bool_, s, Const(False, bool_))
        w.frame.env[s.target.id] = Scalar(w.let(index.expr, s.target.id, s), WEAK_INT, index.value, index.size)  # type: ignore[attr-defined]
        self.block(s.body)

    def open_ended(self, s: ast.For, r: Rounds) -> None:
        """A loop between numbers that are known when it begins, which `break` may end.

        The condition in the body repeats that of the loop, so that accesses are provably inside of arrays.
        """
        w = self.w
        start = w.let(converted(r.start, WEAK_INT, s).expr, "start", s)
        stop = w.let(converted(r.stop, WEAK_INT, s).expr, "stop", s)
        counter = w.scratch(f"{s.target.id}_next", int64, s, start)  # type: ignore[attr-defined]
        condition: Expr = apply("lt" if r.step > 0 else "gt", Load(counter, (), int64), stop)
        if breaks(s.body):
            self.loops[-1].going = w.scratch("going", bool_, s, Const(True, bool_))
            condition = apply("and", condition, Load(self.loops[-1].going, (), bool_))
        with w.block() as inside:
            here = w.let(Load(counter, (), int64), f"{s.target.id}_now", s)  # type: ignore[attr-defined]
            w.emit(Store(counter, (), index_add(here, Const(r.step, int64))), s)
            with w.block() as part:
                self.body(s, Scalar(here, WEAK_INT))
            ordered = (("ge", start), ("lt", stop)) if r.step > 0 else (("le", start), ("gt", stop))
            known = apply("and", *(apply(op, here, bound) for op, bound in ordered))
            w.emit(If(known, tuple(part)), s)
        w.emit(While(condition, tuple(inside)), s)

    def while_loop(self, s: ast.While) -> None:
        """A while loop, whose condition is an expression of locals, or a flag that is computed in each iteration."""
        if s.orelse:
            raise Refused(s.orelse[0], "a loop must have no else", "write it behind the loop")
        w = self.w
        w.forget(stored_in(s.body))
        state = LoopState(w.scratch("going", bool_, s, Const(True, bool_)) if breaks(s.body) else None)
        w.frame.loops.append(s)
        self.loops.append(state)
        with w.block() as before:
            self.e.direct = True
            found = self.e.condition(s.test).expr
            self.e.direct = False
        flag = None
        if before:
            flag = w.scratch("again", bool_, s)
            self.evaluate(s.test, flag)
            found = Load(flag, (), bool_)
        elif state.going is not None:
            going = Load(state.going, (), bool_)
            found = going if found == Const(True, bool_) else apply("and", going, found)
        with w.block() as inside:
            w.declare(s, s)
            if any(map(_ends_deeply, s.body)):
                state.skip = w.scratch("skip", bool_, s, Const(False, bool_))
            self.block(s.body)
            w.forget(stored_in(s.body))
            if flag is not None:
                self.evaluate(s.test, flag, state.going)
        w.emit(While(found, tuple(inside)), s)
        self.loops.pop()
        w.frame.loops.pop()
        w.forget(stored_in(s.body))

    def evaluate(self, test: ast.expr, flag: str, going: str | None = None) -> None:
        """Store a condition's value in a flag; false if the loop has ended."""
        with self.w.block() as inside:
            held = self.e.condition(test)
            self.w.emit(Store(flag, (), held.expr), test)
        if going is None:
            self.w.body += inside
        else:
            self.w.emit(If(Load(going, (), bool_), tuple(inside), (Store(flag, (), Const(False, bool_)),)), test)

    # ---- reductions and functions

    def reduced(self, node: ast.Call, op: str) -> Scalar:
        """`pairwise_sum(element for k in range(n))`: a sum in the canonical order."""
        given = node.args[0] if len(node.args) == 1 and not node.keywords else None
        advice = "write pairwise_sum(x[k] for k in range(n))"
        if not isinstance(given, ast.GeneratorExp) or len(given.generators) != 1 or given.generators[0].ifs:
            raise Refused(node, "a sum must be of one element for each k of a range", advice)
        loop = given.generators[0]
        target, call = loop.target, loop.iter
        over = self.e.value(call.func) if isinstance(call, ast.Call) else None
        if not isinstance(target, ast.Name) or not isinstance(call, ast.Call) or over != Known(range):
            raise Refused(given, "a sum must be of one element for each k of a range", advice)
        r = self.range_of(call)
        if r.extent is None or (not isinstance(r.extent, int) and lower(r.extent) < 0):
            raise Refused(
                call, "the number of elements of a pairwise sum must follow from shapes and parameters",
                "add one by one, as in s += x[k]",
            )  # fmt: skip
        w, name = self.w, self.w.fresh(target.id)
        start = size_expr(r.start.size or 0)
        before = w.frame.env.get(target.id)
        with w.block() as inside:
            index = index_add(start, index_mul(Const(r.step, int64), Index(name)))
            w.frame.env[target.id] = Scalar(index, WEAK_INT)
            element = self.e.scalar(given.elt)
        w.frame.env.pop(target.id, None)
        if before is not None:
            w.frame.env[target.id] = before
        type = ScalarType(element.dtype, element.type.weak)
        if type.dtype.is_bool:
            raise Refused(given.elt, "the elements of a sum must be numbers", "write int(x)")
        total = w.fresh("total")
        w.emit(Alloc(Buffer(total, type.dtype, ())), node)
        w.emit(For(name, r.extent, (*inside, Accumulate(op, (total,), (element.expr,)))), node)
        return Scalar(w.let(Load(total, (), type.dtype), total, node), type)

    def begin(self, body: Sequence[ast.stmt], node: ast.AST) -> None:
        """Declare the locals of the frame in progress; parameters that its statements change are some of them."""
        w, frame = self.w, self.w.frame
        changed = stored_in(body) & frame.env.keys()
        frame.homes = {**homes(body), **dict.fromkeys(changed, None)}
        w.declare(None, node)
        for name in sorted(changed):
            target: Any = ast.copy_location(ast.Name(name, ast.Store()), node)
            self.assign_local(target, frame.env.pop(name), node)

    def inlined(self, frame: Frame, node: ast.Call) -> Value:
        """The value of a function of the user's, whose statements become a part of the kernel."""
        w, outer, loops = self.w, self.w.frame, self.loops
        body, result = in_tail_position(frame.definition.node)
        direct, self.e.direct = self.e.direct, False
        w.frame, self.loops = frame, []
        self.begin(body, node)
        self.block(body)
        found = frame.env.get(result) or w.read(result, node)
        w.frame, self.loops, self.e.direct = outer, loops, direct
        if found is None:
            raise Refused(node, "a function in a kernel must return a number", "end each way with return")
        return found


def _ends_deeply(s: ast.stmt) -> bool:
    """Whether a statement may end the iteration from a place that its neighbours cannot follow as branches."""
    return isinstance(s, ast.If) and ends_round(s)
