"""The order of the package: its layers, no cycles, rooms that keep apart, names, lengths, imports at the top."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "nacre"
LAYERS = (  # the lowest first; rooms of one layer do not import from each other
    ("base",),
    ("native", "kernel"),
    ("runtime", "ir"),
    ("trace",),
    ("ops",),
    ("interpret",),
    ("codegen",),
    ("compile",),
    ("transform", "api"),
    ("nn",),
    ("optim", "optimize", "data", "formats"),
    ("inspect", "deploy"),
    ("train",),
    ("examples",),
    ("cli",),
)
APART = (("codegen.gemm", "codegen.convolution", "codegen.loops"),)  # rooms inside of rooms that keep apart, too
MODULES_ALONE = {"adaptive_softmax", "base", "containers", "recurrent", "transformer"}  # layers of no single function
FUNCTIONS_ALONE = {"composite", "grid"}  # functions of no layer
LIMIT, FUNCTION_LIMIT, FOLDER_LIMIT = 500, 60, 24  # lines of files and of functions, files in a folder
LONG = {  # files that are longer, up to their limit, and why
    "api/tensor.py": (650, "one class with all of its operators and methods"),
    "nn/module.py": (610, "one class with PyTorch's methods"),
}
LONG_FUNCTIONS: dict[str, tuple[int, str]] = {}  # the same, of functions, by file and name
MOST_EXCEPTIONS = 10  # of both kinds together
SHARED_CLASS_NAMES = {  # public class names that stand for two things, and why
    "Buffer": "memory, a kernel's storage, and PyTorch's name for a module's tensor",
    "Function": "a function of LLVM text, and PyTorch's name for an operation with a custom derivative",
    "Linear": "a derivative that is linear, and PyTorch's name for a layer",
    "Writer": "the writer of a nest, and the protocol of training logs",
}
FILES = sorted(ROOT.rglob("*.py"))


def module(path: Path) -> str:
    return ".".join(("nacre", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


MODULES = {module(p): p for p in FILES}


@cache
def imports(path: Path) -> dict[str, bool]:
    """The package's modules that a file imports, and whether at the top."""
    found: dict[str, bool] = {}
    text = path.read_text()
    whole, lines = ast.parse(text), text.splitlines()
    top = set(map(id, whole.body))
    for node in ast.walk(whole):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [
                f"{node.module}.{a.name}" if f"{node.module}.{a.name}" in MODULES else node.module for a in node.names
            ]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "LateModule":
            found.setdefault(ast.literal_eval(node.args[0]), True)  # it stands at the top, and is imported later
        for name in names:
            if name.startswith("nacre"):
                placed = id(node) in top or "noqa: PLC0415 - " in lines[node.lineno - 1]  # or it says why not
                found[name] = found.get(name, True) and placed
    return found


def room(name: str) -> str:
    """The room of a module: the first part of its name below the package."""
    return (name.split(".") + ["", ""])[1]


def layer(name: str) -> int:
    """The number of a module's layer; the package itself, which loads late, lies below all."""
    return next((k for k, rooms in enumerate(LAYERS) if room(name) in rooms), -1)


@pytest.mark.parametrize("path", [p for p in FILES if p.parent != ROOT], ids=module)
def test_imports_come_from_layers_below_and_stand_at_the_top(path: Path) -> None:
    here = module(path)
    for name, at_top in imports(path).items():
        assert at_top or "TYPE_CHECKING" in path.read_text(), f"{name} is imported inside a function"
        below = layer(name) < layer(here) or room(name) == room(here)
        assert below, f"{here} imports {name}, which is not in a layer below"


def test_files_beside_the_rooms_are_namespaces_of_the_api() -> None:
    """`nacre/fft.py` and its like are the package's own: they give a module of `api` the name that users import."""
    for path in FILES:
        if path.parent == ROOT and path.name != "__init__.py":
            assert set(imports(path)) == {"nacre", f"nacre.api.{path.stem}"} and path.read_text().count("\n") < 15


def test_every_room_has_a_layer() -> None:
    rooms = {p.relative_to(ROOT).parts[0] for p in FILES if p.parent != ROOT}
    assert rooms == {r for rooms in LAYERS for r in rooms}


