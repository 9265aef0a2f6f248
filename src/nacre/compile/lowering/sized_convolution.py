"""Kernels of convolutions over images whose sizes are symbols: one kernel for all sizes, which reads them.

Channels are in vector lanes where there are enough of them; otherwise a nest of kernel IR has pixels in lanes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from nacre.base.dims import Dim, Size, product
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.codegen.convolution.general import SIZES, GeneralAxis, GeneralStep
from nacre.codegen.convolution.general_depthwise import GeneralDepthwiseKernel, has_adjacent_pixels
from nacre.codegen.convolution.general_direct import GeneralCorrelation, GeneralSteps, correlate
from nacre.codegen.convolution.general_weight import GeneralWeightKernel, GeneralWeights
from nacre.compile.fusion.materialisation import View
from nacre.compile.lowering import convolution_nests as nests
from nacre.compile.lowering.kernel_registry import register_kernel
from nacre.compile.lowering.kernel_selection import strided
from nacre.compile.lowering.template_step import ArgSlot, Place, Scratch, TemplateStep
from nacre.ir.graph import Equation
from nacre.ir.primitive import Nest
from nacre.native.isa import Isa
from nacre.ops.convolution import convolve_p, input_grad_p, weight_grad_p
from nacre.runtime.executable import Code

FEW_OUTPUTS: Final = 4  # output channels of a group up to which pixels fill vectors better


def has_sized_images(isa: Isa, e: Equation) -> bool:
    """Whether the sizes of images are symbols, and channels, groups and windows are numbers."""
    types = (*(x.type for x in e.inputs), e.outputs[0].type)
    planes = [n for type in types for n in type.shape[2:]]
    return not all(isinstance(n, int) for n in planes) and all(isinstance(type.shape[1], int) for type in types)


@dataclass(frozen=True)
class GeneralForm:
    """A convolution without the sizes of its images: channels and filters of a group, and both axes."""

    groups: int
    channels: int
    filters: int
    rows: GeneralAxis
    columns: GeneralAxis
    backward: bool = False

    @property
    def inputs(self) -> int:
        """The channels of a group that are summed."""
        return self.filters if self.backward else self.channels

    @property
    def outputs(self) -> int:
        """The channels of the result in a group."""
        return self.channels if self.backward else self.filters


def _form(e: Equation, filters: TensorType, backward: bool = False) -> GeneralForm:
    w, p = filters.shape, e.params
    rows, columns = (GeneralAxis(int(w[k + 2]), p["stride"][k], p["padding"][k][0], p["dilation"][k]) for k in range(2))
    return GeneralForm(p["groups"], int(w[1]), int(w[0]) // p["groups"], rows, columns, backward)


@lru_cache(maxsize=256)
def _steps(isa: Isa, scalar: str, form: GeneralForm) -> GeneralSteps:
    rows, columns = (axis.taps(form.backward) for axis in (form.rows, form.columns))
    taps = form.rows.kernel * form.columns.kernel
    inputs, outputs = form.inputs, form.outputs
    strides = (taps, outputs * taps) if form.backward else (inputs * taps, taps)
    about = GeneralCorrelation(form.groups, inputs, outputs, rows, columns)
    return correlate(isa, scalar, about, strides, ("dy", "dx") if form.backward else ("x", "y"))


@dataclass(frozen=True)
class GeneralFamily:
    """The kernels of a convolution or of the gradient of its image."""

    backward: bool

    def match(self, isa: Isa, e: Equation) -> bool:
        """Whether channels fill vectors."""
        if not has_sized_images(isa, e) or e.outputs[0].type.dtype.is_widened:
            return False
        return _form(e, e.inputs[1].type, self.backward).outputs > FEW_OUTPUTS

    def build(self, isa: Isa, e: Equation, views: list[View], result: View) -> list[TemplateStep] | list[int]:
        """The launches over dense operands."""
        missing = strided(e, views)
        if missing:
            return missing
        x, w, y = e.inputs[0].type, e.inputs[1].type, e.outputs[0].type
        steps = _steps(isa, y.dtype.memory, _form(e, e.inputs[1].type, self.backward))
        panels = Scratch("panels", steps.panels, views[1], steps.fill)
        pack, kernel = steps.pack, steps.kernel
        sizes: dict[str, Size] = dict(zip(map(str, SIZES), (x.shape[0], *x.shape[2:], *y.shape[2:]), strict=True))
        batch = x.shape[0]
        packing = TemplateStep(
            Code(pack.text, pack.name, pack.units),
            (_address(views[1]), _address(panels), batch, *pack.sizes),
            pack.items.fixed,
            max(1, product(w.shape) // max(1, 4 * pack.items.fixed)),
            0,
            (views[1],),
            (panels,),
            0,
        )
        flops = 2 * product(y.shape) * steps.products
        return [packing, _launch(kernel, sizes, (views[0], panels), result, flops)]


@lru_cache(maxsize=256)
def _depthwise_step(isa: Isa, scalar: str, form: GeneralForm) -> GeneralStep:
    axes = form.rows.taps(form.backward), form.columns.taps(form.backward)
    buffers = ("dy", "dx") if form.backward else ("x", "y")
    return GeneralDepthwiseKernel(isa, scalar, form.groups, form.outputs, axes, buffers).write()


@dataclass(frozen=True)
class GeneralDepthwiseFamily:
    """The kernels of a convolution, or of the gradient of its image, that reads one channel for each result."""

    backward: bool

    def match(self, isa: Isa, e: Equation) -> bool:
        """Whether few results read one channel, and neighbours read neighbours."""
        if not has_sized_images(isa, e) or e.outputs[0].type.dtype.is_widened:
            return False
        form = _form(e, e.inputs[1].type, self.backward)
        single = form.inputs == 1 and 0 < form.outputs <= FEW_OUTPUTS
        return single and has_adjacent_pixels(form.columns.taps(self.backward))

    def build(self, isa: Isa, e: Equation, views: list[View], result: View) -> list[TemplateStep] | list[int]:
        """The launch over dense operands."""
        missing = strided(e, views)
        if missing:
            return missing
        x, y, form = e.inputs[0].type, e.outputs[0].type, _form(e, e.inputs[1].type, self.backward)
        sizes: dict[str, Size] = dict(zip(map(str, SIZES), (x.shape[0], *x.shape[2:], *y.shape[2:]), strict=True))
        flops = 2 * product(y.shape) * form.rows.kernel * form.columns.kernel
        kernel = _depthwise_step(isa, y.dtype.memory, form)
        return [_launch(kernel, sizes, (views[0], views[1]), result, flops)]


class GeneralWeightFamily:
    """The kernels of the gradient of a convolution's filters."""

    def match(self, isa: Isa, e: Equation) -> bool:
        """Whether filters fill vectors better than anything else."""
        if not has_sized_images(isa, e) or e.outputs[0].type.dtype.is_widened:
            return False
        form = _form(e, e.outputs[0].type)
        return form.channels > 0 and form.filters > 0 and not form.groups > form.filters == form.channels == 1

    def build(self, isa: Isa, e: Equation, views: list[View], result: View) -> list[TemplateStep] | list[int]:
        """The launch over dense operands."""
        missing = strided(e, views)
        if missing:
            return missing
        x, g, w = e.inputs[0].type, e.inputs[1].type, e.outputs[0].type
        kernel = _weight_step(isa, w.dtype.memory, _form(e, w))
        sizes: dict[str, Size] = dict(zip(map(str, SIZES), (x.shape[0], *x.shape[2:], *g.shape[2:]), strict=True))
        flops = 2 * product(g.shape) * product(w.shape[1:])
        return [_launch(kernel, sizes, (views[0], views[1]), result, flops)]


