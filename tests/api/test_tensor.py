"""`Tensor`: operators, conversion to Python, rules of truth and hashing, gradients, printing, copying."""

from __future__ import annotations

import copy
import operator
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.base.errors import TRACED
from nacre.compile.program import operations
from nacre.compile.program.executor import OPERATIONS
from nacre.trace.bind import NATIVE

X = np.float32([[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"])
def test_operators_with_tensors_numbers_and_arrays(name: str) -> None:
    f = getattr(operator, name)
    x = nc.tensor(X)
    np.testing.assert_allclose(f(x, x).numpy(), f(X, X), rtol=1e-6)
    np.testing.assert_allclose(f(x, 2).numpy(), f(X, np.float32(2)), rtol=1e-6)
    np.testing.assert_allclose(f(2, x).numpy(), f(np.float32(2), X), rtol=1e-6)
    left = f(X, x)
    assert isinstance(left, nc.Tensor)
    np.testing.assert_allclose(left.numpy(), f(X, X), rtol=1e-6)


def test_unary_operators_and_matmul() -> None:
    x = nc.tensor(X)
    np.testing.assert_array_equal((-x).numpy(), -X)
    np.testing.assert_array_equal(abs(-x).numpy(), X)
    np.testing.assert_array_equal((+x).numpy(), X)
    np.testing.assert_array_equal((x @ x.T).numpy(), X @ X.T)
    np.testing.assert_array_equal((X @ x.mT).numpy(), X @ X.T)


def test_other_types_are_left_to_python() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        nc.tensor(X) + "one"
    assert (nc.tensor(X) == "one") is False
    assert (nc.tensor(X) != None) is True  # noqa: E711  (the operator itself is tried)


def test_properties() -> None:
    x = nc.tensor(X)
    assert (x.shape, x.ndim, x.size, x.nbytes, x.dtype, x.device) == ((2, 3), 2, 6, 24, nc.float32, "cpu")
    assert len(x) == 2 and [row.shape for row in x] == [(3,), (3,)]
    assert 6.0 in x and 7.0 not in x
    with pytest.raises(nc.ShapeError, match="must be a matrix"):
        _ = nc.ones(3).T


def test_conversion_to_python_and_numpy() -> None:
    x = nc.tensor(X)
    assert x.tolist() == X.tolist()
    assert x[1, 2].item() == 6.0 and float(x[0, 0]) == 1.0 and int(nc.tensor(3)) == 3 and bool(nc.tensor(True))
    assert [10, 20, 30][nc.tensor(1)] == 20
    assert np.asarray(x).dtype == np.float32 and np.asarray(x, np.float64).dtype == np.float64
    assert not x.numpy().flags.writeable and np.array(x).flags.writeable
    assert f"{nc.tensor(1.5):.2f}" == "1.50"


@pytest.mark.parametrize("f", [bool, float, nc.Tensor.item])
def test_one_number_is_needed(f: object) -> None:
    with pytest.raises(nc.ShapeError, match="one element"):
        f(nc.tensor(X))  # type: ignore[operator]


def test_rounding_by_python() -> None:
    numbers = [[0.5, 1.5, -2.567], [12.345, -0.0, 7.0]]
    x = nc.tensor(numbers, dtype=nc.float64)
    assert round(x).tolist() == np.round(numbers).tolist() and isinstance(round(x[0, 0]), nc.Tensor)
    for n in (0, 1, 2, -1):
        assert round(x, n).tolist() == np.round(numbers, n).tolist() == nc.jit(lambda x, n=n: round(x, n))(x).tolist()
    assert round(nc.tensor([3, 14])).tolist() == round(nc.tensor([3, 14]), 2).tolist() == [3, 14]
    with pytest.raises(nc.KindError, match="round: ndigits must be an integer"):
        round(x, 1.5)  # type: ignore[call-overload]


def test_the_error_of_hashing_states_the_reason() -> None:
    with pytest.raises(nc.DTypeError, match=r"== compares elements.*id\(x\)"):
        hash(nc.tensor(X))


@pytest.mark.parametrize(
    "read", [lambda x: bool(x.sum() > 0), lambda x: x.sum().item(), lambda x: x.numpy(), lambda x: x.tolist()]
)
def test_the_error_of_reading_a_traced_tensor_explains_itself(read: object) -> None:
    with pytest.raises(nc.TraceError, match=r"(?s)This code.*Write"):
        nc.jit(lambda x: read(x))(nc.tensor(X))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda x: x < 1j, "less: operands must have a real dtype; got complex64; take its abs, or a part"),
        (lambda x: nc.jit(lambda x: x >= 1j)(x), "greater_equal: operands must have a real dtype; got complex64"),
        (lambda x: nc.clip(x, 1j), "clip: operands must have a real dtype; got complex64; take its abs, or a part"),
        (lambda x: x % 1j, "remainder: operands must have a real numeric dtype; got complex64"),
        (lambda x: nc.grad(lambda x: nc.sum(x * 1j))(x), "must be floating-point; got type c64[]; take its real part"),
        (lambda x: nc.tensor(1j, dtype="float32"), "must fit float32 (real); got 1j; use its real part, or convert"),
        (lambda x: nc.full_like(x, 1j), "first, as in `x.astype(nacre.complex64)`"),
        (lambda x: x.astype(complex).astype(float), "cast: real and complex numbers must not be converted"),
        (lambda x: nc.tensor(np.ones(2, np.clongdouble)), "uint2; got dtype('complex256')"),
        (lambda x: nc.tensor(np.array(["2020-01-01"], "datetime64[D]")), "convert them with array.astype('int64')"),
        (lambda x: nc.tensor([1, None]), "convert them with array.astype(float)"),
        (lambda x: nc.add(x, "a"), "got text (str)"),
    ],
)
def test_elements_that_are_no_numbers_or_no_real_ones_are_refused_with_advice(make: object, words: str) -> None:
    with pytest.raises(nc.DTypeError, match=re.escape(words)):
        make(nc.tensor(X))  # type: ignore[operator]


