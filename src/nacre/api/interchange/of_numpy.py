"""NumPy's functions called with tensors: Nacre's functions of the same meaning, or an error that says what to write."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final, cast

import numpy as np

from nacre.api.interchange.numpy_composed import COMPOSED
from nacre.api.interchange.numpy_table import (
    ACCUMULATION,
    ACCUMULATIONS,
    FUNCTIONS_OF_NUMPY,
    REDUCTION,
    REDUCTIONS,
    UFUNC_SETTINGS,
    UFUNCS,
    Counterpart,
    SettingParameter,
    counterpart,
)
from nacre.api.operands import numbers
from nacre.base.arguments import shown
from nacre.base.errors import DTypeError, GradientError, KindError, ShapeError, StateError, TraceError
from nacre.base.hints import advice, method_of_ufunc, worded
from nacre.base.state import STATE
from nacre.trace.value import Value, is_concrete
from nacre.trace.variable import Variable

NO_NUMBERS: Final = ("shape", "ndim", "size", "result_type", "shares_memory", "may_share_memory")
IN_NUMPY: Final = (  # functions that compare or print arrays, or that write into one or into a file
    "array_equal", "array_equiv", "allclose", "isclose", "array_repr", "array_str", "array2string", "save", "savez",
    "savez_compressed", "savetxt", "copyto", "put", "putmask", "place", "put_along_axis",
)  # fmt: skip
MATRIX_AXES: Final = ([(-2, -1)] * 3, [(-1,), (-2, -1), (-1,)])  # those that `a @= x` names, its usual ones
NO_VALUE: Final[Any] = getattr(np, "_NoValue", None)
REMEDIES: Final = {  # what to write in place of a setting, by Nacre's function
    "initial": {
        "sum": "nacre.sum(x) + value",
        "prod": "nacre.prod(x) * value",
        "max": "nacre.maximum(nacre.max(x), value)",
        "min": "nacre.minimum(nacre.min(x), value)",
    },
    "where": {
        "sum": "nacre.sum(nacre.where(mask, x, 0))",
        "prod": "nacre.prod(nacre.where(mask, x, 1))",
        "max": "nacre.max(nacre.where(mask, x, -nacre.inf)) for floats",
        "min": "nacre.min(nacre.where(mask, x, nacre.inf)) for floats",
        "all": "nacre.all(nacre.where(mask, x, True))",
        "any": "nacre.any(nacre.where(mask, x, False))",
        "mean": "nacre.mean(x[mask])",
        "std": "nacre.std(x[mask])",
        "var": "nacre.var(x[mask])",
    },
    "returned": {"average": "nacre.sum(weights) beside the average"},
    "compute_uv": {"linalg.svd": "nacre.linalg.svdvals(x)"},
}
INSTEAD: Final = {  # what to write in place of a function without a counterpart
    "lib.stride_tricks.sliding_window_view": "nacre.sliding_window_view(x, n)",
}
ASSIGNED: Final = {  # what to write in place of a function that writes into its first argument
    "copyto": "x[...] = v",
    "put": "nacre.index_update(x.flatten(), i, v).reshape(x.shape)",
    "putmask": "x = nacre.where(mask, v, x)",
    "place": "x[mask] = v",
    "put_along_axis": "x = nacre.scatter(x, axis, i, v)",
}
SETTINGS_OF_UFUNCS: Final = counterpart("", UFUNC_SETTINGS)


def of_ufunc(ufunc: Any, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of one of NumPy's elementwise functions of a tensor, or of its method, by Nacre's function.

    With an array as `out`, which `array += x` has too, the numbers are written there.
    """
    name: str = ufunc.__name__
    settings = {key: _numpys_dtype(x) for key, x in kwargs.items()}
    out = settings.pop("out", None)
    if ufunc is np.matmul and settings.get("axes") in MATRIX_AXES:
        del settings["axes"]
    if getattr(np, name, None) is not ufunc and ufunc not in UFUNCS:  # of another library, which gives arrays
        return _computed(getattr(ufunc, method), name, inputs, kwargs)
    if method == "__call__" and ufunc in UFUNCS:
        made = _function(UFUNCS[ufunc], name)(*inputs, **_named(name, SETTINGS_OF_UFUNCS, (), settings))
    elif method == "__call__" and ufunc in COMPOSED:
        made = COMPOSED[ufunc](*inputs, **_named(name, SETTINGS_OF_UFUNCS, (), settings))
    elif method == "reduce" and name in REDUCTIONS:
        settings.setdefault("axis", 0)
        made = _called(name, counterpart(REDUCTIONS[name], REDUCTION), inputs, settings)
    elif method == "accumulate" and name in ACCUMULATIONS:
        settings.setdefault("axis", 0)
        made = _called(name, counterpart(ACCUMULATIONS[name], ACCUMULATION), inputs, settings)
    else:
        raise _without_counterpart(name if method == "__call__" else f"{name}.{method}", name)
    return made if out is None else _write(name, made, out)


