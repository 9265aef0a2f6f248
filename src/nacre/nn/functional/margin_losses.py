"""Margin losses over several classes, and the loss of unaligned sequences (CTC)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nacre.api.elementwise.apply import require
from nacre.api.manipulation import concat, pad, stack
from nacre.api.operands import TensorLike, as_tensor, constant, filled, numbers, require_inside
from nacre.api.primitives import pointwise, reduce, view
from nacre.api.searching import where
from nacre.api.statistical import cumulative_sum, wide_float
from nacre.api.statistical import sum as sum_
from nacre.api.taking import take_along_axis
from nacre.api.tensor import Tensor
from nacre.api.utility import any as any_
from nacre.base.dtypes import FLOATING, int64
from nacre.base.errors import ArgumentError, ShapeError
from nacre.interpret.precision.functions import autocasting
from nacre.nn.functional.activation import logsigmoid
from nacre.nn.functional.class_losses import check_target, picked, reduced
from nacre.transform.control import scan

__all__ = [
    "ctc_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
]


def _rows(operation: str, input: TensorLike) -> tuple[Any, Any, bool]:
    """The input, the same as [N, C] in at least float32, and whether it was a single row."""
    held = as_tensor(input)
    require(operation, held.type.dtype, FLOATING)
    rank = len(held.type.shape)
    if rank not in (1, 2):
        raise ShapeError(f"{operation}: the input must be [N, C] or [C]; got {held.type}")
    wide = wide_float(held)
    return held, view.reshape(wide, (1, *wide.type.shape)) if rank == 1 else wide, rank == 1


def _finished(losses: Any, single: bool, reduction: str, held: Any) -> Any:
    found = reduced(losses, reduction)
    return as_tensor(view.reshape(found, ()) if single else found, held.type.dtype)


@autocasting
def multi_margin_loss(
    input: TensorLike,
    target: TensorLike,
    p: int = 1,
    margin: float = 1.0,
    weight: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Σ max(0, margin − x[target] + x[i])ᵖ / C over the other classes i, for inputs [N, C] and p 1 or 2.

    Targets are integers [N]; `weight` [C] weights the classes.  Raises ArgumentError for another p or classes out of
    range, ShapeError for targets that do not fit.

    >>> F.multi_margin_loss([[0.0, 2.0]], [0])
    Tensor(1.5, f32[])
    """
    if p not in (1, 2):
        raise ArgumentError(f"multi_margin_loss: p must be 1 or 2; got {p}")
    held, x, single = _rows("multi_margin_loss", input)
    wanted = as_tensor(target, int64)
    wanted = view.reshape(wanted, (1,)) if single else wanted
    check_target("multi_margin_loss", wanted, x, 1)
    gap: Any = margin - picked(x, wanted, 1)[:, None] + x
    own = pointwise.eq(pointwise.iota(x.type.shape, 1, int64), view.broadcast(wanted, x.type.shape, (0,)))
    losses = where((gap > 0.0) & ~own, gap if p == 1 else gap * gap, filled(gap, 0.0))
    total: Any = reduce.sum_(losses, (1,)) / x.type.shape[1]
    if weight is not None:
        table = view.broadcast(as_tensor(weight, x.type.dtype), x.type.shape, (1,))
        total = total * picked(table, wanted, 1)
    return _finished(total, single, reduction, held)


