"""The outer functions of executables, one by one: options, sizes, files of outputs, statuses; processor and threads."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.native_functions import address_of, loaded, stub_of, text
from nacre.deploy.executable import file_status, main, processor, threads
from nacre.deploy.executable.codes import DONE, FAILED, MEMORY, MISUSED, PROCESSOR, THREADS, UNSUPPORTED
from nacre.deploy.executable.file_status import FileStatus
from nacre.deploy.executable.layouts import (
    ArrayDescription,
    FeatureBits,
    ProgramDescription,
    Requirements,
    SizeRule,
)
from nacre.deploy.executable.main import ALL_RIGHT
from nacre.deploy.target import aim
from nacre.native import c_library
from nacre.native.engine import compile_text, cross_target, host_target
from nacre.native.isa import INSTRUCTION_SETS, X86_64, Isa
from nacre.native.parallel_runtime import MAX_THREADS
from nacre.native.python.module import module
from nacre.native.python.types import offset_of, size_of
from native.python.compiled import structure

FUNCTIONS: list[Any] = [main.fail, main.is_same_file, main.are_apart, main.solve_sizes, main.run, main.main]
Description, Array, Rule = structure(ProgramDescription), structure(ArrayDescription), structure(SizeRule)
AxesWriter = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
Call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
ErrorText = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32)


class Program:
    """The description of a program that doubles x: f32[n, 3], with 2 ≤ n ≤ 9, and of all memory that it refers to."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.code, self.sizes = 0, list[int]()
        self.files = self.memory(ctypes.c_int32, 2)
        self.file_axes, self.axes = self.memory(ctypes.c_int64, 4), self.memory(ctypes.c_int64, 4)
        self.values, self.bases = self.memory(ctypes.c_int64, 1), self.memory(ctypes.c_void_p, 2)
        words = [self.text(w) for w in ("f32[n, 3]", "<f4", "=f4")]
        self.arrays = (Array * 2)(Array(*words, 4, 2, 0), Array(*words, 4, 2, 2))
        self.rules = (Rule * 1)(Rule(0, 0, 1, 0, 2, 9))
        names = [self.text(w) for w in ("twice", "usage: …\n", "help: …\n", "version: …\n")]
        functions = [AxesWriter(self.write_axes), Call(self.call), ErrorText(lambda code: self.text(f"error {code}"))]
        self.kept += functions
        places = map(ctypes.addressof, (self.arrays, self.rules, self.files, self.bases, self.file_axes, self.axes))
        self.record: Any = Description(
            *names, 1, 2, 1, *places, ctypes.addressof(self.values), *map(address_of, functions)
        )
        self.place = ctypes.addressof(self.record)

    def memory(self, kind: Any, count: int) -> Any:
        self.kept.append((kind * count)())
        return self.kept[-1]

    def text(self, written: str) -> int:
        self.kept.append(text(written))
        return ctypes.addressof(self.kept[-1])

    def write_axes(self, sizes: int, axes: int) -> None:
        n = ctypes.c_int64.from_address(sizes).value
        (ctypes.c_int64 * 4).from_address(axes)[:] = [n, 3, n, 3]

    def call(self, bases: int, sizes: int) -> int:
        n = ctypes.c_int64.from_address(sizes).value
        self.sizes.append(n)
        x, y = ((ctypes.c_float * (3 * n)).from_address(b) for b in (ctypes.c_void_p * 2).from_address(bases) if b)
        y[:] = [2 * v for v in x]
        return self.code

    def arguments(self, *words: str | Path) -> Any:
        """The arguments of a process, its own name first, for as long as the program is there."""
        places = [self.text(str(w)) for w in ("twice", *words)]
        self.kept.append((ctypes.c_void_p * len(places))(*places))
        return ctypes.addressof(self.kept[-1])


def made_main(supported: bool = True) -> Any:
    return loaded(FUNCTIONS, {"nacre.supported": stub_of(main.supported, lambda: supported)})


@pytest.fixture(scope="module")
def native_main() -> Any:
    return made_main()


# ---- options and statuses


