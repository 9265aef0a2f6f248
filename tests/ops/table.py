"""The one table of operations, which every kind of test reads.

>>> {row.primitive for row in ROWS} >= {"add", "reshape", "sum", "take", "dot", "window_max"}
True
"""

from __future__ import annotations

from ops import (
    rows_complex,
    rows_dot,
    rows_fft,
    rows_index,
    rows_linalg,
    rows_pointwise,
    rows_reduce,
    rows_sort,
    rows_special,
    rows_spectral,
    rows_view,
)
from ops.row import Row

ROWS: tuple[Row, ...] = (
    *rows_pointwise.ROWS,
    *rows_complex.ROWS,
    *rows_view.ROWS,
    *rows_reduce.ROWS,
    *rows_index.ROWS,
    *rows_sort.ROWS,
    *rows_dot.ROWS,
    *rows_fft.ROWS,
    *rows_linalg.ROWS,
    *rows_spectral.ROWS,
    *rows_special.ROWS,
)
BY_NAME = {row.name: row for row in ROWS}

assert len(BY_NAME) == len(ROWS), "two rows have one name"
