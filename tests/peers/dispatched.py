"""A plugin of pytest that hands Nacre to the tests of SciPy and scikit-learn which are made for several libraries.

    SCIPY_ARRAY_API=1 PYTHONPATH=src:tests python -m pytest -p peers.dispatched --pyargs scipy.special sklearn.metrics

Other tests are left out.  SciPy's tests presume float64 for Python numbers and version 2024.12 of the array API
standard, as its own settings for PyTorch and array-api-strict do; the plugin sets both.  It skips what SciPy skips for
array-api-strict: these tests mix dtypes of several kinds, for example, which the standard leaves undefined.
`NACRE_SAMPLE=5` chooses every fifth test.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import nacre as nc
from nacre.api import creation
from nacre.base import conversion, dtypes

ROOMS = (
    "nacre.api.fft", "nacre.api.random", "nacre.api.elementwise.transcendental", "nacre.api.elementwise.arithmetic",
    "nacre.api.standard.inspection",
)  # fmt: skip


def presume_float64() -> None:
    """Make Python floats float64 and complex numbers complex128."""
    for name in ROOMS:
        importlib.import_module(name)
    for name, module in list(sys.modules.items()):
        if name.startswith("nacre.") and getattr(module, "DEFAULT_FLOAT", None) is nc.float32:
            module.DEFAULT_FLOAT = nc.float64  # type: ignore[attr-defined]
    conversion.float32, conversion.complex64 = nc.float64, nc.complex128  # type: ignore[misc]
    creation.complex64 = nc.complex128  # type: ignore[misc]
    dtypes.PYTHON.update({float: nc.float64, complex: nc.complex128})


def presume_lists_of_devices() -> None:
    """Give the devices as a list, as versions of the standard before 2025.12 do."""
    kind: Any = type(nc.__array_namespace_info__())
    kind.devices = lambda self: ["cpu"]


def hand_to_sklearn() -> None:
    """Make the tests of scikit-learn take Nacre as their only library."""
    module = importlib.import_module("sklearn.utils._array_api")

    def namespaces(include_numpy_namespaces: bool = True) -> Iterator[str]:
        yield "nacre"

    def combinations(include_numpy_namespaces: bool = True) -> Iterator[tuple[str, str, str]]:
        yield "nacre", "cpu", "float64"
        yield "nacre", "cpu", "float32"

    def mixed() -> Iterator[tuple[Any, Any, str]]:
        arrays, tensors = module.NamespaceAndDevice("numpy", None), module.NamespaceAndDevice("nacre", "cpu")
        yield arrays, tensors, "numpy to nacre"
        yield tensors, arrays, "nacre to numpy"
        yield module.NamespaceAndDevice("array_api_strict", "CPU_DEVICE"), tensors, "array_api_strict to nacre"

    module.yield_namespaces = namespaces
    module.yield_namespace_device_dtype_combinations = combinations
    module.yield_mixed_namespace_input_permutations = mixed


def hand_to_scipy(settings: Any) -> None:
    """Make SciPy's settings of its tests, a conftest.py, know Nacre, and skip what is skipped for array-api-strict."""
    if "nacre" in settings.xp_known_backends:
        return
    settings.xp_known_backends.add("nacre")
    own = settings._backends_kwargs_from_request

    def reasons(request: Any, skip_or_xfail: str) -> dict[str, str]:
        found: dict[str, str] = own(request, skip_or_xfail)
        if "array_api_strict" in found:
            found.setdefault("nacre", found["array_api_strict"])
        return found

    settings._backends_kwargs_from_request = reasons


def pytest_configure(config: pytest.Config) -> None:
    """Prepare for the packages that are named."""
    named = " ".join(config.args)
    if "sklearn" in named:
        hand_to_sklearn()
    if "scipy" in named:
        presume_float64()
        presume_lists_of_devices()


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: Any) -> None:
    """Make Nacre the only library of SciPy's tests."""
    settings = sys.modules.get("scipy.conftest")
    if settings is not None and "xp" in metafunc.fixturenames:
        hand_to_scipy(settings)
        for fixture in metafunc._arg2fixturedefs.get("xp", ()):
            fixture.params, fixture.ids = (pytest.param(nc, id="nacre"),), None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of other libraries, and choose a sample."""
    chosen = [item for item in items if "nacre" in item.name][:: int(os.environ.get("NACRE_SAMPLE", "1"))]
    kept = {id(item) for item in chosen}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = chosen
