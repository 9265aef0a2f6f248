"""Bad input, bad surroundings and interruptions: an error that says why, and a process that goes on working."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from interrupts import interrupted
from nacre import nn, optim
from nacre.base.errors import Error, OutOfMemory
from nacre.runtime import buffer
from nacre.trace.variable import Variable
from same_bits import canonical

ROOT = Path(__file__).parents[1]
X = nc.tensor([[1.0, -2.0, 3.0], [0.5, 0.0, -0.25]])
N = nc.tensor([1, 2, 3])


# ---- bad input


@pytest.mark.parametrize(
    "call",
    [
        lambda: X @ X,
        lambda: X + nc.ones((2, 2)),
        lambda: X + N,
        lambda: nc.exp(N),
        lambda: N & X,
        lambda: X.reshape((4, 4)),
        lambda: X.reshape((-1, -1)),
        lambda: X.sum(axis=2),
        lambda: X.sum(axis=(0, 0)),
        lambda: nc.zeros((0, 3)).max(axis=0),
        lambda: nc.concat([X, N]),
        lambda: nc.concat([]),
        lambda: nc.stack([X, X[:1]]),
        lambda: X[5],
        lambda: X[0, 0, 0],
        lambda: X["a"],
        lambda: nc.tensor([[1.0], [1.0, 2.0]]),
        lambda: nc.tensor("text"),
        lambda: nc.tensor([object()]),
        lambda: nc.tensor(1j, dtype=nc.float32),
        lambda: nc.zeros((-1,)),
        lambda: nc.permute_dims(X, (0, 0)),
        lambda: nc.broadcast_to(X, (3, 2)),
        lambda: nc.where(X, X, X),
        lambda: X.item(),
        lambda: float(X),
        lambda: bool(X),
        lambda: X.backward(),
        lambda: X.astype("float31"),
        lambda: nc.tensor([1], dtype=nc.uint8) + 300,
        lambda: nc.grad(lambda x: x)(X),
        lambda: nc.grad(lambda x: x.sum())(N),
        lambda: nc.vmap(lambda x: x)(nc.tensor(1.0)),
        lambda: nc.vmap(lambda x, y: x + y)(X, N),
        lambda: nc.cond(X, lambda: 1, lambda: 2),
        lambda: nc.cond(nc.tensor(True), lambda x: x, lambda x: x[0], X),
        lambda: nc.set_threads(0),
        lambda: nn.Linear(3, 4)(nc.ones((2, 5))),
        lambda: nn.functional.cross_entropy(X, nc.tensor([0.0, 1.0])),
        lambda: nn.Conv2d(3, 4, 3)(nc.ones((1, 2, 8, 8))),
        lambda: nn.Conv2d(3, 4, 5)(nc.ones((1, 3, 2, 2))),
        lambda: optim.AdamW([], lr=1e-3),
        lambda: optim.SGD(nn.Linear(2, 2).parameters(), lr=-1.0),
        lambda: Variable(X).assign(N),
    ],
)
@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_bad_input_is_refused_with_a_reason(call: Callable[[], Any], mode: str) -> None:
    with pytest.raises(Error) as fault:
        (nc.jit(call) if mode == "jit" else call)()
    assert len(str(fault.value)) > 20, fault.value
    assert canonical(X + 1) == canonical(nc.jit(lambda x: x + 1)(X)), "everything goes on working"


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (0, 0), (2, 0, 3)])
def test_nothing_is_a_number_of_elements(shape: tuple[int, ...]) -> None:
    x = nc.zeros(shape)
    for f in (
        lambda x: nc.exp(x) + 1,
        lambda x: x.sum(),
        lambda x: x.reshape((-1,)) * 2 if 0 not in shape else x,
        lambda x: nc.concat([x, x]),
        lambda x: nc.cumulative_sum(x, axis=0),
        lambda x: x.mT if x.ndim > 1 else x,
        lambda x: x.sum(axis=-1, keepdims=True) + x,
        lambda x: nc.flip(x),
    ):
        assert canonical(nc.jit(f)(x)) == canonical(f(x))
    assert float(x.sum()) == 0.0
    assert nc.grad(lambda x: (x * x).sum())(x).shape == shape


# ---- memory


def test_exhausted_memory_is_an_error_after_which_all_goes_on() -> None:
    x = nc.ones((256, 256))
    v = Variable(x)
    f = nc.jit(lambda x: [nc.cumulative_sum(x * k, axis=0) for k in range(16)])
    g = nc.jit(lambda x: v.assign(nc.cumulative_sum(v.value + x, axis=0) + nc.cumulative_sum(x, axis=1)))
    wanted = [canonical(y) for y in f(x)]
    g(x)
    before = canonical(v.value)
    gc.collect()  # what other tests left
    used = buffer.statistics()
    try:
        buffer.memory_limit(used.allocated + 200_000)
        for call in (lambda: f(x), lambda: nc.zeros((1 << 20,)), lambda: x @ nc.ones((256, 4096)), lambda: g(x)):
            with pytest.raises(OutOfMemory) as fault:
                for _ in range(3):
                    call()
            assert "limit" in str(fault.value) and "B" in str(fault.value)
        assert canonical(v.value) == before, "an assignment that failed changed nothing"
        assert float((nc.ones((10,)) + 1).sum()) == 20.0
    finally:
        buffer.memory_limit(None)
    assert [canonical(y) for y in f(x)] == wanted
    g(x)
    assert canonical(v.value) != before


def test_sizes_that_no_machine_has_are_an_error() -> None:
    for make in (
        lambda: nc.zeros((1 << 45,)),
        lambda: nc.ones((1 << 24, 1 << 24)) + 1,
        lambda: nc.zeros((1 << 62, 1 << 62)),
    ):
        with pytest.raises(Error):
            make()
    assert float(nc.ones((3,)).sum()) == 3.0


def test_buffers_are_given_back() -> None:
    f = nc.jit(lambda x: (nc.exp(x), nc.cumulative_sum(x, axis=0)))
    x = nc.ones((300, 300))
    f(x)
    start = buffer.statistics().allocated
    for _ in range(20):
        f(x)
        nc.exp(x).sum()
        with pytest.raises(Error):
            f(x) @ x  # type: ignore[operator]
            x @ nc.ones((2, 2))
    assert buffer.statistics().allocated <= start


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_ends_a_long_program_between_its_steps(threads: int) -> None:
    def long(x: Any) -> Any:
        for _ in range(3000):
            x = x @ x
        return x

    f, x = nc.jit(long), nc.zeros((500, 500))
    before = nc.get_threads()
    nc.set_threads(threads)
    try:
        f.concrete(x)
        held = buffer.statistics().buffers
        with interrupted():
            f(x)
        assert buffer.statistics().buffers == held
        assert nc.jit(lambda x: x @ x + 1)(x).sum().item() == 250_000
    finally:
        nc.set_threads(before)


# ---- other processes


def python(code: str, *, wait: bool = True, **environment: str) -> Any:
    """A process that runs code with Nacre; its output, or itself where it is not waited for."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    if wait:
        return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, check=False)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


