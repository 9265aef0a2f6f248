"""`nacre.register_kernel`: a kernel from outside is used everywhere, at once, and refused where it is unsafe."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.ir.primitive import registered
from nacre.native.isa import BY_NAME


@pytest.fixture(autouse=True)
def removed() -> Iterator[None]:
    """Remove the kernels that a test registers after it."""
    before = {p: list(p.kernels) for p in registered().values()}
    yield
    for p in registered().values():
        for k in [k for k in p.kernels if not k.is_ours and k not in before.get(p, [])]:
            k.remove()


def rows(types: Any, results: Any, factor: float = 1.0) -> str:
    x, y = types[0], results[0]
    return f"""
    kernel outside_rows(x: {x}) -> (y: {y}):
      parallel for i in {x.shape[0]}:
        alloc s: f32[]
        for k in {x.shape[1]}:
          accumulate sum s <- x[i, k]
        y[i] = s[] * {factor}:f32
    """


def operation() -> Callable[..., Any]:
    def spread(g: Any, x: Any) -> Any:
        return nc.broadcast_to(g[:, None], x.shape)

    return nc.primitive(
        "outside_rows",
        result=lambda x: (x.shape[:1], x.dtype),
        nest=lambda types, y: rows(types, (y,)),
        transposes=[spread],
    )


def doubled(types: Any, results: Any) -> str:
    return rows(types, results, 2.0)


def all_ways(f: Callable[..., Any], x: Any) -> list[list[float]]:
    """The results of every way to run a function."""
    leaf = x.astype(x.dtype).requires_grad_()
    recorded = f(leaf)
    recorded.sum().backward()
    frozen = nc.freeze(nc.jit(f), x)
    seen = [f(x), f(x), f(x), JITTED[f](x), recorded.detach(), nc.vjp(f, x)[0], frozen(x), f(x[::-1])[::-1]]
    return [y.tolist() for y in seen]


JITTED: dict[Any, Any] = {}


def test_a_kernel_replaces_another_wherever_code_was_compiled_before() -> None:
    f, x = operation(), nc.ones((3, 4))
    JITTED[f] = nc.jit(f)
    assert all_ways(f, x) == [[4.0] * 3] * 8
    kernel = nc.register_kernel(f, "*", lambda x: x.dtype is nc.float32, doubled)
    assert all_ways(f, x) == [[8.0] * 3] * 8
    kernel.remove()
    assert all_ways(f, x) == [[4.0] * 3] * 8
    kernel.remove()


def test_a_kernel_is_used_for_its_types_and_machines() -> None:
    f = operation()
    other = next(name for name in BY_NAME if name.startswith("neon")) if sys.platform != "darwin" else "avx512"
    nc.register_kernel(f, other, lambda x: True, doubled)
    assert f(nc.ones((2, 2))).tolist() == [2.0, 2.0]
    nc.register_kernel(f, "*", lambda x: x.shape[1] == 2, doubled)
    assert f(nc.ones((2, 2))).tolist() == [4.0, 4.0] and f(nc.ones((2, 3))).tolist() == [3.0, 3.0]
    nc.register_kernel(f, "*", lambda x: True, lambda types, results: rows(types, results, 3.0))
    assert f(nc.ones((2, 2))).tolist() == [6.0, 6.0]  # the latest


def test_a_kernel_for_any_size() -> None:
    f = operation()
    nc.register_kernel(f, "*", lambda x: True, doubled)
    g = nc.jit(lambda x: f(x), dynamic_shapes={"x": {0: nc.Dim("n", 1, 64), 1: nc.Dim("m", 1, 64)}})
    assert g(nc.ones((3, 5))).tolist() == [10.0] * 3 and g(nc.ones((1, 2))).tolist() == [4.0]


def test_a_kernel_of_a_primitive_of_nacre() -> None:
    def product(types: Any, results: Any, **params: Any) -> str:
        a, b = types
        return f"""
        kernel small(a: {a}, b: {b}) -> (c: {results[0]}):
          parallel for i in {a.shape[0]}:
            for j in {b.shape[1]}:
              alloc s: f32[]
              for k in {a.shape[1]}:
                accumulate sum s <- a[i, k] * b[k, j]
              c[i, j] = s[]
        """

    def small(a: Any, b: Any, **params: Any) -> bool:
        return a.shape == b.shape == (3, 3) and a.dtype is nc.float32 and params["contract"] == ((1,), (0,))

    x = nc.random.normal((3, 3))
    before = nc.matmul(x, x).numpy()
    kernel = nc.register_kernel("dot", "*", small, product)
    f = nc.jit(lambda x: nc.exp(x @ x) + 1)
    np.testing.assert_allclose(nc.matmul(x, x).numpy(), before, rtol=1e-6, atol=1e-6)
    assert "1 exp+add" in f.explain(x).plan  # not fused: the kernel computes the product alone
    assert f(x).numpy().tobytes() == (nc.exp(x @ x) + 1).numpy().tobytes()
    assert nc.matmul(nc.ones((4, 4)), nc.ones((4, 4))).tolist() == [[4.0] * 4] * 4
    kernel.remove()
    assert nc.matmul(x, x).numpy().tobytes() == before.tobytes()


def test_operands_that_are_views_are_read_with_their_strides() -> None:
    f = operation()
    nc.register_kernel(f, "*", lambda x: True, doubled)
    x = nc.random.normal((6, 8))
    np.testing.assert_allclose(f(x.T).numpy(), 2 * x.numpy().sum(0), rtol=1e-5)
    np.testing.assert_allclose(f(x[1:5, 2:7]).numpy(), 2 * x.numpy()[1:5, 2:7].sum(1), rtol=1e-5)


def bad(text: str) -> Callable[[], Any]:
    def run() -> Any:
        f = operation()
        nc.register_kernel(f, "*", lambda x: True, lambda types, results: text)
        return f(nc.ones((2, 2)))

    return run


HEAD = "kernel k(x: f32[2, 2]) -> (y: f32[2]):\n"
REFUSED: dict[str, Callable[[], Any]] = {
    "must be the name of a primitive; got 'dots'; did you mean dot": lambda: nc.register_kernel(
        "dots", "*", lambda *x: True, doubled
    ),
    "a name or a function from nacre.primitive": lambda: nc.register_kernel(nc.exp, "*", lambda *x: True, doubled),
    "match must be a function": lambda: nc.register_kernel("dot", "*", True, doubled),  # type: ignore[arg-type]
    "build must be a function": lambda: nc.register_kernel("dot", "*", bool, "text"),  # type: ignore[arg-type]
    "target must match an instruction set; got 'sse'": lambda: nc.register_kernel("dot", "sse", bool, doubled),
    "target must be a str": lambda: nc.register_kernel("dot", 3, bool, doubled),  # type: ignore[arg-type]
    "version must be a str": lambda: nc.register_kernel("dot", "*", bool, doubled, version=1),  # type: ignore[arg-type]
    "must be a template or have a nest": lambda: nc.register_kernel("exp", "*", bool, doubled),
    "a kernel must be a text": bad(None),  # type: ignore[arg-type]
    "the inputs of the kernel must be dense": bad("kernel k(x: f32[2]) -> (y: f32[2]):\n  y[0] = x[0]"),
    "the outputs of the kernel must be dense": bad("kernel k(x: f32[2, 2]) -> (y: f32[3]):\n  y[0] = x[0, 0]"),
    "must provably be from 0 to 1": bad(HEAD + "  for i in 3:\n    y[i] = x[i, 0]"),
    "must write an output": bad(HEAD + "  x[0, 0] = 1.0:f32"),
    "expected a buffer": bad(HEAD + "  y[0] = z[0]"),
    "iterations of a parallel loop must be independent": bad(HEAD + "  parallel for i in 2:\n    y[0] = x[i, 0]"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_kernels_are_refused(message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        REFUSED[message]()


def test_a_match_that_depends_on_a_symbolic_size_is_none() -> None:
    f = operation()
    nc.register_kernel(f, "*", lambda x: x.shape[0] > 3, doubled)
    g = nc.jit(lambda x: f(x), dynamic_shapes={"x": {0: nc.Dim("n", max=64)}})
    assert g(nc.ones((2, 1))).tolist() == [1.0] * 2 and g(nc.ones((5, 1))).tolist() == [1.0] * 5
    h = nc.jit(lambda x: f(x), dynamic_shapes={"x": {0: nc.Dim("n", min=4)}})
    assert h(nc.ones((5, 1))).tolist() == [2.0] * 5 and f(nc.ones((5, 1))).tolist() == [2.0] * 5


@pytest.mark.parametrize("word", ["match", "build"])
def test_an_error_of_a_kernel_names_it(word: str) -> None:
    def fails(*types: Any) -> Any:
        raise nc.ShapeError("mine")

    f = operation()
    nc.register_kernel(f, "*", *((fails, doubled) if word == "match" else (lambda x: True, fails)))
    with pytest.raises(nc.ShapeError, match="mine") as caught:
        f(nc.ones((2, 2)))
    assert caught.value.__notes__[0] == f"raised in {word} of a kernel of outside_rows"


@pytest.mark.parametrize("word", ["match", "build", "nest"])
def test_registering_while_a_kernel_is_built_is_refused(word: str) -> None:
    def registers(*types: Any) -> Any:
        nc.register_kernel("dot", "*", lambda *x: True, doubled)

    f = nc.primitive("outside_nested", result=lambda x: x, nest=registers) if word == "nest" else operation()
    if word != "nest":
        nc.register_kernel(f, "*", *((registers, doubled) if word == "match" else (lambda x: True, registers)))
    with pytest.raises(nc.Error, match=f"must not change while code is compiled; got a call in {word} of"):
        f(nc.ones((2, 2)))


def test_a_kernel_gets_plain_parameters() -> None:
    def body(types: Any, t: Any, by: float) -> str:
        return f"kernel k(x: {types[0]}) -> (y: {t}):\n  for i in {t.shape[0]}:\n    y[i] = mul(x[i], {by}:f32)"

    seen: list[Any] = []
    f = nc.primitive("outside_by", result=lambda x, *, by: x, nest=lambda types, t, *, by: body(types, t, by))
    nc.register_kernel(
        f, "*", lambda x, *, by: seen.append(by) or True, lambda types, ts, *, by: body(types, ts[0], by + 1)
    )
    assert f(nc.ones(1), by=2.0).tolist() == [3.0] and type(seen[0]) is float


def test_registering_while_a_function_is_traced_is_refused() -> None:
    f = operation()

    def traced(x: Any) -> Any:
        nc.register_kernel(f, "*", lambda x: True, doubled)
        return f(x)

    with pytest.raises(nc.Error, match="must not change inside of a transformation"):
        nc.jit(traced)(nc.ones((2, 2)))


PROGRAM = """
import sys
import nacre as nc
x = nc.ones((3, 3))
def product(types, results, **params):
    return f'''kernel k(a: {{types[0]}}, b: {{types[1]}}) -> (c: {{results[0]}}):
      for i in 3:
        for j in 3:
          c[i, j] = {factor}.0:f32'''
