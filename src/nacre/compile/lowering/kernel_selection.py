"""Matrix products and convolutions as launches: the choice of a generator for an equation, and its arguments.

A builder turns one equation into launches over the values' views; operands with unsupported strides are made dense
first.  Each builder is registered for its primitives (see `kernel_registry`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any, Final

from nacre.base.dims import Dim, Size, product
from nacre.base.dtypes import DType
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.codegen.convolution.sequence import PLANES, Blocked, Count, Steps
from nacre.codegen.gemm.plan import contiguous, product_cut
from nacre.compile.fusion.convolution_epilogue import EpilogueCode, FusedEpilogue, fused_epilogue
from nacre.compile.fusion.graph import Node
from nacre.compile.fusion.materialisation import Fusion, View
from nacre.compile.lowering.kernel_registry import FusedClusters, always, register_kernel
from nacre.compile.lowering.template_step import ArgSlot, Place, PrepackedOperand, Scratch, TemplateStep
from nacre.compile.passes.layout import is_dense, result_strides, run
from nacre.compile.primitives import (
    convolve_blocked_p,
    in_planes,
    widened_convolve_p,
    widened_input_grad_p,
    widened_weight_grad_p,
    winograd_blocked_p,
)
from nacre.ir.graph import Equation, Var
from nacre.kernel.ast import Buffer
from nacre.kernel.order_convolution import Axis, Convolution
from nacre.kernel.order_winograd import PATCH, forward_sides, gradient_sides
from nacre.native.isa import Isa
from nacre.native.text import ModuleText
from nacre.ops.convolution import convolve_p, input_grad_p, weight_grad_p
from nacre.ops.dot import dot_axes
from nacre.ops.winograd import winograd_input_grad_p, winograd_p, winograd_weight_grad_p
from nacre.runtime.executable import Code, Unit

if TYPE_CHECKING:
    from nacre.codegen.gemm.kernel import Gemm

# The generators are imported where they are called: a program without products or convolutions starts earlier so.

Written = tuple[Var, tuple[Size, ...]]  # a result and its strides


# ---- matrix products

STREAMED = 1 << 21  # elements of a matrix that is read from memory: few rows are faster with their own kernel


@dataclass(frozen=True)
class Form:
    """The choice of a product's kernel: A's dtype, whether it is the GEMV, and B's dtype if that is narrower.

    The GEMV is for few rows or columns.  `result` is the dtype of the sums, rounded once.
    """

    dtype: DType
    gemv: bool
    matrix: DType | None
    result: DType


@lru_cache(maxsize=256)
def _contraction(isa: Isa, form: Form) -> tuple[Code, Gemm]:
    return product_code(isa, form)


def product_code(isa: Isa, form: Form, **options: Any) -> tuple[Code, Gemm]:
    """The kernel of a product, with `gemm`'s options for an epilogue; products of one form share the other parts."""
    from nacre.codegen.gemm.kernel import gemm  # noqa: PLC0415 - see above

    options = options or {"outputs": [form.result]}
    module, plan = gemm(isa, form.dtype, gemv=form.gemv, matrix=form.matrix, name="nacre_kernel", **options)
    shared, units = _shared(isa, form)
    rest, names = _difference(module, shared)
    return Code(module.text(), plan.name, (*units, Unit(rest.text(), names))), plan


@lru_cache(maxsize=256)
def _shared(isa: Isa, form: Form) -> tuple[ModuleText, tuple[Unit, Unit]]:
    """The code that products of a form share, as a module and as units."""
    from nacre.codegen.gemm.kernel import shared_parts  # noqa: PLC0415 - see above

    tiles, module = shared_parts(isa, form.dtype, form.gemv, form.matrix)
    rest, names = _difference(module, tiles)
    here, others = tuple(tiles.functions), tuple(rest.functions)
    return module, (Unit(tiles.exported(), shared=here), Unit(rest.exported(), names, others))


def _difference(module: ModuleText, before: ModuleText) -> tuple[ModuleText, tuple[str, ...]]:
    """The part of a module that is not in `before`, which it includes, and the functions of `before` that it uses."""
    rest = module.without(before)
    return rest, tuple(name for name in before.functions if name in rest.declarations)


@dataclass(frozen=True)
class Factor:
    """A factor as the kernel sees it: outer and inner batch, free and contracted axis, each a run of the view's."""

    sizes: tuple[Size, Size, Size, Size]
    strides: tuple[Size, Size, Size, Size]


