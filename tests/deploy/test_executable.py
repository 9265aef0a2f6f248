"""Executables read and write .npy files, report errors in them, and run on a bare system."""

from __future__ import annotations

import dataclasses
import importlib
import io
import os
import platform
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nacre as nc
from deploy.calls import Library, can_link, execute, same
from nacre import __version__, deploy, nn
from nacre.deploy.library import PROCESSOR
from nacre.deploy.main import DONE, FAILED, MISUSED, UNSUPPORTED
from nacre.deploy.target import aim
from nacre.examples.digits import network
from nacre.native.engine import ELF_MACHINES, host_target
from nacre.native.isa import X86_64

pytestmark = pytest.mark.skipif(not can_link(), reason="nothing here links for this machine")

BATCH = nc.Dim("batch", min=1, max=512)


@pytest.fixture(scope="module")
def model() -> nn.Sequential:
    nc.random.seed(3)
    return network().eval()


@pytest.fixture(scope="module")
def program(model: nn.Sequential, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("deploy") / "digits"
    return deploy.compile(model, [nc.zeros((2, 1, 8, 8))], path, dynamic_shapes={"x": {0: BATCH}}).path


def images(n: int) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, 1, 8, 8)).astype(np.float32)


@pytest.mark.parametrize("n", [1, 5, 512])
def test_same_bits_from_files(program: Path, model: nn.Sequential, n: int, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", images(n))
    done = execute(program, tmp_path / "x.npy", tmp_path / "y.npy")
    assert (done.returncode, done.stdout, done.stderr) == (DONE, b"", b"")
    assert same(np.load(tmp_path / "y.npy"), model(nc.asarray(images(n))).numpy())


@pytest.mark.slow
def test_every_batch_of_the_bounds(program: Path, model: nn.Sequential, tmp_path: Path) -> None:
    whole = images(512)
    expected = model(nc.asarray(whole)).numpy()
    for n in range(1, 513):
        np.save(tmp_path / "x.npy", whole[:n])
        done = execute(program, tmp_path / "x.npy", tmp_path / "y.npy")
        assert (done.returncode, done.stderr) == (DONE, b""), n
        assert same(np.load(tmp_path / "y.npy"), expected[:n]), n


def saved(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version)
    return file.getvalue()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_standard_input_and_output(program: Path, model: nn.Sequential, version: tuple[int, int]) -> None:
    done = execute(program, "-", "-", data=saved(images(3), version))
    assert done.returncode == DONE and done.stderr == b""
    assert len(done.stdout) % 64 == 3 * 10 * 4 % 64
    assert same(np.load(io.BytesIO(done.stdout)), model(nc.asarray(images(3))).numpy())


def test_help_and_version(program: Path) -> None:
    for option in ("--help", "-h"):
        told = execute(program, option)
        assert told.returncode == DONE and told.stderr == b""
        for word in ("usage: digits X.npy OUTPUT.npy", "f32[batch, 1, 8, 8] (batch from 1 to 512)", "NACRE_NUM_THREAD"):
            assert word in told.stdout.decode()
    assert execute(program, "--version").stdout.decode().startswith(f"digits (compiled by Nacre {__version__} for host")


def test_help_fits_a_terminal(tmp_path: Path, program: Path) -> None:
    names = {f"a_long_name_of_an_input_{k}": nc.ones(2) for k in range(3)}
    function = eval(f"lambda {', '.join(names)}: {' + '.join(names)}")
    wide = deploy.compile(function, list(names.values()), tmp_path / "wide").path
    for path in (program, wide):
        told = execute(path, "--help").stdout.decode()
        assert max(map(len, told.splitlines())) <= 80, told
        assert "\n  for any number.\n" in told


def test_an_output_must_be_a_file_of_its_own(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", images(2))
    before = Path("x.npy").read_bytes()
    os.link("x.npy", "hard.npy")
    Path("soft.npy").symlink_to("x.npy")
    for name in ("x.npy", "./x.npy", "hard.npy", "soft.npy"):
        done = execute(program, "x.npy", name)
        assert done.returncode == MISUSED and done.stderr.startswith(f"digits: {name}: each output must be".encode())
    assert Path("x.npy").read_bytes() == before
    assert execute(program, "x.npy", "/dev/null").returncode == DONE


def test_two_outputs_must_be_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    two = deploy.compile(lambda x: (x * 2, x * 3), [nc.ones(2)], tmp_path / "two").path
    np.save("x.npy", np.ones(2, np.float32))
    assert execute(two, "x.npy", "y.npy", "y.npy").returncode == MISUSED and not Path("y.npy").exists()
    assert execute(two, "x.npy", "/dev/null", "/dev/null").returncode == DONE
    assert execute(two, "x.npy", "y.npy", "z.npy").returncode == DONE


@pytest.mark.parametrize("count", [0, 1, 3])
def test_wrong_number_of_files(program: Path, count: int) -> None:
    done = execute(program, *["x.npy"] * count)
    assert done.returncode == MISUSED and done.stderr.startswith(b"usage: digits X.npy OUTPUT.npy\n")


@pytest.mark.parametrize("threads", ["1", "2", "7", ""])
def test_threads_from_the_environment(program: Path, model: nn.Sequential, threads: str) -> None:
    done = execute(program, "-", "-", data=saved(images(300)), env={"NACRE_NUM_THREADS": threads})
    assert same(np.load(io.BytesIO(done.stdout)), model(nc.asarray(images(300))).numpy())


@pytest.mark.parametrize("threads", ["0", "257", "-1", "2x", "many", "99999999999999999999"])
def test_wrong_threads(program: Path, threads: str) -> None:
    done = execute(program, "-", "-", data=saved(images(1)), env={"NACRE_NUM_THREADS": threads})
    assert done.returncode == MISUSED and b"a number from 1 to 256" in done.stderr


# ---- wrong files

WHOLE = saved(images(2))
HEAD = WHOLE[:128]


def headed(text: str, data: bytes = b"", version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + data


def described(descr: str = "'<f4'", order: str = "False", shape: str = "(2, 1, 8, 8)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


WRONG: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "malformed"),
    "no magic": (b"PK" + WHOLE[2:], "malformed"),
    "half a header": (WHOLE[:50], "malformed"),
    "version 4": (WHOLE[:6] + b"\x04" + WHOLE[7:], "malformed"),
    "a huge header": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "malformed"),
    "no dictionary": (headed("[]\n"), "malformed"),
    "a key missing": (headed("{'descr': '<f4', 'shape': (2, 1, 8, 8)}"), "malformed"),
    "a key twice": (headed("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"), "malformed"),
    "a key more": (headed(described()[:-3] + "'more': 1}"), "malformed"),
    "text behind": (headed(described() + "x"), "malformed"),
    "a zero behind": (headed(described() + "\0"), "malformed"),
    "a number for a tuple": (headed(described(shape="(2)")), "malformed"),
    "a negative axis": (headed(described(shape="(-2, 1, 8, 8)")), "malformed"),
    "an axis beyond reason": (headed(described(shape="(99999999999999999999999, 1, 8, 8)")), "malformed"),
    "forty axes": (headed(described(shape="(" + "1, " * 40 + ")")), "malformed"),
    "a zero before a digit": (headed(described(shape="(02, 1, 8, 8)"), WHOLE[128:]), "malformed"),
    "two zeros before a digit": (headed(described(shape="(2, 001, 8, 8)"), WHOLE[128:]), "malformed"),
    "a terminal's control characters": (headed(described(descr="'\x1b]0;title\x07<f4'")), "malformed"),
    "a line end in a string": (headed(described(descr="'<f4\ndigits: done'")), "malformed"),
    "bytes beyond ASCII": (headed(described(descr="'<f\x80'")), "malformed"),
    "a long dtype": (headed(described(descr=f"'{'f' * 9000}'")), f"it is {'f' * 40}[2, 1, 8, 8]"),
    "an open string": (headed("{'descr"), "malformed"),
    "an escape": (headed("{'de\\scr': '<f4'}"), "malformed"),
    "fields": (headed(described(descr="[('a', '<f4')]")), "malformed"),
    "float64": (saved(images(2).astype(np.float64)), "it is <f8[2, 1, 8, 8]"),
    "big-endian": (saved(images(2).astype(">f4")), "it is >f4[2, 1, 8, 8]"),
    "objects": (headed(described(descr="'|O'")), "it is |O[2, 1, 8, 8]"),
    "three axes": (saved(images(2)[:, 0]), "it is <f4[2, 8, 8]"),
    "a scalar": (saved(np.ones((), np.float32)), "it is <f4[]"),
    "another height": (saved(np.zeros((2, 1, 7, 8), np.float32)), "it is <f4[2, 1, 7, 8]"),
    "too large a batch": (headed(described(shape="(513, 1, 8, 8)")), "batch from 1 to 512); it is"),
    "an empty batch": (saved(images(0)), "it is <f4[0, 1, 8, 8]"),
    "Fortran order": (saved(np.asfortranarray(np.arange(128, dtype=np.float32).reshape(2, 1, 8, 8))), "C order"),
    "too short": (WHOLE[:-1], "too short"),
    "too long": (WHOLE + b"\0", "too long"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files(program: Path, name: str, tmp_path: Path) -> None:
    data, message = WRONG[name]
    (tmp_path / "x.npy").write_bytes(data)
    done = execute(program, tmp_path / "x.npy", tmp_path / "y.npy")
    assert done.returncode == MISUSED, done
    assert done.stderr.decode().startswith(f"digits: {tmp_path}/x.npy: ") and message in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1 and not (tmp_path / "y.npy").exists()


def test_files_that_cannot_be_opened(program: Path, tmp_path: Path) -> None:
    done = execute(program, tmp_path / "none.npy", tmp_path / "y.npy")
    assert done.returncode == MISUSED
    assert done.stderr.decode() == f"digits: {tmp_path}/none.npy: No such file or directory\n"
    done = execute(program, tmp_path, tmp_path / "y.npy")
    assert done.returncode == MISUSED and b"Is a directory" in done.stderr
    done = execute(program, "-", tmp_path / "none" / "y.npy", data=WHOLE)
    assert done.returncode == FAILED and b"No such file or directory" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk(program: Path) -> None:
    done = execute(program, "-", "/dev/full", data=WHOLE)
    assert done.returncode == FAILED and b"No space left" in done.stderr


def limited(program: Path, *words: object) -> subprocess.CompletedProcess[bytes]:
    """A run that may not write more than 512 bytes to a file."""
    command = 'ulimit -f 1; exec "$@"'  # blocks of 512 bytes in a POSIX shell, of 1024 in bash
    return subprocess.run(["sh", "-c", command, "sh", *map(str, (program, *words))], capture_output=True, check=False)


def test_no_half_file_is_left(program: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", images(300))
    done = limited(program, tmp_path / "x.npy", tmp_path / "y.npy")
    assert (done.returncode, done.stderr.decode()) == (FAILED, f"digits: {tmp_path}/y.npy: File too large\n")
    assert os.listdir(tmp_path) == ["x.npy"]
    np.save(tmp_path / "y.npy", np.arange(3))
    assert limited(program, tmp_path / "x.npy", tmp_path / "y.npy").returncode == FAILED
    assert np.load(tmp_path / "y.npy").tolist() == [0, 1, 2] and sorted(os.listdir(tmp_path)) == ["x.npy", "y.npy"]


def test_a_new_file_replaces_the_old_one(program: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", images(2))
    (tmp_path / "y.npy").write_bytes(b"old")
    (tmp_path / "y.npy").chmod(0o640)
    (tmp_path / "link.npy").symlink_to("y.npy")
    mask = os.umask(0o027)
    try:
        for name in ("link.npy", "z.npy"):
            assert execute(program, tmp_path / "x.npy", tmp_path / name).returncode == DONE
    finally:
        os.umask(mask)
    assert (tmp_path / "link.npy").is_symlink() and np.load(tmp_path / "y.npy").shape == (2, 10)
    assert [(tmp_path / n).stat().st_mode & 0o777 for n in ("y.npy", "z.npy")] == [0o640, 0o640]
    assert sorted(os.listdir(tmp_path)) == ["link.npy", "x.npy", "y.npy", "z.npy"]
    long = tmp_path / ("y" * 251 + ".npy")
    assert execute(program, tmp_path / "x.npy", long).returncode == DONE and np.load(long).shape == (2, 10)


@given(
    st.lists(st.tuples(st.integers(0, len(HEAD) - 1), st.integers(0, 255)), min_size=1, max_size=4), st.integers(-40, 8)
)
@settings(max_examples=60, deadline=None)
def test_headers_of_any_bytes(program: Path, changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(WHOLE)
    for place, value in changes:
        data[place] = value
    done = execute(program, "-", "-", data=bytes(data[:cut] if cut < 0 else data + bytes(cut)))
    assert done.returncode in (DONE, MISUSED)


# ---- several values, and places with nothing else


def test_several_inputs_and_outputs(tmp_path: Path) -> None:
    def parts(a: object, flag: object) -> object:
        return {"sum": nc.sum(a), "kept": nc.where(flag, a, 0 * a), "count": nc.sum(nc.astype(flag, nc.int64))}

    a, flag = np.arange(6, dtype=np.float64).reshape(2, 3), np.array([[1, 0, 1], [0, 1, 1]], bool)
    made = deploy.compile(parts, [a, flag], tmp_path / "parts")
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "flag.npy", flag)
    names = [tmp_path / f"{n}.npy" for n in ("a", "flag", *made.interface.output_names)]
    assert execute(made.path, *names).returncode == DONE
    assert made.interface.output_names == ("sum", "kept", "count")
    total, kept, count = map(np.load, names[2:])
    assert total.shape == () and total == 15 and count == 4 and count.dtype == np.int64
    assert same(kept, np.where(flag, a, 0))


def test_bfloat16_files(tmp_path: Path) -> None:
    made = deploy.compile(lambda x: x * 2, [nc.ones(5, dtype=nc.bfloat16)], tmp_path / "twice")
    x = nc.tensor([1.0, 2.5, -3.0, 0.0, 7.0], dtype=nc.bfloat16).numpy()
    done = execute(made.path, "-", "-", data=saved(x))
    assert done.returncode == DONE, done.stderr
    assert np.load(io.BytesIO(done.stdout)).view(x.dtype).tolist() == (x * 2).tolist()


def test_small(program: Path) -> None:
    assert program.stat().st_size <= 1_500_000


def test_quick_to_start(program: Path, tmp_path: Path) -> None:
    """A whole run on one image, the process included; the least time of many, as the machine is shared."""
    np.save(tmp_path / "x.npy", images(1))
    taken: list[float] = []
    for _ in range(60):
        start = time.perf_counter()
        assert execute(program, tmp_path / "x.npy", tmp_path / "y.npy").returncode == DONE
        taken.append(time.perf_counter() - start)
    assert min(taken) <= 0.005, sorted(taken)[:5]


def may_change_root() -> bool:
    """Whether a child process may change the root directory; even root may not in a container."""
    script = "import os, sys; os.chroot(sys.argv[1])"
    return subprocess.run([sys.executable, "-c", script, "/"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not may_change_root(), reason="this user may not change the root directory (root may)")
@pytest.mark.parametrize("static", [False, True])
def test_in_an_empty_root(model: nn.Sequential, static: bool, tmp_path: Path) -> None:
    made = deploy.compile(
        model, [nc.zeros((2, 1, 8, 8))], tmp_path / "digits", static=static, dynamic_shapes={"x": {0: BATCH}}
    )
    if not static:
        for line in subprocess.run(["ldd", made.path], capture_output=True, text=True, check=True).stdout.splitlines():
            needed = next((word for word in line.split() if word.startswith("/")), None)
            if needed is not None:
                place = tmp_path / needed[1:]
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(needed, place)
    np.save(tmp_path / "x.npy", images(9))
    done = subprocess.run(
        ["/digits", "/x.npy", "/y.npy"],
        preexec_fn=lambda: os.chroot(tmp_path),
        capture_output=True,
        cwd="/",
        check=False,
    )
    assert (done.returncode, done.stderr) == (DONE, b"")
    assert same(np.load(tmp_path / "y.npy"), model(nc.asarray(images(9))).numpy())


@pytest.mark.skipif(host_target().isa == "neon", reason="an x86-64 level")
def test_another_level_gives_the_same_bits(model: nn.Sequential, tmp_path: Path) -> None:
    made = deploy.compile(model, [nc.zeros((4, 1, 8, 8))], tmp_path / "digits", target="x86-64-v3")
    done = execute(made.path, "-", "-", data=saved(images(4)))
    assert same(np.load(io.BytesIO(done.stdout)), model(nc.asarray(images(4))).numpy())


def lacking() -> str | None:
    """A feature that this processor does not have."""
    return next((f for f in reversed(X86_64.cpuid) if f not in aim("host").features), None)


@pytest.mark.skipif(host_target().isa == "neon" or lacking() is None, reason="nothing that this processor lacks")
def test_a_processor_without_a_feature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = aim("host")
    more = dataclasses.replace(found, features=(*found.features, str(lacking())))
    monkeypatch.setattr(importlib.import_module("nacre.deploy.compile"), "aim", lambda _: more)
    made = deploy.compile(lambda x: x + 1, [nc.ones(3)], tmp_path / "program")
    done = execute(made.path, "-", "-", data=saved(np.ones(3, np.float32)))
    assert done.returncode == UNSUPPORTED and done.stdout == b""
    assert done.stderr == b"program: this processor lacks instructions that the program was compiled for\n"
    assert execute(made.path, "--help").returncode == DONE
    shared = Library(deploy.compile(lambda x: x + 1, [nc.ones(3)], tmp_path / "lib.so", "shared"))
    assert shared.code([np.ones(3, np.float32), np.ones(3, np.float32)], []) == PROCESSOR
    assert shared.workspace() == -PROCESSOR and shared.threads(1) == PROCESSOR


@pytest.mark.slow
@pytest.mark.parametrize("target", ["x86_64-linux-musl", "aarch64-linux-musl", "aarch64-linux-gnu"])
def test_other_targets(model: nn.Sequential, target: str, tmp_path: Path) -> None:
    if not can_link(target):
        pytest.skip("nothing here links for it")
    made = deploy.compile(model, [nc.zeros((4, 1, 8, 8))], tmp_path / "digits", target=target)
    machine = target.partition("-")[0]
    assert int.from_bytes(made.path.read_bytes()[18:20], "little") == ELF_MACHINES[machine]
    runner = [] if machine == platform.machine() else [shutil.which(f"qemu-{machine}") or ""]
    if "" in runner or (runner and not target.endswith("musl")):
        pytest.skip("linked, but nothing here runs it")
    done = subprocess.run([*runner, made.path, "-", "-"], input=saved(images(4)), capture_output=True, check=False)
    assert same(np.load(io.BytesIO(done.stdout)), model(nc.asarray(images(4))).numpy())
