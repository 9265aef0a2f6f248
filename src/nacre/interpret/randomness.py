"""Random keys that code takes from a generator inside a batch of examples.

A key is the same for all examples, or each example has its own, as the enclosing `vmap` specifies.  By default, taking
a key is an error.  Staged functions (jit, checkpoint, control flow) take generator states as operands; inside a batch,
each example can have its own state.
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
    """The function that returns this thread's generator, if that is not the generator of the process."""

    generator: Callable[[], Any] | None = None


THREAD: Final = _Thread()


@cache
def _step() -> Value:
    """The increment of a state for its next key."""
    return from_numpy(np.array([1, 0], np.uint32))


class RandomState(Variable):
    """The state of a generator: the next key, uint32[2]."""

    __slots__ = ()

    def take(self) -> Value:
        """The next key, or one for each example of a batch if requested; the state advances by one."""
        batches = _batches()
        key = self.value
        self.assign(add(key, _step()))
        for batch in batches:
            if batch.randomness == "different":
                key = batch.wrap(random_bits(key, (batch.size, 2)), 0)
        return key


def operand(variable: Variable) -> Value:
    """The value of a variable for a staged function; for a random state in a batch, one for each example."""
    return variable.take() if isinstance(variable, RandomState) and differs(variable) else variable.value


def differs(variable: Variable) -> bool:
    """Whether it is a random state with one state for each example of a batch; their final states are dropped."""
    return isinstance(variable, RandomState) and any(b.randomness == "different" for b in _batches())


def _batches() -> list[Batch]:
    """The batches within the innermost staged function, outermost first; raises if one allows no keys."""
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
            'vmap: randomness must be "same" or "different" if random numbers are drawn without a '
            'key; got "error", the default',
            "nc.vmap(lambda x: F.dropout(x))(xs)",
            "All examples of the batch can share one draw, or each example can have its own.",
            'nc.vmap(lambda x: F.dropout(x), randomness="different")(xs)',
        )
    )