nc.register_kernel("dot", "*", lambda a, b, **params: a.shape == (3, 3), product, version="{version}")
print(nc.jit(lambda x: x @ x)(x).tolist()[0][0], "nacre.codegen.loops.kernel" in sys.modules)
"""


def test_programs_are_stored_on_disk_under_the_versions_of_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NACRE_CACHE_DIR", str(tmp_path))

    def run(factor: int, version: str) -> str:
        code = PROGRAM.format(factor=factor, version=version)
        return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()[
            0
        ]

    assert [run(2, "1"), run(5, "1"), run(5, "2")] == ["2.0", "5.0", "5.0"]
    assert [run(6, ""), run(7, "")] == ["6.0", "7.0"]


def test_threads_that_call_meanwhile_leave_no_earlier_code_behind() -> None:
    f, x = operation(), nc.ones((3, 4))
    g, stop = nc.jit(lambda x: f(x) + 0.0), threading.Event()

    def call() -> None:
        while not stop.is_set():
            g(x)
            f(x)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(5):
            kernel = nc.register_kernel(f, "*", lambda x: True, doubled)
            time.sleep(0.05)
            kernel.remove()
            time.sleep(0.05)
        nc.register_kernel(f, "*", lambda x: True, doubled)
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert g(x).tolist() == f(x).tolist() == [8.0] * 3


SHARED = """
import sys
import nacre as nc
{body}
print(nc.jit(lambda x: f(x))(nc.ones(3)).tolist()[0], nc.jit(nc.tanh)(nc.ones(1)).tolist()[0])
"""
BODIES = {
    "f = nc.primitive('shared', element=lambda x: x * 3, version='1')": "3.0",
    "f = nc.primitive('shared', element=lambda x: x * 5, version='1')": "5.0",
    "k = 7\nf = nc.primitive('shared', element=lambda x: x * k, version='1')": "7.0",
    "k = 8\nf = nc.primitive('shared', element=lambda x: x * k, version='1')": "8.0",
}


def test_definitions_of_one_name_and_version_are_kept_apart_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NACRE_CACHE_DIR", str(tmp_path))
    for body, value in BODIES.items():
        line = [sys.executable, "-c", SHARED.format(body=body)]
        assert subprocess.run(line, check=True, capture_output=True, text=True).stdout.split()[0] == value


FIRST = """
import numpy as np
import nacre as nc
x = nc.tensor(np.ones((3, 3), np.float32))
if {register}:
    nc.register_kernel("dot", "*", lambda *x, **p: True, lambda types, results, **params: f'''
    kernel k(a: {{types[0]}}, b: {{types[1]}}) -> (c: {{results[0]}}):
      for i in 3:
        for j in 3:
          c[i, j] = 7.0:f32''')
print(nc.jit(lambda x: x @ x)(x).tolist()[0][0])
"""


def test_a_kernel_that_is_registered_before_anything_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NACRE_CACHE_DIR", str(tmp_path))
    for register, value in ((False, "3.0"), (True, "7.0")):
        line = [sys.executable, "-c", FIRST.format(register=register)]
        assert subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip() == value
