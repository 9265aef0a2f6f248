"""Random augmentation of images [..., C, H, W] and of token sequences, on NumPy arrays.

All functions draw from `data.rng()`.  In a loader, their effect on an item depends only on the seed, the epoch and the
item.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nacre.base.arguments import whole_numbers
from nacre.base.conversion import integers
from nacre.base.dtypes import FLOATING, INTEGRAL
from nacre.base.errors import ArgumentError, ShapeError
from nacre.data.randomness import rng

Pair = int | tuple[int, int]


def _pair(value: Pair, what: str) -> tuple[int, int]:
    found = whole_numbers(value, "augment", what, 2)
    if min(found) < 0:
        raise ArgumentError(f"augment: {what} must be one or two non-negative sizes; got {value}")
    return found[0], found[1]


def _image(x: Any, kind: str) -> np.ndarray:
    image = np.asarray(x)
    if image.ndim < 2:
        raise ShapeError(f"{kind}: an image must be [..., H, W]; got shape {list(image.shape)}")
    return image


def _check_chance(kind: str, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"{kind}: p must be a probability in [0, 1]; got {p}")


class Compose:
    """Applies several functions in turn.

    >>> data.Compose([abs, float])(-2)
    2.0
    """

    def __init__(self, functions: Sequence[Callable[[Any], Any]]) -> None:
        self.functions = list(functions)

    def __call__(self, x: Any) -> Any:
        for f in self.functions:
            x = f(x)
        return x


class OnInput:
    """Applies a function to the first part of a pair (input, target); the rest stays.

    >>> data.OnInput(abs)((-2, "label"))
    (2, 'label')
    """

    def __init__(self, f: Callable[[Any], Any]) -> None:
        self.f = f

    def __call__(self, item: Sequence[Any]) -> tuple[Any, ...]:
        return self.f(item[0]), *item[1:]


# ---- images


class ToFloat:
    """Bytes [H, W, C] or [H, W] as float32 [C, H, W] from 0 to 1.

    Raises ShapeError for another rank.

    >>> import numpy as np
    >>> data.ToFloat()(np.full((2, 3, 1), 255, np.uint8)).shape
    (1, 2, 3)
    """

    def __call__(self, x: Any) -> np.ndarray:
        image = np.asarray(x)
        if image.ndim not in (2, 3):
            raise ShapeError(f"ToFloat: an image must be [H, W, C] or [H, W]; got shape {list(image.shape)}")
        planes = image[None] if image.ndim == 2 else np.moveaxis(image, 2, 0)
        whole = np.iinfo(image.dtype).max if INTEGRAL.holds(image.dtype) else 1
        return np.ascontiguousarray(planes, np.float32) / np.float32(whole)


class Normalize:
    """(x − mean) / std for each channel of images [C, H, W], in float32.

    Raises ArgumentError for a std of 0.

    >>> import numpy as np
    >>> data.Normalize([1.0], [2.0])(np.full((1, 1, 1), 5.0, np.float32)).item()
    2.0
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean, self.std = (np.asarray(v, np.float32)[:, None, None] for v in (mean, std))
        if (self.std == 0).any():
            raise ArgumentError(f"Normalize: std must not contain 0; got {std}")

    def __call__(self, x: Any) -> np.ndarray:
        return (_image(x, "Normalize") - self.mean) / self.std


class _Flip:
    axis = -1

    def __init__(self, p: float = 0.5) -> None:
        _check_chance(type(self).__name__, p)
        self.p = p

    def __call__(self, x: Any) -> np.ndarray:
        image = _image(x, type(self).__name__)
        return np.flip(image, self.axis) if rng().random() < self.p else image


class RandomHorizontalFlip(_Flip):
    """Flips an image [..., H, W] left to right with probability p.

    Raises ArgumentError for a probability outside [0, 1].

    >>> import numpy as np
    >>> data.RandomHorizontalFlip(1.0)(np.array([[1, 2]])).tolist()
    [[2, 1]]
    """


class RandomVerticalFlip(_Flip):
    """Flips an image [..., H, W] top to bottom with probability p.

    Raises ArgumentError for a probability outside [0, 1].

    >>> import numpy as np
    >>> data.RandomVerticalFlip(1.0)(np.array([[1], [2]])).tolist()
    [[2], [1]]
    """

    axis = -2


