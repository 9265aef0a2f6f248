"""The messages of programs without a conversion, as text files; `python test_messages.py` writes them again."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import nacre as nc
from transform.autograph import wrong
from transform.autograph.wrong import WRONG

FOLDER = Path(__file__).with_name("messages")


def told(name: str) -> str:
    """The error of a program, with its notes; lines are relative to the first line of the function."""
    jitted, arguments = WRONG[name]
    with pytest.raises(nc.Error) as caught:
        jitted(*arguments)
    notes = [note for note in getattr(caught.value, "__notes__", ())]
    text = "\n".join([f"{type(caught.value).__name__}: {caught.value}", *notes])
    text = text.replace(str(Path(wrong.__file__).parent) + "/", "")
    lines = Path(wrong.__file__).read_text().splitlines()

    def relative(found: re.Match[str]) -> str:
        line = int(found[1])
        first = max(k for k in range(line) if lines[k].startswith(("def ", "class ", "exec(")))
        return f"wrong.py:+{line - 1 - first}"

    return re.sub(r"wrong\.py:(\d+)", relative, text) + "\n"


@pytest.mark.parametrize("name", WRONG)
def test_the_message_is_the_reviewed_one(name: str) -> None:
    assert told(name) == (FOLDER / f"{name}.txt").read_text()


def test_each_text_has_a_program() -> None:
    assert {p.stem for p in FOLDER.glob("*.txt")} == set(WRONG)
    assert len(WRONG) >= 30


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.txt"):
        path.unlink()
    for each in WRONG:
        try:
            (FOLDER / f"{each}.txt").write_text(told(each))
        except BaseException as fault:
            sys.stdout.write(f"{each}: {type(fault).__name__} {str(fault)[:200]}\n")
