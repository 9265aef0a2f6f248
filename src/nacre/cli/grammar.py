"""The grammar of a command: options and arguments in any order, help that begins with examples, suggestions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

from nacre.cli import layout, outputs
from nacre.cli.suggestions import nearest

MISUSED = 2  # the exit status for a wrong command line, and for errors in the user's files

FORMS = {"?": "[{}]", "*": "[{} ...]"}  # by the number of times that an argument may be given

Rows = Sequence[tuple[str, str]]


class OpenChoices(tuple[str, ...]):
    """The known values of an argument, to which the user's file may add others."""

    __slots__ = ()


class Parser(argparse.ArgumentParser):
    """The grammar of one command.

    `summary` is a phrase; `examples` are command lines, each with its effect; `sections` are titled rows of words
    and their meanings that end the help.
    """

    def __init__(self, name: str, summary: str, examples: Rows) -> None:
        self.listed: list[argparse.Action] = []
        self.outputs: list[tuple[argparse.Action, dict[str, bool]]] = []  # the files that the command writes
        self.places: list[str] = []  # the form of each argument in the usage
        self.name, self.summary, self.examples = name, summary, examples
        self.about = ""
        self.sections: list[tuple[str, Rows]] = []
        super().__init__(prog=f"nacre {name}", add_help=False, allow_abbrev=False)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add an argument, as argparse does."""
        made = super().add_argument(*names, **options)
        self.listed.append(made)
        if not made.option_strings:
            self.places.append(FORMS.get(str(made.nargs), "{}").format(made.metavar))
        return made

    def add_output(self, *names: str, folder: bool = False, replaced: bool = False, **options: Any) -> None:
        """Add an option that names a file to write, or a folder; it is checked before the command begins."""
        self.outputs.append((self.add_argument(*names, type=Path, **options), {"folder": folder, "replaced": replaced}))

    def require_outputs(self, given: argparse.Namespace) -> None:
        """Raise DeviceError for an output that cannot be written."""
        for action, form in self.outputs:
            held: object = getattr(given, action.dest)
            for path in cast("list[Path]", held if isinstance(held, list) else [held] if held is not None else []):
                if path != outputs.STANDARD:
                    outputs.require(path, self.name, action.option_strings[-1], **form)

    def add_shared(self) -> None:
        """Add the options that all commands have."""
        self.add_argument("--no-color", action="store_true", help="print plain text")
        self.add_argument("--traceback", action="store_true", help="show every frame of an error")
        self.add_argument("-h", "--help", action="help", help="show this help")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words after the command's name; ends the process where they are wrong, and after help."""
        given, unknown = self.parse_known_intermixed_args(words)
        if unknown:
            option = next((w for w in unknown if w.startswith("-") and w != "--"), None)
            if option is None:
                self.error(f"too many arguments: {' '.join(unknown)}")
            name = option.partition("=")[0]
            self.error(f"unknown option {name}{nearest(name, self.options())}")
        return given

    def options(self) -> list[str]:
        """All options, short and long."""
        return [name for action in self.listed for name in action.option_strings]

    def error(self, message: str) -> NoReturn:
        """Report an error in the command line, and end the process."""
        text = f"{self.prog}: {message}\nRun {self.prog} --help for its arguments and options."
        print("\n".join(layout.wrapped(text, layout.columns())), file=sys.stderr)
        sys.exit(MISUSED)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print a page; an error of the output is raised, whereas argparse ignores it."""
        print(message, end="", file=file)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise ArgumentError, with a suggestion, for a value that is not among an argument's choices."""
        choices = [str(choice) for choice in action.choices or ()]
        if choices and value not in choices and not isinstance(action.choices, OpenChoices):
            raise argparse.ArgumentError(
                action, f"one of {', '.join(choices)} is required; got {value!r}{nearest(str(value), choices)}"
            )

    def format_usage(self) -> str:
        """The form of a command line, without its single options."""
        return f"usage: {' '.join([self.prog, *self.places, '[OPTIONS]'])}\n"

    def format_help(self) -> str:
        """The help page: summary, examples, usage, arguments, options, further sections."""
        width = layout.columns()
        lines = [*layout.wrapped(f"{self.summary[0].upper()}{self.summary[1:]}.", width), "", "examples:"]
        for line, text in self.examples:
            lines += [*layout.wrapped(line, width, 2, 6), *layout.wrapped(text, width, 6)]
        lines += ["", self.format_usage().rstrip()]
        if self.about:
            lines += ["", *layout.wrapped(self.about, width)]
        places = [(_form(a), _text(a)) for a in self.listed if not a.option_strings]
        options = [(_form(a), _text(a)) for a in self.listed if a.option_strings]
        for title, rows in (("arguments", places), ("options", options), *self.sections):
            if rows:
                lines += ["", f"{title}:", *layout.definitions(rows, width)]
        return "\n".join(lines) + "\n"


def _form(action: argparse.Action) -> str:
    """The form of an argument in the usage."""
    if not action.option_strings:
        return str(action.metavar)
    value = "" if action.nargs == 0 else f" {action.metavar or str(action.dest).upper()}"
    return ", ".join(action.option_strings) + value


def _text(action: argparse.Action) -> str:
    """The help text of an argument, with its default where the text has a place for it."""
    return (action.help or "") % {"default": action.default}
