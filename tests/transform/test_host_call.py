"""`nc.host_call`: its results, its order, its errors, threads, and how long a function lives; eager and compiled."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.dtypes import ALL
from nacre.base.errors import ArgumentError, DTypeError, KindError, ShapeError
from nacre.runtime.buffer import statistics


class Custom(Exception):
    """An exception of a user's own."""


def log(into: list[Any], y: Any) -> None:
    """Append a tensor's numbers to a list."""
    into.append(y.tolist())


# ---- results


def test_eager_and_compiled_calls_give_equal_results() -> None:
    def f(x: Any) -> Any:
        y = nc.sin(x)
        return nc.host_call(lambda y: y.numpy().cumsum(), y.type, y) * 2

    x = nc.tensor([0.5, 1.0, -2.0])
    jitted = nc.jit(f)
    for _ in range(3):
        assert jitted(x).tolist() == f(x).tolist()


def test_results_have_the_structure_of_the_types() -> None:
    def several(x: Any, y: Any) -> Any:
        return {"sum": x + y, "rest": [x.numpy()[0], (3, True)]}

    types = {"sum": ((2,), nc.float32), "rest": [((), nc.float32), (((), nc.int8), ((), nc.bool))]}

    def f(x: Any, y: Any) -> Any:
        return nc.host_call(several, types, x, y)

    x, y = nc.tensor([1.0, 2.0]), nc.tensor([5.0, 6.0])
    for g in (f, nc.jit(f)):
        found = g(x, y)
        assert found["sum"].tolist() == [6.0, 8.0]
        assert found["rest"][0].item() == 1.0
        assert [t.type.dtype for t in found["rest"][1]] == [nc.int8, nc.bool]
        assert [t.item() for t in found["rest"][1]] == [3, True]


@pytest.mark.parametrize("types", [None, (), {}])
def test_a_call_without_results_returns_what_the_types_declare(types: Any) -> None:
    seen: list[Any] = []

    def tell() -> Any:
        seen.append(1)
        return types

    def f(x: Any) -> Any:
        assert nc.host_call(tell, types) == types
        return x

    assert nc.jit(f)(f(nc.ones(()))).item() == 1.0
    assert len(seen) == 2


@pytest.mark.parametrize("dtype", ALL)
def test_every_dtype_passes_through(dtype: Any) -> None:
    x = nc.tensor([0, 1, 1, 0, 1, 1]).astype(dtype).reshape((2, 3))
    kinds: list[Any] = []

    def same(x: Any) -> Any:
        kinds.append((x.type, x.layout))
        return x

    def f(x: Any) -> Any:
        return nc.host_call(same, x.type, x)

    assert nc.jit(f)(x).tolist() == f(x).tolist() == x.tolist()
    assert kinds == [(x.type, None)] * 2


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)])
def test_scalars_and_empty_tensors_pass_through(shape: tuple[int, ...]) -> None:
    def f(x: Any) -> Any:
        return nc.host_call(lambda a, b: (b, a), (x.type, x.type), x, x + 1)

    x = nc.ones(shape)
    for g in (f, nc.jit(f)):
        a, b = g(x)
        assert a.type is b.type is x.type
        assert a.tolist() == (x + 1).tolist() and b.tolist() == x.tolist()


def test_views_are_given_and_returned() -> None:
    x = nc.tensor(np.arange(24.0, dtype=np.float32).reshape(2, 3, 4))

    def f(x: Any) -> Any:
        v = x[1].T[1:, ::-1] if x.shape[2] == 4 else x[1].T[::2]
        return nc.host_call(lambda v: v.T, (v.shape[::-1], v.dtype), v)

    assert nc.jit(f)(x).tolist() == f(x).tolist() == x.numpy()[1].T[1:, ::-1].T.tolist()
    swapped = nc.swapaxes(x, 0, 2)
    assert nc.jit(f)(swapped).tolist() == f(swapped).tolist()


def test_arguments_are_copies_that_may_be_kept_and_changed() -> None:
    kept: list[Any] = []

    def keep(y: Any) -> None:
        kept.append(y)
        y[0] = 7.0

    def f(x: Any) -> Any:
        y = x + 1
        nc.host_call(keep, None, y)
        return y

    x = nc.tensor([1.0, 2.0])
    for g in (f, nc.jit(f), nc.jit(f)):
        assert g(x).tolist() == [2.0, 3.0]
    assert [y.tolist() for y in kept] == [[7.0, 3.0]] * 3


