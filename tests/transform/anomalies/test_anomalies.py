"""`nc.detect_anomalies`: each planted fault is found, eagerly and compiled, and the report says what and where."""

from __future__ import annotations

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim
from nacre.base.errors import AnomalyError, ArgumentError, KindError, StateError
from transform.anomalies.broken import BROKEN

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
