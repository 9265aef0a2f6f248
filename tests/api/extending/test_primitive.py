"""`nacre.primitive`: a definition from outside has the same bits in all modes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc


def swish() -> Callable[..., Any]:
    return nc.primitive(
        "outside_swish",
        element=lambda x: x * x.apply("sigmoid"),
        partials=[lambda y, x: nc.sigmoid(x) * (1 + x - y)],
    )


def hypotenuse() -> Callable[..., Any]:
    return nc.primitive(
        "outside_hypotenuse",
        element=lambda x, y: (x * x + y * y).apply("sqrt"),
        partials=[lambda r, x, y: x / r, lambda r, x, y: y / r],
    )


def flipped() -> Callable[..., Any]:
    def flip(types: Any, t: Any) -> str:
        rows, columns = t.shape
        return f"""
        kernel flip(x: {types[0]}) -> (y: {t}):
          parallel for i in {rows}:
            vector for j in {columns}:
              y[i, j] = x[size({rows}) - 1 - i, j]
        """

    made = nc.primitive("outside_flip", nest=flip, result=lambda x: x, transposes=[lambda g, x: made(g)])
    return made


def same(x: Any, y: Any) -> bool:
    return x.dtype is y.dtype and x.shape == y.shape and x.numpy().tobytes() == y.numpy().tobytes()


@pytest.mark.parametrize("dtype", [nc.float16, nc.bfloat16, nc.float32, nc.float64])
def test_results_have_the_same_bits_eagerly_compiled_fused_and_batched(dtype: Any) -> None:
    f, x = swish(), nc.random.normal((5, 37)).astype(dtype)

    def around(x: Any) -> Any:
        return nc.sum(f(x * 2) + 1, axis=1)

    assert same(f(x), nc.jit(f)(x)) and same(f(x), nc.vmap(f)(x)) and same(f(x.T), f(x).T)
    assert same(around(x), nc.jit(around)(x)) and same(around(x), nc.vmap(around)(x[:, None])[:, 0])
    gradient = nc.grad(lambda x: around(x).astype(nc.float32).sum())
    assert same(gradient(x), nc.jit(gradient)(x))


def test_values_and_derivatives_are_right() -> None:
    f, x = swish(), nc.tensor([-2.0, 0.0, 0.5, 3.0], dtype=nc.float64)
    known = lambda x: x * nc.sigmoid(x)  # noqa: E731
    np.testing.assert_allclose(f(x).numpy(), known(x).numpy(), rtol=1e-15)
    for order in (nc.grad, lambda g: nc.grad(lambda x: nc.grad(g)(x).sum())):
        one, other = (order(lambda x, g=g: g(x).sum())(x).numpy() for g in (f, known))
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_allclose(nc.jvp(f, (x,), (x,))[1].numpy(), nc.jvp(known, (x,), (x,))[1].numpy(), rtol=1e-12)


def test_backward_goes_through_a_primitive() -> None:
    x = nc.tensor([3.0, 0.0]).requires_grad_()
    for _ in range(3):
        x.grad = None
        hypotenuse()(x, 4.0).sum().backward()
        assert x.grad is not None and x.grad.tolist() == pytest.approx([0.6, 0.0])


def test_operands_broadcast_and_are_promoted() -> None:
    f = hypotenuse()
    assert f(3, [[4.0], [0.0]]).tolist() == [[5.0], [3.0]]
    assert f(nc.ones((2, 1)), nc.ones(3, dtype=nc.float64)).dtype is nc.float64
    assert nc.vmap(f, in_axes=(0, None))(nc.ones((4, 3)), nc.ones(3)).shape == (4, 3)


def test_a_nest_takes_views_and_any_size() -> None:
    f, x = flipped(), nc.reshape(nc.arange(6.0), (2, 3))
    assert f(x).tolist() == [[3, 4, 5], [0, 1, 2]] and f(x.T).tolist() == x.T.tolist()[::-1]
    assert nc.grad(lambda v: (f(v) * x).sum())(x).tolist() == [[3, 4, 5], [0, 1, 2]]
    sized = nc.jit(lambda x: f(x), dynamic_shapes={"x": {0: nc.Dim("n", 1, 512)}})
    assert same(sized(x), f(x))
    with pytest.raises(nc.Error, match="must have a batch rule"):
        nc.vmap(f)(nc.ones((2, 2, 2)))


def test_parameters_are_given_by_name() -> None:
    near = nc.primitive("outside_near", element=lambda x, y, *, within: abs(x - y) < within)
    assert near(1.0, [1.1, 2.0], within=0.5).tolist() == [True, False]
    assert nc.jit(lambda x: near(x, 0.0, within=2.0))(nc.ones(2)).tolist() == [True, True]
    with pytest.raises(nc.Error, match="near: the parameters must be within; got none"):
        near(1.0, 2.0)
    with pytest.raises(nc.Error, match="near: parameters must be numbers"):
        near(1.0, 2.0, within=[1])


def test_a_name_may_be_defined_again() -> None:
    one = nc.primitive("outside_twice", element=lambda x: x * 2)
    assert one([1.0]).tolist() == [2.0]
    other = nc.primitive("outside_twice", element=lambda x: x * 3)
    assert [f([1.0]).tolist() for f in (one, other, nc.jit(one), nc.jit(other))] == [[2.0], [3.0], [2.0], [3.0]]


REFUSED = {
    "the name must be new; got 'exp'": lambda: nc.primitive("exp", element=lambda x: x * 2),
    "the name must be an identifier": lambda: nc.primitive("a b", element=lambda x: x * 2),
    "element, or nest with result": lambda: nc.primitive("outside_bad"),
    "element must be a function; got 3": lambda: nc.primitive("outside_bad", element=3),  # type: ignore[arg-type]
    "must be an expression; got 3": lambda: nc.primitive("outside_bad", element=lambda x: 3),
    "must be valid for float16": lambda: nc.primitive("outside_bad", element=lambda x: x & x),
    "the operation must be one of add": lambda: nc.primitive("outside_bad", element=lambda x: x.apply("foo")),
    "each of 1 operands; got 2": lambda: nc.primitive("outside_bad", element=lambda x: -x, partials=[None, None]),
    "write `condition.where": lambda: nc.primitive("outside_bad", element=lambda x: x if x > 0 else -x),
    "a parameter for each operand": lambda: nc.primitive("outside_bad", element=lambda *x: x),
    "given once; got partials and jvp": lambda: nc.primitive(
        "outside_bad", element=lambda x: -x, partials=[None], jvp=lambda y, xs, ts: ts[0]
    ),
    "dtypes must not be empty": lambda: nc.primitive("outside_bad", element=lambda x: -x, dtypes=()),
    "a derivative must be defined": lambda: nc.grad(nc.primitive("outside_bad", element=lambda x: x * 2))(1.0),
    r"partials\[0\] of outside_bad: the derivative of the result must have type f32\[3\]": lambda: nc.grad(
        lambda x: nc.primitive("outside_bad", element=lambda x: x * 2, partials=[lambda y, x: x.sum()])(x).sum()
    )(nc.ones(3)),
    "operands must have dtype": lambda: swish()([1, 2]),
    "takes 1 operands; got 2": lambda: swish()(1.0, 2.0),
    "outside_bad: the outputs of the kernel": lambda: nc.primitive(
        "outside_bad",
        result=lambda x: x,
        nest=lambda types, t: f"kernel k(x: {types[0]}) -> (y: f32[9]):\n  for i in 9:\n    y[i] = x[i]",
    )(nc.ones(3)),
    "must be a type, or a shape and a dtype": lambda: nc.primitive(
        "outside_bad", result=lambda x: 3, nest=lambda types, t: ""
    )(nc.ones(3)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_definitions_are_refused(message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        REFUSED[message]()


PROGRAM = """
import nacre as nc
from nacre.compile.program import cache
f = nc.primitive("outside_kept", element=lambda x: x * {factor}, version="{version}")
nc.jit(lambda x: f(x) + 1)(nc.ones(3))
print(nc.jit(lambda x: f(x) + 1)(nc.ones(3)).tolist(), "nacre.compile.pipeline" in __import__("sys").modules)
"""


def test_programs_are_stored_on_disk_under_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NACRE_CACHE_DIR", str(tmp_path))

    def run(factor: int, version: str) -> str:
        code = PROGRAM.format(factor=factor, version=version)
        return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()

    assert [run(2, "1"), run(2, "1"), run(3, "2")] == ["[3.0, 3.0, 3.0] True", "[3.0, 3.0, 3.0] False"] + [
        "[4.0, 4.0, 4.0] True"
    ]
    assert [run(2, ""), run(3, "")] == ["[3.0, 3.0, 3.0] True", "[4.0, 4.0, 4.0] True"]


def test_parameters_have_any_name(tmp_path: Path) -> None:
    names = ("size", "stride", "padding", "axis", "axes", "dtype", "shape")
    for name in names:
        scope: dict[str, Any] = {}
        exec(f"def element(x, *, {name}):\n    return x * {name}", scope)
        f = nc.primitive(f"outside_{name}", element=scope["element"], version="1")
        program = nc.freeze(nc.jit(lambda x, f=f, name=name: f(x, **{name: 3})), nc.ones(2))
        nc.save_program(program, tmp_path / name)
        assert nc.load_program(tmp_path / name)(nc.ones(2)).tolist() == [3.0, 3.0]


def squares(x: Any) -> Any:
    """x to the power 2^40, an expression that shares its parts."""
    for _ in range(40):
        x = x * x
    return x


def inverse_root(x: Any) -> Any:
    """1 / sqrt(x) by Newton's method."""
    y = x * 0 + 0.5
    for _ in range(12):
        y = y * (1.5 - 0.5 * x * y * y)
    return y


