"""Times matrix product kernels on this machine: GF/s and GB/s beside NumPy's, and compile time.

    OPENBLAS_NUM_THREADS=1 PYTHONPATH=src python benchmarks/matmul.py [--threads 2] [--isa avx2]
    [shape ...]

A shape is written M,N,K or M,N,K,layout, where layout is one of nn, nt, tn, tt.  `--peer` times
PyTorch instead of NumPy, in an environment that has it.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nacre.base import dtypes
from nacre.base.dtypes import DType
from nacre.codegen.gemm.kernel import gemm, is_gemv
from nacre.native import engine
from nacre.native.isa import BY_NAME

SQUARES = [(n, n, n, layout) for n in (64, 128, 256, 512, 1024) for layout in ("nn", "nt", "tn")]
TRAINING = [
    (128, 512, 784, "nn"), (128, 512, 512, "nn"), (128, 10, 512, "nn"),
    (784, 512, 128, "tn"), (512, 512, 128, "tn"), (512, 10, 128, "tn"),
    (128, 512, 512, "nt"), (128, 512, 10, "nt"),
    (2048, 1152, 384, "nn"), (2048, 384, 1536, "nn"), (384, 1152, 2048, "tn"),
]  # fmt: skip
VECTORS = [
    (1, 512, 512, "nn"), (1, 2048, 2048, "nn"), (1, 4096, 4096, "nn"), (1, 2048, 2048, "nt"),
    (1, 4096, 4096, "nt"), (4096, 1, 1024, "nn"), (4096, 1, 1024, "tn"), (8, 2048, 2048, "nn"),
]  # fmt: skip
ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
Array = np.ndarray[Any, np.dtype[Any]]


class Kernel:
    """A compiled matrix product without an epilogue."""

    def __init__(self, isa: str, dtype: DType, thin: bool) -> None:
        begin = time.perf_counter()
        module, self.meta = gemm(BY_NAME[isa], dtype, thin=thin)
        image = engine.compile_text(module.text(), engine.host_target(isa))
        self.milliseconds = 1e3 * (time.perf_counter() - begin)
        self.library = engine.load(image)
        self.entry = ENTRY(self.library.address(self.meta.name))

    def bind(self, a: Array, b: Array, c: Array, threads: int, axes: str) -> Callable[[], None]:
        """A function that computes c = a · b."""
        (m, k), n = a.shape, b.shape[1]
        plan = self.meta.plan(m, n, k, 1, threads, axes)
        size = a.itemsize
        values = {
            "A": a.ctypes.data, "B": b.ctypes.data, "Output0": c.ctypes.data,
            "batch": 1, "inner": 1, "m": m, "n": n, "k": k, "output0.m": c.strides[0] // size,
            "a.m": a.strides[0] // size, "a.k": a.strides[1] // size,
            "b.k": b.strides[0] // size, "b.n": b.strides[1] // size,
            "rows": plan.rows, "columns": plan.columns, "swap": plan.swap,
        }  # fmt: skip
        slots = (ctypes.c_int64 * len(self.meta.slots))(*(values.get(s, 0) for s in self.meta.slots))
        scratch = [aligned(plan.scratch, np.dtype(np.uint8)) for _ in range(threads)]
        address = ctypes.addressof(slots)
        if threads == 1:
            place = scratch[0].ctypes.data
            return lambda _keep=(slots, scratch): self.entry(address, 0, plan.items, place)

        def share(thread: int) -> None:
            lo, hi = (plan.items * t // threads for t in (thread, thread + 1))
            self.entry(address, lo, hi, scratch[thread].ctypes.data)

        return lambda _keep=slots: in_threads(share, threads)


def in_threads(work: Callable[[int], None], threads: int) -> None:
    """Run work(0) … work(threads − 1) at once; starting threads costs some 50 µs."""
    others = [threading.Thread(target=work, args=(t,)) for t in range(1, threads)]
    for thread in others:
        thread.start()
    work(0)
    for thread in others:
        thread.join()


def aligned(count: int, dtype: np.dtype[Any]) -> Array:
    raw = np.zeros(count * dtype.itemsize + 4096, np.uint8)
    start = -raw.ctypes.data % 4096
    return raw[start : start + count * dtype.itemsize].view(dtype)


def seconds(function: Callable[[], object], budget: float = 0.15) -> float:
    """The least time of a call, of bursts that last a millisecond or more."""
    function()
    begin = time.perf_counter()
    function()
    burst = max(1, min(2000, int(1e-3 / max(1e-7, time.perf_counter() - begin))))
    best, end = float("inf"), begin + budget
    while time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(burst):
            function()
        best = min(best, (time.perf_counter() - begin) / burst)
    return best


def factors(shape: tuple[int, int, int, str], dtype: DType) -> tuple[Array, Array, Array]:
    """Random factors in the layout, and room for their product."""
    m, n, k, layout = shape
    rng = np.random.default_rng(0)
    a, b, c = (aligned(size, dtype.numpy) for size in (m * k, k * n, m * n))
    a[:], b[:] = rng.standard_normal(m * k), rng.standard_normal(k * n)
    return (
        a.reshape(m, k) if layout[0] == "n" else a.reshape(k, m).T,
        b.reshape(k, n) if layout[1] == "n" else b.reshape(n, k).T,
        c.reshape(m, n),
    )


def peer_call(a: Array, b: Array, c: Array, peer: bool, threads: int) -> Callable[[], object]:
    """The same product by NumPy or PyTorch."""
    if not peer:
        return lambda: np.matmul(a, b, out=c)
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    x, y, out = (torch.from_numpy(v) for v in (a, b, c))
    return lambda: torch.mm(x, y, out=out)


def parse(text: str) -> tuple[int, int, int, str]:
    m, n, k, *layout = text.split(",")
    return int(m), int(n), int(k), layout[0] if layout else "nn"


def report(
    shape: tuple[int, int, int, str],
    kernel: Kernel,
    dtype: DType,
    threads: int,
    axes: str,
    peer: bool,
) -> None:
    m, n, k, layout = shape
    a, b, c = factors(shape, dtype)
    ours = seconds(kernel.bind(a, b, c, threads, axes))
    other = seconds(peer_call(a, b, c, peer, threads))
    size = (m * n + m * k + k * n) * dtype.itemsize
    form = "thin" if kernel.meta.tiling.thin else ""
    print(f"{m:5d} {n:5d} {k:5d} {layout} {1e6 * ours:9.1f} µs {2e-9 * m * n * k / ours:7.1f} GF/s "
          f"{1e-9 * size / ours:6.1f} GB/s   peer / ours {other / ours:5.2f} {form}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", type=parse)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa", default=engine.host_target().isa)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    dtype = dtypes.dtype_named(options.dtype)
    kernels = [Kernel(options.isa, dtype, thin) for thin in (False, True)]
    for kernel in kernels:
        print(f"{'thin' if kernel.meta.tiling.thin else 'packed'} kernel: {kernel.milliseconds:.0f} ms to compile")
    for shape in options.shapes or [*SQUARES, *TRAINING, *VECTORS]:
        axes = ("k" if shape[3][0] == "n" else "m") + ("n" if shape[3][1] == "n" else "k")
        thin = is_gemv(BY_NAME[options.isa], dtype, *shape[:3], axes)
        report(shape, kernels[thin], dtype, options.threads, axes, options.peer)


if __name__ == "__main__":
    main()
