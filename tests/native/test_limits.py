"""Limits are read from either version of control groups, the tightest around the process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nacre.native import limits


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("files", "bound"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/cpu.max": "300000 100000\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            },
            3.0,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/x\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            2.0,
        ),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({}, None),
    ],
)
def test_processor_time(tmp_path: Path, files: dict[str, str], bound: float | None) -> None:
    write(tmp_path, files)
    assert limits.processor_time(str(tmp_path)) == bound


def test_memory(tmp_path: Path) -> None:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert limits.memory(str(tmp_path)) == machine
    write(
        tmp_path,
        {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/memory.max": "1048576\n"},
    )
    assert limits.memory(str(tmp_path)) == 1 << 20
    write(tmp_path, {"proc/self/cgroup": "3:memory:/b\n", "sys/fs/cgroup/memory/b/memory.limit_in_bytes": "2097152\n"})
    assert limits.memory(str(tmp_path)) == 2 << 20


def test_processors() -> None:
    assert limits.allowed_processors() == sorted(set(limits.allowed_processors())) != []