def test_other_arguments_are_constants_and_variables_give_their_values() -> None:
    v = nc.Variable(nc.tensor([1.0, 2.0]))
    seen: list[Any] = []

    def f(x: Any) -> Any:
        v.assign(v + x)
        nc.host_call(
            lambda *args: seen.append((args[0], args[1]["k"].tolist(), args[2].tolist())), None, "v", {"k": v}, x
        )
        return x

    for g in (f, nc.jit(f)):
        v.assign(nc.tensor([1.0, 2.0]))
        g(nc.tensor([1.0, 1.0]))
    assert seen == [("v", [2.0, 3.0], [1.0, 1.0])] * 2


def test_symbolic_sizes_are_known_to_the_function() -> None:
    shapes: list[Any] = []

    def doubled(x: Any) -> Any:
        shapes.append(x.shape)
        return nc.concat([x, x])

    @nc.jit(dynamic_shapes={"x": {0: nc.Dim("n", max=64)}})
    def f(x: Any) -> Any:
        y = nc.host_call(doubled, ((2 * x.shape[0], 3), x.dtype), x * 2)
        return y + 1

    for n in (0, 1, 5, 64):
        x = nc.ones((n, 3))
        assert f(x).tolist() == [[3.0] * 3] * (2 * n)
    assert shapes == [(n, 3) for n in (0, 1, 5, 64)]


# ---- the order


def test_calls_run_in_order_whether_or_not_they_are_read() -> None:
    seen: list[Any] = []

    def tell(word: str, x: Any) -> Any:
        seen.append(word)
        return x

    def f(x: Any) -> Any:
        nc.host_call(lambda x: tell("unused", x), x.type, x)
        late = nc.host_call(lambda x: tell("first", x), x.type, nc.exp(nc.sin(x @ x)))
        early = nc.host_call(lambda x: tell("second", x), x.type, x)
        nc.host_call(lambda: seen.append("nothing"), None)
        return early + late

    x = nc.ones((40, 40))
    for g in (f, nc.jit(f)):
        g(x)
        assert seen == ["unused", "first", "second", "nothing"]
        seen.clear()


def test_equal_calls_are_not_merged() -> None:
    seen: list[Any] = []

    def draw(x: Any) -> Any:
        seen.append(0)
        return x + len(seen)

    def f(x: Any) -> Any:
        return nc.host_call(draw, x.type, x) + nc.host_call(draw, x.type, x)

    assert nc.jit(f)(nc.zeros(2)).tolist() == [3.0, 3.0]


def test_calls_in_loops_and_branches_run_each_time() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        def body(c: Any, row: Any) -> Any:
            nc.host_call(lambda: seen.append("row"), None)
            c = nc.cond(c.sum() > 3, lambda c: nc.host_call(lambda c: log(seen, c) or c, c.type, c), lambda c: c, c)
            return c + row, None

        c, _ = nc.scan(body, nc.zeros(2), x)

        def again(c: Any) -> Any:
            nc.host_call(lambda: seen.append("again"), None)
            return c * 2

        c = nc.while_loop(lambda c: nc.host_call(lambda c: bool(c.sum() < 30), ((), nc.bool), c), again, c)
        nc.cond(c.sum() > 0, lambda: nc.host_call(lambda: seen.append("yes"), None), lambda: None)
        nc.fori_loop(0, 2, lambda k, c: nc.host_call(lambda k: seen.append(int(k)), None, k) or c, nc.zeros(()))
        return c

    x = nc.ones((4, 2))
    wanted = ["row", "row", "row", [2.0, 2.0], "row", [3.0, 3.0], "again", "again", "yes", 0, 1]
    for g in (f, nc.jit(f), nc.jit(f)):
        assert g(x).tolist() == [16.0, 16.0]
        assert seen == wanted
        seen.clear()


def test_a_call_is_not_moved_out_of_a_loop() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        return nc.scan(lambda c, _: (c + nc.host_call(lambda x: log(seen, x) or x, x.type, x), None), x, length=3)[0]

    for g in (f, nc.jit(f)):
        assert g(nc.ones(2)).tolist() == [4.0, 4.0]
        assert seen == [[1.0, 1.0]] * 3
        seen.clear()


