"""Products of matrices and tensors, all built on one contraction primitive."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from string import ascii_letters
from typing import Any, cast

from nacre.api.data_types import requested
from nacre.api.elementwise.apply import of_tensors, require
from nacre.api.elementwise.one_program import one_program
from nacre.api.manipulation import swapaxes
from nacre.api.operands import TensorLike, as_tensor, distinct, is_plain, meet, spread
from nacre.api.primitives import contract, matrices, parts, pointwise, reduce, view
from nacre.api.tensor import Tensor
from nacre.base.arguments import is_whole, shown, whole_number, whole_numbers
from nacre.base.dtypes import NUMERIC, DType, as_dtype
from nacre.base.errors import ArgumentError, KindError, ShapeError
from nacre.base.state import without_autocast
from nacre.base.types import agreeing, broadcast_shapes, normal_axis, show_shape
from nacre.interpret.precision.functions import autocasting

__all__ = [
    "einsum",
    "matmul",
    "matrix_transpose",
    "outer",
    "tensordot",
    "vecdot",
]


def _met(operation: str, xs: Sequence[TensorLike], dtype: Any) -> tuple[list[Any], DType]:
    """The operands, and the dtype of their products and sums: `dtype`, or the promoted dtype.

    With a `dtype`, tensors and arrays are returned unconverted; the contraction converts them.
    """
    if dtype is None:
        held, met = meet(operation, xs)
    else:
        held = [requested(operation, x, dtype) for x in xs]
        met = as_dtype(dtype)
    require(operation, met, NUMERIC)
    return held, met


def _inner(operation: str, a: Any, b: Any, i: int, j: int) -> None:
    if a.type.shape[i] != b.type.shape[j]:
        raise ShapeError(
            f"{operation}: inner sizes must match: {a.type.shape[i]} and {b.type.shape[j]} "
            f"(shapes {show_shape(a.type.shape)} and {show_shape(b.type.shape)}); "
            + agreeing((a.type.shape[i], b.type.shape[j]), "transpose one operand")
        )


def matmul(x: TensorLike, y: TensorLike, /, *, dtype: Any = None) -> Tensor:
    """The matrix product.  Leading axes are batch axes and broadcast; a vector acts as a row or a column.

    Each element is a chain of fused multiply-adds that restarts every 256 terms, for all shapes.  Integers wrap.

    With `dtype`, operands are converted to it first.  The conversion is free from 8 or 16-bit integers to 32-bit ones,
    and from half types to float32.  Products of int8 are exact in int32; in int8 they would wrap.

    >>> nc.matmul([[1, 2], [3, 4]], [1, 1])
    Tensor([3, 7], i64[2])
    >>> x = nc.tensor([[100, 100]], dtype=nc.int8)
    >>> nc.matmul(x, x.mT, dtype=nc.int32)
    Tensor([[20000]], i32[1, 1])
    """
    if dtype is None:
        return of_tensors("matmul", _matmul, (x, y))
    return without_autocast(lambda: _matmul(x, y, dtype))


def _matmul(x: TensorLike, y: TensorLike, dtype: Any = None) -> Any:
    (a, b), wide = _met("matmul", (x, y), dtype)
    ra, rb = len(a.type.shape), len(b.type.shape)
    if ra == 0 or rb == 0:
        raise ShapeError(f"matmul: operands must have at least one axis; got {a.type} and {b.type}; use multiply")
    _inner("matmul", a, b, ra - 1, max(rb - 2, 0))
    if ra == 1 and rb == 1:
        return _total(a, b, wide)
    if rb == 1 or rb == 2:
        return contract.dot(a, b, ((ra - 1,), (0,)), ((), ()), wide)
    if ra == 1:
        return contract.dot(a, b, ((0,), (rb - 2,)), ((), ()), wide)
    batch = broadcast_shapes(a.type.shape[:-2], b.type.shape[:-2], operation="matmul")
    a, b = spread(a, batch + a.type.shape[-2:]), spread(b, batch + b.type.shape[-2:])
    shared = tuple(range(len(batch)))
    return contract.dot(a, b, ((len(batch) + 1,), (len(batch),)), (shared, shared), wide)


def _total(a: Any, b: Any, dtype: DType) -> Any:
    """A product without free axes: the sum of products in the canonical order of sums; half types are summed in
    float32.
    """
    if dtype.is_widened:
        return as_tensor(_total(as_tensor(a, dtype), as_tensor(b, dtype), dtype.arithmetic), dtype)
    products = pointwise.mul(as_tensor(a, dtype), as_tensor(b, dtype))
    return reduce.sum_(products, tuple(range(len(products.type.shape))))


def vecdot(x: TensorLike, y: TensorLike, /, *, axis: int = -1, dtype: Any = None) -> Tensor:
    """The sum of products along an axis, with broadcasting; complex elements of x are conjugated.

    With `dtype`, operands are converted to it first.

    >>> nc.vecdot([1.0, 2.0], [3.0, 4.0])
    Tensor(11., f32[])
    """
    (a, b), wide = _met("vecdot", (x, y), dtype)
    i, j = normal_axis(axis, len(a.type.shape), "vecdot"), normal_axis(axis, len(b.type.shape), "vecdot")
    _inner("vecdot", a, b, i, j)
    shape = broadcast_shapes(a.type.shape, b.type.shape, operation="vecdot")
    if wide.is_widened:
        return as_tensor(vecdot(as_tensor(a, wide), as_tensor(b, wide), axis=axis, dtype=wide.arithmetic), wide)
    a, b = spread(as_tensor(a, wide), shape), spread(as_tensor(b, wide), shape)
    products = pointwise.mul(parts.conj(a) if wide.is_complex else a, b)
    return reduce.sum_(products, (normal_axis(axis, len(shape), "vecdot"),))


@autocasting
def tensordot(
    x: TensorLike, y: TensorLike, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2, dtype: Any = None
) -> Tensor:
    """The sum of products over pairs of axes: the last n of x with the first n of y, or the listed pairs.

    With `dtype`, operands are converted to it first, as in `matmul`.

    >>> nc.tensordot([[1, 2], [3, 4]], [1, 1], axes=1)
    Tensor([3, 7], i64[2])
    """
    (a, b), wide = _met("tensordot", (x, y), dtype)
    ra, rb = len(a.type.shape), len(b.type.shape)
    if isinstance(axes, bool) or is_whole(axes):
        axes = whole_number(axes, "tensordot", "axes")
        if not 0 <= axes <= min(ra, rb):
            raise ShapeError(f"tensordot: axes must be between 0 and {min(ra, rb)}; got {axes}")
        left, right = tuple(range(ra - axes, ra)), tuple(range(axes))
    else:
        listed = [whole_numbers(side, "tensordot", "axes") for side in islice(cast("Any", axes), 3)]
        if len(listed) != 2 or len(listed[0]) != len(listed[1]):
            raise ShapeError(f"tensordot: axes must be a number, or two lists of equal length; got {axes}")
        left = tuple(normal_axis(k, ra, "tensordot") for k in listed[0])
        right = tuple(normal_axis(k, rb, "tensordot") for k in listed[1])
        if len(set(left)) != len(left) or len(set(right)) != len(right):
            raise ShapeError(f"tensordot: axes must be distinct; got {axes}")
    for i, j in zip(left, right, strict=True):
        _inner("tensordot", a, b, i, j)
    if len(left) == ra and len(right) == rb:
        return _total(a, view.permute(b, tuple(right[left.index(k)] for k in range(ra))), wide)
    return contract.dot(a, b, (left, right), ((), ()), wide)


@one_program(2)
def outer(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The outer product of two vectors: x[i] · y[j].

    >>> nc.outer([1, 2], [3, 4])
    Tensor([[3, 4],
            [6, 8]], i64[2, 2])
    """
    (a, b), _ = _met("outer", (x, y), None)
    if len(a.type.shape) != 1 or len(b.type.shape) != 1:
        raise ShapeError(f"outer: x and y must be vectors; got {a.type} and {b.type}")
    shape = (a.type.shape[0], b.type.shape[0])
    return pointwise.mul(view.broadcast(a, shape, (0,)), view.broadcast(b, shape, (1,)))


