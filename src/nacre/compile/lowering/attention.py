"""Attention as launches of the kernels of `codegen`; operands are read as stored, or made dense first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from nacre.base.dims import Size, product
from nacre.base.dtypes import DType
from nacre.base.types import Shape, row_major
from nacre.codegen.attention.rows import GRADS, RESULTS, Scores
from nacre.codegen.gemm.plan import FEW
from nacre.compile.fusion.materialisation import View
from nacre.compile.lowering.kernel_registry import always, register_kernel
from nacre.compile.lowering.template_step import ArgSlot, Place, TemplateStep
from nacre.compile.passes.layout import batch_strides, splits
from nacre.compile.primitives import attend_grads_p, attend_p
from nacre.ir.graph import Equation, Var
from nacre.native.isa import Isa
from nacre.runtime.executable import Code

if TYPE_CHECKING:
    from nacre.codegen.attention.forward import Attention

Kernel = Callable[[Scores, tuple[str, ...]], "tuple[Code, Attention]"]
Strides = tuple[Size, Size, tuple[Size, ...]]  # of outer and inner batch, and of the axes after these


@lru_cache(maxsize=64)
def _forward(isa: Isa, few: bool, scores: Scores, results: tuple[str, ...]) -> tuple[Code, Attention]:
    from nacre.codegen.attention.few_queries import few_queries  # noqa: PLC0415 - few programs have attentions
    from nacre.codegen.attention.forward import forward  # noqa: PLC0415 - likewise
    from nacre.codegen.attention.online import online  # noqa: PLC0415 - likewise

    kernel = online if scores.online else few_queries if few and not scores.causal else forward
    module, about = kernel(isa, scores, results, "nacre_kernel")
    return Code(module.text(), about.name), about


@lru_cache(maxsize=64)
def _backward(isa: Isa, scores: Scores, results: tuple[str, ...]) -> tuple[Code, Attention]:
    from nacre.codegen.attention.backward import backward  # noqa: PLC0415 - few programs have attentions

    module, about = backward(isa, scores, results, "nacre_kernel")
    return Code(module.text(), about.name), about


def attention_steps(isa: Isa, e: Equation, views: list[View], result: View) -> list[TemplateStep] | list[int]:
    """The launch of an attention, or the operands that must be made dense first."""
    queries = e.inputs[0].type.shape[-2]
    few = isinstance(queries, int) and queries <= FEW
    return _steps(e, views, result, ("Q", "K", "V"), RESULTS, partial(_forward, isa, few))


def attention_grad_steps(isa: Isa, e: Equation, views: list[View], result: View) -> list[TemplateStep] | list[int]:
    """The launch of an attention's derivative, or the operands that must be made dense first."""
    return _steps(e, views, result, ("Q", "K", "V", "G", "Most", "Shift"), GRADS, partial(_backward, isa))


def _steps(
    e: Equation, views: list[View], result: View, names: tuple[str, ...], known: Sequence[str], kernel: Kernel
) -> list[TemplateStep] | list[int]:
    """The launch of a kernel with named operands; the mask is after them, and the lengths are last."""
    last = ("Lengths",) if e.params.get("bounded", False) else ()
    names = (*(*names, "Mask")[: len(e.inputs) - len(last)], *last)
    batch = e.inputs[0].type.rank - 2
    results: tuple[str, ...] = e.params["results"]
    places: dict[str, Place] = {
        **dict(zip(names, views, strict=True)),
        **{_address(r, known): v for r, v in zip(results, e.outputs, strict=True)},
    }
    tensors = [(n, x.type.shape, v.strides, n == "Mask") for n, x, v in zip(names, e.inputs, views, strict=True)]
    for r, v in zip(results, e.outputs, strict=True):
        strides = result.strides if v is e.outputs[0] else row_major(v.type.shape)
        tensors.append((_address(r, known), v.type.shape, strides, False))
    missing: list[list[int]] = []
    for split in splits(batch):
        found = [_kernel_strides(shape, strides, split, batch, repeats) for _, shape, strides, repeats in tensors]
        missing.append([k for k, s in enumerate(found) if s is None])
        if not missing[-1]:
            given = {n: s for (n, *_), s in zip(tensors, found, strict=True) if s is not None}
            return [_launch(e, split, places, given, kernel)]
    nearest = min(missing, key=len)
    return [k for k in nearest if k < len(names)] or list(range(len(names)))


def _address(result: str, known: Sequence[str]) -> str:
    """The name of the slot that has a result's address."""
    return f"D{result}" if known is GRADS else result.capitalize()


def _kernel_strides(shape: Shape, strides: tuple[Size, ...], split: int, batch: int, repeats: bool) -> Strides | None:
    """A tensor's strides if a kernel can access it: contiguous columns, or a mask's with stride 0; else None."""
    contiguous = shape[-1] == 1 or strides[-1] == 1 or (repeats and strides[-1] == 0)
    return batch_strides(shape, strides, split, batch) if contiguous else None


def _launch(
    e: Equation, split: int, places: dict[str, Place], strides: dict[str, Strides], kernel: Kernel
) -> TemplateStep:
    q, k, v = (x.type.shape for x in e.inputs[:3])
    batch = q[:-2]
    bounded = "Lengths" in places
    mask = e.inputs[-2 if bounded else -1].type if "Mask" in places else None
    repeats = mask is not None and (strides["Mask"][2][1] == 0 or mask.shape[-1] == 1)
    operands = tuple(x.type.dtype for x in e.inputs[:3])
    wide = e.inputs[0].type.dtype.arithmetic
    same = all(d is wide for d in operands)
    out: DType = e.params.get("out", wide)
    scores = Scores(
        wide,
        e.params["steps"],
        e.params["scale"],
        mask.dtype if mask else None,
        0 if repeats else 1,
        e.params["causal"],
        e.params["shares"],
        e.params["empties"],
        e.params.get("online", False),
        () if same else operands,
        None if out is wide else out,
        bounded,
    )
    code, about = kernel(scores, e.params["results"])
    sizes = heads, queries, keys, depth, width = product(batch), q[-2], k[-2], q[-1], v[-1]
    values: dict[str, Size] = {
        "inner": product(batch[split:]),
        "queries": queries,
        "keys": keys,
        "depth": depth,
        "width": width,
    }
    for name, (outer, inner, rest) in strides.items():
        values |= {f"{name.lower()}.outer": outer, f"{name.lower()}.inner": inner}
        values |= {f"{name.lower()}.row": rest[0]} if len(rest) > 1 else {}
    slots: list[ArgSlot] = []
    for s in about.slots:
        if s in places:
            place = places[s]
            slots.append((place, place.offset * place.base.type.dtype.itemsize if isinstance(place, View) else 0))
        elif s in values:
            slots.append(values[s])
    flops = 2 * heads * queries * keys * (about.depths * depth + about.widths * width)
    if scores.causal:
        flops = flops // 2
    reads = tuple(p for p in places.values() if isinstance(p, View))
    writes = tuple(p for p in places.values() if isinstance(p, Var))
    cost = flops // (32 * heads) if isinstance(flops, int) and isinstance(heads, int) else keys
    return TemplateStep(code, tuple(slots), heads, cost, 0, reads, writes, flops, about.cut, sizes)


register_kernel(attend_p, "*", always, attention_steps)
register_kernel(attend_grads_p, "*", always, attention_grad_steps)
