"""The boundary between a user's call and the package: it attributes errors and translates other libraries' keywords.

A public function is called directly.  Its arguments are checked only if it raises an error from outside Nacre.  A
keyword of another library (`dim` for `axis`) is translated if the meaning is the same; otherwise the error says what to
write.  The error for an argument of the wrong kind names the argument.  Other Python errors about the arguments become
argument errors.  Errors in a caller's own functions pass through unchanged.

Arguments of constructors, and of functions that are not called in loops, are always checked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper
from types import FunctionType, ModuleType
from typing import Any, Final, TypeGuard, cast

from nacre.base.arguments import Parameters, shown
from nacre.base.errors import ArgumentError, DTypeError, Error, KindError, OutOfMemory
from nacre.base.hints import closest, mark_methods, refusal, worded
from nacre.base.porting.advice import CPU, DEVICES
from nacre.base.porting.keywords import KEYWORDS
from nacre.base.porting.methods import OF_TWO

SPELLINGS: Final = {  # keywords of PyTorch; in `nn.functional`, which has those, also keywords of the array API
    "dim": ("axis", "axes"),
    "dims": ("axis", "axes", "dim", "repetitions"),
    "axis": ("dim",),
    "keepdim": ("keepdims",),
    "keepdims": ("keepdim",),
    "start_dim": ("start_axis",),
    "end_dim": ("end_axis",),
    "shifts": ("shift",),
    "diagonal": ("k",),
    "steps": ("num",),
    "end": ("stop",),
    "dim0": ("axis1",),
    "dim1": ("axis2",),
    "size": ("shape",),
    "newshape": ("shape",),
    "reps": ("repetitions",),
    "tensors": ("xs",),
    "arrays": ("xs",),
    "a_min": ("min",),
    "a_max": ("max",),
    "interpolation": ("method",),
}

OF_DIAGONALS: Final = {"dim1": "axis1", "dim2": "axis2"}  # PyTorch counts these axes from 1, those of `swapaxes` from 0

WITHOUT_EFFECT: Final = ("inplace",)  # keywords of PyTorch's neural network functions that do not change results

_PAIRS = (
    "PyTorch's returns values and positions, this one only values; write {name}(x, axis={axis}), and arg{name} for "
    "the positions"
)
_LOWER = (
    "PyTorch's gives the lower of two middle elements, and positions; write quantile(x, 0.5, axis={axis}, "
    'method="lower") for that element, or {name}(x, axis={axis})'
)
_SPREAD = "PyTorch divides by n - 1, this function by n; write {name}(x, axis={axis}, correction=1) for PyTorch's"
DIFFERENT: Final = {  # public functions that differ from PyTorch's of the same name, and what to write
    "max": _PAIRS,
    "min": _PAIRS,
    "sort": _PAIRS,
    "median": _LOWER,
    "nanmedian": _LOWER,
    "std": _SPREAD,
    "var": _SPREAD,
    "split": (
        "a number means sections in NumPy, their size in PyTorch; write split(x, sections=2, axis=0) for two, or "
        "split(x, range(k, x.shape[0], k), axis=0) for sections of size k"
    ),
    "repeat": (
        "NumPy repeats elements, PyTorch the tensor; write repeat(x, 2, axis=0) for elements, or tile(x, (2, 3)) "
        "for the tensor"
    ),
}

NUMBERS: Final = ("shape", "axes", "axis", "repetitions")  # parameters that take several numbers as one tuple
OF_ARGUMENTS: Final = (TypeError, ValueError, OverflowError, IndexError, AttributeError, RecursionError)
OURS: Final = ("nacre", "numpy")  # packages whose code is not the caller's
CALLING: Final = "nacre.interpret.host"  # the module that calls functions of the caller, also those of NumPy
TENSORS: Final = ("TensorLike", "TensorLike | None")
Function = Callable[..., Any]

_parameters: dict[Function, Parameters] = {}
_made: set[Function] = set()  # functions that this module wraps


def parameters(function: Function) -> Parameters:
    """The parameters of a function, cached."""
    found = _parameters.get(function)
    return found if found is not None else _parameters.setdefault(function, Parameters(function))


def public(function: Function, checked: bool = False) -> Function:
    """A public function or method; with `checked`, its arguments are checked after successful calls too."""
    operation = function.__name__

    def called(*args: Any, **kwargs: Any) -> Any:
        if checked and len(args) > 1:
            require_tuple(function, operation, args)
        try:
            result = function(*args, **kwargs)
        except DTypeError:
            require_tuple(function, operation, args)
            raise
        except Error:
            raise
        except Exception as fault:
            return _refused(function, operation, args, kwargs, fault)
        if checked:
            parameters(function).check(operation, args, kwargs)
        return result

    _made.add(called)
    return update_wrapper(called, function)


def _refused(
    function: Function, operation: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], fault: Exception
) -> Any:
    """The result of the call with translated keywords, or an error that describes the fault of the arguments."""
    held = parameters(function)
    if isinstance(fault, TypeError) and not _fits(held, args, kwargs):
        names = held.signature.parameters
        foreign = [name for name in kwargs if name not in names and (name in SPELLINGS or name in OF_DIAGONALS)]
        other = [name for name in foreign if name != "keepdim"]  # in functions that differ, it means the same
        if operation in DIFFERENT and (other or _bare(args)) and not ("correction" in kwargs and foreign):
            axis = next((kwargs[name] for name in foreign if name in ("dim", "dims")), args[-1] if _bare(args) else 0)
            advice = DIFFERENT[operation].format(name=operation, axis=axis)
            given = ", ".join(f"{name}={kwargs[name]!r}" for name in other) or f"{args[-1]!r} by position"
            raise KindError(f"{operation}: axis must be given by name; got {given}; {advice}") from None
        meant = {_spelt(name, names, operation): value for name, value in kwargs.items() if name not in WITHOUT_EFFECT}
        if len(meant) < len(kwargs) and function.__module__.startswith("nacre.nn.functional."):
            return public(function)(*args, **meant)
        if len(meant) == len(kwargs):
            placed, named = _placed(held, args, meant)
            if (foreign or len(named) < len(meant)) and _fits(held, placed, named):
                return public(function)(*placed, **named)
        require_tuple(function, operation, args, NUMBERS)
        _require_known(held, operation, kwargs)
        _require_named(held, operation, args)
        _require_once(held, operation, args, kwargs)
        _require_count(held, operation, args, kwargs)
        raise fault
    held.check(operation, args, kwargs)
    given = [*args, *kwargs.values()]
    if isinstance(fault, MemoryError) and _in_package(fault):
        raise OutOfMemory(
            f"{operation}: too little memory for the arguments; got {', '.join(map(shown, given))}; "
            f"use smaller sizes; Python says: {fault}"
        ) from fault
    if _of_arguments(fault):
        raise ArgumentError(
            f"{operation}: the arguments must fit each other; got {', '.join(map(shown, given))}; Python says: {fault}"
        ) from fault
    raise fault


def require_tuple(function: Function, operation: str, args: Sequence[Any], names: Sequence[str] = ("shape",)) -> None:
    """Raise for a shape's sizes as separate arguments, as in `zeros(2, 3)`; in `full`, the value follows them."""
    last = len(args) - (operation == "full")
    if last < 2 or type(args[last - 1]) is not int:
        return
    given = parameters(function).signature.parameters.values()
    listed = ["x" if p.name == "self" else p.name for p in given if p.kind is not p.VAR_POSITIONAL]
    for k, name in enumerate(listed[: last - 1]):
        if name in names and all(type(arg) is int for arg in args[k:last]):
            advice = "the numbers must be one argument; pass the numbers as a tuple"
            if name == "shape":
                advice = "the shape must be one argument; pass the shape as a tuple"
            path = "nacre.random." if function.__module__ in RANDOM_MODULES else "nacre."
            before, after = listed[:k], [str(arg) for arg in args[last:]]
            written = ", ".join([*before, str(tuple(args[k:last])), *after])
            others = f"; or write {listed[k + 1]}= by its name" if operation in ("normal", "uniform") else ""
            raise KindError(f"{operation}: {advice}: {path}{operation}({written}){others}")


