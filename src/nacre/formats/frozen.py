"""Programs as files: the graph as text and the weights by name, in one safetensors file that other readers open too.

The file's metadata hold `format` (nacre-program), `version`, `graph` (the text of `ir/text`), and `structure` (the form
of the result).  `inputs`, `outputs` and `weights` are names as JSON lists, the weights in the graph's order.
A file with operations from outside the package has `primitives`, their versions by name in JSON.  A file of a graph
with named intermediates has `names`: by name the number of the value, of the inputs and then the results in order.
Weights of a dtype that safetensors does not have are in the form that `carried` describes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from nacre.base import tree
from nacre.base.errors import ArgumentError, GraphError
from nacre.formats.carried import carried, restored
from nacre.formats.freezing import DynamicShapes, free_name, require_no_host_calls
from nacre.formats.program import Program, freeze
from nacre.formats.safetensors import File, opened, save
from nacre.ir.graph import Graph, Var
from nacre.ir.parse import parse
from nacre.ir.primitive import Primitive, known_primitive
from nacre.ir.text import print_graph

__all__ = [
    "load_program",
    "save_program",
]

FORMAT, VERSION = "nacre-program", "1"
FIELDS = ("format", "version", "graph", "inputs", "outputs", "weights", "structure")
DEEPEST = 50


def save_program(
    function: Any, path: str | os.PathLike[str], *examples: Any, dynamic_shapes: DynamicShapes | None = None
) -> Program:
    """Freeze a function or model on example arguments (or take a `Program`), write it to a file, and return the
    program.

    `examples` and `dynamic_shapes` are those of `freeze`.  The write is atomic.  Raises the errors of `freeze`,
    ArgumentError for a host call, or an operation of `nacre.primitive` without a version, and DeviceError if the file
    cannot be written.

    >>> _ = nc.save_program(nn.Linear(3, 2).eval(), "linear.safetensors", nc.ones((4, 3)))
    >>> nc.load_program("linear.safetensors")
    <graph Linear(x: f32[4, 3]) -> (output: f32[4, 2]), 2 weights>
    """
    program = freeze(function, *examples, dynamic_shapes=dynamic_shapes)
    require_no_host_calls("save_program", program.graph)
    versions = {p.name: p.version for p in _outside(program.graph)}
    unversioned = sorted(name for name, version in versions.items() if not version)
    if unversioned:
        raise ArgumentError(
            f"save_program: an operation from outside must have a version to be saved; {unversioned[0]} has none; pass "
            'version="1" to nc.primitive, and another one whenever a rule changes'
        )
    listed = {
        "inputs": program.inputs,
        "outputs": program.outputs,
        "weights": list(program.weights),
        "structure": _described(program.structure),
    }
    if versions:
        listed["primitives"] = dict(sorted(versions.items()))
    if program.named:
        numbers = {v: k for k, v in enumerate(_values(program.graph))}
        listed["names"] = {name: numbers[v] for name, v in program.named.items()}
    texts = {name: json.dumps(value) for name, value in listed.items()}
    about = {"format": FORMAT, "version": VERSION, "graph": print_graph(program.graph), **texts}
    save(carried(program.weights), path, about)
    return program


def load_program(path: str | os.PathLike[str]) -> Program:
    """Read a program from a file; it takes tensors and gives the bits of the original function.

    Raises ArgumentError or GraphError, with the reason, for any other file, and for one with an operation of
    `nacre.primitive` that is not defined, or has another version.  Nothing in a file is run as Python.

    >>> _ = nc.save_program(lambda x: x * 2, "twice.safetensors", nc.ones(2))
    >>> nc.load_program("twice.safetensors")(nc.tensor([1.0, 5.0])).tolist()
    [2.0, 10.0]
    """
    with opened(Path(path)) as file:
        missing = [name for name in FIELDS if name not in file.metadata]
        if missing:
            raise _wrong(path, f"it has no {missing[0]}")
        form, version = file.metadata["format"], file.metadata["version"]
        if form != FORMAT:
            raise _wrong(path, f"its format is {form[:40]!r}")
        if version != VERSION:
            raise _wrong(path, f"its version is {version[:20]!r}; this Nacre reads {VERSION}; use a newer Nacre")
        try:
            return _program(path, file)
        except (ValueError, RecursionError) as fault:
            if isinstance(fault, ArgumentError | GraphError):
                raise
            raise _wrong(path, str(fault)) from None


def _program(path: str | os.PathLike[str], file: File) -> Program:
    versions = _versions(path, file.metadata.get("primitives", "{}"))
    graph = parse(file.metadata["graph"])
    unnamed = sorted(p.name for p in _outside(graph) if p.name not in versions)
    if unnamed:
        raise _wrong(path, f"it has no version of {unnamed[0]}, an operation from outside")
    inputs, outputs, weights = (_names(path, file.metadata, name) for name in ("inputs", "outputs", "weights"))
    structure = _structure(json.loads(file.metadata["structure"]), 0)
    if sorted(weights) != sorted(file.entries) or len(inputs) + len(weights) != len(graph.inputs):
        raise _wrong(path, "its names differ from those of the graph's inputs and of its tensors")
    if len(outputs) != len(graph.outputs) or structure.leaves != len(outputs):
        raise _wrong(path, "its names differ from those of the graph's outputs")
    taken = graph.inputs[len(inputs) :]
    weights_by_name = {name: restored(file.tensor(name), v.type) for name, v in zip(weights, taken, strict=True)}
    for name, v in zip(weights, taken, strict=True):
        if weights_by_name[name].type is not v.type:
            raise _wrong(path, f"the graph takes {v.type} for {name}, which is {weights_by_name[name].type}")
    weights_by_name = {free_name(n, (*inputs, *(set(weights) - {n}))): x for n, x in weights_by_name.items()}
    named = _named(path, file.metadata.get("names", "{}"), graph, {*inputs, *weights_by_name})
    return Program(graph, inputs, outputs, weights_by_name, structure, named)


def _values(graph: Graph) -> list[Var]:
    """The values of a graph: its inputs, then the results of its equations in order."""
    return [*graph.inputs, *(v for e in graph.equations for v in e.outputs)]


def _named(path: str | os.PathLike[str], text: str, graph: Graph, taken: set[str]) -> dict[str, Var]:
    """The named values of a graph."""
    found, values = json.loads(text), _values(graph)
    if not isinstance(found, dict):
        raise _wrong(path, "its names are not numbers of values by name")
    named: dict[str, Var] = {}
    for name, number in cast("dict[str, object]", found).items():
        if type(number) is not int or not 0 <= number < len(values):
            raise _wrong(path, f"{name[:80]!r} is not the name of one of its {len(values)} values")
        if name in taken or not name:
            raise _wrong(path, f"{name[:80]!r} is a name of two values")
        named[name] = values[number]
    return named


def _versions(path: str | os.PathLike[str], text: str) -> dict[str, str]:
    """The versions of a file's operations from outside.  Raises ArgumentError unless they are defined here."""
    found = json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in cast("dict[str, object]", found).values()):
        raise _wrong(path, "its primitives are not versions by name")
    for name, version in cast("dict[str, str]", found).items():
        known = known_primitive(name)
        if known is None or not known.outside:
            raise ArgumentError(
                f"load_program: operations of the program must be defined; {name[:80]} of {os.fspath(path)} is not; "
                "import the module that defines it first"
            )
        if known.version != version:
            raise ArgumentError(
                f"load_program: operations must have the versions that the program was saved with; {name} has version "
                f"{known.version!r}; {os.fspath(path)} needs {version[:80]!r}; save the program again, or import the "
                "module that defines that version"
            )
    return cast("dict[str, str]", found)


