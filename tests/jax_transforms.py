"""Run JAX's tests of transformations and control flow with Nacre in the place of JAX.

    python tests/jax_transforms.py PATH [--every N] [NAME ...]

PATH is a file of the folder `tests` of a checkout of https://github.com/jax-ml/jax, as lax_control_flow_test.py, and a
NAME a part of the names of some tests.  With N it runs every Nth test.  The package absl-py must be installed, and JAX
need not be.  It prints the tests that fail, and counts.  A name of JAX is the function of that name in Nacre, or one in
the tables of `jax_names.py`; a test that reaches another name is counted as missing.  As in JAX, 64-bit numbers become
32-bit ones, numbers of several kinds meet, and gradients by complex numbers are conjugated.  Tests do not compare
dtypes, and a test of an error takes any error of Nacre.  Derivatives are compared with differences in float64.
"""

from __future__ import annotations

import collections
import functools
import importlib.machinery
import itertools
import operator
import random
import re
import signal
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from absl.testing import parameterized

import jax_names as names
import nacre as nc
from jax_derivatives import check_grads
from jax_names import quiet
from jax_values import LOADING, NARROW, Absent, install, lifted

FAULT = re.compile(r"^[A-Za-z_][\w.]*\.([A-Z]\w+: .*)|^([A-Z]\w+(?:Error|Exception|Test)\b.*)", re.MULTILINE)
SECONDS = 60  # for one test


# ---- the tests' own module


def generator(draw: Callable[..., Any]) -> Callable[..., Any]:
    """A function from a generator to one that draws operands, as in JAX's tests."""

    def make(rng: Any, *more: Any, **settings: Any) -> Callable[[Any, Any], Any]:
        def drawn(shape: Any, dtype: Any) -> Any:
            values = np.asarray(draw(rng, tuple(shape) if isinstance(shape, list | tuple) else (), *more, **settings))
            if np.issubdtype(dtype, np.complexfloating):
                values = values + 1j * np.asarray(draw(rng, values.shape, *more, **settings))
            return np.asarray(values).astype(dtype)

        return drawn

    return make


def numbers(x: Any) -> Any:
    """The numbers of a leaf, of at least single precision."""
    held = x.detach().numpy() if isinstance(x, nc.Tensor) else np.asarray(x)
    return held.astype(np.float32) if held.dtype in (np.float16, ml_dtypes.bfloat16) else held


def sampled(*groups: Any, **lists: Any) -> list[dict[str, Any]]:
    """Ten of the combinations of settings."""
    settings = [list(g) for g in groups] + [[{name: v} for v in values] for name, values in lists.items()]
    every = [functools.reduce(operator.or_, map(dict, parts)) for parts in itertools.product(*settings)]
    return random.Random(0).sample(every, min(10, len(every)))


def sample_product(*groups: Any, **lists: Any) -> Any:
    """A decorator that runs a test with ten of the combinations of settings."""
    chosen = sampled(*groups, **lists)
    return parameterized.parameters(*chosen) if chosen else lambda f: f


def all_bdims(*shapes: Any, pad: int = 0) -> Any:
    """The choices of a batch axis, or None, for operands; not all None."""
    every = itertools.product(*([None, *range(len(s) + 1)] for s in shapes))
    return (b for b in every if any(k is not None for k in b))


def add_bdim(size: int, axis: int | None, shape: Any) -> Any:
    """The shape with a batch axis."""
    return tuple(shape) if axis is None else (*shape[:axis], size, *shape[axis:])


def args_slicer(args: Any, axes: Any) -> Any:
    """A function from an index to the operands of an example."""
    return lambda i: [a if b is None else a.take(i, b) for a, b in zip(args, axes, strict=True)]


