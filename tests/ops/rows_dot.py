"""Rows of matrix products, convolutions and windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nacre.base.dtypes import FLOATS, INTEGERS, DType, dtype_named, float32, int32
from nacre.kernel import order_attention, order_convolution, order_window, order_winograd
from nacre.kernel.interpret import operate
from nacre.kernel.order import tree
from nacre.ops import attention, convolution, dot, pointwise, view, window, winograd
from ops import references as ref
from ops import samples
from ops.row import SINGLE, Inputs, Row, apart, normal, several, shaped
from ops.samples import Array, Arrays

Shape = tuple[int, ...]
Axes = tuple[int, ...]


def _dot(
    a: Shape,
    b: Shape,
    summed: tuple[Axes, Axes],
    batch: tuple[Axes, Axes] = ((), ()),
) -> Row:
    """A product, whose reference rearranges the factors to [batch, m, k] · [batch, k, n]."""

    def free(shape: Shape, side: int) -> list[int]:
        return [k for k in range(len(shape)) if k not in (*summed[side], *batch[side])]

    def size(shape: Shape, axes: Any) -> int:
        return int(np.prod([shape[k] for k in axes]))

    def reference(x: Array, y: Array) -> Array:
        m, n, sides = free(a, 0), free(b, 1), size(a, batch[0])
        left = x.transpose(*batch[0], *m, *summed[0]).reshape(sides, size(a, m), size(a, summed[0]))
        right = y.transpose(*batch[1], *summed[1], *n).reshape(sides, size(b, summed[1]), size(b, n))
        shape = [a[k] for k in batch[0]] + [a[k] for k in m] + [b[k] for k in n]
        if not m and not n:
            products = (left[:, 0] * right[:, :, 0]).astype(x.dtype)
            return ref.reduced("sum", products, (1,)).reshape(shape)
        return ref.chained(ref.single(left), ref.single(right)).astype(x.dtype).reshape(shape)

    return Row(
        f"dot-{a}-{b}-{summed}",
        lambda x, y: dot.dot(x, y, summed, batch),
        reference,
        shaped(a, b),
        (*INTEGERS, *FLOATS),
        0,
        (0, 1),
        normal(a, b),
    )


def _widened(a: Shape, b: Shape, summed: tuple[Axes, Axes], batch: tuple[Axes, Axes] = ((), ())) -> Row:
    """A row times a matrix of a narrower dtype: the bits of `dot` after the conversion."""
    plain = _dot(a, b, summed, batch)

    def operands(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        return [(samples.random(float32, a, rng), samples.random(dtype, b, rng))]

    return Row(
        f"widened_dot-{a}-{b}-{summed}",
        lambda x, y: dot.widened_dot(x, y, summed, batch),
        lambda x, y: plain.reference(x, y.astype(np.float32)),
        operands,
        tuple(d for d in (*INTEGERS, *FLOATS) if d.bits <= 16),
        0,
    )


def _summed(a: Shape, b: Shape, summed: tuple[Axes, Axes], batch: tuple[Axes, Axes] = ((), ())) -> Row:
    """Factors of one narrow dtype, summed in a wide one: the bits of `dot` after the conversion."""
    plain = _dot(a, b, summed, batch)

    def wide(dtype: DType) -> DType:
        return float32 if dtype.is_float else int32

    def reference(x: Array, y: Array) -> Array:
        dtype = wide(dtype_named(x.dtype.name)).numpy
        return plain.reference(x.astype(dtype), y.astype(dtype))

    return Row(
        f"widened_dot-both-{a}-{b}-{summed}",
        lambda x, y: dot.dot(x, y, summed, batch, wide(x.type.dtype)),
        reference,
        shaped(a, b),
        tuple(d for d in (*INTEGERS, *FLOATS) if d.bits <= 16),
        0,
    )


class _Convolution:
    """The three rows of a convolution of given shapes and parameters."""

    def __init__(self, x: Shape, w: Shape, **params: Any) -> None:
        self.x, self.w = x, w
        self.params = {
            "stride": (1, 1),
            "padding": ((0, 0), (0, 0)),
            "dilation": (1, 1),
            "groups": 1,
            **params,
        }
        self.described = ref.convolution(x, w, **self.params)
        self.y = (x[0], w[0], self.described.rows.out, self.described.columns.out)

    def row(
        self,
        name: str,
        apply: Callable[..., Any],
        reference: Callable[..., Any],
        a: Shape,
        b: Shape,
    ) -> Row:
        label = "-".join(map(str, (name, self.x, self.w, *self.params.values())))
        return Row(label, apply, reference, shaped(a, b), SINGLE, 0, (0, 1), normal(a, b))

    def rows(self) -> list[Row]:
        d, p, x, w, y = self.described, self.params, self.x, self.w, self.y
        return [
            self.row(
                "convolve",
                lambda a, b: convolution.convolve(a, b, **p),
                lambda a, b: order_convolution.forward(d, a, b),
                x,
                w,
            ),
            self.row(
                "convolve_input_grad",
                lambda g, b: convolution.convolve_input_grad(g, b, shape=x, **p),
                lambda g, b: order_convolution.input_grad(d, g, b),
                y,
                w,
            ),
            self.row(
                "convolve_weight_grad",
                lambda a, g: convolution.convolve_weight_grad(a, g, shape=w, **p),
                lambda a, g: order_convolution.weight_grad(d, a, g),
                x,
                y,
            ),
        ]


class _Winograd(_Convolution):
    """The three rows of a 3×3 convolution by Winograd's algorithm."""

    def rows(self) -> list[Row]:
        d, x, w, y = self.described, self.x, self.w, self.y
        p = {name: self.params[name] for name in ("padding", "groups")}
        return [
            self.row(
                "winograd",
                lambda a, b: winograd.winograd(a, b, **p),
                lambda a, b: order_winograd.forward(d, a, b),
                x,
                w,
            ),
            self.row(
                "winograd_input_grad",
                lambda g, b: winograd.winograd_input_grad(g, b, shape=x, **p),
                lambda g, b: order_winograd.input_grad(d, g, b),
                y,
                w,
            ),
            self.row(
                "winograd_weight_grad",
                lambda a, g: winograd.winograd_weight_grad(a, g, shape=w, **p),
                lambda a, g: order_winograd.weight_grad(d, a, g),
                x,
                y,
            ),
        ]


