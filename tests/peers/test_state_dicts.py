"""The state dicts of PyTorch's modules are those of Nacre's."""

from __future__ import annotations

import pytest

from nacre import nn

torch = pytest.importorskip("torch")


def test_bfloat16_tensors_of_torch_are_accepted() -> None:
    theirs = torch.nn.Linear(3, 2, dtype=torch.bfloat16)
    layer = nn.Linear(3, 2).bfloat16()
    layer.load_state_dict(theirs.state_dict())
    assert layer.weight.astype("float32").tolist() == theirs.weight.float().tolist()
