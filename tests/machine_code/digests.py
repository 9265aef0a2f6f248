"""Digests of the machine code of many programs: of every kernel's LLVM text for each target, and of the results here.

    .venv/bin/python tests/machine_code/digests.py            compare with what is recorded
    .venv/bin/python tests/machine_code/digests.py --write    record
    ... [WORD ...]                                            the programs whose names hold one of the words

A text is compared with its own names of values, blocks, functions and constants replaced by numbers.  Programs are
compiled without their checks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import nacre as nc
from machine_code.programs import Made, Program, programs
from nacre.compile.pipeline import compile_graph
from nacre.interpret.check import without_checks
from nacre.native.engine import cross_target, host_target
from nacre.trace.value import layout_of, make
from same_bits import canonical

FILE = Path(__file__).with_name("digests.json")
TARGETS = ("avx2", "avx512", "neon")
RESULTS = "results"  # exact ones are the same on every machine, and fast ones where the instructions are
Digests = dict[str, list[str]]  # of the kernels for each target, in the order of the plan, and of the results

_COMMENT = re.compile(r";.*$", re.MULTILINE)
_NAME = re.compile(r"""([%@])("[^"]*"|[-a-zA-Z$._0-9]+)|^([-a-zA-Z$._0-9]+)(?=:)""", re.MULTILINE)


def normalised(text: str) -> str:
    """A module's text with numbers for the names that it defines; LLVM's own functions keep theirs."""
    numbers: dict[str, str] = {}

    def renamed(found: re.Match[str]) -> str:
        mark, name, label = found.groups()
        if label is not None:
            mark, name = "%", label
        if mark == "@" and name.startswith("llvm."):
            return found[0]
        number = numbers.setdefault(mark + name, str(len(numbers)))
        return number if label is not None else mark + number

    return _NAME.sub(renamed, _COMMENT.sub("", text))


def digest(data: bytes) -> str:
    """The first 64 bits of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]


def texts(made: Made, isa: str) -> list[str]:
    """The texts of a program's kernels for a target."""
    executable = compile_graph(without_checks(made.graph), made.strides, cross_target(isa)).executable
    return [code.text for code in executable.codes]


def results(made: Made) -> list[bytes]:
    """The bits of a program's results on this machine; none of host calls, which depend on it."""
    executable = compile_graph(without_checks(made.graph), made.strides, host_target()).executable
    if executable.plan.calls_host:
        return []
    shapes = [x.type.shape for x in made.inputs]
    sizes = executable.sizes(shapes)
    at = [x.content.address + layout_of(x).offset * x.type.dtype.itemsize for x in made.inputs]
    buffers = executable.run(at, sizes)
    kinds = [
        t.with_shape([n if isinstance(n, int) else n.evaluate(sizes) for n in t.shape]) for t in executable.output_types
    ]
    return [canonical(make(t, b)) for t, b in zip(kinds, buffers, strict=True)]


def digests(program: Program) -> Digests:
    """What is recorded of a program."""
    made = program.made()
    with nc.numerics(program.numerics):
        found = {isa: [digest(normalised(t).encode()) for t in texts(made, isa)] for isa in TARGETS}
        what = RESULTS if program.numerics == "exact" else f"{RESULTS} {host_target().isa}"
        return {**found, what: list(map(digest, results(made)))}


def recorded() -> dict[str, Digests]:
    """What was recorded, by program."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def chosen(words: Iterable[str]) -> list[Program]:
    """The programs whose names hold one of the words; all if there are none."""
    words = list(words)
    return [p for p in programs() if not words or any(w in p.name for w in words)]


def differences(found: Digests, before: Digests) -> list[str]:
    """Where two records differ: the target, and the kernels' numbers."""
    told: list[str] = []
    for what, new in found.items():
        old = before.get(what)
        if old is None and before and what.startswith(f"{RESULTS} "):
            continue  # recorded on a machine with other instructions
        old = old or []
        if len(new) != len(old):
            told.append(f"{what}: {len(old)} became {len(new)}")
        elif new != old:
            changed = [str(k) for k, (a, b) in enumerate(zip(new, old, strict=True)) if a != b]
            told.append(f"{what}: {', '.join(changed)} of {len(new)}")
    return told


def main() -> int:
    """Compare or record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    kept, wrong, kernels = recorded(), 0, 0
    for program in chosen(given.words):
        found = digests(program)
        kernels += sum(len(found[isa]) for isa in TARGETS)
        if given.write:
            kept[program.name] = found
        elif told := differences(found, kept.get(program.name, {})):
            wrong += 1
            print(f"{program.name}: {'; '.join(told)}", flush=True)
    if given.write:
        lines = ",\n".join(f" {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in sorted(kept.items()))
        FILE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    print(f"{len(kept)} programs recorded; looked at {kernels} kernels; {wrong} programs differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
