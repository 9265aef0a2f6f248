"""`nacre demo`: train a small network on real digits; show accuracy, equal bits, speed, and memory known beforehand."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from nacre import __version__
from nacre.api.settings import get_threads, set_threads
from nacre.base.errors import DeviceError
from nacre.cli import digits
from nacre.cli.digits import Digits, Training
from nacre.inspect import machine
from nacre.native.engine import host_target
from nacre.runtime import buffer
from nacre.runtime.buffer import readable
from nacre.transform.jit import Jitted

REQUIRED_ACCURACY = 0.97
TIMED_STEPS = 30


@dataclass
class Report:
    """What the demo found; written by --json.  Times of steps are the least of several, in milliseconds."""

    version: str
    isa: str
    threads: int
    epochs: int
    accuracy: float = 0.0
    accuracy_required: float = REQUIRED_ACCURACY
    bits_agree: bool = False
    weights: dict[str, str] = field(default_factory=dict[str, str])
    eager_first_step_ms: float = 0.0
    eager_step_ms: float = 0.0
    jit_first_step_ms: float = 0.0
    jit_step_ms: float = 0.0
    predicted_peak_bytes: int = 0
    measured_peak_bytes: int = 0
    losses: list[float] = field(default_factory=list[float])
    train_seconds: float = 0.0
    total_seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.bits_agree and self.accuracy >= REQUIRED_ACCURACY


def run(given: argparse.Namespace, console: Console) -> int:
    """Run the demo; 0 where the accuracy is reached and the bits agree, else 1."""
    start = time.perf_counter()
    data = digits.load()
    report = Report(__version__, host_target().isa, get_threads(), given.epochs)
    console.print(f"[bold]Nacre {__version__}[/] on {report.isa}, {_threads(report.threads)}: a convolutional network, "
                  f"{len(data.train_classes)} digits\n")
    eager, training = train(data, report, console)
    report.accuracy = training.accuracy(data)
    compare_bits(data, report)
    compare_speed(data, eager, training, report)
    compare_memory(data, training, report)
    report.total_seconds = time.perf_counter() - start
    show(report, console)
    if given.json is not None:
        write(report, given.json)
    return 0 if report.passed else 1


def train(data: Digits, report: Report, console: Console) -> tuple[Training, Training]:
    """Train eagerly, then from the same start with the compiled step, under progress bars."""
    columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[loss]}"),
               TimeRemainingColumn())
    made: list[Training] = []
    with Progress(*columns, console=console) as progress:
        for way in ("eager", "compiled"):
            task = progress.add_task(way, total=report.epochs * data.steps, loss="")
            start = time.perf_counter()
            made.append(digits.train(data, report.epochs, compiled=way == "compiled",
                                     seen=lambda loss, task=task: progress.update(task, advance=1,
                                                                                  loss=f"loss {loss:.4f}")))
            report.train_seconds = time.perf_counter() - start
            report.weights[way] = made[-1].weights()
    eager, compiled = made
    report.losses = [statistics.fmean(compiled.losses[k:k + data.steps])
                     for k in range(0, len(compiled.losses), data.steps)]
    return eager, compiled


def compare_bits(data: Digits, report: Report) -> None:
    """Hash the weights after the same training, done in every way that this machine can."""
    before = get_threads()
    for threads in (1, max(2, before)):
        set_threads(threads)
        report.weights[_threads(threads)] = digits.train(data, report.epochs).weights()
    set_threads(before)
    other = machine.other_isa()
    if other is not None:
        report.weights[other] = elsewhere(other, report.epochs)
    report.bits_agree = len(set(report.weights.values())) == 1


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def elsewhere(isa: str, epochs: int) -> str:
    """The weights' hash from another process, which uses the given instruction set."""
    made = subprocess.run([sys.executable, "-m", "nacre.cli.digits", str(epochs)], capture_output=True,
                          text=True, check=False,
                          env={**os.environ, "NACRE_ISA": isa, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    if made.returncode:
        raise DeviceError(f"demo: a process with NACRE_ISA={isa} is required; it failed:\n{made.stderr.strip()[-500:]}")
    return made.stdout.strip()


def compare_speed(data: Digits, eager: Training, compiled: Training, report: Report) -> None:
    """Time both kinds of step in turn, on one batch that is there already."""
    report.eager_first_step_ms, report.jit_first_step_ms = (t.seconds[0] * 1e3 for t in (eager, compiled))
    x, y = next(data.batches(0))
    for t in (eager, compiled):
        t.seconds.clear()
    for _ in range(TIMED_STEPS):
        eager.timed(x, y)
        compiled.timed(x, y)
    report.eager_step_ms, report.jit_step_ms = (min(t.seconds) * 1e3 for t in (eager, compiled))


def compare_memory(data: Digits, training: Training, report: Report) -> None:
    """What the compiled step was to need, and the most that was in use while one ran."""
    x, y = next(data.batches(0))
    assert isinstance(training.step, Jitted)
    report.predicted_peak_bytes = training.step.memory(x, y).peak
    given = sum(int(t.nbytes) for t in (x.type, y.type, *(v.type for v in training.variables())))
    buffer.reset_peak()
    before = buffer.statistics().allocated
    training.step(x, y)
    report.measured_peak_bytes = given + buffer.statistics().peak - before


def show(report: Report, console: Console) -> None:
    """Print the report as a table."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
    good = report.accuracy >= REQUIRED_ACCURACY
    table.add_row("test accuracy", f"{_mark(good)} {report.accuracy:.4f}",
                  f"on {digits.TESTED} digits held back; {REQUIRED_ACCURACY} is required")
    table.add_row("weights' bits", f"{_mark(report.bits_agree)} {'agree' if report.bits_agree else 'differ'}",
                  f"{', '.join(report.weights)}\nSHA-256 after {len(report.losses)} epochs: "
                  f"{report.weights['eager'][:12]}…")
    table.add_row("step, eager", f"{report.eager_step_ms:.2f} ms", f"the first {report.eager_first_step_ms:.0f} ms")
    table.add_row("step, compiled", f"{report.jit_step_ms:.2f} ms", f"the first {report.jit_first_step_ms:.0f} ms; "
                  f"{report.eager_step_ms / report.jit_step_ms:.1f} × as fast as eager")
    table.add_row("memory of a step", readable(report.predicted_peak_bytes),
                  f"known before it ran; measured {readable(report.measured_peak_bytes)}")
    table.add_row("time", f"{report.total_seconds:.1f} s", f"training {report.train_seconds:.1f} s")
    console.print(table)
    if not report.passed:
        for name, value in report.weights.items():
            console.print(f"  {name}: {value}")


def _mark(good: bool) -> str:
    return "[green]✓[/]" if good else "[red]✗[/]"


def write(report: Report, path: Path) -> None:
    """Write the report as JSON."""
    try:
        path.write_text(json.dumps(asdict(report), indent=2) + "\n")
    except OSError as fault:
        raise DeviceError(f"demo: a file that can be written is required for --json; got {path}: {fault.strerror}; "
                          "name another") from None