def _factor(type: TensorType, view: View, axes: tuple[tuple[int, ...], ...], split: int) -> Factor | None:
    """The factor read in place, with the inner batch from axis `split` on; None if it must be made dense first."""
    batch, free, contracted = axes
    groups = batch[:split], batch[split:], free, contracted
    runs = [found for each in groups if (found := run(type.shape, view.strides, each)) is not None]
    if len(runs) < len(groups):
        return None
    sizes, strides = zip(*runs, strict=True)
    return Factor(sizes, strides)


def _factors(e: Equation, views: Sequence[View]) -> list[tuple[Factor | None, ...]]:
    """Both factors, for every place at which the axes of the batch can be split into two levels."""
    axes = dot_axes(e)
    return [
        tuple(_factor(x.type, v, ax, split) for x, v, ax in zip(e.inputs, views, axes, strict=True))
        for split in range(max(1, len(axes[0][0])))
    ]


def readings(e: Equation, views: Sequence[View]) -> list[tuple[int, Factor, Factor]]:
    """The ways to read both factors in place: the axis at which the batch is split into levels, and the factors."""
    return [(split, a, b) for split, (a, b) in enumerate(_factors(e, views)) if a is not None and b is not None]


def gemm_steps(isa: Isa, e: Equation, views: list[View], result: View) -> list[TemplateStep] | list[int]:
    """The launch of a matrix product, or the operands that must be made dense first."""
    found = readings(e, views)
    if not found:
        nearest = min(_factors(e, views), key=lambda factors: factors.count(None))
        return [k for k, f in enumerate(nearest) if f is None]
    for split, a, b in found:
        strides, form = result_strides(e, result.strides, split), product_form(isa, e, a, b)
        if strides is not None and form is not None:
            code, plan = _contraction(isa, form)
            return [product_step(e, code, plan, a, b, views, [(e.outputs[0], strides)])]
    return [0, 1]


def product_form(isa: Isa, e: Equation, a: Factor, b: Factor) -> Form | None:
    """The kernel for factors read in place; None where a narrower matrix has no contiguous axis."""
    dtype, matrix = (x.type.dtype for x in e.inputs)
    gemv, result = _is_thin(isa, dtype, a, b), e.outputs[0].type.dtype
    if matrix is dtype:
        return Form(dtype, gemv, None, result)
    return Form(dtype, gemv, matrix, result) if gemv else None


def _is_thin(isa: Isa, dtype: DType, a: Factor, b: Factor) -> bool:
    """Whether the GEMV is applicable and pays; sizes that are not known yet are assumed to be large."""
    numbers = a.sizes[2], b.sizes[2], a.sizes[3], *a.strides[2:], b.strides[3], b.strides[2]
    m, n, k, *strides = (s if isinstance(s, int) else -1 for s in numbers)
    if -1 in (m, n, k, *strides) or not (1 in (m, n) or k * max(m, n) >= STREAMED):
        return False
    from nacre.codegen.gemm.kernel import is_gemv  # noqa: PLC0415 - see above

    return is_gemv(isa, dtype, m, n, k, contiguous(*strides))


def product_step(
    e: Equation,
    code: Code,
    plan: Gemm,
    a: Factor,
    b: Factor,
    views: Sequence[View],
    outputs: Sequence[Written],
    operands: Sequence[tuple[View, Buffer]] = (),
    over: Sequence[tuple[View, Var]] = (),
) -> TemplateStep:
    """The launch of a product of two factors.

    The axes of operands' buffers and of the outputs' strides are outer batch, inner batch, rows, columns.  A pair in
    `over` is an operand and the output that may overwrite it.
    """
    outer, inner, m, k = a.sizes
    n = b.sizes[2]
    batch = outer * inner
    pointers: dict[str, ArgSlot] = {
        name: (v, v.offset * x.type.dtype.itemsize) for name, v, x in zip("AB", views, e.inputs, strict=True)
    }
    if "Packed" in plan.slots:
        pointers["Packed"] = _prepacked(plan, views[1], batch, (m, n, k), b.strides)
    given: dict[str, Size] = {"batch": batch, "inner": inner, "m": m, "n": n, "k": k}
    given |= zip(("a.outer", "a.inner", "a.m", "a.k"), a.strides, strict=True)
    given |= zip(("b.outer", "b.inner", "b.n", "b.k"), b.strides, strict=True)
    for j, (v, strides) in enumerate(outputs):
        pointers[f"Output{j}"] = v, 0
        given |= zip((f"output{j}.outer", f"output{j}.inner", f"output{j}.m"), strides[:3], strict=True)
    for j, (view, buffer) in enumerate(operands):
        assert buffer.strides is not None
        pointers[f"Operand{j}"] = view, view.offset * buffer.dtype.itemsize
        given |= zip((f"operand{j}.outer", f"operand{j}.inner", f"operand{j}.m"), buffer.strides[:3], strict=False)
    assert plan.slots[-3:] == ("rows", "columns", "swap")
    slots = tuple(pointers[s] if s in pointers else given[s] for s in plan.slots[:-3])
    layout = (m, n, k, batch, a.strides[2], a.strides[3], b.strides[3], b.strides[2])
    return TemplateStep(
        code,
        slots,
        product((batch, m, n)),
        k // 8 + 1,
        0,
        (*views, *(v for v, _ in operands)),
        tuple(v for v, _ in outputs),
        2 * batch * m * n * k,
        partial(product_cut, plan.tiling),
        layout,
        over=tuple(over),
    )