def _require_known(held: Parameters, operation: str, kwargs: Mapping[str, Any]) -> None:
    """Raise for a keyword that a function lacks, with a suggestion."""
    names = held.signature.parameters
    if any(p.kind is p.VAR_KEYWORD for p in names.values()):
        return
    for name in kwargs:
        if name not in names:
            written = KEYWORDS.get(f"{operation}.{name}") or KEYWORDS.get(name, "")
            if name == "generator" and "seed" in names:
                written = "seed=0"
            keyword, equals, _ = written.partition("=")
            if equals and keyword.isidentifier() and keyword not in names:
                written = ""  # the advice is a keyword that this function lacks, too
            known = worded(written) or closest(name, names)
            taken = ", ".join(n for n in names if n != "self")
            raise KindError(f"{operation}: unexpected keyword {name!r}{known} (the parameters are {taken})")


def _require_named(held: Parameters, operation: str, args: Sequence[Any]) -> None:
    """Raise for too many positional arguments, if the function has keyword-only parameters."""
    listed = held.signature.parameters.values()
    named = [p.name for p in listed if p.kind is p.KEYWORD_ONLY]
    most = len(listed) - len(named)
    listed_names = ", ".join(p.name for p in listed if p.kind is not p.KEYWORD_ONLY and p.name != "self")
    if named and len(args) > most and not any(p.kind is p.VAR_POSITIONAL for p in listed):
        raise KindError(
            f"{operation}: names are required for what follows {listed_names}; got "
            f"{shown(args[most])} by position; write {', '.join(f'{name}=' for name in named)}"
        )


