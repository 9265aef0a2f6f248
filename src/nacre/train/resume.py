"""The comparison of a training with that of a checkpoint: which settings must be equal, and which may differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from nacre.base.errors import StateError
from nacre.nn.module import Module
from nacre.train.checkpoint import Checkpoint


def require_same_training(checkpoint: Checkpoint, model: Module, settings: Mapping[str, Any]) -> None:
    """Raise StateError for a checkpoint with other settings, or with a model of other types."""
    saved = {"precision": "float32", **checkpoint.state["settings"]}  # older checkpoints do not name it
    differing = [f"{k} {saved.get(k)!r}, now {settings[k]!r}" for k in settings if settings[k] != saved.get(k)]
    types = {k: v.type for k, v in model.state_dict().items()}
    found = {k: v.type for k, v in checkpoint.model.items()}
    differing += [
        f"{k} {found.get(k)}, now {types.get(k)}" for k in sorted({*types, *found}) if types.get(k) is not found.get(k)
    ]
    if differing:
        raise StateError(
            f"Trainer: cannot resume from {checkpoint.path}: it is of another training: {'; '.join(differing)}; "
            "begin anew in another folder"
        )


def schedule_notes(schedules: Sequence[Any]) -> dict[str, Any]:
    """The plain settings of schedules; if they differ, the training continues, but not with the same bits."""
    states = [set(s.state_dict()) for s in schedules]
    return {
        f"{type(s).__name__} {k}": v
        for s, state in zip(schedules, states, strict=True)
        for k, v in cast("dict[str, Any]", vars(s)).items()
        if isinstance(v, bool | int | float | str) and k not in state
    }


def differing_notes(saved: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """The notes of a checkpoint that differ from those of the training, as text."""
    return [f"{k} was {v}, is {own.get(k)}" for k, v in saved.items() if own.get(k) != v]


def differing_choices(saved: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """The settings of an optimiser that differ from those that it was made with, as text."""
    return [f"{k} is {saved.get(k)}, not {own.get(k)}" for k in sorted({*saved, *own}) if saved.get(k) != own.get(k)]
