"""Background compile jobs: threads compile objects ahead, while Python continues.

LLVM needs no interpreter lock.  While one thread traces, lowers and writes text, others compile finished texts.  The
largest job comes first; a caller that waits for results helps.  Work that may be needed later waits until there is no
such job, in the order in which it was queued, and no caller helps with it.  Threads start with the first job and end
with the last one.  A fork waits until no job runs, so that the child finds LLVM and shared data consistent.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator

from nacre.base.forks import around_forks
from nacre.native import limits

Job = Callable[[], object]

# Seconds after which a thread that computes in Python yields the interpreter lock, while there are jobs: a job needs it
# briefly between its calls of LLVM, and would wait for most of the time with CPython's default of 5 ms.
BRISK = 0.0003


class CompileWorkers:
    """Threads and their jobs.  Exceptions of jobs are dropped: results are requested by other functions."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._state = threading.Condition(self._lock)  # see `base/locks` on interrupts
        self._jobs: list[tuple[int, int, Job]] = []
        self._later: deque[Job] = deque()
        self._ahead: set[int] = set()  # the threads that do work of `begin_later`
        self._numbers = itertools.count()
        self._threads = 0
        self._busy: list[int] = []  # the threads that run a job, or another block that a fork waits for
        self._forking = self._held = False
        self._interval = 0.0
        around_forks(self._pause, self._resume, self._alone)
        around_forks(self._hold, self._release, self._release, early=True)

    def begin(self, size: int, job: Job) -> None:
        """Queue a job for a worker thread, if the process has another processor; larger jobs run first."""
        with self._lock:
            if threading.get_ident() in self._ahead:
                self._later.appendleft(job)  # a part of that work
            else:
                heapq.heappush(self._jobs, (-size, next(self._numbers), job))
            self._start()

    def begin_later(self, job: Job) -> None:
        """Queue work that may be needed later for a worker thread that has no other job, if there are processors."""
        with self._lock:
            if self._start() or self._threads:
                self._later.append(job)

    def _start(self) -> bool:
        """Start another worker thread, if there are a processor and a thread for it."""
        if self._threads < len(limits.allowed_processors()) - 1:
            worker = threading.Thread(target=self._work, name="nacre compile worker")
            self._count(1)
            try:
                worker.start()
            except BaseException as fault:
                if not worker.is_alive():
                    self._count(-1)
                if not isinstance(fault, RuntimeError):  # no thread is available: callers that wait run the job
                    raise
            return worker.is_alive()
        return False

    def help(self) -> None:
        """Run queued jobs until none are left."""
        while (job := self._next()) is not None:
            self._do(job)

    @contextlib.contextmanager
    def under_way(self) -> Generator[None]:
        """A block whose end a fork in another thread waits for, as for that of a job."""
        thread = threading.get_ident()
        outside = self._busy.count(thread)
        try:
            with self._lock:
                while self._forking and not outside:
                    self._state.wait()
                self._busy.append(thread)
            yield
        finally:
            self._leave(outside)

    def _work(self) -> None:
        while (job := self._next(ends=True)) is not None:
            self._do(job)
            with self._lock:
                self._ahead.discard(threading.get_ident())
                self._state.notify_all()

    def _next(self, ends: bool = False) -> Job | None:
        """The next job, now running; None ends a worker thread, which alone does work that may be needed later."""
        with self._lock:
            while self._forking and threading.get_ident() not in self._busy:
                self._state.wait()
            later = ends and self._later and not self._held
            if (self._jobs or later) and threading.main_thread().is_alive():
                self._busy.append(threading.get_ident())
                if self._jobs:
                    return heapq.heappop(self._jobs)[2]
                self._ahead.add(threading.get_ident())
                return self._later.popleft()
            if ends:
                self._count(-1)
            return None

    def _do(self, job: Job) -> None:
        outside = self._busy.count(threading.get_ident()) - 1
        try:
            with contextlib.suppress(Exception):
                job()
        finally:
            try:
                self._leave(outside)
            except BaseException:  # an interrupt, before or during the call
                self._leave(outside)
                raise

    def _leave(self, outside: int) -> None:
        """Remove this thread's entries in `_busy` beyond a number; a second call has no effect."""
        thread = threading.get_ident()
        with self._lock:
            while self._busy.count(thread) > outside:
                self._busy.remove(thread)
            self._state.notify_all()

    def _count(self, change: int) -> None:
        """Count worker threads; while there are some, the interpreter lock is switched often."""
        before, self._threads = self._threads, self._threads + change
        if not before:
            self._interval = sys.getswitchinterval()
            sys.setswitchinterval(min(BRISK, self._interval))
        elif not self._threads:
            sys.setswitchinterval(self._interval)

    # ---- forks

    def _hold(self) -> None:
        """Wait until no work that may be needed later is done: that runs Python, which may need any lock."""
        with self._lock:
            self._held = True
            while self._ahead - {threading.get_ident()}:
                self._state.wait()

    def _release(self) -> None:
        with self._lock:
            self._held = False
            if self._later:
                self._start()

    def _pause(self) -> None:
        self._lock.acquire()
        self._forking = True
        while any(thread != threading.get_ident() for thread in self._busy):
            self._state.wait()

    def _resume(self) -> None:
        self._forking = False
        self._state.notify_all()
        self._lock.release()

    def _alone(self) -> None:
        """In the child process: there are no threads, and callers run the jobs."""
        if self._threads:
            self._count(-self._threads)
        self._jobs.clear()
        self._later.clear()
        self._ahead.clear()
        self._resume()


_workers = CompileWorkers()
begin, begin_later = _workers.begin, _workers.begin_later
help_out, under_way = _workers.help, _workers.under_way
