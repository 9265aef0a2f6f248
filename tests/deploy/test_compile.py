"""Invalid functions are refused at once, by name; code for other machines is written; linkers are found."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from deploy.calls import can_link
from nacre import deploy, nn
from nacre.base.errors import ArgumentError, CompileError, MissingExtra, ShapeError, TraceError
from nacre.deploy import link, tables
from nacre.deploy.image import SECTION, filled
from nacre.deploy.target import aim, names
from nacre.native.engine import ELF_MACHINES, compile_text, host_target
from nacre.native.isa import AVX512, X86_64
from nacre.native.text import ModuleText


def double(x: Any) -> Any:
    return x * 2


def counted(x: Any) -> Any:
    return nc.while_loop(lambda y: nc.sum(y) < 100, double, x)


def test_control_flow_is_compiled(tmp_path: Path) -> None:
    made = deploy.compile(counted, [nc.ones(3)], tmp_path / "program.o", "object")
    assert made.size > 0 and made.interface.output_types == (nc.ones(3).type,)


def test_training_is_refused(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    with pytest.raises(TraceError, match=r"running_mean.*eval"):
        deploy.compile(model, [nc.ones((5, 3))], tmp_path / "program")


@pytest.mark.parametrize(
    ("arguments", "fault", "message"),
    [
        ({"kind": "wheel"}, ArgumentError, "one of executable, shared, object; got 'wheel'"),
        ({"target": "pdp11"}, ArgumentError, "one of host, x86-64-v3"),
        ({"target": "x86_64-windows-gnu"}, ArgumentError, "one of host"),
        ({"path": "/nowhere/at/all/program"}, ArgumentError, "in an existing folder"),
        ({"example_inputs": []}, ArgumentError, "an example of every argument of double"),
        ({"example_inputs": ["one"]}, ArgumentError, "x is not"),
        ({"dynamic_shapes": {"x": {3: nc.Dim("n")}}}, ShapeError, "x must have an axis 3"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], fault: type[Exception], message: str, tmp_path: Path) -> None:
    given = {"example_inputs": [nc.ones(3)], "path": tmp_path / "program", "kind": "object", **arguments}
    with pytest.raises(fault, match=message):
        deploy.compile(double, **given)


def test_results_must_be_tensors(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="must return tensors"):
        deploy.compile(lambda x: (x, "name"), [nc.ones(3)], tmp_path / "program.o", "object")


def test_sizes_need_bounds_where_work_is_divided_by_them(tmp_path: Path) -> None:
    batch = {"x": {0: nc.Dim("batch")}}
    deploy.compile(double, [nc.ones(3)], tmp_path / "program.o", "object", dynamic_shapes=batch)
    with pytest.raises(CompileError, match=r"batch from 0 to any size; write nc.Dim\('batch', max=512\)"):
        deploy.compile(nn.Linear(3, 4), [nc.ones((5, 3))], tmp_path / "program.o", "object", dynamic_shapes=batch)


def test_a_size_must_be_determined_by_an_axis(tmp_path: Path) -> None:
    n = nc.Dim("n", max=9)
    with pytest.raises(CompileError, match="a size of an input must determine"):
        deploy.compile(double, [nc.ones(9)], tmp_path / "program.o", "object", dynamic_shapes={"x": {0: n * n}})


@pytest.mark.parametrize(
    ("target", "machine"),
    [("x86-64-v3", "x86_64"), ("x86-64-v4", "x86_64"), ("aarch64", "aarch64"), ("aarch64-linux-musl", "aarch64")],
)
def test_objects_for_any_machine(target: str, machine: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(64, 32), nn.GELU(), nn.Linear(32, 10))
    made = deploy.compile(model, [nc.ones((4, 64))], tmp_path / "program.o", "object", target)
    image = made.path.read_bytes()
    assert image[:4] == b"\x7fELF" and int.from_bytes(image[18:20], "little") == ELF_MACHINES[machine]
    assert made.header is not None and "program_run(const float *x, float *output" in made.header.read_text()


ALLOWED = {
    "aligned_alloc", "clock_gettime", "free", "getenv", "memcpy", "memset", "pthread_atfork", "pthread_attr_destroy",
    "pthread_attr_init", "pthread_attr_setdetachstate", "pthread_create", "pthread_sigmask", "sched_getaffinity",
    "sched_setaffinity", "sigfillset", "strtol", "syscall", "_GLOBAL_OFFSET_TABLE_",
}  # fmt: skip


def test_symbols_that_an_object_imports(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(64, 32), nn.GELU(), nn.Linear(32, 10))
    made = deploy.compile(lambda x: nc.sin(model(x)), [nc.ones((4, 64))], tmp_path / "program.o", "object")
    try:
        listed = subprocess.run(["nm", "-g", made.path], capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip("no nm")
    assert set(re.findall(r" U (\S+)", listed)) <= ALLOWED
    assert set(re.findall(r" T (\S+)", listed)) == set(made.interface.public)


def test_names_become_identifiers(tmp_path: Path) -> None:
    def f(double: Any, workspace: Any, x: Any) -> Any:
        return {"a b": double, "1st": workspace, "x": x}

    made = deploy.compile(f, [nc.ones(2)] * 3, tmp_path / "3-way.model.o", "object")
    assert made.interface.name == "n_3_way"
    assert made.interface.input_names == ("n_double", "n_workspace", "x")
    assert made.interface.output_names == ("a_b", "n_1st", "x_1")


# ---- targets and linkers


def test_levels_and_features() -> None:
    assert aim("x86-64-v4").features == AVX512.checks and aim("aarch64").features == ()
    assert aim("x86-64-v3").saved_state == 0x06 and aim("x86-64-v4").saved_state == 0xE6
    assert aim("x86-64-v3").masks[7, 0, 1] == 1 << 3 | 1 << 5 | 1 << 8
    assert len(set(X86_64.cpuid.values())) == len(X86_64.cpuid)
    assert {aim(n).triple for n in names()[1:]} == {
        f"{m}-linux-{c}" for m in ("x86_64", "aarch64") for c in ("gnu", "musl")
    }


def test_the_linker_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NACRE_CC", "false")
    with pytest.raises(CompileError, match="the linker failed: false"):
        deploy.compile(double, [nc.ones(3)], tmp_path / "program")
    monkeypatch.setenv("NACRE_CC", "no-such-compiler -O2")
    with pytest.raises(CompileError, match="no-such-compiler: No such file"):
        deploy.compile(double, [nc.ones(3)], tmp_path / "program")
    assert not list(tmp_path.iterdir())


def test_without_a_linker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(link.shutil, "which", lambda _: None)
    monkeypatch.setattr(link.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install 'nacre\[deploy\]'"):
        deploy.compile(double, [nc.ones(3)], tmp_path / "program")
    assert not can_link()


def test_columns_of_a_table_are_the_template_answers() -> None:
    program = nc.jit(lambda a, b: a @ b, dynamic_shapes={"a": {0: nc.Dim("m", min=2, max=70)}})
    plan = program.concrete(nc.ones((2, 300)), nc.ones((300, 7))).compiled.executable.plan
    (step,) = plan.steps
    assert step.cut is not None
    found = tables.table(step, 3)
    for k, row in enumerate(found.rows):
        sizes = [n if isinstance(n, int) else n.evaluate({"m": k + 2}) for n in step.cut_sizes]
        cut = step.cut(tuple(sizes), 3)
        assert row == (cut.extent, cut.grain, cut.scratch, *cut.arguments)
    assert len(found.rows) == 69 and np.array_equal(found.column(0), [r[0] for r in found.rows])


def test_weights_are_written_over_zeros() -> None:
    module = ModuleText("weights")
    module.section("kept", 192, SECTION)
    numbers = np.arange(12, dtype=np.float32)
    image = filled(compile_text(module.text(), host_target()), [(0, numbers), (128, numbers[:5]), (192, numbers[:0])])
    start = bytes(image).index(numbers.tobytes())
    kept = np.frombuffer(image, np.float32, 48, start)
    assert kept[:12].tolist() == numbers.tolist() and kept[32:37].tolist() == numbers[:5].tolist()
    assert not kept[12:32].any() and not kept[37:].any()
    with pytest.raises(CompileError, match="must hold 200 bytes"):
        filled(compile_text(module.text(), host_target()), [(192, numbers[:2])])
    with pytest.raises(CompileError, match="the object has no section"):
        filled(compile_text(ModuleText("empty").text(), host_target()), [])


@pytest.mark.slow
def test_weights_take_little_more_than_their_memory(tmp_path: Path) -> None:
    code = f"""
