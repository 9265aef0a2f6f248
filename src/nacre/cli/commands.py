"""All commands of `nacre`: their grammar, their examples, and the functions that run them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Protocol

from rich.console import Console

from nacre.cli import bench, compile, completion, doctor, explain, topics, train, tune
from nacre.cli import run as run_command
from nacre.cli.demo import command as demo
from nacre.cli.grammar import Parser, Rows

Run = Callable[[argparse.Namespace, Console], int]


class CommandModule(Protocol):
    """The module of one command: its examples, and the functions that add its arguments and run it."""

    @property
    def EXAMPLES(self) -> Rows:
        """Command lines and their effects."""
        ...

    def arguments(self, command: Parser, /) -> None:
        """Add the command's arguments."""

    def run(self, given: argparse.Namespace, console: Console, /) -> int:
        """Run the command; returns the exit status."""
        ...


COMMANDS: dict[str, tuple[CommandModule, str]] = {  # modules of one command, and its summary
    "demo": (demo, "train a network on real digits, resume it after a kill, make an executable, and compare all bits"),
    "train": (train, "train an example, with checkpoints, logs and a report"),
    "bench": (bench, "time well-known workloads and compare each kernel with the machine's limits"),
    "tune": (tune, "measure the kernels' tuning options on this machine and keep the best; results stay the same"),
    "doctor": (doctor, "show the machine and the installation, and run a self-test"),
    "explain": (explain, "show every compilation stage of a function or model"),
    "compile": (compile, "compile a function or model to an executable, library or object"),
    "run": (run_command, "run an executable or a saved program on .npy files"),
}


def commands() -> dict[str, Parser]:
    """The grammar of each command, by name; its namespace has the function that runs it as `run`."""
    made: dict[str, Parser] = {}

    def command(name: str, arguments: Callable[[Parser], None], run: Run, summary: str, examples: Rows) -> None:
        parser = made[name] = Parser(name, summary, examples)
        arguments(parser)
        parser.add_shared()
        parser.set_defaults(run=run)

    for name, (module, summary) in COMMANDS.items():
        command(name, module.arguments, module.run, summary, module.EXAMPLES)
    command(
        "cache",
        doctor.cache_arguments,
        doctor.run_cache,
        "show or clear the compiled code that is kept on disk",
        doctor.CACHE_EXAMPLES,
    )
    command(
        "completion",
        completion.arguments,
        partial(completion.run, commands=made),
        "print a script that lets a shell complete nacre's commands and options",
        completion.EXAMPLES,
    )
    command(
        "help",
        topics.arguments,
        partial(topics.run, commands=made),
        "show the help of a command, the environment variables, or how types are written",
        topics.HELP_EXAMPLES,
    )
    return made
