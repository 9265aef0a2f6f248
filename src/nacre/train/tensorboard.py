"""A log writer for TensorBoard, through the small package tensorboardX (the extra `tensorboard`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from nacre.base.errors import MissingExtra, StateError
from nacre.train.log import saved_number

__all__ = ["TensorBoard"]


class TensorBoard:
    """A writer of event files into a folder: each value of a row as "step/loss", "epoch/valid_loss" ….

    Pass it to a trainer: `Trainer(…, writers=[train.TensorBoard("runs/first/events")])`.  View the curves with
    `tensorboard --logdir runs`.  A resumed training discards the events after its checkpoint.

    Raises MissingExtra if tensorboardX is not installed.

    >>> writer = train.TensorBoard("runs/first/events")  # doctest: +SKIP
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.fspath(folder)
        self.step = -1
        self.writer: Any = None
        try:
            self.module: Any = import_module("tensorboardX")
        except ImportError as fault:
            raise MissingExtra(
                f"train: tensorboardX is required to write for TensorBoard; it could not be imported ({fault}); "
                "install the extra: pip install 'nacre[tensorboard]'"
            ) from None

    def begin(self, position: Any) -> None:
        """Resume at a position: events of later steps are discarded."""
        self.step = -1 if position is None else saved_number(position, "step", self.folder, -1)
        self.writer = self.module.SummaryWriter(
            self.folder, purge_step=self.step + 1, filename_suffix=f".{os.getpid()}.{self.step + 1}"
        )

    def write(self, kind: str, row: Mapping[str, Any]) -> None:
        """Write a row's values at its step."""
        if self.writer is None:
            raise StateError("TensorBoard: the writer has not begun; call begin(None) first")
        self.step = int(row["step"])
        for name, value in row.items():
            if name != "step" and value is not None:
                self.writer.add_scalar(f"{kind}/{name}", value, self.step)

    def position(self) -> Any:
        """The last written step; its events are in the file."""
        if self.writer is not None:
            self.writer.flush()
        return {"step": self.step}

    def close(self) -> None:
        """Close the file."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None