@autocasting
def multilabel_margin_loss(input: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """Σ max(0, 1 − x[t] + x[i]) / C over targets t and classes i that are no targets.

    The targets are class numbers [N, C]; each row ends at its first −1.  Raises ShapeError for targets that do not fit,
    and ArgumentError for known ones out of range.

    >>> F.multilabel_margin_loss([[0.0, 2.0]], [[0, -1]])
    Tensor(1.5, f32[])
    """
    held, x, single = _rows("multilabel_margin_loss", input)
    wanted: Any = as_tensor(target, int64)
    wanted = view.reshape(wanted, (1, *wanted.type.shape)) if single else wanted
    if wanted.type.shape != x.type.shape:
        raise ShapeError(f"multilabel_margin_loss: targets must have the shape of {held.type}; got {wanted.type}")
    classes = x.type.shape[1]
    _check_classes("multilabel_margin_loss", wanted, -1, classes, "-1 ends a row")
    ended: Any = cumulative_sum((wanted < 0).astype(int64), axis=1) > 0
    named = (wanted[:, :, None] == pointwise.iota((classes,), 0, int64)) & ~ended[:, :, None]  # [N, target, class]
    at_target: Any = sum_(where(named, x[:, None, :], 0.0), axis=2)
    gap: Any = 1.0 - at_target[:, :, None] + x[:, None, :]
    counts = ~ended[:, :, None] & ~any_(named, axis=1)[:, None, :]
    losses: Any = sum_(where(counts & (gap > 0.0), gap, 0.0), axis=(1, 2)) / classes
    return _finished(losses, single, reduction, held)


@autocasting
def multilabel_soft_margin_loss(
    input: TensorLike, target: TensorLike, weight: TensorLike | None = None, reduction: str = "mean"
) -> Tensor:
    """The mean over the classes of −t · log sigmoid(x) − (1 − t) · log sigmoid(−x).

    Input and target are [..., C] with floating-point numbers; `weight` [C] weights the classes.  Raises ShapeError for
    targets that do not fit.

    >>> F.multilabel_soft_margin_loss([[0.0, 0.0]], [[1.0, 0.0]])
    Tensor(0.6931472, f32[])
    """
    held = as_tensor(input)
    require("multilabel_soft_margin_loss", held.type.dtype, FLOATING)
    x: Any = wide_float(held)
    t: Any = as_tensor(target, x.type.dtype)
    if t.type.shape != x.type.shape or not x.type.shape:
        raise ShapeError(f"multilabel_soft_margin_loss: targets must have the shape of {held.type}; got {t.type}")
    losses: Any = -(t * logsigmoid(x) + (1.0 - t) * logsigmoid(-x))
    if weight is not None:
        losses = losses * as_tensor(weight, x.type.dtype)
    last = len(x.type.shape) - 1
    return as_tensor(reduced(reduce.sum_(losses, (last,)) / x.type.shape[last], reduction), held.type.dtype)


# ---- sequences without alignment

_IMPOSSIBLE = -1e30  # in place of log 0, so that differences are finite


@autocasting
def ctc_loss(
    log_probs: TensorLike,
    targets: TensorLike,
    input_lengths: TensorLike,
    target_lengths: TensorLike,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The negative log-likelihood of label sequences over all alignments (Graves et al. 2006).

    `log_probs` is [T, N, C] or [T, C].  `targets` is [N, S] padded, [S], or all targets concatenated [ΣS].  The mean is
    over the losses divided by their targets' lengths.  Impossible targets give infinity, or 0 with `zero_infinity`, and
    have derivative 0.  Without frames only the empty target is possible, with loss 0.  Integers behind a
    target's length do not count.

    Raises ShapeError for shapes that do not fit, ArgumentError for a blank, lengths or labels out of range, and for a
    label that is the blank; so does a compiled function when it runs.

    >>> F.ctc_loss(nc.zeros((1, 1, 2)) - 0.5, [[1]], [1], [1])
    Tensor(0.5, f32[])
    """
    held = as_tensor(log_probs)
    require("ctc_loss", held.type.dtype, FLOATING)
    if len(held.type.shape) not in (2, 3):
        raise ShapeError(f"ctc_loss: log_probs must be [T, N, C] or [T, C]; got {held.type}")
    single = len(held.type.shape) == 2
    logs: Any = wide_float(held)
    logs = logs[:, None, :] if single else logs
    if not 0 <= blank < logs.type.shape[2]:
        raise ArgumentError(f"ctc_loss: blank must be in [0, {logs.type.shape[2]}); got {blank}")
    count = logs.type.shape[1]
    frames, sizes = (
        view.broadcast(view.reshape(as_tensor(n, int64), (-1,)) if single else as_tensor(n, int64), (count,), (0,))
        for n in (input_lengths, target_lengths)
    )
    _check_lengths("input", frames, logs.type.shape[0])
    labels = _padded(targets, sizes, count)
    _check_lengths("target", sizes, labels.type.shape[1])
    labels = _labels(labels, sizes, logs.type.shape[2], blank)
    losses = filled(frames.astype(logs.type.dtype), 0.0)
    if logs.type.shape[0] != 0:
        losses = where(frames > 0, _alignments(logs, labels, frames, sizes, blank), losses)
    losses = where((frames == 0) & (sizes > 0), filled(losses, -_IMPOSSIBLE), losses)
    infinite = losses > -0.1 * _IMPOSSIBLE
    losses = where(infinite, filled(losses, 0.0 if zero_infinity else np.inf), losses)
    if reduction == "mean":
        losses = losses / where(sizes > 0, sizes, filled(sizes, 1)).astype(losses.type.dtype)
    return _finished(losses, single, reduction, held)


def _check_classes(operation: str, targets: Any, least: int, classes: Any, remedy: str) -> None:
    """Raise ArgumentError for class numbers out of range."""
    require_inside(
        targets,
        least,
        classes,
        ArgumentError,
        f"{operation}: classes must be in [{{low}}, {{high}}); got {{got}}; {remedy}",
    )


def _check_lengths(what: str, lengths: Any, most: Any) -> None:
    """Raise ArgumentError for lengths out of range."""
    text = f"ctc_loss: {what} lengths must be in [{{low}}, {{high}}); got {{got}}"
    require_inside(lengths, 0, most + 1, ArgumentError, text)


def _labels(labels: Any, sizes: Any, classes: Any, blank: int) -> Any:
    """The labels, with blanks behind each target's length.  Raises ArgumentError for a label that is no class."""
    inside = pointwise.iota(labels.type.shape, 1, int64) < sizes[:, None]
    known = where(inside, labels, filled(labels, 0))
    text = "ctc_loss: labels must be in [{low}, {high}); got {got}; the target lengths tell where padding begins"
    require_inside(known, 0, classes, ArgumentError, text)
    wrong = where(inside & (labels == blank), labels, filled(labels, -1))
    text = "ctc_loss: labels must differ from the blank; got {got}; shorten the target lengths, or give another blank"
    require_inside(wrong, -1, 0, ArgumentError, text)
    return where(inside, labels, filled(labels, blank))


def _padded(targets: TensorLike, sizes: Any, count: Any) -> Any:
    """Targets as [N, S]; concatenated targets are split by their lengths, which must be known."""
    held = as_tensor(targets, int64)
    if len(held.type.shape) == 2:
        return held
    if count == 1:
        return view.reshape(held, (1, *held.type.shape))
    lengths, flat = numbers(sizes, "ctc_loss"), numbers(held, "ctc_loss")
    if lengths.sum() > flat.size:
        raise ShapeError(f"ctc_loss: the lengths sum to {lengths.sum()} targets; got {flat.size}")
    rows = np.zeros((len(lengths), max(1, int(lengths.max(initial=1)))), np.int64)
    at = 0
    for row, n in zip(rows, lengths, strict=True):
        row[:n] = flat[at : at + n]
        at += n
    return as_tensor(rows)


def _alignments(logs: Any, labels: Any, frames: Any, sizes: Any, blank: int) -> Any:
    """−log of the sum over all alignments, by the forward recursion over labels with blanks between them."""
    labels = pad(labels, ((0, 0), (0, 1)), blank)  # one position, even if all targets are empty
    count, longest = labels.type.shape
    spaced = view.reshape(
        concat([labels[:, :, None], view.broadcast(constant(blank, int64), (count, longest, 1), ())], axis=2),
        (count, 2 * longest),
    )
    spaced = pad(spaced, ((0, 0), (1, 0)), blank)  # [N, 2S + 1]
    again = pad(spaced[:, 2:] == spaced[:, :-2], ((0, 0), (2, 0)), True) | (spaced == blank)
    low = constant(_IMPOSSIBLE, logs.type.dtype)
    place = pointwise.iota(spaced.type.shape, 1, int64)
    start = where((place == 0) | ((place == 1) & (sizes[:, None] > 0)), take_along_axis(logs[0], spaced, axis=1), low)

    def frame(before: Any, given: Any) -> tuple[Any, Any]:
        """The likelihoods of all prefixes at the next frame, from those at one frame."""
        now, number = given
        one = pad(before[:, :-1], ((0, 0), (1, 0)), _IMPOSSIBLE)
        two = where(again, low, pad(before[:, :-2], ((0, 0), (2, 0)), _IMPOSSIBLE))
        high = pointwise.maximum(pointwise.maximum(before, one), two).detach()
        total = pointwise.log(sum((pointwise.exp(v - high) for v in (before, one, two)), 0.0)) + high
        total = total + take_along_axis(now, spaced, axis=1)
        return where((number < frames)[:, None], total, before), None

    steps = pointwise.iota(logs.type.shape[:1], 0, int64)
    last, _ = scan(frame, start, (logs[1:], steps[1:]))
    ends = take_along_axis(last, stack([2 * sizes, where(sizes > 0, 2 * sizes - 1, 0)], axis=1), axis=1)
    ends = where((sizes[:, None] > 0) | (pointwise.iota(ends.type.shape, 1, int64) == 0), ends, low)
    high = ends.max(axis=1).detach()
    return -(pointwise.log(sum_(pointwise.exp(ends - high[:, None]), axis=1)) + high)