class JaxTestCase(parameterized.TestCase):
    """The class of JAX's tests."""

    def rng(self) -> Any:
        """A generator that is the same for each test."""
        return self.__dict__.setdefault("_rng", np.random.RandomState(0))

    def assertAllClose(self, x: Any, y: Any, atol: Any = None, rtol: Any = None, **_: Any) -> None:
        """Compare trees of numbers."""
        if isinstance(x, dict):
            self.assertEqual(set(x), set(y))
            x, y = list(x.values()), [y[k] for k in x]
        if isinstance(x, list | tuple) and isinstance(y, list | tuple):
            self.assertEqual(len(x), len(y))
            for a, b in zip(x, y, strict=True):
                self.assertAllClose(a, b, atol, rtol)
            return
        a, b = numbers(x), numbers(y)
        half = any(np.dtype(v.dtype).itemsize == 2 for v in (x, y) if hasattr(v, "dtype"))
        least = 2e-2 if half else 2e-5
        limits = [max(least, *(t.values() if isinstance(t, dict) else [t or 0])) for t in (rtol, atol)]
        np.testing.assert_allclose(a, b, rtol=limits[0], atol=limits[1])
        self.assertEqual(a.shape, b.shape)

    def assertArraysEqual(self, x: Any, y: Any, **_: Any) -> None:
        """Compare numbers."""
        np.testing.assert_array_equal(numbers(x), numbers(y))

    def assertArraysAllClose(self, x: Any, y: Any, **settings: Any) -> None:
        """Compare numbers."""
        self.assertAllClose(x, y, **settings)

    def _CheckAgainstNumpy(self, expected: Any, f: Any, args: Any, **settings: Any) -> None:
        given = args()
        settings = {k: v for k, v in settings.items() if k != "tol"} | {"rtol": settings.get("tol")}
        self.assertAllClose(f(*given), expected(*given), **settings)

    def _CompileAndCheck(self, f: Any, args: Any, **settings: Any) -> None:
        given = args()
        self.assertAllClose(names.jit(f)(*given), f(*given), settings.get("atol"), settings.get("rtol"))

    def assertRaises(self, expected: Any, *args: Any, **named: Any) -> Any:
        """Require an error of the class, or of Nacre."""
        own = expected if isinstance(expected, tuple) else (expected,)
        own = tuple(e for e in own if isinstance(e, type))
        return super().assertRaises((*own, nc.Error), *args, **named)

    def assertRaisesRegex(self, expected: Any, _: Any, *args: Any, **named: Any) -> Any:
        """Require an error of the class, or of Nacre, with any text."""
        return self.assertRaises(expected, *args, **named)

    assertRaisesWithLiteralMatch = assertRaisesRegex


F = [np.float32, np.float16, ml_dtypes.bfloat16]
I, U, C = [np.int32, np.int8, np.int16], [np.uint32, np.uint8, np.uint16], [np.complex64]
DTYPES = types.SimpleNamespace(
    floating=F[:1],
    all_floating=F,
    integer=I[:1],
    all_integer=I,
    unsigned=U[:1],
    all_unsigned=U,
    complex=C,
    boolean=[np.bool_],
    inexact=F[:1] + C,
    all_inexact=F + C,
    all=F + I + U + C,
    default=F[:1],
    custom_floats=F[2:],
    supported=lambda ts: [t for t in ts if np.dtype(t) not in NARROW],
)


BATCHES = types.SimpleNamespace(
    all_bdims=all_bdims,
    add_bdim=lambda s, *rest, bdim_size=None: add_bdim(
        s if bdim_size is None else bdim_size, *((s, *rest) if bdim_size is not None else rest)
    ),
    args_slicer=args_slicer,
    float_dtypes=F,
    default_dtypes=F[:1] + I[:1] + C,
    complex_dtypes=C,
    int_dtypes=I,
    uint_dtypes=U,
    bool_dtypes=[np.bool_],
    inexact_dtypes=F + C,
    all_dtypes=F + I + U + C,
    lax_ops=lambda: [],
    compatible_shapes=[[(3,)], [(2, 3)]],
)


