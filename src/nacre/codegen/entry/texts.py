"""The LLVM texts of the entries of programs, and an early begin of what every program needs."""

from __future__ import annotations

from collections.abc import Callable

from nacre.native import cache as objects
from nacre.native import compile_workers
from nacre.native.engine import Target, host_target
from nacre.native.python.cached import cached_module
from nacre.runtime.texts import buffer_text, driver_text


def entry_text(target: Target) -> str:
    """The LLVM text of the entries of programs."""
    return cached_module("nacre.codegen.entry.entries", ("entry", "forget"), target)


def view_text(target: Target) -> str:
    """The LLVM text of the entries of views, which many processes do without."""
    return cached_module("nacre.codegen.entry.view", ("view",), target)


def step_text(target: Target) -> str:
    """The LLVM text of the entry with variables, which many processes do not need."""
    return cached_module("nacre.codegen.entry.step", ("call",), target)


def sweep_text(target: Target) -> str:
    """The LLVM text of the backward pass over plain nodes."""
    return cached_module("nacre.codegen.entry.sweep", ("sweep",), target)


def begin() -> None:
    """Load LLVM and compile the code that every program needs on another thread."""
    for text in (buffer_text, entry_text, driver_text):
        begin_text(text)


def begin_text(text: Callable[[Target], str]) -> None:
    """Compile one of these texts on another thread."""
    compile_workers.begin(1, lambda: objects.compile_cached(text(host_target()), host_target()))
