"""The `nacre` command.

Exit status 0: done; 1: a check failed; 2: wrong use, an error in the user's files, or an output that cannot be written;
141: the reader of the output has gone.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

from rich.console import Console

from nacre.base.errors import reason
from nacre.cli import doctor, faults, layout, topics
from nacre.cli.commands import commands
from nacre.cli.grammar import MISUSED
from nacre.cli.suggestions import nearest

DONE, FAILED, INTERRUPTED = 0, 1, 130
CLOSED = 128 + getattr(signal, "SIGPIPE", 13)  # the status that shells report for a program whose reader has gone
UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # errors of an open file or pipe


class Output(Console):
    """A console that leaves the error of a pipe without a reader to `main`."""

    def on_broken_pipe(self) -> None:
        """Let the error pass."""
        raise


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (by default the process's); the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            return _run(words)
        finally:
            _flush()
    except BrokenPipeError:
        _discard()
        return CLOSED
    except OSError as fault:
        _discard()
        _complain(f"nacre: the output must be writable; {reason(fault)}; free space, or write it to another place")
        return MISUSED


def _run(words: Sequence[str]) -> int:
    """Run a command line; the exit status.  Raises OSError where its output cannot be written."""
    made = commands()
    name, rest = split(words, made)
    if name is None:
        if "--version" in words:
            print(doctor.version_line())
            return DONE
        print(topics.overview(made), end="")
        return DONE if {"-h", "--help"} & set(words) else MISUSED
    if name not in made:
        _complain(
            f"nacre: unknown {'option' if name.startswith('-') else 'command'} {name}"
            f"{nearest(name, [*made, '--version', '--help'])}\nRun nacre --help for the list of commands."
        )
        return MISUSED
    given = made[name].parse(rest)
    out: object = sys.stdout
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="replace")  # a terminal without ✓ gets a ?
    console = Output(no_color=given.no_color or None, highlight=False)
    try:
        made[name].require_outputs(given)
        return given.run(given, console)
    except KeyboardInterrupt:
        _complain("nacre: interrupted")
        return INTERRUPTED
    except Exception as fault:
        if isinstance(fault, OSError) and fault.errno in UNWRITABLE and fault.filename is None:
            raise
        message = faults.told(fault, name, given.traceback)
        if message is None:
            raise
        _complain(message)
        return MISUSED


def split(words: Sequence[str], known: Iterable[str]) -> tuple[str | None, list[str]]:
    """The command of a command line, and the other words.  Options may come before it; None where there is none."""
    if not words or (words[0].startswith("-") and {"-h", "--help", "--version"} & set(words[:1])):
        return None, []
    known = set(known)
    at = 0 if not words[0].startswith("-") else next((k for k, word in enumerate(words) if word in known), 0)
    return words[at], [*words[:at], *words[at + 1 :]]


def _flush() -> None:
    """Flush standard output; a process may begin without one."""
    out: object = sys.stdout
    if isinstance(out, io.TextIOBase):
        out.flush()


def _discard() -> None:
    """Redirect standard output to nowhere, so that Python does not report unwritten text at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)


def _complain(text: str) -> None:
    """Write to the error output; a terminal gets lines that fit."""
    if sys.stderr.isatty() or os.environ.get("COLUMNS"):
        width = layout.columns()
        text = "\n".join(
            line if len(line) <= width or line.startswith("    ") else "\n".join(layout.wrapped(line, width))
            for line in text.splitlines()
        )
    with suppress(OSError):  # there may be no room for this either
        print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