@pytest.mark.parametrize("number", [1j, np.complex64(1j), np.complex128(1j)], ids=repr)
@pytest.mark.parametrize("f", [operator.mul, lambda x, y: y - x, operator.truediv, operator.eq])
def test_a_complex_number_makes_the_result_complex(f: Callable[[Any, Any], Any], number: Any) -> None:
    wanted = f(nc.tensor(X), nc.full(X.shape, 1j, nc.complex64))
    assert wanted.dtype in (nc.complex64, nc.bool)
    for x in (nc.tensor(X), nn.Parameter(nc.tensor(X))):
        for found in (f(x, number), nc.jit(lambda x: f(x, number))(x)):
            assert found.type is wanted.type
            assert found.detach().numpy().tobytes() == wanted.numpy().tobytes()


TRANSFORMED: dict[str, object] = {
    "nc.jit": lambda f, x: nc.jit(f)(x),
    "nc.vmap": lambda f, x: nc.vmap(f)(x[None]),
    "nc.jvp": lambda f, x: nc.jvp(f, (x,), (x,)),
    "nc.jacfwd": lambda f, x: nc.jacfwd(f)(x),
    "nc.hessian": lambda f, x: nc.hessian(f)(x),
    "nc.checkpoint": lambda f, x: nc.checkpoint(f)(x),
    "nc.cond": lambda f, x: nc.cond(nc.tensor(True), f, f, x),
    "loops": lambda f, x: nc.fori_loop(0, 1, lambda k, y: f(y) + y, x),
    "nc.grad": lambda f, x: nc.grad(f)(x),
    "nc.value_and_grad": lambda f, x: nc.value_and_grad(f)(x),
    "nc.vjp": lambda f, x: nc.vjp(f, x),
    "nc.jacrev": lambda f, x: nc.jacrev(f)(x),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_the_error_of_a_traced_tensor_lists_where_tensors_are_traced(name: str) -> None:
    def run() -> object:
        return TRANSFORMED[name](lambda x: x.sum() * x.sum().item(), nc.tensor(X))  # type: ignore[operator]

    listed = TRACED.removeprefix("Inside ").replace(" and ", ", ").split(", ")
    if name not in listed:  # a tensor has its numbers there, but the gradient would be lost
        with pytest.raises(nc.GradientError, match="being differentiated for"):
            run()
        return
    with pytest.raises(nc.TraceError, match=re.escape(TRACED)):
        run()


def test_every_transformation_of_the_list_is_tried() -> None:
    assert set(TRACED.removeprefix("Inside ").replace(" and ", ", ").split(", ")) < set(TRANSFORMED)


def test_printing() -> None:
    assert repr(nc.tensor([1.0, 2.5])) == "Tensor([1. , 2.5], f32[2])"
    assert repr(nc.tensor(X).sum()) == "Tensor(21., f32[])"
    assert str(nc.tensor([1, 2])) == "[1 2]"
    assert repr(nc.ones(2, nc.bfloat16)) == "Tensor([1., 1.], bf16[2])"
    shown: list[str] = []
    nc.jit(lambda x: (shown.append(repr(x)), x)[1])(nc.tensor([1.0]))
    assert shown == ["Tensor(f32[1], traced)"]


@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "float16", "float64"])
def test_copying_and_pickling(dtype: str) -> None:
    x = nc.tensor([[0, 1], [1, 0]]).astype(dtype)
    for other in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
        assert other is not x and other.type is x.type
        np.testing.assert_array_equal(other.numpy(), x.numpy())


