"""`nacre demo`: train on real digits, kill and resume, build an executable, and compare the bits of all runs."""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from nacre import __version__
from nacre.api.creation import asarray
from nacre.api.random import generator
from nacre.api.settings import get_threads, set_threads
from nacre.base.errors import CompileError, MissingExtra
from nacre.base.records import dataclass
from nacre.cli import drawing, layout, outputs
from nacre.cli.demo import program, training
from nacre.cli.demo.training import KILLED_AFTER, elsewhere, hashed, killed, ready, trained
from nacre.cli.grammar import Parser
from nacre.data import TensorDataset
from nacre.examples import Run, digits
from nacre.inspect import machine
from nacre.native.engine import host_target
from nacre.nn.module import Module
from nacre.runtime import buffer
from nacre.runtime.buffer import readable
from nacre.trace.modes import gradients
from nacre.transform.jit import Jitted, jit

DONE, FAILED, UNCHECKED = 0, 1, 3
REQUIRED_ACCURACY = 0.97
TIMED_STEPS = 30
DRAWN = 4  # misread digits that are shown
BAR = 16  # characters of a progress bar
NAME, VALUE = 17, 11  # characters of the columns of names and values
MARKS: dict[bool | None, tuple[str, str]] = {True: ("✓", "green"), False: ("✗", "red"), None: ("–", "yellow")}

Show = Callable[..., object]
Row = tuple[bool | None, str, str, str]  # whether a check passed, a name, a value and a remark


@dataclass
class Report:
    """The results of the demo; written by --json.  Times of steps are the least of several, in milliseconds.

    `weights` has the SHA-256 of the weights after the same training, done in several ways; `scores` has that of the
    network's answers for the test images.  `bits_agree` is true if all hashes of weights and all hashes of answers are
    equal.  It is null if they are equal but something could not be run; `not_checked` has its name and the reason.
    """

    version: str
    isa: str
    threads: int
    epochs: int
    accuracy: float = 0.0
    accuracy_required: float = REQUIRED_ACCURACY
    bits_agree: bool | None = False
    not_checked: dict[str, str] = field(default_factory=dict[str, str])
    weights: dict[str, str] = field(default_factory=dict[str, str])
    scores: dict[str, str] = field(default_factory=dict[str, str])
    misread: list[dict[str, int]] = field(default_factory=list[dict[str, int]])
    eager_first_step_ms: float = 0.0
    eager_step_ms: float = 0.0
    jit_first_step_ms: float = 0.0
    jit_step_ms: float = 0.0
    second_process_first_step_ms: float = 0.0
    predicted_peak_bytes: int = 0
    measured_peak_bytes: int = 0
    updates: int = 0
    killed_after_update: int = 0
    resumed_after_update: int = 0
    executable_bytes: int | None = None
    executable_ms: float | None = None
    losses: list[float] = field(default_factory=list[float])
    train_seconds: float = 0.0
    compile_seconds: float = 0.0
    total_seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.bits_agree is True and self.accuracy >= REQUIRED_ACCURACY

    @property
    def status(self) -> int:
        """The exit status: 0 for passed; 1 for failed; 3 where checks were skipped and all others passed."""
        if self.passed:
            return DONE
        return UNCHECKED if self.bits_agree is None and self.accuracy >= REQUIRED_ACCURACY else FAILED

    def judge(self) -> None:
        """Decide whether the bits agree."""
        agree = len(set(self.weights.values())) == 1 and len(set(self.scores.values())) == 1
        self.bits_agree = (None if self.not_checked else True) if agree else False


EXAMPLES = (
    ("nacre demo", "train for 20 epochs and check everything"),
    ("nacre demo --epochs 8 --json demo.json", "take less time, and write the results to a file"),
)


def arguments(command: Parser) -> None:
    """Add this command's arguments."""
    command.add_output("--json", metavar="FILE", help="also write the results to a file")
    command.add_argument(
        "--epochs",
        type=_positive,
        default=digits.EPOCHS,
        metavar="N",
        help="passes over the training images (default: %(default)s)",
    )
    command.sections.append(
        (
            "exit status",
            (
                ("0", f"the accuracy is at least {REQUIRED_ACCURACY} and all bits agree"),
                ("1", "the accuracy is too low, or bits differ"),
                ("3", "some checks were skipped, such as the executable without a linker; all others passed"),
            ),
        )
    )


