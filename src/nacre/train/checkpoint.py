"""Checkpoints: folders of safetensors and JSON files, written atomically; the last ones and the best one remain.

A checkpoint is a folder such as `step-00000120`.  `model.safetensors` is the model's state dict; any program that reads
the format can read it.  `state.safetensors` and `state.json` hold the rest (see `train.state`).  `checkpoint.json`
lists these files with their sizes and SHA-256.  A folder without it is not a checkpoint.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from nacre import __version__
from nacre.base.errors import ArgumentError, DeviceError, Error, StateError, file_error, reason
from nacre.base.records import dataclass
from nacre.formats.safetensors import load, reading, save
from nacre.nn.module import Module
from nacre.train import folder
from nacre.train.state import Tensors, packed, unpacked

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "DamagedCheckpoint",
    "read",
    "restore_model",
]

FORMAT, VERSION = "nacre training checkpoint", 1
MODEL, STATE, DOCUMENT, MANIFEST = "model.safetensors", "state.safetensors", "state.json", "checkpoint.json"
FILES = (MODEL, STATE, DOCUMENT)
HARMED = (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EIO)  # faults of the files, not of the process
NAME = re.compile(r"step-(\d{8,})")
BEST, LAST = "best", "last"
FOLDER = "checkpoints"  # in the folder of a training
DAMAGED = "damaged-"


class DamagedCheckpoint(StateError):
    """A checkpoint is damaged: a file is missing, or its bytes have changed."""


class MissingCheckpoint(StateError, FileNotFoundError):
    """The path of a checkpoint does not exist."""


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint: the model's tensors by name, and the rest of the training's state."""

    path: Path
    step: int
    model: Mapping[str, Any]
    state: Mapping[str, Any]


class Checkpoints:
    """The checkpoints in a folder: the last `keep` ones and the best one.  `best` and `last` are links to them.

    Raises ArgumentError unless `keep` is positive.

    >>> import tempfile
    >>> checkpoints = train.Checkpoints(tempfile.mkdtemp(), keep=2)
    >>> for step in (10, 20, 30): _ = checkpoints.save(step, {"w": nc.ones(2)}, {"epoch": step // 10}, best=10)
    >>> [path.name for path in checkpoints.paths()], checkpoints.latest().state
    (['step-00000010', 'step-00000020', 'step-00000030'], {'epoch': 3})
    """

    def __init__(self, where: str | os.PathLike[str], keep: int = 3) -> None:
        if keep < 1:
            raise ArgumentError(f"Checkpoints: keep must be positive; got {keep}")
        self.folder, self.keep = Path(where), keep

    def paths(self) -> list[Path]:
        """The paths of the checkpoints, the oldest first."""
        if not self.folder.is_dir():
            return []
        found = [(int(m[1]), p) for p in self.folder.iterdir() if (m := NAME.fullmatch(p.name)) and p.is_dir()]
        return [path for _, path in sorted(found)]

    def sweep(self) -> None:
        """Remove the unfinished files of a killed process; no other process may write here at the same time."""
        if self.folder.is_dir():
            folder.sweep(self.folder)

    # ---- writing

    def save(self, step: int, model: Mapping[str, Any], state: Mapping[str, Any], best: int = -1) -> Path:
        """Write the checkpoint of a step and remove those that are superseded; `best` is the step of the best one.

        When it returns, the checkpoint is on the disk.  If the process is killed before, the old checkpoints remain.
        Raises DeviceError if the checkpoint cannot be written.
        """
        path = self.folder / f"step-{step:08}"
        tensors: Tensors = {}
        document = packed(state, "", tensors)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            folder.sweep(self.folder)  # a killed process may have left a folder of this name
            made = self.folder / (folder.UNDER_WAY + path.name)
            made.mkdir()
            self._fill(made, model, tensors, {"step": step, "state": document})
            folder.take_place(made, path)
            self.arrange(best)
        except OSError as fault:
            if isinstance(fault, Error):
                raise
            raise file_error(
                f"checkpoint: cannot write {path}: {reason(fault)}; free space, or name another folder", fault
            ) from None
        return path

    def _fill(self, made: Path, model: Mapping[str, Any], tensors: Tensors, document: Any) -> None:
        save(model, made / MODEL)
        save(tensors, made / STATE)
        folder.write(made / DOCUMENT, json.dumps(document, allow_nan=False).encode())
        files = {name: _facts(made / name) for name in FILES}
        listed = {"format": FORMAT, "version": VERSION, "nacre": __version__, "files": files}
        folder.write(made / MANIFEST, (json.dumps(listed, indent=1) + "\n").encode())
        folder.synced(made)

    def arrange(self, best: int = -1) -> None:
        """Point the links to the best and the last checkpoint, and remove the superseded checkpoints."""
        paths = self.paths()
        chosen = self.folder / f"step-{best:08}"
        for link, target in ((BEST, chosen if chosen in paths else None), (LAST, paths[-1] if paths else None)):
            if target is not None:
                folder.point(self.folder / link, target.name)
            elif (self.folder / link).is_symlink():
                (self.folder / link).unlink()
        for path in paths[: -self.keep]:
            if path != chosen:
                folder.discard(path)

    # ---- reading

    def latest(self, say: Callable[[str], object] | None = None) -> Checkpoint | None:
        """The last checkpoint, or None if there is none.

        A damaged checkpoint is renamed, and the one before it is taken; `say` is called with a message.  Raises
        StateError if all are damaged (they stay as they are), or if another version wrote one.
        """
        faults: list[tuple[Path, DamagedCheckpoint]] = []
        for path in reversed(self.paths()):
            try:
                found = read(path)
            except DamagedCheckpoint as fault:
                if say is None:
                    raise
                faults.append((path, fault))
                continue
            for damaged, fault in faults:
                if say is not None:
                    say(f"{fault}; it is renamed to {_put_aside(damaged).name}")
            return found
        if faults:
            raise StateError(
                f"checkpoint: every checkpoint in {self.folder} is damaged; restore one, or begin anew in another "
                f"folder; the newest: {faults[0][1]}"
            )
        return None

    def best(self) -> Checkpoint | None:
        """The best checkpoint, or None if there is none."""
        link = self.folder / BEST
        return read(link.resolve()) if link.exists() else None