TESTS = {
    "JIT_IMPLEMENTATION": [names.jit],
    "JaxTestCase": JaxTestCase,
    "BufferDonationTestCase": JaxTestCase,
    "sample_product": sample_product,
    "sample_product_testcases": sampled,
    "check_grads": check_grads,
    "join_tolerance": lambda *_: None,
    "num_float_bits": lambda t: ml_dtypes.finfo(t).bits,
    "dtypes": DTYPES,
    "JaxTestLoader": unittest.TestLoader,
    "tolerance": lambda *_: 1e-3,
    "device_under_test": lambda: "cpu",
    "test_device_matches": lambda devices: "cpu" in devices,
    "skip_on_devices": lambda *devices, **_: unittest.skip("device") if "cpu" in devices else quiet(),
    "run_on_devices": lambda *devices, **_: quiet() if "cpu" in devices else unittest.skip("device"),
    **dict.fromkeys(
        (
            "ignore_warning",
            "thread_unsafe_test",
            "thread_unsafe_test_class",
            "skip_on_flag",
            "strict_promotion_if_dtypes_match",
            "with_jax_dtype_defaults",
            "skip_under_pytest",
        ),
        quiet,
    ),
    "with_config": lambda **more: unittest.skip("a setting of JAX") if any(more.values()) else quiet(),
    "is_tsan": lambda: False,
    "is_gil_disabled": lambda: False,
    "numpy_version": lambda: (2, 0, 0),
    "format_shape_dtype_string": lambda *a: str(a),
    "supported_dtypes": lambda: set(DTYPES.all),
    "rand_default": generator(lambda r, shape, scale=3: scale * r.randn(*shape)),
    "rand_small": generator(lambda r, shape: 1e-3 * r.randn(*shape)),
    "rand_positive": generator(lambda r, shape: 2 * r.rand(*shape) + 0.01),
    "rand_not_small": generator(lambda r, shape, offset=10.0: r.rand(*shape) + offset),
    "rand_uniform": generator(lambda r, shape, low=0.0, high=1.0: r.uniform(low, high, shape)),
    "rand_int": generator(lambda r, shape, low=0, high=10: r.randint(low, high, shape)),
    "rand_bool": generator(lambda r, shape: r.rand(*shape) < 0.5),
    "rand_unique_int": generator(lambda r, shape, high=None: r.choice(high or int(np.prod(shape)), shape, False)),
    "rand_some_equal": generator(lambda r, shape: r.randint(0, 4, shape)),
    "rand_some_zero": generator(lambda r, shape: r.randn(*shape) * (r.rand(*shape) > 0.3)),
}


PLACES = {"numpy": nc, "lax": nc, "linalg": nc.linalg, "special": nc.special}  # of functions, by the module of JAX


@functools.cache
def found(place: Any, name: str) -> Any:
    """A function of Nacre under its name in `jax.numpy` or `jax.lax`; None if there is none."""
    own = names.RENAMED.get(name, name)
    held = getattr(place, own, None)
    return lifted(own, held) if callable(held) and not isinstance(held, type | types.ModuleType) else None


