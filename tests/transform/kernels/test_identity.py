"""What a kernel is: its name in saved programs, and the objects that its names have."""

from __future__ import annotations

import linecache
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nacre as nc

X = nc.tensor([1.0, 2.0])


def twice(x: Any) -> Any:
    return 2 * x


def thrice(x: Any) -> Any:
    return 3 * x


def doubled() -> Any:
    @nc.kernel(out=lambda x: x)
    def scaled(x, out):
        for i in nc.prange(x.shape[0]):
            out[i] = x[i] * 2

    return scaled


def tripled() -> Any:
    @nc.kernel(out=lambda x: x)
    def scaled(x, out):
        for i in nc.prange(x.shape[0]):
            out[i] = x[i] * 3

    return scaled


def body(x: Any, out: Any) -> None:
    for i in nc.prange(x.shape[0]):
        out[i] = x[i] * 2


def of_helper(helper: Any) -> Any:
    def applied(x, out):
        for i in nc.prange(x.shape[0]):
            out[i] = helper(x[i])

    return nc.kernel(applied, out=lambda x: x)


def sized(n: int) -> Any:
    return nc.kernel(body, out=lambda x: ((n,), x.dtype))


PAIRS = {
    "bodies": (doubled(), tripled()),
    "helpers": (of_helper(twice), of_helper(thrice)),
    "dtypes": (nc.kernel(body, out=lambda x: x), nc.kernel(body, out=lambda x: (x.shape, nc.float64))),
    "sizes": (sized(2), sized(3)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_kernels_of_one_name_in_a_saved_program(name: str, tmp_path: Path) -> None:
    first, second = PAIRS[name]
    assert first.__name__ == second.__name__

    def both(x: Any) -> Any:
        return first(x), second(x)

    wanted = both(X)
    nc.save_program(both, tmp_path / "both.nacre", X)
    found = nc.load_program(tmp_path / "both.nacre")(X)
    for y, w in zip(found, wanted, strict=True):
        assert y.dtype is w.dtype
        np.testing.assert_array_equal(y.numpy(), w.numpy())
    assert not np.array_equal(wanted[0].numpy(), wanted[1].numpy()) or wanted[0].dtype is not wanted[1].dtype


def test_a_program_needs_the_kernel_that_it_was_saved_with(tmp_path: Path) -> None:
    defined: dict[str, Any] = {"nc": nc}
    source = tmp_path / "other.py"
    for factor in (5, 6):
        lines = "def other(x, out):\n    for i in nc.prange(x.shape[0]):\n        out[i] = x[i] * FACTOR\n"
        source.write_text(lines.replace("FACTOR", str(factor)))
        linecache.checkcache(str(source))
        exec(compile(source.read_text(), str(source), "exec"), defined)
        k = nc.kernel(defined["other"], out=lambda x: x)
        if factor == 5:
            nc.save_program(k, tmp_path / "k.nacre", X)
            assert nc.load_program(tmp_path / "k.nacre")(X).tolist() == [5, 10]
    assert k(X).tolist() == [6, 12]
    assert nc.load_program(tmp_path / "k.nacre")(X).tolist() == [5, 10]  # the first definition remains


SETTINGS = SimpleNamespace(factor=2.0, f=twice)
FACTOR = 2.0


class Settings:
    factor = 2.0


def in_helper(x: Any) -> Any:
    return x * Settings.factor


@nc.kernel(out=lambda x: x)
def by_attributes(x, out):
    for i in nc.prange(x.shape[0]):
        out[i] = x[i] * SETTINGS.factor + in_helper(x[i])


@nc.kernel(out=lambda x: ((), x.dtype))
def in_a_sum(x, out):
    out[()] = nc.pairwise_sum(x[k] * FACTOR for k in range(x.shape[0]))


@nc.kernel(out=lambda x: x)
def of_another_name(x, out):
    s = SETTINGS
    for i in nc.prange(x.shape[0]):
        out[i] = x[i] * s.factor


def test_numbers_are_read_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    jitted = nc.jit(lambda x: (by_attributes(x), in_a_sum(x)))
    assert by_attributes(X).tolist() == jitted(X)[0].tolist() == [4, 8]
    assert in_a_sum(X).item() == jitted(X)[1].item() == 6
    monkeypatch.setattr(SETTINGS, "factor", 3.0)
    monkeypatch.setattr(Settings, "factor", 4)
    monkeypatch.setitem(globals(), "FACTOR", 0.5)
    assert by_attributes(X).tolist() == jitted(X)[0].tolist() == [7, 14]
    assert in_a_sum(X).item() == jitted(X)[1].item() == 1.5
    with pytest.raises(nc.GraphError, match="a number must be an attribute of a name of the module"):
        of_another_name(X)


HELPER: Any = twice
DTYPE: Any = np.float32


@nc.kernel(out=lambda x: x)
def helped(x, out):
    for i in nc.prange(x.shape[0]):
        out[i] = HELPER(x[i]) + DTYPE(1) + SETTINGS.f(x[i])


@pytest.mark.parametrize(("name", "value"), [("HELPER", thrice), ("HELPER", 2.0), ("DTYPE", np.float64)])
def test_another_object_is_refused(name: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert helped(X).tolist() == [5, 9]
    with monkeypatch.context() as m:
        m.setitem(globals(), name, value)
        for x in (X, nc.ones(3), nc.ones(2, dtype=nc.float64)):
            with pytest.raises(nc.GraphError, match=f"{name} in helped must be the object that it was"):
                helped(x)
    monkeypatch.delitem(globals(), name)
    with pytest.raises(nc.GraphError, match=f"{name} in helped must be .* got none; define the kernel again"):
        helped(X)


def test_an_index_before_the_beginning_with_symbolic_sizes() -> None:
    @nc.kernel(out=lambda x: x)
    def second_to_last(x, out):
        for i in nc.prange(x.shape[0]):
            if x[i] > 0:
                out[i] = x[-2]

    f = nc.jit(lambda x: second_to_last(x), dynamic_shapes={"x": {0: nc.Dim("n", max=9)}})
    for n in range(4):
        x = nc.arange(1.0, n + 1.0)
        assert f(x).tolist() == second_to_last(x).tolist() == [max(0.0, n - 1.0)] * n


def test_sizes_of_outputs_of_symbolic_inputs(tmp_path: Path) -> None:
    @nc.kernel(out=lambda x: ((x.shape[0] - 1,), x.dtype))
    def differences(x, out):
        for i in nc.prange(x.shape[0] - 1):
            out[i] = x[i + 1] - x[i]

    x = nc.tensor([1.0, 3.0, 6.0])
    with pytest.raises(nc.ShapeError, match=r"got n - 1; give the symbolic size a least one, .*min=1"):
        nc.save_program(lambda x: differences(x), tmp_path / "d", x, dynamic_shapes={"x": {0: nc.Dim("n")}})
    nc.save_program(lambda x: differences(x), tmp_path / "d", x, dynamic_shapes={"x": {0: nc.Dim("n", min=1)}})
    assert nc.load_program(tmp_path / "d")(x).tolist() == [2, 3]


def test_a_rule_that_calls_the_kernel_with_another_parameter() -> None:
    def power(x, out, *, n=2):
        for i in nc.prange(x.shape[0]):
            out[i] = x[i] ** float(n)

    reverse, both = nc.kernel(power, out=lambda x: x), nc.kernel(power, out=lambda x: x)
    reverse.defvjp(lambda x, n: (reverse(x, n=n), x), lambda n, x, g: (n * reverse(x, n=n - 1) * g,))

    @both.defjvp
    def rule(n, primals, tangents):
        (x,), (t,) = primals, tangents
        return both(x, n=n), n * both(x, n=n - 1) * t

    assert nc.jvp(lambda x: both(x, n=3), (X,), (nc.ones(2),))[1].tolist() == [3, 12]
    for k in (reverse, both):
        derivative: Any = lambda x, k=k: k(x, n=3).sum()  # noqa: E731
        for wanted in ([3, 12], [6, 12], [6, 6], [0, 0]):
            derivative = lambda x, f=nc.grad(derivative): f(x).sum()  # noqa: E731
            assert derivative(X).item() == sum(wanted)
        with pytest.raises(nc.GradientError, match="an order of at most 4"):
            nc.grad(derivative)(X)


@nc.kernel(out=lambda x: (x, (x.shape, nc.int64)))
def both_parts(x, whole, part):
    for i in nc.prange(x.shape[0]):
        part[i] = int(x[i])
        whole[i] = x[i] % 1.0


def test_a_kernel_of_a_module_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(both_parts)) is both_parts


def test_outputs_in_a_tuple() -> None:
    whole, part = both_parts(np.array([1.5, -2.25]))
    assert whole.tolist() == [0.5, 0.75] and part.tolist() == [1, -2]
    fixed = nc.kernel(out=((2,), nc.int64))(both_parts.function.__globals__["first_of_two"])
    assert fixed(np.array([3, 4])).tolist() == [3, 0]


def first_of_two(x, out):
    out[0] = x[0]
