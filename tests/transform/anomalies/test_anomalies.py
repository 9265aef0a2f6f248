"""`nc.detect_anomalies`: each planted fault is found, eagerly and compiled, and the report says what and where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim, optimize
from nacre.base.errors import AnomalyError, ArgumentError, KindError, StateError
from nacre.base.state import STATE
from nacre.compile.program.executor import EXECUTOR
from nacre.interpret.anomalies.detector import ExaminingExecutor
from nacre.interpret.anomalies.kinds import KINDS
from nacre.trace.bind import PARTS
from transform.anomalies.broken import BROKEN
from transform.anomalies.healthy import HEALTHY, batch, training

F = nn.functional


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", BROKEN)
def test_the_planted_fault_is_found(name: str, compiled: bool) -> None:
    case = BROKEN[name]
    program = case.program()
    with pytest.raises(AnomalyError) as caught:
        if compiled:
            nc.jit(program, detect_anomalies=True)()
        else:
            with nc.detect_anomalies():
                program()
    found = caught.value.anomaly
    assert (found.kind, found.operation, found.backward) == (case.kind, case.operation, case.backward)
    assert found.line.split(" (")[0].endswith(f"broken.py:{case.line}"), found.line
    assert found.module == case.module
    assert found.rounds == case.rounds
    assert 0 < found.share <= 1


def test_there_are_sixty_programs() -> None:
    assert len(BROKEN) >= 60


def trained(name: str, steps: int, compiled: bool) -> list[float]:
    """The losses of a healthy training whose operations are examined."""
    step = training(name)
    if compiled:
        examined = nc.jit(step, detect_anomalies=True)
        return [float(examined(*batch(k))) for k in range(steps)]
    with nc.detect_anomalies():
        return [float(step(*batch(k))) for k in range(steps)]


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_training_gives_no_report(name: str) -> None:
    losses = trained(name, 25, True)
    assert losses[-1] < losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", HEALTHY)
def test_long_healthy_training_gives_no_report(name: str) -> None:
    losses = trained(name, 600, True)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", HEALTHY)
def test_examined_trainings_have_the_bits_of_others(name: str) -> None:
    plain = training(name)
    expected = [float(plain(*batch(k))) for k in range(3)]
    assert trained(name, 3, False) == trained(name, 3, True) == expected


def test_nothing_is_left_behind() -> None:
    before = PARTS.executor
    with nc.detect_anomalies():
        assert STATE.word == 1 and PARTS.executor is not before
        with nc.detect_anomalies("nan"):
            nc.log(nc.zeros(2))
        with pytest.raises(AnomalyError):
            nc.log(nc.zeros(2))
    assert STATE.word == 0 and STATE.detector is None and PARTS.executor is before
    assert nc.log(nc.zeros(1)).tolist() == [-np.inf]


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_chosen(kind: str) -> None:
    made = {
        "division": lambda: nc.log(nc.zeros(3)),
        "nan": lambda: nc.sqrt(-nc.ones(3)),
        "overflow": lambda: nc.exp(nc.full((3,), 1e3)),
        "input": lambda: nc.full((3,), nc.nan) * 2,
        "underflow": lambda: nc.full((3,), 1e-30) * nc.full((3,), 1e-30),
        "saturation": lambda: nc.tanh(nc.full((3,), 50.0)),
    }
    for other in KINDS:
        with nc.detect_anomalies(other):
            if other == kind:
                with pytest.raises(AnomalyError):
                    made[kind]()
            else:
                made[kind]()


def test_variables_have_their_old_bits_after_a_report() -> None:
    p = nn.Parameter(nc.tensor([1.0, 1e30]))
    sgd = optim.SGD([p], lr=1.0)

    @nc.jit(detect_anomalies=True)
    def step() -> None:
        ((p * p) * p).sum().backward()
        sgd.step()

    with pytest.raises(AnomalyError, match="infinities"):
        step()
    assert p.tolist() == [1.0, np.float32(1e30)] and p.grad is None


def test_masks_of_infinities_are_no_anomalies() -> None:
    mask = nc.where(nc.tril(nc.ones((4, 4))) > 0, 0.0, -nc.inf)

    def attend(scores: nc.Tensor, mask: nc.Tensor) -> nc.Tensor:
        return F.softmax(scores + mask, axis=-1) @ nc.ones((4, 2))

    f = nc.jit(attend, detect_anomalies=True)
    for _ in range(3):
        assert f(nc.ones((4, 4)), mask).shape == (4, 2)
        with nc.detect_anomalies():
            attend(nc.ones((4, 4)), mask)
    with pytest.raises(AnomalyError) as caught:  # behind the mask that is no anomaly
        f(nc.full((4, 4), 3e38) * 1.0, nc.where(mask == 0, 3e38, mask))
    assert (caught.value.anomaly.kind, caught.value.anomaly.operation) == ("overflow", "add")


def test_host_calls_run_once() -> None:
    calls: list[float] = []

    def note(x: nc.Tensor) -> nc.Tensor:
        calls.append(float(x.sum()))
        return x

    @nc.jit(detect_anomalies=True)
    def f(x: nc.Tensor) -> nc.Tensor:
        return nc.log(nc.host_call(note, x.type, x))

    with pytest.raises(AnomalyError):
        f(nc.zeros(2))
    assert calls == [0.0]


def test_an_anomaly_before_a_failed_check_is_reported() -> None:
    @nc.jit(detect_anomalies=True)
    def f(table: nc.Tensor, x: nc.Tensor) -> nc.Tensor:
        return table[nc.exp(x).astype(nc.int64)]

    with pytest.raises(AnomalyError):
        f(nc.ones(4), nc.tensor([1000.0]))
    with pytest.raises(IndexError):
        f(nc.ones(4), nc.tensor([5.0]))


def scaled_log(x: nc.Tensor, w: nc.Tensor) -> nc.Tensor:
    return nc.cond(x > 0, lambda x, w: nc.log(x) * w, lambda x, w: x * w, x, w)


def test_branches_of_a_batch_are_examined_where_they_are_read() -> None:
    f = nc.vmap(scaled_log, (0, None))
    x, w = nc.tensor([1.0, -1.0, 2.0]), nc.tensor(2.0)
    expected = f(x, w).numpy()
    with nc.detect_anomalies():
        assert np.array_equal(f(x, w).numpy(), expected)
        assert np.array_equal(f(-nc.ones(2), w).numpy(), [-2.0, -2.0])
    g = nc.grad(lambda w, x: f(x, w).sum())
    assert float(nc.jit(g, detect_anomalies=True)(w, x)) == float(g(w, x))
    with nc.detect_anomalies(), pytest.raises(AnomalyError) as caught:
        f(nc.tensor([1.0, -1.0, np.inf]), w * np.inf)
    assert caught.value.anomaly.operation == "mul"


def test_solvers_are_examined() -> None:
    matrix = nc.tensor([[2.0, 1.0], [1.0, 3.0]])

    def solved(b: nc.Tensor, scale: float) -> nc.Tensor:
        return optimize.linear_solve(lambda v: (matrix @ v) / scale, b, method="cg").x

    b = nc.ones(2)
    expected = solved(b, 1.0).numpy()
    with nc.detect_anomalies():
        assert np.array_equal(solved(b, 1.0).numpy(), expected)
        with pytest.raises(AnomalyError) as caught:
            solved(b, 0.0)
    assert (caught.value.anomaly.kind, caught.value.anomaly.operation) == ("division", "div")


def test_sizes_may_change_and_other_threads_are_not_examined() -> None:
    f = nc.jit(lambda x: nc.log(x).sum(), detect_anomalies=True)
    for n in (3, 4, 5, 6):
        assert float(f(nc.ones(n))) == 0.0
        with pytest.raises(AnomalyError) as caught:
            f(nc.zeros(n))
        assert caught.value.anomaly.count == n
    with nc.detect_anomalies(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: nc.log(nc.zeros(1)).tolist()).result() == [-np.inf]


def test_compiled_functions_are_examined_in_a_block_only() -> None:
    f = nc.jit(lambda x: nc.log(x))
    assert f(nc.zeros(1)).tolist() == [-np.inf]
    with pytest.raises(AnomalyError), nc.detect_anomalies():
        f(nc.zeros(1))
    assert f(nc.zeros(1)).tolist() == [-np.inf]


def test_the_report_has_ranges_and_advice() -> None:
    with (
        pytest.raises(AnomalyError, match=r"log \(forward\) has them in 1 of 3 elements \(33%\) of f32\[3\]") as caught,
        nc.detect_anomalies(),
    ):
        nc.log(nc.tensor([0.0, 2.0, nc.inf]))
    (operand,) = caught.value.anomaly.operands
    assert (operand.least, operand.largest, operand.nan, operand.infinite) == (0.0, 2.0, 0, 1)
    assert "operand 0: f32[3] from 0 to 2 with 1 infinite" in str(caught.value)


@pytest.mark.parametrize("kinds", ["zero", ["nan", "x"], (), 3])
def test_other_kinds_are_refused(kinds: object) -> None:
    with pytest.raises(ArgumentError, match='detect_anomalies: kinds must be "all" or some of'):
        nc.detect_anomalies(kinds)  # type: ignore[arg-type]


def test_a_block_inside_of_traced_code_is_refused() -> None:
    def f(x: nc.Tensor) -> nc.Tensor:
        with nc.detect_anomalies():
            return nc.log(x)

    for g in (nc.jit(f), nc.vmap(f)):
        with pytest.raises(StateError, match="the block must be outside of traced code"):
            g(nc.ones(2))


def test_functions_are_decorated() -> None:
    @nc.detect_anomalies()
    def f(x: nc.Tensor) -> nc.Tensor:
        return nc.log(x)

    with pytest.raises(AnomalyError):
        f(nc.zeros(1))
    with pytest.raises(KindError, match="only a function can be decorated"):
        nc.detect_anomalies()(nn.Linear)


def line_of(run: Callable[[], object]) -> tuple[str, str, int, bool]:
    """The kind, the operation, the line (counted from the first one of the function), and whether it is backward."""
    with pytest.raises(AnomalyError) as caught, nc.detect_anomalies():
        run()
    found = caught.value.anomaly
    first = run.__code__.co_firstlineno
    return found.kind, found.operation, int(found.line.split(" (")[0].rsplit(":", 1)[1]) - first, found.backward


def test_a_function_of_several_operations_is_one_program_and_reports_the_line_of_its_call() -> None:
    runs: list[str] = []

    def forward() -> None:
        F.layer_norm(nc.arange(4.0), 4, eps=0.0)
        F.layer_norm(nc.ones(4), 4, eps=0.0)

    def backward() -> None:
        x, y = nn.Parameter(nc.arange(4.0)), nn.Parameter(nc.zeros(4))
        a = nc.hypot(x, x + 1.0)
        b = nc.std(y)
        (a.sum() + b).backward()

    for _ in range(3):
        assert line_of(forward) == ("division", "rsqrt", 2, False)
        assert line_of(backward) == ("division", "div", 3, True)

    x = nn.Parameter(nc.arange(4.0))
    with nc.detect_anomalies():
        y = F.layer_norm(x, 4)
        F.layer_norm(x, 4)
        run = ExaminingExecutor.execute

        def counted(self: ExaminingExecutor, graph: nc.Graph, inputs: Sequence[nc.Tensor]) -> list[nc.Tensor]:
            runs.append(graph.name)
            return run(self, graph, inputs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ExaminingExecutor, "execute", counted)
            patch.setattr(ExaminingExecutor, "evaluate", None)
            examined = F.layer_norm(x, 4)
    assert runs == ["operator"]
    assert np.array_equal(examined.numpy(), y.numpy()) and np.array_equal(y.numpy(), F.layer_norm(x, 4).numpy())


def test_views_are_examined_without_copies() -> None:
    x = nc.arange(6.0).reshape((2, 3)) + 1.0
    expected = (nc.log(x.T) @ nc.ones((2, 2)) * nc.broadcast_to(x[0, 1], (3, 2))).numpy()

    def refuse(*_: object) -> None:
        raise AssertionError("the operand was copied")

    with nc.detect_anomalies(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(EXECUTOR, "dense", refuse)
        found = nc.log(x.T) @ nc.ones((2, 2)) * nc.broadcast_to(x[0, 1], (3, 2))
        with pytest.raises(AnomalyError) as caught:
            nc.log((x - 1.0).T)
    assert np.array_equal(found.numpy(), expected)
    assert (caught.value.anomaly.kind, caught.value.anomaly.count) == ("division", 1)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    "f",
    [lambda x: x + 1.0, lambda x: x.sum(axis=0), lambda x: x @ nc.ones((2, 2))],
    ids=["pointwise", "sum", "product"],
)
def test_nan_is_reported_after_infinities_that_pass(f: Callable[[nc.Tensor], nc.Tensor], compiled: bool) -> None:
    run = nc.jit(f) if compiled else f
    for value in (nc.inf, nc.inf, nc.inf, 1.0):
        with nc.detect_anomalies():
            run(nc.tensor([[value, 1.0], [1.0, 1.0]]))
    with nc.detect_anomalies(), pytest.raises(AnomalyError) as caught:
        run(nc.tensor([[nc.nan, 1.0], [1.0, 1.0]]))
    assert caught.value.anomaly.kind == "input"