@autocasting
def einsum(subscripts: str, /, *xs: TensorLike, dtype: Any = None) -> Tensor:
    """Einstein summation, as in `"ij,jk->ik"`; operands are contracted from left to right.

    Letters that occur in one operand only, and not in the result, are summed over.  A letter that an operand has twice
    takes its diagonal.  `...` stands for all other axes, which are broadcast, as in `"...ij,...jk->...ik"`, and summed
    over if the result lacks it.  With `dtype`, operands are converted to it first, as in `matmul`.

    >>> nc.einsum("ij,j->i", [[1, 2], [3, 4]], [1, 1])
    Tensor([3, 7], i64[2])
    >>> nc.einsum("ii->i", [[1, 2], [3, 4]])
    Tensor([1, 4], i64[2])
    """
    if not isinstance(cast("object", subscripts), str):
        raise KindError(
            f"einsum: the subscripts must be text before the operands, as in einsum('ij,jk->ik', x, y); got "
            f"{shown(subscripts)}; write lists of axes as letters"
        )
    given = subscripts
    if dtype is None:
        operands, _ = meet("einsum", [x if is_plain(x) else as_tensor(x) for x in xs])
    else:
        operands = [requested("einsum", x, dtype) for x in xs]
    if "." in subscripts:
        subscripts, operands = _without_ellipsis(subscripts, operands)
    inputs, output = _subscripts(subscripts, given, len(xs))
    held, wide = _met("einsum", operands, dtype)
    for letters, x in zip(inputs, held, strict=True):
        if len(letters) != len(x.type.shape):
            raise ShapeError(
                f"einsum: the operand for {letters!r} must have rank {len(letters)}, one axis for each "
                f"letter; got {x.type}, of rank {len(x.type.shape)}"
            )
    first = held[0]
    for k, (letters, x) in enumerate(zip(inputs, held, strict=True)):
        held[k], inputs[k] = _on_diagonals(x, letters)
    result, letters = held[0], inputs[0]
    for k in range(len(held)):
        later = "".join(inputs[k + 1 :]) + output
        if k:
            result, letters = _pair(result, letters, held[k], inputs[k], later, wide)
        else:
            result, letters = _alone(result, letters, later, wide)
    if sorted(letters) != sorted(output):
        missing = "".join(sorted(set(output) - set(letters)))
        raise ArgumentError(
            f"einsum: each letter of the result must occur in an operand; got {missing!r} in {given!r}, which does not"
        )
    result = as_tensor(result, wide)
    result = view.permute(result, tuple(letters.index(c) for c in output)) if letters != output else result
    return distinct(result, first)


