"""Every module lists its parameters and its state in PyTorch's order, in which optimisers number their states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import nacre as nc
import surface
from nacre import nn

EXPECTED: dict[str, Any] = json.loads(Path(__file__).with_name("orders.json").read_text())
KINDS = {name.rpartition(".")[2]: held for name, held in surface.CLASSES.items() if issubclass(held, nn.Module)}


def made(line: str) -> nn.Module:
    return eval(line, {"nn": nn, "T": nc.tensor})


@pytest.mark.parametrize("line", EXPECTED)
def test_parameters_and_state_are_in_the_order_of_torch(line: str) -> None:
    module = made(line)
    parameters, state = EXPECTED[line]
    assert [[k, list(p.shape)] for k, p in module.named_parameters()] == parameters
    assert [[k, list(v.shape)] for k, v in module.state_dict().items()] == state


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_module_with_parameters_is_compared(kind: str) -> None:
    if any(f"nn.{kind}(" in line for line in EXPECTED):
        return
    for arguments in ((), (2,), (2, 2), (2, 2, 2), (1, (2, 2))):
        try:
            module = KINDS[kind](*arguments)
        except (TypeError, ValueError):
            continue
        assert not module.state_dict(), f"{kind} has state: give order_cases.py a line for it"
        return
    raise AssertionError(f"{kind} cannot be made: give order_cases.py a line for it")
