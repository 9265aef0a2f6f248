"""Products in which each group of rows has a matrix of its own, as launches of the matrix product's kernels."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from nacre.base.dims import Size
from nacre.codegen.gemm.plan import FEW, contiguous, grouped_cut
from nacre.compile.fusion.materialisation import View
from nacre.compile.grouped import grouped_dot_p
from nacre.compile.lowering.kernel_registry import always, register_kernel
from nacre.compile.lowering.kernel_selection import Form, product_code
from nacre.compile.lowering.template_step import ArgSlot, TemplateStep
from nacre.ir.graph import Equation
from nacre.native.isa import Isa
from nacre.runtime.executable import Code

if TYPE_CHECKING:
    from nacre.codegen.gemm.kernel import Gemm


@lru_cache(maxsize=64)
def _kernel(isa: Isa, form: Form) -> tuple[Code, Gemm]:
    return product_code(isa, form, outputs=[form.result], groups=True)


def grouped_steps(isa: Isa, e: Equation, views: list[View], result: View) -> list[TemplateStep] | list[int]:
    """The launch of a product by groups, or the operand that must be made dense first."""
    x, w, starts = (a.type for a in e.inputs)
    if views[2].strides != (1,):
        return [2]
    axis: int = e.params["axis"]
    m, k = x.shape
    groups, n = w.shape[0], w.shape[3 - axis]
    (a_m, a_k), (b_group, *inner) = views[0].strides, views[1].strides
    b_k, b_n = inner[axis - 1], inner[2 - axis]
    gemv = m <= FEW * groups and contiguous(a_m, a_k, b_k, b_n)[1] != "-"
    code, plan = _kernel(isa, Form(x.dtype, gemv, None, x.dtype))
    size = x.dtype.itemsize
    pointers: dict[str, ArgSlot] = {"Packed": 0, "Output0": (result, result.offset * size)}
    pointers |= {name: (v, v.offset * size) for name, v in zip("AB", views, strict=False)}
    pointers["Starts"] = views[2], views[2].offset * starts.dtype.itemsize
    given: dict[str, Size] = {"batch": groups, "inner": 1, "m": m, "n": n, "k": k, "a.m": a_m, "a.k": a_k}
    given |= {"b.outer": b_group, "b.k": b_k, "b.n": b_n, "output0.m": result.strides[0]}
    assert plan.slots[-3:] == ("rows", "columns", "swap")
    slots = tuple(pointers[s] if s in pointers else given.get(s, 0) for s in plan.slots[:-3])
    step = TemplateStep(
        code,
        slots,
        m * n,
        k // 8 + 1,
        0,
        tuple(views),
        (e.outputs[0],),
        2 * m * n * k,
        partial(grouped_cut, plan.tiling),
        (m, n, k, groups, a_m, a_k, b_k, b_n),
    )
    return [step]


register_kernel(grouped_dot_p, "*", always, grouped_steps)
