"""All commands of `nacre`: their grammar, their examples, and the functions that run them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from rich.console import Console

from nacre.cli import bench, compile, completion, doctor, explain, topics, train, tune
from nacre.cli import run as run_command
from nacre.cli.demo import command as demo
from nacre.cli.grammar import Parser, Rows

Run = Callable[[argparse.Namespace, Console], int]


def commands() -> dict[str, Parser]:
    """The grammar of each command, by name; its namespace has the function that runs it as `run`."""
    made: dict[str, Parser] = {}

    def command(name: str, arguments: Callable[[Parser], None], run: Run, summary: str, examples: Rows) -> None:
        parser = made[name] = Parser(name, summary, examples)
        arguments(parser)
        parser.add_shared()
        parser.set_defaults(run=run)

    command(
        "demo",
        demo.arguments,
        demo.run,
        "train a network on real digits, resume it after a kill, make an executable, and compare all bits",
        demo.EXAMPLES,
    )
    command(
        "train", train.arguments, train.run, "train an example, with checkpoints, logs and a report", train.EXAMPLES
    )
    command(
        "bench",
        bench.arguments,
        bench.run,
        "time well-known workloads and compare each kernel with the machine's limits",
        bench.EXAMPLES,
    )
    command(
        "tune",
        tune.arguments,
        tune.run,
        "measure the kernels' tuning options on this machine and keep the best; results stay the same",
        tune.EXAMPLES,
    )
    command(
        "doctor",
        doctor.arguments,
        doctor.run,
        "show the machine and the installation, and run a self-test",
        doctor.EXAMPLES,
    )
    command(
        "explain",
        explain.arguments,
        explain.run,
        "show every compilation stage of a function or model",
        explain.EXAMPLES,
    )
    command(
        "compile",
        compile.arguments,
        compile.run,
        "compile a function or model to an executable, library or object",
        compile.EXAMPLES,
    )
    command(
        "run",
        run_command.arguments,
        run_command.run,
        "run an executable or a saved program on .npy files",
        run_command.EXAMPLES,
    )
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
