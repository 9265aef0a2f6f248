"""Every public callable with hostile values for every argument: a Nacre error in the standard form, or a result.

Valid calls are from the examples in docstrings (`calls`), so that later additions are tested, too.  One argument
after the other is replaced.  Python's own errors, hangs and crashes are failures; errors that a user's function raises,
and calls that do not match a signature, are Python's.  A sample runs by default, all cases with --all.
"""

from __future__ import annotations

import inspect
import os
import re
import signal
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import nacre as nc
from calls import Call, calls
from nacre import data, nn, optim
from nacre.nn import functional as F
from surface import CALLABLES, CLASSES, METHODS

SECONDS = 10  # CPU time of this process; more is a hang, and so is six times as long without CPU time
SAMPLED = 2  # values for an argument, by default
# "operation: the requirement; the argument", or "operation: the sizes that must match: 3 and 4 (the types)".
FORM = re.compile(r"\A[^\n;]{1,80}: [^;]+(; |\n\n|: \S+ and \S+ \(.+\)\Z)", re.DOTALL)


class Foreign:
    """A tensor of another library, with the interface that Nacre uses."""

    def __dlpack__(self) -> Any:
        raise NotImplementedError


X = nc.ones((2, 3))
LOOP: list[Any] = []
LOOP.append(LOOP)
VALUES: dict[str, Any] = {
    "None": None, "a string": "a", "bytes": b"x", "-1": -1, "0": 0, "1.5": 1.5, "nan": float("nan"),
    "inf": float("inf"), "10^6": 10**6, "2^63": 2**63, "10^30": 10**30, "True": True, "()": (), "{}": {},
    "an object": object(), "a list in itself": LOOP, "1j": 1j, "[nan]": [float("nan")], "strings": ("a", "b"),
    "(-1, -1)": (-1, -1), "masked": np.ma.masked_array([1.0, 2.0], [0, 1]), "an array of strings": np.array("a"),
    "empty": nc.zeros((2, 0, 3)), "a function": len, "another library's": Foreign(),
    "float32": np.float32(0.5), "float16": np.float16(0.5), "int8": np.int8(1), "an array of shape []": np.array(0.5),
    "a Dim": nc.Dim("n"), "a mock": Mock(),
}  # fmt: skip
SPARED = {  # calls that take long, or change the machine or the process
    "nacre.set_memory_limit",
    "nacre.train.Trainer.fit",
    "nacre.inspect.ceilings.ceilings",
    "nacre.inspect.bits.measure",
    "nacre.inspect.profile.profile",
    "nacre.inspect.timing.interleaved",
    "nacre.inspect.machine.checks",
    "nacre.inspect.machine.facts",
    "nacre.inspect.roofline.chart",
    "nacre.set_threads",
}
LONG = {
    ("nacre.fori_loop", "upper"),
    ("nacre.fori_loop", "lower"),
    ("nacre.while_loop", "init"),
}  # this number of iterations


def _inherited(method: str) -> bool:
    """Whether a method is defined in another class, where it is tested."""
    owner, _, word = method.rpartition(".")
    return word not in vars(CLASSES[owner]) or word == "forward"


