"""Two-dimensional convolution and its gradients as native kernels.

Tensors are row-major: x [N,C,H,W], w [O,C/groups,kh,kw], y [N,O,OH,OW].  Every size but the batch
is baked into the code.  The scalar is an LLVM type: float, double, half or bfloat.  Each function
returns the steps to run in order; results have the bits of `nacre.kernel.order_convolution`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from nacre.codegen.convolution.correlation import Correlation, forward_correlation, gradient_correlation
from nacre.codegen.convolution.depthwise import write_depthwise
from nacre.codegen.convolution.direct import CorrelationKernel
from nacre.codegen.convolution.half import HALF_TYPES, HalfTensor, through_float
from nacre.codegen.convolution.narrow import NarrowKernel, is_narrow
from nacre.codegen.convolution.pack import pack_weights, packed_panels
from nacre.codegen.convolution.pairs import channel_pairs, pack_pairs, packed_pairs
from nacre.codegen.convolution.sequence import PLANES, Blocked, ConvolutionEpilogue, Count, SequenceKernel, Steps
from nacre.codegen.convolution.weight_gradient import has_pixel_pairs, pair_weight_steps, weight_steps
from nacre.kernel.order_convolution import Convolution
from nacre.native.isa import Isa


def forward(
    isa: Isa,
    scalar: str,
    conv: Convolution,
    *,
    epilogue: ConvolutionEpilogue | None = None,
    operands: Sequence[str] = (),
    blocked: Blocked = PLANES,
    result: str | None = None,
) -> Steps:
    """y = epilogue(conv(x, w)); buffers x, w, y and the operands that the epilogue reads.

    The type of the sums, which the epilogue receives, is the scalar or, for half types, a `result` of float.
    """
    c = forward_correlation(conv)
    strides = (c.inputs * conv.taps, conv.taps)
    if has_pairs(isa, scalar, c):
        return _correlate_pairs(isa, c, strides, ("x", "y"), result or scalar, epilogue, operands)
    if scalar in HALF_TYPES:
        return through_float(
            isa,
            scalar,
            lambda s: forward(isa, s, conv, epilogue=epilogue, operands=operands),
            (_image(conv), _weights(conv, "w")),
            _result(conv, "y"),
            epilogue=epilogue is not None,
            result=result,
        )
    return _correlate(isa, scalar, c, strides, ("x", "y"), epilogue, operands, blocked)


def input_grad(
    isa: Isa,
    scalar: str,
    conv: Convolution,
    *,
    epilogue: ConvolutionEpilogue | None = None,
    operands: Sequence[str] = (),
    result: str | None = None,
) -> Steps:
    """dx = epilogue(gradient of conv by x); buffers dy, w, dx and the epilogue's operands; `result` as of `forward`."""
    c = gradient_correlation(conv)
    strides = (conv.taps, c.outputs * conv.taps)
    if has_pairs(isa, scalar, c):
        return _correlate_pairs(isa, c, strides, ("dy", "dx"), result or scalar, epilogue, operands)
    if scalar in HALF_TYPES:
        return through_float(
            isa,
            scalar,
            lambda s: input_grad(isa, s, conv, epilogue=epilogue, operands=operands),
            (_result(conv, "dy"), _weights(conv, "w")),
            _image(conv, "dx"),
            epilogue=epilogue is not None,
            result=result,
        )
    return _correlate(isa, scalar, c, strides, ("dy", "dx"), epilogue, operands)


def weight_grad(isa: Isa, scalar: str, conv: Convolution, *, threads: int = 4, result: str | None = None) -> Steps:
    """dw = gradient of conv by w; buffers x, dy, dw; `result` as of `forward`.

    `threads` is the number of threads to divide the work for; it does not change the result.
    """
    if has_pixel_pairs(isa, scalar, conv):
        return pair_weight_steps(isa, conv, threads, result or scalar)
    if scalar in HALF_TYPES:
        return through_float(
            isa,
            scalar,
            lambda s: weight_grad(isa, s, conv, threads=threads),
            (_image(conv), _result(conv, "dy")),
            _weights(conv, "dw"),
            result=result,
        )
    return weight_steps(isa, scalar, conv, threads) if 0 not in conv.weight_shape else Steps(())


def _image(conv: Convolution, name: str = "x") -> HalfTensor:
    return HalfTensor(name, Count(0, conv.channels), conv.rows.size * conv.columns.size)


def _result(conv: Convolution, name: str) -> HalfTensor:
    return HalfTensor(name, Count(0, conv.filters), conv.rows.out * conv.columns.out)


def _weights(conv: Convolution, name: str) -> HalfTensor:
    return HalfTensor(name, Count(conv.filters), conv.group_channels * conv.taps)


def has_pairs(isa: Isa, scalar: str, c: Correlation) -> bool:
    """Whether a correlation multiplies pairs of channels: bfloat16, channels in lanes, and an instruction for it."""
    empty = 0 in (c.groups, c.outputs, *c.out_shape, *c.in_shape)
    return (
        scalar == "bfloat" and bool(isa.halves) and c.inputs > 1 and not empty and not is_narrow(c, isa.lanes("float"))
    )


def _correlate_pairs(
    isa: Isa,
    c: Correlation,
    strides: tuple[int, int],
    buffers: tuple[str, str],
    result: str,
    epilogue: ConvolutionEpilogue | None,
    operands: Sequence[str],
) -> Steps:
    """Pack the weights as pairs of channels, and correlate."""
    c, pairs = channel_pairs(isa, c)
    kernel = CorrelationKernel(isa, "float", c, strides, buffers, operands, epilogue, result=result, pairs=pairs)
    fills = {"panels": ("w", partial(packed_pairs, pairs, strides))}
    return Steps((pack_pairs(isa, pairs, strides), kernel.write()), {"panels": Count(pairs.nbytes)}, {}, fills)


def _correlate(
    isa: Isa,
    scalar: str,
    c: Correlation,
    strides: tuple[int, int],
    buffers: tuple[str, str],
    epilogue: ConvolutionEpilogue | None,
    operands: Sequence[str],
    blocked: Blocked = PLANES,
) -> Steps:
    """Pack the weights and correlate; where channels would leave lanes idle, use pixels as lanes instead.

    Blocked images always use channels, because a result has at least as many channels as a block.
    """
    if 0 in (c.groups, c.outputs, *c.out_shape):
        return Steps(())
    source, out = buffers
    if c.inputs == 1 and 2 * c.outputs <= isa.lanes(scalar):
        k = SequenceKernel(isa, scalar, f"conv_{out}", (source, "w", out, *operands))
        return Steps((write_depthwise(k, c, source, out, epilogue, operands),))
    if is_narrow(c, isa.lanes(scalar)):
        k = SequenceKernel(isa, scalar, f"conv_{out}", (source, "w", out, *operands))
        narrow = NarrowKernel(k, c, strides, source, out, epilogue, operands)
        return Steps((narrow.write(),))
    kernel = CorrelationKernel(isa, scalar, c, strides, buffers, operands, epilogue, blocked)
    size = kernel.layout.size * kernel.k.element
    fills = {"panels": ("w", partial(packed_panels, kernel.layout, strides, kernel.k.element))}
    if kernel.packs:
        return Steps((kernel.write(),), {}, {"panels": ("w", size)}, fills)
    pack = pack_weights(SequenceKernel(isa, scalar, "conv_pack", ("w", "panels")), kernel.layout, strides)
    return Steps((pack, kernel.write()), {"panels": Count(size)}, {}, fills)
