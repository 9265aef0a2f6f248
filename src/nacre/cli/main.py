"""The `nacre` command and its subcommands.  Exit status 0: done; 1: a promise failed; 2: wrong use."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence

from rich.console import Console

from nacre.base.errors import Error
from nacre.cli import bench, compile, demo, doctor, explain, train, tune
from nacre.cli import run as run_command

DONE, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130
EPILOG = ("Environment: NACRE_ISA (avx512, avx2, neon), NACRE_NUM_THREADS, NACRE_CACHE_DIR, NACRE_CACHE_SIZE, "
          "NACRE_TUNE (1: search the free choices of what is compiled), NACRE_PROGRESS (0: no line that shows how far "
          "compiling is).")


def parser() -> argparse.ArgumentParser:
    """The command line's grammar; each command sets `run` to its function."""
    top = argparse.ArgumentParser(prog="nacre", description="A machine-learning framework: from tensors to machine "
                                  "code, the same bits everywhere.", epilog=EPILOG)
    top.add_argument("--version", action="store_true", help="print the version and end")
    commands = top.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace, Console], int], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", epilog=EPILOG)
        made.add_argument("--no-color", action="store_true", help="plain text")
        made.set_defaults(run=run)
        return made

    demo.arguments(command("demo", demo.run, "train a small convolutional network on real digits, kill and resume it, "
                           "compile it to an executable, and show what is promised"))
    train.arguments(command("train", train.run, "train an example, and go on where it was interrupted"))
    bench.arguments(command("bench", bench.run, "time well-known workloads, and show every kernel of them under the "
                            "machine's roofline"))
    tune.arguments(command("tune", tune.run, "measure how kernels' work is best cut on this machine, and keep it; the "
                           "bits stay"))
    doctor.arguments(command("doctor", doctor.run, "show the machine and the installation, and check that the bits "
                             "agree"))
    explain.arguments(command("explain", explain.run, "show every stage that a function of a file goes through"))
    compile.arguments(command("compile", compile.run, "compile a function or model to an executable or library"))
    run_command.arguments(command("run", run_command.run, "run an executable or a saved program on .npy files"))
    doctor.cache_arguments(command("cache", doctor.run_cache, "show the compiled code that is kept on disk, or remove "
                                   "it"))
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (by default the process's); the exit status."""
    grammar = parser()
    given = grammar.parse_args(arguments)
    if given.version:
        print(doctor.version_line())
        return DONE
    if not hasattr(given, "run"):
        grammar.print_help()
        return MISUSED
    out: object = sys.stdout
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="replace")  # a terminal that has no ✓ gets a ?
    console = Console(no_color=given.no_color or None, highlight=False)
    try:
        return given.run(given, console)
    except Error as fault:
        print(f"nacre: {fault}", file=sys.stderr)
        return MISUSED
    except KeyboardInterrupt:
        print("nacre: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has gone; keep Python from complaining at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
        return DONE


if __name__ == "__main__":
    sys.exit(main())
