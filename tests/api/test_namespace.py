"""The public namespace: complete, and quick to import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim
from nacre.api import namespace
from nacre.base.lazy import names_of

ROOT = Path(nc.__file__).parent


def test_names_do_not_collide() -> None:
    listed = [n for m in namespace.MODULES for n in m.__all__]
    assert len(listed) == len(set(listed))


def test_star_and_dir_list_every_public_name() -> None:
    names: dict[str, object] = {}
    exec("from nacre import *", names)
    assert set(namespace.PUBLIC) <= set(names)
    assert {"grad", "jit", "nn", "optim", "__version__"} <= set(dir(nc))
    standard = {"__array_api_version__", "__array_namespace_info__"}
    assert standard <= set(names) and standard <= set(dir(nc))


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
        "assert heavy == {'nacre.base', 'nacre.base.forks', 'nacre.kernel'}, heavy; "
        "from nacre import nn, optim, train; assert 'numpy' not in sys.modules; "
        "nn.Linear; assert 'nacre.nn.modules.linear_maps' in sys.modules; "
        "assert 'nacre.nn.modules.recurrent' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


LATE = (  # what `nc.ones((2, 2)) + 1` has no use for
    "nacre.api.fft", "nacre.api.interchange.borrow", "nacre.api.interchange.dlpack",
    "nacre.api.interchange.numpy_table", "nacre.api.interchange.of_numpy", "nacre.api.linalg",
    "nacre.codegen.attention.forward", "nacre.codegen.convolution.kernel", "nacre.codegen.fft",
    "nacre.codegen.gemm.kernel", "nacre.codegen.window", "nacre.compile.lowering.fourier",
    "nacre.kernel.complex.functions", "nacre.kernel.complex.terms", "nacre.kernel.order_fft",
    "nacre.kernel.order_linalg", "nacre.kernel.roots_of_unity", "nacre.nn", "nacre.ops.fft", "nacre.ops.linalg",
    "nacre.runtime.dlpack", "nacre.transform",
)  # fmt: skip
FEW = """
import sys
import nacre as nc
print((nc.ones((2, 2)) + 1).tolist())
print(*(name for name in sys.modules if name.startswith("nacre")))
"""


def test_a_small_program_loads_only_what_it_needs(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-c", FEW],
        capture_output=True,
        text=True,
        check=True,
        env={"NACRE_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    printed, names = made.stdout.splitlines()
    assert printed == "[[2.0, 2.0], [2.0, 2.0]]" and "nacre.compile.pipeline" in names.split()
    assert all(path_of(name).exists() for name in LATE)
    assert [n for n in names.split() if n in LATE or n.startswith(tuple(f"{late}." for late in LATE))] == []


def path_of(name: str) -> Path:
    """The file of a module, or the folder of a package."""
    path = ROOT.joinpath(*name.split(".")[1:])
    return path if path.is_dir() else path.with_suffix(".py")


@pytest.mark.parametrize("first", ["fft.fft", "linalg.cholesky", "from_dlpack"])
def test_names_that_are_loaded_late_are_public(first: str) -> None:
    code = (
        "import sys, pickle, nacre as nc; assert {'fft', 'linalg', 'from_dlpack'} <= set(dir(nc)); "
        f"found = nc.{first}; assert found.__wrapped__, found; "
        "from nacre import fft, linalg; assert linalg.matmul is nc.matmul and fft is nc.fft; "
        "assert pickle.loads(pickle.dumps(found)) is found"
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
