"""A process that makes many calls of each case and measures what stays.  Its arguments: how many, and names of cases.

It prints a line of JSON for each case: the faults that were found, between the first and the last tenth of the calls.
"""

from __future__ import annotations

import json
import sys
import time
from array import array
from typing import Any, Final

import nacre.compile.program.executor  # noqa: F401  (operations need it)
from nacre.runtime import buffer
from robustness.memory_calls import BY_NAME, Case, collect

FEW: Final = 300  # references and blocks that CPython's caches may gain in the whole, in any number of calls
RESIDENT: Final = 4 << 20  # bytes by which the process may grow


def resident() -> int:
    """The memory of this process, in bytes; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0


def measure(case: Case, figures: array[int]) -> None:
    """References, buffers and their bytes, memory of the process and blocks."""
    collect()
    for k, x in enumerate(case.watched):
        figures[k] = sys.getrefcount(x)
    used = buffer.statistics()
    figures[-4], figures[-3] = used.buffers, used.allocated
    del used
    figures[-2] = resident()
    figures[-1] = sys.getallocatedblocks()


def repeat(case: Case, count: int) -> list[str]:
    """What grows between the first and the last tenth of calls."""
    call, prepare = case.call, case.prepare
    if prepare is None or not case.each:
        case.begin()
        prepare = None
    names = [*(type(x).__name__ for x in case.watched), "buffers", "bytes", "resident", "blocks"]
    figures = [array("q", [0] * len(names)) for _ in range(2)]
    for number, part in enumerate((count // 10, count - count // 10)):
        for _ in range(part):
            if prepare is not None:
                prepare()
            call()
        measure(case, figures[number])
    allowed = {"buffers": 0, "bytes": 0, "resident": RESIDENT}
    return [
        f"{other - one} more of {name}"
        for name, one, other in zip(names, *figures, strict=True)
        if abs(other - one) > allowed.get(name, FEW) and (other > one or name not in ("resident", "blocks"))
    ]


def main() -> None:
    count = int(sys.argv[1])
    for name in sys.argv[2:]:
        began = time.process_time()
        faults = repeat(BY_NAME[name](), count)
        line: dict[str, Any] = {"name": name, "faults": faults, "seconds": round(time.process_time() - began, 2)}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