def _without_ellipsis(subscripts: str, xs: Sequence[Any]) -> tuple[str, list[Any]]:
    """The subscripts with a letter for each axis of `...`, and operands without axes of size 1 that are broadcast."""
    left, arrow, output = subscripts.replace(" ", "").partition("->")
    inputs = left.split(",")
    wrong = any(part.replace("...", "", 1).count(".") for part in (*inputs, output))
    if wrong or len(inputs) != len(xs):
        raise ArgumentError(
            "einsum: each operand must have subscripts with at most one `...`; got "
            f'{subscripts!r} for {len(xs)}; write "...ij,...jk->...ik", for example'
        )
    counts = [len(x.type.shape) - len(part) + 3 if "..." in part else 0 for part, x in zip(inputs, xs, strict=True)]
    if min(counts) < 0:
        k = counts.index(min(counts))
        raise ShapeError(f"einsum: the operand for {inputs[k]!r} must have an axis for each letter; got {xs[k].type}")
    letters = "".join(c for c in ascii_letters if c not in subscripts)[: max(counts)]
    places = [part.find("...") for part in inputs]
    shapes = [x.type.shape[at : at + n] for x, at, n in zip(xs, places, counts, strict=True)]
    whole = broadcast_shapes(*shapes, operation="einsum")
    held: list[Any] = []
    for k, (x, at, n) in enumerate(zip(xs, places, counts, strict=True)):
        own, sizes = letters[max(counts) - n :], whole[max(counts) - n :]
        dropped = [i for i in range(n) if shapes[k][i] != sizes[i]]
        shape = [size for i, size in enumerate(x.type.shape) if i - at not in dropped]
        held.append(view.reshape(x, tuple(shape)) if dropped else x)
        inputs[k] = inputs[k].replace("...", "".join(c for i, c in enumerate(own) if i not in dropped))
    if not arrow:
        named = left.replace(".", "").replace(",", "")
        output = "..." + "".join(sorted(c for c in set(named) if named.count(c) == 1))
    return ",".join(inputs) + "->" + output.replace("...", letters), held


