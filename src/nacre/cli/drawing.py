"""Small grey images as text, in rows, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

BLOCKS, LETTERS = " ░▒▓█", " .:*#"  # from dark to light; letters for terminals without blocks
ACROSS = 2  # characters for a pixel: they are about twice as high as wide
GAP = 2


def lines(image: np.ndarray, blocks: bool = True) -> list[str]:
    """An image [height, width] of values in [0, 1], a line of text for each row.

    >>> lines(np.array([[0.0, 1.0], [0.5, 0.2]]), blocks=False)
    ['  ##', '::..']
    """
    tones = BLOCKS if blocks else LETTERS
    levels = np.clip(np.rint(image * (len(tones) - 1)), 0, len(tones) - 1).astype(int)
    return ["".join(tones[k] * ACROSS for k in row) for row in levels]


def gallery(images: Sequence[np.ndarray], captions: Sequence[str], width: int = 80, blocks: bool = True) -> str:
    """Images of one size with a caption under each, in rows of at most `width` characters."""
    if not len(images):
        return ""
    each = max(images[0].shape[1] * ACROSS, *map(len, captions)) + GAP
    count = max(1, (width + GAP) // each)
    return "\n\n".join(
        "\n".join(_row(images[k : k + count], captions[k : k + count], each, blocks))
        for k in range(0, len(images), count)
    )


def _row(images: Sequence[np.ndarray], captions: Sequence[str], each: int, blocks: bool) -> Iterator[str]:
    drawn = [[*lines(image, blocks), caption] for image, caption in zip(images, captions, strict=True)]
    for parts in zip(*drawn, strict=True):
        yield "".join(part.ljust(each) for part in parts).rstrip()
