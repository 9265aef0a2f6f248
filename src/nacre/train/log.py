"""Logs: rows of numbers by name, as CSV and JSON lines, that a resumed training goes on with, no line twice or lost.

A writer takes rows of the kinds "step" and "epoch".  With each checkpoint the trainer keeps every writer's `position`;
a resumed training gives it to `begin`, and what was written after it is taken back.  Rows hold no times, so that two
runs of one training write the same bytes.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from nacre.base.errors import ArgumentError, DeviceError, StateError

Row = Mapping[str, Any]


class Writer(Protocol):
    """Where rows are written to.

    >>> class Printed(train.Writer):
    ...     def begin(self, position): pass
    ...     def write(self, kind, row): print(kind, row)
    ...     def position(self): return None
    ...     def close(self): pass
    >>> Printed().write("step", {"step": 1, "epoch": 0, "loss": 0.25})
    step {'step': 1, 'epoch': 0, 'loss': 0.25}
    """

    def begin(self, position: Any) -> None:
        """Go on from a position; None is the beginning."""
        ...

    def write(self, kind: str, row: Row) -> None:
        """Take a row of the kind "step" or "epoch"; it has both numbers, and values by name."""
        ...

    def position(self) -> Any:
        """Where it is, as numbers, texts and containers of them; all before it is safe."""
        ...

    def close(self) -> None:
        """The training ends."""
        ...


class _Lines:
    """A file of lines, cut to where it was when a training is resumed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.file: BinaryIO | None = None

    def begin(self, position: Any) -> None:
        """Open the file, without the lines after a position."""
        size = 0 if position is None else int(position["bytes"])
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.file = open(self.path, "ab")  # noqa: SIM115 - close() closes it
            if os.fstat(self.file.fileno()).st_size < size:
                self.file.close()
                raise StateError(f"Trainer: a log of at least {size} bytes, as it was at the checkpoint, is required; "
                                 f"{self.path} is shorter; put it back, or begin anew in another folder")
            self.file.truncate(size)
        except OSError as fault:
            raise DeviceError(f"Trainer: a log that can be written is required; got {self.path}: "
                              f"{fault.strerror}") from None

    def add(self, text: str) -> None:
        """Write text at the end, at once."""
        if self.file is None:
            raise StateError(f"log: a writer that has begun is required; {self.path} has not; call begin(None) first")
        self.file.write(text.encode())
        self.file.flush()

    def position(self) -> Any:
        """The file's size, once it is on the disk."""
        if self.file is None:
            return None
        os.fsync(self.file.fileno())
        return {"bytes": os.fstat(self.file.fileno()).st_size}

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file.close()
            self.file = None


class JsonLines(_Lines):
    """A JSON object a line: `{"kind": "epoch", "step": 44, "epoch": 2, "loss": 0.5, …}`.

    Numbers have all their digits; one that is not finite is a text.

    >>> log = train.JsonLines("log.jsonl")
    >>> log.begin(None)
    >>> log.write("epoch", {"step": 44, "epoch": 2, "loss": 0.5})
    >>> log.close()
    >>> train.read_json_lines("log.jsonl")
    [{'step': 44, 'epoch': 2, 'loss': 0.5}]
    """

    def write(self, kind: str, row: Row) -> None:
        """Write a row."""
        self.add(json.dumps({"kind": kind, **{k: _plain(v) for k, v in row.items()}}, allow_nan=False) + "\n")


class Csv(_Lines):
    """The rows of one kind as comma-separated values, under a line with their names.

    Raises ArgumentError for a row with a name that the first one had not.

    >>> log = train.Csv("epochs.csv", "epoch")
    >>> log.begin(None)
    >>> log.write("epoch", {"step": 44, "epoch": 2, "loss": 0.5})
    >>> log.close()
    >>> open("epochs.csv").read().splitlines()
    ['step,epoch,loss', '44,2,0.5']
    """

    def __init__(self, path: str | os.PathLike[str], kind: str) -> None:
        super().__init__(path)
        self.kind = kind
        self.columns: list[str] = []

    def begin(self, position: Any) -> None:
        """Open the file, without the lines after a position."""
        super().begin(position)
        self.columns = [] if position is None else list(position["columns"])

    def write(self, kind: str, row: Row) -> None:
        """Write a row; the first one says which columns there are."""
        if kind != self.kind:
            return
        if not self.columns:
            self.columns = list(row)
            self.add(_line(self.columns))
        elif not set(row) <= set(self.columns):
            raise ArgumentError(f"Trainer: rows with the names {self.columns} are required; got "
                                f"{sorted(set(row) - set(self.columns))} too; return the same names from every step")
        self.add(_line([row.get(name) for name in self.columns]))

    def position(self) -> Any:
        """The file's size and columns."""
        found = super().position()
        return None if found is None else {**found, "columns": list(self.columns)}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _line(values: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


def read_json_lines(path: str | os.PathLike[str], kind: str = "epoch") -> list[dict[str, Any]]:
    """The rows of a kind in a file that `JsonLines` wrote.

    >>> _ = open("one.jsonl", "w").write('{"kind": "epoch", "step": 44, "loss": "nan"}')
    >>> train.read_json_lines("one.jsonl")
    [{'step': 44, 'loss': nan}]
    """
    rows: list[dict[str, Any]] = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return [{k: _number(v) for k, v in row.items() if k != "kind"} for row in rows if row["kind"] == kind]


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) and value in ("nan", "inf", "-inf") else value


class Writers:
    """Several writers as one."""

    def __init__(self, writers: Sequence[Writer]) -> None:
        self.listed = list(writers)

    def _named(self) -> dict[str, Writer]:
        """The writers by kind, and by number among those of a kind."""
        found: dict[str, Writer] = {}
        for writer in self.listed:
            kind = type(writer).__name__
            found[f"{kind} {sum(name.startswith(f'{kind} ') for name in found)}"] = writer
        return found

    def begin(self, positions: Any) -> None:
        """Go on from positions; a writer that has none begins at the beginning."""
        held: dict[str, Any] = positions or {}
        for name, writer in self._named().items():
            writer.begin(held.get(name))

    def write(self, kind: str, row: Row) -> None:
        """Give a row to all."""
        for writer in self.listed:
            writer.write(kind, row)

    def position(self) -> dict[str, Any]:
        """All positions, by writer."""
        return {name: writer.position() for name, writer in self._named().items()}

    def close(self) -> None:
        """Close all."""
        for writer in self.listed:
            writer.close()


def files(out: Path) -> list[Writer]:
    """The logs that every training with a folder writes."""
    return [JsonLines(out / "log.jsonl"), Csv(out / "steps.csv", "step"), Csv(out / "epochs.csv", "epoch")]


__all__ = ["Csv", "JsonLines", "Row", "Writer", "Writers", "files", "read_json_lines"]