def _positive(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"a whole number from 1 is required; got {text!r}")
    return number


def run(given: argparse.Namespace, console: Console) -> int:
    """Run the demo; its exit status is that of `Report.status`."""
    start = time.perf_counter()
    report = Report(__version__, host_target().isa, get_threads(), given.epochs)
    training, held = digits.split()
    layout.show(console, f"Nacre {__version__} on {report.isa}, {_threads(report.threads)}", "bold")
    layout.show(
        console,
        layout.wrapped(f"A convolutional network learns to read {len(training):,} handwritten digits.", console.width),
    )
    console.print()
    columns = (
        TextColumn("  {task.description}"),
        BarColumn(bar_width=BAR),
        Seconds(),
        TextColumn("{task.fields[note]}"),
    )
    with tempfile.TemporaryDirectory(prefix="nacre-demo-") as folder, Progress(*columns, console=console) as progress:
        work = Demo(report, held, Path(folder), progress)
        work.steps()
        model = work.train()
        work.kill_and_resume()
        work.train_otherwise()
        work.answer(model)
    report.judge()
    report.total_seconds = time.perf_counter() - start
    console.print()
    show(report, console)
    if report.misread:
        console.print()
        layout.show(console, "Misread digits\n", "bold")
        layout.show(console, misread(report, held, console))
    if given.json is not None:
        write(report, given.json)
    return report.status


class Seconds(ProgressColumn):
    """The time that a task has taken so far, or took."""

    def render(self, task: Task) -> Text:
        """The time in seconds."""
        return Text(f"{(task.finished_time if task.finished else task.elapsed) or 0:5.1f} s")


