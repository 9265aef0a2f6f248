"""Rules of derivatives and batching from outside: they mean the same in all modes, and wrong ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as pairs
from typing import Any

import numpy as np
import pytest

import nacre as nc


def of_two(name: str, body: str, transposes: Any, operands: str = "xy") -> Callable[..., Any]:
    """An operation on vectors, whose elements have an expression in kernel IR."""

    def nest(types: Any, t: Any) -> str:
        inputs = ", ".join(f"{n}: {each}" for n, each in zip(operands, types, strict=True))
        return f"kernel k({inputs}) -> (r: {t}):\n  for i in {t.shape[0]}:\n    r[i] = {body}"

    result = {2: lambda x, y: x, 3: lambda x, y, z: x}[len(operands)]
    return nc.primitive(f"outside_{name}", nest=nest, result=result, transposes=transposes)


def multiply() -> Any:
    return of_two("product", "mul(x[i], y[i])", [lambda g, x, y: g * y, lambda g, x, y: g * x]), lambda x, y: x * y


def plus() -> Any:
    return of_two("plus", "add(x[i], y[i])", [lambda g, x, y: g, lambda g, x, y: g]), lambda x, y: x + y


def to_sum() -> Any:
    """x·(y + z): linear in y and z together, and in x when these are fixed."""
    rules = [lambda g, x, y, z: g * (y + z), lambda g, x, y, z: g * x, lambda g, x, y, z: g * x]
    return of_two("to_sum", "mul(x[i], add(y[i], z[i]))", rules, "xyz"), lambda x, y, z: x * (y + z)


def all_derivatives(f: Any, count: int) -> list[np.ndarray]:
    """Gradients and tangents by each operand, alone and together, compiled, recorded, and of second order."""
    xs = [nc.tensor([1.5, -2.0]) * (k + 1) + k for k in range(count)]
    ts = [nc.tensor([0.5, 3.0]) - k for k in range(count)]

    def loss(*xs: Any) -> Any:
        return (f(*xs) * nc.tensor([2.0, 3.0])).sum()

    found: list[Any] = [nc.grad(loss, k)(*xs) for k in range(count)]
    found += [nc.jit(nc.grad(loss, k))(*xs) for k in range(count)]
    found += [nc.grad(lambda x: loss(*[x] * count))(xs[0])]
    found += [nc.grad(lambda x: nc.grad(lambda v: loss(*[v] * count))(x).sum())(xs[0])]
    found += [nc.jvp(f, xs, ts)[1], nc.jvp(nc.grad(loss), xs, ts)[1]]
    for k in range(count):
        leaves = [x.detach().requires_grad_(k == j) for j, x in enumerate(xs)]
        loss(*leaves).backward()
        found.append(leaves[k].grad)
        found.append(nc.jvp(lambda v, k=k: f(*xs[:k], v, *xs[k + 1 :]), (xs[k],), (ts[k],))[1])
    return [x.numpy() for x in found]


@pytest.mark.parametrize(("made", "count"), [(multiply, 2), (plus, 2), (to_sum, 3)])
def test_transposes_of_operations_that_are_linear_in_each_operand_or_in_several_together(made: Any, count: int) -> None:
    f, known = made()
    for one, other in zip(all_derivatives(f, count), all_derivatives(known, count), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_a_transpose_may_use_another_operation_from_outside() -> None:
    def flipped(name: str, **rules: Any) -> Any:
        body = "kernel k(x: {0}) -> (y: {1}):\n  for i in {2}:\n    y[i] = x[{2} - 1 - i]"
        return nc.primitive(
            name, result=lambda x: x, nest=lambda types, t: body.format(types[0], t, t.shape[0]), **rules
        )

    back = flipped("outside_back")
    there = flipped("outside_there", transposes=[lambda g, x: back(g)])
    assert nc.grad(lambda x: there(x)[0] * 3)(nc.ones(3)).tolist() == [0, 0, 3]


def doubled(**rules: Any) -> Any:
    body = "kernel k(x: {0}) -> (y: {0}):\n  for i in {1}:\n    y[i] = mul(x[i], 2.0:f32)"
    return nc.primitive(
        "outside_doubled",
        result=lambda x: x,
        nest=lambda types, t: body.format(types[0], types[0].shape[0]),
        dtypes=[nc.float32],
        **rules,
    )


X = nc.ones(3)


def tangent(f: Any) -> Any:
    return nc.jvp(f, (X,), (X,))[1]


def gradient(f: Any) -> Any:
    return nc.grad(lambda x: f(x).sum())(X)


def recorded(f: Any) -> Any:
    return f(X.detach().requires_grad_()).sum().backward()


def batched(f: Any) -> Any:
    return nc.vmap(f, randomness="same")(nc.ones((2, 3)))


def swapped(f: Any) -> Any:
    return nc.vmap(f, in_axes=1)(nc.ones((3, 2)))


DIFFERENTIATED = (tangent, gradient, recorded)
WRONG: dict[str, tuple[Any, Any]] = {
    r"jvp of .*the tangent of the result must have type f32\[3\]; got f32\[2\]": (
        DIFFERENTIATED, {"jvp": lambda y, xs, ts: ts[0][:2]},
    ),
    r"the tangent of the result must have type f32\[3\]; got f64\[3\]": (
        DIFFERENTIATED, {"jvp": lambda y, xs, ts: ts[0].astype(nc.float64)},
    ),
    "must be linear in the tangents of the operands; got add": (
        DIFFERENTIATED, {"jvp": lambda y, xs, ts: ts[0] * 2 + 1},
    ),
    "must be linear in the tangents of the operands; got mul": (
        DIFFERENTIATED, {"jvp": lambda y, xs, ts: ts[0] * ts[0]},
    ),
    "must be linear in the tangents of the operands; got sin": (
        DIFFERENTIATED, {"jvp": lambda y, xs, ts: nc.sin(ts[0])},
    ),
    "must be linear in the tangents of the operands; got a constant": (DIFFERENTIATED, {"jvp": lambda y, xs, ts: y}),
    "jvp of outside_doubled: the rule must return the tangent of the result, a tensor; got 3.0": (
        DIFFERENTIATED, {"jvp": lambda y, xs, ts: 3.0},
    ),
    r"a tensor; got \(Tensor": (DIFFERENTIATED, {"jvp": lambda y, xs, ts: (ts[0],)}),
    r"a tensor; got ndarray": (DIFFERENTIATED, {"jvp": lambda y, xs, ts: np.ones(3)}),
    r"the cotangent of operand 0 must have type f32\[3\]; got f32\[2\]": (
        DIFFERENTIATED, {"transposes": [lambda g, x: g[:2]]},
    ),
    "must be linear in operand 0, so its rule must not read": (DIFFERENTIATED, {"transposes": [lambda g, x: g * x]}),
    r"transposes\[0\] of outside_doubled: the result must be linear in the cotangent of the result; got mul": (
        DIFFERENTIATED, {"transposes": [lambda g, x: g * g]},
    ),
    r"transposes\[0\] of .* the cotangent of operand 0, a tensor; got 2": (
        DIFFERENTIATED, {"transposes": [lambda g, x: 2]},
    ),
    r"outside_doubled: transposes\[0\] must be a rule to differentiate by operand 0; got None": (
        DIFFERENTIATED, {"transposes": [None]},
    ),
    "outside_doubled: a derivative must be defined": (DIFFERENTIATED, {}),
    r"the result of the batch, along axis 0 must have type f32\[2, 3\]; got f32\[1, 3\]": (
        (batched,), {"batch": lambda xs, axes: (xs[0][:1] * 2, 0)},
    ),
    r"must have type f32\[2, 3\]; got f32\[2, 2\]": ((batched,), {"batch": lambda xs, axes: (xs[0][:, :2], 0)}),
    r"must have type f32\[2, 3\]; got f64": ((batched,), {"batch": lambda xs, axes: (xs[0].astype(nc.float64), 0)}),
    r"along axis 0 must have type f32\[2, 3\]; got f32\[3, 2\]": (
        (swapped,), {"batch": lambda xs, axes: (xs[0] * 2, 0)},
    ),
    r"the result of the batch must have type f32\[3\]; got f32\[2, 3\]": (
        (batched,), {"batch": lambda xs, axes: (xs[0] * 2, None)},
    ),
    r"the batch axis must be in \[-2, 2\); got 2": ((batched,), {"batch": lambda xs, axes: (xs[0], 2)}),
    "the batch axis must be an integer, or None; got '0'": ((batched,), {"batch": lambda xs, axes: (xs[0], "0")}),
    "must return a tensor and its batch axis; got Tensor": ((batched,), {"batch": lambda xs, axes: xs[0]}),
    "the result of the batch, along axis 0, a tensor; got 3": ((batched,), {"batch": lambda xs, axes: (3, 0)}),
}  # fmt: skip
CASES = [(way, message) for message, (ways, _) in WRONG.items() for way in ways]


@pytest.mark.parametrize(("way", "message"), CASES)
def test_results_of_rules_are_checked(way: Any, message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        way(doubled(**WRONG[message][1]))


@pytest.mark.parametrize("way", DIFFERENTIATED)
def test_a_partial_derivative_of_none_is_refused_and_zero_is_not(way: Any) -> None:
    f = nc.primitive("outside_half", element=lambda x, y: x * y, partials=[None, lambda y, a, b: a])
    with pytest.raises(nc.GradientError, match=r"partials\[0\] must be a rule to differentiate by operand 0; got None"):
        way(lambda x: f(x, 2.0))
    assert gradient(lambda x: f(2.0, x)).tolist() == [2, 2, 2]
    flat = nc.primitive("outside_flat", element=lambda x: x.apply("floor"), partials=[lambda y, x: 0])
    assert gradient(flat).tolist() == [0, 0, 0]


def test_zero_tangents_cotangents_and_branches() -> None:
    assert gradient(doubled(jvp=lambda y, xs, ts: None)).tolist() == [0, 0, 0]
    assert gradient(doubled(transposes=[lambda g, x: None])).tolist() == [0, 0, 0]
    f = doubled(jvp=lambda y, xs, ts: nc.where(xs[0] > 0, ts[0] * 2, 0.0) + nc.pad(ts[0][1:], ((0, 1),)) * 0)
    assert gradient(f).tolist() == tangent(f).tolist() == [2, 2, 2]


def test_axes_of_batches_are_counted_from_either_end() -> None:
    for axis in (0, -2):
        assert batched(doubled(batch=lambda xs, axes, axis=axis: (xs[0] * 2, axis))).tolist() == [[2] * 3] * 2
    seen: list[Any] = []
    f = nc.primitive("outside_pair", element=lambda x, y: x * y, batch=lambda xs, axes: seen.append(axes) or (xs[0], 0))
    nc.vmap(f, in_axes=(0, None))(nc.ones((2, 3)), nc.ones(3))
    assert seen == [[0, None]]


STEP = nc.nn.Parameter(nc.tensor(0.5))
OUTSIDE: dict[str, Callable[[Any], Any]] = {
    "read": lambda x: x * STEP,
    "assigned": lambda x: (STEP.assign(nc.tensor(1.0)), x)[1],
    "random": lambda x: x * nc.random.uniform((3,)),
}


@pytest.mark.parametrize(("kind", "rule"), list(pairs(OUTSIDE, ["jvp", "transposes", "batch", "partials"])))
def test_rules_that_use_variables_are_refused(kind: str, rule: str) -> None:
    use = OUTSIDE[kind]
    made = {
        "jvp": lambda: doubled(jvp=lambda y, xs, ts: use(ts[0])),
        "transposes": lambda: doubled(transposes=[lambda g, x: use(g)]),
        "batch": lambda: doubled(batch=lambda xs, axes: (use(xs[0]), 0)),
        "partials": lambda: nc.primitive("outside_e", element=lambda x: x * 2, partials=[lambda y, x: use(x)]),
    }[rule]()
    ways = (batched,) if rule == "batch" else DIFFERENTIATED
    for way in ways:
        with pytest.raises(
            nc.TraceError, match=rf"{rule}.* of outside_.*must depend on its arguments alone.* variable"
        ):
            way(made)
    assert STEP.value.item() == 0.5


def test_rules_that_use_tensors_of_transformations_are_refused() -> None:
    def f(scale: Any) -> Any:
        return gradient(doubled(transposes=[lambda g, x: g * scale]))

    assert f(nc.tensor(2.0)).tolist() == [2, 2, 2]
    for way in (nc.jit(f), lambda s: f(s.requires_grad_()), nc.grad(lambda s: f(s).sum())):
        with pytest.raises(nc.TraceError, match="is traced or requires a gradient"):
            way(nc.tensor(2.0))


def test_an_error_in_a_rule_names_it() -> None:
    f = doubled(transposes=[lambda g, x: {}["missing"]])
    with pytest.raises(KeyError) as caught:
        gradient(f)
    assert "raised in transposes[0] of outside_doubled" in caught.value.__notes__