def _prepacked(
    plan: Gemm, view: View, batch: Size, size: tuple[Size, Size, Size], strides: tuple[Size, ...]
) -> ArgSlot:
    """Memory in which the second factor may stay packed between calls; null where that does not pay."""
    from nacre.codegen.gemm.prepack import prepacked_bytes  # noqa: PLC0415 - see above

    nbytes = prepacked_bytes(plan.tiling, *size, strides[2] == 1)
    if batch != 1 or not nbytes:
        return 0
    return PrepackedOperand(view, nbytes), 0


# ---- convolutions


def _axis(size: int, kernel: int, stride: int, padding: tuple[int, int], dilation: int) -> Axis:
    return Axis(size, kernel, stride, padding[0], padding[1], dilation)


def convolution(
    x: TensorType,
    w: TensorType,
    stride: tuple[int, int],
    padding: tuple[tuple[int, int], ...],
    dilation: tuple[int, int],
    groups: int,
) -> Convolution:
    """The convolution of an image type and a kernel type (all sizes but the batch must be numbers)."""
    _, c, height, width = x.shape
    o, _, kh, kw = w.shape
    rows = _axis(int(height), int(kh), stride[0], padding[0], dilation[0])
    columns = _axis(int(width), int(kw), stride[1], padding[1], dilation[1])
    return Convolution(int(c), int(o), rows, columns, groups)


def _forward(isa: Isa, scalar: str, conv: Convolution, **options: Any) -> Steps:
    from nacre.codegen.convolution.kernel import forward  # noqa: PLC0415 - see above

    return forward(isa, scalar, conv, **options)


def _input_grad(isa: Isa, scalar: str, conv: Convolution, **options: Any) -> Steps:
    from nacre.codegen.convolution.kernel import input_grad  # noqa: PLC0415 - see above

    return input_grad(isa, scalar, conv, **options)


def _weight_grad(isa: Isa, scalar: str, conv: Convolution, **options: Any) -> Steps:
    from nacre.codegen.convolution.kernel import weight_grad  # noqa: PLC0415 - see above

    return weight_grad(isa, scalar, conv, **options)


def _winograd(isa: Isa, scalar: str, conv: Convolution, **options: Any) -> Steps:
    from nacre.codegen.convolution.winograd import winograd  # noqa: PLC0415 - see above

    return winograd(isa, scalar, forward_sides(conv), "x", "y", **options)


def _winograd_input_grad(isa: Isa, scalar: str, conv: Convolution, **options: Any) -> Steps:
    from nacre.codegen.convolution.winograd import winograd  # noqa: PLC0415 - see above

    return winograd(isa, scalar, gradient_sides(conv), "dy", "dx", **options)


def _winograd_weight_grad(isa: Isa, scalar: str, conv: Convolution) -> Steps:
    from nacre.codegen.convolution.winograd_weight import winograd_weight  # noqa: PLC0415 - see above

    return winograd_weight(isa, scalar, forward_sides(conv))


