"""Names of other libraries: errors say what they are called here, and what the errors and the documents name exists."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim
from nacre.base import hints
from nacre.base.porting.functions import NACRE
from nacre.base.porting.keywords import KEYWORDS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("from_pytorch.md", "from_jax.md", "from_numpy.md")
X = nc.tensor([[1.0, 2.0], [3.0, 4.0]])
MODEL = nn.Linear(2, 2)
OPTIMIZER = optim.SGD(MODEL.parameters(), lr=0.1)
KNOWN: dict[str, Any] = {
    "nacre": nc, "nc": nc, "nn": nn, "F": nn.functional, "optim": optim, "data": nc.data, "train": nc.train,
    "random": nc.random, "x": X, "y": X, "model": MODEL, "optimizer": OPTIMIZER, "opt": OPTIMIZER,
    "p": MODEL.weight, "loss": nc.tensor(1.0).requires_grad_(), "schedule": optim.StepLR(OPTIMIZER, 1),
}  # fmt: skip
FOUND = {"Tensor": X, "Module": MODEL, "Optimizer": OPTIMIZER}


def names_in(text: str) -> set[str]:
    """The dotted names in a text that begin with something of Nacre's."""
    return set(re.findall(rf"(?<![\w.])(?:{'|'.join(KNOWN)})(?:\.[A-Za-z_]\w*)+", text))


def without_imports(text: str) -> str:
    """A text without the imports in it, whose names must exist."""

    def found(match: re.Match[str]) -> str:
        assert hasattr(import_module(match[1]), match[2]), match[0]
        return ""

    return re.sub(r"\bfrom ([\w.]+) import (\w+)", found, text)


def unresolved(names: set[str]) -> list[str]:
    """The names that stand for nothing."""
    lost: list[str] = []
    for name in sorted(names):
        first, *rest = name.split(".")
        held = KNOWN[first]
        for word in rest:
            if not hasattr(held, word):
                lost.append(name)
                break
            held = getattr(held, word)
    return lost


ENTRIES = [(place, name, code) for place, table in hints.PLACES.items() for name, code in table.items()]
ENTRIES += [("keyword", name, code) for name, code in KEYWORDS.items()]


@pytest.mark.parametrize(("place", "name", "code"), ENTRIES, ids=lambda v: str(v)[:20])
def test_what_a_hint_names_exists_and_the_foreign_name_does_not(place: str, name: str, code: str) -> None:
    assert unresolved(names_in(without_imports(code))) == []
    if place in FOUND:
        assert not hasattr(FOUND[place], name)
    elif place != "keyword" and name not in ("compile", "trace", "library"):  # packages of Nacre's
        held: Any = KNOWN["nacre"]
        for word in place.split(".")[1:]:
            held = getattr(held, word)
        assert not hasattr(held, name)


