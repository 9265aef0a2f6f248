"""Sequences of different lengths in one batch: padded to one length, and packed for recurrent networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from nacre.api.creation import arange, full, zeros_like
from nacre.api.functions import where
from nacre.api.manipulation import concat, stack
from nacre.api.operands import TensorLike, as_tensor, numbers
from nacre.api.tensor import Tensor
from nacre.base.dtypes import int64
from nacre.base.errors import ArgumentError, DTypeError, ShapeError
from nacre.trace.value import is_concrete


class PackedSequence(NamedTuple):
    """Sequences side by side, `padded` [L, N, ...] with their `lengths` [N]; what is behind their ends is not read.

    `nn.RNN`, `nn.LSTM` and `nn.GRU` take one and give one: each sequence gets the result that it has alone, to the
    bit.  Unlike PyTorch's it keeps the padding, so that one compiled function serves all lengths.

    >>> packed = nn.pack_sequence([nc.tensor([1.0, 2.0]), nc.tensor([3.0])])
    >>> packed.padded.tolist(), packed.lengths.tolist()
    ([[1.0, 3.0], [2.0, 0.0]], [2, 1])
    """

    padded: Tensor
    lengths: Tensor

    @property
    def inside(self) -> Any:
        """bool [L, N]: what is not padding."""
        rows: Any = arange(self.padded.shape[0])
        return rows[:, None] < self.lengths[None, :]


def pack_padded_sequence(
    input: TensorLike, lengths: TensorLike, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Padded sequences [L, N, ...] (or [N, L, ...] with `batch_first`) with their lengths [N], from 1 to L.

    They may come in any order, whatever `enforce_sorted` says.  Raises ShapeError or DTypeError for what does not fit
    together, ArgumentError for lengths outside of [1, L], where they are known.

    >>> x = nc.ones((2, 4, 3))
    >>> output, last = nn.GRU(3, 5)(nn.pack_padded_sequence(x, [4, 2], batch_first=True))
    >>> padded, lengths = nn.pad_packed_sequence(output, batch_first=True)
    >>> padded.shape, lengths.tolist(), last.shape, bool(nc.all(padded[1, 2:] == 0))
    ((2, 4, 5), [4, 2], (1, 2, 5), True)
    """
    held: Any = as_tensor(input)
    if held.ndim < 2:
        raise ShapeError(f"pack_padded_sequence: sequences [L, N, ...] are required; got {held.type}")
    held = _turned(held) if batch_first else held
    sizes: Any = as_tensor(lengths)
    if not sizes.dtype.is_integer:
        raise DTypeError(f"pack_padded_sequence: integer lengths are required; got {sizes.type}")
    if sizes.shape != held.shape[1:2]:
        raise ShapeError(
            f"pack_padded_sequence: lengths [{held.shape[1]}] are required for {held.type}; got {sizes.type}"
        )
    longest = held.shape[0]
    if is_concrete(sizes) and isinstance(longest, int):
        given = numbers(sizes, "pack_padded_sequence")
        if given.size and not (given.min() >= 1 and given.max() <= longest):
            raise ArgumentError(f"pack_padded_sequence: lengths from 1 to {longest} are required; got {given.tolist()}")
    return PackedSequence(held, as_tensor(sizes, int64))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The padded sequences [L, N, ...] (or [N, L, ...]) and their lengths; what is behind them is the padding value.

    L is that of what was packed, or `total_length`.  Raises ArgumentError for one that is shorter.

    >>> packed = nn.pack_sequence([nc.tensor([1.0, 2.0]), nc.tensor([3.0])])
    >>> nn.pad_packed_sequence(packed, batch_first=True, padding_value=-1.0)[0].tolist()
    [[1.0, 2.0], [3.0, -1.0]]
    """
    held: Any = sequence.padded
    inside = sequence.inside[(..., *[None] * (held.ndim - 2))]
    filled: Any = where(inside, held, full((), padding_value, held.dtype))
    if total_length is not None:
        if total_length < held.shape[0]:
            raise ArgumentError(
                f"pad_packed_sequence: a total_length of {held.shape[0]} or more is required; got {total_length}"
            )
        more = full((total_length - held.shape[0], *held.shape[1:]), padding_value, held.dtype)
        filled = concat([filled, more])
    return _turned(filled) if batch_first else filled, sequence.lengths


def pad_sequence(sequences: Sequence[TensorLike], batch_first: bool = False, padding_value: float = 0.0) -> Tensor:
    """Tensors [length, ...] of one type but for their lengths, side by side as [L, N, ...] (or [N, L, ...]).

    Raises ArgumentError without any, ShapeError or DTypeError for types that differ.

    >>> nn.pad_sequence([[1.0, 2.0], [3.0]], batch_first=True, padding_value=9.0).tolist()
    [[1.0, 2.0], [3.0, 9.0]]
    """
    held: list[Any] = [as_tensor(s) for s in sequences]
    if not held:
        raise ArgumentError("pad_sequence: one sequence or more is required; got none")
    for s in held:
        if s.ndim < 1 or s.shape[1:] != held[0].shape[1:]:
            raise ShapeError(
                f"pad_sequence: sequences of one shape but for the length are required; got {s.type} beside "
                f"{held[0].type}"
            )
        if s.dtype is not held[0].dtype:
            raise DTypeError(f"pad_sequence: one dtype is required; got {s.type} beside {held[0].type}")
    longest = max(s.shape[0] for s in held)
    rows = [concat([s, full((longest - s.shape[0], *s.shape[1:]), padding_value, s.dtype)]) for s in held]
    return stack(rows, axis=0 if batch_first else 1)


def pack_sequence(sequences: Sequence[TensorLike], enforce_sorted: bool = True) -> PackedSequence:
    """Tensors [length, ...] packed: `pad_sequence` with the lengths.

    >>> nn.pack_sequence([nc.ones((2, 3)), nc.ones((4, 3))]).padded.shape
    (4, 2, 3)
    """
    return pack_padded_sequence(pad_sequence(sequences), [as_tensor(s).shape[0] for s in sequences])


def unpad_sequence(padded: TensorLike, lengths: TensorLike, batch_first: bool = False) -> list[Tensor]:
    """The tensors [length, ...] that were padded; lengths must have numbers.

    >>> [s.tolist() for s in nn.unpad_sequence([[1.0, 3.0], [2.0, 0.0]], [2, 1])]
    [[1.0, 2.0], [3.0]]
    """
    packed = pack_padded_sequence(padded, lengths, batch_first)
    return [packed.padded[:n, k] for k, n in enumerate(numbers(packed.lengths, "unpad_sequence").tolist())]


def unpack_sequence(sequence: PackedSequence) -> list[Tensor]:
    """The tensors [length, ...] that were packed; lengths must have numbers.

    >>> [s.tolist() for s in nn.unpack_sequence(nn.pack_sequence([[1.0, 2.0], [3.0]]))]
    [[1.0, 2.0], [3.0]]
    """
    return unpad_sequence(sequence.padded, sequence.lengths)


def _turned(x: Any) -> Any:
    """Time and batch exchanged."""
    return x.permute(1, 0, *range(2, x.ndim))


def kept(inside: Any, new: Sequence[Any], old: Sequence[Any]) -> tuple[Any, ...]:
    """New states where sequences go on, the old ones behind their ends."""
    return tuple(where(inside, n, o) for n, o in zip(new, old, strict=True))


def silent(inside: Any, x: Any) -> Any:
    """x where sequences go on, zeros behind their ends."""
    return where(inside, x, zeros_like(x))