class Demo:
    """The parts of the demo; each fills in its part of the report."""

    def __init__(self, report: Report, held: TensorDataset, folder: Path, progress: Progress) -> None:
        self.report, self.folder, self.progress = report, folder, progress
        self.images, self.classes = held.arrays

    def _task(self, name: str, total: float, note: str = "") -> Show:
        """Add a progress bar; the returned function sets its progress and its note."""
        task = self.progress.add_task(name, total=total, note=note)

        def move(done: float, note: str = "") -> None:
            self.progress.update(task, completed=done)
            if note:
                self.progress.update(task, note=note)

        return move

    # ---- steps

    def steps(self) -> None:
        """Time a few steps, eagerly and compiled in turn, and measure the memory of a compiled step."""
        report, move = self.report, self._task("time single steps", TIMED_STEPS + 1)
        eager, compiled = ready(report.epochs, compiled=False), ready(report.epochs)
        batch = next(iter(eager.training))
        report.eager_first_step_ms, report.jit_first_step_ms = (_timed(r, batch) for r in (eager, compiled))
        times: list[tuple[float, float]] = []
        for k in range(TIMED_STEPS):
            times.append((_timed(eager, batch), _timed(compiled, batch)))
            report.eager_step_ms, report.jit_step_ms = map(min, zip(*times, strict=True))
            move(k + 1, f"eager {report.eager_step_ms:.2f} ms, compiled {report.jit_step_ms:.2f} ms")
        step = compiled.trainer.step.whole
        assert isinstance(step, Jitted)
        report.predicted_peak_bytes = step.memory(*batch).peak
        report.measured_peak_bytes = measured_peak(compiled, batch)
        move(TIMED_STEPS + 1)

    # ---- trainings

    def train(self) -> Module:
        """Train eagerly, then compiled from the same start."""
        report = self.report
        made: list[Run] = []
        for name in ("eager", "compiled"):
            start = time.perf_counter()
            made.append(self._training(f"train, {name}", name == "compiled"))
            report.train_seconds = time.perf_counter() - start
            report.weights[name] = hashed(made[-1].trainer.model)
        compiled = made[-1].trainer
        report.losses = [float(row["loss"]) for row in compiled.history.rows]
        report.updates = compiled.updates
        return compiled.model

    def _training(self, name: str, compiled: bool = True) -> Run:
        """A whole training with a progress bar."""
        move = self._task(name, 1)
        made = ready(
            self.report.epochs, compiled=compiled, seen=lambda update, loss: move(update / total, f"loss {loss:.4f}")
        )
        total = self.report.epochs * len(made.training)  # type: ignore[arg-type]
        return trained(made, self.report.epochs)

    def kill_and_resume(self) -> None:
        """Train in another process, kill it midway, and resume in a third process."""
        report, folder = self.report, self.folder / "killed"
        move = self._task("train, kill, resume", report.updates)
        after = max(training.SAVE_EVERY, int(KILLED_AFTER * report.updates)) if report.updates > 1 else 1
        report.killed_after_update = killed(folder, report.epochs, min(after, report.updates - 1), move)
        move(report.killed_after_update, f"killed at step {report.killed_after_update}")
        found = elsewhere(folder, report.epochs)
        report.resumed_after_update, report.second_process_first_step_ms = found.began_after, found.first_step_ms
        report.weights["killed and resumed"] = found.weights
        move(report.updates, f"killed at step {report.killed_after_update}, resumed")

    def train_otherwise(self) -> None:
        """Train with other numbers of threads, and with another instruction set if this machine has one."""
        before = get_threads()
        try:
            for count in (1, max(2, before)):
                set_threads(count)
                made = self._training(f"train, {_threads(count)}")
                self.report.weights[_threads(count)] = hashed(made.trainer.model)
        finally:
            set_threads(before)
        other = machine.other_isa()
        if other is not None:
            move = self._task(f"train, {other}", 1)
            found = elsewhere(self.folder / other, self.report.epochs, NACRE_ISA=other)
            self.report.weights[other] = found.weights
            move(1)

    # ---- answers

    def answer(self, model: Module) -> None:
        """The network's answers for the test images: eager, compiled, and from an executable."""
        report = self.report
        move = self._task("make an executable", 3, "compiling")
        model.eval()
        with gradients(False):
            answers = {"eager": _scores(model, self.images), "compiled": _scores(jit(model), self.images)}
        read = answers["compiled"].argmax(1)
        report.accuracy = float((read == self.classes).mean())
        report.misread = [
            {"image": int(k), "is": int(self.classes[k]), "read_as": int(read[k])}
            for k in np.flatnonzero(read != self.classes)
        ]
        start = time.perf_counter()
        try:
            made = program.compiled(model, self.folder)
        except (MissingExtra, CompileError) as fault:  # no linker on this machine
            report.not_checked["executable"] = str(fault)
            move(3, "not possible here")
        else:
            report.compile_seconds = time.perf_counter() - start
            report.executable_bytes = made.size
            move(1, "running")
            answers["executable"] = program.scores(made.path, self.images)
            move(2, "running")
            report.executable_ms = program.milliseconds(made.path, self.images[:1])
            move(3, readable(made.size))
        report.scores = {name: hashlib.sha256(found.tobytes()).hexdigest() for name, found in answers.items()}


def _timed(run: Run, batch: Any) -> float:
    """One step's time in milliseconds."""
    start = time.perf_counter()
    run.trainer.step.train([batch], True)
    return (time.perf_counter() - start) * 1e3


def _scores(model: Callable[..., Any], images: np.ndarray) -> np.ndarray:
    found: np.ndarray = model(asarray(images)).numpy()
    return found


def measured_peak(run: Run, batch: Any) -> int:
    """The peak of memory while a step runs: the batch, the variables, and the allocations of the step."""
    trainer = run.trainer
    variables = [
        *trainer.model.parameters(),
        *trainer.model.buffers(),
        *trainer.optimizer.variables(),
        generator().state,
    ]
    given = sum(int(t.nbytes) for t in (*(x.type for x in batch), *(v.type for v in variables)))
    buffer.reset_peak()
    before = buffer.statistics().allocated
    trainer.step.train([batch], True)
    return given + buffer.statistics().peak - before


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


# ---- output


