"""The pool's text: its names and instructions on every target, its atomics, and its cache."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.native import engine
from nacre.native.pool import OFFERED, pool_text

X86, ARM = engine.cross_target("avx2"), engine.cross_target("neon")
NAMES = (*OFFERED, "nacre.pool_set", "nacre.pool_started", "nacre.pool_forked")
ATOMICS = {  # by function, in order; a change of one of them is a change of the protocol
    "nacre.pool_enter": [
        "load i64 team monotonic",
        "cmpxchg lock acquire monotonic",
        "store i32 lock release",
        "store i32 lock release",
    ],
    "nacre.pool_share": [
        "store i64 finished monotonic",
        "xchg offer seq_cst",
        "load i32 sleepers seq_cst",
        "add bell seq_cst",
        "load i64 finished seq_cst",
    ],
    "nacre.pool_leave": ["store i32 lock release"],
    "nacre.pool_threads": ["load i64 team monotonic"],
    "nacre.pool_set": [
        "store i64 team seq_cst",
        "add season seq_cst",
        "add bell seq_cst",
        "load i32 workers acquire",
    ],
    "pool_state.take_chunk": ["load i64 offer seq_cst", "cmpxchg offer seq_cst seq_cst"],
    "pool_worker.work": [
        "store i32 workers release",
        "load i64 team monotonic",
        "load i32 season seq_cst",
        "load i64 team seq_cst",
        "add sleepers seq_cst",
        "load i32 bell seq_cst",
        "load i64 offer seq_cst",
        "sub sleepers seq_cst",
        "store i32 workers monotonic",
        "store i32 workers monotonic",
        "add finished seq_cst",
        "load i32 caller_wait seq_cst",
    ],
    "pool_worker.start_workers": ["store i32 workers monotonic", "store i32 workers monotonic"],
    "contention_backoff.await_workers": [
        "store i32 caller_wait seq_cst",
        "load i64 finished seq_cst",
        "store i32 caller_wait monotonic",
    ],
    "contention_backoff.late_worker": ["load i32 workers acquire"],
    "contention_backoff.time_of_worker": ["load i32 workers acquire"],
}


def test_other_targets_have_the_same_names() -> None:
    arm = engine.emit_assembly(pool_text(ARM), ARM)
    alone = engine.emit_assembly(pool_text(engine.host_target(), linux=False), engine.host_target())
    for name in NAMES:
        assert f"{name}:" in arm and f"{name}:" in alone
    assert "yield" in arm and "syscall" not in alone


@pytest.mark.parametrize(
    ("target", "futex", "gettid", "pause", "control"),
    [
        (X86, 202, 186, "call void @llvm.x86.sse2.pause()", "trunc i64 8064 to i32"),
        (ARM, 98, 178, "call void @llvm.aarch64.hint(i32 1)", "llvm.aarch64.set.fpcr(i64 0)"),
    ],
)
def test_the_target_decides(target: engine.Target, futex: int, gettid: int, pause: str, control: str) -> None:
    text = pool_text(target)
    assert text.count(f"@syscall(i64 {futex}, ptr %word.in, i32 12") == 2 and f"@syscall(i64 {gettid})" in text
    assert text.count(pause) == 2 and control in text


@pytest.mark.parametrize("target", [X86, ARM])
def test_atomics_have_their_orders(target: engine.Target) -> None:
    found: dict[str, list[str]] = {}
    for name, body in re.findall(r"^define .*?@([\w.]+)\((.*?)^}", pool_text(target), re.MULTILINE | re.DOTALL):
        bases = dict(re.findall(r"(%[\w.]+) = getelementptr .*?, ptr ([@%][\w.]+)", body))
        for line in body.splitlines():
            atomic = re.search(r"(load|store) atomic (i\d+)|atomicrmw (\w+)|(cmpxchg)", line)
            if atomic:
                place = re.findall(r"ptr ([@%][\w.]+)", line)[0]
                while place in bases:
                    place = bases[place]
                orders = re.findall(r" (monotonic|acquire|release|acq_rel|seq_cst)\b", line)
                words = [*filter(None, atomic.groups()), place.rpartition(".")[2], *orders]
                found.setdefault(name, []).append(" ".join(words))
    assert found == ATOMICS


def test_shared_variables_are_on_lines_of_their_own() -> None:
    variables = re.findall(r"^@(?:pool_state|contention_backoff)\.\w+ = .*", pool_text(X86), re.MULTILINE)
    assert len(variables) == 12 and all(v.endswith("align 128") for v in variables)


def test_regions_elsewhere_run_on_their_caller() -> None:
    target = engine.host_target()
    library = engine.load(engine.compile_text(pool_text(target, linux=False), target))
    number = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    assert [number(library.address(f"nacre.pool_{f}"))(9) for f in ("enter", "threads", "started")] == [1, 1, 1]
    seen: list[tuple[int | None, int, int]] = []
    chunk = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(lambda *given: seen.append(given))
    for name in ("nacre.pool_run", "nacre.pool_share"):
        share = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(library.address(name))
        for chunks in (-3, 0, 1, 3):
            share(ctypes.cast(chunk, ctypes.c_void_p), 5, chunks)
    assert seen == [(5, 0, 0), (5, 0, 0), (5, 1, 0), (5, 2, 0)] * 2


WARM = """
import sys
from nacre.native.pool import pool
assert pool().started == 1
modules = {m for m in sys.modules if m.startswith("nacre.native.python.")} - {"nacre.native.python"}
print(*sorted(m.rpartition(".")[2] for m in modules | {"nacre.native.pool_state"} & set(sys.modules)))
"""


def test_a_warm_process_runs_no_front_end(tmp_path: Path) -> None:
    settings = {**os.environ, "NACRE_CACHE_DIR": str(tmp_path)}
    cold, warm = (
        set(subprocess.run([sys.executable, "-c", WARM], env=settings, stdout=-1, text=True, check=True).stdout.split())
        for _ in range(2)
    )
    assert {"statements", "pool_state"} <= cold and warm <= {"cached", "types", "declarations"}