def test_expressions_that_share_their_parts_stay_small() -> None:
    x = nc.tensor([1.0, -1.0, 1 - 2.0**-24])
    found = nc.jit(nc.primitive("outside_squares", element=squares))
    assert found(x).numpy().tobytes() == squares(x.numpy()).tobytes()
    assert len(found.explain(x).kernel(0)) < 4000
    newton = nc.primitive("outside_newton", element=inverse_root)
    np.testing.assert_allclose(newton([0.5, 1.0, 2.0]).numpy(), np.array([0.5, 1.0, 2.0]) ** -0.5, rtol=1e-5)


def test_deep_expressions_have_names() -> None:
    def doubled(x: Any) -> Any:
        for _ in range(150):
            x = x + 1.0
        return x

    assert nc.primitive("outside_deep", element=doubled)([1.0]).tolist() == [151.0]


def test_faults_of_shared_expressions_are_short() -> None:
    with pytest.raises(nc.DTypeError, match="operand dtypes of and do not match") as fault:
        nc.primitive("outside_bad", element=lambda x: squares(x) & squares(x))
    assert len(str(fault.value)) < 1000
    with pytest.raises(nc.Error, match="nested less deeply"):
        nc.primitive("outside_bad", element=lambda x: [x := x + 1.0 for _ in range(2000)][-1])
