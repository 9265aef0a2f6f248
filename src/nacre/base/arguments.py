"""Checks of a public function's arguments, derived from its annotations and parameter names.

An annotation gives the valid kinds of values (`int | None`, `Sequence[int]`, `Module`).  A parameter name with a fixed
meaning (`kernel_size`, `lr`) also gives their range.  `check` raises an error for a value of another kind or outside
its range.  An annotation that is not in the table accepts any value.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from numbers import Integral, Real
from operator import index
from typing import Any, Final, cast

from nacre.base.conversion import NO_NUMBERS
from nacre.base.dims import Dim
from nacre.base.dtypes import ORDERED, DType
from nacre.base.errors import ArgumentError, KindError
from nacre.base.records import dataclass

Test = Callable[[Any], bool]
BYTES_SHOWN: Final = 60
MOST: Final = 1 << 24  # maximum length of a list of numbers
PLAIN: Final[frozenset[type]] = frozenset((int,))
FEW: Final = 1024  # maximum number of sizes, axes and similar arguments


@dataclass(frozen=True)
class ArgumentKind:
    """A kind of valid values: a description and a test."""

    words: str
    holds: Test


def is_whole(value: object) -> bool:
    """Whether a value is an integer or a symbolic size; True and False are not.

    >>> is_whole(3), is_whole(True), is_whole(1.0)
    (True, False, False)
    """
    if isinstance(value, bool):
        return False
    if isinstance(value, Integral | Dim):
        return True
    if isinstance(value, Real) or not hasattr(type(value), "__index__"):
        return False
    try:
        return index(value) is not None  # type: ignore[arg-type]  # integer tensors of shape []
    except TypeError:
        return False


def is_number(value: object) -> bool:
    """Whether a value is a real number, a symbolic size, or an array or tensor of shape []."""
    if isinstance(value, Real | Dim):
        return True
    if not hasattr(type(value), "__float__") or getattr(value, "shape", None) != ():
        return False
    dtype: Any = getattr(value, "dtype", None)
    if isinstance(dtype, DType):
        return dtype in ORDERED
    scalar = getattr(dtype, "type", None)  # NumPy's type of an element
    return not (isinstance(scalar, type) and issubclass(scalar, NO_NUMBERS))


def is_flag(value: object) -> bool:
    """Whether a value is True or False, of Python or NumPy, or 0 or 1."""
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_") or (is_whole(value) and value in (0, 1))


def require_flag(value: object, operation: str) -> None:
    """Raise KindError unless a value is True or False."""
    if not is_flag(value):
        raise KindError(f"{operation}: the value must be True or False; got {shown(value)}")


def require_device(device: object, operation: str) -> None:
    """Raise ArgumentError for a device other than None and "cpu", the only one.

    >>> require_device("cpu", "zeros")
    """
    if device is not None and device != "cpu":
        raise ArgumentError(f'{operation}: device must be "cpu" or None; got {shown(device)}; leave it out')


def few(values: Iterable[Any], operation: str) -> tuple[Any, ...]:
    """Sizes or axes as a tuple; raises KindError for too many, before all of them are read.

    >>> few(iter([3, 4]), "zeros")
    (3, 4)
    """
    held: Any = values
    if type(held) is tuple and len(cast("tuple[Any, ...]", held)) <= FEW:
        return cast("tuple[Any, ...]", held)
    listed = tuple(islice(values, FEW + 1))
    if len(listed) > FEW:
        raise KindError(f"{operation}: at most {FEW} numbers are allowed; got {shown(values)}; write a tuple")
    return listed


def whole_number(value: object, operation: str, what: str) -> int:
    """One whole number; a symbolic size is returned unchanged.  Raises KindError for other values.

    >>> whole_number(3, "linspace", "num")
    3
    """
    if type(value) is not int and not is_whole(value):
        raise KindError(f"{operation}: {what} must be an integer; got {shown(value)}; write int(n)")
    return cast("int", value) if isinstance(value, Dim) else int(index(cast("Any", value)))


def plain_number(value: object, operation: str, what: str) -> float:
    """A real number of Python or NumPy, or of a tensor of shape [].  Raises KindError for other values.

    >>> plain_number(0.5, "dropout", "p")
    0.5
    """
    if type(value) is float or type(value) is int:
        return value
    if isinstance(value, Dim) or not is_number(value):
        raise KindError(f"{operation}: {what} must be a number; got {shown(value)}; write float(x)")
    return float(cast("Any", value))


def whole_numbers(value: object, operation: str, what: str, count: int | None = None) -> tuple[int, ...]:
    """One or several whole numbers as a tuple; with a `count`, one number stands for all.

    Symbolic sizes are returned unchanged.  Raises KindError for other values, ArgumentError for a wrong number of them.

    >>> whole_numbers(3, "max_pool2d", "stride", 2), whole_numbers([1, 2], "roll", "shift")
    ((3, 3), (1, 2))
    """
    held: Any = value
    if count is None and type(held) is tuple and PLAIN.issuperset(map(type, cast("tuple[Any, ...]", held))):
        return few(cast("tuple[int, ...]", held), operation)
    held = cast("Any", value)
    listed: tuple[Any, ...] = (held,)
    if type(held) is not int and not is_whole(held) and not isinstance(held, str | bytes) and _is_iterable(held):
        listed = few(held, operation) if count is None else tuple(islice(held, count + 1))
    for v in listed:
        if type(v) is not int and not is_whole(v):
            raise KindError(f"{operation}: {what} must be integers; got {shown(v)}; write int(n)")
    found: tuple[Any, ...] = tuple(v if type(v) is int or isinstance(v, Dim) else int(index(v)) for v in listed)
    if count is None:
        return found
    if len(found) == 1:
        return found * count
    if len(found) != count:
        most = "one number" if count == 1 else f"one number or {count} numbers"
        held = f"{len(found)} numbers" if len(found) <= count or hasattr(value, "__len__") else "more"
        raise ArgumentError(f"{operation}: {what} must be {most}; got {held}: {shown(value)}")
    return found


def _several(test: Test, most: int = MOST) -> Test:
    def holds(value: Any) -> bool:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return False
        try:
            if not hasattr(cast("object", value), "__len__"):
                return True
            listed = cast("Sequence[Any]", value)
            return len(listed) <= most and all(map(test, islice(listed, most)))
        except (TypeError, OverflowError, ValueError):  # an array of shape [], an invalid length
            return False

    return holds


def _one_or_several(test: Test, most: int = MOST) -> Test:
    several = _several(test, most)
    return lambda value: test(value) or several(value)


def _is_path(value: object) -> bool:
    return isinstance(value, str) or hasattr(type(value), "__fspath__")


def _is_iterable(value: object) -> bool:
    return hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__")


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping) or hasattr(type(value), "keys")


_NUMBERS: Final = ArgumentKind("an integer or several", _one_or_several(is_whole, FEW))
_KINDS: Final = {
    "None": ArgumentKind("None", lambda value: value is None),
    "int": ArgumentKind("an integer", is_whole),
    "Size": ArgumentKind("an integer", is_whole),
    "float": ArgumentKind("a number", is_number),
    "Scalar": ArgumentKind("a number", is_number),
    "bool": ArgumentKind("True or False", is_flag),
    "str": ArgumentKind("a string", lambda value: isinstance(value, str)),
    "os.PathLike[str]": ArgumentKind("a path", _is_path),
    "Sizes": _NUMBERS,
    "Pair": _NUMBERS,
    "Sequence[int]": ArgumentKind("integers", _several(is_whole)),
    "Sequence[Size]": ArgumentKind("integers", _several(is_whole)),
    "tuple[int, ...]": ArgumentKind("integers", _several(is_whole)),
    "Sequence[float]": ArgumentKind("numbers", _several(is_number)),
    "tuple[float, float]": ArgumentKind("two numbers", lambda v: _several(is_number)(v) and len(v) == 2),
    "PerGroup": ArgumentKind("a number, or one for each group", _one_or_several(is_number)),
    "Axes": ArgumentKind("an integer, several, or None", lambda v: v is None or _one_or_several(is_whole, FEW)(v)),
    "DynamicShapes": ArgumentKind("a mapping", _is_mapping),
    "Function": ArgumentKind("a function", callable),
}
_FAMILIES: Final = {  # by the word before the bracket
    "Callable": ArgumentKind("a function", callable),
    "Mapping": ArgumentKind("a mapping", _is_mapping),
    "dict": ArgumentKind("a dict", _is_mapping),
    "Sequence": ArgumentKind("a sequence", _is_iterable),
    "Iterable": ArgumentKind("an iterable", _is_iterable),
}
_BOUNDS: Final = {"_Filled": "Variable"}  # the bounds of type variables
_CLASSES: Final = (
    "PackedSequence", "Value", "Tensor", "Module", "Variable", "Parameter", "Optimizer", "Schedule", "Dim"
)  # fmt: skip

WORDS_OF_RANGE: Final[dict[str, ArgumentKind]] = {
    "layers": ArgumentKind("between 1 and 4096", lambda v: 1 <= v <= 4096),
    "positive": ArgumentKind("at least 1", lambda v: v >= 1),
    "natural": ArgumentKind("at least 0", lambda v: v >= 0),
    "fraction": ArgumentKind("in [0, 1)", lambda v: 0 <= v < 1),
    "chance": ArgumentKind("in [0, 1]", lambda v: 0 <= v <= 1),
    "finite": ArgumentKind("finite", math.isfinite),
    "unsigned": ArgumentKind("at least 0", lambda v: v >= 0),
    "rate": ArgumentKind("finite and at least 0", lambda v: math.isfinite(v) and v >= 0),
}
_RANGES: Final = {
    name: WORDS_OF_RANGE[word]
    for word, names in {
        "layers": "num_layers num_encoder_layers num_decoder_layers",
        "positive": "kernel_size stride dilation groups num_heads nhead num_groups upscale_factor "
        "downscale_factor batch_size step_size T_0 T_mult num_replicas history_size max_iter "
        "d_model embed_dim n_classes prefetch_factor accumulate hidden_size",
        "natural": "in_features out_features in1_features in2_features in_channels out_channels num_embeddings "
        "embedding_dim num_features normalized_shape num_channels input_size num_parameters "
        "output_padding dim_feedforward kdim vdim proj_size num_workers cooldown total_iters "
        "output_size num_samples buffer_size size repeats count length",
        "rate": "lr weight_decay eps lr_decay clip_norm clip_value initial_accumulator_value "
        "tolerance_grad tolerance_change eta_min layer_norm_eps base_lr max_lr min_lr std",
        "unsigned": "max_norm",
        "finite": "mean low high gain",
        "chance": "label_smoothing dropout dropout_p sparsity pct_start",
        "fraction": "betas",
    }.items()
    for name in names.split()
}


def _atoms(annotation: str) -> list[str]:
    """The members of a union annotation, such as `int` and `None` of `int | None`."""
    parts: list[str] = []
    depth, start = 0, 0
    for k, letter in enumerate(annotation):
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and depth == 0:
            parts.append(annotation[start:k])
            start = k + 1
    return [part.strip() for part in (*parts, annotation[start:])]


def _of_class(name: str) -> ArgumentKind:
    return ArgumentKind(f"a {name}", lambda value: any(base.__name__ == name for base in type(value).__mro__))


_known: dict[str, ArgumentKind | None] = {}


def kind_of(annotation: str) -> ArgumentKind | None:
    """The kind that an annotation describes, or None if it accepts any value.

    >>> kind_of("int | None").words
    'an integer or None'
    """
    if annotation in _known:
        return _known[annotation]
    found: list[ArgumentKind] = []
    for atom in _atoms(annotation):
        atom = _BOUNDS.get(atom, atom)
        kind = _KINDS.get(atom) or _FAMILIES.get(atom.partition("[")[0])
        kind = _of_class(atom) if kind is None and atom in _CLASSES else kind
        if kind is None:
            _known[annotation] = None
            return None
        found.append(kind)
    made = (
        found[0]
        if len(found) == 1
        else ArgumentKind(
            " or ".join(kind.words for kind in found), lambda value: any(kind.holds(value) for kind in found)
        )
    )
    return _known.setdefault(annotation, made)


def shown(value: object) -> str:
    """A value as text for an error message: short; an array is shown by its shape."""
    if hasattr(value, "shape") and not isinstance(value, type):
        return f"{type(value).__name__} of shape {getattr(value, 'shape', None)!s}"
    try:
        text = repr(value)
    except Exception:  # an error in a user's `__repr__`
        text = f"an object of {type(value).__name__}"
    return text if len(text) <= BYTES_SHOWN else f"{text[:BYTES_SHOWN]}…"


@dataclass(frozen=True)
class ParameterRule:
    """A parameter with its kind and range."""

    name: str
    kind: ArgumentKind | None
    range: ArgumentKind | None
    several: bool  # *args


class Parameters:
    """The parameters of a function, with the kinds and ranges that annotations and names give."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = inspect.signature(function)
        self.listed = [
            ParameterRule(p.name, kind_of(str(p.annotation)), _range_of(p), p.kind is p.VAR_POSITIONAL)
            for p in self.signature.parameters.values()
            if p.kind is not p.VAR_KEYWORD and p.annotation is not p.empty
        ]

    def limit(self, operation: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise for too many layers, the only range that is checked before a call."""
        if any(parameter.range is WORDS_OF_RANGE["layers"] for parameter in self.listed):
            self.check(operation, args, kwargs)

    def check(self, operation: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise for the first argument of another kind (KindError) or out of range (ArgumentError)."""
        try:
            given = self.signature.bind(*args, **kwargs).arguments
        except TypeError:
            return  # Python raises the error at the call
        for parameter in self.listed:
            if parameter.name in given:
                held = given[parameter.name]
                for value in held if parameter.several else (held,):
                    _check(operation, parameter, value)


def _range_of(parameter: inspect.Parameter) -> ArgumentKind | None:
    """The range that a parameter's name implies."""
    kind = kind_of(str(parameter.annotation))
    return _RANGES.get(parameter.name) if kind is not None else None


def _check(operation: str, parameter: ParameterRule, value: Any) -> None:
    if parameter.kind is not None and not parameter.kind.holds(value):
        raise KindError(f"{operation}: {parameter.name} must be {parameter.kind.words}; got {shown(value)}")
    if parameter.range is None or value is None or isinstance(value, str | Dim):
        return
    held: Any = value
    numbers: Sequence[Any] = held if isinstance(value, Sequence) else (held,)
    for number in numbers:
        if isinstance(number, Real) and not parameter.range.holds(number):
            raise ArgumentError(f"{operation}: {parameter.name} must be {parameter.range.words}; got {shown(held)}")
