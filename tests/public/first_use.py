"""A server that runs pieces of programs, each in a separate process that has imported no more than a script would.

It reads one piece a line, as JSON, and forks for it: the child has imported the standard library and NumPy, and
nothing of Nacre.  The answer is one line, the error or an empty text.
"""

from __future__ import annotations

import doctest
import json
import multiprocessing
import os
import pickle
import sys
import traceback
from typing import Any

import ml_dtypes
import numpy

BEFORE = multiprocessing, pickle, ml_dtypes, numpy  # imported here, once for all children


def attempt(piece: dict[str, Any]) -> str:
    """Run a piece, plain code or a docstring's examples; returns the error, if any."""
    assert not [name for name in sys.modules if name.startswith("nacre")]
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (the process ends soon)
    known: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(piece["before"], known)
        if piece["examples"]:
            test = doctest.DocTestParser().get_doctest(piece["code"], known, "example", None, 0)
            said: list[str] = []
            found = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=said.append)
            return "".join(said) if found.failed else ""
        exec(piece["code"], known)
    except BaseException:
        return traceback.format_exc(limit=-4)
    return ""


def main() -> None:
    """Answer pieces until there are no more."""
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(2, 1)
            with open(writing, "w") as answer:
                json.dump(attempt(json.loads(line)), answer)
            os._exit(0)
        os.close(writing)
        with open(reading) as answer:
            said = answer.read() or json.dumps("the process ended without an answer")
        os.waitpid(child, 0)
        print(said, flush=True)


if __name__ == "__main__":
    main()
