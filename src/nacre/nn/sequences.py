"""Sequences of different lengths in one batch, padded to one length, or packed for recurrent networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from nacre.api.creation import arange, full, zeros_like
from nacre.api.manipulation import concat, stack
from nacre.api.operands import TensorLike, as_tensor, numbers
from nacre.api.searching import where
from nacre.api.tensor import Tensor
from nacre.base.dtypes import int64
from nacre.base.errors import ArgumentError, DTypeError, ShapeError
from nacre.interpret.precision.functions import autocasting
from nacre.trace.value import is_concrete

__all__ = [
    "PackedSequence",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence(NamedTuple):
    """Padded sequences in one tensor, `padded` [L, N, ...], with their `lengths` [N]; the padding is not read.

    `nn.RNN`, `nn.LSTM` and `nn.GRU` take a packed sequence and return one.  Each sequence gets the same bits as alone.
    Unlike PyTorch's class it keeps the padding, so that one compiled function serves all lengths.

    >>> packed = nn.pack_sequence([nc.tensor([1.0, 2.0]), nc.tensor([3.0])])
    >>> packed.padded.tolist(), packed.lengths.tolist()
    ([[1.0, 3.0], [2.0, 0.0]], [2, 1])
    """

    padded: Tensor
    lengths: Tensor

    @property
    def inside(self) -> Any:
        """bool [L, N]: true where an element is not padding."""
        rows: Any = arange(self.padded.shape[0])
        return rows[:, None] < self.lengths[None, :]


def pack_padded_sequence(
    input: TensorLike, lengths: TensorLike, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Padded sequences [L, N, ...] (or [N, L, ...] with `batch_first`) with their lengths [N], from 1 to L.

    The sequences may be in any order; `enforce_sorted` has no effect.  Raises ShapeError or DTypeError for arguments
    that do not fit together, ArgumentError for lengths outside [1, L] if they are known.

    >>> x = nc.ones((2, 4, 3))
    >>> output, last = nn.GRU(3, 5)(nn.pack_padded_sequence(x, [4, 2], batch_first=True))
    >>> padded, lengths = nn.pad_packed_sequence(output, batch_first=True)
    >>> padded.shape, lengths.tolist(), last.shape, bool(nc.all(padded[1, 2:] == 0))
    ((2, 4, 5), [4, 2], (1, 2, 5), True)
    """
    held: Any = as_tensor(input)
    if held.ndim < 2:
        raise ShapeError(f"pack_padded_sequence: sequences must be [L, N, ...]; got {held.type}")
    held = _time_and_batch_swapped(held) if batch_first else held
    sizes: Any = as_tensor(lengths)
    if not sizes.dtype.is_integer:
        raise DTypeError(f"pack_padded_sequence: lengths must be integers; got {sizes.type}")
    if sizes.shape != held.shape[1:2]:
        raise ShapeError(f"pack_padded_sequence: lengths must be [{held.shape[1]}] for {held.type}; got {sizes.type}")
    longest = held.shape[0]
    if is_concrete(sizes) and isinstance(longest, int):
        given = numbers(sizes, "pack_padded_sequence")
        if given.size and not (given.min() >= 1 and given.max() <= longest):
            raise ArgumentError(f"pack_padded_sequence: lengths must be from 1 to {longest}; got {given.tolist()}")
    return PackedSequence(held, as_tensor(sizes, int64))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The padded sequences [L, N, ...] (or [N, L, ...]) and their lengths [N], with the padding value after their ends.

    L is the packed length, or `total_length`.  Raises ArgumentError for a total_length that is shorter.

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
                f"pad_packed_sequence: total_length must be at least {held.shape[0]}; got {total_length}"
            )
        more = full((total_length - held.shape[0], *held.shape[1:]), padding_value, held.dtype)
        filled = concat([filled, more])
    return _time_and_batch_swapped(filled) if batch_first else filled, sequence.lengths


@autocasting
def pad_sequence(sequences: Sequence[TensorLike], batch_first: bool = False, padding_value: float = 0.0) -> Tensor:
    """Tensors [length, ...] stacked as [L, N, ...] (or [N, L, ...]), padded to the longest.

    Apart from their lengths the tensors have one type.  Raises ArgumentError without tensors, ShapeError or DTypeError
    for types that differ.

    >>> nn.pad_sequence([[1.0, 2.0], [3.0]], batch_first=True, padding_value=9.0).tolist()
    [[1.0, 2.0], [3.0, 9.0]]
    """
    held: list[Any] = [as_tensor(s) for s in sequences]
    if not held:
        raise ArgumentError("pad_sequence: at least one sequence is required; got none")
    for s in held:
        if s.ndim < 1 or s.shape[1:] != held[0].shape[1:]:
            raise ShapeError(
                f"pad_sequence: sequences must have one shape apart from the length; got {s.type} and {held[0].type}"
            )
        if s.dtype is not held[0].dtype:
            raise DTypeError(f"pad_sequence: sequences must have one dtype; got {s.type} and {held[0].type}")
    longest = max(s.shape[0] for s in held)
    rows = [concat([s, full((longest - s.shape[0], *s.shape[1:]), padding_value, s.dtype)]) for s in held]
    return stack(rows, axis=0 if batch_first else 1)


def pack_sequence(sequences: Sequence[TensorLike], enforce_sorted: bool = True) -> PackedSequence:
    """Tensors [length, ...] packed: `pad_sequence` with the lengths.

    Raises the errors of `pad_sequence`.

    >>> nn.pack_sequence([nc.ones((2, 3)), nc.ones((4, 3))]).padded.shape
    (4, 2, 3)
    """
    return pack_padded_sequence(pad_sequence(sequences), [as_tensor(s).shape[0] for s in sequences])


def unpad_sequence(padded: TensorLike, lengths: TensorLike, batch_first: bool = False) -> list[Tensor]:
    """The original tensors [length, ...] of padded sequences; the lengths must have known values.

    >>> [s.tolist() for s in nn.unpad_sequence([[1.0, 3.0], [2.0, 0.0]], [2, 1])]
    [[1.0, 2.0], [3.0]]
    """
    packed = pack_padded_sequence(padded, lengths, batch_first)
    return [packed.padded[:n, k] for k, n in enumerate(numbers(packed.lengths, "unpad_sequence").tolist())]


def unpack_sequence(sequence: PackedSequence) -> list[Tensor]:
    """The original tensors [length, ...] of a packed sequence; the lengths must have known values.

    >>> [s.tolist() for s in nn.unpack_sequence(nn.pack_sequence([[1.0, 2.0], [3.0]]))]
    [[1.0, 2.0], [3.0]]
    """
    return unpad_sequence(sequence.padded, sequence.lengths)


def _time_and_batch_swapped(x: Any) -> Any:
    """x with the axes of time and batch exchanged."""
    return x.permute(1, 0, *range(2, x.ndim))


def kept(inside: Any, new: Sequence[Any], old: Sequence[Any]) -> tuple[Any, ...]:
    """New states where sequences continue, and the old ones after their ends."""
    return tuple(where(inside, n, o) for n, o in zip(new, old, strict=True))


def silent(inside: Any, x: Any) -> Any:
    """x where sequences continue, zeros after their ends."""
    return where(inside, x, zeros_like(x))
