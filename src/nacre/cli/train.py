"""`nacre train`: train an example, with checkpoints, logs and a report; resume it to the same bits."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from nacre import examples
from nacre.base.errors import ArgumentError
from nacre.cli import layout, outputs
from nacre.cli.grammar import Parser
from nacre.cli.suggestions import nearest
from nacre.examples import Settings
from nacre.train.log import Writer
from nacre.train.mlflow import MLflow
from nacre.train.tensorboard import TensorBoard

RUNS = Path("runs")


EXAMPLES = (
    ("nacre train", "list the examples"),
    ("nacre train digits", "train a network on handwritten digits; results go to runs/digits"),
    ("nacre train digits --resume", "continue after an interruption, to the same bits"),
)


def arguments(command: Parser) -> None:
    """Add this command's arguments."""
    command.add_argument(
        "example", nargs="?", metavar="EXAMPLE", help=f"one of {', '.join(examples.names())} (without one: list them)"
    )
    command.add_argument("--epochs", type=int, metavar="N", help="epochs in all (default: the example's)")
    command.add_argument(
        "--seed", type=int, default=0, metavar="N", help="the seed of all random numbers (default: %(default)s)"
    )
    command.add_output(
        "--out",
        folder=True,
        metavar="DIR",
        help="the folder for checkpoints, logs and the report (default: runs/EXAMPLE)",
    )
    command.add_argument(
        "--resume", action="store_true", help="continue from the last checkpoint in the folder, if there is one"
    )
    command.add_argument(
        "--save-every", type=int, metavar="N", help="also save after every N updates (default: after every epoch only)"
    )
    command.add_argument("--tensorboard", action="store_true", help="also write events for TensorBoard into DIR/events")
    command.add_argument("--mlflow", metavar="NAME", help="also write to the MLflow experiment of this name")
    command.add_argument("--eager", action="store_true", help="run without compiling; the results are the same")
    command.add_output("--json", metavar="FILE", help="also write the results to a file")


def run(given: argparse.Namespace, console: Console) -> int:
    """Train, and print the example's results."""
    if given.example is None:
        listed = [(name, examples.title(name)) for name in examples.names()]
        layout.show(console, layout.definitions(listed, console.width, indent=0))
        return 0
    if given.example not in examples.names():
        raise ArgumentError(unknown(given.example))
    start = time.perf_counter()
    example = examples.load(given.example)
    epochs: int = example.EPOCHS if given.epochs is None else given.epochs
    if epochs < 1 or not 0 <= given.seed < 1 << 32:
        raise ArgumentError(f"train: positive epochs and a seed in [0, 2^32) are required; got {epochs}, {given.seed}")
    out: Path = given.out or RUNS / given.example
    outputs.require(out, "train", "--out", folder=True)
    options: dict[str, Any] = {
        "out": out,
        "jit": not given.eager,
        "progress": console,
        "save_every": given.save_every,
        "hint": again(given, out),
        "writers": writers(given, out),
    }
    ready = example.build(Settings(given.seed, epochs, options))
    history = ready.trainer.fit(ready.training, ready.validation, epochs, resume=given.resume)
    results = dict(ready.results())
    rows = [(name, f"{value:.4g}" if isinstance(value, float) else str(value)) for name, value in results.items()]
    layout.show(console, layout.definitions(rows, console.width, indent=0))
    if given.json is not None:
        document = {
            "example": given.example,
            "seed": given.seed,
            "epochs": len(history),
            "out": str(out),
            "updates": ready.trainer.updates,
            "results": results,
            "history": history.rows,
            "seconds": round(time.perf_counter() - start, 3),
        }
        write(given.json, document)
    return 0


def unknown(name: str) -> str:
    """The message for a name that no example has."""
    if name.endswith(".py") or ":" in name:
        return (
            f"train: the name of an example is required: {', '.join(examples.names())}; got {name!r}; run a "
            f"training of your own with python {name.partition(':')[0]}, and use nacre.train.Trainer in it"
        )
    return (
        f"train: the name of an example is required: {', '.join(examples.names())}; got {name!r}"
        f"{nearest(name, examples.names())}"
    )


def writers(given: argparse.Namespace, out: Path) -> list[Writer]:
    """The extra logs that the command line requests."""
    found: list[Writer] = [TensorBoard(out / "events")] if given.tensorboard else []
    parameters = {"example": given.example, "seed": given.seed}
    return [*found, *([MLflow(given.mlflow, parameters=parameters)] if given.mlflow else [])]


def again(given: argparse.Namespace, out: Path) -> str:
    """The command that resumes this one."""
    parts = [f"nacre train {given.example}"]
    parts += [f"--epochs {given.epochs}"] if given.epochs is not None else []
    parts += [f"--seed {given.seed}"] if given.seed else []
    parts += [f"--out {out}"] if given.out else []
    parts += [f"--save-every {given.save_every}"] if given.save_every else []
    parts += ["--tensorboard"] if given.tensorboard else []
    parts += [f"--mlflow {given.mlflow}"] if given.mlflow else []
    parts += ["--eager"] if given.eager else []
    return " ".join([*parts, "--resume"])


def write(path: Path, document: Any) -> None:
    """Write results as JSON."""
    outputs.write(path, json.dumps(document, indent=1) + "\n", "train", "--json")