@dataclass(frozen=True)
class ConvolutionForm:
    """The generators' description of a convolution: the scalar type, the convolution, and the images' layouts.

    `result` is the type of the sums.
    """

    scalar: str
    result: str
    conv: Convolution
    blocked: Blocked

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of the generators that support blocks, and results of another type."""
        blocked = {} if self.blocked == PLANES else {"blocked": self.blocked}
        return blocked if self.result == self.scalar else {**blocked, "result": self.result}


@dataclass(frozen=True)
class ConvolutionFamily:
    """The generator of a convolution or of one of its gradients, its operands' and its result's names."""

    generator: Callable[..., Steps]
    operands: tuple[str, str]
    result: str
    points: int = 0  # products of an element in each Winograd tile; 0 for direct convolution

    def build(self, isa: Isa, e: Equation, views: list[View], result: View) -> list[TemplateStep] | list[int]:
        """The launches of a convolution or of one of its gradients; operands are dense."""
        return strided(e, views) or convolution_steps(self, isa, e, views, result)

    def fuse(
        self, fusion: Fusion, isa: Isa, e: Equation, before: Node | None, behind: Node | None, keeps: bool
    ) -> FusedClusters | None:
        """A convolution with the cluster that is its epilogue; None if the generator cannot write it."""
        about = None if behind is None else fused_epilogue(fusion, behind, e, keeps)
        if about is None:
            return None

        def build(isa: Isa, e: Equation, views: list[View], result: View) -> list[TemplateStep] | list[int]:
            """The launches of both; operands are dense."""
            return strided(e, views) or convolution_epilogue_steps(self, isa, e, views, about)

        return FusedClusters(build, before=False, behind=True)


DIRECT: Final = ConvolutionFamily(_forward, ("x", "w"), "y")
DIRECT_INPUT_GRAD: Final = ConvolutionFamily(_input_grad, ("dy", "w"), "dx")
DIRECT_WEIGHT_GRAD: Final = ConvolutionFamily(_weight_grad, ("x", "dy"), "dw")
WINOGRAD: Final = ConvolutionFamily(_winograd, ("x", "w"), "y", PATCH * PATCH)
WINOGRAD_INPUT_GRAD: Final = ConvolutionFamily(_winograd_input_grad, ("dy", "w"), "dx", PATCH * PATCH)
WINOGRAD_WEIGHT_GRAD: Final = ConvolutionFamily(_winograd_weight_grad, ("x", "dy"), "dw", PATCH * PATCH)


@lru_cache(maxsize=256)
def _convolution_steps(isa: Isa, family: ConvolutionFamily, about: ConvolutionForm) -> Steps:
    return family.generator(isa, about.scalar, about.conv, **about.options)


@lru_cache(maxsize=256)
def _epilogue_steps(isa: Isa, family: ConvolutionFamily, about: ConvolutionForm, code: EpilogueCode) -> Steps:
    return family.generator(isa, about.scalar, about.conv, epilogue=code, operands=code.names, **about.options)


def _types(family: ConvolutionFamily, e: Equation) -> tuple[TensorType, TensorType]:
    """The types of the image and the kernel of a convolution or of one of its gradients."""
    a, b, out = in_planes(e.inputs[0].type), e.inputs[1].type, e.outputs[0].type
    by_result = {"y": (a, b), "dx": (out, b), "dw": (a, out)}
    return by_result[family.result]


def strided(e: Equation, views: Sequence[View]) -> list[int]:
    """The operands that are not dense."""
    return [k for k, (x, v) in enumerate(zip(e.inputs, views, strict=True)) if not is_dense(x.type.shape, v.strides)]


def convolution_steps(
    family: ConvolutionFamily, isa: Isa, e: Equation, views: list[View], result: View
) -> list[TemplateStep]:
    """The launches of a convolution or of one of its gradients."""
    about = _described(family, e)
    return _convolution(family, e, about.conv, _convolution_steps(isa, family, about), views, result, {})


def convolution_epilogue_steps(
    family: ConvolutionFamily, isa: Isa, e: Equation, views: list[View], about: FusedEpilogue
) -> list[TemplateStep]:
    """The launches of a convolution with the cluster that is its epilogue."""
    described = _described(family, e)
    steps = _epilogue_steps(isa, family, described, about.code)
    result, *others = about.writes
    more: dict[str, Place] = dict(zip(about.code.names, (*about.reads, *others), strict=True))
    return written_beside(_convolution(family, e, described.conv, steps, views, result, more), others)


def written_beside(steps: list[TemplateStep], others: Sequence[Var]) -> list[TemplateStep]:
    """The launches, the last of which also writes the given operands; none for a result without elements."""
    if not steps or not others:
        return steps
    *before, last = steps
    reads = tuple(place for place in last.reads if place not in others)
    return [*before, replace(last, reads=reads, writes=(*last.writes, *others))]


def _described(family: ConvolutionFamily, e: Equation) -> ConvolutionForm:
    """The generators' description of an equation."""
    p = e.params
    x, w = _types(family, e)
    conv = convolution(x, w, p.get("stride", (1, 1)), p["padding"], p.get("dilation", (1, 1)), p["groups"])
    scalar, result = (a.type.dtype.memory for a in (e.inputs[0], e.outputs[0]))
    return ConvolutionForm(scalar, result, conv, Blocked(p.get("source", False), p.get("result", False)))