NAMES = sorted(
    name
    for name, held in {**CALLABLES, **METHODS}.items()
    if name not in SPARED
    and not name.startswith("nacre.deploy")
    and not (isinstance(held, type) and issubclass(held, BaseException))
    and not (name in METHODS and _inherited(name))
)


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A separate folder, little memory, an alarm, and afterwards the original number of threads."""
    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGALRM, WATCH.ring)
    nc.set_memory_limit(1 << 28)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    nc.set_printoptions(profile="default")
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    nc.set_memory_limit(None)


class Hang(BaseException):
    """A call took too long."""


class Watch:
    """Measures the CPU time of the running call, on a machine that may be busy."""

    def begin(self) -> None:
        self.worked, self.rings = time.process_time(), 0
        signal.alarm(SECONDS)

    def ring(self, *_: Any) -> None:
        self.rings += 1
        if time.process_time() - self.worked > SECONDS or self.rings > 5:
            raise Hang
        signal.alarm(SECONDS)


WATCH = Watch()


def changed(call: Call) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """The parameters of a call, each with the call as a function of its argument."""
    parameters = list(inspect.signature(call.function).parameters.values())
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for k in range(len(call.args)):
        name = placed[k].name if k < len(placed) else "*"
        yield name, lambda value, k=k: call.function(*call.args[:k], value, *call.args[k + 1 :], **call.kwargs)
    for p in parameters:
        if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) and p not in placed[: len(call.args)]:
            yield p.name, lambda value, p=p: call.function(*call.args, **{**call.kwargs, p.name: value})


def fault(run: Callable[[Any], Any], value: Any) -> str | None:
    """The fault in the outcome of a call, if any."""
    WATCH.begin()
    try:
        run(value)
    except nc.Error as error:
        return None if FORM.match(str(error)) else f"the form of {str(error)!r}"
    except Hang:
        return f"more than {SECONDS} seconds"
    except OSError:  # the file does not exist
        return None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        theirs = any(frame.filename in ("<example>", os.__file__) for frame in frames[1:])
        return None if theirs or _called(value, error) else f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    return None


def _called(value: Any, error: Exception) -> bool:
    """Whether the error is that the hostile function does not accept its arguments."""
    return (value is len and "len()" in str(error)) or "has no len()" in str(error)


def found(name: str, per_argument: int | None) -> list[str]:
    """The faults of a public callable, for a number of values for each argument (None: all)."""
    faults: list[str] = []
    for call in islice(calls(name), 1):
        for parameter, run in changed(call):
            if (name, parameter) in LONG:
                continue
            for key in _chosen(f"{name} {parameter}", per_argument):
                wrong = fault(run, VALUES[key])
                if wrong is not None:
                    faults.append(f"{parameter} = {key}: {wrong}")
    return faults


def _chosen(name: str, count: int | None) -> list[str]:
    if count is None:
        return list(VALUES)
    order = np.random.default_rng(zlib.crc32(name.encode())).permutation(len(VALUES))
    return [list(VALUES)[k] for k in order[:count]]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_sample_of_hostile_values(name: str) -> None:
    assert found(name, SAMPLED) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_hostile_values(name: str) -> None:
    assert found(name, None) == []


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: nn.Linear(-1, 2), ValueError, "Linear: in_features must be at least 0; got -1"),
        (lambda: nn.Linear("a", 2), TypeError, "in_features must be an integer; got 'a'"),
        (lambda: nc.sum(X, axis=1.5), TypeError, "sum: axis must be an integer; got 1.5"),
        (lambda: nc.sum(X, axis=3), IndexError, "axis must"), (lambda: nc.sum(X, axis=3), ValueError, "axis must be"),
        (lambda: nc.zeros((float("nan"),)), nc.Error, "nan"), (lambda: nc.arange(float("inf")), ValueError, "finite"),
        (lambda: optim.SGD([nn.Parameter(1.0)], lr="a"), ValueError, "got 'a'"),
        (lambda: nc.jit(lambda x: x)(LOOP), nc.Error, "contain itself"), (lambda: nc.tensor(LOOP), nc.Error, "itself"),
        (lambda: nc.set_threads("a"), TypeError, "set_threads: count must be an integer; got 'a'"),
        (lambda: nc.jit(3), TypeError, "jit: function must be a function"),
        (lambda: X + Foreign(), TypeError, "add: operands must be tensors of Nacre"),
        (lambda: Foreign() * X, TypeError, "multiply: operands must be tensors of Nacre"),
        (lambda: nc.random.uniform((5,), 1), ValueError, "low must be less than high"),
        (lambda: nc.jit(nc.exp)(np.ma.masked_array([1.0, 2.0], [0, 1])), nc.DTypeError, "must not have a mask"),
        (lambda: nc.grad(nc.sum)(np.ma.masked_array([1.0, 2.0], [0, 1])), nc.DTypeError, "must not have a mask"),
        (lambda: nc.vmap(nc.exp)(np.ma.masked_array([1.0, 2.0], [0, 1])), nc.DTypeError, "must not have a mask"),
        (lambda: nc.from_dlpack(np.ma.masked_array([1.0], [0])), nc.DTypeError, "from_dlpack: an array must not"),
        (lambda: nc.asarray(np.zeros(3, [("a", "f4"), ("b", "i4")])), nc.DTypeError, "take a field, as in array['x']"),
        (lambda: nc.jit(nc.exp)(np.zeros(3, [("a", "f4")])), nc.DTypeError, "got records"),
        (lambda: nc.ones(3) + np.rec.array([(1, 2.0)], [("a", int), ("b", float)]), nc.DTypeError, "got records"),
        (lambda: nc.tensor(np.ma.masked_array([1.0, 2.0], [0, 1])), nc.Error, "must not have a mask"),
        (lambda: F.conv1d(nc.ones((1, 1, 5)), nc.ones((1, 1, 2)), padding=10**6), ValueError, "must be at most 1024"),
        (lambda: F.conv_transpose1d(nc.ones((1, 1, 5)), nc.ones((1, 1, 2)), stride=10**6), ValueError, "must be"),
        (lambda: F.conv1d(nc.ones((1, 1, 9)), nc.ones((1, 1, 9)), dilation=10**6), ValueError, "must"),
        (lambda: F.conv1d(nc.ones((1, 1, 5000)), nc.ones((1, 1, 5000))), ValueError, "must be at most 1024"),
        (lambda: nc.ones((1,) * 65), ValueError, "at most 64 axes"),
        (lambda: nn.LSTM(2, 3, num_layers=10**6), ValueError, "between 1 and 4096"),
        (lambda: nn.init.trunc_normal_(nn.Parameter(nc.zeros(9)), std=1e30), ValueError, "the mean must be near"),
        (lambda: data.DataLoader([1], batch_size="a"), TypeError, "batch_size"),
    ],
)  # fmt: skip
def test_single_cases(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(nc.Error, match=re.escape(message)) as raised:
        call()
    assert isinstance(raised.value, kind)


def test_errors_of_the_callers_functions_are_not_changed() -> None:
    def wrong(x: Any) -> Any:
        raise KeyError("mine")

    for transformed in (nc.jit(wrong), nc.grad(wrong), nc.vmap(wrong)):
        with pytest.raises(KeyError, match="mine"):
            transformed(nc.ones(2))
    with pytest.raises(TypeError, match="not_an_argument"):
        nc.sum(X, not_an_argument=1)


def test_most_public_callables_have_a_valid_call() -> None:
    functions = [name for name in NAMES if name in CALLABLES]
    without = [name for name in functions if next(calls(name), None) is None]
    assert len(without) < len(functions) / 8, without
