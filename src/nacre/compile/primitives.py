"""The primitives that only the compiler creates: convolutions and maxima over blocks of channels, convolutions of half
types with wider results, whole attentions, and checks of positions.

They have no derivative and no batching rule, because differentiation and batching come before compilation.  Their
kernels read half types or other layouts directly; the primitives that they replace need separate equations for that.
"""

from __future__ import annotations

from typing import Any, Final

from nacre.base.dtypes import DType, int64
from nacre.base.errors import ArgumentError
from nacre.base.types import Shape, TensorType
from nacre.ir.primitive import Primitive, RangeCheck, RuleKind, Template, register_rule
from nacre.kernel.order_convolution import CHANNEL_BLOCK
from nacre.ops.check import require_bounds
from nacre.ops.convolution import convolve_p, input_grad_p, weight_grad_p
from nacre.ops.window import window_max_p
from nacre.ops.winograd import winograd_p

BLOCK: Final = CHANNEL_BLOCK

# ---- images in blocks


def in_blocks(shape: Shape) -> Shape:
    """The shape of images [N, C, H, W] in blocks."""
    images, channels, height, width = shape
    return (images, channels // BLOCK, height, width, BLOCK)


def in_planes(type: TensorType) -> TensorType:
    """The type as images [N, C, H, W]; the given one may be in blocks."""
    if type.rank != 5:
        return type
    images, blocks, height, width, block = type.shape
    return type.with_shape((images, blocks * block, height, width))


def _result(result: bool, found: TensorType) -> TensorType:
    return found.with_shape(in_blocks(found.shape)) if result else found


def _convolution_type(of: Primitive) -> Any:
    def rule(x: TensorType, w: TensorType, source: bool, result: bool, **params: Any) -> TensorType:
        """The type of a convolution whose source and result may be in blocks."""
        return _result(result, of.type_rule(in_planes(x) if source else x, w, **params))

    return rule


def _maximum_type(x: TensorType, **params: Any) -> TensorType:
    return _result(True, window_max_p.type_rule(in_planes(x), **params))


convolve_blocked_p = Primitive(
    "convolve_blocked", _convolution_type(convolve_p), Template("convolve_blocked"), takes_epilogue=True
)
winograd_blocked_p = Primitive(
    "winograd_blocked", _convolution_type(winograd_p), Template("winograd_blocked"), takes_epilogue=True
)
window_max_blocked_p = Primitive("window_max_blocked", _maximum_type, Template("window_max_blocked"))

# ---- half types


def _widened_type(of: Primitive) -> Any:
    def rule(*operands: TensorType, dtype: DType, **params: Any) -> TensorType:
        """The type of a convolution or of a gradient whose sums are its result."""
        return of.type_rule(*operands, **params).with_dtype(dtype)

    return rule


WIDENED: Final[RuleKind[Primitive]] = RuleKind("form for half types with results of a wider dtype")

widened_convolve_p, widened_input_grad_p, widened_weight_grad_p = (
    Primitive(f"widened_{p.name}", _widened_type(p), Template(f"widened_{p.name}"), takes_epilogue=p.takes_epilogue)
    for p in (convolve_p, input_grad_p, weight_grad_p)
)
register_rule(convolve_p, WIDENED, widened_convolve_p)
register_rule(input_grad_p, WIDENED, widened_input_grad_p)
register_rule(weight_grad_p, WIDENED, widened_weight_grad_p)

# ---- attention


def _attend_type(
    q: TensorType, k: TensorType, v: TensorType, *mask: TensorType, results: tuple[str, ...], out: DType, **_: object
) -> tuple[TensorType, ...]:
    rows, wide = q.shape[:-1], q.dtype.arithmetic
    dtypes = {"out": out}
    return tuple(
        TensorType((*rows, v.shape[-1]) if r in ("out", "mixed") else rows, dtypes.get(r, wide)) for r in results
    )


def _grads_type(
    q: TensorType, k: TensorType, v: TensorType, *rest: TensorType, results: tuple[str, ...], **_: object
) -> tuple[TensorType, ...]:
    shapes = {"q": q.shape, "k": k.shape, "v": v.shape}
    return tuple(TensorType(shapes[r], q.dtype.arithmetic) for r in results)


attend_p = Primitive(
    "attend", _attend_type, Template("attend"), multiple=True, main_results=frozenset(("out", "mixed"))
)
attend_grads_p = Primitive(
    "attend_grads", _grads_type, Template("attend_grads"), multiple=True, main_results=frozenset(("q", "k", "v"))
)

# ---- checks


def _checks_type(*operands: TensorType, bounds: tuple[Any, ...]) -> tuple[TensorType, ...]:
    given = list(operands)
    for low, high, kind, text, few in bounds:
        require_bounds(low, high, kind, text)
        if not few and (not given or given.pop(0) is not POSITION):
            raise ArgumentError(f"checks: a check of many integers must have a position; got {operands}")
        if not given or not given.pop(0).dtype.is_integer:
            raise ArgumentError(f"checks: a check must have integers; got {operands}")
    return ()


POSITION: Final = TensorType((), int64)
checks_p = Primitive("checks", _checks_type, RangeCheck(), multiple=True, effects=True)
