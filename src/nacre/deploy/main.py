"""The outer part of an executable for its program: `main`, the description that it reads, and its help.

The native code is in `deploy/executable`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from nacre.base.dims import LIMIT, Dim
from nacre.base.dtypes import DType, bfloat16, bool_
from nacre.base.types import TensorType
from nacre.deploy.executable.codes import DONE, FAILED, MISUSED, UNSUPPORTED
from nacre.deploy.executable.layouts import ArrayDescription, ProgramDescription, SizeRule
from nacre.deploy.library import Interface
from nacre.deploy.process import outermost
from nacre.deploy.sizes import SizeArithmetic, solvers
from nacre.deploy.strings import string
from nacre.deploy.target import CompileTarget
from nacre.native.llvm_values import Operand, Val
from nacre.native.python.cached import cached_module
from nacre.native.python.initial import at, constant_rows
from nacre.native.text import Function, ModuleText

WIDTH = 80  # characters of a line of help


def main_texts(about: Interface, aim: CompileTarget, version: str) -> list[str]:
    """The texts of `main`, with the program's description, and of everything that it needs to use files."""
    module = ModuleText(f"{about.name} main")
    f = module.function("main", "i32", {"count": "i32", "arguments": "ptr"}, attributes=outermost(aim))
    described = _description(module, about, aim, version)
    f.ret(f.call("nacre.main", "i32", [described, f["count"], f["arguments"]]))
    return [module.text(), cached_module("nacre.deploy.executable.main", ("main",), aim.target)]


def _description(module: ModuleText, about: Interface, aim: CompileTarget, version: str) -> Val:
    """Write the description of a program; returns its address."""
    values, axes = len(about.types), sum(t.rank for t in about.types)
    module.declare(f"{about.name}_error", "ptr", ["i32"])
    _call(module, about, aim)
    _axes(module, about, aim)

    def memory(name: str, kind: str, count: int) -> Any:
        """The address of zeros that a run fills."""
        return at(module.variable(f"program.{name}", f"[{max(1, count)} x {kind}]"))

    def function(name: str) -> Any:
        return at(Val(f"@{name}", "ptr"))

    texts = {name: at(string(module, f"program.{name}", text)) for name, text in _texts(about, aim, version).items()}
    description = ProgramDescription(
        **texts,
        inputs=len(about.input_types),
        arrays=values,
        sizes=len(about.symbols),
        about=at(_arrays(module, about)),
        rules=at(_rules(module, about)),
        files=memory("files", "i32", len(about.input_types)),
        bases=memory("bases", "ptr", values),
        file_axes=memory("file_axes", "i64", axes),
        axes=memory("axes", "i64", axes),
        size_values=memory("sizes", "i64", len(about.symbols)),
        write_axes=function("program.write_axes"),
        call=function("program.call"),
        error=function(f"{about.name}_error"),
    )
    return constant_rows(module, "program.description", [description])


def _call(module: ModuleText, about: Interface, aim: CompileTarget) -> None:
    """Write `program.call`: the program on the memory of arrays, with a workspace of its own."""
    f = module.function("program.call", "i32", {"bases": "ptr", "sizes": "ptr"}, attributes=outermost(aim))
    nothing = [Val("null", "ptr"), Val("0", "i64")]
    f.ret(f.call("core.call", "i32", [f["bases"], *_loaded(f, about), *nothing]))


def _axes(module: ModuleText, about: Interface, aim: CompileTarget) -> None:
    """Write `program.write_axes`: the axes of all arrays, one after the other, from the sizes."""
    f = module.function("program.write_axes", "void", {"sizes": "ptr", "axes": "ptr"}, attributes=outermost(aim))
    a = SizeArithmetic(f, {s.name: n for s, n in zip(about.symbols, _loaded(f, about), strict=True)})
    axes: list[Operand] = [a.size(n) for t in about.types for n in t.shape]
    for k, n in enumerate(axes):
        f.store(a.value(n), f.gep(f["axes"], k, "i64"))
    f.ret()


