"""Run tinygrad's tests of operations, which compare with PyTorch, with Nacre in the place of tinygrad.

    python tests/tinygrad_ops.py PATH [NAME ...]

PATH is the file test/backend/test_ops.py of a checkout of https://github.com/tinygrad/tinygrad, and a NAME one of its
tests, as test_add.  PyTorch must be installed.  It prints the tests that fail, and counts.  A method of tinygrad is the
method or function of that name in Nacre, or one of `OWN` where tinygrad's arguments differ.  As in tinygrad, numbers of
several kinds meet, int64 becomes int32, and a number has the axis 0.  A test of an error takes any class of error.
"""

from __future__ import annotations

import sys
import types
import unittest
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import nacre as nc
from nacre.api.tensor import BINARY, COMPARISONS, UNARY

F, KINDS = nc.nn.functional, ("bool", "integral", "real floating")
NAMES = {
    "swish": "silu", "binary_crossentropy": "binary_cross_entropy", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift", "binary_crossentropy_logits": "binary_cross_entropy_with_logits", "cast": "astype",
    "nonzero": "argwhere", "dot": "matmul",
}  # fmt: skip
MIXED = ["where", "add", "sub", "mul", "div", "maximum", "minimum", "pow", "mod", "fmod", "lerp"]
FLOATING = ["exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "sqrt", "rsqrt", "sigmoid", "tanh", "div"]
OPERATORS = [f"__{n}__" for n, _ in BINARY + COMPARISONS + UNARY] + [f"__r{n}__" for n, _ in BINARY]
MAKERS = "zeros ones empty rand randn uniform normal scaled_uniform glorot_uniform kaiming_uniform kaiming_normal"
REDUCED = ("axis", "keepdims")
PLACES: dict[str, tuple[str, ...]] = {  # Nacre's names of tinygrad's arguments behind the tensor
    **dict.fromkeys(("max", "min", "argmax", "argmin", "logsumexp", "var", "std", "std_mean"), REDUCED),
    "argsort": ("axis", "descending"), "topk": ("k", "axis", "largest"), "tril": ("k",), "triu": ("k",),
}  # fmt: skip


def kind(x: Any) -> int:
    """The position in KINDS of a tensor or a Python number."""
    if isinstance(x, nc.Tensor):
        return next(i for i, k in enumerate(KINDS) if nc.isdtype(x.dtype, k))
    return 0 if isinstance(x, bool) else 1 if isinstance(x, int) else 2


def of_one_kind(values: Sequence[Any]) -> list[Any]:
    """The operands in the dtype of the highest kind among them: bool, then integers, then floating-point numbers."""
    top = max(map(kind, values))
    of_top = [v.dtype for v in values if isinstance(v, nc.Tensor) and kind(v) == top]
    dtype = nc.result_type(*of_top) if of_top else (nc.bool, nc.int32, nc.float32)[top]
    return [v.astype(dtype) if isinstance(v, nc.Tensor) and kind(v) < top else v for v in values]


def bare(value: Any) -> Any:
    """Nacre's tensors for Tensors, also inside of lists and tuples; anything else as it is."""
    if isinstance(value, Tensor):
        return value.t
    return type(value)(map(bare, value)) if isinstance(value, list | tuple) else value


def dressed(value: Any, wide: bool = False) -> Any:
    """Tensors for Nacre's, also inside of tuples; int64 becomes int32 unless an operand has it."""
    if isinstance(value, list | tuple):
        return tuple(dressed(v, wide) for v in value)
    if not isinstance(value, nc.Tensor):
        return value
    return Tensor(value if wide or value.dtype != nc.int64 else value.astype(nc.int32))


def called(name: str, f: Callable[..., Any], *given: Any, **settings: Any) -> Any:
    """A function of Nacre with the operands and the conventions of tinygrad."""
    args, kwargs = list(map(bare, given)), {key: bare(v) for key, v in settings.items() if v is not None}
    if name in PLACES:
        kwargs = {"keepdims" if k == "keepdim" else k: v for k, v in kwargs.items()}
        args, kwargs = args[:1], dict(zip(PLACES[name], args[1:], strict=False)) | kwargs
    numbers = [i for i, a in enumerate(args) if isinstance(a, nc.Tensor | bool | int | float)]
    if name in OPERATORS or name in MIXED:
        numbers = numbers[name == "where" :]
        for i, a in zip(numbers, of_one_kind([args[i] for i in numbers]), strict=True):
            args[i] = a
    if name in FLOATING and not kwargs:
        args = [a.astype(nc.float32) if isinstance(a, nc.Tensor) and kind(a) < 2 else a for a in args]
    wide = any(isinstance(a, nc.Tensor) and a.dtype == nc.int64 for a in args)
    try:
        return dressed(f(*args, **kwargs), wide)
    except nc.ShapeError:
        if not args or not isinstance(args[0], nc.Tensor) or args[0].ndim:
            raise
        made = f(args[0][None], *args[1:], **kwargs)
        return dressed([v.reshape(()) for v in made] if isinstance(made, tuple) else made.reshape(()), wide)


def found(name: str) -> Callable[..., Any]:
    """The function for a name of tinygrad's."""
    name = NAMES.get(name, name)
    places = (nc.Tensor, nc, F, nc.special)
    return OWN[name] if name in OWN else next(getattr(place, name) for place in places if name in dir(place))


class Methods(type):
    """The class of Tensor: a method is looked up when it is called."""

    def __getattr__(cls, name: str) -> Callable[..., Any]:
        return lambda *args, **settings: called(name, found(name), *args, **settings)


class Tensor(metaclass=Methods):
    """tinygrad's tensor: a tensor of Nacre as `t`, which records gradients if it holds floating-point numbers."""

    def __init__(self, data: Any, dtype: Any = None, **_: Any) -> None:
        if not isinstance(data, nc.Tensor):
            made = np.asarray(bare(data))
            if not isinstance(data, np.ndarray | np.generic) and dtype is None:
                made = made.astype({"f": np.float32, "i": np.int32}.get(made.dtype.kind, made.dtype))
            data = nc.asarray(made, dtype=dtype_of(dtype))
            if kind(data) == 2:
                data.requires_grad_()
        self.t = data

    numpy = lambda self: self.t.detach().numpy()  # noqa: E731
    realize = contiguous = lambda self, *_: self

    def gradient(self, *others: Tensor) -> Any:
        """The derivatives with respect to the others; zeros for those that the tensor does not depend on."""
        return dressed(nc.autograd.grad(self.t, [x.t for x in others], materialize_grads=True))

    def __getitem__(self, key: Any) -> Any:
        return dressed(self.t[bare(key)])

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "ndim", "T", "grad"):
            return dressed(getattr(self.t, name), wide=True)
        return lambda *args, **settings: called(name, found(name), self, *args, **settings)


