"""The thread pool of a process: the number of threads, their processors, and the addresses of its code.

No thread exists before the first region that more than one thread runs.  `pool().symbols()` links generated code to the
functions of `nacre.native.parallel_runtime`, or of `nacre.native.serial_runtime` where the system is not Linux.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import warnings

from nacre.base.errors import ArgumentError
from nacre.base.locks import in_child, once
from nacre.native import cache as objects
from nacre.native import compile_workers, limits
from nacre.native.engine import Library, Target, host_target
from nacre.native.isa import MACHINES, host_machine
from nacre.native.limits import MAX_THREADS, PROCESSORS
from nacre.native.python.cached import cached_module

__all__ = ["MAX_THREADS", "Pool", "default_threads", "pool", "pool_text"]

LINUX = sys.platform.startswith("linux")
OFFERED = ("nacre.pool_enter", "nacre.pool_share", "nacre.pool_leave", "nacre.pool_run", "nacre.pool_threads")
ENTRIES = ("enter", "share", "leave", "run", "threads", "set_team", "started", "forked")  # the native functions


def default_threads() -> int:
    """NACRE_NUM_THREADS, else the allowed processors, within the control group's quota."""
    chosen = os.environ.get("NACRE_NUM_THREADS", "").strip()
    if chosen:
        if not chosen.isdigit() or not 1 <= int(chosen) <= MAX_THREADS:
            raise ArgumentError(
                f"NACRE_NUM_THREADS: the value must be from 1 to {MAX_THREADS}; got {chosen!r}; correct or unset it"
            )
        return int(chosen)
    bound = limits.processor_time()
    count = len(limits.allowed_processors())
    limit = count if bound is None else max(1, math.ceil(bound))
    return min(count, limit, MAX_THREADS)


def pool_text(target: Target, linux: bool = True) -> str:
    """The pool's LLVM text for a target; on systems that are not Linux, all regions run on their caller."""
    return cached_module(f"nacre.native.{'parallel' if linux else 'serial'}_runtime", ENTRIES, target)


@once
def begin() -> None:
    """Compile the pool's code on another thread, for a program that will need it."""
    compile_workers.begin(0, lambda: objects.compile_cached(_text(), host_target()))


def _text() -> str:
    return pool_text(host_target(), LINUX)


class _Code:
    """The pool's machine code, loaded in this process."""

    def __init__(self) -> None:
        self.library: Library = objects.library(_text(), host_target()).keep()
        address = self.library.address
        self.addresses = {name: address(name) for name in OFFERED}
        self.run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address("nacre.pool_run"))
        self.set = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_char_p)(address("nacre.pool_set"))
        self.started = ctypes.CFUNCTYPE(ctypes.c_int64)(address("nacre.pool_started"))
        in_child(ctypes.PYFUNCTYPE(None)(address("nacre.pool_forked")))


@once
def _code() -> _Code:
    return _Code()


@once
def _warned() -> list[int]:
    return []


def _warn_of_more(threads: int, processors: int) -> None:
    """Warn, once in a process, that threads share processors."""
    if not _warned():
        _warned().append(threads)
        warnings.warn(
            f"set_threads: at most {processors} threads are advised, one for each processor of this process; "
            f"got {threads}, which wait for each other; set fewer, or NACRE_NUM_THREADS",
            RuntimeWarning,
            stacklevel=4,
        )


class Pool:
    """The threads of this process, and the addresses by which generated code uses them.

    Its code is loaded at first use; until then only the number of threads is known.
    """

    _chosen: tuple[int, bytes]  # the number of threads, and their processors

    def __init__(self, threads: int | None = None) -> None:
        self._code: _Code | None = None
        self.parallel = LINUX and host_machine() in MACHINES
        self.set_threads(default_threads() if threads is None else threads)

    @property
    def threads(self) -> int:
        """The number of threads of a region, including the caller's."""
        return self._chosen[0]

    @property
    def started(self) -> int:
        """The number of running threads, including the caller's."""
        return self._loaded().started()

    def set_threads(self, threads: int) -> None:
        """Use this number of threads for the following work (1 where the system has no pool).

        Raises ArgumentError outside 1 to 256.  The threads run where this process may; none is pinned to a processor,
        so that the system can move a thread from a busy one.
        """
        if not 1 <= threads <= MAX_THREADS:
            raise ArgumentError(
                f"set_threads: count must be from 1 to {MAX_THREADS}; got {threads}; choose one in that range"
            )
        processors = limits.allowed_processors()
        if threads > len(processors):
            _warn_of_more(threads, len(processors))
        mask = sum(1 << n for n in processors if n < PROCESSORS).to_bytes(PROCESSORS // 8, "little")
        self._chosen = threads if self.parallel else 1, mask
        if self._code is not None:
            self._code.set(*self._chosen)

    def symbols(self) -> dict[str, int]:
        """The names that generated code may call, with their addresses."""
        return self._loaded().addresses

    def run(self, function: int, argument: int, chunks: int) -> None:
        """Call `function(argument, chunk, thread)` once for each chunk, on all threads, without the
        interpreter lock."""
        self._loaded().run(function, argument, chunks)

    def _loaded(self) -> _Code:
        """The code, with the current number of threads, even if another thread sets it meanwhile."""
        found = self._code
        if found is None:
            found = self._code = _code()
            chosen = None
            while chosen is not self._chosen:
                chosen = self._chosen
                found.set(*chosen)
        return found


@once
def pool() -> Pool:
    """The pool of this process, created at first use; its threads start at the first region."""
    return Pool()
