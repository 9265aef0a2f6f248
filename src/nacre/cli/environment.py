"""The environment variables that Nacre reads: one table for the help and for the documents."""

from __future__ import annotations

from nacre.base.records import dataclass
from nacre.native.isa import BY_NAME


@dataclass(frozen=True)
class EnvironmentVariable:
    """An environment variable: its values, its default, and its effect."""

    name: str
    values: str
    default: str
    effect: str


VARIABLES = (
    EnvironmentVariable(
        "NACRE_ISA",
        ", ".join(BY_NAME),
        "the best one that the processor has",
        "The instruction set of generated code. Results do not depend on it.",
    ),
    EnvironmentVariable(
        "NACRE_NUM_THREADS",
        "1 to 256",
        "the number of allowed processors",
        "The number of threads, in Python and in compiled programs. Results do not depend on it.",
    ),
    EnvironmentVariable(
        "NACRE_CACHE_DIR",
        "a folder, or off",
        "nacre in XDG_CACHE_HOME",
        "The folder for compiled code. With off, nothing is kept on disk.",
    ),
    EnvironmentVariable(
        "NACRE_CACHE_SIZE",
        "a size, such as 200M or 1G",
        "512M",
        "The size limit of the folder for compiled code. The files used longest ago are removed first.",
    ),
    EnvironmentVariable(
        "NACRE_TUNE",
        "0, 1",
        "0",
        "With 1, every compilation also measures the kernels' tuning options, as nacre tune does.",
    ),
    EnvironmentVariable(
        "NACRE_VERIFY",
        "0, 1",
        "0",
        "With 1, each compilation verifies the graph, the kernels and the plan behind every pass. "
        "For those who change the compiler.",
    ),
    EnvironmentVariable(
        "NACRE_PROGRESS", "0, 1", "1", "With 0, a terminal does not show a line of progress during long compilations."
    ),
    EnvironmentVariable(
        "NACRE_CC",
        "a command",
        "cc, gcc, clang, or the package ziglang",
        "The C compiler that links executables and shared libraries.",
    ),
    EnvironmentVariable(
        "XDG_CACHE_HOME",
        "a folder",
        "~/.cache",
        "The folder that holds the cache folder nacre, unless NACRE_CACHE_DIR is set.",
    ),
    EnvironmentVariable(
        "COLUMNS", "a number", "the width of the terminal, or 80", "The width of what the commands print."
    ),
    EnvironmentVariable(
        "NO_COLOR", "anything", "not set", "If set, the commands print plain text, as with --no-color."
    ),
)
