"""Logs: rows of numbers by name, as CSV and JSON lines; a resumed training continues them without a lost or double row.

A writer takes rows of the kinds "step" and "epoch".  Each checkpoint stores the `position` of every writer.  A resumed
training passes it to `begin`, which removes the rows after it.  Rows hold no times, so two runs of the same training
write the same bytes.
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

from nacre.base.errors import ArgumentError, Error, StateError, file_error, reason
from nacre.formats.safetensors import reading
from nacre.train.folder import replace
from nacre.train.state import COUNT

Row = Mapping[str, Any]


class Writer(Protocol):
    """The protocol of a log writer.

    >>> class Printed(train.Writer):
    ...     def begin(self, position): pass
    ...     def write(self, kind, row): print(kind, row)
    ...     def position(self): return None
    ...     def close(self): pass
    >>> Printed().write("step", {"step": 1, "epoch": 0, "loss": 0.25})
    step {'step': 1, 'epoch': 0, 'loss': 0.25}
    """

    def begin(self, position: Any) -> None:
        """Open the log at a position and remove the rows after it; None is the beginning."""
        ...

    def write(self, kind: str, row: Row) -> None:
        """Write a row of the kind "step" or "epoch"; it has the numbers of both, and values by name."""
        ...

    def position(self) -> Any:
        """The current position, of numbers, texts and containers of them; all rows before it are on the disk."""
        ...

    def close(self) -> None:
        """Close the log at the end of the training."""
        ...


class _Lines:
    """A file of lines, which is cut to its saved length when a training is resumed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.file: BinaryIO | None = None

    def begin(self, position: Any) -> None:
        """Open the file and remove the lines after a position."""
        size = 0 if position is None else saved_number(position, "bytes", self.path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.file = open(self.path, "ab")  # noqa: SIM115 - close() closes it
            if os.fstat(self.file.fileno()).st_size < size:
                self.file.close()
                raise StateError(
                    f"Trainer: the log {self.path} must hold at least the {size} bytes that it had at the checkpoint; "
                    "it is shorter; restore it, or begin anew in another folder"
                )
            self.file.truncate(size)
        except (OSError, ValueError) as fault:
            if isinstance(fault, Error):
                raise
            raise file_error(f"Trainer: cannot write the log {str(self.path)!r}: {reason(fault)}", fault) from None

    def add(self, text: str) -> None:
        """Append text and write it at once."""
        file = self.opened()
        file.write(text.encode())
        file.flush()

    def opened(self) -> BinaryIO:
        """The open file; raises StateError if it is not open."""
        if self.file is None:
            raise StateError(f"log: the writer of {self.path} has not begun; call begin(None) first")
        return self.file

    def position(self) -> Any:
        """The size of the file, after it is forced to the disk."""
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
    """A writer of one JSON object per line: `{"kind": "epoch", "step": 44, "epoch": 2, "loss": 0.5, …}`.

    Numbers have all their digits.  A number that is not finite is written as a string.

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
    """A writer of the rows of one kind as comma-separated values, below a line with the names of the columns.

    A row with a new name adds a column, which is empty in the rows before it.  The file is then written again.

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
        """Open the file, and remove the lines after a position and the columns added after it."""
        columns: object = (
            []
            if position is None
            else cast("dict[str, object]", position).get("columns")
            if isinstance(position, Mapping)
            else None
        )
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
        """Write the file again if its columns have changed; the write is atomic."""
        text = self.path.read_bytes().decode(errors="replace")  # a killed process may have cut a line off at any byte
        rows = list(csv.reader(io.StringIO(text, newline="")))
        if rows and rows[0] != self.columns:
            named = [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]
            text = "".join(_line([row.get(name) for name in self.columns]) for row in named)
            replace(self.path, (_line(self.columns) + text).encode())

    def position(self) -> Any:
        """The size of the file, and its columns."""
        found = super().position()
        return None if found is None else {**found, "columns": list(self.columns)}


def saved_number(position: Any, name: str, where: object, least: int = 0) -> int:
    """A count in a writer's position, at least `least`.  Raises StateError if it is missing."""
    stored: object = cast("Mapping[str, object]", position).get(name) if isinstance(position, Mapping) else None
    if type(stored) is not int or not least <= stored < COUNT:
        raise no_position(cast("object", position), name, where)
    return stored


def no_position(position: object, name: str, where: object) -> StateError:
    """The error for a position that no writer has made."""
    return StateError(
        f"Trainer: the saved position of {where} must have {name}; got {position!r:.60}; read the checkpoint with the "
        "Nacre version that wrote it, or begin anew in another folder"
    )


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _line(values: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


def read_json_lines(path: str | os.PathLike[str], kind: str = "epoch") -> list[dict[str, Any]]:
    """The rows of one kind in a file that `JsonLines` wrote.

    Raises DeviceError for a file that cannot be read, ArgumentError for other lines.

    >>> _ = open("one.jsonl", "w").write('{"kind": "epoch", "step": 44, "loss": "nan"}')
    >>> train.read_json_lines("one.jsonl")
    [{'step': 44, 'loss': nan}]
    """
    try:
        with reading(Path(path)) as file:
            lines = file.read().decode().splitlines()
    except (OSError, ValueError) as fault:
        raise file_error(f"read_json_lines: cannot read {os.fspath(path)!r}; {reason(fault)}", fault) from None
    rows = [_row(line, number, path) for number, line in enumerate(lines, 1)]
    return [{k: _number(v) for k, v in row.items() if k != "kind"} for row in rows if row["kind"] == kind]


def _row(line: str, number: int, path: object) -> dict[str, Any]:
    """One row of a log.  Raises ArgumentError for any other line."""
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or "kind" not in found:
        raise ArgumentError(
            f"read_json_lines: each line must be a JSON object with a kind; line {number} of {path} is {line!r:.60}"
        )
    return cast("dict[str, Any]", found)


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) and value in ("nan", "inf", "-inf") else value


class Writers:
    """Several writers as one."""

    def __init__(self, writers: Sequence[Writer]) -> None:
        self.listed = list(writers)

    def _named(self) -> dict[str, Writer]:
        """The writers by class name and number, as positions are saved."""
        found: dict[str, Writer] = {}
        for writer in self.listed:
            kind = type(writer).__name__
            found[f"{kind} {sum(name.startswith(f'{kind} ') for name in found)}"] = writer
        return found

    def begin(self, positions: Any) -> None:
        """Begin all writers at their saved positions; a writer without one begins at the beginning."""
        stored: Mapping[str, Any] = positions or {}
        for name, writer in self._named().items():
            writer.begin(stored.get(name))

    def write(self, kind: str, row: Row) -> None:
        """Write a row to all writers."""
        for writer in self.listed:
            writer.write(kind, row)

    def position(self) -> dict[str, Any]:
        """The positions of all writers."""
        return {name: writer.position() for name, writer in self._named().items()}

    def close(self) -> None:
        """Close all writers."""
        for writer in self.listed:
            writer.close()


LOG = "log.jsonl"


def files(out: Path) -> list[Writer]:
    """The logs of every training that has a folder."""
    return [JsonLines(out / LOG), Csv(out / "steps.csv", "step"), Csv(out / "epochs.csv", "epoch")]


__all__ = ["Csv", "JsonLines", "Writer", "read_json_lines"]
