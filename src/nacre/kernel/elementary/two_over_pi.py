"""The table of 2/π for the reduction of huge arguments (Payne and Hanek)."""

from __future__ import annotations

TWO_OVER_PI_BITS = 1280
TWO_OVER_PI = int(  # ⌊2/π · 2^1280⌋
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E0"
    "06492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639835339F4"
    "9C845F8BBDF9283B1FF897FFDE05980FEF2F118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D"
    "7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC7B6BABF0CFBC209AF4361D",
    16,
)

BUCKET = 32  # exponents that share one row of the table
ROW = 4  # numbers of a row


def two_over_pi_rows() -> tuple[float, ...]:
    """Rows of four doubles that sum to 2^(32 b) · 2/π mod 4, b = 0 … 30."""
    table: list[float] = []
    for b in range(31):
        scale = TWO_OVER_PI_BITS - BUCKET * b
        rest = TWO_OVER_PI % (1 << scale + 2)
        for _ in range(ROW):
            drop = max(rest.bit_length() - 53, 0)
            table.append((rest >> drop << drop) / (1 << scale))
            rest &= (1 << drop) - 1
    return tuple(table)


TWO_OVER_PI_ROWS = two_over_pi_rows()