def _put_aside(path: Path) -> Path:
    for k in range(1000):
        aside = path.with_name(f"{DAMAGED}{path.name}" + (f"-{k}" if k else ""))
        if not aside.exists():
            return path.rename(aside)
    raise DeviceError(f"checkpoint: {path.parent} holds 1000 damaged checkpoints, the limit; remove some")


def _facts(path: Path) -> dict[str, Any]:
    """The size and the SHA-256 of a file."""
    with reading(path) as file:
        return {"bytes": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def read(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint and check every byte of it.

    Raises DamagedCheckpoint, with the reason, for a damaged one.  Raises StateError for one of another version and for
    a path that is not a checkpoint; it is also a FileNotFoundError where there is nothing.  Raises DeviceError where
    the system does not let the process read it.

    >>> path = train.Checkpoints("run").save(10, {"w": nc.ones(2)}, {"epoch": 1})
    >>> checkpoint = train.read(path)
    >>> checkpoint.step, checkpoint.model["w"].tolist(), checkpoint.state
    (10, [1.0, 1.0], {'epoch': 1})
    """
    found = Path(path)
    manifest = _manifest(found)
    try:
        wrong = [name for name in FILES if _facts(found / name) != manifest["files"].get(name)]
        if wrong:
            raise _damaged(found, f"{', '.join(wrong)} has changed since it was written")
        document = _document(found / DOCUMENT)
        state = unpacked(document["state"], load(found / STATE))
        if type(document["step"]) is not int or not isinstance(state, dict):
            raise _damaged(found, "it has no step, or no state by name")
        return Checkpoint(found, document["step"], load(found / MODEL), cast("dict[str, Any]", state))
    except (DamagedCheckpoint, MemoryError):
        raise
    except OSError as fault:
        raise _unreadable(found, "it", fault) from None
    except (Error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise _damaged(found, f"it cannot be read: {fault}") from None


def _document(path: Path) -> Any:
    """The contents of a JSON file."""
    with reading(path) as file:
        return json.loads(file.read())


def _manifest(found: Path) -> dict[str, Any]:
    """The manifest of a checkpoint."""
    try:
        listed: object = _document(found / MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        raise _without_manifest(found) from None
    except OSError as fault:
        raise _unreadable(found, f"its {MANIFEST}", fault) from None
    except (ValueError, RecursionError) as fault:
        raise _damaged(found, f"its {MANIFEST} cannot be read: {fault}") from None
    manifest = cast("dict[str, Any]", listed) if isinstance(listed, dict) else {}
    if manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
        raise StateError(
            f"checkpoint: the format must be {FORMAT!r}, version {VERSION}; {found} has {manifest.get('format')!r}, "
            f"version {manifest.get('version')!r}; read it with the Nacre version that wrote it"
        )
    return manifest


def _without_manifest(found: Path) -> StateError:
    """The error for a path without a manifest: a damaged checkpoint, or something else that the message names."""
    if not found.exists():
        return MissingCheckpoint(f"checkpoint: the path must be a checkpoint; got {found}, which does not exist")
    inside = _first_of(found) or _first_of(found / FOLDER)
    if inside is not None:
        kind = "a folder of checkpoints" if inside.parent == found else "the folder of a training"
        return StateError(f"checkpoint: the path must be a checkpoint; got {found}, {kind}; pass {inside}")
    if found.is_file():
        advice = f"; pass {found.parent}" if (found.parent / MANIFEST).is_file() else ""
        return StateError(f"checkpoint: the path must be the folder of a checkpoint; got {found}, a file{advice}")
    if NAME.fullmatch(found.name) or any((found / name).exists() for name in FILES):
        return _damaged(found, f"it has no {MANIFEST}")
    return StateError(
        f"checkpoint: the path must be a checkpoint; got {found}, a folder without {MANIFEST}; pass a "
        f"path such as out/{FOLDER}/{BEST}"
    )


def _first_of(where: Path) -> Path | None:
    """The checkpoint that a folder of checkpoints stands for: the best one, else the last one; None if empty."""
    names = [BEST, LAST, *(path.name for path in reversed(Checkpoints(where).paths()))]
    return next((where / name for name in names if (where / name / MANIFEST).is_file()), None)


def _unreadable(found: Path, what: str, fault: OSError) -> Error:
    """The error for a fault of the system: the checkpoint is damaged where a file is missing or not a file."""
    if isinstance(fault, PermissionError) or fault.errno not in HARMED:
        return file_error(f"checkpoint: cannot read {found}: {reason(fault)}", fault)
    return _damaged(found, f"{what} cannot be read: {reason(fault)}")


def _damaged(found: Path, text: str) -> DamagedCheckpoint:
    return DamagedCheckpoint(
        f"checkpoint: {found} is damaged: {text}; restore it, or resume, which takes the checkpoint before it"
    )


@contextmanager
def taking(checkpoint: Checkpoint) -> Generator[None]:
    """A block that restores a checkpoint; raises StateError for a state in another form."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as fault:
        if isinstance(fault, Error):
            raise
        raise StateError(
            f"checkpoint: the state in {checkpoint.path} does not have the form of this version: "
            f"{type(fault).__name__}: {fault}; read it with the Nacre version that wrote it, or begin anew in another "
            "folder"
        ) from fault


def restore_model(model: Module, path: str | os.PathLike[str]) -> None:
    """Load the weights of a checkpoint, such as `out/checkpoints/best`, into a model.

    Raises StateError for a path that is not a checkpoint, such as the folder of a training.  Raises ArgumentError or
    ShapeError for the checkpoint of another model.

    >>> model = nn.Linear(2, 1)
    >>> path = train.Checkpoints("runs").save(10, model.state_dict(), {})
    >>> other = nn.Linear(2, 1)
    >>> train.restore_model(other, path)
    >>> bool(nc.all(other.weight.value == model.weight.value))
    True
    """
    model.load_state_dict(read(path).model)