def test_assignment_does_not_change_other_references() -> None:
    x = nc.tensor([1.0, 2.0, 3.0])
    other, kept = x.detach(), x[1:]
    x[1] = 9.0
    x[2:] = [7.0]
    assert x.tolist() == [1.0, 9.0, 7.0]
    assert other.tolist() == [1.0, 2.0, 3.0] and kept.tolist() == [2.0, 3.0]


# ---- gradients


def test_backward_accumulates() -> None:
    x = nc.tensor([1.0, 2.0]).requires_grad_()
    y = x * x
    assert x.grad is None and x.is_leaf and not y.is_leaf and y.requires_grad
    y.sum().backward()
    (3 * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [5.0, 7.0]
    x.grad = None
    (x * x).backward(nc.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 40.0]


def test_backward_through_an_assignment() -> None:
    x = nc.tensor([1.0, 2.0, 3.0]).requires_grad_()
    y = x * 2
    y[1] = 5.0
    (y * y).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [8.0, 0.0, 24.0]
    with pytest.raises(nc.GradientError, match="leaf"):
        x[0] = 1.0


def test_retain_grad_detach_and_no_grad() -> None:
    x = nc.tensor([2.0]).requires_grad_()
    y = x * 3
    y.retain_grad()
    (y * y).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [12.0]
    assert not y.detach().requires_grad
    with nc.no_grad():
        assert not (x * 2).requires_grad
    assert not nc.tensor([1.0]).requires_grad_().requires_grad_(False).requires_grad


def test_second_derivatives_by_create_graph() -> None:
    x = nc.tensor(2.0).requires_grad_()
    (x**3).backward(create_graph=True)
    first = x.grad
    assert first is not None
    x.grad = None
    first.backward()
    assert x.grad.item() == 12.0


def test_gradient_errors() -> None:
    x = nc.tensor(X).requires_grad_()
    with pytest.raises(nc.GradientError, match="one element"):
        (x * 2).backward()
    with pytest.raises(nc.ShapeError, match="`gradient` must have type"):
        (x * 2).backward(nc.ones(3))
    with pytest.raises(nc.DTypeError, match="floating-point"):
        nc.tensor([1]).requires_grad_()
    with pytest.raises(nc.GradientError):
        nc.tensor(1.0).backward()
    y = (x * x).sum()
    y.backward()
    with pytest.raises(nc.StateError):
        y.backward()


def test_variables_are_operands() -> None:
    p = nn.Parameter([1.0, 2.0])
    x = nc.tensor([3.0, 4.0])
    assert (p * x).tolist() == (x * p).tolist() == [3.0, 8.0]
    assert (2 * p).tolist() == [2.0, 4.0] and (p @ x).item() == 11.0
    assert nc.exp(p).shape == (2,) and p.sum().item() == 3.0 and p[1].item() == 2.0


@pytest.mark.parametrize(
    "same",
    [
        lambda x: +x, lambda x: x.reshape(2), lambda x: x[:], lambda x: x[...], lambda x: x.astype(nc.float32),
        lambda x: nc.clip(x), lambda x: nc.broadcast_to(x, 2), lambda x: nc.concat([x]), lambda x: x.permute(0),
        lambda x: nc.roll(x, 0), lambda x: nc.sum(x, axis=()), lambda x: x**1, lambda x: x.detach(), copy.copy,
        lambda x: nn.functional.dropout(x, 0.0), lambda x: nc.flip(x, axis=()), lambda x: x.flatten(),
    ],
)  # fmt: skip
def test_functions_that_change_nothing_return_a_new_object(same: object) -> None:
    x = nc.tensor([1.0, 2.0])
    y = same(x)  # type: ignore[operator]
    y[0] = 9.0
    assert x.tolist() == [1.0, 2.0] and y.tolist() == [9.0, 2.0]


def test_numbers_become_separate_tensors() -> None:
    nc.tensor(2.0).requires_grad_()
    assert not nc.tensor(2.0).requires_grad and not (+nc.tensor(2.0)).requires_grad


def test_the_caches_of_operators_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "REMEMBERED", 3)
    OPERATIONS.forget()  # earlier tests may have left any number of them
    for n in (*range(1, 9), 1, 2):
        x = nc.ones(n)
        for _ in range(3):
            assert (x + x).tolist() == nc.add(x, x).tolist() == (x * 2).tolist() == [2.0] * n
    assert len(NATIVE) <= 3 and len(OPERATIONS.known) <= 3 and len(OPERATIONS.numbers) <= 3


