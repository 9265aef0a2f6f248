"""The resources that the system grants this process: processors, their time, and memory; and the pool's limits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

ROOT = "/"
MAX_THREADS: Final = 256  # of the pool
PROCESSORS: Final = 1024  # that a set of processors can name


def allowed_processors() -> list[int]:
    """The processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def processor_time(root: str = ROOT) -> float | None:
    """The processor time that this process's control groups allow, in processors; None without a limit."""
    bounds: list[float] = []
    for folder in _groups("cpu", root):
        amount, _, period = _words(folder + "/cpu.max").partition(" ")
        if not amount:
            amount = _words(folder + "/cpu.cfs_quota_us")
            period = _words(folder + "/cpu.cfs_period_us")
        if amount.isdigit() and period.isdigit() and int(period) > 0:
            bounds.append(int(amount) / int(period))
    return min(bounds, default=None)


def memory(root: str = ROOT) -> int:
    """The bytes of memory this process may use: the machine's, within the limits of its control groups."""
    bounds = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for folder in _groups("memory", root):
        for name in ("memory.max", "memory.limit_in_bytes"):
            words = _words(f"{folder}/{name}")
            if words.isdigit():
                bounds.append(int(words))
    return min(bounds)


def _words(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def _groups(controller: str, root: str) -> Iterator[str]:
    """The folders of this process's control groups for a controller, and of their parents.

    Version 2 has one tree; version 1 has one for each controller, which may be mounted together.
    """
    base = os.path.join(root, "sys/fs/cgroup")
    for line in _words(os.path.join(root, "proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        names = [controller, controllers] if controllers else ["", "unified"]
        for mount in (os.path.join(base, name) for name in names):
            parts = [part for part in path.split("/") if part]
            for depth in range(len(parts), -1, -1):
                yield os.path.join(mount, *parts[:depth])