class Pad:
    """Margins around an image [..., H, W]: filled with a number, or by a mode of `numpy.pad` such as "reflect".

    >>> import numpy as np
    >>> data.Pad(1)(np.ones((2, 2))).shape
    (4, 4)
    """

    def __init__(self, padding: Pair, fill: float = 0.0, padding_mode: str = "constant") -> None:
        self.padding, self.fill, self.padding_mode = _pair(padding, "padding"), fill, padding_mode

    def __call__(self, x: Any) -> np.ndarray:
        image = _image(x, "Pad")
        widths = [(0, 0)] * (image.ndim - 2) + [(n, n) for n in self.padding]
        mode: Any = self.padding_mode
        if mode == "constant":
            return np.pad(image, widths, mode, constant_values=self.fill)
        return np.pad(image, widths, mode)


def _cut(x: np.ndarray, top: int, left: int, size: tuple[int, int]) -> np.ndarray:
    return x[..., top : top + size[0], left : left + size[1]]


class CenterCrop:
    """The centre of an image [..., H, W], cut to a size.

    Raises ShapeError for an image smaller than the size.

    >>> import numpy as np
    >>> data.CenterCrop(1)(np.arange(9).reshape(3, 3)).tolist()
    [[4]]
    """

    def __init__(self, size: Pair) -> None:
        self.size = _pair(size, "size")

    def __call__(self, x: Any) -> np.ndarray:
        image = _image(x, "CenterCrop")
        room = _room(image, self.size, "CenterCrop")
        return _cut(image, room[0] // 2, room[1] // 2, self.size)


def _room(x: np.ndarray, size: tuple[int, int], kind: str) -> tuple[int, int]:
    room = x.shape[-2] - size[0], x.shape[-1] - size[1]
    if min(room) < 0:
        raise ShapeError(f"{kind}: an image must be at least {size}; got {x.shape[-2:]}; pad it")
    return room


class RandomCrop:
    """A random part of an image [..., H, W], of a given size, after optional padding.

    Raises ShapeError for an image smaller than the size.

    >>> import numpy as np
    >>> data.RandomCrop(4, padding=1)(np.ones((3, 4, 4))).shape
    (3, 4, 4)
    """

    def __init__(self, size: Pair, padding: Pair = 0, fill: float = 0.0, padding_mode: str = "constant") -> None:
        self.size, self.pad = _pair(size, "size"), Pad(padding, fill, padding_mode)

    def __call__(self, x: Any) -> np.ndarray:
        image = self.pad(x)
        room, draw = _room(image, self.size, "RandomCrop"), rng()
        return _cut(image, int(draw.integers(room[0] + 1)), int(draw.integers(room[1] + 1)), self.size)


class RandomRotation:
    """Rotates an image [..., H, W] about its centre by a random angle of at most ±degrees.

    Pixels are interpolated bilinearly; pixels from outside the image are `fill`.  Raises ArgumentError for negative
    degrees.

    >>> import numpy as np
    >>> data.RandomRotation(10.0)(np.ones((1, 5, 5), np.float32)).shape
    (1, 5, 5)
    """

    def __init__(self, degrees: float, fill: float = 0.0) -> None:
        if degrees < 0:
            raise ArgumentError(f"RandomRotation: degrees must not be negative; got {degrees}")
        self.degrees, self.fill = degrees, fill

    def __call__(self, x: Any) -> np.ndarray:
        return rotated(_image(x, "RandomRotation"), rng().uniform(-self.degrees, self.degrees), self.fill)


def rotated(x: np.ndarray, degrees: float, fill: float) -> np.ndarray:
    """An image [..., H, W] rotated counter-clockwise about its centre."""
    height, width = (int(n) for n in x.shape[-2:])
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    down: np.ndarray = (np.arange(height) - (height - 1) / 2)[:, None]
    right: np.ndarray = np.arange(width) - (width - 1) / 2
    rows: np.ndarray = down * cosine + right * sine + (height - 1) / 2
    columns: np.ndarray = right * cosine - down * sine + (width - 1) / 2
    top, left = np.floor(rows).astype(np.int64), np.floor(columns).astype(np.int64)
    total = np.zeros(x.shape, np.float64)
    for i in (0, 1):
        for j in (0, 1):
            weight = (1 - np.abs(rows - top - i)) * (1 - np.abs(columns - left - j))
            r, c = top + i, left + j
            inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
            taken = x[..., np.clip(r, 0, height - 1), np.clip(c, 0, width - 1)]
            total += weight * np.where(inside, taken, fill)
    return total.astype(x.dtype) if FLOATING.holds(x.dtype) else np.rint(total).astype(x.dtype)


class Cutout:
    """Fills a random rectangle of an image with a number, with probability p (DeVries and Taylor 2017).

    Raises ArgumentError for a probability outside [0, 1].

    >>> import numpy as np
    >>> float(data.Cutout(2, p=1.0)(np.ones((1, 8, 8))).min())
    0.0
    """

    def __init__(self, size: Pair, p: float = 1.0, fill: float = 0.0) -> None:
        _check_chance("Cutout", p)
        self.size, self.p, self.fill = _pair(size, "size"), p, fill

    def __call__(self, x: Any) -> np.ndarray:
        image, draw = _image(x, "Cutout"), rng()
        if draw.random() >= self.p:
            return image
        height, width = (int(n) for n in image.shape[-2:])
        row, column = int(draw.integers(height)), int(draw.integers(width))
        top, left = row - self.size[0] // 2, column - self.size[1] // 2
        found = image.copy()
        found[..., max(0, top) : top + self.size[0], max(0, left) : left + self.size[1]] = self.fill
        return found


class MixUp:
    """A collate function that mixes each example with another one of the batch (Zhang et al. 2018).

    Items are pairs (input, class).  The batch is (inputs, targets [N, num_classes]), in float32.  The mixing share is
    drawn once per batch from a Beta(alpha, alpha) distribution.  Raises ArgumentError unless num_classes and alpha are
    positive.

    >>> x, t = data.MixUp(3, alpha=0.2)([(1.0, 0), (2.0, 2)])
    >>> t.shape, round(float(t.sum()), 5)
    ((2, 3), 2.0)
    """

    def __init__(self, num_classes: int, alpha: float = 0.2) -> None:
        if num_classes < 1 or not alpha > 0:
            raise ArgumentError(f"MixUp: num_classes and alpha must be positive; got {num_classes}, {alpha}")
        self.num_classes, self.alpha = num_classes, alpha

    def __call__(self, items: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        inputs = np.stack([np.asarray(item[0], np.float32) for item in items])
        targets = np.eye(self.num_classes, dtype=np.float32)[[int(item[1]) for item in items]]
        draw = rng()
        share, order = np.float32(draw.beta(self.alpha, self.alpha)), draw.permutation(len(items))
        return tuple(share * v + (1 - share) * v[order] for v in (inputs, targets))  # type: ignore[return-value]


# ---- sequences


class RandomWindow:
    """A random window of a sequence [L, ...]; a shorter sequence is padded at its end.

    Raises ArgumentError unless the length is positive.

    >>> data.RandomWindow(3, fill=-1)([1, 2]).tolist()
    [1, 2, -1]
    """

    def __init__(self, length: int, fill: int = 0) -> None:
        if length < 1:
            raise ArgumentError(f"RandomWindow: length must be positive; got {length}")
        self.length, self.fill = length, fill

    def __call__(self, x: Any) -> np.ndarray:
        image = np.asarray(x)
        if len(image) < self.length:
            widths = [(0, self.length - len(image))] + [(0, 0)] * (image.ndim - 1)
            return np.pad(image, widths, constant_values=self.fill)
        start = int(rng().integers(len(image) - self.length + 1))
        return image[start : start + self.length]


class TokenMasking:
    """Masks tokens for a masked language model (Devlin et al. 2019) and returns (tokens, targets).

    Each token that is not special is chosen with probability p.  Of the chosen ones, 80 % become the mask, 10 % become
    another token and 10 % stay.  Targets are `ignore_index` where nothing was chosen.

    >>> tokens, targets = data.TokenMasking(103, 1000, p=1.0)([5, 6, 7])
    >>> targets.tolist()
    [5, 6, 7]
    """

    def __init__(
        self,
        mask_token: int,
        vocabulary: int,
        p: float = 0.15,
        special: Sequence[int] = (),
        ignore_index: int = -100,
    ) -> None:
        _check_chance("TokenMasking", p)
        self.mask_token, self.vocabulary, self.p = mask_token, vocabulary, p
        self.special, self.ignore_index = integers(special, "TokenMasking"), ignore_index

    def __call__(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        tokens, draw = integers(x, "TokenMasking"), rng()
        chosen = (draw.random(tokens.shape) < self.p) & ~np.isin(tokens, self.special)
        what, others = draw.random(tokens.shape), draw.integers(0, self.vocabulary, tokens.shape)
        hidden = np.where(what < 0.8, self.mask_token, np.where(what < 0.9, others, tokens))
        return np.where(chosen, hidden, tokens), np.where(chosen, tokens, self.ignore_index)
