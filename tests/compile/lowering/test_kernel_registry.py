"""The registry of kernels: the choice of a kernel, refused registrations, and kernels from outside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import nacre as nc
from nacre.base.dtypes import float32
from nacre.base.errors import ArgumentError, CompileError
from nacre.base.types import TensorType
from nacre.compile.extensions import changed, versions
from nacre.compile.fusion.materialisation import View
from nacre.compile.lowering.kernel_registry import (
    RULE,
    always,
    explain_choice,
    kernel_for,
    kernels_for,
    register_kernel,
)
from nacre.compile.lowering.kernel_selection import gemm_steps
from nacre.compile.lowering.template_step import TemplateStep
from nacre.compile.pipeline import compile_graph
from nacre.interpret.stage import stage
from nacre.ir.graph import Equation, Graph
from nacre.native.isa import AVX2, AVX512, NEON, Isa
from nacre.ops.dot import dot_p
from nacre.ops.pointwise import exp_p
from nacre.trace.value import Value

MATRIX = TensorType((8, 8), float32)


def product() -> Graph:
    def f(a: Value, b: Value) -> list[Value]:
        return [nc.matmul(a, b)]

    return stage(f, [MATRIX, MATRIX]).graph


@pytest.fixture(autouse=True)
def own_kernels() -> Iterator[None]:
    """Remove the kernels that a test registers after it."""
    known = list(dot_p.kernels)
    yield
    dot_p.kernels[:] = known
    changed()


def build(isa: Isa, e: Equation, views: list[View], result: View) -> list[TemplateStep] | list[int]:
    return gemm_steps(isa, e, views, result)


def is_square(isa: Isa, e: Equation) -> bool:
    return e.inputs[0].type.shape[0] == e.inputs[0].type.shape[1]


def test_the_most_specific_target_is_chosen_and_then_the_latest() -> None:
    (e,) = product().equations
    (first,) = kernels_for(AVX2, e)
    everywhere = register_kernel(dot_p, "*", always, build)
    wide = register_kernel(dot_p, "avx*", is_square, build)
    exact = register_kernel(dot_p, "avx512", always, build)
    register_kernel(dot_p, "avx512", lambda isa, e: False, build)
    assert kernels_for(AVX512, e) == [exact, wide, everywhere, first]
    assert kernels_for(AVX2, e) == [wide, everywhere, first]
    assert kernel_for(NEON, e) is everywhere
    again = register_kernel(dot_p, "avx512", always, build)
    assert kernel_for(AVX512, e) is again


def test_the_choice_can_be_printed() -> None:
    (e,) = product().equations
    register_kernel(dot_p, "neon", always, build)
    text = explain_choice(NEON, e)
    assert RULE in text
    assert [line.partition(" for ")[2] for line in text.splitlines()[1:]] == ["neon", "*"]
    dot_p.kernels.clear()
    assert "no kernel" in explain_choice(NEON, e)


def test_a_target_must_be_one() -> None:
    with pytest.raises(ArgumentError, match="target must match an instruction set; got 'sse'"):
        register_kernel(dot_p, "sse", always, build)


def test_a_primitive_must_have_kernels() -> None:
    with pytest.raises(ArgumentError, match="must be a template or have a nest; got exp"):
        register_kernel(exp_p, "*", always, build)


def test_a_template_without_a_kernel_is_refused() -> None:
    dot_p.kernels.clear()
    with pytest.raises(CompileError, match="no kernel is registered that serves dot"):
        compile_graph(product())


def test_a_kernel_from_outside_is_used_and_its_programs_are_not_cached() -> None:
    graph, used = product(), list[str]()

    def noted(isa: Isa, e: Equation, views: list[View], result: View) -> list[TemplateStep] | list[int]:
        used.append(isa.name)
        return gemm_steps(isa, e, views, result)

    before = compile_graph(graph).executable
    assert versions(graph) == []
    register_kernel(dot_p, "*", always, noted)
    after = compile_graph(graph).executable
    assert used and [c.text for c in after.codes] == [c.text for c in before.codes]
    assert versions(graph) is None
