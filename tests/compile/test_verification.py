"""Verification after passes: faulty passes, kernels and plans are found, with the pass's name and the lines around."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import nacre as nc
from nacre.base.dims import Dim
from nacre.base.errors import CompileError
from nacre.base.types import TensorType
from nacre.compile import pipeline
from nacre.compile.buffers.verify import verify_plan
from nacre.compile.compilation import Compilation, GraphPass, KernelPass, ProgramPass
from nacre.compile.lowering.symbolic_shapes import SymbolicKernel
from nacre.compile.pipeline import PASSES, compile_graph
from nacre.ir.graph import Equation, Graph, Var
from nacre.kernel.ast import For, Kernel, Stmt, Store, const
from nacre.runtime.flow import Branch, Loop
from nacre.runtime.plan import Launch, Plan, PlannedValue, epochs


def traced() -> Graph:
    return nc.jit(lambda x, w: nc.nn.functional.softmax(x @ w).sum(axis=0)).trace(nc.ones((8, 4)), nc.ones((4, 6)))


def broken(monkeypatch: pytest.MonkeyPatch, name: str, run: Any) -> str:
    """The message of a compilation in which a pass is replaced."""
    changed = tuple(replace(p, run=run(p.run)) if p.name == name else p for p in PASSES)
    monkeypatch.setattr(pipeline, "PASSES", changed)
    with pytest.raises(CompileError) as fault:
        compile_graph(traced())
    return str(fault.value)


def last_first(run: Callable[[Graph], Graph]) -> Callable[[Graph], Graph]:
    """A graph pass whose result has its last equation first."""

    def found(graph: Graph) -> Graph:
        made = run(graph)
        return Graph(made.inputs, (made.equations[-1], *made.equations[:-1]), made.outputs, made.name)

    return found


def wrong_type(run: Callable[[Graph], Graph]) -> Callable[[Graph], Graph]:
    """A graph pass whose last result has another type than its equation computes."""

    def found(graph: Graph) -> Graph:
        made = run(graph)
        *others, e = made.equations
        v = Var(TensorType((99,), e.outputs[0].type.dtype))
        last = Equation(e.primitive, e.inputs, e.params, (v,), e.source)
        return Graph(made.inputs, (*others, last), (v,), made.name)

    return found


@pytest.mark.parametrize("name", [p.name for p in PASSES if isinstance(p, GraphPass)])
@pytest.mark.parametrize(
    ("change", "why"), ((last_first, "reads a value of type"), (wrong_type, "its results are declared"))
)
def test_graph_passes(monkeypatch: pytest.MonkeyPatch, name: str, change: Any, why: str) -> None:
    message = broken(monkeypatch, name, change)
    assert message.startswith(f"pass {name}: the graph behind it must be valid; ")
    assert why in message and "\n> " in message


def test_bodies_of_loops_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    body = nc.jit(lambda x: nc.scan(lambda c, _: (nc.exp(c) * 2, None), x, length=5)[0]).trace(nc.ones(4))
    by_name = {p.name: p for p in PASSES}
    attention = by_name["attention-fusion"]
    assert isinstance(attention, GraphPass)

    def only_in_bodies(graph: Graph) -> Graph:
        return graph if len(graph.equations) == 1 else last_first(attention.run)(graph)

    monkeypatch.setattr(
        pipeline, "PASSES", tuple(replace(p, run=only_in_bodies) if p is attention else p for p in PASSES)
    )
    with pytest.raises(CompileError, match="pass attention-fusion: the graph behind it must be valid"):
        compile_graph(body)


def elsewhere(s: Stmt) -> Stmt:
    """A statement with every store at the first element, regardless of the enclosing loops."""
    if isinstance(s, For):
        return replace(s, body=tuple(map(elsewhere, s.body)))
    return replace(s, index=tuple(const(0) for _ in s.index)) if isinstance(s, Store) else s


def stores_collide(run: Callable[[SymbolicKernel], SymbolicKernel]) -> Callable[[SymbolicKernel], SymbolicKernel]:
    """A kernel pass that makes all iterations store to one element."""

    def found(form: SymbolicKernel) -> SymbolicKernel:
        made = run(form)
        k = made.kernel
        return SymbolicKernel(
            Kernel(k.name, k.inputs, k.outputs, tuple(map(elsewhere, k.body))), made.sizes, made.scalars
        )

    return found


@pytest.mark.parametrize("name", [p.name for p in PASSES if isinstance(p, KernelPass)])
def test_kernel_passes(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    message = broken(monkeypatch, name, stores_collide)
    assert message.startswith(f"pass {name}: the kernel behind it must be valid; ")
    assert "must be independent" in message and "\n> " in message


def backwards(run: Callable[[Compilation], None]) -> Callable[[Compilation], None]:
    """A pass that reverses the order of the launches."""

    def found(c: Compilation) -> None:
        run(c)
        assert c.plan is not None
        steps = c.plan.steps[::-1]
        c.plan = replace(c.plan, steps=steps, epochs=epochs(steps))

    return found


@pytest.mark.parametrize("name", ["buffer-assignment", "scheduling"])
def test_plan_passes(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    message = broken(monkeypatch, name, backwards)
    assert message.startswith(f"pass {name}: the plan behind it must be valid; ")
    assert "must be written before it is read" in message and "\n> " in message


def test_nothing_is_verified_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NACRE_VERIFY", "0")
    by_name = {p.name: p for p in PASSES}
    scheduling = by_name["scheduling"]
    assert isinstance(scheduling, ProgramPass)
    monkeypatch.setattr(
        pipeline, "PASSES", tuple(replace(p, run=backwards(p.run)) if p is scheduling else p for p in PASSES)
    )
    compile_graph(traced())


# ---- plans


def launch(reads: tuple[int, ...], writes: tuple[int, ...], over: tuple[tuple[int, int], ...] = ()) -> Launch:
    return Launch(0, "step", (), 1, 1, 0, reads, writes, over=over)


IN, OUT, TEMP = (PlannedValue(kind, 64) for kind in ("input", "output", "temporary"))


def made(values: list[PlannedValue], steps: list[Launch], tree: Any = (), donations: Any = ()) -> Plan:
    """A plan of one input and one output, from its parts."""
    return Plan(tuple(values), tuple(steps), 1, 1, epochs(steps), donations, tree)


def test_a_chain_passes() -> None:
    verify_plan(made([IN, OUT, TEMP], [launch((0,), (2,)), launch((2,), (1,))]))


ROWS = PlannedValue("output", 256)
ROW = PlannedValue("part", 64, of=1, stride=64, loop=0)
REPEATED = Loop(0, 4, (), -1, (1,), (2,))


@pytest.mark.parametrize(
    ("plan", "why"),
    (
        (made([IN, OUT, TEMP], [launch((2,), (1,))]), "nothing has been written there"),
        (made([IN, OUT, TEMP], [launch((0,), (2,))]), "output0 (64 bytes) must be written before it is read"),
        (made([IN, OUT], [launch((0,), (0,)), launch((0,), (1,))]), "must write a temporary or an output"),
        (  # a temporary reuses the place of another one that is read later
            made(
                [IN, OUT, TEMP, PlannedValue("temporary", 64, reuses=2)],
                [launch((0,), (2,)), launch((0,), (3,)), launch((2, 3), (1,))],
            ),
            "a barrier must separate",
        ),
        (  # the same after a barrier
            made(
                [IN, OUT, TEMP, PlannedValue("temporary", 64, reuses=2), TEMP],
                [launch((0,), (2, 4)), launch((4,), (3,)), launch((2, 3), (1,))],
            ),
            "there is temporary1",
        ),
        (  # the result overwrites the operand, which the kernel does not allow
            made(
                [IN, OUT, TEMP, PlannedValue("temporary", 64, reuses=2)],
                [launch((0,), (2,)), launch((2,), (3,)), launch((3,), (1,))],
            ),
            "must not write over what it reads",
        ),
        (  # the output may overwrite the input, which is read again
            made([IN, OUT, TEMP], [launch((0,), (1,), ((0, 1),)), launch((0,), (2,))], donations=((0, 0),)),
            "there is output0",
        ),
        (  # a branch writes on one side only
            made(
                [IN, OUT, TEMP, PlannedValue("temporary", 1)],
                [launch((0,), (3,)), launch((0,), (2,)), launch((2,), (1,))],
                (0, Branch(3, (1,), ()), 2),
            ),
            "nothing has been written there",
        ),
        (  # an iteration reads the last one's result; the first one reads a value that is not written
            made([IN, OUT, TEMP], [launch((2,), (2,)), launch((2,), (1,))], (Loop(0, 4, (), -1, (0,), ()), 1)),
            "nothing has been written there",
        ),
        (  # a carry that is not swapped: the second iteration reads a value that the first one has overwritten
            made(
                [IN, OUT, TEMP, PlannedValue("temporary", 64, reuses=2), TEMP],
                [launch((0,), (2,)), launch((2,), (4,)), launch((4,), (3,)), launch((4,), (1,))],
                (0, Loop(0, 4, (), -1, (1, 2), ()), 3),
            ),
            "there is temporary1",
        ),
        (  # rows are outside of the whole tensor
            made([IN, replace(ROWS, nbytes=128), ROW], [launch((0,), (2,))], (Loop(0, 4, (), -1, (0,), ()),)),
            "must lie within",
        ),
        (  # half of the output is written
            made([IN, OUT, PlannedValue("part", 32, of=1)], [launch((0,), (2,))]),
            "only some bytes",
        ),
        (made([IN, OUT], [launch((0,), (1,)), launch((0,), (1,))], (0,)), "each launch must be in one row"),
    ),
)
def test_faults_of_plans(plan: Plan, why: str) -> None:
    with pytest.raises(CompileError) as fault:
        verify_plan(plan)
    assert why in str(fault.value) and "\n> " in str(fault.value)


def test_swapped_carries_and_rows() -> None:
    values = [IN, ROWS, TEMP, TEMP, replace(ROW, of=1)]
    steps = [launch((0,), (2,)), launch((2,), (3,)), launch((2,), (4,))]
    verify_plan(made(values, steps, (0, Loop(0, 4, (), -1, (1, 2), (), ((2, 3),)))))


def test_a_missing_barrier() -> None:
    steps = [launch((0,), (2,)), launch((2,), (1,))]
    plan = made([IN, OUT, TEMP], steps)
    plan.__dict__["rows"] = tuple(replace(row, sync=False) for row in plan.rows)
    with pytest.raises(CompileError, match="a barrier must separate"):
        verify_plan(plan)


def test_symbolic_sizes_are_verified_at_both_ends() -> None:
    n = Dim.symbol("n", 1, 64)
    half = PlannedValue("part", n * 2, of=1)
    plan = made([IN, replace(OUT, nbytes=n + 64), half], [launch((0,), (2,))])  # complete at the greatest size only
    with pytest.raises(CompileError, match="only some bytes"):
        verify_plan(plan)


def test_an_output_does_not_overwrite_an_input_that_another_side_still_reads() -> None:
    """One side of a branch may overwrite its input; the other side multiplies it by a matrix."""
    w, y = nc.random.normal((48, 48)), nc.random.normal((6, 48))

    def multiplied(v: Any, y: Any) -> Any:
        return v @ w + y

    def scaled(v: Any, y: Any) -> Any:
        return v * 2 + y

    def lowered(v: Any, y: Any) -> Any:
        return v - y

    def other(v: Any, y: Any) -> Any:
        return nc.cond(v.sum() > 0, scaled, lowered, v, y)

    def chosen(v: Any, y: Any) -> Any:
        return nc.cond((y > 0).any(), multiplied, other, v, y)

    class Holder(nc.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("v", nc.random.normal((6, 48)))

    holder: Any = Holder()
    wanted = (holder.v @ w + y).numpy()

    @nc.jit
    def update(y: Any) -> Any:
        holder.v = chosen(holder.v, y)
        return holder.v.sum()

    update(y)
    assert (holder.v.numpy() == wanted).all()


def test_a_row_of_a_broadcast_operand_of_a_loop_ends_within_the_operand() -> None:
    x = nc.random.normal((4, 64))

    def f(x: Any) -> Any:
        rows = nc.broadcast_to(x[:, None, :] * 2, (4, 4, 64))
        return nc.scan(lambda c, row: (nc.tanh(c + row) * 2, c), nc.zeros((4, 64)), rows)[0]

    assert (nc.jit(f)(x).numpy() == f(x).numpy()).all()