def _outside(graph: Graph) -> set[Primitive]:
    """The operations from outside the package in a graph and in the graphs within it."""
    inner = [_outside(p) for e in graph.equations for p in e.params.values() if isinstance(p, Graph)]
    return {e.primitive for e in graph.equations if e.primitive.outside}.union(*inner)


def _wrong(path: str | os.PathLike[str], text: str) -> ArgumentError:
    return ArgumentError(f"load_program: the file must be a program of save_program; {os.fspath(path)} is not: {text}")


def _names(path: str | os.PathLike[str], metadata: Mapping[str, str], name: str) -> tuple[str, ...]:
    found = json.loads(metadata[name])
    if not isinstance(found, list) or not all(isinstance(n, str) for n in cast("list[object]", found)):
        raise _wrong(path, f"its {name} are not a list of names")
    names = cast("list[str]", found)
    if len(set(names)) != len(names):
        raise _wrong(path, f"a name occurs twice in its {name}")
    return tuple(names)


# ---- structures: "*" a leaf, null None, ["tuple" or "list", children …], {key: child …}


def _described(structure: tree.Structure) -> Any:
    if structure.kind is None:
        return "*"
    if structure.kind is type(None):
        return None
    children = [_described(c) for c in structure.children]
    if structure.kind is dict:
        return dict(zip(map(str, cast("tuple[Any, ...]", structure.data)), children, strict=True))
    return [structure.kind.__name__, *children]


def _structure(found: Any, depth: int) -> tree.Structure:
    if depth > DEEPEST:
        raise ValueError("its structure is nested too deeply")
    if found == "*":
        return tree.LEAF
    if found is None:
        return tree.Structure(type(None))
    if isinstance(found, dict):
        weights_by_name = cast("dict[str, Any]", found)
        return tree.Structure(
            dict, tuple(weights_by_name), tuple(_structure(c, depth + 1) for c in weights_by_name.values())
        )
    items = cast("list[Any]", found) if isinstance(found, list) else []
    if not items or items[0] not in ("tuple", "list"):
        raise ValueError("its structure must consist of tuples, lists and dictionaries")
    return tree.Structure(
        {"tuple": tuple, "list": list}[items[0]], None, tuple(_structure(c, depth + 1) for c in items[1:])
    )
