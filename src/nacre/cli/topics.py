"""`nacre help`: the help of all commands, of one, and the pages on environment variables and types."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from rich.console import Console

from nacre import __version__
from nacre.base.errors import ArgumentError
from nacre.cli import layout
from nacre.cli.environment import VARIABLES
from nacre.cli.grammar import Parser
from nacre.cli.source import BY_NAME
from nacre.cli.suggestions import nearest

EXAMPLES = (
    ("nacre demo", "see what Nacre does, in about a minute"),
    ("nacre train digits", "train a network on handwritten digits"),
    ("nacre explain model.py:model 'f32[64, 784]'", "show each stage from graph to kernels"),
    ("nacre compile model.py:model 'f32[64, 784]' -o digits", "make an executable that needs no Python"),
)
HELP_EXAMPLES = (
    ("nacre help", "list all commands"),
    ("nacre help train", "show the help of a command"),
    ("nacre help environment", "list the environment variables"),
)
TYPES = (
    ("f32[64, 784]", "two axes with fixed sizes"),
    ("float32[64, 784]", "the same; each type has a long and a short name"),
    ("f32[]", "a number without axes"),
    ("f32[batch:512, 784]", "the first axis has any size from 1 to 512"),
    ("f32[batch:2:512, 784]", "the first axis has any size from 2 to 512"),
)
TOPICS = {"environment": "the environment variables that Nacre reads", "types": "how types are written"}


def arguments(command: Parser) -> None:
    """Add the arguments of `help`."""
    command.add_argument(
        "topic",
        nargs="?",
        metavar="TOPIC",
        help=f"a command, or one of {', '.join(TOPICS)} (default: the list of commands)",
    )


def run(given: argparse.Namespace, console: Console, commands: Mapping[str, Parser]) -> int:
    """Print a page of help."""
    print(page(given.topic, commands), end="")
    return 0


def page(topic: str | None, commands: Mapping[str, Parser]) -> str:
    """The help page of a topic.  Raises ArgumentError for an unknown topic."""
    if topic is None:
        return overview(commands)
    if topic in commands:
        return commands[topic].format_help()
    if topic == "environment":
        return environment()
    if topic == "types":
        return types()
    raise ArgumentError(
        f"help: a command or one of {', '.join(TOPICS)} is required; got {topic!r}"
        f"{nearest(topic, [*commands, *TOPICS])}"
    )


def overview(commands: Mapping[str, Parser]) -> str:
    """The page that lists all commands."""
    width = layout.columns()
    lines = layout.wrapped(f"Nacre {__version__}: a machine-learning framework, from tensors to machine code.", width)
    lines += ["", "examples:"]
    for line, text in EXAMPLES:
        lines += [*layout.wrapped(line, width, 2, 6), *layout.wrapped(text, width, 6)]
    lines += ["", "usage: nacre COMMAND [ARGUMENTS] [OPTIONS]", "", "commands:"]
    lines += layout.definitions([(name, made.summary) for name, made in commands.items()], width)
    lines += [
        "",
        "help:",
        *layout.definitions(
            [
                ("nacre help COMMAND", "examples, arguments and options of a command"),
                *((f"nacre help {topic}", text) for topic, text in TOPICS.items()),
                ("nacre --version", "the version"),
            ],
            width,
        ),
    ]
    return "\n".join(lines) + "\n"


def environment() -> str:
    """The page on environment variables."""
    width = layout.columns()
    lines = ["examples:", "  NACRE_NUM_THREADS=1 nacre doctor", "  NACRE_CACHE_DIR=off nacre demo", "", "variables:"]
    for variable in VARIABLES:
        lines += [
            f"  {variable.name}",
            *layout.wrapped(variable.effect, width, 6),
            *layout.wrapped(f"Values: {variable.values}. Default: {variable.default}.", width, 6),
        ]
    return "\n".join(lines) + "\n"


def types() -> str:
    """The page on types."""
    width = layout.columns()
    lines = [
        "examples:",
        *layout.definitions(TYPES, width),
        "",
        *layout.wrapped(
            "A type is an element type and the sizes of the axes. Quote it, because brackets mean something to the "
            "shell. A name before a size makes the size free: one program then serves all sizes within the bounds.",
            width,
        ),
    ]
    names = [f"{d.name} ({short})" if d.name != short else short for short, d in BY_NAME.items() if d.short == short]
    return "\n".join([*lines, "", "element types:", *layout.wrapped(", ".join(names), width, 2)]) + "\n"
