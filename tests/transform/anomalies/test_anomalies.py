"""`nc.detect_anomalies`: each planted fault is found, eagerly and compiled, and the report says what and where."""

from __future__ import annotations

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim
from nacre.base.errors import AnomalyError, ArgumentError, KindError, StateError
from transform.anomalies.broken import BROKEN
from transform.anomalies.healthy import HEALTHY, batch, training

F = nn.functional


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", BROKEN)
def test_the_planted_fault_is_found(name: str, compiled: bool) -> None:
    case = BROKEN[name]
    program = case.program()
    with pytest.raises(AnomalyError) as caught:
        if compiled:
            nc.jit(program, detect_anomalies=True)()
        else:
            with nc.detect_anomalies():
                program()
    found = caught.value.anomaly
    assert (found.kind, found.operation, found.backward) == (case.kind, case.operation, case.backward)
    assert found.line.split(" (")[0].endswith(f"broken.py:{case.line}"), found.line
    assert found.module == case.module
    assert found.rounds == case.rounds
    assert 0 < found.share <= 1


def test_there_are_sixty_programs() -> None:
    assert len(BROKEN) >= 60


def trained(name: str, steps: int, compiled: bool) -> list[float]:
    """The losses of a healthy training whose operations are examined."""
    step = training(name)
    if compiled:
        examined = nc.jit(step, detect_anomalies=True)
        return [float(examined(*batch(k))) for k in range(steps)]
    with nc.detect_anomalies():
        return [float(step(*batch(k))) for k in range(steps)]


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_training_gives_no_report(name: str) -> None:
    losses = trained(name, 25, True)
    assert losses[-1] < losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", HEALTHY)
def test_long_healthy_training_gives_no_report(name: str) -> None:
    losses = trained(name, 600, True)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", HEALTHY)
def test_examined_trainings_have_the_bits_of_others(name: str) -> None:
    plain = training(name)
    expected = [float(plain(*batch(k))) for k in range(3)]
    assert trained(name, 3, False) == trained(name, 3, True) == expected