# ---- errors


def test_an_exception_is_raised_unchanged_and_ends_the_program() -> None:
    fault, seen, v = Custom("no"), list[Any](), nc.Variable(nc.tensor(1.0))

    def fail() -> None:
        raise fault

    def f(x: Any) -> Any:
        v.assign(v.value + 1)
        nc.host_call(fail, None)
        nc.host_call(lambda: seen.append("later"), None)
        return x * v.value

    jitted = nc.jit(f)
    for _ in range(3):
        with pytest.raises(Custom) as raised:
            jitted(nc.ones(3))
        assert raised.value is fault and not getattr(fault, "__notes__", ())
        assert fault.__cause__ is None and fault.__context__ is None
        assert v.value.item() == 1.0 and not seen
    assert any(entry.name == "fail" for entry in raised.traceback)


def test_an_exception_for_symbolic_sizes_is_raised_unchanged() -> None:
    def fail(x: Any) -> Any:
        raise Custom(x.shape)

    @nc.jit(dynamic_shapes={"x": {0: nc.Dim("n", max=64)}})
    def f(x: Any) -> Any:
        return nc.host_call(fail, x.type, x) + 1

    for n in (3, 5):
        with pytest.raises(Custom) as raised:
            f(nc.ones(n))
        assert raised.value.args == ((n,),)


def test_an_interrupt_in_the_function_ends_the_program() -> None:
    v = nc.Variable(nc.tensor(1.0))

    def f(x: Any) -> Any:
        v.assign(v.value + 1)
        nc.host_call(lambda: signal.raise_signal(signal.SIGINT), None)
        return (x @ x) * v.value

    jitted = nc.jit(f)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            jitted(nc.ones((200, 200)))
        assert v.value.item() == 1.0


def test_an_exception_releases_the_memory_of_the_call() -> None:
    def fail(x: Any) -> Any:
        raise Custom("no")

    jitted = nc.jit(lambda x: nc.host_call(fail, x.type, x @ x) @ x)
    x, figures = nc.ones((200, 200)), list[Any]()
    for _ in range(4):
        with pytest.raises(Custom):
            jitted(x)
        gc.collect()
        figures.append(statistics().buffers)
    assert figures[1] == figures[2] == figures[3]


def test_an_error_of_numpy_passes_unchanged() -> None:
    def f(x: Any) -> Any:
        return nc.host_call(lambda a: np.linalg.cholesky(a.numpy()), x.type, x)

    for g in (f, nc.jit(f)):
        with pytest.raises(np.linalg.LinAlgError):
            g(-nc.eye(3))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("returned", "error"),
    [
        (lambda x: x.astype(nc.float64), DTypeError),
        (lambda x: x[:1], ShapeError),
        (lambda x: (x, x), ArgumentError),
        (lambda x: None, ArgumentError),
        (lambda x: "text", KindError),
        (lambda x: 1.0, ShapeError),
        (lambda x: np.zeros(3), DTypeError),
    ],
)
def test_other_results_than_declared_are_refused(compiled: bool, returned: Any, error: type[Exception]) -> None:
    def f(x: Any) -> Any:
        return nc.host_call(returned, x.type, x)

    with pytest.raises(error, match=r"host_call: .*<lambda> \(.*test_host_call.py:\d+\)"):
        (nc.jit(f) if compiled else f)(nc.ones(3))


def test_numbers_take_the_declared_dtype() -> None:
    def f(x: Any) -> Any:
        return nc.host_call(lambda x: 2, ((), x.dtype), x)

    assert nc.jit(f)(nc.ones(2)).type.dtype is f(nc.ones(2)).type.dtype is nc.float32
    with pytest.raises(DTypeError, match="host_call"):
        nc.host_call(lambda: 0.5, ((), nc.int32))


def test_types_of_other_kinds_are_refused() -> None:
    for types in (3, "f32[3]", (3, nc.float32), [nc.float32]):
        with pytest.raises(KindError, match="host_call"):
            nc.host_call(lambda: 0, types)
    with pytest.raises(KindError, match="host_call"):
        nc.host_call(3, None)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="at least 0"):
        nc.host_call(lambda: 0, ((-1,), nc.float32))
    with pytest.raises(ShapeError, match="known sizes"):
        nc.host_call(lambda: 0, ((nc.Dim("n"),), nc.float32))