@pytest.mark.parametrize(
    ("words", "status", "printed", "said"),
    [
        (("--help",), DONE, "help: …\n", ""),
        (("-h",), DONE, "help: …\n", ""),
        (("--version",), DONE, "version: …\n", ""),
        (("--versions",), MISUSED, "", "usage: …\n"),
        ((), MISUSED, "", "usage: …\n"),
        (("x.npy",), MISUSED, "", "usage: …\n"),
        (("x.npy", "y.npy", "z.npy"), MISUSED, "", "usage: …\n"),
        (("--help", "y.npy"), MISUSED, "", "twice: --help: No such file or directory\n"),
    ],
)
def test_options(
    native_main: Any, words: Sequence[str], status: int, printed: str, said: str, capfd: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    program = Program()
    assert native_main.main(program.place, len(words) + 1, program.arguments(*words)) == status
    assert capfd.readouterr() == (printed, said)


def test_a_processor_that_lacks_instructions(capfd: Any) -> None:
    program, made = Program(), made_main(supported=False)
    assert made.main(program.place, 3, program.arguments("x.npy", "y.npy")) == UNSUPPORTED
    assert capfd.readouterr() == ("", f"twice: error {PROCESSOR}\n")
    assert made.main(program.place, 2, program.arguments("--help")) == DONE


def test_an_answer_that_nobody_takes(capfd: Any) -> None:
    program = Program()
    stubs = {"write": stub_of(c_library.write, lambda *_: -1), "nacre.supported": stub_of(main.supported, lambda: True)}
    assert loaded(FUNCTIONS, stubs).main(program.place, 2, program.arguments("--help")) == FAILED


@pytest.mark.parametrize(("code", "status"), [(PROCESSOR, UNSUPPORTED), (THREADS, MISUSED), (MEMORY, FAILED)])
def test_statuses_of_error_codes(native_main: Any, code: int, status: int, capfd: Any) -> None:
    assert native_main.fail(Program().place, code) == status
    assert capfd.readouterr().err == f"twice: error {code}\n"


# ---- sizes


def solved(made: Any, axes: Sequence[int], rule: Sequence[int] = (0, 0, 1, 0, 2, 9)) -> tuple[int, int]:
    """The wrong input, or ALL_RIGHT, and the size."""
    program = Program()
    program.rules[0] = Rule(*rule)
    program.file_axes[:2] = axes
    return made.solve_sizes(program.place), program.values[0]


@pytest.mark.parametrize("n", range(-2, 13))
def test_sizes_within_bounds(native_main: Any, n: int) -> None:
    assert solved(native_main, (n, 3)) == ((ALL_RIGHT, n) if 2 <= n <= 9 else (0, 0))


def test_axes_that_the_sizes_do_not_give(native_main: Any) -> None:
    assert [solved(native_main, (5, k))[0] for k in (2, 3, 4, 0)] == [0, ALL_RIGHT, 0, 0]
    for huge in (1 << 48, (1 << 63) - 1, -(1 << 63)):
        assert solved(native_main, (huge, 3))[0] == solved(native_main, (5, huge))[0] == 0


@pytest.mark.parametrize(("axis", "size"), [(7, 2), (10, 3), (28, 9), (1, None), (4, None), (8, None), (31, None)])
def test_factors_and_offsets(native_main: Any, axis: int, size: int | None) -> None:
    """An axis of 3·n + 1."""
    program = Program()
    program.rules[0] = Rule(0, 7, 3, 1, 2, 9)
    program.file_axes[:2] = (axis, 3)
    wrong = native_main.solve_sizes(program.place)
    assert wrong == (7 if size is None else 0) and (size is None or program.values[0] == size)


# ---- files of outputs


def test_paths_of_one_file(native_main: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").write_bytes(b"")
    Path("b").write_bytes(b"")
    os.link("a", "hard")
    Path("soft").symlink_to("a")
    Path("folder").mkdir()

    def same(*paths: str) -> bool:
        words = [text(p) for p in paths]
        return native_main.is_same_file(*map(ctypes.addressof, words))

    assert same("a", "a") and same("a", "./a") and same("a", "hard") and same("soft", "a")
    assert not same("a", "b") and not same("a", "none") and not same("none", "a") and not same("none", "nothing")
    assert same("none", "none") and not same("none", "./none")
    assert not same("-", "-") and not same("-", "a") and not same("a", "-")
    assert not same("/dev/null", "/dev/null") and not same("folder", "folder")


def test_each_output_is_a_file_of_its_own(native_main: Any, tmp_path: Path, capfd: Any) -> None:
    program = Program()
    assert native_main.are_apart(program.place, program.arguments(tmp_path / "x", tmp_path / "y"))
    assert capfd.readouterr().err == ""
    assert not native_main.are_apart(program.place, program.arguments(tmp_path / "x", tmp_path / "x"))
    said = "each output must be a file of its own; this one is an input or another output; name another\n"
    assert capfd.readouterr().err == f"twice: {tmp_path}/x: {said}"
    program.record.inputs = 2
    assert native_main.are_apart(program.place, program.arguments(tmp_path / "x", tmp_path / "x")), "inputs may be one"


def test_the_status_of_a_file(tmp_path: Path) -> None:
    made = loaded([file_status.read_status, file_status.is_regular])
    status: Any = structure(FileStatus)()
    path = tmp_path / "a"
    path.write_bytes(b"")
    path.chmod(0o640)
    for place in (path, tmp_path, Path("/dev/null")):
        written, wanted = text(os.fsencode(place)), place.stat()
        assert made.read_status(ctypes.addressof(written), ctypes.addressof(status))
        assert (status.device, status.serial, status.mode) == (wanted.st_dev, wanted.st_ino, wanted.st_mode)
        assert made.is_regular(ctypes.addressof(status)) == (place == path)
    written = text(os.fsencode(tmp_path / "none"))
    assert not made.read_status(ctypes.addressof(written), ctypes.addressof(status))


# ---- whole runs


def test_a_run(native_main: Any, tmp_path: Path, capfd: Any) -> None:
    program, x = Program(), np.arange(15, dtype=np.float32).reshape(5, 3)
    np.save(tmp_path / "x.npy", x)
    arguments = program.arguments(tmp_path / "x.npy", tmp_path / "y.npy")
    assert native_main.main(program.place, 3, arguments) == DONE and program.sizes == [5]
    assert np.load(tmp_path / "y.npy").tolist() == (2 * x).tolist() and capfd.readouterr() == ("", "")
    program.code = THREADS
    before = (tmp_path / "y.npy").stat().st_ino
    assert native_main.run(program.place, arguments) == MISUSED
    assert capfd.readouterr().err == f"twice: error {THREADS}\n" and (tmp_path / "y.npy").stat().st_ino == before
    assert native_main.run(program.place, program.arguments(tmp_path / "x.npy", tmp_path / "x.npy")) == MISUSED


@pytest.mark.parametrize(("shape", "shown"), [((1, 3), "1, 3"), ((10, 3), "10, 3"), ((5, 4), "5, 4"), ((0, 0), "0, 0")])
def test_a_run_with_wrong_sizes(native_main: Any, shape: Any, shown: str, tmp_path: Path, capfd: Any) -> None:
    program = Program()
    np.save(tmp_path / "x.npy", np.zeros(shape, np.float32))
    arguments = program.arguments(tmp_path / "x.npy", tmp_path / "y.npy")
    assert native_main.run(program.place, arguments) == MISUSED and program.sizes == []
    said = f"the array must be f32[n, 3]; it is <f4[{shown}]\n"
    assert capfd.readouterr().err == f"twice: {tmp_path}/x.npy: {said}" and not (tmp_path / "y.npy").exists()


# ---- the processor

on_x86 = pytest.mark.skipif(host_target().isa == "neon", reason="x86-64 reports its features so")


def meets(rows: Sequence[tuple[int, int, int, int]], saved_state: int = 0) -> bool:
    """Whether this processor meets requirements."""
    table = (structure(FeatureBits) * max(1, len(rows)))(*rows)
    needs: Any = structure(Requirements)(ctypes.addressof(table), len(rows), saved_state)
    return loaded([processor.meets]).meets(ctypes.addressof(needs))


def test_nothing_is_required() -> None:
    assert meets([])


@on_x86
def test_features_of_this_processor() -> None:
    found = aim("host")
    rows = [(*place, bits) for place, bits in found.masks.items()]
    assert {register for _, _, register, _ in rows} >= {1, 2} and meets(rows, found.saved_state)
    for row in rows:
        assert meets([row]) and meets([*rows, row])
        assert not meets([(*row[:3], 0xFFFFFFFF)]) and not meets([*rows, (*row[:3], 0xFFFFFFFF)])


@on_x86
def test_leaves_that_no_processor_has() -> None:
    assert not meets([(0x7FFFFFFF, 0, 0, 0)]) and not meets([(0x8FFFFFFF, 0, 0, 0)])
    assert not meets([(7, 100_000, 0, 0)]) and meets([(7, 0, 0, 0)]) and meets([(0, 0, 0, 0)])


@on_x86
def test_registers_that_the_system_saves() -> None:
    assert meets([], 3) and not meets([], 1 << 62) and not meets([], 3 | 1 << 62)


# ---- threads


class Threads:
    """The functions, whose pool and processors are Python functions."""

    def __init__(self, allowed: int = 0b1011) -> None:
        self.masks, self.counts, self.forks = list[bytes](), list[int](), list[Any]()
        self.allowed = allowed.to_bytes(threads.MASK_BYTES, "little")
        stubs: dict[str, Callable[..., Any]] = {
            "nacre.pool_set": stub_of(threads.set_pool, self.set_pool),
            "nacre.pool_forked": stub_of(threads.pool_forked, lambda: None),
            "sched_getaffinity": stub_of(c_library.sched_getaffinity, self.affinity),
            "pthread_atfork": stub_of(c_library.pthread_atfork, self.at_fork),
        }
        self.native = loaded([threads.set_threads, threads.begin], stubs)

    def set_pool(self, count: int, mask: int) -> None:
        self.counts.append(count)
        self.masks.append(ctypes.string_at(mask, threads.MASK_BYTES))

    def affinity(self, process: int, size: int, mask: int) -> int:
        assert (process, size) == (0, threads.MASK_BYTES)
        ctypes.memmove(mask, self.allowed, size)
        return 0

    def at_fork(self, *functions: int | None) -> int:
        self.forks.append(functions)
        return 0


@pytest.fixture
def no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NACRE_NUM_THREADS", raising=False)


def test_threads_that_are_set() -> None:
    made = Threads()
    wrong = (0, -1, MAX_THREADS + 1, 1 << 31, -(1 << 31))
    assert [made.native.set_threads(n) for n in wrong] == [THREADS] * 5
    assert made.counts == made.forks == []
    assert [made.native.set_threads(n) for n in (1, MAX_THREADS, 7)] == [0, 0, 0]
    assert made.counts == [1, MAX_THREADS, 7] and made.masks == [made.allowed] * 3
    assert len(made.forks) == 1 and made.forks[0][:2] == (None, None) and made.forks[0][2], "a fork is told of once"
    assert made.native.begin() == 0 and len(made.counts) == 3, "the number is known"


@pytest.mark.usefixtures("no_number")
@pytest.mark.parametrize(("allowed", "count"), [(0b1011, 3), (0, 1), (1 << 1000, 1), ((1 << 1024) - 1, MAX_THREADS)])
def test_as_many_threads_as_processors(allowed: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Threads(allowed)
    assert made.native.begin() == made.native.begin() == 0 and made.counts == [count]
    monkeypatch.setenv("NACRE_NUM_THREADS", "")
    made = Threads(allowed)
    assert made.native.begin() == 0 and made.counts == [count]


@pytest.mark.parametrize(
    ("written", "count"),
    [
        *(("1", 1), ("256", 256), ("007", 7), ("0", None), ("257", None), ("-1", None), ("+1", None), (" 1", None)),
        *(("2x", None), ("2 ", None), ("x", None), ("/", None), (":", None), ("4294967297", None), ("9" * 40, None)),
    ],
)
def test_threads_of_the_environment(written: str, count: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NACRE_NUM_THREADS", written)
    made = Threads()
    assert made.native.begin() == (THREADS if count is None else 0)
    assert made.counts == ([] if count is None else [count])


# ---- all targets


@pytest.mark.parametrize("isa", INSTRUCTION_SETS, ids=lambda isa: isa.name)
def test_code_for_every_machine(isa: Isa) -> None:
    target = cross_target(isa.name)
    whole, check = (module(entries, target=target) for entries in ([main.main, threads.begin], [processor.meets]))
    for written in (whole, check):
        assert len(compile_text(written, target)) > 0
    assert ('asm sideeffect "cpuid"' in check) == (isa.machine is X86_64)
    for name in ("nacre.main", "main.show", "main.fail", "files.write_block"):
        (head,) = re.findall(rf"^define .*@{name}\(.*$", whole, re.MULTILINE)
        assert head.endswith(f"nounwind {isa.machine.baseline} {{".replace("  ", " ")), "it runs on every processor"
    heads = re.findall(r"^define .*$", check, re.MULTILINE)
    assert heads and all(isa.machine.baseline in head for head in heads)


def test_the_status_of_a_file_is_read_by_the_layout_of_the_machine() -> None:
    assert [offset_of(file_status.StatX86, f) for f in ("device", "serial", "mode")] == [0, 8, 24]
    assert [offset_of(file_status.StatArm, f) for f in ("device", "serial", "mode")] == [0, 8, 16]
    assert size_of(file_status.StatX86) >= 144 and size_of(file_status.StatArm) >= 128, "the whole structure has room"
    for isa, owner in (("avx2", "x86"), ("neon", "arm")):
        written = module([file_status.read_status], target=cross_target(isa))
        assert re.findall(r"@file_status\.read_(\w+)\(", written) == [owner] * 2
