"""Checkpoints: folders of safetensors and JSON that are whole or not there; the last ones and the best are kept.

A checkpoint `step-00000120` holds `model.safetensors` (the model's state dict, for any program that reads the format),
`state.safetensors` and `state.json` (all the rest, see `train.state`), and `checkpoint.json`, which lists these files
with their sizes and SHA-256 and so says whether a checkpoint is one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from nacre import __version__
from nacre.base.errors import ArgumentError, DeviceError, Error, StateError
from nacre.base.records import dataclass
from nacre.formats.safetensors import load, reading, save
from nacre.nn.module import Module
from nacre.train import folder
from nacre.train.state import Tensors, packed, unpacked

FORMAT, VERSION = "nacre training checkpoint", 1
MODEL, STATE, DOCUMENT, MANIFEST = "model.safetensors", "state.safetensors", "state.json", "checkpoint.json"
FILES = (MODEL, STATE, DOCUMENT)
NAME = re.compile(r"step-(\d{8,})")
BEST, LAST = "best", "last"
DAMAGED = "damaged-"


class DamagedCheckpoint(StateError):
    """A checkpoint lacks something that was written, or has it in other bytes."""


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds: the model's tensors by name, and the rest of the training's state."""

    path: Path
    step: int
    model: Mapping[str, Any]
    state: Mapping[str, Any]


