"""More threads than processors cause one warning."""

from __future__ import annotations

import os
import subprocess
import sys

CODE = """
import warnings
with warnings.catch_warnings(record=True) as met:
    warnings.simplefilter("always")
    import nacre as nc
    n = len(__import__("os").sched_getaffinity(0))
    {calls}
print([str(w.message).partition(";")[0] for w in met if "threads" in str(w.message)])
"""


def said(calls: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(calls=calls)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return done.stdout


def test_more_threads_than_processors_cause_one_warning() -> None:
    count = len(os.sched_getaffinity(0))
    wanted = f"['set_threads: at most {count} threads are advised, one for each processor of this process']"
    assert said("nc.set_threads(n + 1); nc.set_threads(n + 2)").strip() == wanted
    assert said("nc.get_threads(); nc.set_threads(n + 1)", NACRE_NUM_THREADS=str(count + 1)).strip() == wanted
    assert said("nc.set_threads(n)", NACRE_NUM_THREADS="1").strip() == "[]"
