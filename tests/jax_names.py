"""The functions of Nacre under JAX's names and with JAX's conventions, for `jax_transforms.py`."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import nacre as nc
from jax_values import Absent, Missing, array, arrays, conjugated, kind, lifted, narrow, of_numpy, of_one_kind, walked

# ---- transformations


def returning(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose results are tensors."""
    if not callable(f):
        raise TypeError(f"a function is required; got {f!r}")

    def call(*args: Any, **settings: Any) -> Any:
        return arrays(f(*args, **settings))

    return functools.update_wrapper(call, f, updated=()) if hasattr(f, "__name__") else call


def transform(name: str, conjugate: bool = False) -> Callable[..., Any]:
    """A transformation that returns a function, with JAX's settings that mean nothing here."""

    def make(
        f: Any, argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False
    ) -> Any:
        made = getattr(nc, name)(returning(f), argnums, has_aux)
        places = (argnums,) if isinstance(argnums, int) else argnums

        def call(*given: Any, **named: Any) -> Any:
            wanted = {k % max(len(given), 1) for k in places}
            args = [arrays(a) if k in wanted else walked(of_numpy, a) for k, a in enumerate(given)]
            found = made(*args, **{k: walked(of_numpy, v) for k, v in named.items()})
            if not conjugate:
                return found
            if name == "value_and_grad":
                return found[0], walked(conjugated, found[1])
            return (walked(conjugated, found[0]), found[1]) if has_aux else walked(conjugated, found)

        return functools.update_wrapper(call, f, updated=()) if hasattr(f, "__name__") else call

    make.__name__ = name
    return make


