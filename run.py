#!/usr/bin/env python3
"""Set Nacre up and run it: one file, the standard library alone, Python 3.11 or newer.

    python3 run.py demo [...]      train a small network on real digits, and show what is promised; where no C
                                   compiler is installed, the package ziglang is, which links its executable
    python3 run.py test [...]      run the tests, as many at a time as there are processors; --all adds the slow ones,
                                   --exhaustive runs the long tables alone and goes on where it stopped; the rest
                                   goes to pytest (-n 0 runs them in one process)
    python3 run.py peers [...]     compare Nacre with PyTorch, JAX and others: tests/peers, or the files that are named
    python3 run.py lint            ruff, its formatter, and pyright
    python3 run.py docs [--check]  write the generated parts of docs/ anew, or check that they are up to date
    python3 run.py figures [NAME]  make the pictures of docs/ from real runs; those of times only by name
    python3 run.py site [...]      build the documents and the reference of all public names: build/site/index.html;
                                   --screenshots FOLDER also takes pictures of ten pages
    python3 run.py bench NAME ...  run benchmarks/NAME.py
    python3 run.py conformance PATH [--examples N] [MODULE ...]
                                   run the array API standard's test suite, a checkout at PATH, and count its results
    python3 run.py setup           only install

The first use makes `.venv` beside this file and installs what the command needs into it, by the pip of the Python
that runs this file and so by its settings (index, proxy, certificates).  `peers` has an environment of its own,
`.venv-peers`.  Nothing is installed anywhere else.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

NEEDED = (3, 11)
ROOT = Path(__file__).resolve().parent
SHARED = ("--numprocesses", "auto", "--dist", "worksteal")  # how tests are shared among processes
EXTRAS: dict[str, set[str]] = {
    "demo": {"demo"},
    "test": {"demo", "test"},
    "peers": {"test", "peers"},
    "lint": {"lint"},
    "docs": {"test"},
    "figures": {"demo"},
    "site": {"docs"},
    "bench": set(),
    "conformance": {"conformance"},
    "setup": {"demo", "test", "lint"},
}


class Environment(NamedTuple):
    """A folder with a Python and with packages of its own."""

    home: Path

    @property
    def python(self) -> Path:
        return self.home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def stamp(self) -> Path:
        """The file that tells what the last complete installation was made from."""
        return self.home / "nacre-setup.json"


USUAL = Environment(ROOT / ".venv")
ENVIRONMENTS = {"peers": Environment(ROOT / ".venv-peers")}  # of commands that do not use the usual one


class SetupError(Exception):
    """Something that this file needs is missing; the message says what to do."""


def find_pip() -> list[str]:
    """The command that runs a pip able to install into another environment (22.3 or newer)."""
    old = ""
    base = Path(sys.base_prefix) / "bin" / "python3"  # where this Python is an environment's, the one it was made from
    for command in ([sys.executable, "-m", "pip"], [str(base), "-m", "pip"], ["pip3"]):
        if shutil.which(command[0]) is None:
            continue
        asked = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            version = asked.stdout.split()[1]
            if tuple(map(int, version.split(".")[:2])) >= (22, 3):
                return command
            old = old or f"; {' '.join(command)} is {version}"
    raise SetupError(
        f"setup: pip 22.3 or newer is required; this Python has none{old}; install it (on Debian and "
        "Ubuntu: apt-get install python3-pip; elsewhere: python3 -m ensurepip --user) and run this again"
    )


def pip_for(environment: Environment) -> list[str]:
    """A command that installs into the environment; where there is no pip at all, the one that Python may carry."""
    python = str(environment.python)
    try:
        return [*find_pip(), "--python", python]
    except SetupError:
        carried = subprocess.run([python, "-m", "ensurepip"], capture_output=True, check=False)
        if carried.returncode:
            raise
        return [python, "-m", "pip"]


def fingerprint() -> list[str]:
    """What an installation depends on: this Python, and the project file."""
    return [
        f"{sys.version_info[0]}.{sys.version_info[1]}",
        hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest(),
    ]


def installed(environment: Environment) -> tuple[list[str], set[str]]:
    """The fingerprint and the extras of the last complete installation; empty where there is none."""
    try:
        stamp = json.loads(environment.stamp.read_text(encoding="utf-8"))
        return (list(stamp["fingerprint"]), set(stamp["extras"])) if environment.python.exists() else ([], set())
    except (OSError, ValueError, KeyError):
        return [], set()


def set_up(wanted: Iterable[str], environment: Environment) -> None:
    """Make the environment have these extras; quick where it has them already."""
    now, (made_from, have) = fingerprint(), installed(environment)
    wanted = set(wanted)
    if made_from == now and wanted <= have:
        return
    extras = sorted(wanted | have)
    named = f"[{','.join(extras)}]" if extras else ""
    print(f"setup: installing nacre{named} into {environment.home} (the first time takes a minute) ...", flush=True)
    if made_from[:1] != now[:1]:
        venv.EnvBuilder(clear=True, symlinks=os.name != "nt", with_pip=False).create(environment.home)
    environment.stamp.unlink(missing_ok=True)
    result = subprocess.run(
        [
            *pip_for(environment),
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            "--editable",
            f".{named}",
        ],
        cwd=ROOT,
        check=False,
    )
    if result.returncode:
        raise SetupError(
            "setup: pip could not install what pyproject.toml asks for (its words are above); check the "
            "network, HTTPS_PROXY, and the index that `pip config list` shows, then run this again"
        )
    environment.stamp.write_text(json.dumps({"fingerprint": now, "extras": extras}), encoding="utf-8")


def linking() -> set[str]:
    """The extra that links executables, where no compiler driver of this system does."""
    has_one = os.environ.get("NACRE_CC") or any(map(shutil.which, ("cc", "gcc", "clang")))
    return set() if has_one else {"deploy"}


def commands(name: str, rest: Sequence[str]) -> list[list[str]]:
    """The arguments of Python behind a command, line by line; they run in turn, in the project's folder."""
    if name == "setup":
        return []
    if name == "lint":
        types = ["-m", "pyright", "-p", "pyproject.toml", "--pythonpath", str(USUAL.python)]
        return [["-m", "ruff", "check", *rest, "."], ["-m", "ruff", "format", "--check", "."], types]
    if name == "bench":
        return [script(rest)]
    if name == "peers":
        chosen = any((ROOT / word.partition("::")[0]).exists() for word in rest)
        return [["-m", "pytest", *SHARED, *([] if chosen else ["tests/peers"]), *rest]]
    if name == "conformance":  # a path may be relative to the folder of the caller
        rest = [str(Path(word).resolve()) if Path(word).is_dir() else word for word in rest]
    begin = {
        "demo": ["-m", "nacre.cli.main", "demo"],
        "test": ["-m", "pytest", *SHARED],
        "docs": ["docs/generate.py"],
        "figures": ["docs/pictures/make.py"],
        "site": ["docs/website/build.py"],
        "conformance": ["tests/conformance.py"],
    }
    return [[*begin[name], *rest]]


