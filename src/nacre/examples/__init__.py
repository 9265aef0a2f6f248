"""Examples: whole trainings to read and to run, by `nacre train NAME` or from Python.

An example is a module of this package.  The first line of its docstring is its title, `EPOCHS` how long it trains
unless told otherwise, and `build(settings)` makes its run: model, data, trainer.

    from nacre import examples

    run = examples.load("digits").build(examples.Settings(seed=0, epochs=5))
    run.trainer.fit(run.training, run.validation, epochs=5)
    print(run.results())
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from importlib import import_module
from typing import Any, Protocol, cast

from nacre.base.errors import ArgumentError
from nacre.base.records import dataclass
from nacre.train.loop import Trainer


def _nothing() -> dict[str, Any]:
    """The results of a run that tells no more than its history."""
    return {}


@dataclass(frozen=True)
class Settings:
    """What an example is told: the seed, for how many epochs it will train, and options to pass on to `Trainer`."""

    seed: int = 0
    epochs: int = 1
    trainer: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Run:
    """A training that is ready to begin or to be resumed.

    `results`, called when it has ended, gives what is to be told and kept: numbers and texts by name.
    """

    trainer: Trainer
    training: Iterable[Any]
    validation: Iterable[Any] | None = None
    results: Callable[[], Mapping[str, Any]] = _nothing


class Example(Protocol):
    """A module of this package."""

    EPOCHS: int

    def build(self, settings: Settings) -> Run:
        """The run for these settings; the same settings give the same bits."""
        ...


def names() -> list[str]:
    """The examples that there are."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)


def load(name: str) -> Example:
    """An example by its name.  Raises ArgumentError where there is none."""
    if name not in names():
        raise ArgumentError(f"train: the name of an example is required: {', '.join(names())}; got {name!r}")
    return cast("Example", import_module(f"{__name__}.{name}"))


def title(name: str) -> str:
    """What an example is, in a line."""
    return (load(name).__doc__ or name).strip().splitlines()[0]
