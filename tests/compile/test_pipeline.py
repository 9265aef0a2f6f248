"""Compiled graphs have the bits of their equations run one by one, and those of the kernels' interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import nacre as nc
from compile.programs import NEAR_PRODUCTS, Program, programs
from nacre.compile.pipeline import Compiled, compile_graph
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.interpret.stage import stage
from nacre.ir.graph import Graph
from nacre.kernel import interpret
from nacre.native.pool import pool
from nacre.ops import dot
from nacre.runtime.plan import Pointer
from nacre.trace.value import Value, make
from same_bits import canonical

quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
part_of_many = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


def graph_of(program: Program) -> Graph:
    types = [x.type for x in program.operands()]
    return stage(lambda *xs: list(program(*xs)), types).graph.verify()


def run(compiled: Compiled, values: Sequence[Value]) -> list[bytes]:
    executable = compiled.executable
    buffers = executable.run([x.content.address for x in values], {})
    return [canonical(make(t, b)) for t, b in zip(executable.output_types, buffers, strict=True)]


def check_fused_is_eager(program: Program) -> None:
    values = program.operands()
    wanted = list(map(canonical, program(*values)))
    compiled = compile_graph(graph_of(program))
    before = pool().threads
    try:
        for threads in (1, 3):
            pool().set_threads(threads)
            assert run(compiled, values) == wanted, f"{threads} threads\n{compiled.graph}"
    finally:
        pool().set_threads(before)


@given(program=programs())
@quick
def test_fused_is_eager(program: Program, divided: None) -> None:
    check_fused_is_eager(program)


@given(program=programs(most=8, zero=False, kinds=NEAR_PRODUCTS))
@quick
def test_products_and_their_neighbours_are_eager(program: Program, divided: None) -> None:
    check_fused_is_eager(program)


@pytest.mark.exhaustive(8)
@pytest.mark.parametrize("part", range(8))
@given(program=programs(most=8, zero=False, kinds=NEAR_PRODUCTS))
@part_of_many
def test_products_and_their_neighbours_are_eager_many_times(part: int, program: Program, divided: None) -> None:
    check_fused_is_eager(program)


@pytest.mark.exhaustive(8)
@pytest.mark.parametrize("part", range(8))
@given(program=programs())
@part_of_many
def test_fused_is_eager_many_times(part: int, program: Program, divided: None) -> None:
    check_fused_is_eager(program)


class Memory:
    """The values of a program as NumPy memory, and its launches run by the kernels' interpreter."""

    def __init__(self, compiled: Compiled, values: Sequence[Value]) -> None:
        self.plan = compiled.executable.plan
        constants = iter(compiled.executable.constants)
        given = iter(values)
        self.held: list[np.ndarray] = []
        for v in self.plan.values:
            match v.kind:
                case "input":
                    self.held.append(np.frombuffer(to_numpy(next(given)).tobytes(), np.uint8))
                case "constant":
                    self.held.append(np.frombuffer(next(constants).tobytes(), np.uint8))
                case _:
                    self.held.append(np.zeros(int(v.nbytes), np.uint8))  # type: ignore[arg-type]

    def view(self, pointer: Pointer, buffer: Any) -> np.ndarray:
        held = self.held[pointer.value]
        item = buffer.dtype.itemsize
        if 0 in buffer.shape:
            return np.zeros(buffer.shape, buffer.dtype.numpy)
        flat = held[int(pointer.offset) :]  # type: ignore[arg-type]
        flat = flat[: len(flat) // item * item].view(buffer.dtype.numpy)
        strides = [s * item for s in buffer.strides]
        return np.lib.stride_tricks.as_strided(flat, buffer.shape, strides)

    def run(self, compiled: Compiled) -> list[bytes]:
        for launch, stage_ in zip(self.plan.steps, compiled.stages, strict=True):
            kernel = stage_.kernel
            assert kernel is not None
            pointers = [s for s in launch.slots if isinstance(s, Pointer)]
            inputs = [self.view(p, b) for p, b in zip(pointers, kernel.inputs, strict=False)]
            results = interpret.run(kernel, [np.array(x) for x in inputs], {})
            for p, b, y in zip(pointers[-len(kernel.outputs) :], kernel.outputs, results, strict=True):
                self.view(p, b)[...] = y
        found: list[bytes] = []
        for k, t in enumerate(compiled.executable.output_types):
            held = self.held[self.plan.inputs + k]
            found.append(canonical(held.view(t.dtype.numpy)[: int(t.size)].reshape(t.shape)))  # type: ignore[arg-type]
        return found


@given(program=programs(products=False, most=10))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_compiled_is_interpreted(program: Program) -> None:
    values = program.operands()
    compiled = compile_graph(graph_of(program))
    assert Memory(compiled, values).run(compiled) == run(compiled, values)


@given(program=programs(most=15, zero=False))
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_jitted_twice_is_the_same(program: Program) -> None:
    values = program.operands()
    f = nc.jit(program.__call__)
    first = list(map(canonical, f(*values)))
    assert list(map(canonical, f(*values))) == first == list(map(canonical, program(*values)))


# ---- written cases


def test_equations_that_need_a_value_of_a_branch_stay_in_the_branch() -> None:
    program = Program(((1, 1), (1, 1), (1,), (1, 1)), ((6, 0, 0, 3), (2, 0, 7, 0)), nc.float32, True)
    values = program.operands()
    assert list(map(canonical, nc.jit(program.__call__)(*values))) == list(map(canonical, program(*values)))


def test_outputs_may_be_anything() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        constant = nc.zeros((3,)) + 1
        made = -nc.zeros((2,)), constant, nc.tensor(5.0), x.sum(), nc.zeros((0,))
        return x, x, y, y, y.reshape((3, 1)), y[::-1], *made

    x = nc.tensor([1.0, 2.0, -0.0])
    jitted = nc.jit(f)
    for _ in range(2):
        assert [canonical(y) for y in jitted(x)] == [canonical(y) for y in f(x)]
    addresses = [y.content.address for y in jitted(x) if y.size]
    assert len(set(addresses)) == len(addresses), "two results share memory"


def chain(length: int, kind: str) -> Any:
    def f(x: Any) -> Any:
        for _ in range(length):
            match kind:
                case "pointwise":
                    x = x * 0.999 + 0.125
                case "rows":
                    x = x - x.sum(axis=1, keepdims=True) * 0.01
                case "softmax":
                    x = nc.exp(x - x.max(axis=1, keepdims=True))
                    x = x / x.sum(axis=1, keepdims=True)
                case "products":
                    x = x @ x * 0.01
                case "views":
                    x = nc.flip(x, axis=0).T
                case "constants":
                    x = x + 1
                    y = nc.full(x.shape, 1.0)
                    for _ in range(20):
                        y = y * y
                    x = x + y
                case _:
                    raise AssertionError(kind)
        return x

    return f


@pytest.mark.parametrize(
    "kind, length",
    [("pointwise", 1000), ("rows", 500), ("softmax", 400), ("products", 600), ("views", 1000), ("constants", 90)],
)
def test_deep_graphs_compile_without_recursion(kind: str, length: int) -> None:
    f = chain(length, kind)
    x = from_numpy(np.random.default_rng(0).random((6, 6), np.float32))
    assert canonical(nc.jit(f)(x)) == canonical(f(x))


@pytest.mark.parametrize(
    "shapes, axes",
    [
        (((0, 0), (3, 0, 0)), ((1,), (2,))),
        (((2, 0), (0, 3)), ((1,), (0,))),
        (((0, 4), (4, 0)), ((1,), (0,))),
        (((2, 3, 0), (0, 5, 2)), ((2,), (0,))),
        (((0, 2, 3), (3, 2)), ((1, 2), (1, 0))),
        (((0,), (0,)), ((0,), (0,))),
    ],
)
def test_products_of_empty_tensors(shapes: Any, axes: Any) -> None:
    x, y = (nc.ones(s) for s in shapes)
    wanted = np.tensordot(x.numpy(), y.numpy(), axes).astype(np.float32)
    for f in (lambda x, y: dot.dot(x, y, axes), nc.jit(lambda x, y: dot.dot(x, y, axes) * 1 + 0)):
        np.testing.assert_array_equal(f(x, y).numpy(), wanted)


def test_wide_graphs_compile() -> None:
    def f(x: Any) -> Any:
        parts = [nc.exp(x * k) for k in range(200)]
        total = parts[0]
        for y in parts[1:]:
            total = total + y
        return total, nc.stack(parts).sum(axis=0)

    x = nc.tensor([[0.5, -0.25], [0.125, 1.0]])
    assert [canonical(y) for y in nc.jit(f)(x)] == [canonical(y) for y in f(x)]