def jvp(f: Any, primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """`nc.jvp`."""
    return nc.jvp(returning(f), arrays(primals), arrays(tangents), has_aux=has_aux)


def vjp(f: Any, *primals: Any, has_aux: bool = False) -> Any:
    """`nc.vjp` with JAX's convention for complex numbers."""
    y, pull, *aux = nc.vjp(returning(f), *arrays(primals), has_aux=has_aux)
    return y, lambda c: walked(conjugated, pull(walked(conjugated, arrays(c)))), *aux


def linearize(f: Any, *primals: Any) -> Any:
    """The value, and the function of tangents."""
    return returning(f)(*arrays(primals)), lambda *tangents: jvp(f, primals, tangents)[1]


class Jit:
    """`nc.jit`; arguments are tensors unless they are static."""

    def __init__(self, f: Any, places: Any, names: Any) -> None:
        self.places = (places,) if isinstance(places, int) else places or ()
        self.names = (names,) if isinstance(names, str) else names or ()
        self.made = nc.jit(returning(f), autograph=False)
        functools.update_wrapper(self, f, updated=())

    def __call__(self, *args: Any, **named: Any) -> Any:
        static = {k % max(len(args), 1) for k in self.places}
        given = [a if k in static else arrays(a) for k, a in enumerate(args)]
        return self.made(*given, **{k: v if k in self.names else arrays(v) for k, v in named.items()})

    def __get__(self, owner: Any, _: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Missing(f"jit(f).{name}")


def jit(
    f: Any = None, *, static_argnums: Any = (), static_argnames: Any = (), inline: bool = False, **more: Any
) -> Any:
    """A decorator with or without settings."""
    if more:
        raise Missing(f"jit({', '.join(more)})")
    if f is None:
        return functools.partial(jit, static_argnums=static_argnums, static_argnames=static_argnames)
    if not callable(f):
        raise TypeError(f"a function is required; got {f!r}")
    return Jit(f, static_argnums, static_argnames)


def checkpoint(f: Any = None, *, prevent_cse: bool = True, policy: Any = None, **settings: Any) -> Any:
    """`nc.checkpoint` with one of the two policies that Nacre has."""
    if f is None:
        return functools.partial(checkpoint, policy=policy, **settings)
    if settings or policy not in (None, "nothing", "products"):
        raise Missing(f"checkpoint({', '.join(settings) or getattr(policy, '_name', policy)})")
    made = nc.checkpoint(returning(f), save=policy or "nothing")
    return lambda *args, **named: made(*arrays(args), **arrays(named))


class Custom:
    """`nc.custom_jvp` or `nc.custom_vjp`, whose rules return tensors."""

    def __init__(self, make: Any, f: Any, **settings: Any) -> None:
        self.made = make(returning(f), **settings)
        functools.update_wrapper(self, f, updated=())

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.made(*map(lambda a: a if callable(a) else arrays(a), args), **arrays(named))

    def __get__(self, owner: Any, _: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def defjvp(self, rule: Any, symbolic_zeros: bool = False) -> Any:
        """The rule of the derivative."""
        if symbolic_zeros:
            raise Missing("defjvp(symbolic_zeros)")
        self.made.defjvp(returning(rule))
        return rule

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Missing(f"custom.{name}")

    def defjvps(self, *rules: Any) -> None:
        """A rule for each argument."""
        self.made.defjvps(*(r if r is None else returning(r) for r in rules))

    def defvjp(self, forward: Any, backward: Any, symbolic_zeros: bool = False, **_: Any) -> None:
        """The rules of both passes."""
        if symbolic_zeros:
            raise Missing("defvjp(symbolic_zeros)")

        def first(*args: Any) -> Any:
            """The result and what the other rule needs, of which numbers stay numbers."""
            found = forward(*args)
            pair = isinstance(found, tuple) and len(found) == 2
            return (arrays(found[0]), walked(of_numpy, found[1])) if pair else arrays(found)

        self.made.defvjp(first if callable(forward) else forward, returning(backward))


def custom(make: Any) -> Callable[..., Any]:
    """A decorator with or without settings."""
    return lambda f=None, **settings: (
        functools.partial(Custom, make, **settings) if f is None else Custom(make, f, **settings)
    )


def batched(f: Any, in_axes: Any = 0, out_axes: Any = 0, **settings: Any) -> Any:
    """`nc.vmap`."""
    named = [k for k, v in settings.items() if v is not None]
    if named:
        raise Missing(f"vmap({', '.join(named)})")
    made = nc.vmap(returning(f), in_axes=in_axes, out_axes=out_axes)
    return lambda *args, **named: made(*arrays(args), **arrays(named))


# ---- control flow


def cond(pred: Any, then: Any, orelse: Any, *operands: Any, **named: Any) -> Any:
    """`nc.cond`."""
    given = (named["operand"],) if "operand" in named else operands
    pred = array(pred)
    chosen = pred != 0 if isinstance(pred, nc.Tensor) and kind(pred) else pred
    return nc.cond(chosen, returning(then), returning(orelse), *arrays(given))


def scan(
    f: Any, init: Any, xs: Any = None, length: Any = None, reverse: bool = False, unroll: Any = 1, **_: Any
) -> Any:
    """`nc.scan`."""
    return nc.scan(returning(f), arrays(init), arrays(xs), length=length, reverse=reverse)


def while_loop(cond_fun: Any, body_fun: Any, init_val: Any) -> Any:
    """`nc.while_loop`."""
    return nc.while_loop(returning(cond_fun), returning(body_fun), arrays(init_val))


def fori_loop(lower: Any, upper: Any, body_fun: Any, init_val: Any, **_: Any) -> Any:
    """`nc.fori_loop`; one of a known number of rounds is a scan, as in JAX."""
    if all(isinstance(n, int | np.integer) for n in (lower, upper)):
        step = lambda c, i: (arrays(body_fun(i, c)), None)  # noqa: E731
        return nc.scan(step, arrays(init_val), nc.arange(int(lower), max(int(lower), int(upper)), dtype=nc.int32))[0]
    return nc.fori_loop(array(lower), array(upper), returning(body_fun), arrays(init_val))


def switch(index: Any, branches: Any, *operands: Any, **named: Any) -> Any:
    """`nc.switch`."""
    given = (named["operand"],) if "operand" in named else operands
    return nc.switch(array(index), [returning(b) for b in branches], *arrays(given))


def dot_general(x: Any, y: Any, dimension_numbers: Any, **_: Any) -> Any:
    """A product over some axes, with others in common, by `nc.einsum`."""
    (cx, cy), (bx, by) = dimension_numbers
    x, y = of_one_kind([array(x), array(y)])
    left, right = list(range(x.ndim)), list(range(x.ndim, x.ndim + y.ndim))
    for i, j in [*zip(cx, cy, strict=True), *zip(bx, by, strict=True)]:
        right[j] = left[i]
    shared = [left[i] for i in bx]
    free = [k for k in left if k not in [left[i] for i in (*cx, *bx)]]
    free += [k for j, k in enumerate(right) if j not in (*cy, *by)]
    words = ["".join(chr(97 + k) for k in axes) for axes in (left, right, shared + free)]
    return nc.einsum(f"{words[0]},{words[1]}->{words[2]}", x, y)


def broadcast_in_dim(x: Any, shape: Any, axes: Any) -> Any:
    """A tensor whose axes become the named ones of a shape."""
    x, sizes = array(x), [1] * len(shape)
    for size, axis in zip(x.shape, axes, strict=True):
        sizes[axis] = size
    return nc.broadcast_to(nc.reshape(x, tuple(sizes)), tuple(shape))


def conv(x: Any, kernel: Any, window_strides: Any, padding: str, **_: Any) -> Any:
    """A convolution; SAME pads to sizes divided by the strides."""
    x, kernel = array(x), array(kernel)
    if padding == "SAME":
        sides = zip(x.shape[2:], kernel.shape[2:], window_strides, strict=True)
        missing = [max((-(-n // step) - 1) * step + width - n, 0) for n, width, step in sides]
        x = nc.pad(x, [(0, 0), (0, 0), *((n // 2, n - n // 2) for n in missing)])
    return getattr(nc.nn.functional, f"conv{x.ndim - 2}d")(x, kernel, stride=tuple(window_strides))


REDUCTIONS = {"add": nc.sum, "multiply": nc.prod, "maximum": nc.max, "minimum": nc.min}


def reduced(x: Any, _: Any, op: Any, axes: Any) -> Any:
    """A reduction by a function of two numbers whose neutral number is the initial one."""
    if op.__name__ not in REDUCTIONS:
        raise Missing(f"reduce({op.__name__})")
    return narrow(REDUCTIONS[op.__name__](array(x), axis=tuple(axes)))


def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> Any:
    """Keys in order, and their values."""
    keys, order = array(keys), nc.argsort(array(keys), axis=dimension, stable=is_stable)
    return tuple(nc.take_along_axis(x, order, axis=dimension) for x in (keys, array(values)))


def stop_gradient(tree: Any) -> Any:
    """A tree of tensors without derivatives."""
    leaves = nc.tree.leaves(tree := arrays(tree))
    if not all(isinstance(x, nc.Tensor) for x in leaves):
        raise TypeError(f"tensors are required; got {leaves}")
    return walked(lambda x: x.detach(), tree)


class Quiet(contextlib.ContextDecorator):
    """A context of no effect, also around functions and classes."""

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...
    def __call__(self, f: Any) -> Any:
        return f


def quiet(*_: Any, **__: Any) -> Quiet:
    """A decorator, or a context, that changes nothing."""
    return Quiet()


def drawn(key: Any, shape: Any = ()) -> Any:
    """Numbers in [-1, 1] that depend on a key, which is an integer tensor without axes."""
    n = int(np.prod(shape))
    return nc.reshape(nc.sin((array(key).astype(nc.float32) + nc.arange(n, dtype=nc.float32)) * 78.233), tuple(shape))


# ---- names of JAX


def whole(x: Any, dtype: Any = None) -> Any:
    """A tensor of numbers, or of nested lists of numbers and tensors."""
    if isinstance(x, list | tuple):
        x = nc.stack(of_one_kind([whole(v) for v in x])) if x else nc.zeros((0,))
    x = array(x)
    return x if dtype is None else narrow(x.astype(np.dtype(dtype)))


def cumulated(f: Any, x: Any, axis: int, reverse: bool) -> Any:
    """A cumulative function along an axis, perhaps from its end."""
    return narrow(nc.flip(f(nc.flip(x, axis=axis), axis=axis), axis=axis) if reverse else f(x, axis=axis))


RENAMED = {
    "convert_element_type": "astype",
    "neg": "negative",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "rem": "fmod",
    "max": "maximum",
    "min": "minimum",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "gt": "greater",
    "le": "less_equal",
    "ge": "greater_equal",
    "is_finite": "isfinite",
    "logistic": "sigmoid",
    "rev": "flip",
    "concatenate": "concat",
    "select": "where",
    "dynamic_slice": "dynamic_slice",
    "clamp": "clamp",
    "bitwise_not": "bitwise_invert",
    "integer_pow": "pow",
    "full_like": "full_like",
    "transpose": "permute_dims",
}
VMAP = {"vmap": batched, "jit": jit, "jvp": jvp, "vjp": vjp, "linearize": linearize}
TRANSFORMS = {
    **VMAP,
    **{name: transform(name, True) for name in ("grad", "value_and_grad", "jacrev")},
    **{name: transform(name) for name in ("jacfwd", "hessian")},
    "jacobian": transform("jacrev", True),
    "checkpoint": checkpoint,
    "remat": checkpoint,
    "custom_jvp": custom(nc.custom_jvp),
    "custom_vjp": custom(nc.custom_vjp),
    "Array": nc.Tensor,
    "named_call": lambda f, **_: f,
    "block_until_ready": lambda x: x,
    "device_put": lambda x, *_, **__: arrays(x),
    "float0": np.dtype([("float0", np.void)]),
    "default_matmul_precision": quiet,
    "checking_leaks": quiet,
    "numpy_dtype_promotion": quiet,
    "numpy_rank_promotion": quiet,
    "enable_checks": quiet,
    "legacy_prng_key": quiet,
    "closure_convert": lambda f, *_: (f, ()),
    "eval_shape": lambda f, *args: returning(f)(*arrays(args)),
}
FLOW = {
    "cond": cond,
    "scan": scan,
    "while_loop": while_loop,
    "fori_loop": fori_loop,
    "switch": switch,
    "map": lambda f, xs, batch_size=None: nc.map(returning(f), arrays(xs), batch_size=batch_size),
    "associative_scan": lambda fn, elems, reverse=False, axis=0: nc.associative_scan(
        returning(fn), arrays(elems), reverse=reverse, axis=axis
    ),
    "dot_general": dot_general,
    "broadcast_in_dim": broadcast_in_dim,
    "conv": conv,
    "reduce": reduced,
    "sort_key_val": sort_key_val,
    "split": lambda x, sizes, axis=0: nc.split(array(x), np.cumsum(sizes)[:-1].tolist(), axis=axis),
    "top_k": lambda x, k, axis=-1: tuple(map(narrow, nc.topk(array(x), k, axis=axis))),
    "pad": Absent("jax.lax.pad"),
    "erf_inv": lifted("erfinv", nc.special.erfinv),
    "bessel_i0e": lifted("i0e", nc.special.i0e),
    "bessel_i1e": lifted("i1e", nc.special.i1e),
    "stop_gradient": stop_gradient,
    "reduce_sum": lambda x, axes: array(x).sum(axis=tuple(axes)),
    "rev": lambda x, axes: nc.flip(array(x), axis=axes),
    "slice": lambda x, low, high, step=None: array(x)[tuple(map(slice, low, high, step or [1] * len(low)))],
    "select": lambda p, a, b: nc.where(*map(array, (p, a, b))),
    "concatenate": lambda xs, axis: nc.concat(arrays(list(xs)), axis=axis),
    "reshape": lambda x, shape, axes=None, **_: nc.reshape(
        array(x) if axes is None else nc.permute_dims(array(x), tuple(axes)), tuple(shape)
    ),
    "clamp": lambda low, x, high: nc.minimum(nc.maximum(array(x), array(low)), array(high)),
    "broadcast": lambda x, sizes: nc.broadcast_to(array(x), (*sizes, *array(x).shape)),
    "iota": lambda dtype, n: nc.arange(n, dtype=dtype),
    "rsqrt": lambda x: nc.rsqrt(array(x)),
    "argmax": lambda x, axis=0, *_, **__: narrow(nc.argmax(array(x), axis=axis)),
    "argmin": lambda x, axis=0, *_, **__: narrow(nc.argmin(array(x), axis=axis)),
    "sort": lambda x, dimension=-1, **_: nc.sort(array(x), axis=dimension),
    "cumsum": lambda x, axis=0, reverse=False: cumulated(nc.cumsum, array(x), axis, reverse),
    "cumprod": lambda x, axis=0, reverse=False: cumulated(nc.cumprod, array(x), axis, reverse),
}
NUMPY = {
    **{
        t: getattr(np, t)
        for t in [
            "float32",
            "float16",
            "float64",
            "int32",
            "int8",
            "int16",
            "int64",
            "uint8",
            "uint32",
            "complex64",
            "bool_",
        ]
    },
    **{
        "bfloat16": ml_dtypes.bfloat16,
        "pi": np.pi,
        "inf": np.inf,
        "nan": np.nan,
        "newaxis": None,
        "ndarray": nc.Tensor,
    },
    "array": lambda x, dtype=None, **_: whole(x, dtype),
    "asarray": lambda x, dtype=None, **_: whole(x, dtype),
    "vdot": lambda x, y: nc.vecdot(*(array(v).reshape(-1) for v in (x, y))),
    "ndim": lambda x: array(x).ndim,
    "shape": lambda x: array(x).shape,
    "size": lambda x: array(x).size,
    "transpose": lambda x, axes=None: nc.permute_dims(array(x), tuple(axes or range(array(x).ndim)[::-1])),
    "concatenate": lambda xs, axis=0: nc.concat(arrays(list(xs)), axis=axis),
    "arange": lambda *a, dtype=None: narrow(
        nc.arange(*(v if isinstance(v, int | float) else v.item() for v in a), dtype=dtype)
    ),
    "where": lambda p, a, b: nc.where(array(p), *of_one_kind([array(a), array(b)])),
    "result_type": np.result_type,
}
TREE = {
    "tree_map": nc.tree.map,
    "map": nc.tree.map,
    "tree_leaves": nc.tree.leaves,
    "leaves": nc.tree.leaves,
    "tree_structure": nc.tree.structure,
    "structure": nc.tree.structure,
    "tree_flatten": nc.tree.flatten,
    "flatten": nc.tree.flatten,
    "tree_unflatten": lambda form, xs: nc.tree.unflatten(form, list(xs)),
    "unflatten": lambda form, xs: nc.tree.unflatten(form, list(xs)),
    "Partial": functools.partial,
}
RANDOM = {
    **dict.fromkeys(("key", "PRNGKey"), lambda n: array(np.int32(n))),
    "split": lambda key, n=2: array(key) * 7 + nc.arange(1, n + 1, dtype=nc.int32),
    "normal": lambda key, shape=(), *_: drawn(key, shape),
    "bernoulli": lambda key, *_: drawn(key) > 0,
    "uniform": lambda key, shape=(), *_, **__: nc.abs(drawn(key, shape)),
}
UTIL = {
    "unzip2": lambda pairs: tuple(zip(*pairs, strict=True)) or ((), ()),
    "safe_map": lambda f, *xs: list(map(f, *xs)),
    "safe_zip": lambda *xs: list(zip(*xs, strict=True)),
    "partial": functools.partial,
    "split_list": lambda xs, ns: [xs[a:b] for a, b in itertools.pairwise([0, *itertools.accumulate(ns), len(xs)])],
}
