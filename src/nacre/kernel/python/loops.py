"""Loops of Python as loops of kernel IR: for over ranges, while, and sums in the canonical order."""

from __future__ import annotations

import ast
from collections.abc import Sequence

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
from nacre.kernel.python.expressions import ExpressionTranslator
from nacre.kernel.python.flow import breaks, ends_round, stored_in
from nacre.kernel.python.frame import KernelWriter
from nacre.kernel.python.reached import has_rounds
from nacre.kernel.python.refusal import Refused
from nacre.kernel.python.scalars import WEAK_INT, Known, Scalar, ScalarType, converted, number


@dataclass(frozen=True)
class Rounds:
    """The iterations of a for loop: from `start` in steps, before `stop`; `extent` is their number if it is a size."""

    start: Scalar
    stop: Scalar
    step: int
    extent: Size | None
    parallel: bool

    def place(self, name: str) -> Expr:
        """What the loop counts with, in the iteration that an index of kernel IR has."""
        return index_add(
            size_expr(0 if self.start.size is None else self.start.size),
            index_mul(Const(self.step, int64), Index(name)),
        )


@dataclass
class LoopState:
    """A loop in progress: the scratch that holds whether it continues, and whether the iteration does."""

    going: str | None
    skip: str | None = None


class LoopTranslator:
    """Translates loops; `block`, for the statements in them, belongs to `StatementTranslator`."""

    def __init__(self, w: KernelWriter, e: ExpressionTranslator) -> None:
        self.w, self.e = w, e
        self.loops: list[LoopState] = []
        self.parallel: list[ast.For] = []  # parallel loops around the position

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Translate statements in order."""
        raise NotImplementedError

    def for_loop(self, s: ast.For) -> None:
        """A for loop over a range."""
        if s.orelse:
            raise Refused(s.orelse[0], "a loop must have no else", "write it behind the loop")
        if not isinstance(s.target, ast.Name):
            raise Refused(s.target, "a loop must count with one name", "write `for i in range(n):`")
        counter = s.target.id
        if counter in self.w.frame.homes:
            raise Refused(s.target, f"{counter} is a local, too", "count with another name", counter)
        rounds = self.rounds(s)
        if rounds.parallel:
            self.require_parallel(s, rounds)
            self.parallel.append(s)
        self.w.forget(stored_in(s.body))
        self.w.frame.loops.append(s)
        outer, self.loops = self.loops, [LoopState(None)] if rounds.parallel else [*self.loops, LoopState(None)]
        if rounds.extent is not None and not breaks(s.body):
            self.counted(s, counter, rounds, rounds.extent)
        else:
            self.open_ended(s, counter, rounds)
        self.loops = outer
        self.w.frame.loops.pop()
        if rounds.parallel:
            self.parallel.pop()
        self.w.forget(stored_in(s.body))
        self.w.frame.env.pop(counter, None)

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
        args = [a if a.whole is None else number(a.whole) for a in self.e.operands(*call.args)]
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

    def counted(self, s: ast.For, counter: str, r: Rounds, extent: Size) -> None:
        """A loop whose number of iterations is a size.

        If that may be negative for some sizes, the loop has more iterations, and runs those that exist.
        """
        w, name = self.w, self.w.fresh(counter)
        more = max(0, -lower(extent))
        with w.block(has_rounds(extent)) as inside:
            self.body(s, counter, r.place(name))
        body = tuple(inside)
        if more:
            body = (If(apply("lt", Index(name), Extent(extent)), body),)
        w.emit(For(name, extent + more, body, parallel=r.parallel), s)

    def body(self, s: ast.For, counter: str, index: Expr) -> None:
        """The body of an iteration, whose counter has an index."""
        self.begin_round(s)
        self.w.frame.env[counter] = Scalar(self.w.let(index, counter, s), WEAK_INT)
        self.block(s.body)

    def begin_round(self, s: ast.For | ast.While) -> None:
        """Declare the locals of an iteration, and whether it has ended if it may end inside of a branch."""
        self.w.declare(s, s)
        if any(map(_ends_deeply, s.body)):
            self.loops[-1].skip = self.w.scratch("skip", bool_, s, Const(False, bool_))

    def open_ended(self, s: ast.For, counter: str, r: Rounds) -> None:
        """A loop between numbers that are known when it begins, which `break` may end.

        The condition in the body repeats that of the loop, so that accesses are provably inside of arrays.
        """
        w = self.w
        start = w.let(converted(r.start, WEAK_INT, s).expr, "start", s)
        stop = w.let(converted(r.stop, WEAK_INT, s).expr, "stop", s)
        following = w.scratch(f"{counter}_next", int64, s, start)
        condition: Expr = apply("lt" if r.step > 0 else "gt", Load(following, (), int64), stop)
        if breaks(s.body):
            self.loops[-1].going = w.scratch("going", bool_, s, Const(True, bool_))
            condition = apply("and", condition, Load(self.loops[-1].going, (), bool_))
        with w.block() as inside:
            here = w.let(Load(following, (), int64), f"{counter}_now", s)
            w.emit(Store(following, (), index_add(here, Const(r.step, int64))), s)
            with w.block() as part:
                self.body(s, counter, here)
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
            self.begin_round(s)
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

    # ---- sums

    def reduced(self, node: ast.Call) -> Scalar:
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
        before = w.frame.env.get(target.id)
        with w.block(has_rounds(r.extent)) as inside:
            w.frame.env[target.id] = Scalar(r.place(name), WEAK_INT)
            element = self.e.scalar(given.elt)
        w.frame.env.pop(target.id, None)
        if before is not None:
            w.frame.env[target.id] = before
        type = ScalarType(element.dtype, element.type.weak)
        if type.dtype.is_bool:
            raise Refused(given.elt, "the elements of a sum must be numbers", "write int(x)")
        total = w.fresh("total")
        w.emit(Alloc(Buffer(total, type.dtype, ())), node)
        w.emit(For(name, r.extent, (*inside, Accumulate("sum", (total,), (element.expr,)))), node)
        return Scalar(w.let(Load(total, (), type.dtype), total, node), type)


def _ends_deeply(s: ast.stmt) -> bool:
    """Whether a statement may end the iteration from a place that its neighbours cannot follow as branches."""
    return isinstance(s, ast.If) and ends_round(s)