def test_a_table_has_a_name_once() -> None:
    for path in (Path(hints.__file__).parent / "porting").glob("*.py"):
        tables = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Dict)]
        for table in tables:
            keys = " ".join(str(key.value) for key in table.keys if isinstance(key, ast.Constant))
            assert [name for name, count in Counter(keys.split()).items() if count > 1] == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("nc.gelu", "write nacre.nn.functional.gelu"),
        ("nc.randn", "write nacre.random.normal(shape)"),
        ("nc.cuda", "CPU"),
        ("nc.concatt", "did you mean nacre.concat?"),
        ("nn.linear", "write nacre.nn.functional.linear"),
        ("nn.Conv2D", "write nacre.nn.Conv2d"),
        ("nn.init.normal", "did you mean nacre.nn.init.normal_?"),
        ("nn.functional.Linear", "write nacre.nn.Linear"),
        ("optim.adam", "did you mean nacre.optim.Adam?"),
        ("optim.lr_scheduler", "nacre.optim.CosineAnnealingLR"),
        ("nc.random.PRNGKey", "write nacre.random.key(seed)"),
        ("nc.data.Dataloader", "did you mean nacre.data.DataLoader?"),
        ("X.cuda()", "CPU"),
        ("X.sort()", "write nacre.sort(x)"),
        ("X.equal(X)", "write nacre.array_equal(x, y)"),
        ("X.split(2)", "write nacre.split(x, indices)"),
        ("X.unique()", "nacre.unique_values(x)"),
        ("X.data_ptr()", "x.numpy()"),
        ("X.histogram()", "write nacre.histogram(x, ...)"),
        ("MODEL.weight.data.normal_()", "nacre.nn.init.normal_(p)"),
        ("MODEL.weight.normal_()", "nacre.nn.init.normal_(p)"),
        ("MODEL.bias.data.zero_()", "nacre.nn.init.zeros_(p)"),
        ("MODEL.bias.data.fill_(1)", "nacre.nn.init.constant_(p, v)"),
        ("nn.utils.rnn.pack_padded_sequence", "nacre.nn.pack_padded_sequence"),
        ("nn.functional.swish", "write nacre.nn.functional.silu(x)"),
        ("nn.init.glorot_uniform", "write nacre.nn.init.xavier_uniform_(parameter)"),
        ("nc.data.transforms", "nacre.data.Compose"),
        ("nc.rot90", "nacre.flip"),
        ("nc.random.logseries", "NumPy"),
        ("nc.autograd.profiler", "write `from nacre.inspect.profile import profile`"),
        ("X.to_sparse_coo()", "nacre.sparse"),
        ("nc.sparse_coo_tensor", "write nacre.sparse.csr(data, indices, indptr, shape)"),
        ("nc.pure_callback", "nacre.host_call"),
        ("MODEL.freeze()", "model.requires_grad_(False)"),
        ("MODEL.cuda()", "CPU"),
        ("MODEL.fit()", "nacre.train.Trainer"),
        ("OPTIMIZER.minimize", "optimizer.step()"),
    ],
)
def test_a_foreign_name_is_told_what_to_write(code: str, words: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(words)) as found:
        eval(code)
    assert isinstance(found.value, nc.MissingAttribute)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("nc.Tensor([1, 2])", "write nacre.tensor(data)"),
        ("nc.where(X > 0)", "write nacre.where(mask, x, y)"),
        ("nc.clip(X, minn=0)", "did you mean min?"),
        ("nc.concat(X, X)", "write nacre.concat([x, y])"),
        ("MODEL.to(device='cpu')", "CPU"),
        ("MODEL.to('cuda')", "CPU"),
        ("X.to('cuda')", 'device must be "cpu" or None'),
        ("X.size()", "write x.shape"),
        ("X.size(1)", "write x.shape[1]"),
        ("X.sum(-1, True)", "write dtype=, keepdims="),
        ("nc.compile(len)", "write nacre.jit(f)"),
        ("nc.trace(X)", "write nacre.linalg.trace(x)"),
        ("nc.tensor([1.0], requires_grad=True)", "requires_grad_()"),
        ("nn.Linear(2, 2, device='cuda')", "CPU"),
        ("nc.zeros(2, 3)", "pass the shape as a tuple: nacre.zeros((2, 3))"),
        ("nc.zeros(2, 3, 4)", "pass the shape as a tuple: nacre.zeros((2, 3, 4))"),
        ("nc.ones(2, 3)", "pass the shape as a tuple: nacre.ones((2, 3))"),
        ("nc.full(2, 3, 4)", "pass the shape as a tuple: nacre.full((2, 3), 4)"),
        ("nc.random.normal(5, 3)", "pass the shape as a tuple: nacre.random.normal((5, 3)); or write mean="),
        ("nc.random.uniform(2, 3)", "pass the shape as a tuple: nacre.random.uniform((2, 3)); or write low="),
        ("nc.random.bits(2, 3)", "pass the shape as a tuple: nacre.random.bits((2, 3))"),
        ("nc.random.randint(0, 9, 2, 3)", "pass the shape as a tuple: nacre.random.randint(low, high, (2, 3))"),
        ("nc.reshape(X, 4, 1)", "pass the shape as a tuple: nacre.reshape(x, (4, 1))"),
        ("X.type()", "write x.dtype for PyTorch's x.type()"),
        ("X.type(nc.float64)", "x.astype(dtype)"),
        ("X.squeeze()", "squeeze: axis must be given; the parameters are axis"),
        ("nc.squeeze(X)", "squeeze: axis must be given; the parameters are x, axis"),
        ("nn.functional.leaky_relu(X, 0.1, True)", "leaky_relu: at most 2 arguments are taken; got 3"),
        ("nc.reshape(X, order='F')", "Elements are in the order of rows"),
        ("nc.sum(input=X)", "Pass the first tensor by position"),
        ("nc.split(X, split_size_or_sections=2)", "write sections=2"),
        ("nc.jit(len, fullgraph=True)", "Leave it out"),
        ("nc.vmap(len, in_dims=0)", "write in_axes=0"),
        ("nn.CrossEntropyLoss(size_average=True)", 'write reduction="mean"'),
        ("nc.scatter_add(X, 0, 0, X, reduce='x')", "unexpected keyword 'reduce' (the parameters are x, dim"),
        ("nc.pad(X, 1, mode='edge')", "write nacre.nn.functional.pad(x, (1, 1), mode="),
        ("nc.pad(X, 1, constant_values=2)", "write value=0.0"),
        ("nc.jit(len, mode='max-autotune')", "NACRE_TUNE"),
        ("nc.linspace(0, 10, 5, dtype=int)", "linspace: numbers must fit int64, so be whole; got [0.0, 2.5, 5.0, 7.5]"),
        ("nn.Embedding(3, 2, max_norm=1.0)", "nacre.nn.functional.normalize"),
        ("optim.SGD([], learning_rate=1)", "write lr=0.001"),
        ("nc.round(X, decimals=2)", "write nacre.round(x * 10 ** decimals) / 10 ** decimals"),
        ("nc.data.random_split([1, 2], [1, 1], generator=nc.random.Generator(0))", "write seed=0"),
        ("X.max(0)", "write max(x, axis=0)"),
        ("nc.tile(X, 2, 3)", "pass the numbers as a tuple: nacre.tile(x, (2, 3))"),
    ],
)
def test_a_foreign_call_is_told_what_to_write(code: str, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(words)) as found:
        eval(code)
    assert isinstance(found.value, nc.Error)