class Namespace(types.ModuleType):
    """A module of JAX: names that it lacks are Absent."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        last = self.__name__.rpartition(".")[2]
        held = found(PLACES.get(last), name)
        return Absent(f"{self.__name__}.{name}") if held is None else held


CONTENTS = {
    "jax": names.TRANSFORMS,
    "jax._src.api": names.TRANSFORMS,
    "jax.ad_checkpoint": {"checkpoint_name": nc.name},
    "jax.numpy": names.NUMPY,
    "jax.random": names.RANDOM,
    "jax.lax": names.FLOW,
    "jax._src.lax": names.FLOW,
    "jax.tree_util": names.TREE,
    "jax.tree": names.TREE,
    "jax.test_util": TESTS,
    "jax._src.test_util": TESTS,
    "jax._src.util": names.UTIL,
    "jax.checkpoint_policies": {
        "nothing_saveable": "nothing",
        "checkpoint_dots": "products",
        "dots_saveable": "products",
    },
    "jax.nn": {n: lifted(n, getattr(nc.nn.functional, n)) for n in ("relu", "sigmoid", "softmax")},
    "jax._src.internal_test_util": {"lax_test_util": BATCHES},
    "jax.numpy.linalg": {},
    "jax.scipy.special": {},
    "jax.scipy.linalg": {},
    "jax.errors": dict.fromkeys(
        (
            "UnexpectedTracerError",
            "TracerIntegerConversionError",
            "ConcretizationTypeError",
            "TracerBoolConversionError",
            "TracerArrayConversionError",
        ),
        nc.TraceError,
    ),
    "jax.config": {"parse_flags_with_absl": lambda: None, "jax_enable_x64": False, "x64_enabled": False},
    "jax._src.config": {"parse_flags_with_absl": lambda: None, "enable_x64": types.SimpleNamespace(value=False)},
    "jax.dtypes": {
        "finfo": ml_dtypes.finfo,
        "iinfo": np.iinfo,
        "issubdtype": np.issubdtype,
        "result_type": np.result_type,
        "bfloat16": ml_dtypes.bfloat16,
    },
    "jax._src.dtypes": {
        "finfo": ml_dtypes.finfo,
        "iinfo": np.iinfo,
        "issubdtype": np.issubdtype,
        "result_type": np.result_type,
        "bfloat16": ml_dtypes.bfloat16,
    },
}


class Finder:
    """Imports every module whose name starts with jax as a Namespace."""

    def find_spec(self, name: str, *_: Any) -> Any:
        """The place of a module of JAX."""
        own = name.partition(".")[0] == "jax"
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if own else None

    def create_module(self, spec: Any) -> Any:
        """A module with its names."""
        made = Namespace(spec.name)
        vars(made).update(CONTENTS.get(spec.name, {}))
        return made

    def exec_module(self, module: Any) -> None: ...


def load(path: Path) -> types.ModuleType:
    """The module of tests at a path, prepared for Nacre."""
    install()
    names.jit._name = "jit"  # type: ignore[attr-defined]
    LOADING[0] = True
    sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]
    for name in CONTENTS:
        importlib.import_module(name)
    tests = types.ModuleType(path.stem)
    sys.modules[path.stem] = tests
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(tests))
    LOADING[0] = False
    return tests


def cases(suite: Any) -> Iterator[unittest.TestCase]:
    """The tests of a suite."""
    for each in suite:
        yield from cases(each) if isinstance(each, unittest.TestSuite) else (each,)


def too_long(*_: Any) -> None:
    """End a test that takes too long."""
    raise TimeoutError(f"longer than {SECONDS} s")


def main(arguments: Sequence[str]) -> int:
    """Run the tests, or those that are named; the status is 1 if one failed."""
    tests = load(Path(arguments[0]))
    counts: collections.Counter[str] = collections.Counter()
    signal.signal(signal.SIGALRM, too_long)
    every = 1
    if "--every" in arguments:
        at = list(arguments).index("--every")
        every, arguments = int(arguments[at + 1]), [*arguments[:at], *arguments[at + 2 :]]
    for case in list(cases(unittest.defaultTestLoader.loadTestsFromModule(tests)))[::every]:
        name = case.id().partition(".")[2].partition("\n")[0]
        if len(arguments) > 1 and not any(n in name for n in arguments[1:]):
            continue
        signal.alarm(SECONDS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case.run(result := unittest.TestResult())
        signal.alarm(0)
        wrong = [*result.failures, *result.errors]
        told = "".join((FAULT.findall(wrong[0][1]) or [wrong[0][1][-300:]])[-1]) if wrong else ""
        missing = told.startswith("Missing")
        counts["skipped" if result.skipped else "missing" if missing else "failed" if wrong else "passed"] += 1
        if wrong:
            print(f"{'missing' if missing else 'failed'}: {name}: {told[:300]}", flush=True)
    print(", ".join(f"{counts[k]} {k}" for k in ("passed", "failed", "missing", "skipped")))
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
