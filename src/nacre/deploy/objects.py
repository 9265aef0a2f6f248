"""A program as one object file: kernels, driver, pool, weights and interface, linked as LLVM modules.

Only the functions of the interface are visible outside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256

from nacre.deploy import library
from nacre.deploy.ahead import prepacked
from nacre.deploy.image import filled
from nacre.deploy.library import Interface
from nacre.deploy.process import process_texts
from nacre.deploy.program import ProgramWriter
from nacre.deploy.target import CompileTarget
from nacre.native.engine import compile_together
from nacre.native.pool import pool_text
from nacre.native.python.cached import cached_module
from nacre.native.text import ModuleText
from nacre.runtime.executable import Code, Executable
from nacre.runtime.texts import driver_text


def program_object(
    about: Interface, executable: Executable, aim: CompileTarget, outer: Sequence[str] = (), public: Sequence[str] = ()
) -> bytes | bytearray:
    """The object of a compiled program; `outer` are further modules, `public` are the functions that stay visible."""
    executable = prepacked(executable)
    codes = [distinct(code) for code in executable.codes]
    module = ModuleText(about.name)
    writer = ProgramWriter(
        module, executable.plan, executable.input_types, [c.name for c in codes], executable.constants
    )
    writer.write()
    texts = list(dict.fromkeys(c.text for c in codes))
    if executable.plan.failures:
        texts.append(cached_module("nacre.deploy.executable.failure", ("write_failure",), aim.target))
    texts += [driver_text(aim.target), pool_text(aim.target), *process_texts(aim)]
    image = compile_together(
        [*texts, module.text(), library.library_text(about, aim, bool(executable.plan.failures)), *outer],
        aim.target,
        public,
    )
    return filled(image, writer.weights) if writer.weights else image


def distinct(code: Code) -> Code:
    """A kernel under names that no other kernel has."""
    mark = sha256(code.text.encode()).hexdigest()[:16]
    defined = re.findall(r"^define (?!internal|private).*?@([\w.]+)\(", code.text, re.MULTILINE)
    pattern = r"@(" + "|".join(map(re.escape, defined)) + r")(?![\w.])"
    return Code(re.sub(pattern, rf"@\1.{mark}", code.text), f"{code.name}.{mark}")