# ---- programs in programs, threads, lives


def test_the_function_may_run_programs() -> None:
    inner = nc.jit(lambda x: nc.exp(x) @ x)

    def f(x: Any) -> Any:
        y = x @ x
        z = nc.host_call(lambda y: inner(y) + nc.grad(lambda y: (y @ y).sum())(y), y.type, y)
        return z @ z

    x = nc.random.normal((256, 256), key=nc.random.key(0)) * 0.01
    assert nc.all(nc.jit(f)(x) == f(x))


def test_the_function_may_call_its_own_program() -> None:
    def f(x: Any) -> Any:
        return nc.host_call(lambda x: x if x.item() <= 0 else jitted(x - 1) + x, x.type, x)

    jitted = nc.jit(f)
    assert jitted(nc.tensor(4.0)).item() == 10.0


def test_the_function_runs_in_the_thread_of_the_caller() -> None:
    places: list[Any] = []

    def f(x: Any) -> Any:
        y = x @ x
        nc.host_call(lambda: places.append(threading.get_ident()), None)
        return y @ y

    jitted, x = nc.jit(f), nc.ones((300, 300))
    jitted(x)

    def run() -> None:
        for _ in range(5):
            before = len(places)
            jitted(x)
            assert threading.get_ident() in places[before:]

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads)
    assert len(places) == 21 and len({*places}) >= 2


FORK = """
import os, sys
import nacre as nc
pids = []
def f(x):
    y = x @ x
    nc.host_call(lambda: pids.append(os.fork()), None)
    return (y @ y)[0, 0]
found = nc.jit(f)(nc.ones((300, 300))).item()
assert found == 300.0**3, found
if pids == [0]:
    assert nc.jit(lambda x: (x @ x)[0, 0])(nc.ones((300, 300))).item() == 300.0
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == 7
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_in_the_function_leaves_two_programs_that_end() -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=120)


def test_a_function_may_wait_for_another_thread() -> None:
    def wait() -> None:
        t = threading.Thread(target=lambda: nc.jit(lambda x: x @ x)(nc.ones((300, 300))))
        t.start()
        t.join(60)
        assert not t.is_alive()

    def f(x: Any) -> Any:
        nc.host_call(wait, None)
        return x @ x

    nc.jit(f)(nc.ones((300, 300)))


def test_a_program_keeps_its_function_alive_and_no_longer() -> None:
    class Owner:
        def __call__(self, x: Any) -> Any:
            return x

    def made(owner: Any) -> Any:
        def f(x: Any) -> Any:
            y = nc.host_call(owner, x.type, x)
            y, _ = nc.scan(lambda c, _: (nc.host_call(owner, c.type, c), None), y, length=2)
            return y.sum() + nc.host_call(owner, y.type, y.detach()).sum()

        return f

    for use in (
        lambda f: f(nc.ones(2)),
        lambda f: nc.jit(f)(nc.ones(2)),
        lambda f: nc.jit(lambda x: nc.host_call(f.__closure__[0].cell_contents, x.type, x))(nc.ones(2)),
        lambda f: nc.jit(lambda x: nc.grad(lambda x: f(x.detach()) * x.sum())(x))(nc.ones(2)),
        lambda f: nc.grad(lambda x: f(x.detach()) * x.sum())(nc.ones(2)),
        lambda f: [nc.jit(f)] * 2,
        lambda f: nc.jit(lambda x: f(x.detach()) * x.sum())(nc.ones(2).requires_grad_()),
        lambda f: (lambda x: nc.host_call(f.__closure__[0].cell_contents, x.type, x).shape)(
            nc.ones(2).requires_grad_()
        ),
    ):
        owner = Owner()
        gone = weakref.ref(owner)
        f = made(owner)
        del owner
        kept = use(f)
        del f, kept
        gc.collect()
        assert gone() is None

    owner = Owner()
    gone = weakref.ref(owner)
    jitted = nc.jit(made(owner))
    jitted(nc.ones(2))
    del owner
    gc.collect()
    assert gone() is not None
    assert jitted(nc.ones(2)).tolist() == 4.0
    del jitted
    gc.collect()
    assert gone() is None
