"""Settings of a computation: gradient recording, numerics mode, number of threads, memory."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, TypeVar, overload

from nacre.base.arguments import is_whole, require_flag, whole_number
from nacre.base.dtypes import DType, as_dtype, bfloat16, float16
from nacre.base.errors import ArgumentError
from nacre.base.state import STATE
from nacre.codegen.entry.points import forget_packed, rebind
from nacre.interpret.precision.policy import AutocastPolicy, policy
from nacre.native.pool import pool
from nacre.runtime import buffer
from nacre.trace import bind as binding
from nacre.trace.modes import ModeFromHere, StateBlock, gradients, inference, recorded_unless_inference

__all__ = [
    "autocast",
    "autocast_policy",
    "empty_cache",
    "enable_grad",
    "get_autocast_dtype",
    "get_threads",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "numerics",
    "set_grad_enabled",
    "set_memory_limit",
    "set_threads",
]

F = TypeVar("F", bound=Callable[..., Any])


class SettingsBlock(Protocol):
    """A context manager that is also a decorator."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None: ...

    def __call__(self, function: F, /) -> F: ...


@overload
def no_grad() -> SettingsBlock: ...
@overload
def no_grad(function: F, /) -> F: ...
def no_grad(function: Any = None, /) -> Any:
    """A context or, as `@no_grad()` or `@no_grad`, a decorator in which nothing is recorded for `backward`.

    No derivative passes through values computed in it, in compiled functions too.  A decorated generator computes in it
    between its `yield`s.  Raises KindError for a decorated class or coroutine function.

    >>> x = nc.tensor(1.0).requires_grad_()
    >>> with nc.no_grad():
    ...     (x * 2).requires_grad
    False
    """
    return _decorated(gradients(False, "no_grad()"), function)


@overload
def enable_grad() -> SettingsBlock: ...
@overload
def enable_grad(function: F, /) -> F: ...
def enable_grad(function: Any = None, /) -> Any:
    """A context or decorator in which operations are recorded again inside `no_grad`, but not in `inference_mode`.

    >>> x = nc.tensor(1.0).requires_grad_()
    >>> with nc.no_grad(), nc.enable_grad():
    ...     (x * 2).requires_grad
    True
    """
    return _decorated(recorded_unless_inference(True, "enable_grad()"), function)


def set_grad_enabled(mode: bool) -> SettingsBlock:
    """Record operations for `backward` from here on, or do not; as a context or decorator, only inside.

    `with set_grad_enabled(training):` chooses by a flag.  Raises KindError unless `mode` is True or False.

    >>> x = nc.tensor(1.0).requires_grad_()
    >>> with nc.set_grad_enabled(False):
    ...     (x * 2).requires_grad
    False
    >>> (x * 2).requires_grad
    True
    """
    require_flag(mode, "set_grad_enabled")
    return ModeFromHere(recorded_unless_inference(bool(mode), f"set_grad_enabled({bool(mode)})"))


@overload
def inference_mode(mode: bool = True) -> SettingsBlock: ...
@overload
def inference_mode(mode: F, /) -> F: ...
def inference_mode(mode: Any = True) -> Any:
    """A context or decorator like `no_grad`, inside which `enable_grad` has no effect; `inference_mode(False)` ends it.

    Tensors made inside are ordinary tensors: a later recorded operation takes them as constants.  Raises KindError
    unless `mode` is True or False.

    >>> x = nc.tensor(1.0).requires_grad_()
    >>> with nc.inference_mode(), nc.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad, (x * y).requires_grad
    (False, True)
    """
    if callable(mode):
        return inference(True)(mode)
    require_flag(mode, "inference_mode")
    return inference(bool(mode))


def is_inference_mode_enabled() -> bool:
    """Whether the code runs in `inference_mode`.

    >>> nc.is_inference_mode_enabled()
    False
    """
    return STATE.inference


def _decorated(block: StateBlock[bool], function: Any) -> Any:
    return block if function is None else block(function)