def _require_once(held: Parameters, operation: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise for an argument that is given by position and by name, as the dtype in `autocast("cuda", dtype=d)`."""
    places = [p for p in held.signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for parameter, given in zip(places, args, strict=False):
        name = parameter.name
        if name in kwargs and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            device = isinstance(given, str) and given.partition(":")[0] in DEVICES
            taken = ", ".join(p.name for p in places if p.name != "self")
            raise KindError(
                f"{operation}: {name} must be given once; got {shown(given)} by position and {name}="
                f"{shown(kwargs[name])}{worded(CPU) if device else ''} (the parameters are {taken})"
            )


def _require_count(held: Parameters, operation: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise for too many arguments, and for missing ones."""
    listed = [p for p in held.signature.parameters.values() if p.name != "self"]
    given = len(args) - ("self" in held.signature.parameters)
    places = [p for p in listed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    words = ", ".join(p.name for p in listed)
    if given > len(places) and not any(p.kind is p.VAR_POSITIONAL for p in listed):
        raise KindError(
            f"{operation}: at most {len(places)} arguments are taken; got {given}; the parameters are {words}"
        )
    lacking = [p.name for p in places[given:] if p.default is p.empty and p.name not in kwargs]
    if lacking:
        raise KindError(f"{operation}: {', '.join(lacking)} must be given; the parameters are {words}")


def _of_arguments(fault: Exception) -> bool:
    """Whether wrong arguments caused an error that arose in the package and not in the caller's code."""
    known = isinstance(fault, OF_ARGUMENTS) or type(fault).__module__.partition(".")[0] == "numpy"
    return known and _in_package(fault)


def _in_package(fault: Exception) -> bool:
    """Whether an error arose in the package and not in the caller's code."""
    at = fault.__traceback__
    while at is not None:
        name = at.tb_frame.f_globals.get("__name__", "")
        if name == CALLING or name.partition(".")[0] not in OURS:
            return False
        at = at.tb_next
    return True


def _fits(held: Parameters, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a signature accepts this number of arguments and these names."""
    try:
        held.signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _placed(
    held: Parameters, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with keywords of positional-only parameters moved to their positions."""
    placed, named = list(args), dict(kwargs)
    only = [p.name for p in held.signature.parameters.values() if p.kind is p.POSITIONAL_ONLY]
    for name in only[len(args) :]:
        if name not in named:
            break
        placed.append(named.pop(name))
    return tuple(placed), named


def _bare(args: tuple[Any, ...]) -> bool:
    return len(args) > 1 and isinstance(args[-1], int | tuple)


def _spelt(name: str, names: Mapping[str, Any], operation: str) -> str:
    """A keyword translated to the function's own name for it."""
    if operation in ("diagonal", "trace") and name in OF_DIAGONALS:
        return OF_DIAGONALS[name]
    return next((other for other in SPELLINGS.get(name, ()) if other in names), name) if name not in names else name


def _constructor(function: Function) -> Function:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        parameters(function).limit(name, (self, *args), kwargs)
        try:
            function(self, *args, **kwargs)
        except Error as fault:
            if not str(fault).startswith(f"{name}:"):  # of a function that the constructor calls
                parameters(function).check(name, (self, *args), kwargs)
            raise
        except Exception as fault:
            _refused(function, name, (self, *args), kwargs, fault)
        parameters(function).check(name, (self, *args), kwargs)

    _made.add(__init__)
    return update_wrapper(__init__, function)


def undecorated(function: Any) -> FunctionType:
    """The function that its decorators call."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def _speaks(function: object) -> TypeGuard[FunctionType]:
    """Whether this is an unwrapped function that takes more than tensors; tensors are checked by the operations."""
    if not isinstance(function, FunctionType) or function in _made:
        return False
    own = undecorated(function)
    if own.__defaults__ and own.__code__.co_posonlyargcount < own.__code__.co_argcount:
        return True  # a caller may use another library's keywords
    if function.__name__ in WIDER or _is_activation(function):
        return True
    return any(a not in TENSORS for name, a in function.__annotations__.items() if name != "return")


def _is_static(held: object) -> bool:
    return isinstance(held, staticmethod | classmethod)


def public_class(cls: type) -> None:
    """Make a class check the arguments of its constructor, and errors of its methods name wrong arguments."""
    for base in cls.__mro__:
        made: object = base.__init__ if "__init__" in vars(base) else None  # compiles one of `base/records`
        if base.__module__.startswith("nacre.") and _speaks(made):
            type.__setattr__(base, "__init__", _constructor(made))
        if base.__module__.startswith("nacre."):
            _publish_methods(base)


def _publish_methods(cls: type) -> None:
    for name, held in list(vars(cls).items()):
        if name.startswith("_") or name == "forward":
            continue
        if _is_static(held):
            if _speaks(held.__func__):
                type.__setattr__(cls, name, type(held)(public(held.__func__)))
        elif _speaks(held):
            type.__setattr__(cls, name, public(held))


def _is_activation(function: FunctionType) -> bool:
    """Whether a function of `nn.functional` takes one tensor; in PyTorch it may have the keyword `inplace`."""
    return function.__module__.startswith("nacre.nn.functional.") and function.__code__.co_argcount == 1


WIDER: Final = ("round",)  # functions of tensors only that have other parameters in other libraries
UNCHECKED: Final = ("nacre.api.", "nacre.nn.functional.")  # called in loops; arguments are checked after a failure
OF_ELEMENTS: Final = "nacre.api.elementwise."
RANDOM_MODULES: Final = tuple(f"nacre.api.draws.{name}" for name in ("continuous", "discrete", "keys"))
CHECKED: Final = (*RANDOM_MODULES, "nacre.api.settings")


def publish(home: ModuleType, name: str) -> Any:
    """Wrap a public name of a module for users, and store it in the module."""
    held: object = getattr(home, name)
    if home.__name__.startswith(OF_ELEMENTS) and name in OF_TWO.split():
        mark_methods(held)
    if _speaks(held):
        module = home.__name__
        made = public(held, module in CHECKED or not module.startswith(UNCHECKED))
        setattr(home, name, made)
        return made
    if isinstance(held, type) and not issubclass(held, BaseException):
        public_class(cast("type[Any]", held))
    return cast("object", held)


def publish_all(package: str, names: Sequence[str] | None = None) -> None:
    """Publish the names that a package imports from other modules; without `names`, those that the module defines."""
    here = sys.modules[package]
    vars(here).setdefault("__getattr__", refusal(package.replace("nacre.api.", "nacre.")))
    if names is None:
        names = [n for n, held in vars(here).items() if n[0] != "_" and getattr(held, "__module__", "") == package]
    for name in names:
        home = sys.modules.get(getattr(getattr(here, name), "__module__", package), here)
        setattr(here, name, publish(home, name))