def misread(report: Report, held: TensorDataset, console: Console) -> str:
    """Some of the misread digits, drawn."""
    chosen = report.misread[:DRAWN]
    images = [held.arrays[0][m["image"], 0] for m in chosen]
    captions = [f"a {m['is']}, read as {m['read_as']}" for m in chosen]
    return drawing.gallery(images, captions, console.width, console.encoding.lower().startswith("utf"))


def show(report: Report, console: Console) -> None:
    """Print the report: the checks first, then speed and size; the hashes if bits differ."""
    _section(console, "Checks", list(_checks(report)))
    console.print()
    _section(console, "Speed and size", list(_figures(report)), marked=False)
    if report.bits_agree is False:
        console.print()
        _section(console, "Hashes", [])
        for kind, hashes in (("weights", report.weights), ("answers", report.scores)):
            for name, value in hashes.items():
                layout.show(console, f"  {kind}, {name}:\n    {value}")


def _checks(report: Report) -> Iterator[Row]:
    right = report.accuracy >= REQUIRED_ACCURACY
    read = f"{digits.HELD_BACK - len(report.misread)} of {digits.HELD_BACK} unseen digits are read correctly"
    yield right, "test accuracy", f"{report.accuracy:.4f}", f"{read}; at least {REQUIRED_ACCURACY} is required"
    for name, verb, hashes in (
        ("same weights", "trained", report.weights),
        ("same answers", "answered", report.scores),
    ):
        agree = len(set(hashes.values())) == 1
        remark = f"{verb} in {len(hashes)} ways: {', '.join(hashes)}"
        if agree:
            remark += f"; SHA-256 {next(iter(hashes.values()))[:12]}"
        yield agree, name, "to the bit" if agree else "no", remark
    for name, reason in report.not_checked.items():
        yield None, name, "not checked", reason
    yield (
        True,
        "kill and resume",
        f"step {report.resumed_after_update:,}",
        f"killed by SIGKILL, resumed at this step of {report.updates:,}; the first step took "
        f"{report.second_process_first_step_ms:.0f} ms with kernels from the cache",
    )


def _figures(report: Report) -> Iterator[Row]:
    faster = report.eager_step_ms / report.jit_step_ms
    yield None, "step, eager", f"{report.eager_step_ms:.2f} ms", f"the first: {report.eager_first_step_ms:.0f} ms"
    yield (
        None,
        "step, compiled",
        f"{report.jit_step_ms:.2f} ms",
        f"{faster:.1f} × as fast as eager; the first, with compilation: {report.jit_first_step_ms:.0f} ms",
    )
    yield (
        None,
        "memory of a step",
        readable(report.predicted_peak_bytes),
        f"known before the first run; measured: {readable(report.measured_peak_bytes)}",
    )
    if report.executable_bytes is not None:
        yield (
            None,
            "executable",
            readable(report.executable_bytes),
            f"needs no Python; compiled in "
            f"{report.compile_seconds:.1f} s; starts and reads a digit in {report.executable_ms:.1f} ms",
        )
    of_training = f"of the demo; one training: {report.train_seconds:.1f} s"
    yield None, "time", f"{report.total_seconds:.1f} s", of_training


def _section(console: Console, title: str, rows: Sequence[Row], marked: bool = True) -> None:
    """Print rows under a title; remarks wrap in their column."""
    layout.show(console, title, "bold")
    width = min(console.width, layout.WIDEST)
    for good, name, value, remark in rows:
        mark, style = MARKS[good]
        line = Text("  ")
        if marked:
            line.append(f"{mark} ", style)
        line.append(name.ljust(NAME))
        line.append(value.rjust(VALUE), style if marked else "bold")
        column = line.cell_len + layout.GAP
        first, *rest = layout.wrapped(remark, width, column)
        line.append(" " * layout.GAP + first.lstrip())
        console.print(line, soft_wrap=True)
        if rest:
            layout.show(console, rest)


def write(report: Report, path: Path) -> None:
    """Write the report as JSON."""
    outputs.write(path, json.dumps(asdict(report), indent=2) + "\n", "demo", "--json")
