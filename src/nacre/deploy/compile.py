"""`compile`: a function or model as an executable, a shared library or an object, weights included."""

from __future__ import annotations

import keyword
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nacre import __version__
from nacre.base.errors import ArgumentError, Error, file_error, reason
from nacre.base.progress import compiling
from nacre.base.records import dataclass
from nacre.compile.pipeline import compile_graph
from nacre.deploy import library, link, main
from nacre.deploy.fold import folded
from nacre.deploy.library import Interface
from nacre.deploy.objects import program_object
from nacre.deploy.sizes import ceiling, solvers
from nacre.deploy.target import CompileTarget, aim
from nacre.formats.freezing import DynamicShapes, require_no_host_calls
from nacre.formats.program import Program, freeze
from nacre.formats.safetensors import replaceable, replacing
from nacre.ir.graph import Equation, Graph
from nacre.ir.rewrite import without_calls

KINDS = ("executable", "shared", "object")
RESERVED_C = frozenset(
    re.findall(
        r"\w+",
        """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    workspace workspace_bytes""",
    )
)


@dataclass(frozen=True)
class Deployed:
    """The written file: its path, its header for libraries and objects, and the program's inputs and outputs."""

    path: Path
    header: Path | None
    kind: str
    target: str
    interface: Interface

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self.path.stat().st_size


def compile(
    function: Any,
    example_inputs: Sequence[Any] = (),
    path: str | os.PathLike[str] = "",
    kind: str = "executable",
    target: str = "host",
    *,
    dynamic_shapes: DynamicShapes | None = None,
    static: bool = False,
) -> Deployed:
    """Compile a function, model or `Program` to a file that needs neither Python nor anything else of Nacre.

    `example_inputs` are tensors or arrays for all inputs; a `Program` needs none.  `kind` is `executable` (reads and
    writes .npy files), `shared` (a library) or `object`.  Libraries and objects have a C header beside them;
    `libgain.so` has functions called `gain_…`.

    `target` is `host` (this processor and those with all its features), `x86-64-v3` (AVX2), `x86-64-v4` (AVX-512),
    `aarch64`, or a machine and C library such as `x86_64-linux-musl`.  `static` executables need no libc.
    `dynamic_shapes` is that of `jit`: sizes that a call may choose within bounds.  Results have the bits of the same
    function run here.

    The write is atomic: the old file stays until the new one is complete.

    Raises MissingExtra if nothing can link for the target, DeviceError if there is no room, and ArgumentError for
    unknown names and for programs with host calls.

        deploy.compile(model.eval(), [nc.zeros((1, 1, 8, 8))], "digits",
                       dynamic_shapes={"x": {0: nc.Dim("batch", min=1, max=512)}})

    >>> made = deploy.compile(lambda x: x * 2, [nc.zeros(3)], "twice.o", "object")
    >>> made.size > 0, made.header.name
    (True, 'twice.h')
    """
    if kind not in KINDS:
        raise ArgumentError(f"deploy: kind must be one of {', '.join(KINDS)}; got {kind!r}")
    if static and kind != "executable":
        raise ArgumentError(f"deploy: static is for executables; got kind {kind!r}")
    place, found = Path(path), aim(target)
    if not os.fspath(path) or not os.path.isdir(place.parent):
        raise ArgumentError(f"deploy: the path must name a file in an existing folder; got {os.fspath(path)!r}")
    if os.path.isdir(place):
        raise ArgumentError(f"deploy: the path must name a file; {place} is a folder; name a file in it")
    replaceable(place, "deploy")
    if kind != "object":
        link.linker(found, static)
    with compiling(place.name):
        return _compiled(function, example_inputs, place, kind, found, target, dynamic_shapes, static)


def _compiled(
    function: Any,
    example_inputs: Sequence[Any],
    place: Path,
    kind: str,
    found: CompileTarget,
    target: str,
    dynamic_shapes: DynamicShapes | None,
    static: bool,
) -> Deployed:
    """Compile a function to a file whose path and target are checked."""
    program = freeze(function, *example_inputs, dynamic_shapes=dynamic_shapes).without_rules()
    require_no_host_calls("deploy", program.graph)
    stem = place.name.split(".")[0]
    about = interface(program, _identifier(stem.removeprefix("lib") if kind == "shared" else stem, set()))
    solvers(about.input_types)
    executable = compile_graph(folded(program.closed), target=found.target).executable
    outer = main.main_texts(about, found, __version__) if kind == "executable" else []
    image = program_object(about, executable, found, outer, ("main",) if outer else about.public)
    header = None if kind == "executable" else place.with_name(f"{about.name}.h")
    if header is None:
        _write(image, place, kind, found, static or found.library == "musl")
    else:
        with replacing(header, "deploy") as made:
            made.write_text(library.header(about, __version__), encoding="utf-8")
            _write(image, place, kind, found, static or found.library == "musl")
    return Deployed(place, header, kind, target, about)


def _write(image: bytes | bytearray, place: Path, kind: str, found: CompileTarget, static: bool) -> None:
    """Write or link the file atomically; the linker's input is a temporary file."""
    if kind == "object":
        with replacing(place, "deploy") as made:
            made.write_bytes(image)
        return
    try:
        with tempfile.TemporaryDirectory(prefix="nacre-") as folder:
            unlinked, linked = Path(folder, "program.o"), Path(folder, place.name)
            unlinked.write_bytes(image)
            link.link(unlinked, linked, found, kind == "shared", static and kind == "executable")
            with replacing(place, "deploy", 0o777) as made:
                shutil.copyfile(linked, made)
    except OSError as fault:
        if isinstance(fault, Error):
            raise
        raise file_error(
            f"deploy: cannot write into the folder for temporary files, {tempfile.gettempdir()}: {reason(fault)}; "
            "set TMPDIR to another",
            fault,
        ) from None


def _everything(graph: Graph) -> Iterator[Equation]:
    """The equations of a graph and of its inner graphs."""
    for e in without_calls(graph).equations:
        yield e
        for p in e.params.values():
            if isinstance(p, Graph):
                yield from _everything(p)


def interface(program: Program, name: str) -> Interface:
    """The names of a program's inputs and outputs as C identifiers."""
    taken = {s.name for t in program.input_types for n in t.shape if not isinstance(n, int) for s in n.symbols()}
    names = [_identifier(n, taken) for n in (*program.inputs, *program.outputs)]
    at = len(program.inputs)
    values = [v.type for e in _everything(program.graph) for v in e.outputs]
    return Interface(
        name,
        tuple(names[:at]),
        tuple(names[at:]),
        program.input_types,
        program.output_types,
        ceiling([*program.graph.input_types, *values]),
    )


def _identifier(text: str, taken: set[str]) -> str:
    """A C identifier for the text that is not in `taken`; it is added there."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII).strip("_") or "program"
    if name[0].isdigit() or name in RESERVED_C or keyword.iskeyword(name):
        name = f"n_{name}"
    free = name
    for k in range(1, len(taken) + 1):
        if free not in taken:
            break
        free = f"{name}_{k}"
    taken.add(free)
    return free
