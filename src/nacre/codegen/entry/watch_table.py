"""The objects in watched places, in memory for native code; written again when places have other objects that match."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nacre.base.locks import forkable
from nacre.codegen.entry.layouts import WATCHED, WatchedPlace
from nacre.interpret.evaluate import number_tensor
from nacre.runtime.tables import zeros
from nacre.trace.captures import MISSING, Captures, ObjectRow, PlaceContents
from nacre.trace.value import Value

_WRITING = forkable()


class WatchTable:
    """The watched places of a program, and its captured tensors: those in places, and others that it refers to.

    `numbers` has for each of the captured tensors its number among the tensors and arrays in places, or None.  Their
    addresses are the first of `sources`.
    """

    def __init__(
        self, captures: Captures, given: Sequence[Value], numbers: Sequence[int | None], sources: np.ndarray
    ) -> None:
        rows = captures.found.rows
        self._given, self._numbers, self._sources = given, numbers, sources
        self._objects = np.zeros(sum(len(row.objects) for row in rows), np.int64)
        self._kept: tuple[object, ...] = ()  # what the addresses refer to
        self.places = zeros(WatchedPlace, len(rows))
        lengths = [len(row.objects) for row in rows]
        pairs = [row.kind in ("dict", "ordered") for row in rows]
        self.places["count"] = [n // 2 if of_pairs else n for n, of_pairs in zip(lengths, pairs, strict=True)]
        starts = np.cumsum([0, *lengths[:-1]])
        self.places["objects"] = self._objects.ctypes.data + 8 * np.asarray(starts, np.uint64)
        self._keys = [_own_key(row) for row in rows]
        captures.changed = self.renew
        self.renew(captures.found)

    def renew(self, found: PlaceContents) -> None:
        """Write the current objects.  Meanwhile native code finds that they differ, and leaves the call to Python."""
        objects = [x for row in found.rows for x in row.objects]
        words = [0 if x is MISSING else id(x) for x in objects]
        operands = found.operands(self._given, self._numbers)
        tensors = [x if isinstance(x, Value) else number_tensor(x) for x in operands]
        owners = [row.owner for row in found.rows]
        with _WRITING:
            if words == self._objects.tolist() and self._kept:
                return
            before = self._kept
            self._objects[:1] = -1
            self._kept = (*objects, *tensors, *owners)
            self._sources[: len(tensors)] = list(map(id, tensors))
            self.places["kind"] = [WATCHED[row.kind] for row in found.rows]
            self.places["owner"], self.places["key"] = list(map(id, owners)), list(map(id, self._keys))
            self._objects[1:] = words[1:]
            self._objects[:1] = words[:1]
        del before  # only now, because native code may have read its addresses


def _own_key(row: ObjectRow) -> str | None:
    """The name as the object that its dict has, because native code finds that at once."""
    return next((k for k in list(row.owner) if k == row.key), row.key) if row.kind == "name" else row.key