def is_grad_enabled() -> bool:
    """Whether operations are recorded for `backward`.

    >>> nc.is_grad_enabled()
    True
    """
    return STATE.gradients


def numerics(mode: str) -> SettingsBlock:
    """A context with a numerics mode: `"exact"` (the default) or `"fast"`, which allows different bits for speed.

    >>> with nc.numerics("fast"):
    ...     pass
    """
    if mode not in ("exact", "fast"):
        raise ArgumentError(f'numerics: mode must be "exact" or "fast"; got {mode!r}')
    return binding.numerics(mode)


def autocast(dtype: Any = bfloat16, enabled: bool = True) -> SettingsBlock:
    """A context or decorator of mixed precision: products round their factors to `dtype`, sums have float32.

    `dtype` is bfloat16 or float16.  Parameters and their gradients keep float32.  `autocast_policy()` prints which
    operations run in which dtype.  The backward pass has the dtypes of the forward pass, also outside of the block.
    `enabled=False` ends the mode inside of the block.  Results have the same bits in compiled functions, which have a
    variant of their own for the mode.  Raises ArgumentError for other dtypes, KindError unless `enabled` is a bool.

    >>> x, w = nc.ones((2, 3)), nc.ones((3, 2))
    >>> with nc.autocast(nc.bfloat16):
    ...     y = x @ w
    ...     total = y.sum()
    ...     with nc.autocast(enabled=False):
    ...         z = x @ w
    >>> y.dtype, total.dtype, z.dtype
    (nacre.bfloat16, nacre.float32, nacre.float32)
    """
    if isinstance(dtype, str) and dtype not in ("bfloat16", "float16"):
        raise ArgumentError(
            f"autocast: dtype must be bfloat16 or float16; got {dtype!r}; write nacre.autocast(nacre.bfloat16), "
            "without a device"
        )
    require_flag(enabled, "autocast")
    low = as_dtype(dtype)
    if low not in (bfloat16, float16):
        raise ArgumentError(
            f"autocast: dtype must be bfloat16 or float16; got {low.name}; for float32 write autocast(enabled=False)"
        )
    name = f"autocast(nacre.{low.name})" if enabled else "autocast(enabled=False)"
    return binding.autocast(low if enabled else None, name)


def get_autocast_dtype() -> DType | None:
    """The dtype of the `autocast` block in which the code runs; None outside.

    >>> with nc.autocast(nc.float16):
    ...     nc.get_autocast_dtype()
    nacre.float16
    """
    return STATE.autocast


def autocast_policy() -> AutocastPolicy:
    """The table of `autocast`: which operations run in its dtype, which in float32, which in the widest operand's.

    >>> "matmul" in str(nc.autocast_policy())
    True
    """
    return policy()


def set_threads(count: int) -> None:
    """Set the number of threads that compute.  Results do not depend on it.

    >>> nc.set_threads(nc.get_threads())
    """
    count = whole_number(count, "set_threads", "count")
    if count < 1:
        raise ArgumentError(f"set_threads: count must be at least 1; got {count}")
    pool().set_threads(count)
    rebind()


def get_threads() -> int:
    """The number of threads that compute.

    >>> nc.get_threads() >= 1
    True
    """
    return pool().threads


def set_memory_limit(nbytes: int | None) -> None:
    """Limit the bytes that all tensors and running programs may take.  None, the default, allows what the machine has.

    An allocation beyond the limit first frees memory cached for reuse; if that is not enough, it raises `OutOfMemory`.

    >>> nc.set_memory_limit(1 << 30)
    >>> nc.set_memory_limit(None)
    """
    if nbytes is not None and (not is_whole(nbytes) or nbytes < 0):
        raise ArgumentError(f"set_memory_limit: nbytes must be at least 0, or None; got {nbytes!r}")
    buffer.memory_limit(None if nbytes is None else min(int(nbytes), (1 << 63) - 1))


def empty_cache() -> None:
    """Return memory cached for reuse, and packed weights that programs cache, to the system.

    >>> nc.empty_cache()
    """
    forget_packed()
    buffer.empty_cache()
