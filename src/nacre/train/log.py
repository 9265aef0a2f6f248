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
from typing import Any, BinaryIO, Protocol, cast

from nacre.base.errors import ArgumentError, DeviceError, Error, StateError
from nacre.formats.safetensors import reading
from nacre.train.folder import replace
from nacre.train.state import COUNT

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
        size = 0 if position is None else saved_number(position, "bytes", self.path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.file = open(self.path, "ab")  # noqa: SIM115 - close() closes it
            if os.fstat(self.file.fileno()).st_size < size:
                self.file.close()
                raise StateError(f"Trainer: a log of at least {size} bytes, as it was at the checkpoint, is required; "
                                 f"{self.path} is shorter; put it back, or begin anew in another folder")
            self.file.truncate(size)
        except (OSError, ValueError) as fault:
            if isinstance(fault, Error):
                raise
            raise DeviceError(f"Trainer: a log that can be written is required; got {str(self.path)!r}: "
                              f"{getattr(fault, 'strerror', None) or fault}") from None

    def add(self, text: str) -> None:
        """Write text at the end, at once."""
        file = self.opened()
        file.write(text.encode())
        file.flush()

    def opened(self) -> BinaryIO:
        """The file; raises StateError where it is not open."""
        if self.file is None:
            raise StateError(f"log: a writer that has begun is required; {self.path} has not; call begin(None) first")
        return self.file

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

    A row with a name that those before it had not adds a column, which is empty in them; the file is written anew then.

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
        """Open the file, without the lines after a position, and without the columns that came after it."""
        columns: object = [] if position is None else cast("dict[str, object]", position).get("columns") \
            if isinstance(position, Mapping) else None
        if not isinstance(columns, list) or not all(isinstance(c, str) for c in cast("list[object]", columns)):
            raise no_position(cast("object", position), "columns", self.path)
        self.columns = list(cast("list[str]", columns))
        if self.columns and self.path.is_file():
            self._arrange()
        super().begin(position)

    def write(self, kind: str, row: Row) -> None:
        """Write a row."""
        if kind != self.kind:
            return
        new = [name for name in row if name not in self.columns]
        if new and not self.columns:
            self.columns = new
            self.add(_line(new))
        elif new:
            self.opened().close()
            self.columns += new
            self._arrange()
            super().begin({"bytes": self.path.stat().st_size})
        self.add(_line([row.get(name) for name in self.columns]))

    def _arrange(self) -> None:
        """Write the file anew with the columns that there are now, where it has others; it is whole at any time."""
        text = self.path.read_bytes().decode(errors="replace")  # a killed process may have cut a line off anywhere
        rows = list(csv.reader(io.StringIO(text, newline="")))
        if rows and rows[0] != self.columns:
            named = [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]
            text = "".join(_line([row.get(name) for name in self.columns]) for row in named)
            replace(self.path, (_line(self.columns) + text).encode())

    def position(self) -> Any:
        """The file's size and columns."""
        found = super().position()
        return None if found is None else {**found, "columns": list(self.columns)}


def saved_number(position: Any, name: str, where: object, least: int = 0) -> int:
    """A count of a writer's position, from `least` on.  Raises StateError where it has none."""
    held: object = cast("Mapping[str, object]", position).get(name) if isinstance(position, Mapping) else None
    if type(held) is not int or not least <= held < COUNT:
        raise no_position(cast("object", position), name, where)
    return held


def no_position(position: object, name: str, where: object) -> StateError:
    """What is raised for a position that a writer cannot have given."""
    return StateError(f"Trainer: a writer's position with {name} is required for {where}; got {position!r:.60}; read "
                      "the checkpoint with what wrote it, or begin anew in another folder")


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _line(values: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


def read_json_lines(path: str | os.PathLike[str], kind: str = "epoch") -> list[dict[str, Any]]:
    """The rows of a kind in a file that `JsonLines` wrote.

    Raises DeviceError for a file that cannot be read, ArgumentError for one with other lines.

    >>> _ = open("one.jsonl", "w").write('{"kind": "epoch", "step": 44, "loss": "nan"}')
    >>> train.read_json_lines("one.jsonl")
    [{'step': 44, 'loss': nan}]
    """
    try:
        with reading(Path(path)) as file:
            lines = file.read().decode().splitlines()
    except (OSError, ValueError) as fault:
        raise DeviceError(f"read_json_lines: a text file that can be read is required; got {os.fspath(path)!r}: "
                          f"{getattr(fault, 'strerror', None) or fault}") from None
    rows = [_row(line, number, path) for number, line in enumerate(lines, 1)]
    return [{k: _number(v) for k, v in row.items() if k != "kind"} for row in rows if row["kind"] == kind]


def _row(line: str, number: int, path: object) -> dict[str, Any]:
    """A row of a log.  Raises ArgumentError for what is none."""
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or "kind" not in found:
        raise ArgumentError(f"read_json_lines: a JSON object with a kind is required on each line; line {number} of "
                            f"{path} is {line!r:.60}")
    return cast("dict[str, Any]", found)


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
        held: Mapping[str, Any] = positions or {}
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
