"""Public functions that are one operation: on tensors, a function with its settings has one native target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, Final, NamedTuple, TypeVar, cast

from nacre.api.elementwise.apply import PLAIN, is_plain_setting
from nacre.api.tensor import Tensor
from nacre.base.boundary import undecorated
from nacre.compile.program.executor import OPERATIONS
from nacre.trace.bind import NATIVE

F = TypeVar("F", bound=Callable[..., Any])
MOST: Final = 1024  # combinations of types that are remembered
JOINED: Final = 8  # most tensors in a sequence whose function is one operation
SEQUENCES: Final = frozenset((list, tuple))
INTEGRAL: Final = frozenset((int, type(None)))  # the parts of slices
ELSEWHERE: Final = object()

_target = NATIVE.get  # of an operation by its function, types and settings


def one_program(operands: int | None = 1, often: bool = False) -> Callable[[F], F]:
    """A decorator of a function of tensors and settings with one result, which is one operation on tensors.

    The first `operands` arguments are its tensors; with None, the first is a sequence of them.  Calls with other
    operands, and with settings that are not plain, run the function itself.  So do calls with `often` until the same
    settings have come several times: they have many values, or the result may be a view.
    """

    def decorated(function: F) -> F:
        """The function with targets."""
        alone = operands == 1 and has_one_parameter(function)
        made = _of_sequence if operands is None else _alone if alone else _of_one if operands == 1 else _of_several
        return cast("F", wraps(function)(made(_Operation(function, operands or 1, often))))

    return decorated


class _Operation(NamedTuple):
    """A function of tensors, how many it has, and whether only settings that come often have a target."""

    function: Callable[..., Any]
    operands: int
    often: bool

    def first(self, key: tuple[Any, ...], given: tuple[Any, ...], settings: Mapping[str, Any]) -> Any:
        """Answer a call for which there is no target, and make the target."""
        function, more = self.function, given[self.operands :]

        def of_tensors(*xs: Any) -> Any:
            """The function with these settings."""
            return function(*xs, *more, **settings)

        return self.answer(key, of_tensors, given[: self.operands])

    def answer(self, key: tuple[Any, ...], of_tensors: Callable[..., Any], tensors: tuple[Any, ...]) -> Any:
        """The result of a function of tensors alone, whose target is made."""
        if self.often:
            return OPERATIONS.first_often(key, of_tensors, tensors)
        if len(key) == len(tensors) + 1:
            return OPERATIONS.first_function(key, of_tensors, tensors)
        return OPERATIONS.first_setting(key, key[:-1], of_tensors, tensors)


def has_one_parameter(function: Callable[..., Any]) -> bool:
    """Whether a function takes one argument alone."""
    code = undecorated(function).__code__
    return code.co_argcount == 1 and not code.co_kwonlyargcount


def _alone(operation: _Operation) -> Callable[..., Any]:
    function = operation.function

    def called(x: Any, /) -> Any:
        """The function of one tensor, without settings."""
        if type(x) is not Tensor:
            return function(x)
        native = _target((function, x.type))
        return operation.answer((function, x.type), function, (x,)) if native is None else native(x)

    return called


def _of_one(operation: _Operation) -> Callable[..., Any]:
    function = operation.function

    def called(*given: Any, **settings: Any) -> Any:
        """The function of one tensor."""
        if not given or type(x := given[0]) is not Tensor:
            return function(*given, **settings)
        key = (function, x.type)
        if settings or len(given) > 1:
            parts = _parts(given[1:], settings)
            if parts is None:
                return function(*given, **settings)
            key = (function, x.type, *parts)
        native = _target(key)
        return operation.first(key, given, settings) if native is None else native(x)

    return called


def _of_several(operation: _Operation) -> Callable[..., Any]:
    function, count = operation.function, operation.operands

    def called(*given: Any, **settings: Any) -> Any:
        """The function of several tensors."""
        if len(given) < count:
            return function(*given, **settings)
        if count == 2 and len(given) == 2 and not settings:
            x, y = given
            if type(x) is Tensor and type(y) is Tensor:
                native = _target((function, x.type, y.type))
                if native is not None:
                    return native(x, y)
        key: list[Any] = [function]
        for x in given[:count]:
            if type(x) is not Tensor:
                return function(*given, **settings)
            key.append(x.type)
        if settings or len(given) > count:
            parts = _parts(given[count:], settings)
            if parts is None:
                return function(*given, **settings)
            key += parts
        native = _target(tuple(key))
        return operation.first(tuple(key), given, settings) if native is None else native(*given[:count])

    return called


def _of_sequence(operation: _Operation) -> Callable[..., Any]:
    function = operation.function

    def called(*given: Any, **settings: Any) -> Any:
        """The function of a sequence of tensors."""
        xs: Any = given[0] if given else None
        if type(xs) not in SEQUENCES or not 0 < len(xs) <= JOINED:
            return function(*given, **settings)
        key: list[Any] = [function]
        for x in xs:
            if type(x) is not Tensor:
                return function(*given, **settings)
            key.append(x.type)
        more = given[1:]
        if settings or more:
            parts = _parts(more, settings)
            if parts is None:
                return function(*given, **settings)
            key += parts
        native = _target(tuple(key))
        if native is not None:
            return native(*xs)
        return operation.answer(tuple(key), lambda *parts: function(parts, *more, **settings), tuple(xs))

    return called


def of_key(function: F) -> F:
    """A decorator of `index`: x[key] is one operation of x, and of a tensor that is the key.

    Integers and slices have many values, so a key of these has a target once it has come several times.
    """

    def called(*given: Any) -> Any:
        """x[key]."""
        if len(given) != 2 or type(x := given[0]) is not Tensor:
            return function(*given)
        key = given[1]
        if type(key) is Tensor:
            target = function, x.type, key.type
            native = _target(target)
            return OPERATIONS.first_function(target, function, given) if native is None else native(x, key)
        part = _place(key)
        if part is ELSEWHERE:
            return function(*given)
        target = function, x.type, ("key", part)
        native = _target(target)
        if native is not None:
            return native(x)
        return OPERATIONS.first_often(target, partial(_at, function, key), (x,))

    return cast("F", wraps(function)(called))


def _at(function: Callable[..., Any], key: Any, x: Any) -> Any:
    return function(x, key)


def _place(key: Any) -> Any:
    """An integer, a slice of integers, None, `...`, or a tuple of these, as a part of a key; ELSEWHERE for others."""
    kind = type(cast("object", key))
    if kind is int or key is None or key is ...:
        return key
    if kind is slice:
        start, stop, step = cast("tuple[object, ...]", (key.start, key.stop, key.step))
        if INTEGRAL.issuperset((type(start), type(stop), type(step))):
            return slice, start, stop, step
        return ELSEWHERE
    if kind is not tuple:
        return ELSEWHERE
    parts = tuple(map(_place, key))
    return ELSEWHERE if ELSEWHERE in parts else parts


def _parts(more: tuple[Any, ...], settings: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """The parts of a key for settings: names, types and values; None unless equal settings mean the same.

    Equal numbers of other types have other keys.
    """
    values = (*more, *settings.values()) if more else tuple(settings.values())
    kinds = tuple(map(type, values))
    if kinds not in _simple and not _are_simple(kinds, values):
        return None
    return (*settings, kinds, values)


_simple: set[tuple[type, ...]] = set()  # types of settings of which all values are plain


def _are_simple(kinds: tuple[type, ...], values: tuple[Any, ...]) -> bool:
    """Whether settings that are equal, of one type, mean the same."""
    if not all(map(is_plain_setting, kinds, values)):
        return False
    if PLAIN.issuperset(kinds) and len(_simple) < MOST:
        _simple.add(kinds)
    return True