def of_function(function: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of another one of NumPy's functions of a tensor, by Nacre's function."""
    args, kwargs = [_numpys_dtype(x) for x in args], {key: _numpys_dtype(x) for key, x in kwargs.items()}
    if not all(issubclass(kind, np.ndarray | Value | Variable) for kind in types):
        return NotImplemented
    name: str = function.__name__
    if name in NO_NUMBERS:
        return function._implementation(*args, **kwargs)
    if name in ASSIGNED and args and isinstance(args[0], Value | Variable):
        raise StateError(
            f"{name}: the first argument must be an array of NumPy, which the function writes to; got "
            f"{shown(args[0])}; write {ASSIGNED[name]}"
        )
    if name in IN_NUMPY:
        return _computed(function, name, args, kwargs)
    if function in COMPOSED:
        return COMPOSED[function](*args, **kwargs)
    found = FUNCTIONS_OF_NUMPY.get(function)
    if found is None:
        raise _without_counterpart(f"{function.__module__.removeprefix('numpy').lstrip('.')}.{name}".lstrip("."), name)
    return _called(name, found, args, kwargs)


def _numpys_dtype(x: Any) -> Any:
    """An argument; of Python's types, the dtype that NumPy means by it, which is wider than Nacre's."""
    return np.float64 if x is float else np.complex128 if x is complex else x


def _function(ours: str, name: str) -> Callable[..., Any]:
    found: Any = sys.modules["nacre"]
    for part in ours.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise _without_counterpart(name, name)
    return found


def _called(name: str, of: Counterpart, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Nacre's function with the arguments of NumPy's."""
    function = _function(of.name, name)
    if of.passes_places:
        return function(*args, **_named(name, of, (), kwargs))
    leading = [p for p in of.parameters if p.by_place]
    given = dict(kwargs)
    places = [*args[: len(leading)], *(given.pop(p.name) for p in leading[len(args) :] if p.name in given)]
    named = _named(name, of, args[len(leading) :], given)
    if of.name == "permute_dims" and named.get("axes") is None:
        named["axes"] = tuple(reversed(range(np.ndim(places[0]))))
    return function(*places, **named)


def _named(name: str, of: Counterpart, rest: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of Nacre's function; raises KindError for those that have another meaning or none."""
    free = [p for p in of.parameters if not p.by_place]
    if len(rest) > len(free):
        raise KindError(
            f"{name}: there must be at most {len(of.parameters)} arguments; got {len(rest)} more; leave out"
        )
    known = {p.name: p for p in free}
    given = {**{p.name: value for p, value in zip(free, rest, strict=False)}, **kwargs}
    named: dict[str, Any] = {}
    for key, value in given.items():
        parameter = known.get(key)
        if value is NO_VALUE:
            continue
        if parameter is None or (parameter.refused and not _is_allowed(value, parameter)):
            raise KindError(
                f"{name}: {key}= must be left out, because nacre.{of.name or name} has no such setting; got "
                f"{shown(value)}; {_instead(key, of.name or name)}"
            )
        if not parameter.refused:
            named[parameter.meant] = value
    return named


def _is_allowed(value: object, parameter: SettingParameter) -> bool:
    return value is None or (isinstance(value, str | int) and str(value) == parameter.allowed)


def _instead(key: str, ours: str) -> str:
    """What to write in place of a setting."""
    if key == "out":
        return f"write x = nacre.{ours}(x)"
    if (found := REMEDIES.get(key)) is not None and (told := found.get(ours)) is not None:
        return f"write {told}"
    if key == "where" and ours in UFUNCS.values():
        return f"write nacre.where(mask, y, z), with y of nacre.{ours} and z elsewhere"
    if key == "dtype":
        return f"write nacre.{ours}(x).astype(dtype), or x.astype(dtype) first"
    return "pass x.numpy() for NumPy's result"


def _without_counterpart(written: str, name: str) -> KindError:
    ufunc, _, method = written.partition(".")
    known = INSTEAD.get(written) or method_of_ufunc(UFUNCS.get(getattr(np, ufunc, None), ""), method)
    told = worded(known) or (advice("nacre", name) if "." not in written else "")
    place, _, short = written.partition(".")
    room = getattr(sys.modules["nacre"], place, None) if short else None
    if isinstance(room, ModuleType) and hasattr(room, short):
        told = f"; write nacre.{written}(x)"
    return KindError(
        f"{name}: NumPy's function must have a counterpart in Nacre; got a tensor for numpy.{written}"
        f"{told or f'; pass x.numpy() to numpy.{written}, or x.detach().numpy(), for an array'}"
    )


def _write(name: str, made: Any, out: Any) -> Any:
    """Write a result into NumPy's arrays, as `array += x` does; raises StateError for a tensor, which does not change.

    The array's dtype must hold the result, as for NumPy's functions.
    """
    given: Any = cast("tuple[Any, ...]", out)[0] if isinstance(out, tuple) else out
    if not isinstance(given, np.ndarray):
        raise StateError(
            f"{name}: out= must be an array of NumPy; got {shown(given)}, which cannot be written to; write "
            f"x = nacre.{UFUNCS.get(getattr(np, name), name)}(x)"
        )
    place = cast("np.ndarray[Any, Any]", given)
    source = numbers(_known(name, made), "numpy")
    try:
        np.copyto(place, source, casting="same_kind")
    except TypeError:
        raise DTypeError(
            f"{name}: the array must have a dtype that holds the result; got {place.dtype} for {made.type}; write "
            f"a = a.astype(...) first, or make a tensor of the result"
        ) from None
    except ValueError as fault:
        raise ShapeError(
            f"{name}: the array must have the shape of the result; got {place.shape} for {made.type} ({fault}); "
            "write a = nacre.asarray(a) first"
        ) from None
    return place


def _computed(function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of a function of arrays, with arrays in place of tensors."""

    def array(x: Any) -> Any:
        """An argument with arrays in place of tensors."""
        if type(x) in (tuple, list):
            made = [array(item) for item in x]
            return made if type(x) is list else tuple(made)
        x = x.value if isinstance(x, Variable) else x
        return numbers(_known(name, x), "numpy") if isinstance(x, Value) else x

    return function(*map(array, args), **{key: array(x) for key, x in kwargs.items()})


def _known(name: str, x: Value) -> Value:
    """A tensor whose numbers an array may have; raises an error for others."""
    told = f"; write nacre.{name}(x)" if hasattr(sys.modules["nacre"], name) else advice("nacre", name)
    if not is_concrete(x):
        raise TraceError(f"{name}: NumPy's function needs known numbers; got a traced tensor of type {x.type}{told}")
    if x.node is not None and STATE.gradients and (name not in IN_NUMPY or name in ASSIGNED):
        raise GradientError(
            f"{name}: NumPy's function records no gradient; got a tensor that requires one{told}, or pass "
            "x.detach().numpy() where no gradient is needed"
        )
    return x
