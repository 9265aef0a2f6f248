"""The code that errors propose is right: NumPy's methods of functions of two operands."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.porting.methods import OF_TWO, UFUNC

OTHER_NAMES = {
    "atan2": "arctan2", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift", "pow": "power",
}  # fmt: skip
X = np.array([[3, 1, 2], [1, 2, 2], [2, 1, 1]])
I, V, PLACES = np.array([2, 0]), np.array([[1, 3, 1], [2, 1, 1]]), np.array([0, 1])
OF_INTEGERS, OF_BOOLS = ("bitwise", "remainder", "floor_divide", "fmod"), ("logical", "equal", "not", "less", "greater")


def _proposed(name: str, method: str) -> str:
    with pytest.raises(nc.MissingAttribute, match=rf"{name}\.{method}: functions of Nacre have no methods") as fault:
        getattr(getattr(nc, name), method)(X)
    assert isinstance(fault.value, AttributeError)
    return str(fault.value).partition("; write ")[2]


@pytest.mark.parametrize("name", OF_TWO.split())
def test_proposed_code_gives_the_numbers_of_numpys_method(name: str) -> None:
    dtype = np.int64 if name.startswith(OF_INTEGERS) else np.bool_ if name.startswith(OF_BOOLS) else np.float64
    array, values = (X.astype(dtype), V.astype(dtype)) if dtype is not np.bool_ else (X > 1, V > 1)
    ufunc = getattr(np, OTHER_NAMES.get(name, name))
    given = {"reduce": (array,), "accumulate": (array,), "outer": (array[0], array[1]), "reduceat": (array, PLACES)}
    for method in UFUNC:
        held: dict[str, Any] = {
            "x": nc.tensor(array), "y": nc.tensor(array[1]), "i": nc.tensor(I), "v": nc.tensor(values),
            "segment_ids": nc.tensor([0, 1, 1]), "places": [1], "nacre": nc, "functools": functools,
            "itertools": itertools,
        }  # fmt: skip
        held["x"] = held["x"][0] if method == "outer" else held["x"]
        code = _proposed(name, method)
        exec(code if method == "at" else f"x = {code}", held)
        found = nc.stack(held["x"]) if isinstance(held["x"], list) else held["x"]
        wanted = array.copy()
        wanted = ufunc.at(wanted, I, values) or wanted if method == "at" else getattr(ufunc, method)(*given[method])
        np.testing.assert_allclose(found.numpy().astype(float), wanted.astype(float), rtol=1e-12, err_msg=code)


def test_other_functions_have_no_such_attributes() -> None:
    assert not hasattr(nc.exp, "at") and not hasattr(nc.matmul, "reduce")
    assert all(hasattr(getattr(nc, name), "reduceat") for name in ("fmin", "mul", *OF_TWO.split()))