def test_the_architecture_page_lists_the_layers_in_order() -> None:
    page = (ROOT.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    assert tuple(tuple(re.findall(r"`(\w+)`", row)) for row in rows) == LAYERS


@pytest.mark.parametrize("rooms", APART, ids=", ".join)
def test_rooms_keep_apart(rooms: tuple[str, ...]) -> None:
    for one, other in combinations([f"nacre.{r}." for r in rooms], 2):
        for name, path in MODULES.items():
            for from_, to in ((one, other), (other, one)):
                taken = [n for n in imports(path) if name.startswith(from_) and n.startswith(to)]
                assert taken == [], f"{name} imports {taken}"


def test_modules_and_functions_of_networks_have_the_same_files() -> None:
    modules, functions = ({p.stem for p in (ROOT / "nn" / d).glob("[!_]*.py")} for d in ("modules", "functional"))
    assert modules - MODULES_ALONE == functions - FUNCTIONS_ALONE
    assert not [n for p in (ROOT / "nn" / "functional").glob("*.py") for n in imports(p) if ".nn.modules" in n]


def test_no_private_name_is_imported_from_another_room() -> None:
    found: list[str] = []
    for path in FILES:
        here, modules = room(module(path)), {}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nacre"):
                for a in node.names:
                    modules[a.asname or a.name] = f"{node.module}.{a.name}"
                    if _private(a.name) and room(f"{node.module}.") != here:
                        found.append(f"{module(path)}: {node.module}.{a.name}")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and _private(node.attr):
                home = modules.get(node.value.id, "")
                if home in MODULES and room(home) != here:
                    found.append(f"{module(path)}: {home}.{node.attr}")
    assert found == []


def _private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def test_public_class_names_are_unique() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for name, path in MODULES.items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    assert {name: found for name, found in homes.items() if len(found) > 1}.keys() == SHARED_CLASS_NAMES.keys()


def test_folders_have_two_dozen_files_at_most() -> None:
    tests = sorted((ROOT.parents[1] / "tests").rglob("*.py"))
    counts = {folder: len(list(folder.glob("*.py"))) for folder in {p.parent for p in (*FILES, *tests)}}
    assert [str(folder) for folder, count in counts.items() if count > FOLDER_LIMIT] == []


def test_no_cycles() -> None:
    edges = {m: {n for n in imports(p) if n in MODULES and n != m} for m, p in MODULES.items() if m != "nacre"}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"import cycle: {' -> '.join((*path, name))}"
        if name not in done:
            for other in edges.get(name, ()):
                visit(other, (*path, name))
            done.add(name)

    for name in edges:
        visit(name, ())


@pytest.mark.parametrize("path", FILES, ids=module)
def test_files_and_functions_are_short_and_files_say_what_they_are(path: Path) -> None:
    text, name = path.read_text(), path.relative_to(ROOT).as_posix()
    assert text.count("\n") <= LONG.get(name, (LIMIT, ""))[0]
    for function, lines in _functions(ast.parse(text)):
        assert lines <= LONG_FUNCTIONS.get(f"{name}:{function}", (FUNCTION_LIMIT, ""))[0], f"{function} is too long"
    if path.name != "__init__.py" or text.strip():
        assert ast.get_docstring(ast.parse(text)), f"{path} needs a first docstring line"


def _functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The functions of a file with their numbers of lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_every_exception_is_needed() -> None:
    """Exceptions are few, files and functions that are short are not listed, and each has a reason."""
    assert len(LONG) + len(LONG_FUNCTIONS) <= MOST_EXCEPTIONS
    texts = {p.relative_to(ROOT).as_posix(): p.read_text() for p in FILES}
    assert [n for n, (_, why) in LONG.items() if not why or texts.get(n, "").count("\n") <= LIMIT] == []
    long = {
        f"{n}:{f}" for n, text in texts.items() for f, lines in _functions(ast.parse(text)) if lines > FUNCTION_LIMIT
    }
    assert long == LONG_FUNCTIONS.keys()


def test_llvmlite_is_imported_in_one_place() -> None:
    users = [
        module(p)
        for p in FILES
        if "llvmlite" in p.read_text()
        and "import" in p.read_text()
        and any("llvmlite" in line and "import" in line for line in p.read_text().splitlines())
    ]
    assert users == ["nacre.native.llvm"]


def test_dataclasses_are_made_in_one_place() -> None:
    assert [p for p in FILES if re.search(r"from dataclasses import .*\bdataclass\b", p.read_text())] == []


def _texts_of_the_locale(path: Path) -> list[str]:
    """Calls that read or write text in whatever encoding the locale has."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        of_module = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
        if name == "open" and of_module:
            continue  # os.open
        if name not in ("open", "read_text", "write_text") or any(k.arg == "encoding" for k in node.keywords):
            continue
        modes = [
            a.value
            for a in [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "mode")]
            if isinstance(a, ast.Constant)
        ]
        if name != "open" or not any("b" in str(mode) for mode in modes):
            found.append(f"{path.name}:{node.lineno}: {name}")
    return found


def test_texts_have_an_encoding() -> None:
    root = Path(__file__).parents[2]
    files = [root / "run.py", *(p for part in ("src", "docs", "benchmarks") for p in (root / part).rglob("*.py"))]
    assert [line for path in files for line in _texts_of_the_locale(path)] == []


@pytest.mark.parametrize("path", FILES, ids=module)
def test_text_is_compiled_before_it_runs(path: Path) -> None:
    """Ctrl-C in `exec` or `eval` of a text makes the process end by SIGINT at its exit, even if it was handled."""
    calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id in ("exec", "eval"):
            given = call.args[0]
            assert isinstance(given, ast.Call) and isinstance(given.func, ast.Name) and given.func.id == "compile"