class Checkpoints:
    """The checkpoints in a folder: the last `keep` and the best.  `best` and `last` there are links to them.

    >>> import tempfile
    >>> kept = train.Checkpoints(tempfile.mkdtemp(), keep=2)
    >>> for step in (10, 20, 30): _ = kept.save(step, {"w": nc.ones(2)}, {"epoch": step // 10}, best=10)
    >>> [path.name for path in kept.paths()], kept.latest().state
    (['step-00000010', 'step-00000020', 'step-00000030'], {'epoch': 3})
    """

    def __init__(self, where: str | os.PathLike[str], keep: int = 3) -> None:
        if keep < 1:
            raise ArgumentError(f"Checkpoints: a positive number to keep is required; got {keep}")
        self.folder, self.keep = Path(where), keep

    def paths(self) -> list[Path]:
        """The checkpoints that are there, the oldest first."""
        if not self.folder.is_dir():
            return []
        found = [(int(m[1]), p) for p in self.folder.iterdir() if (m := NAME.fullmatch(p.name)) and p.is_dir()]
        return [path for _, path in sorted(found)]

    def sweep(self) -> None:
        """Take back what a killed process has left half done; no other one may be writing."""
        if self.folder.is_dir():
            folder.sweep(self.folder)

    # ---- writing

    def save(self, step: int, model: Mapping[str, Any], state: Mapping[str, Any], best: int = -1) -> Path:
        """Write the checkpoint of a step, and remove those that are not to be kept; `best` is the best one's step.

        When it returns, the checkpoint is on the disk; a process killed before leaves those that were there.
        Raises DeviceError where it cannot be written.
        """
        path = self.folder / f"step-{step:08}"
        tensors: Tensors = {}
        document = packed(state, "", tensors)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            folder.sweep(self.folder)  # a killed process may have left one of this name
            made = self.folder / (folder.UNDER_WAY + path.name)
            made.mkdir()
            self._fill(made, model, tensors, {"step": step, "state": document})
            folder.take_place(made, path)
            self.arrange(best)
        except OSError as fault:
            raise DeviceError(f"checkpoint: a folder that can be written, with room, is required; got {path}: "
                              f"{fault.strerror or fault}") from None
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
        """Point the links at the best checkpoint and the last one, and remove those that are not to be kept."""
        paths = self.paths()
        chosen = self.folder / f"step-{best:08}"
        for link, target in ((BEST, chosen if chosen in paths else None), (LAST, paths[-1] if paths else None)):
            if target is not None:
                folder.point(self.folder / link, target.name)
            elif (self.folder / link).is_symlink():
                (self.folder / link).unlink()
        for path in paths[:-self.keep]:
            if path != chosen:
                folder.discard(path)

    # ---- reading

    def latest(self, say: Callable[[str], object] | None = None) -> Checkpoint | None:
        """The last checkpoint; None where there is none.

        One that is damaged is put aside under another name, which `say` is told, and the one before it is taken.
        Raises StateError where all are damaged, which leaves them as they are, or where something else wrote one.
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
                    say(f"{fault}; it is put aside as {_put_aside(damaged).name}")
            return found
        if faults:
            raise StateError(f"checkpoint: at least one that is whole is required; in {self.folder} there is none: "
                             f"{faults[0][1]}; or begin anew in another folder")
        return None

    def best(self) -> Checkpoint | None:
        """The best checkpoint; None where there is none."""
        link = self.folder / BEST
        return read(link.resolve()) if link.exists() else None


def _put_aside(path: Path) -> Path:
    for k in range(1000):
        aside = path.with_name(f"{DAMAGED}{path.name}" + (f"-{k}" if k else ""))
        if not aside.exists():
            return path.rename(aside)
    raise DeviceError(f"checkpoint: fewer damaged checkpoints are required; {path.parent} has 1000; remove some")


def _facts(path: Path) -> dict[str, Any]:
    """A file's size and SHA-256."""
    with reading(path) as file:
        return {"bytes": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def read(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint, every byte of which is checked.

    Raises DamagedCheckpoint, saying why, for what is not whole, and StateError for what another version wrote.

    >>> path = train.Checkpoints("run").save(10, {"w": nc.ones(2)}, {"epoch": 1})
    >>> held = train.read(path)
    >>> held.step, held.model["w"].tolist(), held.state
    (10, [1.0, 1.0], {'epoch': 1})
    """
    found = Path(path)
    manifest = _manifest(found)
    try:
        wrong = [name for name in FILES if _facts(found / name) != manifest["files"].get(name)]
        if wrong:
            raise _damaged(found, f"{', '.join(wrong)} has not the bytes that were written")
        document = _document(found / DOCUMENT)
        state = unpacked(document["state"], load(found / STATE))
        if type(document["step"]) is not int or not isinstance(state, dict):
            raise _damaged(found, "it says no step, or no state by name")
        return Checkpoint(found, document["step"], load(found / MODEL), cast("dict[str, Any]", state))
    except DamagedCheckpoint:
        raise
    except (Error, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise _damaged(found, f"it cannot be read: {fault}") from None


def _document(path: Path) -> Any:
    """What a file says in JSON."""
    with reading(path) as file:
        return json.loads(file.read())


def _manifest(found: Path) -> dict[str, Any]:
    """What a checkpoint says of itself."""
    try:
        listed: object = _document(found / MANIFEST)
    except FileNotFoundError:
        raise _damaged(found, f"it has no {MANIFEST}") from None
    except (OSError, ValueError, RecursionError) as fault:
        raise _damaged(found, f"its {MANIFEST} cannot be read: {fault}") from None
    manifest = cast("dict[str, Any]", listed) if isinstance(listed, dict) else {}
    if manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
        raise StateError(f"checkpoint: one of the format {FORMAT!r}, version {VERSION}, is required; {found} is of "
                         f"{manifest.get('format')!r}, version {manifest.get('version')!r}; read it with what wrote it")
    return manifest


def _damaged(found: Path, text: str) -> DamagedCheckpoint:
    return DamagedCheckpoint(f"checkpoint: every byte as it was written is required; {found} is damaged: "
                             f"{text}; put it back, or resume, which takes the one before it")


@contextmanager
def taking(checkpoint: Checkpoint) -> Generator[None]:
    """A block that takes the state of a checkpoint: StateError where that has not the form that this version writes."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as fault:
        if isinstance(fault, Error):
            raise
        raise StateError(f"checkpoint: a state as this version writes it is required; that of {checkpoint.path} is "
                         f"another: {type(fault).__name__}: {fault}; read it with what wrote it, or begin anew in "
                         "another folder") from fault


def restore_model(model: Module, path: str | os.PathLike[str]) -> None:
    """Give a model the weights of a checkpoint, such as `out/checkpoints/best`.

    Raises StateError for what is no checkpoint, ArgumentError or ShapeError for one of another model.

    >>> model = nn.Linear(2, 1)
    >>> path = train.Checkpoints("runs").save(10, model.state_dict(), {})
    >>> other = nn.Linear(2, 1)
    >>> train.restore_model(other, path)
    >>> bool(nc.all(other.weight.value == model.weight.value))
    True
    """
    model.load_state_dict(read(path).model)
