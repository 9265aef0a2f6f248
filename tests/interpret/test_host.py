"""Host calls under transformations, which mostly refuse them, and as text."""

from __future__ import annotations

from typing import Any

import pytest

import nacre as nc
from nacre.base.errors import ArgumentError, GradientError
from nacre.ir.parse import parse


def log(into: list[Any], y: Any) -> None:
    """Append a tensor's numbers to a list."""
    into.append(y.tolist())


def test_a_gradient_through_a_call_is_refused() -> None:
    def f(x: Any) -> Any:
        return nc.host_call(lambda x: x * 2, x.type, x).sum()

    x = nc.ones(3)
    for g in (nc.grad(f), nc.jit(nc.grad(f)), lambda x: nc.jvp(f, (x,), (x,)), nc.grad(nc.jit(f))):
        with pytest.raises(GradientError, match=r"host_call: .*<lambda> \(.*test_host.py:\d+\).*nc.primitive"):
            g(x)
    leaf = nc.tensor([1.0, 2.0, 3.0]).requires_grad_()
    with pytest.raises(GradientError, match="host_call"):
        f(leaf).backward()


def test_calls_through_which_no_gradient_flows_are_allowed() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        y = (x * x).sum()
        nc.host_call(lambda y: log(seen, y), None, y)
        count = nc.host_call(lambda x: 3, ((), nc.int32), x)
        scale = nc.host_call(lambda x: x, x.type, x.detach())
        nc.host_call(lambda y: log(seen, y) or y, y.type, y)
        return y * count.astype(nc.float32) + (scale * x).sum()

    x = nc.tensor([1.0, 2.0])
    for g in (nc.grad(f), nc.jit(nc.grad(f)), nc.grad(nc.jit(f))):
        assert g(x).tolist() == [7.0, 14.0]
        assert seen == [5.0, 5.0]
        seen.clear()
    leaf = nc.tensor([1.0, 2.0]).requires_grad_()
    f(leaf).backward()
    assert leaf.grad.tolist() == [7.0, 14.0]
    assert seen == [5.0, 5.0]


def test_a_derivative_of_a_loop_calls_once_for_each_iteration() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        def body(c: Any, _: Any) -> Any:
            nc.host_call(lambda c: log(seen, c), None, c)
            c = nc.cond(
                c > 2, lambda c: nc.host_call(lambda c: log(seen, "big" and c), None, c) or c * 2, lambda c: c, c
            )
            return c * x, None

        return nc.scan(body, x, length=3)[0]

    x = nc.tensor(2.0)
    wanted = [2.0, 4.0, 4.0, 16.0, 16.0]
    for g in (nc.grad(f), nc.jit(nc.grad(f)), nc.jit(nc.value_and_grad(f))):
        g(x)
        assert seen == wanted
        seen.clear()
    nc.jvp(f, (x,), (nc.ones(()),))
    assert seen == wanted


def test_vmap_and_checkpoint_are_refused_by_name() -> None:
    def f(x: Any) -> Any:
        return nc.host_call(lambda x: x, x.type, x.detach()) * x

    with pytest.raises(ArgumentError, match=r"vmap: .*host call.*<lambda> \(.*test_host.py:\d+\)"):
        nc.vmap(f)(nc.ones((2, 3)))
    with pytest.raises(GradientError, match=r"checkpoint: .*nc.host_call"):
        nc.grad(lambda x: nc.checkpoint(f)(x).sum())(nc.ones(3))


def test_the_graph_shows_the_call_and_is_not_read_back() -> None:
    def named(x: Any) -> Any:
        return x

    text = str(nc.jit(lambda x: nc.host_call(named, x.type, x)).trace(nc.ones(3)))
    assert "b: f32[3] = host_call[function=named](a)  # test_host.py:" in text
    with pytest.raises(nc.GraphError, match="function of this process"):
        parse(text.replace("function=named", 'function="named"'))


def test_programs_with_calls_are_not_saved_or_deployed(tmp_path: Any) -> None:
    def f(x: Any) -> Any:
        return nc.host_call(lambda x: x, x.type, x)

    for write in (
        lambda: nc.save_program(f, tmp_path / "f.safetensors", nc.ones(3)),
        lambda: nc.deploy.compile(f, [nc.ones(3)], tmp_path / "f.o", "object"),
    ):
        with pytest.raises(ArgumentError, match=r"host_call.*<lambda> \(.*test_host.py:\d+\)"):
            write()
    assert not list(tmp_path.iterdir())
    assert nc.freeze(f, nc.ones(3))(nc.ones(3)).tolist() == [1.0] * 3
