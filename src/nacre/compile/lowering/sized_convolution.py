"""Kernels of convolutions over images whose sizes are symbols."""

from __future__ import annotations

from nacre.compile.lowering import convolution_nests as nests
from nacre.compile.lowering.kernel_registry import register_kernel
from nacre.ir.graph import Equation
from nacre.ir.primitive import Nest
from nacre.native.isa import Isa
from nacre.ops.convolution import convolve_p, input_grad_p, weight_grad_p


def has_sized_images(isa: Isa, e: Equation) -> bool:
    """Whether the sizes of images are symbols, and channels, groups and windows are numbers."""
    planes = [n for type in (*(x.type for x in e.inputs), e.outputs[0].type) for n in type.shape[2:]]
    channels = [n for type in (*(x.type for x in e.inputs), e.outputs[0].type) for n in type.shape[1:2]]
    return not all(isinstance(n, int) for n in planes) and all(isinstance(n, int) for n in channels)


register_kernel(convolve_p, "*", has_sized_images, Nest(nests.forward))
register_kernel(input_grad_p, "*", has_sized_images, Nest(nests.input_grad))
register_kernel(weight_grad_p, "*", has_sized_images, Nest(nests.weight_grad))
