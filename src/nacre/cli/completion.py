"""`nacre completion`: scripts that let bash, zsh and fish complete commands, options and values."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import Console

from nacre import examples
from nacre.base.records import dataclass
from nacre.cli.grammar import Parser
from nacre.cli.topics import TOPICS
from nacre.deploy.target import names as targets
from nacre.examples.workloads import WORKLOADS

EXAMPLES = (
    ("source <(nacre completion bash)", "complete in this bash; put the line into ~/.bashrc for all"),
    ("nacre completion zsh > ~/.zfunc/_nacre", "for zsh; ~/.zfunc must be in fpath before compinit runs"),
    ("nacre completion fish > ~/.config/fish/completions/nacre.fish", "for fish"),
)
FILES = ("FILE", "DIR", "PROGRAM", "INPUT")  # prefixes of the names of values that are files
VALUES: dict[str, Callable[[], Sequence[str]]] = {  # name of a value → its words
    "EXAMPLE": examples.names,
    "TARGET": targets,
    "WORKLOAD": lambda: list(WORKLOADS),
    "WORKLOAD|FILE.py:FUNCTION": lambda: list(WORKLOADS),
}


@dataclass(frozen=True)
class CompletionEntry:
    """An option with its spellings and help, or an argument, which has none; `words` and files are its values."""

    names: tuple[str, ...]
    takes_value: bool
    words: tuple[str, ...]
    files: bool
    text: str


def arguments(command: Parser) -> None:
    """Add the arguments of `completion`."""
    command.add_argument("shell", metavar="SHELL", choices=list(SHELLS), help=f"one of {', '.join(SHELLS)}")


def run(given: argparse.Namespace, console: Console, commands: Mapping[str, Parser]) -> int:
    """Print a shell's script."""
    print(SHELLS[given.shell](commands), end="")
    return 0


def entries(command: Parser, commands: Mapping[str, Parser]) -> Iterator[CompletionEntry]:
    """The options and arguments of a command that can be completed."""
    for action in command.listed:
        metavar = str(action.metavar or "")
        words = [str(choice) for choice in action.choices or ()]
        words += VALUES[metavar]() if metavar in VALUES else [*commands, *TOPICS] if metavar == "TOPIC" else []
        text = ((action.help or "") % {"default": action.default}).partition(";")[0]
        yield CompletionEntry(
            tuple(action.option_strings),
            bool(action.option_strings) and action.nargs != 0,
            tuple(words),
            any(part.startswith(FILES) for part in metavar.split("|")),
            text,
        )


def bash(commands: Mapping[str, Parser]) -> str:
    """The script for bash."""
    cases: list[str] = []
    for name, command in commands.items():
        found = list(entries(command, commands))
        cases.append(f"    {name})")
        cases.append(f'      words="{" ".join(_words(found))}"')
        cases.append(f"      files={int(any(e.files for e in found if not e.names))}")
        values = [e for e in found if e.takes_value]
        if values:
            cases.append("      case $before in")
            cases += [
                f'        {"|".join(e.names)}) words="{" ".join(e.words)}"; files={int(e.files)} ;;' for e in values
            ]
            cases.append("      esac")
        cases.append("      ;;")
    return f"""_nacre() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words files=0
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$current"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{chr(10).join(cases)}
    *) return ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [ "$files" -eq 1 ]; then
    local IFS=$'\\n'
    COMPREPLY+=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _nacre nacre
"""


def _words(found: Sequence[CompletionEntry]) -> list[str]:
    """All options of a command, and the possible words of its arguments."""
    return [word for e in found for word in (e.names or e.words)]


def zsh(commands: Mapping[str, Parser]) -> str:
    """The script for zsh."""
    listed = "\n".join(f"    {_quoted(f'{name}:{_plain(c.summary)}')}" for name, c in commands.items())
    cases: list[str] = []
    for name, command in commands.items():
        specifications = [s for e in entries(command, commands) for s in _zsh(e)]
        cases.append(f"    {name}) _arguments -s {' '.join(map(_quoted, specifications))} ;;")
    return f"""#compdef nacre

_nacre() {{
  local -a commands=(
{listed}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    _arguments '--help[show this help]' '--version[show the version]'
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{chr(10).join(cases)}
  esac
}}

if [ "$funcstack[1]" = "_nacre" ]; then _nacre "$@"; else compdef _nacre nacre; fi
"""


def _zsh(entry: CompletionEntry) -> list[str]:
    """The specifications for `_arguments` of an option, in each spelling, or of an argument."""
    value = f"({' '.join(entry.words)})" if entry.words else "_files" if entry.files else " "
    if not entry.names:
        return [f"*:argument:{value}"] if entry.words or entry.files else []
    return [f"*{name}[{_plain(entry.text)}]" + (f":value:{value}" if entry.takes_value else "") for name in entry.names]


def fish(commands: Mapping[str, Parser]) -> str:
    """The script for fish."""
    lines = ["complete -c nacre -f"]
    lines += [
        f"complete -c nacre -n __fish_use_subcommand -l {name} -d 'show {text}'"
        for name, text in (("help", "this help"), ("version", "the version"))
    ]
    lines += [
        f"complete -c nacre -n __fish_use_subcommand -a {name} -d {_quoted(c.summary)}" for name, c in commands.items()
    ]
    for name, command in commands.items():
        for entry in entries(command, commands):
            line = [f"complete -c nacre -n '__fish_seen_subcommand_from {name}'"]
            line += [f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in entry.names]
            line += ["-r"] if entry.takes_value else []
            line += ["-F"] if entry.files else []
            line += [f"-a {_quoted(' '.join(entry.words))}"] if entry.words else []
            line += [f"-d {_quoted(entry.text)}"] if entry.names and entry.text else []
            if len(line) > 1:
                lines.append(" ".join(line))
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """A text without the characters that are special in zsh's descriptions."""
    return "".join(" " if c in "[]:\\" else c for c in text)


def _quoted(text: str) -> str:
    """A word in single quotes, valid in all three shells."""
    return "'" + text.replace("'", "'\\''") + "'"


SHELLS: dict[str, Callable[[Mapping[str, Parser]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