def _loaded(f: Function, about: Interface) -> list[Val]:
    return [f.load(f.gep(f["sizes"], k, "i64"), "i64") for k in range(len(about.symbols))]


def _spellings(dtype: DType) -> tuple[str, str]:
    """NumPy's spellings of a dtype, the one for writing first."""
    if dtype is bfloat16:
        return "<V2", "|V2"
    if dtype is bool_:
        return "|b1", "|b1"
    if dtype.is_storage:  # NumPy writes some of them with a spelling that it does not read
        written = dtype.numpy.str
        return ("<V1", "|V1") if written == "<V1" else ("|V1", written)
    order, code = "|" if dtype.itemsize == 1 else "<", dtype.numpy.str[1:]
    return order + code, "=" + code


def _arrays(module: ModuleText, about: Interface) -> Val:
    """The descriptions of all inputs and outputs."""
    rows: list[ArrayDescription] = []
    first = 0
    for k, t in enumerate(about.types):
        texts = (_shown(t), *_spellings(t.dtype))
        shown, one, two = (string(module, f"program.array{k}.{j}", text) for j, text in enumerate(texts))
        rows.append(
            ArrayDescription(
                type=at(shown),
                dtype=at(one),
                other_dtype=at(two),
                item_bytes=t.dtype.itemsize,
                rank=t.rank,
                first_axis=first,
            )
        )
        first += t.rank
    return constant_rows(module, "program.arrays", rows)


def _rules(module: ModuleText, about: Interface) -> Val:
    """How the inputs' axes determine the sizes."""
    owner = [k for k, t in enumerate(about.input_types) for _ in t.shape]
    known = solvers(about.input_types)
    rows: list[SizeRule] = []
    for s in about.symbols:
        axis, factor, offset = known[s]
        rows.append(SizeRule(axis=axis, input=owner[axis], factor=factor, offset=offset, low=s.low, high=s.high))
    return constant_rows(module, "program.rules", rows)


def _shown(t: TensorType) -> str:
    """A type and the bounds of its sizes: `f32[batch, 64] (batch from 1 to 512)`."""
    found = sorted({s for n in t.shape if isinstance(n, Dim) for s in n.symbols()}, key=lambda s: s.name)
    bounds = [f"{s.name} from {s.low}{'' if s.high >= LIMIT else f' to {s.high}'}" for s in found]
    return f"{t} ({', '.join(bounds)})" if bounds else str(t)


def _texts(about: Interface, aim: CompileTarget, version: str) -> dict[str, str]:
    """The texts that an executable prints of itself."""
    files = " ".join(f"{n.upper()}.npy" for n in (*about.input_names, *about.output_names))
    usage = _lines(f"usage: {about.name} {files}", 7)
    return {
        "name": about.name,
        "usage": usage + f"{about.name}: give {len(about.types)} files; see {about.name} --help\n",
        "version": f"{about.name} (compiled by Nacre {version} for {aim.name}: {aim.target.cpu}, {aim.target.isa})\n",
        "help": usage
        + "\n"
        + "".join(
            [
                *_described("reads", about.input_names, about.input_types),
                *_described("writes", about.output_names, about.output_types),
                "\n",
                *(_lines(text, 2) for text in HELP),
            ]
        ),
    }


HELP = (
    "A file is NumPy's .npy, in C order; - is standard input or output.",
    "NACRE_NUM_THREADS says how many threads to use; the results have the same bits for any number.",
    f"Exit status: {DONE} done, {FAILED} failed, {MISUSED} wrong arguments or files, "
    f"{UNSUPPORTED} this processor lacks instructions.",
)


def _described(verb: str, names: Sequence[str], types: Sequence[TensorType]) -> list[str]:
    return [_lines(f"{verb:6} {n.upper()}.npy  {_shown(t)}", 7) for n, t in zip(names, types, strict=True)]


def _lines(text: str, hanging: int) -> str:
    """A text as lines that fit a terminal; those after the first are `hanging` blanks in."""
    return (
        textwrap.fill(text, WIDTH, subsequent_indent=" " * hanging, break_long_words=False, break_on_hyphens=False)
        + "\n"
    )
