"""Names of NumPy and PyTorch: functions that are others by another name, and functions that are methods of tensors."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.api.namespace import ALIASES, METHODS
from nacre.api.other_names import late, methods, short

A = np.array([[3.0, -1.5, 0.5], [2.0, 4.0, -0.25]])
B = np.array([[0.5, 2.0, -1.5], [3.0, 1.0, 4.0]])
K = np.array([[5, 3, 12], [7, 1, 0]])
VECTOR = np.array([1.0, 2.5, -1.0])
OPERANDS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(["concatenate", "hstack", "vstack", "dstack", "column_stack"], ([A, B],)),
    **dict.fromkeys(["absolute", "fix", "around", "ravel", "radians", "degrees", "deg2rad", "rad2deg"], (A,)),
    **dict.fromkeys(["arctan", "arcsinh"], (A,)),
    **dict.fromkeys(["arccos", "arcsin", "arctanh"], (B / 5,)),
    **dict.fromkeys(["true_divide", "power", "mod", "arctan2"], (abs(A), B)),
    **dict.fromkeys(["inner", "isclose", "allclose", "array_equal"], (A, B)),
    **dict.fromkeys(["argwhere", "flatnonzero", "atleast_1d", "atleast_2d", "atleast_3d", "amax", "amin"], (K,)),
    **dict.fromkeys(["invert", "bitwise_not"], (K,)),
    **dict.fromkeys(["left_shift", "right_shift"], (K, K % 5)),
    **dict.fromkeys(["cumsum", "cumprod"], (VECTOR,)),
    "arccosh": (abs(A) + 1,),
    "dot": (A, B.T),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERANDS)
def test_a_function_by_numpys_name_has_numpys_result(name: str) -> None:
    given = OPERANDS[name]
    found, wanted = getattr(nc, name)(*given), getattr(np, name)(*given)
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-15)


def test_another_name_is_the_function_itself() -> None:
    assert nc.cat is nc.concat and nc.mul is nc.multiply and nc.double is nc.float64 and nc.bool_ is nc.bool
    for name, held in ALIASES.items():
        assert getattr(nc, name) is held and name in dir(nc)
        own = held.name if isinstance(held, nc.DType) else held.__name__
        assert own != name and getattr(nc, own) is held, name


def test_a_method_is_the_function_with_the_tensor_in_front() -> None:
    assert nc.Tensor.exp is nc.exp and nc.Tensor.unsqueeze is nc.expand_dims
    assert all(getattr(nc.Tensor, name) is function for name, function in FUNCTIONS.items())
    assert not [name for name in METHODS if name.endswith("_") or name in ("sort", "split", "unique", "nonzero")]


FUNCTIONS = METHODS | {name: getattr(nc, name) for name in late.LATE.split()}  # also those that are loaded late


def _stubs() -> dict[str, ast.FunctionDef]:
    """The methods that type checkers read, by name."""
    found: dict[str, ast.FunctionDef] = {}
    for module, name in ((methods, "Methods"), (late, "LateMethods")):
        tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
        held = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
        block = next(node for node in held.body if isinstance(node, ast.If))
        found |= {node.name: node for node in block.body if isinstance(node, ast.FunctionDef)}
    return found


def test_type_checkers_see_the_parameters_of_the_functions() -> None:
    stubs = _stubs()
    assert stubs.keys() == FUNCTIONS.keys()
    python = {"Whole": "int", "Real": "float", "Flag": "bool"}
    for name, stub in stubs.items():
        written = ast.unparse(stub).replace("Self", "Tensor")
        for word, plain in python.items():
            written = written.replace(word, plain)
        made: dict[str, Any] = {}
        exec("from __future__ import annotations\n" + written, made)
        seen, real = inspect.signature(made[name]), inspect.signature(FUNCTIONS[name])
        pairs = list(zip([*seen.parameters.values()][1:], [*real.parameters.values()][1:], strict=True))
        for one, other in pairs:
            assert (one.name, one.default, one.annotation) == (other.name, other.default, str(other.annotation)), name
            assert one.kind is other.kind, name
        assert seen.return_annotation == real.return_annotation, name


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_method_gives_the_bits_of_its_function_in_jit_and_grad(name: str) -> None:
    function = FUNCTIONS[name]
    wanted = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty][1:]
    values = {"y": B + 5, "x": B, "z": B, "index": K[:, :1] * 0, "indices": K[:, :1] * 0, "mask": A > 1, "value": 2.0,
              "weight": 0.25, "dim": 1, "shape": (2, 2, 3), "shift": 1, "repetitions": (2, 1), "repeats": 2, "k": 2,
              "destination": 1, "axis1": 0, "axis2": 1, "start": 0, "length": 2, "v": B, "src": B,
              "source": 0, "reduce": "sum", "q": 0.5}  # fmt: skip
    x: Any = nc.tensor(abs(A) / 8)
    if "bitwise" in name:
        x, values["y"] = nc.tensor(K), K % 5
    elif name in ("acosh", "arccosh"):
        x = nc.tensor(abs(A) + 1)
    elif name in ("searchsorted", "mv", "dot", "matmul", "mm", "outer", "take", "index_select"):
        x, values = nc.tensor(np.sort(VECTOR)), {**values, "y": VECTOR, "indices": [1], "index": [1], "dim": 0}
    elif name in ("bmm", "tensordot", "inner"):
        x = nc.tensor(np.stack([A, B]))
        values["y"] = {"bmm": nc.swapaxes(x, 1, 2), "tensordot": B[:, :, None], "inner": B}[name]
    elif name == "bincount":
        x = nc.tensor([1, 3, 1])
    elif name in ("index_add", "index_copy", "index_fill"):
        values |= {"index": [2], "source": B[:, :1]}
    elif name in ("cummax", "cummin", "logcumsumexp"):
        x = nc.tensor(VECTOR)
    elif name.startswith("logical"):
        x, values["y"] = x > 0.2, B > 1
    elif name in ("cumsum", "cumprod", "cumulative_sum", "cumulative_prod"):
        x = nc.tensor(VECTOR)
    args = [values[p.name] for p in wanted]
    plain, called = function(x, *args), getattr(x, name)(*args)
    assert str(plain) == str(called)
    if name not in ("allclose", "argwhere", "bincount", "masked_select"):
        assert str(nc.jit(lambda v: getattr(v, name)(*args))(x)) == str(plain)


def test_parameters_and_traced_tensors_have_the_methods() -> None:
    weight = nc.nn.Linear(3, 2).weight
    assert (weight.exp().sum() - nc.sum(nc.exp(weight))).item() == 0.0
    assert nc.grad(lambda x: x.exp().mul(2).sum())(nc.tensor([0.0, 1.0])).tolist() == (2 * nc.exp([0.0, 1.0])).tolist()
    x = nc.tensor([1.0, 2.0]).requires_grad_()
    x.clone().mul(3).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3.0, 3.0]
    assert nc.jit(lambda v: v.unsqueeze(0).expand(3, -1).masked_fill(v > 1, 0).float())(x).tolist() == [[1.0, 0.0]] * 3


def test_conversions_have_pytorchs_names() -> None:
    x = nc.tensor([1.5, 0.0])
    dtypes = {
        "half": nc.float16, "bfloat16": nc.bfloat16, "float": nc.float32, "double": nc.float64, "char": nc.int8,
        "byte": nc.uint8, "short": nc.int16, "int": nc.int32, "long": nc.int64, "bool": nc.bool,
        "cfloat": nc.complex64, "cdouble": nc.complex128,
    }  # fmt: skip
    for name, dtype in dtypes.items():
        assert getattr(x, name)().dtype is dtype
        assert x.to(dtype).dtype is dtype and x.to("cpu", dtype).dtype is dtype
    assert x.to(nc.tensor([1])).dtype is nc.int64 and x.to(dtype=nc.float64, device="cpu").dtype is nc.float64
    assert x.float() is x and x.to("cpu") is x and x.contiguous() is x


@pytest.mark.parametrize(
    ("run", "kind", "words"),
    [
        (lambda x: x.to("cuda"), nc.ArgumentError, 'device must be "cpu"'),
        (lambda x: x.to(3), nc.DTypeError, "must be one of"),
        (lambda x: x.expand(2), nc.ShapeError, "at least 2 axes"),
        (lambda x: x.expand(-1, 2, 3), nc.ShapeError, "-1 must be the size of an axis"),
        (lambda x: x.expand(2, 4), nc.ShapeError, ""),
        (lambda x: x.gather(1, [[0, 0, 0, 0]] * 3), nc.ShapeError, "at most its sizes beside axis 1"),
        (lambda x: x.gather(1, [[7]]), nc.AxisError, "must be in"),
        (lambda x: x.gather(1, [0]), nc.ShapeError, "rank of x"),
        (lambda x: x.index_select(0, [[0]]), nc.ShapeError, "must be a vector"),
        (lambda x: x.masked_fill(x, 1), nc.DTypeError, "dtype bool"),
        (lambda x: x.masked_fill(x > 0, [1, 2]), nc.ShapeError, "one number"),
        (lambda x: x.long().masked_fill(x > 0, 1.5), nc.DTypeError, "must fit int64"),
        (lambda x: x.masked_select(x), nc.DTypeError, "dtype bool"),
        (lambda x: nc.jit(lambda v: v.masked_select(v > 0))(x), nc.TraceError, "known"),
        (lambda x: x.narrow(0, 1, 5), nc.ShapeError, "inside axis 0"),
        (lambda x: nc.dot(x[None], x), nc.ShapeError, "at most two axes"),
        (lambda x: nc.hstack([]), nc.ArgumentError, ""),
        (lambda x: x[None].H, nc.ShapeError, "must be a matrix"),
        (lambda x: x.tril(1), nc.KindError, "write k="),
        (lambda x: x.flip(0, 1), nc.KindError, "as a tuple"),
        (lambda x: nc.jit(lambda v: v.allclose(v))(x), nc.TraceError, "known numbers"),
    ],
)  # fmt: skip
def test_wrong_calls_raise_errors_that_say_what_is_required(run: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        run(nc.tensor(A, dtype=nc.float32))


def test_closeness_at_special_points() -> None:
    inf, nan = np.inf, np.nan
    a, b = np.array([inf, inf, -inf, nan, 0.0, 1.0]), np.array([inf, -inf, 1.0, nan, 1e-9, inf])
    for equal_nan in (False, True):
        assert nc.isclose(a, b, equal_nan=equal_nan).tolist() == np.isclose(a, b, equal_nan=equal_nan).tolist()
    big = np.array([2**63 - 1, 0], np.int64)
    assert nc.isclose(big, -big).tolist() == [False, True]
    assert nc.isclose(np.array([0], np.uint8), np.array([1], np.uint8)).tolist() == [False]
    assert nc.allclose([], []) and nc.array_equal([], []) and not nc.array_equal([[]], [])
    assert nc.isclose(1 + 1j, nc.tensor([1 + 1.000001j, 2j])).tolist() == [True, False]


def test_products_have_derivatives() -> None:
    for run in (lambda x, y: nc.dot(x, y.mT), nc.inner, lambda x, y: nc.lerp(x, y, x), nc.dot):
        y = B.T if run is nc.dot else B
        nc.check_grads(run, (nc.tensor(A), nc.tensor(y)), order=2)


def test_interpolation_meets_both_ends() -> None:
    x, y = nc.tensor([1e8, 0.1], nc.float32), nc.tensor([1.0, 0.3], nc.float32)
    assert nc.lerp(x, y, 1.0).tolist() == y.tolist() and nc.lerp(x, y, 0.0).tolist() == x.tolist()
    assert [p.tolist() for p in nc.grad(lambda a, b: nc.sum(nc.lerp(a, b, 0.25)), (0, 1))(x, y)] == [
        [0.75] * 2,
        [0.25] * 2,
    ]


def test_numbers_are_vectors_of_one_element_in_grids_and_have_rows_without_positions() -> None:
    found, wanted = nc.meshgrid([1, 2], 3, [4.0, 5.0]), np.meshgrid([1, 2], 3, [4.0, 5.0])
    assert [x.tolist() for x in found] == [x.tolist() for x in wanted]
    assert [x.shape for x in nc.meshgrid(1, 2, indexing="ij")] == [(1, 1), (1, 1)]
    for number in (0, 2.5):
        assert nc.argwhere(number).shape == np.argwhere(np.array(number)).shape
    assert nc.argwhere(3, size=2).shape == (2, 0)


def test_short_functions_serve_empty_tensors() -> None:
    none = nc.zeros((0, 3))
    assert nc.argwhere(none).shape == (0, 2) and nc.vstack([none, none]).shape == (0, 3)
    assert nc.gather(none, 0, nc.zeros((0, 2), nc.int64)).shape == (0, 2) and none.masked_select(none > 0).shape == (0,)
    assert none.unsqueeze(0).shape == (1, 0, 3) and none.expand(2, -1, -1).shape == (2, 0, 3)
    assert set(short.__all__) <= set(dir(nc))