WORK = """
    import hashlib, numpy as np, nacre as nc
    def work():
        x = nc.tensor(np.arange(12000, dtype=np.float32).reshape(100, 120) / 1000)
        f = nc.jit(lambda x: (nc.exp(x @ x.T / 100) + 1).sum(axis=0))
        h = hashlib.sha256(f(x).numpy().tobytes() + (nc.tanh(x) * 2).sum().numpy().tobytes())
        return h.hexdigest()
"""


def test_damaged_cache_files_are_made_anew(tmp_path: Path) -> None:
    code = WORK + "    print(work())\n"
    first = python(code, NACRE_CACHE_DIR=str(tmp_path))
    files = sorted(tmp_path.glob("*.o"))
    assert first.returncode == 0 and len(files) > 3, first.stderr
    for k, path in enumerate(files):
        data = bytearray(path.read_bytes())
        data[(k * 37) % len(data)] ^= 1 << k % 8
        path.write_bytes(data[: len(data) // 2] if k % 3 == 0 else data)
    again = python(code, NACRE_CACHE_DIR=str(tmp_path))
    assert (again.returncode, again.stdout) == (0, first.stdout), again.stderr


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null/cache", "off", ""])
def test_without_a_cache_directory_it_works(place: str) -> None:
    made = python(WORK + "    print(work())\n", NACRE_CACHE_DIR=place)
    assert made.returncode == 0 and len(made.stdout.strip()) == 64, made.stderr
    assert ("NACRE_CACHE_DIR" in made.stderr) == place.startswith("/")


def test_a_full_disk_stops_nothing(tmp_path: Path) -> None:
    code = (
        """
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
"""
        + WORK
        + "    print(work())\n"
    )
    made = python(code, NACRE_CACHE_DIR=str(tmp_path))
    assert made.returncode == 0 and len(made.stdout.strip()) == 64, made.stderr
    assert "NACRE_CACHE_DIR" in made.stderr
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".tmp"] == []


def test_processes_share_a_cold_cache(tmp_path: Path) -> None:
    running = [python(WORK + "    print(work())\n", wait=False, NACRE_CACHE_DIR=str(tmp_path)) for _ in range(4)]
    outputs = [p.communicate(timeout=120) for p in running]
    assert {p.returncode for p in running} == {0}, outputs
    assert len({out for out, _ in outputs}) == 1
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".tmp"] == []