def _subscripts(subscripts: str, given: str, count: int) -> tuple[list[str], str]:
    text = subscripts.replace(" ", "")
    left, arrow, output = text.partition("->")
    inputs = left.split(",")
    if not all(part.isalpha() or not part for part in (*inputs, output)):
        raise ArgumentError(
            f'einsum: subscripts must be letters, commas and one `->`; got {given!r}; write "ij,jk->ik", for example'
        )
    if len(inputs) != count:
        raise ArgumentError(
            f"einsum: subscripts must describe as many operands as are given, {count}; got "
            f"{given!r}, which describes {len(inputs)}; separate them by commas"
        )
    if len(set(output)) != len(output):
        raise ArgumentError(
            f"einsum: letters of the result must be distinct; got {output!r} in {subscripts!r}; write each once"
        )
    if not arrow:
        together = "".join(inputs)
        output = "".join(sorted(c for c in set(together) if together.count(c) == 1))
    return inputs, output


def _on_diagonals(x: Any, letters: str) -> tuple[Any, str]:
    """The diagonal of x over the axes of each letter that it has several times, as one axis behind the others."""
    for letter in sorted({c for c in letters if letters.count(c) > 1}):
        while letters.count(letter) > 1:
            i, j = letters.index(letter), letters.rindex(letter)
            sizes = x.type.shape[i], x.type.shape[j]
            if sizes[0] != sizes[1]:
                raise ShapeError(
                    f"einsum: a letter must have one size; got {sizes[0]} and {sizes[1]} for {letter!r} (operand "
                    f"{letters!r} {show_shape(x.type.shape)}); change the letters"
                )
            rest = [k for k in range(len(letters)) if k not in (i, j)]
            x = matrices.matrices.diagonal(view.permute(x, (*rest, i, j)))
            letters = "".join(letters[k] for k in rest) + letter
    return x, letters


def _alone(x: Any, letters: str, needed: str, dtype: DType) -> tuple[Any, str]:
    """Sum over the letters that occur in no other operand and not in the result."""
    gone = tuple(k for k, c in enumerate(letters) if c not in needed)
    if not gone:
        return x, letters
    return reduce.sum_(as_tensor(x, dtype), gone), "".join(c for c in letters if c in needed)


def _pair(a: Any, la: str, b: Any, lb: str, later: str, dtype: DType) -> tuple[Any, str]:
    a, la = _alone(a, la, lb + later, dtype)
    b, lb = _alone(b, lb, la + later, dtype)
    shared = [c for c in la if c in lb]
    for c in shared:
        one, other = a.type.shape[la.index(c)], b.type.shape[lb.index(c)]
        if one != other:
            raise ShapeError(
                f"einsum: a letter must have one size; got {one} and {other} for {c!r} "
                f"(operands {la!r} {show_shape(a.type.shape)} and {lb!r} {show_shape(b.type.shape)}); "
                "change the letters, or transpose one operand"
            )
    batch = [c for c in shared if c in later]
    summed = [c for c in shared if c not in later]
    free_a, free_b = [c for c in la if c not in shared], [c for c in lb if c not in shared]
    if (not free_a and not free_b) or not summed:
        letters = "".join((*batch, *summed, *free_a, *free_b))
        sizes = {c: s for text, x in ((la, a), (lb, b)) for c, s in zip(text, x.type.shape, strict=True)}
        placed = (_placed(as_tensor(x, dtype), text, letters, sizes) for x, text in ((a, la), (b, lb)))
        return _alone(pointwise.mul(*placed), letters, later, dtype)
    pairs = tuple(la.index(c) for c in summed), tuple(lb.index(c) for c in summed)
    batches = tuple(la.index(c) for c in batch), tuple(lb.index(c) for c in batch)
    return contract.dot(a, b, pairs, batches, dtype), "".join((*batch, *free_a, *free_b))


def _placed(x: Any, letters: str, target: str, sizes: dict[str, Any]) -> Any:
    """x with its axes in the target's order, broadcast over the missing ones."""
    order = sorted(range(len(letters)), key=lambda k: target.index(letters[k]))
    moved = view.permute(x, tuple(order))
    axes = tuple(target.index(letters[k]) for k in order)
    return view.broadcast(moved, tuple(sizes[c] for c in target), axes)


def matrix_transpose(x: TensorLike, /) -> Tensor:
    """The last two axes exchanged.

    >>> nc.matrix_transpose([[1, 2], [3, 4]])
    Tensor([[1, 3],
            [2, 4]], i64[2, 2])
    """
    held = as_tensor(x)
    if len(held.type.shape) < 2:
        raise ShapeError(f"matrix_transpose: x must have at least 2 axes; got shape {held.type.shape}")
    return swapaxes(held, -1, -2)