def script(rest: Sequence[str]) -> list[str]:
    """The benchmark that is named, and its arguments."""
    known = sorted(p.stem for p in (ROOT / "benchmarks").glob("*.py"))
    if not rest or rest[0] not in known:
        raise SetupError(
            f"bench: the name of a benchmark is required; got {rest[0] if rest else 'none'!r}; "
            f"there are {', '.join(known)}"
        )
    return [f"benchmarks/{rest[0]}.py", *rest[1:]]


def main(arguments: Sequence[str]) -> int:
    """Run a command; the exit status is that of the first part that fails."""
    if sys.version_info < NEEDED:
        print(
            f"run.py: Python {NEEDED[0]}.{NEEDED[1]} or newer is required; this is "
            f"{sys.version.split()[0]}; run it with a newer one",
            file=sys.stderr,
        )
        return 2
    if not arguments or arguments[0] not in EXTRAS:
        print(__doc__)
        return 0 if arguments and arguments[0] in ("-h", "--help", "help") else 2
    name, rest = arguments[0], arguments[1:]
    environment = ENVIRONMENTS.get(name, USUAL)
    try:
        set_up(EXTRAS[name] | (linking() if name == "demo" else set()), environment)
        lines = [[str(environment.python), *line] for line in commands(name, rest)]
        failures = [code for line in lines if (code := subprocess.call(line, cwd=ROOT))]
    except SetupError as fault:
        print(fault, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return failures[0] if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
