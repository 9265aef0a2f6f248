"""Examples: complete trainings to read and run, with `nacre train NAME` or from Python.

An example is a module of this package.  The first line of its docstring is its title, `EPOCHS` its default number of
epochs, and `build(settings)` creates its run: model, data, trainer.

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
    """No results beyond the history."""
    return {}


@dataclass(frozen=True)
class Settings:
    """The settings of an example: the seed, the number of epochs, and further options for `Trainer`."""

    seed: int = 0
    epochs: int = 1
    trainer: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Run:
    """A training that is ready to begin or to resume.

    `results` is called at the end; it returns the results to show and save: numbers and texts by name.
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
    """The names of the examples."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)


def load(name: str) -> Example:
    """An example by its name.  Raises ArgumentError for an unknown name."""
    if name not in names():
        raise ArgumentError(f"train: unknown example {name!r}; the examples are {', '.join(names())}")
    return cast("Example", import_module(f"{__name__}.{name}"))


def title(name: str) -> str:
    """The title of an example, one line."""
    return (load(name).__doc__ or name).strip().splitlines()[0]
