"""Random keys that code takes from a generator, where a batch stands for many examples.

A key is the same for all examples, or each has its own, as the `vmap` around says; by default it says neither, and
taking a key is an error.  Functions that are staged on the way (by jit, checkpoint, control flow) take the states of
generators as operands; there a batch gives each example a state of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from nacre.base.errors import StateError, explain
from nacre.base.state import STATE
from nacre.interpret.batch import Batch
from nacre.interpret.evaluate import from_numpy
from nacre.ops.pointwise import add
from nacre.ops.random import random_bits
from nacre.trace.value import Value
from nacre.trace.variable import Variable


class _Thread(threading.local):
    """What gives this thread its generator, where that is not the one of the process."""

    generator: Callable[[], Any] | None = None


THREAD: Final = _Thread()


@cache
def _step() -> Value:
    """What is added to a state for its next key."""
    return from_numpy(np.array([1, 0], np.uint32))


class RandomState(Variable):
    """What a generator holds: the next key, uint32[2]."""

    __slots__ = ()

    def take(self) -> Value:
        """The next key, for each example of a batch its own where that is asked for; the state goes on by one."""
        batches = _batches()
        key = self.value
        self.assign(add(key, _step()))
        for batch in batches:
            if batch.randomness == "different":
                key = batch.wrap(random_bits(key, (batch.size, 2)), 0)
        return key


def operand(variable: Variable) -> Value:
    """What a staged function gets as the value of a variable: of a random state in a batch, one for each example."""
    return variable.take() if isinstance(variable, RandomState) and differs(variable) else variable.value


def differs(variable: Variable) -> bool:
    """Whether it is a random state, of which the examples of a batch get their own; what they make of it is dropped."""
    return isinstance(variable, RandomState) and any(b.randomness == "different" for b in _batches())


def _batches() -> list[Batch]:
    """The batches within the innermost function that is staged, from the outside in; raises where one allows no key."""
    found: list[Batch] = []
    for interpreter in STATE.interpreters:
        if interpreter.dynamic:
            found.clear()
        elif isinstance(interpreter, Batch):
            if interpreter.randomness == "error":
                raise _undecided()
            found.append(interpreter)
    return found


def _undecided() -> StateError:
    return StateError(
        explain(
            'vmap: randomness="same" or randomness="different" is required where random numbers are drawn without a '
            'key; got "error", the default',
            "nc.vmap(lambda x: F.dropout(x))(xs)",
            "One draw can serve all examples of the batch, or each can have its own.",
            'nc.vmap(lambda x: F.dropout(x), randomness="different")(xs)',
        )
    )