def test_a_forked_child_computes() -> None:
    made = python(
        WORK
        + """
    import os
    nc.set_threads(3)
    big = nc.ones((600, 600))
    (big @ big).sum()
    wanted = work()
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            good = work() == wanted and float((big @ big)[0, 0]) == 600.0
            grandchild = os.fork()
            if grandchild == 0:
                os._exit(0 if work() == wanted else 1)
            os._exit(0 if good and os.waitpid(grandchild, 0)[1] == 0 else 1)
        children.append(child)
    assert [os.waitpid(c, 0)[1] for c in children] == [0, 0, 0]
    assert work() == wanted
    print("fine")
    """
    )
    assert (made.returncode, made.stdout) == (0, "fine\n"), made.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_is_forked_amid_an_update_has_all_of_it_or_none() -> None:
    made = python("""
    import os, threading, time, warnings
    import nacre as nc
    from nacre.trace.variable import Variable
    warnings.simplefilter("ignore")
    v = Variable(nc.zeros((300, 300)))
    @nc.jit
    def step():
        with_all = v.value + 1
        v.assign(with_all)
    step()
    going = True
    def update():
        while going:
            step()
    thread = threading.Thread(target=update)
    thread.start()
    for _ in range(30):
        time.sleep(0.002)
        child = os.fork()
        if child == 0:
            found = v.value.numpy()
            whole = float(found.min()) == float(found.max())
            before = float(found[0, 0])
            step()
            os._exit(0 if whole and float(v.value[0, 0]) == before + 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
    going = False
    thread.join()
    print("fine")
    """)
    assert (made.returncode, made.stdout) == (0, "fine\n"), made.stderr


def test_the_end_of_a_process_waits_for_nobody() -> None:
    made = python(
        WORK
        + """
    import threading
    nc.set_threads(4)
    big = nc.ones((1000, 1000))
    f = nc.jit(lambda x: x @ x)
    f(big)
    def forever():
        while True:
            f(big)
    threading.Thread(target=forever, daemon=True).start()
    work()
    print("fine", flush=True)
    """
    )
    assert (made.returncode, made.stdout) == (0, "fine\n"), made.stderr


# ---- interruptions


def test_an_interrupt_comes_soon_and_breaks_nothing() -> None:
    process = python(
        WORK
        + """
    import signal, time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where it was to be ignored
    big = nc.ones((400, 400))
    f = nc.jit(lambda x: nc.tanh(x @ x))
    f(big)
    wanted = work()
    print("ready", flush=True)
    try:
        while True:
            f(big)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    assert work() == wanted
    assert float(nc.jit(lambda x: x.sum())(big)) == 160000.0
    print("fine")
    """,
        wait=False,
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    took = time.monotonic() - start
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "fine\n"), errors
    assert took < 2.0


def test_interrupts_never_leave_variables_half_updated() -> None:
    made = python("""
    import nacre as nc, signal
    from nacre.base.state import STATE
    from nacre.trace.bind import ACTIVE
    from nacre.trace.variable import UPDATES, Variable
    a, b = Variable(nc.zeros((1000,))), Variable(nc.zeros((1000,)))
    def step(x):
        a.assign(a.value + x)
        b.assign(b.value + x)
        return a.value
    f = nc.jit(step)
    one = nc.ones((1000,))
    f(one)
    caught = 0
    armed = False
    def raise_(*_):
        global armed
        if armed:
            armed = False
            raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, raise_)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.0013)
    rounds = 0
    while caught < 150:
        try:
            while True:
                armed = True  # again, as an interrupt inside a finaliser is swallowed
                f(one)
                if rounds % 50 == 0:
                    nc.jit(lambda x: step(x) * 2)(one)
                rounds += 1
        except KeyboardInterrupt:
            caught += 1
        assert (STATE.word, STATE.interpreters) == (0, []), "the stack of interpreters"
        assert ACTIVE.value == 0, "active interpreters"
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert a.value.tolist() == b.value.tolist(), (float(a.value[0]), float(b.value[0]))
    assert len(set(a.value.tolist())) == 1
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set() and not UPDATES.locked()
    print("fine")
    """)
    assert (made.returncode, made.stdout) == (0, "fine\n"), made.stderr


# ---- threads


def test_the_number_of_threads_may_change_while_others_compute() -> None:
    f = nc.jit(lambda x: nc.exp(x @ x / 200) + x.sum(axis=0))
    x = nc.tensor(np.random.default_rng(0).random((200, 200), np.float32))
    wanted, before = canonical(f(x)), nc.get_threads()
    faults: list[BaseException] = []
    stop = threading.Event()

    def work() -> None:
        try:
            while not stop.is_set():
                assert canonical(f(x)) == wanted
        except BaseException as fault:
            faults.append(fault)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for t in workers:
        t.start()
    try:
        for count in (1, 4, 2, 5, 1, 3):
            nc.set_threads(count)
            assert canonical(f(x)) == wanted
            time.sleep(0.02)
    finally:
        stop.set()
        for t in workers:
            t.join()
        nc.set_threads(before)
    assert faults == []


def test_many_short_threads() -> None:
    results: list[float] = []

    def work(k: int) -> None:
        results.append(float((nc.ones((100,)) * k).sum()))

    for k in range(40):
        t = threading.Thread(target=work, args=(k,))
        t.start()
        t.join()
    assert results == [100.0 * k for k in range(40)]