@lru_cache(maxsize=256)
def _weight_step(isa: Isa, scalar: str, form: GeneralForm) -> GeneralStep:
    about = GeneralWeights(form.groups, form.channels, form.filters, form.rows, form.columns)
    return GeneralWeightKernel(isa, scalar, about).write()


def _launch(
    kernel: GeneralStep, sizes: dict[str, Size], reads: tuple[Place, ...], result: Place, flops: Size
) -> TemplateStep:
    """The launch of a kernel for images of the given sizes."""
    return TemplateStep(
        Code(kernel.text, kernel.name),
        (*map(_address, (*reads, result)), *sizes.values()),
        _known(kernel.items, sizes),
        _known(kernel.cost, sizes),
        _known(kernel.scratch, sizes),
        reads,
        (result,),
        flops,
    )


def _known(size: Size, sizes: dict[str, Size]) -> Size:
    return size.substitute(sizes) if isinstance(size, Dim) else size


def _address(place: Place) -> ArgSlot:
    return place, place.offset * place.base.type.dtype.itemsize if isinstance(place, View) else 0


FORWARD: Final = GeneralFamily(False)
INPUT_GRAD: Final = GeneralFamily(True)
DEPTHWISE: Final = GeneralDepthwiseFamily(False)
DEPTHWISE_INPUT_GRAD: Final = GeneralDepthwiseFamily(True)
WEIGHT_GRAD: Final = GeneralWeightFamily()

register_kernel(convolve_p, "*", has_sized_images, Nest(nests.forward))
register_kernel(convolve_p, "*", DEPTHWISE.match, DEPTHWISE.build)
register_kernel(convolve_p, "*", FORWARD.match, FORWARD.build)
register_kernel(input_grad_p, "*", has_sized_images, Nest(nests.input_grad))
register_kernel(input_grad_p, "*", DEPTHWISE_INPUT_GRAD.match, DEPTHWISE_INPUT_GRAD.build)
register_kernel(input_grad_p, "*", INPUT_GRAD.match, INPUT_GRAD.build)
register_kernel(weight_grad_p, "*", has_sized_images, Nest(nests.weight_grad))
register_kernel(weight_grad_p, "*", WEIGHT_GRAD.match, WEIGHT_GRAD.build)