def test_shapes_that_mean_one_thing_work() -> None:
    assert nc.zeros(3).shape == (3,)
    assert nc.zeros([2, 3]).shape == (2, 3)
    assert nc.full(2, 3).tolist() == [3, 3]
    assert nc.random.normal(5, mean=3).shape == (5,)
    assert nc.random.normal((5,), 3).shape == (5,)
    assert nc.clip(X, a_min=2.0, a_max=3.0).tolist() == [[2.0, 2.0], [3.0, 3.0]]


@pytest.mark.parametrize(
    ("code", "same"),
    [
        ("nc.triu(X, diagonal=1)", "nc.triu(X, k=1)"),
        ("nc.tril(X, diagonal=-1)", "nc.tril(X, k=-1)"),
        ("nc.linspace(0, 1, steps=5)", "nc.linspace(0, 1, 5)"),
        ("nc.arange(start=0, end=3)", "nc.arange(0, 3)"),
        ("nc.zeros(size=(2, 3))", "nc.zeros((2, 3))"),
        ("nc.reshape(X, newshape=(4,))", "nc.reshape(X, (4,))"),
        ("nc.tile(X, dims=(2, 1))", "nc.tile(X, (2, 1))"),
        ("nc.tile(X, reps=(2, 1))", "nc.tile(X, (2, 1))"),
        ("nc.swapaxes(X, dim0=0, dim1=1)", "X.T"),
        ("nc.stack(tensors=[X, X])", "nc.stack([X, X])"),
        ("nc.concat(arrays=[X, X], dim=1)", "nc.concat([X, X], axis=1)"),
        ("nc.random.bits(size=(3,), key=nc.random.key(1))", "nc.random.bits((3,), key=nc.random.key(1))"),
        ("nn.functional.relu(X, inplace=True)", "nn.functional.relu(X)"),
        ("nn.functional.leaky_relu(X, 0.1, inplace=True)", "nn.functional.leaky_relu(X, 0.1)"),
        ("nn.functional.dropout(X, 0.0, inplace=True)", "X"),
    ],
)
def test_keywords_of_other_libraries_that_mean_the_same_work(code: str, same: str) -> None:
    assert eval(code).tolist() == eval(same).tolist()


