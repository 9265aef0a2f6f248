"""Shared libraries give the bits of the same function run here, for every size, and check their arguments."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nacre as nc
from deploy.calls import Library, can_link, outputs_of, same
from nacre import deploy, nn
from nacre.base import dtypes
from nacre.deploy import library
from nacre.deploy.target import aim
from nacre.examples.digits import network
from nacre.native.engine import host_target

pytestmark = pytest.mark.skipif(not can_link(), reason="nothing here links for this machine")

BATCH = nc.Dim("batch", min=0, max=512)
RNG = np.random.default_rng(7)


@pytest.fixture(scope="module")
def model() -> nn.Sequential:
    nc.random.seed(3)
    return network().eval()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("deploy")


@pytest.fixture(scope="module")
def digits(model: nn.Sequential, place: Path) -> Library:
    path = place / "libdigits.so"
    return Library(deploy.compile(model, [nc.zeros((2, 1, 8, 8))], path, "shared", dynamic_shapes={"x": {0: BATCH}}))


def images(n: int) -> np.ndarray:
    return RNG.normal(size=(n, 1, 8, 8)).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 17, 64, 255, 512])
def test_same_bits(digits: Library, model: nn.Sequential, n: int, threads: int) -> None:
    x = images(n)
    assert digits.threads(threads) == 0
    assert same(digits(x, batch=n)[0], model(nc.asarray(x)).numpy())


def test_same_bits_for_every_batch(digits: Library, model: nn.Sequential) -> None:
    whole = images(512)
    expected = model(nc.asarray(whole)).numpy()
    digits.threads(2)
    for n in range(1, 513):
        assert same(digits(whole[:n], batch=n)[0], expected[:n]), n


# ---- programs of every kind

B, T = nc.Dim("batch", min=1, max=40), nc.Dim("time", min=1, max=24)


def attention(x: Any) -> Any:
    return nn.functional.softmax(x @ nc.permute_dims(x, (0, 2, 1))) @ x


PROGRAMS: dict[str, tuple[Callable[..., Any], list[Any], dict[str, Any]]] = {
    "attention over two sizes": (attention, [np.zeros((2, 3, 8), np.float32)], {"x": {0: B, 1: T}}),
    "a long sum": (lambda x: nc.sum(x), [np.zeros((3, 5), np.float32)], {"x": {0: nc.Dim("n", max=100_000)}}),
    "several results": (
        lambda x, y: (x + y, nc.sum(x * y, axis=0)),
        [np.zeros((3, 5)), np.zeros((3, 5))],
        {"x": {0: B}, "y": {0: B}},
    ),
    "a scalar": (lambda x: nc.exp(x), [np.float64(0.5)], {}),
    "a multiple of a size": (lambda x: nc.reshape(x, (-1, 2)) * 2, [np.zeros((6,), np.float32)], {"x": {0: 2 * T}}),
    "products": (lambda a, b: a @ b, [np.zeros((9, 300), np.float32), np.zeros((300, 7), np.float32)], {"a": {0: B}}),
}


def given_for(dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
    if dtype.kind in "fV":
        return np.asarray(RNG.normal(size=shape)).astype(dtype)
    return np.asarray(RNG.integers(0, 2 if dtype.kind == "b" else 100, size=shape)).astype(dtype)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, tmp_path: Path) -> None:
    function, examples, dynamic = PROGRAMS[name]
    made = Library(deploy.compile(function, examples, tmp_path / "program.so", "shared", dynamic_shapes=dynamic))
    symbols = made.about.symbols
    for sizes in (
        {s.name: s.low for s in symbols},
        {s.name: min(s.high, 19) for s in symbols},
        {s.name: s.high for s in symbols},
    ):
        inputs = [
            given_for(t.dtype.numpy, [n if isinstance(n, int) else n.evaluate(sizes) for n in t.shape])
            for t in made.about.input_types
        ]
        wanted = nc.jit(function)(*map(nc.asarray, inputs))
        for got, want in zip(made(*inputs, **sizes), wanted if isinstance(wanted, tuple) else [wanted], strict=True):
            assert same(got, want.numpy()), (name, sizes)


@pytest.mark.skipif(host_target().isa == "neon", reason="x86-64 levels")
@pytest.mark.parametrize("target", ["host", "x86-64-v3", "x86-64-v4"])
def test_short_products_for_every_level(target: str, tmp_path: Path) -> None:
    """Products of short integers with the instructions of each level."""
    if not set(aim(target).features) <= set(aim("host").features):
        pytest.skip("this machine does not run that level")

    def products(a: Any, b: Any, q: Any, w: Any) -> Any:
        return a @ b, nc.matmul(a, b, dtype=nc.float32), nc.matmul(q, w, dtype=nc.int32)

    half = np.dtype(ml_dtypes.bfloat16)
    inputs = [np.asarray(RNG.normal(size=s)).astype(half) for s in ((9, 301), (301, 70))]
    inputs += [RNG.integers(-128, 128, s).astype(np.int8) for s in ((9, 301), (301, 70))]
    sizes = {"a": {0: B}, "q": {0: B}}
    made = Library(deploy.compile(products, inputs, tmp_path / "p.so", "shared", target, dynamic_shapes=sizes))
    wanted = products(*map(nc.asarray, inputs))
    for got, want in zip(made(*inputs, batch=9), wanted, strict=True):
        assert same(got, want.numpy())


def test_the_bits_of_the_fast_mode(tmp_path: Path) -> None:
    nc.random.seed(4)
    layer = nn.Conv2d(16, 16, 3, padding=1)
    x = RNG.normal(size=(3, 16, 12, 12)).astype(np.float32)
    exact = layer(nc.asarray(x)).numpy()
    with nc.numerics("fast"):
        made = Library(deploy.compile(layer, [nc.asarray(x)], tmp_path / "fast.so", "shared"))
        wanted = layer(nc.asarray(x)).numpy()
    assert same(made(x)[0], wanted) and not same(wanted, exact)


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_images_in_blocks_of_channels(mode: str, tmp_path: Path) -> None:
    nc.random.seed(5)
    layers = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 48, 3), nn.ReLU(), nn.Conv2d(48, 16, 3)
    )
    x = RNG.normal(size=(3, 3, 19, 17)).astype(np.float32)
    with nc.numerics(mode):
        made = Library(deploy.compile(layers, [nc.asarray(x)], tmp_path / "blocks.so", "shared"))
        assert same(made(x)[0], layers(nc.asarray(x)).numpy())


def several(x: Any, pair: Any) -> Any:
    return {"total": nc.sum(x, axis=0), "scaled": [pair[0] * x, pair[1] + 1]}


def test_names_of_outputs_come_from_their_structure(tmp_path: Path) -> None:
    made = deploy.compile(several, [np.zeros(3), (np.ones(3), np.zeros(4))], tmp_path / "program.o", "object")
    assert made.interface.input_names == ("x", "pair_0", "pair_1")
    assert made.interface.output_names == ("total", "scaled_0", "scaled_1")


@pytest.mark.parametrize("name", ["nacre", "nacre_pool", "driver", "main"])
def test_no_name_meets_those_of_the_runtime(name: str, tmp_path: Path) -> None:
    made = Library(deploy.compile(lambda x: x * 2, [np.zeros(3, np.float32)], tmp_path / f"lib{name}.so", "shared"))
    assert made.about.name == name
    assert made(np.arange(3, dtype=np.float32))[0].tolist() == [0.0, 2.0, 4.0]


def test_every_dtype(tmp_path: Path) -> None:
    examples = [np.zeros(70, d.numpy) for d in dtypes.ALL]

    def twice(*xs: Any) -> Any:
        return [nc.where(x, x, x) if x.dtype is nc.bool else x + x for x in xs]

    made = Library(deploy.compile(twice, examples, tmp_path / "program.so", "shared"))
    inputs = [given_for(x.dtype, [70]) for x in examples]
    for got, x in zip(made(*inputs), inputs, strict=True):
        assert same(got, np.asarray(x if x.dtype == bool else x + x)), x.dtype
    assert ml_dtypes.bfloat16 in [x.dtype for x in inputs]


# ---- checked arguments


def test_errors(digits: Library) -> None:
    x, y = images(4), outputs_of(digits.about.output_types, {"batch": 4})[0]
    assert digits.code([x, y], [513]) == digits.code([x, y], [-1]) == library.SIZE
    assert digits.code([None, y], [4]) == digits.code([x, None], [4]) == library.POINTER
    crooked = np.zeros(4 * 64 * 4 + 1, np.uint8)[1:]
    assert digits.code([crooked, y], [4]) == library.ALIGNMENT
    digits.threads(1)
    need = digits.workspace(4)
    assert digits.workspace(513) == -library.SIZE and need > 0 and need % 64 == 0
    room = np.zeros(need + 64, np.uint8)
    at = -(-room.ctypes.data // 64) * 64
    assert digits.code([x, y], [4], at + 8, need) == library.ALIGNMENT
    assert digits.code([x, y], [4], at, need - 1) == library.WORKSPACE
    assert digits.code([x, y], [4], at, need) == 0
    assert digits.threads(0) == digits.threads(257) == digits.threads(-1) == library.THREADS
    for code, (_, text) in library.ERRORS.items():
        assert digits.error(code).decode() == text
    assert digits.error(0) == b"no error" and digits.error(99) == b"no such error code"


def test_sizes_without_a_maximum_never_overflow(tmp_path: Path) -> None:
    def outer(x: Any) -> Any:
        return nc.sum(nc.exp(x[:, None] * x[None, :]) @ nc.ones((1,), dtype=nc.float32)[:, None], axis=0)

    def squared(x: Any) -> Any:
        return nc.sum(x[:, None] + x[None, :], axis=0) * 2

    n = {"x": {0: nc.Dim("n")}}
    with pytest.raises(nc.Error):
        deploy.compile(outer, [np.ones(3, np.float32)], tmp_path / "outer.so", "shared", dynamic_shapes=n)
    made = Library(
        deploy.compile(squared, [np.ones(3, np.float32)], tmp_path / "squared.so", "shared", dynamic_shapes=n)
    )
    x = np.arange(40, dtype=np.float32)
    assert same(made(x, n=40)[0], nc.jit(squared)(nc.asarray(x)).numpy())
    for size in (1 << 24, 1 << 31, 1 << 32, 1 << 47, 1 << 48, (1 << 62) + 1, -1):
        need = made.workspace(size)
        assert need == -library.SIZE or need >= 4 * 64, size
        if size >= 1 << 32 or size < 0:
            assert need == -library.SIZE and made.code([x, x], [size]) == library.SIZE


def test_nothing_outside_the_workspace_is_written(digits: Library, model: nn.Sequential) -> None:
    x = images(33)
    digits.threads(2)
    need = digits.workspace(33)
    room = np.full(need + 192, 0x5A, np.uint8)
    at = -(-room.ctypes.data // 64) * 64 + 64
    place = at - room.ctypes.data
    y = np.full(33 * 10 + 32, 7, np.float32)
    assert digits.code([x, y[16:-16]], [33], at, need) == 0
    assert (room[:place] == 0x5A).all() and (room[place + need :] == 0x5A).all()
    assert (y[:16] == 7).all() and (y[-16:] == 7).all()
    assert same(y[16:-16].reshape(33, 10), model(nc.asarray(x)).numpy())


def test_unaligned_but_whole_elements(digits: Library, model: nn.Sequential) -> None:
    x = images(5)
    held = np.zeros(x.size + 1, np.float32)[1:]
    held[:] = x.reshape(-1)
    y = np.zeros(51, np.float32)[1:]
    assert digits.code([held, y], [5]) == 0
    assert same(y.reshape(5, 10), model(nc.asarray(x)).numpy())


def test_calls_from_several_threads(digits: Library, model: nn.Sequential) -> None:
    digits.threads(2)
    x = images(130)
    wanted = model(nc.asarray(x)).numpy()
    wrong: list[int] = []

    def call(k: int) -> None:
        for n in (1, 64, 130, 7):
            if not same(digits(x[:n], batch=n)[0], wanted[:n]):
                wrong.append(k)

    threads = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


# ---- from C

PROGRAM = """
#include <stdio.h>
#include "gain.h"
int main(void) {
  float x[6] = {1, 2, 3, 4, 5, 1e-40f}, y[6];
  int32_t code = gain_run(x, y, 3, NULL, 0);
  if (code) { puts(gain_error(code)); return 1; }
  const uint32_t *bits = (const void *)y;
  for (int k = 0; k < 6; k++) printf("%u ", bits[k]);
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("kind", ["shared", "object"])
@pytest.mark.parametrize("option", ["-O2", "-ffast-math"])  # the latter starts with subnormal numbers flushed
def test_from_c(kind: str, option: str, tmp_path: Path) -> None:
    def gain(x: Any) -> Any:
        return x * 0.5

    file = tmp_path / ("libgain.so" if kind == "shared" else "gain.o")
    made = deploy.compile(gain, [nc.zeros((3, 2))], file, kind, dynamic_shapes={"x": {0: nc.Dim("n", max=9)}})
    assert made.header == tmp_path / "gain.h"
    (tmp_path / "main.c").write_text(PROGRAM)
    subprocess.run(
        [
            "cc",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            option,
            "main.c",
            file.name,
            "-o",
            "main",
            "-Wl,-rpath,$ORIGIN",
            "-lpthread",
        ],
        cwd=tmp_path,
        check=True,
    )
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    values = np.array([1, 2, 3, 4, 5, 1e-40], np.float32) * np.float32(0.5)
    assert list(map(int, done.stdout.split())) == values.view(np.uint32).tolist()


TEN_LINES = """\
#include <stdio.h>
#include "digits.h"
static float images[512 * 64], scores[512 * 10];
int main(void) {
  int64_t n = fread(images, 64 * sizeof(float), 512, stdin);
  int32_t code = digits_run(images, scores, n, NULL, 0);
  if (code == 0) fwrite(scores, 10 * sizeof(float), n, stdout);
  else fputs(digits_error(code), stderr);
  return code;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_ten_line_program_reads_digits(digits: Library, model: nn.Sequential, place: Path) -> None:
    assert TEN_LINES.count("\n") == 10
    (place / "main.c").write_text(TEN_LINES)
    subprocess.run(
        ["cc", "-Wall", "-Wextra", "-Werror", "-O2", "main.c", "libdigits.so", "-o", "read", "-Wl,-rpath,$ORIGIN"],
        cwd=place,
        check=True,
    )
    for n in (1, 9, 512):
        x = images(n)
        done = subprocess.run([place / "read"], input=x.tobytes(), capture_output=True, check=True)
        assert same(np.frombuffer(done.stdout, np.float32).reshape(n, 10), model(nc.asarray(x)).numpy())
    none = subprocess.run([place / "read"], input=b"", capture_output=True, check=False)
    assert none.returncode == 0 and none.stdout == b""
