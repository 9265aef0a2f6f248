"""The names of other libraries in docs/names exist there, and the public ones of NumPy and PyTorch are all listed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from inspect import ismodule
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "names"
MODULES = {
    "np": "numpy", "np.linalg": "numpy.linalg", "np.fft": "numpy.fft", "np.random": "numpy.random", "torch": "torch",
    "torch.linalg": "torch.linalg", "torch.fft": "torch.fft", "torch.special": "torch.special", "nn": "torch.nn",
    "torch.autograd": "torch.autograd", "torch.func": "torch.func", "F": "torch.nn.functional",
    "nn.init": "torch.nn.init",
    "nn.utils": "torch.nn.utils", "optim": "torch.optim", "optim.lr_scheduler": "torch.optim.lr_scheduler",
    "utils.data": "torch.utils.data", "jax": "jax", "jax.lax": "jax.lax", "jax.random": "jax.random",
    "jax.nn": "jax.nn", "jax.tree": "jax.tree", "jax.ops": "jax.ops",
}  # fmt: skip
GONE = {"in1d", "trapz", "row_stack", "symeig"}  # from some versions
INTERNAL = re.compile(
    r"^(test|info|common_notes|factory_kwargs|little_endian|ScalarType|Tensor|LinearCrossEntropyOptions)$|_params_and_state$"
)


def listed(library: str) -> Iterator[tuple[str, str]]:
    """The module, as it is written, and a name of it."""
    for part in tomllib.loads((FOLDER / f"{library}.toml").read_text(encoding="utf-8"))["part"]:
        for name in part["names"].split():
            yield part["call"].removesuffix(".{}"), name


@pytest.mark.parametrize("library", ["numpy", "pytorch", "jax"])
def test_names_exist_in_the_library(library: str) -> None:
    pytest.importorskip({"pytorch": "torch"}.get(library, library))
    held: dict[str, Any] = {short: import_module(name) for short, name in MODULES.items() if name.startswith(
        {"pytorch": "torch"}.get(library, library))}  # fmt: skip
    if library == "numpy":
        held["a"] = held["np"].ndarray
    if library == "pytorch":
        held["x"] = held["torch"].Tensor
    lost = [f"{short}.{name}" for short, name in listed(library) if not hasattr(held[short], name)]
    assert not [name for name in lost if name.rpartition(".")[2] not in GONE]


@pytest.mark.parametrize("short", ["np", "np.linalg", "np.fft", "np.random"])
def test_all_names_of_numpy_are_listed(short: str) -> None:
    module = import_module(MODULES[short])
    known = {name for where, name in listed("numpy") if where == short}
    every = {n for n in dir(module) if n[0] != "_" and not ismodule(getattr(module, n)) and not INTERNAL.search(n)}
    assert not every - known


@pytest.mark.parametrize("short", ["torch.linalg", "torch.fft", "nn", "nn.init", "optim"])
def test_all_names_of_pytorch_are_listed(short: str) -> None:
    pytest.importorskip("torch")
    module = import_module(MODULES[short])
    known = {name for where, name in listed("pytorch") if where == short}
    every = {n for n in getattr(module, "__all__", dir(module)) if n[0] != "_" and not ismodule(getattr(module, n))}
    assert not [n for n in every - known if not INTERNAL.search(n) and callable(getattr(module, n))]
