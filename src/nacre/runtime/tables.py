"""Tables of native structures that Python writes, as NumPy arrays with the same layout.

rows = table(Move, [Move(argument=3, distances=(64, 64))])
rows["argument"], rows.ctypes.data              # the fields of all rows; the address for native code
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np

from nacre.native.python.types import ArrayKind, Kind, StructKind, struct_of
from nacre.native.records import number_code

T = TypeVar("T")


@cache
def row_type(owner: type[Any]) -> np.dtype[Any]:
    """NumPy's type of a structure.

    >>> from nacre.runtime.layouts import Move
    >>> row_type(Move).names, row_type(Move).itemsize
    (('argument', 'distances'), 24)
    """
    kind = struct_of(owner)
    fields = kind.fields
    return np.dtype(
        {
            "names": list(fields),
            "formats": [_format(f.kind) for f in fields.values()],
            "offsets": [f.offset for f in fields.values()],
            "itemsize": kind.nbytes,
        }
    )


def _format(kind: Kind) -> Any:
    if isinstance(kind, StructKind):
        return row_type(kind.owner)
    if isinstance(kind, ArrayKind):
        return _format(kind.element), (kind.count,)
    return number_code(kind, "row_type")


def zeros(owner: type[Any], count: int) -> np.ndarray:
    """Structures one behind another whose fields are zero.

    >>> from nacre.runtime.layouts import Fixup
    >>> rows = zeros(Fixup, 2)
    >>> rows[1]["base"] = 7
    >>> rows["base"].tolist()
    [0, 7]
    """
    return np.zeros(count, row_type(owner))


def table(owner: type[T], rows: Sequence[T]) -> np.ndarray:
    """Structures one behind another; fields that are null, or that a row does not have, are zero."""
    kind = row_type(owner)
    values = [row.__dict__ for row in rows]
    return np.array([tuple([v.get(name) or 0 for name in kind.names or ()]) for v in values], kind)


def record(values: object) -> np.ndarray:
    """One structure, as an array without axes."""
    return table(type(values), [values]).reshape(())


def memory_of(*parts: bytes) -> np.ndarray:
    """Packed structures, whole words each, one after another in memory that stays in its place."""
    return np.frombuffer(b"".join(parts), np.int64).copy()


def address(of: np.ndarray) -> Any:
    """The address of a table, for a field that is a pointer."""
    return of.ctypes.data
