"""PyTorch's keywords: the result of PyTorch's function of that name, or an error that says what to write."""

from __future__ import annotations

import inspect
import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from calls import calls
from nacre.nn import functional as F
from surface import FUNCTIONS, METHODS

TOLD = json.loads(Path(__file__).with_name("torch_names.json").read_text())
X = nc.tensor(TOLD["x"])
Y, I = nc.flip(X, axis=(0, 2)) + 0.25, (nc.abs(X) * 2).astype(nc.int64) % 3
OTHER = {"axis": "dim", "axes": "dims", "dim": "axis", "keepdims": "keepdim", "keepdim": "keepdims",
         "start_axis": "start_dim", "end_axis": "end_dim"}  # fmt: skip


@pytest.mark.parametrize("text", TOLD["calls"])
def test_a_call_with_torchs_keywords_has_torchs_result(text: str) -> None:
    found = eval(text, {"nc": nc, "F": F, "x": X, "y": Y, "i": I})
    np.testing.assert_allclose(np.asarray(found), np.array(TOLD["calls"][text]), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("nc.max(x, dim=1)", "max(x, axis=1)"), ("nc.max(x, 1)", "argmax"), ("x.max(1)", "max(x, axis=1)"),
        ("x.min(dim=1)", "min(x, axis=1)"), ("nc.min(x, 0)", "argmin"), ("nc.sort(x, dim=0)", "argsort"),
        ("nc.sort(x, 0)", "argsort"), ("nc.std(x, 0)", "std(x, axis=0, correction=1)"),
        ("x.std(0)", "std(x, axis=0, correction=1)"), ("nc.var(x, dim=0)", "var(x, axis=0, correction=1)"),
        ("x.var(dim=0)", "correction=1"), ("nc.split(x, 2)", "sections=2"), ("nc.split(x, 2, dim=1)", "sections=2"),
        ("x.transpose(0, 1)", "swapaxes(x, 0, 1)"), ("x.transpose(1, -1)", "swapaxes(x, 1, -1)"),
        ("x.repeat(2, 3)", "tile(x, (2, 3))"),
    ],
)  # fmt: skip
def test_a_call_with_another_meaning_raises_an_error_with_advice(text: str, advice: str) -> None:
    with pytest.raises(nc.KindError, match=re.escape(advice)):
        eval(text, {"nc": nc, "x": X})
    assert issubclass(nc.KindError, TypeError)


NAMES = sorted(
    name
    for name, function in {**FUNCTIONS, **METHODS}.items()
    if (name in FUNCTIONS or name.startswith("nacre.Tensor."))
    and set(OTHER) & set(inspect.signature(function).parameters)
)


@pytest.mark.parametrize("name", NAMES)
def test_every_function_of_an_axis_accepts_the_other_keyword_or_says_what_to_write(name: str) -> None:
    held: Any = next(calls(name), None)
    function, args, kwargs = (held.function, held.args, held.kwargs) if held else (METHODS[name], (X,), {})
    for own, value in (("axis", 0), ("dim", 0), ("keepdims", True), ("keepdim", True)):
        if own not in inspect.signature(function).parameters or _placed(function, own, len(args)):
            continue
        given = {**kwargs, own: value}
        other = {OTHER.get(key, key) if key == own else key: v for key, v in given.items()}
        wanted = _result(lambda given=given: function(*deepcopy(args), **given))
        found = _result(lambda other=other: function(*deepcopy(args), **other))
        assert found == wanted or (isinstance(found, nc.KindError) and "; write" in str(found)), (found, wanted)


def _placed(function: Any, own: str, count: int) -> bool:
    return own in list(inspect.signature(function).parameters)[:count]


def _result(run: Any) -> Any:
    """The outcome of a call for comparison; errors by their text, with the advice unchanged."""
    nc.random.seed(0)
    try:
        return str(run())
    except nc.KindError as error:
        return error
    except nc.Error as error:
        return str(error)
