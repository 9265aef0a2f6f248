"""check_grads: right derivatives pass, wrong ones are named with their leaf, mode and order."""

from __future__ import annotations

from typing import Any

import pytest

import nacre as nc
from nacre import nn

X = nc.tensor([0.5, -1.0, 2.0])


@pytest.mark.parametrize("modes", ["fwd", "rev", ("fwd", "rev")])
def test_right_derivatives_pass(modes: Any) -> None:
    nc.check_grads(lambda x: nn.functional.softmax(nc.tanh(x) * x), (X,), modes=modes)


def test_trees_constants_numbers_and_modules() -> None:
    def f(p: Any, n: Any, scale: Any) -> Any:
        return {"y": p["w"] ** n * scale, "i": nc.argmax(p["w"])}, [p["b"]]

    nc.check_grads(f, ({"w": X, "b": nc.tensor(1.0)}, 3, 0.5), order=3)
    nc.random.seed(0)
    nc.check_grads(lambda m, x: nc.sin(m(x)), (nn.Linear(3, 2), nc.ones((2, 3))))


def test_complex_numbers() -> None:
    z = nc.tensor([1 + 2j, 0.5 - 1j])
    nc.check_grads(lambda z: (z * z * nc.conj(z), nc.abs(z), nc.exp(z)), (z,))


def wrong(first: float, second: float) -> Any:
    """A cube, whose first and second derivatives are multiplied by numbers."""
    g = nc.custom_jvp(lambda x: x * x)
    g.defjvp(lambda p, t: (g(*p), second * 2 * p[0] * t[0]))
    f = nc.custom_jvp(lambda x: x**3)
    f.defjvp(lambda p, t: (f(*p), first * 3 * g(*p) * t[0]))
    return f


MESSAGE = (
    r"check_grads: the derivative of {} by argument 0\['w'\], at \[\d\], of f, order {}, mode {}, must be .*; got "
)


def test_wrong_derivatives_are_named() -> None:
    def check(scales: tuple[float, float], order: int, modes: Any) -> None:
        cube = wrong(*scales)

        def f(p: Any) -> Any:
            return [cube(p["w"])]

        nc.check_grads(f, ({"w": X},), order, modes)

    check((1.0, 1.0), 2, ("fwd", "rev"))
    check((1.0, 2.0), 1, ("fwd", "rev"))
    with pytest.raises(nc.GradientError, match=MESSAGE.format(r"result\[0\]", 1, "fwd")):
        check((2.0, 1.0), 1, ("fwd", "rev"))
    with pytest.raises(nc.GradientError, match=MESSAGE.format(r"the tangent of result\[0\]", 2, "fwd over fwd")):
        check((1.0, 2.0), 2, ("fwd", "rev"))
    reverse = MESSAGE.replace(r", at \[\d\]", "")
    with pytest.raises(nc.GradientError, match=reverse.format(r"result\[0\]", 1, "rev")):
        check((2.0, 1.0), 1, "rev")
    pattern = reverse.format(r"the cotangent of argument 0\['w'\]", 2, "rev over rev")
    with pytest.raises(nc.GradientError, match=pattern):
        check((1.0, 2.0), 2, ["rev"])


def test_points_that_are_not_smooth() -> None:
    with pytest.raises(nc.GradientError, match="choose a point where f is smooth"):
        nc.check_grads(nn.functional.relu, (nc.tensor([0.0, 1.0]),), order=1)
    with pytest.raises(nc.GradientError, match=r"got nan|must be nan"):
        nc.check_grads(nc.log, (nc.tensor([-1.0]),), order=1)


def test_wrong_arguments_are_refused() -> None:
    for arguments, message in (
        ((nc.sin, X), "args must be a tuple"),
        ((nc.sin, (X,), 0), "order must be an integer from 1 to 8"),
        ((nc.sin, (X,), 9), "order must be an integer from 1 to 8"),
        ((nc.sin, (X,), 1, ("back",)), 'modes must be "fwd", "rev"'),
        ((nc.sin, (nc.tensor(1),)), "an argument must be floating-point"),
    ):
        with pytest.raises(nc.Error, match=message):
            nc.check_grads(*arguments)
