"""Run NumPy's own tests, repeat each of their calls with Nacre's tensors, and compare the outcomes.

    python tests/numpy_calls.py [--seconds S] [FILE ...]

A FILE is one of NumPy's installed tests, as _core/tests/test_numeric.py; without one, those of `FILES`.  The tests get
arrays of a class that repeats functions, ufuncs, indexing and assignment.  The command prints a row for each file, and
the errors and other numbers by their text.  As a plugin of pytest, this file writes the outcomes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import types
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as real
import numpy.testing

import nacre as nc

ROOT = Path(__file__).resolve().parents[1]
HOME = Path(real.__file__).parent
REPORT = "NACRE_NUMPY_CALLS"  # the variable with the file to which outcomes are written
CORE = ("numeric", "indexing", "ufunc", "umath", "einsum", "item_selection", "shape_base")
FILES = [
    *(f"_core/tests/test_{name}.py" for name in CORE),
    *(f"lib/tests/test_{name}.py" for name in ("twodim_base", "shape_base", "arraysetops")),
    "linalg/tests/test_linalg.py",
    "fft/tests/test_pocketfft.py",
    "fft/tests/test_helper.py",
]
OUTCOMES = {  # the columns of the table
    "same": "same", "dtype": "other dtype", "error": "error", "both": "both raise", "numpy": "only NumPy raises",
    "value": "other numbers",
}  # fmt: skip
MOST = 25  # times that a test's calls of one function are repeated
DTYPES = {real.dtype(t) for t in ("?", *"bhilBHILefdFD")}
# functions of memory, files, printing, settings and Python's objects, which only NumPy calls
ALONE = """
may_share_memory shares_memory array_repr array_str array2string errstate seterr geterr seterrcall geterrcall
printoptions set_printoptions get_printoptions iterable broadcast nditer frombuffer fromfile fromstring fromiter
save load asarray array asanyarray ascontiguousarray asfortranarray require empty empty_like copyto putmask put
place ndim shape size isscalar can_cast result_type promote_types min_scalar_type common_type mintypecode
issubdtype getbufsize setbufsize put_along_axis fill_diagonal iscomplexobj isrealobj typename from_dlpack info i0
vectorize frompyfunc fromfunction isfortran base_repr binary_repr format_float_positional format_float_scientific
savetxt loadtxt genfromtxt savez ndenumerate ndindex
"""


class NotConverted(Exception):
    """An operand that has no counterpart: of another dtype, byte order or class."""


class Watched(real.ndarray):
    """An array whose calls are repeated."""

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, out: Any = None, **settings: Any) -> Any:
        f = getattr(ufunc, method)
        if out is not None:
            return dressed(f(*bare(operands), out=bare(out), **bare(settings)))
        return repeated(ufunc.__name__ + ("" if method == "__call__" else f".{method}"), f, operands, settings)

    def __array_function__(self, f: Any, _: Any, args: Any, settings: Any) -> Any:
        return dressed(f(*bare(args), **bare(settings)))

    def __getitem__(self, key: Any) -> Any:
        return repeated("getitem", lambda x, k: x[k], (self, key), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        base = self.view(real.ndarray)

        def write(x: Any, k: Any, v: Any) -> Any:
            x = x if isinstance(x, nc.Tensor) else base
            x[k] = v
            return x

        repeated("setitem", write, (base.copy(), bare(key), bare(value)), {})

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else array


def bare(value: Any) -> Any:
    """Plain arrays for watched ones, also inside of containers."""
    if isinstance(value, Watched):
        return value.view(real.ndarray)
    if type(value) is dict:
        return {k: bare(v) for k, v in value.items()}
    return type(value)(map(bare, value)) if type(value) in (list, tuple) else value


def dressed(value: Any) -> Any:
    """Watched arrays for plain ones."""
    if type(value) is real.ndarray and value.dtype in DTYPES:
        return value.view(Watched)
    return type(value)(map(dressed, value)) if type(value) in (list, tuple) else value


def tensors(value: Any) -> Any:
    """Nacre's tensors for arrays and NumPy's numbers."""
    if isinstance(value, real.ndarray | real.generic):
        if type(value) is not real.ndarray and isinstance(value, real.ndarray):
            raise NotConverted
        if value.dtype not in DTYPES or not value.dtype.isnative:
            raise NotConverted
        return nc.asarray(real.asarray(value))
    return type(value)(map(tensors, value)) if type(value) in (list, tuple) else value


def leaves(value: Any) -> list[Any]:
    """The numbers and arrays in nested containers."""
    return [x for v in value for x in leaves(v)] if isinstance(value, list | tuple) else [value]


def compared(wanted: Any, found: Any) -> tuple[str, str]:
    """The outcome of a call that both libraries answer, and what is different."""
    outcome, told = "same", ""
    a, b = leaves(wanted), leaves(found)
    if len(a) != len(b):
        return "value", f"{len(a)} results; got {len(b)}"
    for p, q in zip(a, b, strict=True):
        if p is None or isinstance(p, str | type) or real.asarray(p).dtype.kind not in "biufc":
            continue
        x, y = real.asarray(p), real.asarray(q.detach() if isinstance(q, nc.Tensor) else q)
        if x.shape != y.shape:
            return "value", f"shape {x.shape}; got {y.shape}"
        short = {x.dtype.char, y.dtype.char}
        bound = 1e-2 if "e" in short else 2e-4 if short & set("fF") else 1e-9
        size = float(real.max(real.abs(real.where(real.isfinite(x), x, 0)), initial=0))
        exact = x.dtype.kind in "biu" and y.dtype.kind in "biu"
        if not (real.array_equal(x, y) if exact else real.allclose(x, y, bound, bound * size, equal_nan=True)):
            return "value", f"{x.dtype} {x.tolist()}; got {y.dtype} {y.tolist()}"[:300]
        if x.dtype != y.dtype:
            outcome, told = "dtype", f"{x.dtype}; got {y.dtype}"
    return outcome, told


state: dict[str, Any] = {"test": "", "counts": Counter(), "inside": False}


def repeated(name: str, f: Callable[..., Any], args: Sequence[Any], settings: dict[str, Any]) -> Any:
    """The result of f for arrays, or its error, after the same call with tensors."""
    args, settings = bare(tuple(args)), bare(settings)
    state["counts"][name] += 1
    given: Any = None
    if not state["inside"] and state["counts"][name] <= MOST and not {"out", "like"} & settings.keys():
        try:
            given = tensors(args), {k: tensors(v) for k, v in settings.items()}
        except (NotConverted, nc.Error):
            given = None
        if given and not any(isinstance(x, nc.Tensor) for x in leaves([*given[0], *given[1].values()])):
            given = None
    state["inside"] = True
    try:
        wanted = fault = None
        try:
            wanted = f(*args, **settings)
        except Exception as error:
            fault = error
        if given:
            with real.errstate(all="ignore"):
                record(name, wanted, fault, f, *given)
    finally:
        state["inside"] = False
    if fault is not None:
        raise fault
    return dressed(wanted)


def record(name: str, wanted: Any, fault: Any, f: Callable[..., Any], args: Any, settings: Any) -> None:
    """Write the outcome of a call to the report."""
    try:
        found = f(*args, **settings)
        outcome, told = compared(wanted, found) if fault is None else ("numpy", f"{type(fault).__name__}: {fault}")
    except Exception as error:
        outcome, told = ("error" if fault is None else "both"), f"{type(error).__name__}: {error}"
    with open(os.environ[REPORT], "a", encoding="utf-8") as file:
        file.write(json.dumps([state["test"], name, outcome, told[:300]]) + "\n")


class Proxy(types.ModuleType):
    """A module of NumPy's, whose functions are repeated."""

    def __init__(self, module: Any) -> None:
        super().__init__(module.__name__)
        self.module = module

    def __getattr__(self, name: str) -> Any:
        held = getattr(self.module, name)
        if isinstance(held, types.ModuleType):
            return PROXIES.get(held.__name__, held)
        if isinstance(held, type | real.ufunc) or not callable(held) or name.startswith("_"):
            return held
        if self.module is numpy.testing:
            return held if name.startswith(("assert_raises", "assert_warns", "assert_no_w", "suppress")) else (
                lambda *a, **k: held(*bare(a), **bare(k)))  # fmt: skip
        if name in ALONE.split():
            return lambda *a, **k: dressed(held(*bare(a), **bare(k)))
        return lambda *a, **k: repeated(f"{self.module.__name__}.{name}", held, a, k)