@pytest.mark.parametrize(
    "change",
    [
        "x[0][1] = 5.0",
        "x.T[0] = 5.0",
        "x.reshape(4)[0] = 5.0",
        "b.value[0] = 5.0",
        "p.data[0][0] = 5.0",
        "p.data.T[0] = 5.0",
        "(x + 1)[0] = 5.0",
    ],
)
@pytest.mark.parametrize("jitted", [False, True])
def test_a_change_of_a_temporary_is_refused(change: str, jitted: bool) -> None:
    p, b = nn.Parameter(nc.ones((2, 2))), nn.Buffer(nc.ones((2, 2)))

    def f(x: nc.Tensor) -> nc.Tensor:
        exec(change, {"x": x, "p": p, "b": b})
        return x

    with pytest.raises(nc.StateError, match=r"the change would be lost; write `x\[i, j\] = v`"):
        (nc.jit(f) if jitted else f)(nc.ones((2, 2)))


def test_a_change_of_a_referenced_tensor() -> None:
    class Holder:
        def __init__(self) -> None:
            self.x = nc.zeros(2)

    holder, row, table = Holder(), [nc.zeros(2)], {"x": nc.zeros(2)}
    x = nc.zeros(2)

    def inside() -> None:
        x[0] = 5.0

    def given(y: nc.Tensor) -> nc.Tensor:
        y[0] = 5.0
        return y

    holder.x[0] = row[0][0] = table["x"][0] = 5.0
    inside()
    (named := nc.zeros(2))[0] = 5.0
    z = nc.zeros(2)
    operator.setitem(z, 0, 5.0)
    for held in (holder.x, row[0], table["x"], x, named, z, given(nc.zeros(2)), nc.jit(given)(nc.zeros(2))):
        assert held.tolist() == [5.0, 0.0]


def test_requires_grad_is_set_as_an_attribute() -> None:
    x = nc.tensor([1.0, 2.0])
    x.requires_grad = True
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    x.requires_grad = False
    assert not (x * x).requires_grad
    with pytest.raises(nc.DTypeError, match="requires_grad_: dtype must be floating-point"):
        nc.arange(3).requires_grad = True


def test_attributes_of_tensors_are_fast() -> None:
    """With either of these methods, Python cannot use its inline caches for attributes."""
    assert not {"__getattr__", "__getattribute__"} & {name for cls in nc.Tensor.__mro__[:-1] for name in vars(cls)}


def test_dir_lists_only_names_that_work() -> None:
    x = nc.ones((2, 2))
    for held in (x, nc.Tensor):
        names = dir(held)
        assert [name for name in names if not hasattr(held, name)] == []
        assert {"reshape", "sum", "numpy", "backward"} <= set(names)
        assert not {"add_", "cuda", "sort"} & set(names)


def test_round_with_places_beyond_all_numbers() -> None:
    x = nc.tensor([1.25, -3.0, nc.inf])
    assert round(x, 400).tolist() == round(x, 39).tolist() == x.tolist()
    assert round(x, -400).tolist() == [0.0, 0.0, nc.inf]
    assert round(x, 400) is not x