def _convolution(
    family: ConvolutionFamily,
    e: Equation,
    conv: Convolution,
    steps: Steps,
    views: Sequence[View],
    result: Place,
    more: dict[str, Place],
) -> list[TemplateStep]:
    """The launches of a convolution's steps over its operands, its result, and its epilogue's operands."""
    products = conv.taps * conv.rows.out * conv.columns.out
    if family.points:
        products = family.points * prod(forward_sides(conv).tiles)
    batch = _types(family, e)[0].shape[0]
    flops = 2 * batch * conv.filters * conv.group_channels * products
    places: dict[str, Place] = {**dict(zip(family.operands, views, strict=True)), family.result: result, **more}
    return launches(steps, places, batch, flops, flops)


def launches(steps: Steps, places: dict[str, Place], batch: Size, flops: Size, work: Size) -> list[TemplateStep]:
    """The launches of a generator's steps over values; `work` is a rough count of the operations on elements."""
    fills = {name: (_viewed(places[operand]), fill) for name, (operand, fill) in steps.fills.items()}
    nothing = None, None
    spaces = {
        name: Scratch(name, _count(count, batch), *fills.get(name, nothing)) for name, count in steps.workspaces.items()
    }
    prepacked = {
        name: PrepackedOperand(_viewed(places[operand]), nbytes, fills.get(name, nothing)[1])
        for name, (operand, nbytes) in steps.packed.items()
    }
    places = places | spaces | prepacked
    found: list[TemplateStep] = []
    for s in steps.steps:
        slots = tuple(_address(places[b]) for b in s.buffers)
        extent = _count(s.items, batch)
        writes = tuple(places[b] for b in s.writes)
        reads = tuple(places[b] for b in s.buffers if b not in s.writes and b not in steps.packed)
        whole = flops if s is steps.steps[-1] else 0
        found.append(
            TemplateStep(
                Code(s.text, s.name, s.units),
                (*slots, batch, *s.sizes),
                extent,
                _share(work, extent),
                s.scratch,
                reads,
                writes,
                whole,
                grain=s.grain,
            )
        )
    return found


def _viewed(place: Place) -> View:
    assert isinstance(place, View)
    return place


def _share(work: Size, extent: Size) -> Size:
    """A rough count of the instructions of one item."""
    if isinstance(work, Dim) or isinstance(extent, Dim):
        return 2000
    return max(1, work // max(1, 16 * extent))


def _count(count: Count, batch: Size) -> Size:
    return count.fixed + count.per_image * batch


def _address(place: Place) -> ArgSlot:
    return place, place.offset * place.base.type.dtype.itemsize if isinstance(place, View) else 0


register_kernel(convolve_p, "*", always, DIRECT.build, DIRECT.fuse)
register_kernel(convolve_blocked_p, "*", always, DIRECT.build, DIRECT.fuse)
register_kernel(input_grad_p, "*", always, DIRECT_INPUT_GRAD.build, DIRECT_INPUT_GRAD.fuse)
register_kernel(weight_grad_p, "*", always, DIRECT_WEIGHT_GRAD.build)
register_kernel(widened_convolve_p, "*", always, DIRECT.build, DIRECT.fuse)
register_kernel(widened_input_grad_p, "*", always, DIRECT_INPUT_GRAD.build, DIRECT_INPUT_GRAD.fuse)
register_kernel(widened_weight_grad_p, "*", always, DIRECT_WEIGHT_GRAD.build)
register_kernel(winograd_p, "*", always, WINOGRAD.build, WINOGRAD.fuse)
register_kernel(winograd_blocked_p, "*", always, WINOGRAD.build, WINOGRAD.fuse)
register_kernel(winograd_input_grad_p, "*", always, WINOGRAD_INPUT_GRAD.build, WINOGRAD_INPUT_GRAD.fuse)
register_kernel(winograd_weight_grad_p, "*", always, WINOGRAD_WEIGHT_GRAD.build)