PROXIES = {m.__name__: Proxy(m) for m in (real, real.linalg, real.fft, numpy.testing)}


def watched_source(text: str) -> str:
    """The source of a test with the proxies in place of NumPy's modules."""
    text = re.sub(r"^import numpy as np$", "from numpy_calls import PROXIES; np = PROXIES['numpy']", text, flags=re.M)
    return re.sub(r"^from (numpy|numpy\.linalg|numpy\.fft|numpy\.testing) import", r"from watched_\1 import", text,
                  flags=re.M).replace("watched_numpy.", "watched_numpy_")  # fmt: skip


def pytest_configure() -> None:
    """The proxies are modules that tests import from."""
    for name, proxy in PROXIES.items():
        sys.modules[f"watched_{name.replace('.', '_')}"] = proxy


def pytest_runtest_setup(item: Any) -> None:
    """A test begins."""
    state.update(test=Path(item.fspath).name, counts=Counter(), inside=False)


def run_file(name: str, folder: Path, seconds: float) -> list[list[str]]:
    """The outcomes of all calls of a file of tests."""
    copy, report = folder / f"test_{name.replace('/', '_').removesuffix('.py')}.py", folder / "report"
    copy.write_text(watched_source((HOME / name).read_text(encoding="utf-8")), encoding="utf-8")
    report.unlink(missing_ok=True)
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    line = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "numpy_calls", str(copy)]
    env = {**os.environ, "PYTHONPATH": paths, REPORT: str(report)}
    try:
        subprocess.run(line, cwd=folder, env=env, capture_output=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        print(f"{name}: stopped after {seconds} seconds", file=sys.stderr)
    return [json.loads(x) for x in report.read_text(encoding="utf-8").splitlines()] if report.exists() else []


def main(arguments: Sequence[str]) -> int:
    """Run the files, print the table and what is different; the status is 1 if there are other numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=FILES)
    parser.add_argument("--seconds", type=float, default=3600.0, help="the most for one file")
    given = parser.parse_args(arguments)
    print(f"NumPy {real.__version__}\n\n| tests | {' | '.join(OUTCOMES.values())} |\n|---{'|---' * len(OUTCOMES)}|")
    different: Counter[tuple[str, ...]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for name in given.files:
            calls = run_file(name, Path(folder), given.seconds)
            counts = Counter(outcome for _, _, outcome, _ in calls)
            print(f"| `{name}` | {' | '.join(str(counts[k]) for k in OUTCOMES)} |", flush=True)
            for _, function, outcome, told in calls:
                if outcome not in ("same", "both"):
                    told = re.split(r"; got", told)[0] if outcome == "error" else told
                    different[outcome, function, re.sub(r"\(.*", "", told)[:110]] += 1
    for (outcome, function, told), count in sorted(different.items(), key=lambda x: (x[0][0], -x[1])):
        print(f"{outcome}: {function}: {count} times: {told}")
    return int(any(key[0] == "value" for key in different))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
