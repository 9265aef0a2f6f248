"""The requirements of a program on its process: processor features, and threads.

    i1   @nacre.supported()     whether the processor and the system have what the code was compiled for
    i32  @nacre.begin()         at the first call, the number of threads from the environment; 0, or error THREADS
    i32  @nacre.threads(i32)    set the number of threads; 0, or error THREADS

The first runs on any processor of the machine's kind, so it is compiled for the oldest one.
"""

from __future__ import annotations

from nacre.deploy.executable.layouts import FeatureBits, Requirements
from nacre.deploy.target import CompileTarget
from nacre.native.isa import MACHINES
from nacre.native.python.cached import cached_module
from nacre.native.python.initial import at, constant_rows
from nacre.native.text import ModuleText


def process_texts(aim: CompileTarget) -> list[str]:
    """The texts of the functions above."""
    module = ModuleText("supported")
    rows = [FeatureBits(leaf=a, subleaf=b, register=c, bits=bits) for (a, b, c), bits in sorted(aim.masks.items())]
    features = constant_rows(module, "process.features", rows)
    needs = Requirements(features=at(features), count=len(rows), saved_state=aim.saved_state)
    f = module.function("nacre.supported", "i1", {}, attributes=outermost(aim))
    f.ret(f.call("nacre.meets", "i1", [constant_rows(module, "process.requirements", [needs])]))
    check = cached_module("nacre.deploy.executable.processor", ("meets",), aim.target)
    threads = cached_module("nacre.deploy.executable.threads", ("begin", "set_threads"), aim.target)
    return [module.text(), check, threads]


def outermost(aim: CompileTarget) -> str:
    """The attributes of functions that run before the processor's features are known."""
    return f"nounwind {MACHINES[aim.machine].baseline}".rstrip()
