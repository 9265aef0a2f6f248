"""Times convolution kernels on this machine: milliseconds, GF/s (of direct convolution) and compile time of each step.

    PYTHONPATH=src python benchmarks/convolution.py [--threads 2] [--isa avx512] [name ...]

`--peer` times PyTorch instead, in an environment that has it.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

WORKLOADS = {
    # name: batch, channels, height, filters, kernel, stride, padding, groups
    "w2 1-32@28": (64, 1, 28, 32, 3, 1, 0, 1),
    "w2 32-64@26": (64, 32, 26, 64, 3, 1, 0, 1),
    "3x3 64@56": (4, 64, 56, 64, 3, 1, 1, 1),
    "3x3 128@28": (4, 128, 28, 128, 3, 1, 1, 1),
    "3x3 s2 64-128@56": (4, 64, 56, 128, 3, 2, 1, 1),
    "1x1 256-64@56": (4, 256, 56, 64, 1, 1, 0, 1),
    "7x7 s2 3-64@224": (4, 3, 224, 64, 7, 2, 3, 1),
    "3x3 256@14": (8, 256, 14, 256, 3, 1, 1, 1),
    "3x3 512@7": (8, 512, 7, 512, 3, 1, 1, 1),
    "3x3 48@28": (8, 48, 28, 48, 3, 1, 1, 1),
    "3x3 64@32": (16, 64, 32, 64, 3, 1, 1, 1),
    "depthwise 96@56": (4, 96, 56, 96, 3, 1, 1, 96),
    "depthwise s2 96@56": (4, 96, 56, 96, 3, 2, 1, 96),
}


def best(call: Callable[[], object], seconds: float = 0.4) -> float:
    """The shortest of many runs, in seconds."""
    call()
    shortest, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


class Crew:
    """Threads that take chunks of a step's items together, spinning between steps."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def run(self, calls: list[Any]) -> None:
        """Run every step on all threads."""
        if self.threads == 1:
            for function, slots, items, scratch, _ in calls:
                function(slots.ctypes.data, 0, items, scratch.ctypes.data)
            return
        barrier = threading.Barrier(self.threads)
        crew = [threading.Thread(target=self._work, args=(calls, t, barrier)) for t in range(self.threads)]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()

    def _work(self, calls: list[Any], t: int, barrier: threading.Barrier) -> None:
        for function, slots, items, scratch, _ in calls:
            mine = scratch if t == 0 else np.empty_like(scratch)
            start, end = items * t // self.threads, items * (t + 1) // self.threads
            function(slots.ctypes.data, start, end, mine.ctypes.data)
            barrier.wait()


def nacre(names: list[str], isa_name: str, threads: int) -> None:
    """Time Nacre's kernels."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    run_steps = importlib.import_module("codegen.run_steps")
    convolve = importlib.import_module("nacre.codegen.convolution.kernel")
    order = importlib.import_module("nacre.kernel.order_convolution")
    winograd = importlib.import_module("nacre.codegen.convolution.winograd").winograd
    winograd_weight = importlib.import_module("nacre.codegen.convolution.winograd_weight").winograd_weight
    sides = importlib.import_module("nacre.kernel.order_winograd")
    isa = importlib.import_module("nacre.native.isa").BY_NAME[isa_name]
    crew = Crew(threads)

    def forms(conv: Any) -> dict[str, Any]:
        found = {
            "forward": convolve.forward(isa, "float", conv),
            "input_grad": convolve.input_grad(isa, "float", conv),
            "weight_grad": convolve.weight_grad(isa, "float", conv, threads=threads),
        }
        if conv.taps == 9 and conv.rows.stride == 1 and conv.groups == 1 and min(conv.channels, conv.filters) >= 16:
            forward = sides.forward_sides(conv)
            found["winograd"] = winograd(isa, "float", forward, "x", "y")
            found["winograd dx"] = winograd(isa, "float", sides.gradient_sides(conv), "dy", "dx")
            found["winograd dw"] = winograd_weight(isa, "float", forward)
        return found

    for name in names:
        n, c, h, o, k, stride, pad, groups = WORKLOADS[name]
        conv = order.convolution(
            c, h, h, o, (k, k), stride=(stride, stride), padding=((pad, pad), (pad, pad)), groups=groups
        )
        random = np.random.default_rng(0)
        x = random.standard_normal((n, c, h, h), np.float32)
        w = random.standard_normal(conv.weight_shape, np.float32)
        dy = random.standard_normal((n, o, conv.rows.out, conv.columns.out), np.float32)
        flops = 2 * dy.size * conv.taps * conv.group_channels
        arrays = {"x": x, "w": w, "y": dy.copy(), "dy": dy, "dx": x.copy(), "dw": w.copy()}
        for form, steps in forms(conv).items():
            compiled = run_steps.Compiled(steps, isa_name)
            calls = compiled.bind(n, arrays)
            took = best(lambda calls=calls: crew.run(calls))
            each = [best(lambda call=call: crew.run([call]), 0.1) for call in calls]
            report(
                name,
                form,
                took,
                flops,
                "steps "
                + " ".join(f"{t * 1e3:.2f}" for t in each)
                + " compile "
                + " ".join(f"{t:.0f}" for t in compiled.milliseconds),
            )


def peer(names: list[str], threads: int) -> None:
    """Time PyTorch."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    for name in names:
        n, c, h, o, k, stride, pad, groups = WORKLOADS[name]
        x, w = torch.randn(n, c, h, h), torch.randn(o, c // groups, k, k)
        place = ([stride, stride], [pad, pad], [1, 1])
        y = torch.conv2d(x, w, None, *place, groups)
        flops = 2 * y.numel() * w[0].numel()
        whole = partial(torch.conv2d, x, w, None, *place, groups)
        backward = partial(torch.ops.aten.convolution_backward, y, x, w, None, *place, False, [0, 0], groups)
        report(name, "forward", best(whole), flops)
        report(name, "input_grad", best(partial(backward, [True, False, False])), flops)
        report(name, "weight_grad", best(partial(backward, [False, True, False])), flops)


def report(name: str, form: str, took: float, flops: int, rest: str = "") -> None:
    """Print one line."""
    print(f"{name:20} {form:12} {took * 1e3:8.2f} ms {flops / took / 1e9:7.1f} GF/s  {rest}", flush=True)


def main() -> None:
    """Read the command line and time what it names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa", default="avx512")
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    names = [n for n in WORKLOADS if not options.names or any(q in n for q in options.names)]
    if options.peer:
        peer(names, options.threads)
    else:
        nacre(names, options.isa, options.threads)


if __name__ == "__main__":
    main()
