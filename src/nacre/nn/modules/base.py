"""Common parts of the library's modules: settings in their text, and the reduction of losses."""

from __future__ import annotations

from typing import ClassVar

from nacre.api.operands import TensorLike
from nacre.nn.module import Buffer, Module, settings


class ModuleWithSettings(Module):
    """A module that is shown with its settings."""

    def extra_repr(self) -> str:
        """The settings."""
        return settings(self)


class Pooling(ModuleWithSettings):
    """The common part of pooling modules: the name of the function."""

    function: ClassVar[str]


class Loss(ModuleWithSettings):
    """A loss with a reduction: "mean", "sum" or "none"."""

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction


def optional_buffer(weight: TensorLike | None) -> Buffer | None:
    """The weights of a loss as a buffer, or None."""
    return None if weight is None else Buffer(weight)
