"""The public namespace: complete, and quick to import."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim
from nacre.api import namespace
from nacre.base.lazy import names_of


def test_names_do_not_collide() -> None:
    listed = [n for m in namespace.MODULES for n in m.__all__]
    assert len(listed) == len(set(listed))


def test_star_and_dir_list_every_public_name() -> None:
    names: dict[str, object] = {}
    exec("from nacre import *", names)
    assert set(namespace.PUBLIC) <= set(names)
    assert {"grad", "jit", "nn", "optim", "__version__"} <= set(dir(nc))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = nc.no_such_thing


def test_dtypes_and_errors_are_public() -> None:
    assert nc.bool.name == "bool"
    assert nc.float32.numpy == np.float32
    assert issubclass(nc.ShapeError, nc.Error) and issubclass(nc.ShapeError, ValueError)


def test_importing_loads_nothing_heavy() -> None:
    code = (
        "import sys, nacre as nc; heavy = {m for m in sys.modules if m.startswith(('nacre.', 'numpy', 'llvmlite'))}; "
        "assert heavy == {'nacre.base', 'nacre.base.forks'}, heavy; "
        "from nacre import nn, optim, train; assert 'numpy' not in sys.modules; "
        "nn.Linear; assert 'nacre.nn.modules.linear_maps' in sys.modules; "
        "assert 'nacre.nn.modules.recurrent' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("package", [nn, nn.functional, optim], ids=lambda p: p.__name__)
def test_lazily_loaded_names_are_the_public_ones(package: Any) -> None:
    homes = names_of(package.HOMES)
    assert set(getattr(package, "__all__", homes)) >= set(homes)
    assert all(getattr(package, name).__module__.startswith("nacre.") for name in homes)
    for name in getattr(package, "__all__", ()):
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = package.Nothing