class Dtypes:
    """tinygrad's names of dtypes; `int` and `float` are those of 32 bits."""

    int, float, default_int, default_float = nc.int32, nc.float32, nc.int32, nc.float32
    __getattr__ = staticmethod(partial(getattr, nc))


def dtype_of(name: Any) -> Any:
    """Nacre's dtype for a name."""
    return getattr(Dtypes(), name) if isinstance(name, str) else name


# ---- the methods whose arguments differ


def shape_of(sizes: Any) -> Any:
    """The shape of f(2, 3) and of f((2, 3))."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes


def parts(x: Any, sizes: Any, dim: int = 0) -> Any:
    """The parts of one size, or of the given sizes."""
    ends = list(range(sizes, x.shape[dim], sizes)) if isinstance(sizes, int) else np.cumsum(sizes)[:-1].tolist()
    return nc.split(x, ends, axis=dim)


def padded(x: Any, padding: Any, mode: str = "constant", value: float = 0.0) -> Any:
    """Padding by a pair for each axis, or in PyTorch's order."""
    if any(isinstance(p, tuple | list) or p is None for p in padding):
        pairs = [pair or (0, 0) for _, pair in zip(x.shape, padding, strict=True)]
        padding = [n for pair in reversed(pairs) for n in pair]
    return F.pad(x, list(padding), mode, **({"value": value} if mode == "constant" else {}))