def test_a_size_is_a_number() -> None:
    assert X.size == 4 and isinstance(X.size, int) and repr(X.size) == "4"
    assert (X / X.size).tolist() == (X / 4).tolist()
    assert nc.jit(lambda x, n: x * n)(X, X.size).tolist() == (X * 4).tolist()


def test_names_that_are_absent_are_not_listed() -> None:
    for held in FOUND.values():
        assert not {"cuda", "scatter_nd", "fit", "minimize"} & set(dir(held))
    assert "reshape" in dir(X) and "weight" in dir(MODEL)


def test_a_model_may_have_attributes_of_these_names() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.type = "small"
            self.init = nn.Linear(1, 1)

        def fit(self) -> int:
            return 7

    net = Net()
    assert net.type == "small" and net.fit() == 7 and isinstance(net.init, nn.Linear)


def tables(page: str) -> list[str]:
    """The cells of the columns called Nacre of a page's tables."""
    cells: list[str] = []
    column: int | None = None
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        row = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else None
        if row is None:
            column = None
        elif column is None:
            column = row.index("Nacre") if "Nacre" in row else -1
        elif column >= 0:
            cells.append(row[column])
    return cells


@pytest.mark.parametrize("page", PAGES)
def test_names_in_the_tables_exist(page: str) -> None:
    cells = tables(page)
    assert len(cells) > 20
    assert unresolved(names_in("\n".join(cells))) == []


def literals() -> Iterator[str]:
    """The texts in the package's files, with `…` for what f-strings hold between braces."""
    for path in (Path(__file__).parents[2] / "src" / "nacre").rglob("*.py"):
        parts: set[ast.AST] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):  # a text before its parts
            if isinstance(node, ast.JoinedStr):
                parts.update(node.values)
                yield "".join(str(v.value) if isinstance(v, ast.Constant) else "…" for v in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
                yield node.value


def test_messages_that_the_faq_explains_begin_with_its_headings() -> None:
    page = (DOCS / "faq.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^### `(.+)`$", page, re.MULTILINE)
    assert len(quoted) > 25
    there = list(literals())
    begins = [re.compile(rf"(?:[^:;\n]+: )?{re.escape(words)}") for words in quoted]
    assert [words for words, begin in zip(quoted, begins, strict=True) if not any(map(begin.match, there))] == []


def test_the_code_of_hints_gives_the_foreign_functions_numbers() -> None:
    inf, nan = np.inf, np.nan
    a = np.array([-5, 5, -5, 5, -0.0, 1, inf, 1, 5.5, -7, nan, 1e30, 3], np.float32)
    b = np.array([3, -3, -3, 3, 3, inf, 3, 0, -2.5, -inf, 1, 3, nan], np.float32)
    square = np.array([[1, inf, 2], [3, 4, 5], [6, 7, 8]], np.float32)
    short = np.array([1, 2, 0.5], np.float32)
    with np.errstate(all="ignore"):
        wanted = {
            "convolve": np.convolve(b[:5], short), "correlate": np.correlate(b[:5], short),
            "unique": np.unique(short), "spacing": np.spacing(short), "ediff1d": np.ediff1d(short),
            "in1d": np.isin(a, b), "union1d": np.union1d(short, b[:4]), "intersect1d": np.intersect1d(a[:6], b),
            "setdiff1d": np.setdiff1d(a[:6], b), "trace": np.trace(square), "flipud": np.flipud(square),
            "rot90": np.rot90(square),
        }  # fmt: skip
    operands: dict[str, np.ndarray] = {
        **dict.fromkeys(("trace", "flipud", "rot90"), square),
        **dict.fromkeys(("convolve", "correlate"), b[:5]),
        **dict.fromkeys(("unique", "spacing", "ediff1d", "union1d"), short),
        **dict.fromkeys(("intersect1d", "setdiff1d"), a[:6]),
    }
    for name, value in wanted.items():
        code = NACRE[name].removesuffix(" for floats")
        x, y = operands.get(name, a), b[:4] if name == "union1d" else b
        names = {"nacre": nc, "x": nc.tensor(x), "y": nc.tensor(y), "w": nc.tensor(short), "n": 3,
                 "edges": nc.tensor(short.cumsum())}  # fmt: skip
        np.testing.assert_array_equal(eval(code, names).numpy(), value, err_msg=name)