import resource
import nacre as nc
from nacre import deploy, nn
model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(24)]).eval()
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
before, made = peak(), deploy.compile(model, [nc.ones((1, 1024))], {str(tmp_path / "program.o")!r}, "object")
print(peak() - before, made.size >> 20)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    more, size = map(int, done.stdout.split())
    assert more < 3.5 * size + 64, "in MiB: the emitted object, its copies, and the compiler"


# ---- folders in the way, disks without room, and processes that are killed


@pytest.mark.parametrize("kind", ["executable", "shared", "object"])
def test_a_folder_is_no_output(tmp_path: Path, kind: str) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(ArgumentError, match="is a folder"):
        deploy.compile(lambda x: x * 2, [nc.ones(3)], tmp_path / "out", kind)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


LIMITED = """if True:
    import os, resource, signal, sys
    import nacre as nc
    from nacre import deploy
    made = deploy.compile(lambda x: x * 2, [nc.ones(3)], sys.argv[1] + "/twice" + sys.argv[3], sys.argv[2])
    there = {name: os.stat(os.path.join(sys.argv[1], name)).st_mtime_ns for name in os.listdir(sys.argv[1])}
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[4]), int(sys.argv[4])))
    try:
        deploy.compile(lambda x: x * 3, [nc.ones(3)], made.path, sys.argv[2])
    except nc.Error as fault:
        print(type(fault).__name__)
    assert there == {name: os.stat(os.path.join(sys.argv[1], name)).st_mtime_ns for name in os.listdir(sys.argv[1])}
"""