def of_rank(name: str, fill: float = 0.0) -> Callable[..., Any]:
    """The function of as many spatial axes as x has; uneven padding is done before, with a number."""

    def f(x: Any, *args: Any, padding: Any = 0, **settings: Any) -> Any:
        if isinstance(padding, tuple | list) and len(padding) == 2 * (x.ndim - 2):
            x, padding = F.pad(x, list(padding), value=fill), 0
        return getattr(F, f"{name}{x.ndim - 2}d")(x, *args, padding=padding, **settings)

    return f


def interpolated(x: Any, size: Any, mode: str = "linear", align_corners: bool = False) -> Any:
    """`linear` for any number of axes."""
    linear = ("linear", "bilinear", "trilinear")[len(size) - 1]
    settings: Any = {"mode": linear, "align_corners": align_corners} if mode == "linear" else {"mode": mode}
    return F.interpolate(x, size=size, **settings)


def squeezed(x: Any, dim: int | None = None) -> Any:
    """x without its axes of size 1, or without one axis if its size is 1."""
    ones = [i for i, n in enumerate(x.shape) if n == 1 and dim in (None, i, i - x.ndim)]
    return x.squeeze(tuple(ones)) if (x.shape or (1,))[dim or 0] != 0 else x


OWN: dict[str, Callable[..., Any]] = {
    **{f"{name}2d": of_rank(name) for name in ("conv", "conv_transpose", "avg_pool")},
    "max_pool2d": of_rank("max_pool", -np.inf),
    "pad": padded, "split": parts, "interpolate": interpolated, "squeeze": squeezed,
    **{name: partial(getattr(nc, name), correction=1) for name in ("var", "std")},
    "std_mean": lambda x, correction=1, **k: (nc.std(x, correction=correction, **k), nc.mean(x, **k)),
    "sort": lambda x, dim=-1, descending=False: (
        nc.sort(x, axis=dim, descending=descending), nc.argsort(x, axis=dim, descending=descending)),
    "chunk": lambda x, n, dim=0: parts(x, max(1, -(-x.shape[dim] // n)), dim),
    "logical_not": lambda x: nc.logical_not(x.astype(nc.bool)),
    "one_hot": lambda x, n: F.one_hot(x, n).astype(nc.int32),
    "einsum": lambda formula, *xs: nc.einsum(formula, *(xs[0] if isinstance(xs[0], list) else xs)),
    "cat": lambda *xs, dim=0: nc.concat(xs, axis=dim),
    "stack": lambda *xs, dim=0: nc.stack(shape_of(xs), axis=dim),
    "repeat": lambda x, *n: nc.tile(x, shape_of(n)),
    "transpose": lambda x, a=1, b=0: nc.swapaxes(x, a, b),
    "reshape": lambda x, *s: nc.reshape(x, tuple(x.shape[i] if n is None else n for i, n in enumerate(shape_of(s)))),
    "unflatten": lambda x, dim, s: x.reshape(x.shape[: dim % x.ndim] + tuple(s) + x.shape[dim % x.ndim + 1 :]),
    "quick_gelu": lambda x: x * nc.sigmoid(1.702 * x),
    "sparse_categorical_crossentropy": lambda x, y, ignore_index=-1, label_smoothing=0.0, reduction="mean":
        F.cross_entropy(nc.moveaxis(x, -1, 1), y, None, ignore_index, reduction, label_smoothing),
}  # fmt: skip


def numbered(f: Callable[..., Any], *args: Any, dtype: Any = None, **_: Any) -> Any:
    """The numbers of a function such as arange, of int32 where they fit and no dtype is given."""
    large = any(abs(n) >= 2**31 for n in args if isinstance(n, int))
    return dressed(f(*args, dtype=dtype_of(dtype)), large or dtype is not None)


def filled(f: Callable[..., Any], *shape: Any, dtype: Any = None, **_: Any) -> Tensor:
    """A Tensor of a function of a shape."""
    return Tensor(f(shape_of(shape)).astype(dtype_of(dtype) or nc.float32))


for word in (*OPERATORS, "__len__", "__bool__", "__iter__"):
    setattr(Tensor, word, lambda *xs, word=word: called(word, getattr(nc.Tensor, word), *xs))
for word in MAKERS.split():
    setattr(Tensor, word, staticmethod(partial(filled, getattr(nc, word, nc.random.uniform))))
for word in ("arange", "full", "eye", "linspace"):
    setattr(Tensor, word, staticmethod(partial(numbered, getattr(nc, word))))
Tensor.randint = staticmethod(lambda *s, low=0, high=10: dressed(nc.random.randint(low, high, shape_of(s))))


# ---- the tests


class Context:
    """Settings of tinygrad's compiler, which have no meaning here; and its device, which has all dtypes."""

    DEFAULT = interface = device = "CPU"
    supported_dtypes = staticmethod(lambda: [nc.float16, nc.float32, nc.float64])
    renderer = property(lambda self: self)

    def __init__(self, **_: Any) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...
    def __getitem__(self, name: str) -> Context:
        return self


def load(path: Path) -> types.ModuleType:
    """The module of tests at a path, prepared for Nacre."""
    held = {
        "tinygrad": {"Tensor": Tensor, "Device": Context(), "dtypes": Dtypes()},
        "tinygrad.helpers": {"getenv": lambda _, d=0: d, "DEBUG": 0, "DEV": Context(), "IMAGE": 0, "Context": Context},
        "tinygrad.tensor": {"_to_np_dtype": lambda dtype: np.dtype(dtype.name)},
        "tinygrad.renderer": {},
        "tinygrad.renderer.nir": {"NIRRenderer": type("NIRRenderer", (), {})},
    }  # fmt: skip
    for name, names in held.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(names)
    tests: Any = types.ModuleType("test_ops")
    text = path.read_text(encoding="utf-8")  # Nacre's dtypes have no bounds of their own
    text = text.replace("dtypes.int.max", str(2**31 - 1)).replace("dtypes.int.min", str(-(2**31)))
    exec(compile(text, str(path), "exec"), vars(tests))

    def raises(case: Any, expected: Any, *_: Any) -> Any:
        return unittest.TestCase.assertRaises(case, (nc.Error, ValueError, TypeError, AttributeError, expected))

    tests.TestOps.assertRaises = tests.TestOps.assertRaisesRegex = raises
    return tests


def main(arguments: Sequence[str]) -> int:
    """Run the tests, or those that are named; the status is 1 if one failed."""
    tests: Any = load(Path(arguments[0]))
    counts = np.zeros(3, int)
    for suite in unittest.defaultTestLoader.loadTestsFromModule(tests):
        for case in suite:  # type: ignore[union-attr]
            name = case.id().rpartition(".")[2]
            if len(arguments) > 1 and name not in arguments[1:]:
                continue
            tests.np.random.seed(1337)
            tests.torch.manual_seed(1337)
            case.run(result := unittest.TestResult())
            wrong = [*result.failures, *result.errors]
            counts += np.array([result.wasSuccessful() and not result.skipped, bool(wrong), bool(result.skipped)])
            for _, told in wrong[:1]:
                print(f"failed: {name}: {told.strip().splitlines()[-1][:300]}", flush=True)
    print("{} passed, {} failed, {} skipped".format(*counts))
    return int(counts[1] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
