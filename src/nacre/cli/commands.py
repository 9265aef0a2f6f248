"""All commands of `nacre`: their grammar, their examples, and the functions that run them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from rich.console import Console

from nacre.cli import bench, compile, completion, doctor, explain, topics, train, tune
from nacre.cli import run as run_command
from nacre.cli.demo import command as demo
from nacre.cli.grammar import Parser, Rows

Run = Callable[[argparse.Namespace, Console], int]


class Command(NamedTuple):
    """A command: the functions that add its arguments and run it, and its help."""

    name: str
    arguments: Callable[[Parser], None]
    run: Run
    summary: str
    examples: Rows


COMMANDS = (
    Command(
        "demo",
        demo.arguments,
        demo.run,
        "train a network on real digits, resume it after a kill, make an executable, and compare all bits",
        demo.EXAMPLES,
    ),
    Command(
        "train", train.arguments, train.run, "train an example, with checkpoints, logs and a report", train.EXAMPLES
    ),
    Command(
        "bench",
        bench.arguments,
        bench.run,
        "time well-known workloads and compare each kernel with the machine's limits",
        bench.EXAMPLES,
    ),
    Command(
        "tune",
        tune.arguments,
        tune.run,
        "measure the kernels' tuning options on this machine and keep the best; results stay the same",
        tune.EXAMPLES,
    ),
    Command(
        "doctor",
        doctor.arguments,
        doctor.run,
        "show the machine and the installation, and run a self-test",
        doctor.EXAMPLES,
    ),
    Command(
        "explain",
        explain.arguments,
        explain.run,
        "show every compilation stage of a function or model",
        explain.EXAMPLES,
    ),
    Command(
        "compile",
        compile.arguments,
        compile.run,
        "compile a function or model to an executable, library or object",
        compile.EXAMPLES,
    ),
    Command(
        "run",
        run_command.arguments,
        run_command.run,
        "run an executable or a saved program on .npy files",
        run_command.EXAMPLES,
    ),
    Command(
        "cache",
        doctor.cache_arguments,
        doctor.run_cache,
        "show or clear the compiled code that is kept on disk",
        doctor.CACHE_EXAMPLES,
    ),
)


def commands() -> dict[str, Parser]:
    """The grammar of each command, by name; its namespace has the function that runs it as `run`."""
    made: dict[str, Parser] = {}
    readers = (  # commands that read the grammar of all commands
        Command(
            "completion",
            completion.arguments,
            partial(completion.run, commands=made),
            "print a script that lets a shell complete nacre's commands and options",
            completion.EXAMPLES,
        ),
        Command(
            "help",
            topics.arguments,
            partial(topics.run, commands=made),
            "show the help of a command, the environment variables, or how types are written",
            topics.HELP_EXAMPLES,
        ),
    )
    for command in (*COMMANDS, *readers):
        parser = made[command.name] = Parser(command.name, command.summary, command.examples)
        command.arguments(parser)
        parser.add_shared()
        parser.set_defaults(run=command.run)
    return made