@pytest.mark.parametrize("room", [0, 100, 5000])
@pytest.mark.parametrize(("kind", "ending"), [("executable", ""), ("shared", ".so"), ("object", ".o")])
def test_without_room_the_old_file_stays(tmp_path: Path, kind: str, ending: str, room: int) -> None:
    if kind != "object" and not can_link():
        pytest.skip("nothing here links for this machine")
    (tmp_path / "out").mkdir()
    (tmp_path / "tmp").mkdir()
    found = {"TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": ":".join(filter(None, sys.path)), "NACRE_CACHE_DIR": "off"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LIMITED, str(tmp_path / "out"), kind, ending, str(room)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **found},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout in ("DeviceError\n", "CompileError\n"), done.stdout
    assert list((tmp_path / "tmp").iterdir()) == []


def test_an_interrupted_compilation_leaves_no_files(tmp_path: Path) -> None:
    """A linker that never ends is running when SIGTERM arrives."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "model.py").write_text("def f(x):\n    return x * 2\n", encoding="utf-8")
    linker = tmp_path / "linker"
    linker.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\nexec sleep 60\n", encoding="utf-8")
    linker.chmod(0o755)
    found = {"TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": ":".join(filter(None, sys.path)), "NACRE_CC": str(linker)}
    process = subprocess.Popen(
        [sys.executable, "-m", "nacre.cli.main", "compile", "model.py:f", "f32[3]", "-o", "out"],
        cwd=tmp_path,
        env={**os.environ, **found},
        start_new_session=True,
    )
    try:
        for _ in range(600):
            if (tmp_path / "begun").exists():
                break
            time.sleep(0.1)
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert list((tmp_path / "tmp").iterdir()) == []
    left = {p.name for p in tmp_path.iterdir()} - {"__pycache__"}
    assert left == {"begun", "linker", "model.py", "tmp"}
