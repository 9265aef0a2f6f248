"""Fourier transforms as launches of the kernels of `codegen`.

The roots of unity and the list of passes are constants of the program, so all lengths with the same radices share one
kernel.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from nacre.base.dims import Size, product
from nacre.base.dtypes import DType, int64
from nacre.base.types import TensorType
from nacre.codegen.fft.kernel import NAME, FourierKernel, complex_length, fourier_kernel, items, steps
from nacre.compile.fusion.materialisation import View
from nacre.compile.lowering.kernel_registry import always, register_kernel
from nacre.compile.lowering.kernel_selection import strided
from nacre.compile.lowering.template_step import ArgSlot, TemplateStep
from nacre.ir.graph import Equation, Literal
from nacre.kernel.order_fft import plan, table
from nacre.native.isa import Isa
from nacre.ops.fft import fft_p, irfft_p, rfft_p
from nacre.runtime.executable import Code, Unit

FLOPS = 5  # operations for each number and each halving of the length, by the usual count


@lru_cache(maxsize=32)
def _constants(kind: str, n: int, isa: Isa, dtype: DType) -> tuple[View, View]:
    """The roots and the passes of a transform."""
    found: list[View] = []
    for array, each in ((table(complex_length(kind, n), dtype.numpy), dtype), (steps(kind, n, isa, dtype), int64)):
        found.append(View(Literal(array, TensorType(array.shape, each)), 0, (1,)))
    return found[0], found[1]


def fourier_steps(isa: Isa, e: Equation, views: list[View], result: View) -> list[TemplateStep] | list[int]:
    """The launch of a transform, or the operand if it must be made dense first."""
    missing = strided(e, views)
    if missing:
        return missing
    kind, (x,), y = e.primitive.name, e.inputs, e.outputs[0]
    pairs = kind == "fft"
    n = int(x.type.shape[-2] if pairs else x.type.shape[-1] if kind == "rfft" else y.type.shape[-1])
    rows: Size = product(x.type.shape[: -1 if kind == "rfft" else -2])
    kernel = fourier_kernel(kind, n, bool(e.params.get("inverse")), isa, x.type.dtype)
    roots, passes = _constants(kind, n, isa, x.type.dtype)
    p = plan(complex_length(kind, n))
    flops = FLOPS * p.n * max(1, p.n.bit_length() - 1)
    cost = FLOPS * kernel.rows * p.passes_length * max(1, len(p.passes)) * (1 + p.is_convolution)
    slots: list[ArgSlot] = [_address(v) for v in (views[0], roots, passes, result)]
    step = TemplateStep(
        _code(kernel),
        (*slots, rows),
        items(rows, kernel),
        max(1, cost // isa.lanes(x.type.dtype.memory)),
        kernel.scratch,
        (views[0], roots, passes),
        (result,),
        rows * flops,
    )
    return [step]


def _code(kernel: FourierKernel) -> Code:
    """The code of a kernel; its passes are compiled once for all kernels with the same radices."""
    rest = kernel.module.without(kernel.passes)
    names = tuple(name for name in kernel.passes.functions if name in rest.declarations)
    units = Unit(kernel.passes.exported(), shared=tuple(kernel.passes.functions)), Unit(rest.text(), names)
    return Code(kernel.module.text(), NAME, units)


def _address(place: View) -> Any:
    return place, place.offset * place.base.type.dtype.itemsize


for _primitive in (fft_p, rfft_p, irfft_p):
    register_kernel(_primitive, "*", always, fourier_steps)