def _attended(q: Shape, k: Shape, v: Shape) -> Row:
    """Attention over blocks of keys, divided by the sums of weights, as its derivative is that of softmax."""

    def apply(q: Any, k: Any, v: Any) -> Any:
        mixed, _, total = attention.online_attention(q, k, v, None, False, 0.5)
        return pointwise.div(mixed, view.broadcast(total, mixed.type.shape, range(total.type.rank)))

    def exp(x: Array) -> Array:
        return operate("exp", [x], ref.dtype_of(x), ref.dtype_of(x))

    def reference(q: Array, k: Array, v: Array) -> Array:
        scores = ref.chained(q, np.ascontiguousarray(k.mT)) * q.dtype.type(0.5)
        mixed, _, total = order_attention.forward(scores, v, exp)
        return mixed / total[..., None]

    return Row(f"online_attention-{q}-{k}", apply, reference, shaped(q, k, v), SINGLE, 0, (0, 1, 2), normal(q, k, v))


def _bounded(q: Shape, k: Shape, v: Shape, *lengths: int) -> Row:
    """Attention to the first keys, divided by the sums of weights, as its derivative is that of softmax."""
    counts = np.array(lengths if len(lengths) > 1 else lengths[0])

    def apply(q: Any, k: Any, v: Any, n: Any) -> Any:
        mixed, _, total = attention.bounded_attention(q, k, v, n, None, False, 0.5)
        return pointwise.div(mixed, view.broadcast(total, mixed.type.shape, range(total.type.rank)))

    def reference(q: Array, k: Array, v: Array, n: Array) -> Array:
        found = np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
        for at in np.ndindex(q.shape[:-2]):
            count = n[at[: n.ndim]]
            scores = ref.chained(q[at][None], np.ascontiguousarray(k[at][None, :count].mT))[0] * q.dtype.type(0.5)
            most = scores.max(-1, keepdims=True)
            weights = operate("exp", [scores - most], ref.dtype_of(q), ref.dtype_of(q))
            total = tree(np.moveaxis(weights, -1, 0), np.add)
            found[at] = ref.chained(weights[None], np.ascontiguousarray(v[at][None, :count]))[0] / total[..., None]
        return found

    def inputs(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        return [(*shaped(q, k, v)(dtype, rng)[0], counts)]

    smooth = normal(q, k, v)
    return Row(
        f"bounded_attention-{q}-{k}-{lengths}",
        apply,
        reference,
        inputs,
        SINGLE,
        0,
        (0, 1, 2),
        lambda rng: (*smooth(rng), counts),
    )


def _levels(*shapes: Shape) -> Inputs:
    """Random operands, and some with few distinct numbers, so that maxima are equal."""

    def few(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        return [tuple(np.round(samples.random(dtype, s, rng, 2.0).astype(float)).astype(dtype.numpy) for s in shapes)]

    return several(shaped(*shapes), few)


def _windows(
    x: Shape,
    size: Any,
    stride: Any = (1, 1),
    padding: Any = ((0, 0), (0, 0)),
    dilation: Any = (1, 1),
) -> list[Row]:
    plain = {"size": size, "stride": stride, "padding": padding}
    most = {**plain, "dilation": dilation}
    about, undilated = ref.windows(x, **most), ref.windows(x, **plain)
    y = (x[0], *about.shape)
    z = (x[0], *undilated.shape)
    name = "-".join(map(str, (x, size, stride, padding, dilation)))

    def taken(t: Array, a: Array) -> Array:
        found = np.zeros(y, t.dtype)
        for r, c, taps in about.taps():
            for n, k in np.ndindex(*x[:2]):
                if taps:
                    _, i, j = max(taps, key=lambda tap: (a[n, k, tap[1], tap[2]], -tap[0]))
                    found[n, k, r, c] = t[n, k, i, j]
        return found

    both: Any = {"dtypes": FLOATS, "ulps": 0}
    return [
        Row(
            f"window_max-{name}",
            lambda a: window.window_max(a, **most),
            ref.rounded_once(lambda a: order_window.max_forward(about, a)),
            _levels(x),
            active=(0,),
            smooth=apart(x),
            **both,
        ),
        Row(
            f"window_max_take-{name}",
            lambda t, a: window.window_max_take(t, a, **most),
            taken,
            _levels(x, x),
            active=(0,),
            smooth=apart(x, x),
            **both,
        ),
        Row(
            f"window_max_grad-{name}",
            lambda g, a: window.window_max_grad(g, a, **most),
            ref.rounded_once(lambda g, a: order_window.max_grad(about, a, g)),
            _levels(y, x),
            active=(0,),
            smooth=apart(y, x),
            **both,
        ),
        Row(
            f"window_sum-{name}",
            lambda a: window.window_sum(a, **plain),
            ref.rounded_once(lambda a: order_window.sum_forward(undilated, a)),
            shaped(x),
            active=(0,),
            smooth=normal(x),
            **both,
        ),
        Row(
            f"window_sum_grad-{name}",
            lambda g: window.window_sum_grad(g, x, **plain),
            ref.rounded_once(lambda g: order_window.sum_grad(undilated, g)),
            shaped(z),
            active=(0,),
            smooth=normal(z),
            **both,
        ),
    ]


ROWS = [
    _dot((5, 7), (7, 6), ((1,), (0,))),
    _dot((3, 600), (600, 20), ((1,), (0,))),
    _dot((3, 40), (40, 20), ((1,), (0,))),
    _dot((2, 5, 7), (2, 7, 6), ((2,), (1,)), ((0,), (0,))),
    _dot((7, 5), (6, 7), ((0,), (1,))),
    _dot((4, 3, 5), (5, 3, 2), ((1, 2), (1, 0))),
    _dot((4, 3, 5), (5, 2, 3), ((2,), (0,)), ((1,), (2,))),
    _dot((5, 7), (7,), ((1,), (0,))),
    _dot((7,), (7, 4), ((0,), (0,))),
    _dot((30,), (30,), ((0,), (0,))),
    _dot((3, 30), (30, 3), ((1,), (0,)), ((0,), (1,))),
    _dot((3, 0), (0, 4), ((1,), (0,))),
    _widened((1, 530), (530, 37), ((1,), (0,))),
    _widened((1, 300), (19, 300), ((1,), (1,))),
    _widened((2, 1, 17), (2, 17, 33), ((2,), (1,)), ((0,), (0,))),
    _summed((5, 7), (7, 6), ((1,), (0,))),
    _summed((3, 600), (20, 600), ((1,), (1,))),
    _summed((2, 1, 17), (2, 17, 33), ((2,), (1,)), ((0,), (0,))),
    *_Convolution((2, 3, 8, 9), (4, 3, 3, 3)).rows(),
    *_Convolution((1, 20, 7, 7), (5, 20, 3, 2), stride=(2, 1), padding=((1, 1), (0, 1))).rows(),
    *_Convolution((2, 4, 9, 8), (6, 2, 2, 3), dilation=(2, 1), groups=2, padding=((1, 2), (1, 1))).rows(),
    *_Convolution((2, 1, 5, 5), (2, 1, 1, 1), stride=(2, 2)).rows(),
    *_Winograd((2, 3, 6, 9), (4, 3, 3, 3), padding=((1, 1), (0, 2))).rows(),
    *_Winograd((1, 4, 5, 4), (6, 2, 3, 3), groups=2).rows(),
    _attended((2, 5, 4), (2, 9, 4), (2, 9, 3)),
    _attended((1, 3, 2), (1, 1100, 2), (1, 1100, 5)),
    _bounded((2, 3, 5, 4), (2, 3, 9, 4), (2, 3, 9, 3), 4, 9),
    _bounded((1, 2, 6), (1, 700, 6), (1, 700, 5), 300),
    _bounded((2, 40, 6), (2, 70, 6), (2, 70, 5), 33),
    *_windows((2, 3, 6, 8), (2, 2), (2, 2)),
    *_windows((1, 2, 7, 9), (3, 3), (2, 1), ((1, 1), (1, 0))),
    *_windows((1, 2, 9, 9), (2, 3), (1, 2), ((0, 1), (1, 1)), (2, 2)),
    *_windows((2, 3, 5, 7), (5, 7), (5, 7)),
]
