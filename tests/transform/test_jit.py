"""Jitted functions behave like the original functions, and are traced again when necessary."""

from __future__ import annotations

import gc
import hashlib
import inspect
import math
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim
from nacre.base.errors import ArgumentError, DTypeError, Error, GradientError, ShapeError, StateError, TraceError
from nacre.base.state import STATE
from nacre.runtime import buffer
from nacre.trace.bind import ACTIVE
from nacre.trace.variable import Variable
from same_bits import canonical

X = nc.tensor([1.0, -2.0, 3.0])


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert (STATE.interpreters, STATE.word, ACTIVE.value) == ([], 0, 0)


def same(a: Any, b: Any) -> None:
    assert canonical(a) == canonical(b)


# ---- arguments and results


class Pair(NamedTuple):
    left: Any
    right: Any


def test_arguments_and_results_may_be_trees() -> None:
    @nc.jit
    def f(params: Any, pair: Any, *, scale: Any) -> Any:
        y = params["w"] * pair.left + params["b"][0]
        return {"y": y * scale, "pair": Pair(y, None), "list": [y, (y,)], "note": "kept", "n": 3}

    one = {"w": X, "b": [X * 2]}
    for _ in range(2):
        found = f(one, Pair(X, "tag"), scale=2.0)
        assert found["note"] == "kept" and found["n"] == 3 and found["pair"].right is None
        assert isinstance(found["pair"], Pair)
        same(found["y"], (X * X + X * 2) * 2.0)
        same(found["list"][1][0], X * X + X * 2)
    assert len(f.concrete_functions) == 1


def test_plain_values_are_part_of_the_signature() -> None:
    traced: list[Any] = []

    @nc.jit
    def f(x: Any, n: Any, mode: str = "up") -> Any:
        traced.append((n, mode))
        return x * n if mode == "up" else x / n

    same(f(X, 2), X * 2)
    same(f(X, 2), X * 2)
    same(f(X, 4, mode="down"), X / 4)
    same(f(X, 2.0), X * 2.0)
    same(f(X, True), X * 1)
    same(f(X, 1), X * 1)
    same(f(X, 0.0), X * 0.0)
    same(f(X, -0.0), X * -0.0)
    same(f(X, float("nan")), X * float("nan"))
    count = len(traced)
    f(X, float("nan"))
    assert len(traced) == count
    assert next(iter(f.concrete_functions)).reason == "first call"


def test_arrays_numbers_and_parameters_are_accepted() -> None:
    f = nc.jit(lambda x: x * 2)
    same(f(X), X * 2)
    same(f(X.numpy()), X * 2)
    same(f(nn.Parameter(X)).detach(), X * 2)
    same(f(3), nc.tensor(6)) if isinstance(f(3), nc.Tensor) else None
    assert f(3) == 6 and f(1.5) == 3.0


def test_types_shapes_and_structures_have_separate_traces() -> None:
    f = nc.jit(lambda x: x + 1)
    for x in (X, X.astype(nc.float64), nc.zeros((2, 2)), nc.zeros((0,)), nc.tensor([1, 2])):
        same(f(x), x + 1)
    reasons = [c.reason for c in f.concrete_functions]
    assert len(reasons) == 5 and reasons[1] == "argument x: dtype is float64, was float32"
    assert reasons[2] == "argument x: shape is [2, 2], was [3]"
    g = nc.jit(lambda t: t[0] + t[-1])
    same(g([X]), X + X)
    same(g([X, X * 2]), X + X * 2)
    assert g.concrete_functions[1].reason == "argument t is a list of 2, was a list of 1"


def test_reasons_for_a_compilation_are_in_plain_words() -> None:
    f = nc.jit(lambda x, scale=1.0, **more: x * scale)
    y = X.astype(nc.float64)
    f(X)
    with nc.no_grad():
        f(X)
        f(y)
        f(nc.zeros((2, 2)))
    f(X, 2.0)
    f(y, 3.0)
    f(X, scale=2.0)
    with nc.numerics("fast"):
        f(X)
    f(X, X)
    f(X, z=[X])
    f(X, z=(X,))
    assert [c.reason for c in f.concrete_functions[1:]] == [
        "gradients are not recorded now, and were before",
        "argument x: dtype is float64, was float32",
        "argument x: shape is [2, 2], was [3]",
        "2 positional arguments, 1 before",
        "argument x: dtype is float64, was float32; argument scale is 3.0, was 2.0",
        "keyword arguments are scale, were none",
        "nc.numerics is 'fast', was 'exact'",
        "argument scale is a tensor f32[3], was 2.0",
        "keyword arguments are z, were scale",
        "a keyword argument has another structure",
    ]


def test_a_change_of_the_dtype_comes_before_a_change_of_the_mode() -> None:
    f = nc.jit(lambda x: x * 2)
    f(X)
    with nc.no_grad():
        f(nc.zeros(2, dtype=nc.float64))
    assert f.concrete_functions[1].reason == (
        "argument x: dtype is float64, was float32; argument x: shape is [2], was [3]; "
        "gradients are not recorded now, and were before"
    )


def test_the_reason_names_a_leaf_of_a_container() -> None:
    f = nc.jit(lambda batch, *rest: batch["x"] + rest[0])
    f({"x": X, "n": 1}, X)
    f({"x": X, "n": 2}, X)
    f({"x": X, "n": 2}, X.astype(nc.float64))
    assert [c.reason for c in f.concrete_functions[1:]] == [
        "argument batch['n'] is 2, was 1",
        "argument rest[0]: dtype is float64, was float32",
    ]


def test_views_are_arguments() -> None:
    f = nc.jit(lambda x, y: x @ y + y.sum(axis=0))
    a = nc.tensor(np.arange(12.0, dtype=np.float32).reshape(3, 4))
    same(f(a.T[::-1], a[:, ::2]), a.T[::-1] @ a[:, ::2] + a[:, ::2].sum(axis=0))


def test_unhashable_arguments_are_explained() -> None:
    with pytest.raises(TraceError, match="hashable"):
        nc.jit(lambda x, s: x)(X, {1, 2})


def test_methods_are_functions() -> None:
    class Scaled:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @nc.jit
        def apply(self, x: Any) -> Any:
            return x * self.factor

    a, b = Scaled(2.0), Scaled(3.0)
    same(a.apply(X), X * 2)
    same(b.apply(X), X * 3)
    same(a.apply(X), X * 2)
    assert Scaled.apply.__name__ == "apply"


class Stretched:
    """A class with a jitted method."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @nc.jit
    def apply(self, x: Any) -> Any:
        return x * self.factor


def test_a_jitted_method_answers_what_a_jitted_function_answers() -> None:
    held = Stretched(2.0)
    apply = held.apply
    assert apply(X).tolist() == copy(apply)(X).tolist() == [2.0, -4.0, 6.0]
    whole = Stretched.apply
    assert apply.concrete_functions == whole.concrete_functions and len(apply.concrete_functions) >= 1
    assert apply.dropped == whole.dropped == 0 and apply.name == apply.__name__ == "apply"
    assert apply.concrete(X) is whole.concrete(held, X)
    assert apply.memory(X) == whole.memory(held, X) and apply.cost(X) == whole.cost(held, X)
    assert str(apply.trace(X)) == str(whole.trace(held, X))
    assert str(apply.explain(X)) == str(whole.explain(held, X))
    assert apply.prepare(X).compiled is whole.prepare(held, X).compiled
    assert "memory" in dir(apply) and list(inspect.signature(apply).parameters) == ["x"]
    assert repr(apply).startswith("<<jit apply:")
    with pytest.raises(AttributeError, match="nothing"):
        _ = apply.nothing


def test_a_jitted_method_sees_its_instance() -> None:
    held = Stretched(2.0)
    apply = held.apply
    compiled = nc.jit(lambda x: held.apply(x) + 1.0)
    for factor in (2.0, 3.0, 2.0):
        held.factor = factor
        assert apply(X).tolist() == (X * factor).tolist()
        assert compiled(X).tolist() == (X * factor + 1.0).tolist()


def test_results_that_are_arguments_captures_or_nothing() -> None:
    held = X * 5
    f = nc.jit(lambda x: (x, held, None, (), 3, nc.tensor(2.0)))
    x, kept, none, empty, three, two = f(X)
    same(x, X)
    same(kept, X * 5)
    same(two, nc.tensor(2.0))
    assert (none, empty, three) == (None, (), 3)
    assert nc.jit(lambda x: None)(X) is None
    assert nc.jit(lambda: 7)() == 7
    same(nc.jit(lambda: nc.ones((2,)))(), nc.ones((2,)))


# ---- surroundings


def test_captured_tensors_are_read_at_each_call() -> None:
    held = nc.tensor([1.0, 2.0, 3.0])
    f = nc.jit(lambda x: x + held)
    same(f(X), X + held)
    held[0] = 100.0
    same(f(X), X + held)
    assert len(f.concrete_functions) == 1


def test_variables_are_read_at_each_call() -> None:
    v = nn.Parameter(X)
    f = nc.jit(lambda x: x * v)
    same(f(X).detach(), X * X)
    v.assign(X * 2)
    same(f(X).detach(), X * (X * 2))
    assert len(f.concrete_functions) == 1


def test_writes_are_seen_inside_and_outside() -> None:
    count, total = Variable(nc.tensor(0)), Variable(X * 0)

    @nc.jit
    def f(x: Any) -> Any:
        before = count.value
        count.assign(before + 1)
        total.assign(total.value + x)
        return before, count.value, total.value * 2

    for n in range(4):
        before, after, double = f(X)
        assert (int(before), int(after), int(count.value)) == (n, n + 1, n + 1)
        same(double, total.value * 2)
    same(total.value, X + X + X + X)


def test_updates_in_place_do_not_change_shared_tensors() -> None:
    v = Variable(nc.zeros((1000,)))
    step = nc.jit(lambda x: v.assign(v.value + x))
    one = nc.ones((1000,))
    step(one)
    address = v.value.content.address
    step(one)
    assert v.value.content.address == address, "nobody else held it: updated in place"
    old = v.value
    step(one)
    assert float(old[0]) == 2.0 and float(v.value[0]) == 3.0
    array = v.value.numpy()
    step(one)
    assert array[0] == 3.0 and float(v.value[0]) == 4.0
    view = v.value[10:20]
    step(one)
    assert float(view[0]) == 4.0 and float(v.value[0]) == 5.0
    exported = memoryview(v.value.content)
    step(one)
    assert np.frombuffer(exported, np.float32)[0] == 5.0 and float(v.value[0]) == 6.0
    other = Variable(v.value)
    step(one)
    assert float(other.value[0]) == 6.0 and float(v.value[0]) == 7.0
    step(v.value)
    assert float(v.value[0]) == 14.0
    del old, view, array, exported, other
    gc.collect()
    address = v.value.content.address
    step(one)
    assert v.value.content.address == address


def test_two_variables_may_hold_one_tensor_and_swap() -> None:
    shared = nc.ones((100,))
    a, b = Variable(shared), Variable(shared)

    @nc.jit
    def f() -> None:
        a.assign(a.value + 1)
        b.assign(b.value * 10)

    f()
    assert (float(a.value[0]), float(b.value[0])) == (2.0, 10.0)

    @nc.jit
    def swap() -> None:
        x = a.value
        a.assign(b.value)
        b.assign(x)

    swap()
    swap()
    swap()
    assert (float(a.value[0]), float(b.value[0])) == (10.0, 2.0)
    assert a.value.content.address != b.value.content.address


def test_missing_gradients_belong_to_the_signature() -> None:
    w = nn.Parameter(X)

    @nc.jit
    def accumulate(x: Any) -> Any:
        loss = (w * x).sum()
        loss.backward()
        return loss

    for n in range(1, 5):
        accumulate(X)
        same(w.grad, X * n if n < 3 else w.grad)
        np.testing.assert_array_equal(w.grad.numpy(), X.numpy() * n)
    assert len(accumulate.concrete_functions) == 2
    assert "grad" in accumulate.concrete_functions[1].reason
    w.grad = None
    accumulate(X)
    same(w.grad, X)
    assert len(accumulate.concrete_functions) == 2


def test_required_gradients_belong_to_the_signature() -> None:
    """A parameter that is frozen after the first step stays; unfrozen, the first variant trains it again."""

    def trained(wrap: Callable[[Any], Any]) -> tuple[list[list[float]], Any]:
        held = [nn.Parameter(nc.ones(2)) for _ in range(2)]
        optimiser = optim.Adam(held, lr=0.1)
        inner = wrap(lambda x: nc.sum(held[0].value * held[1].value * x))

        def step(x: Any) -> None:
            inner(x).backward()
            optimiser.step()
            optimiser.zero_grad()

        run, found = wrap(step), []
        for wanted in (True, False, False, True):
            held[0].requires_grad_(wanted)
            run(nc.tensor([1.0, -2.0]))
            found.append([x for p in held for x in p.value.tolist()])
        return found, run

    (found, step), (wanted, _) = trained(nc.jit), trained(lambda f: f)
    assert found == wanted
    assert found[1][:2] == found[0][:2] != found[3][:2]
    reasons = [c.reason for c in step.concrete_functions]
    assert any("requires_grad is False, was True" in reason for reason in reasons) and len(reasons) < 4


def test_gradients_of_arguments_that_are_frozen() -> None:
    w, v = nn.Parameter(nc.ones(2)), nn.Parameter(nc.ones(2))
    f = nc.jit(lambda x: nc.grad(lambda p: nc.sum(p[0].value * p[1].value * x))([w, v]))
    assert all(g is not None for g in f(nc.ones(2)))
    w.requires_grad_(False)
    wanted = nc.grad(lambda p: nc.sum(p[0].value * p[1].value))([w, v])
    assert [g is None for g in f(nc.ones(2))] == [g is None for g in wanted]


def test_attributes_of_modules_are_guards() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = 2.0

        def forward(self, x: Any) -> Any:
            return x * self.scale if self.training else x

    block = Block()
    f = nc.jit(lambda x: block(x))
    same(f(X), X * 2)
    block.eval()
    same(f(X), X)
    block.train()
    same(f(X), X * 2)
    assert len(f.concrete_functions) == 2 and "training" in f.concrete_functions[1].reason
    block.scale = 3.0
    same(f(X), X * 3)
    assert "scale" in f.concrete_functions[2].reason


def test_modules_are_arguments() -> None:
    traced: list[bool] = []

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 2)
            self.offset = nc.tensor([1.0, 2.0])

        def forward(self, x: Any) -> Any:
            traced.append(self.training)
            return self.inner(x) + self.offset if self.training else self.inner(x)

    block = Block()
    step = nc.jit(nc.value_and_grad(lambda m, x: (m(x) ** 2).sum()))
    plain = nc.value_and_grad(lambda m, x: (m(x) ** 2).sum())
    for _ in range(3):
        (value, grads), (wanted, expected) = step(block, X), plain(block, X)
        same(value, wanted)
        same(grads.inner.weight, expected.inner.weight)
        block.inner.weight.assign(block.inner.weight.value.detach() * 2)
    assert len(step.concrete_functions) == 1
    block.eval()
    same(step(block, X)[0], plain(block, X)[0])
    assert len(step.concrete_functions) == 2
    other = Block()
    same(step(other, X)[0], plain(other, X)[0])
    assert len(step.concrete_functions) == 3
    assert "weight of f32[2, 3]" in step.concrete_functions[0].signature


CONTAINERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "modules, replaced": (lambda: nn.ModuleList([nn.Identity()]), lambda held: held.__setitem__(0, nn.ReLU())),
    "modules, one more": (lambda: nn.ModuleList([nn.Identity()]), lambda held: held.append(nn.ReLU())),
    "named modules": (lambda: nn.ModuleDict({"a": nn.Identity()}), lambda held: held.update({"b": nn.ReLU()})),
    "parameters": (lambda: nn.ParameterList([nc.ones(3)]), lambda held: held.append(nc.zeros(3))),
    "named parameters": (lambda: nn.ParameterDict({"a": nc.ones(3)}), lambda held: held.update({"a": nc.zeros(3)})),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_contents_of_containers_are_guards(name: str) -> None:
    make, change = CONTAINERS[name]

    class Net(nn.Module):
        def __init__(self) -> None:
            self.held = make()

        def forward(self, x: Any) -> Any:
            for each in self.held.values() if hasattr(self.held, "values") else self.held:
                x = each(x) if isinstance(each, nn.Module) else x * each
            return x

    net, x = Net(), nc.tensor([-1.0, 2.0, -3.0])
    f = nc.jit(lambda x: net(x))
    before = f(x)
    same(before, net(x))
    change(net.held)
    same(f(x), net(x))
    assert f(x).tolist() != before.tolist() and len(f.concrete_functions) == 2


def test_guards_of_inner_functions_are_guards_of_outer_ones() -> None:
    layer = nn.Dropout(0.5)
    inner = nc.jit(lambda x: layer(x))
    ones = nc.ones((1000,))
    inner(ones)
    outer = nc.jit(lambda x: inner(x) * 1)
    assert float(outer(ones).sum()) != 1000.0
    layer.eval()
    assert float(outer(ones).sum()) == 1000.0


def test_ambient_state_is_part_of_the_signature() -> None:
    f = nc.jit(lambda x: x * 2)
    f(X)
    with nc.no_grad():
        same(f(X), X * 2)
    with nc.numerics("fast"):
        same(f(X), X * 2)
    same(f(X), X * 2)
    assert [c.reason for c in f.concrete_functions] == [
        "first call",
        "gradients are not recorded now, and were before",
        "nc.numerics is 'fast', was 'exact'",
    ]


def test_random_numbers_continue_and_equal_eager_ones() -> None:
    f = nc.jit(lambda x: x + nc.random.uniform((3,)))
    nc.random.seed(5)
    jitted = [f(X).tolist() for _ in range(3)]
    nc.random.seed(5)
    assert jitted == [(X + nc.random.uniform((3,))).tolist() for _ in range(3)]
    assert jitted[0] != jitted[1]


# ---- transformations


def test_jit_and_grad_nest_either_way() -> None:
    def f(x: Any) -> Any:
        return (nc.exp(x) * x).sum()

    wanted = nc.grad(f)(X)
    same(nc.jit(nc.grad(f))(X), wanted)
    same(nc.grad(nc.jit(f))(X), wanted)
    same(nc.grad(nc.jit(nc.jit(f)))(X), wanted)
    same(nc.jit(nc.grad(nc.jit(f)))(X), wanted)
    second = nc.grad(lambda x: nc.grad(f)(x).sum())(X)
    same(nc.jit(nc.grad(lambda x: nc.grad(nc.jit(f))(x).sum()))(X), second)


def test_jit_and_vmap_nest_either_way() -> None:
    def f(x: Any) -> Any:
        return nc.exp(x - x.max()) / x.sum()

    xs = nc.tensor(np.random.default_rng(0).random((5, 7), np.float32))
    wanted = nc.vmap(f)(xs)
    same(nc.jit(nc.vmap(f))(xs), wanted)
    same(nc.vmap(nc.jit(f))(xs), wanted)
    same(nc.jit(nc.vmap(nc.jit(f)))(xs), wanted)
    same(nc.jit(nc.vmap(nc.grad(lambda x: f(x).sum())))(xs), nc.vmap(nc.grad(lambda x: f(x).sum()))(xs))


def test_forward_mode_through_jit() -> None:
    f = nc.jit(lambda x: nc.tanh(x) * x)
    primal, tangent = nc.jvp(f, (X,), (nc.ones((3,)),))
    wanted, expected = nc.jvp(lambda x: nc.tanh(x) * x, (X,), (nc.ones((3,)),))
    same(primal, wanted)
    same(tangent, expected)


def test_backward_through_a_jitted_function() -> None:
    w = nn.Parameter(X)
    f = nc.jit(lambda x: (w * x).sum())
    x = nc.tensor([1.0, 2.0, 3.0]).requires_grad_()
    for _ in range(2):
        w.grad = None
        x.grad = None
        f(x).backward()
        same(w.grad, x.detach())
        same(x.grad, X)


def test_control_flow_and_loops_inside() -> None:
    @nc.jit
    def f(x: Any) -> Any:
        y = nc.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, x)
        return nc.while_loop(lambda v: v.sum() < 100, lambda v: v * 2 + 1, y)

    for x in (X, -X):
        y = x * 2 if float(x.sum()) > 0 else -x
        while float(y.sum()) < 100:
            y = y * 2 + 1
        same(f(x), y)


def test_recursion_of_python_functions() -> None:
    @nc.jit
    def power(x: Any, n: int) -> Any:
        return x if n == 0 else power(x, n - 1) * 2

    same(power(X, 6), X * 64)


# ---- faults


@pytest.mark.parametrize(
    "read, what",
    [
        (lambda x: x.item(), "item"),
        (lambda x: float(x), "float"),
        (lambda x: int(x), "int"),
        (lambda x: x.tolist(), "tolist"),
        (lambda x: x.numpy(), "numpy"),
        (lambda x: bool(x), "bool"),
        (lambda x: [1, 2, 3][x.astype(nc.int32)], "index"),
        (lambda x: np.asarray(x), "numpy"),
    ],
)
def test_reading_numbers_while_tracing_is_explained(read: Callable[[Any], Any], what: str) -> None:
    with pytest.raises(TraceError) as fault:
        nc.jit(lambda x: read(x.sum()) * x)(X)
    assert "Write" in str(fault.value) and "This code" in str(fault.value)


def test_conditions_on_traced_values_are_explained() -> None:
    @nc.jit(autograph=False)
    def f(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    with pytest.raises(TraceError, match="where"):
        f(X)


def leak() -> Any:
    kept: list[Any] = []

    @nc.jit
    def g(x: Any) -> Any:
        kept.append(x * 2)
        return x

    with pytest.raises(TraceError, match=r"got kept, which holds one of type f32\[3\]"):
        g(X)
    return kept[0]


@pytest.mark.parametrize(
    "use",
    [
        lambda y: y + 1,
        lambda y: y.reshape((3, 1)) + 1,
        lambda y: y.sum(),
        lambda y: y @ y,
        lambda y: nc.jit(lambda x: x)(y),
        lambda y: nc.jit(lambda x: x + y)(X),
        lambda y: nc.vmap(lambda x: x * 2)(y),
        lambda y: y.numpy(),
        lambda y: float(y[0]),
        lambda y: nn.Parameter(y),
        lambda y: nc.grad(lambda x: (x * 2).sum())(y),
    ],
)
def test_values_that_leave_their_trace_are_refused(use: Callable[[Any], Any]) -> None:
    y = leak()
    f = nc.jit(lambda x: x * 3)
    same(f(X), X * 3)
    with pytest.raises(Error):
        use(y)
    with pytest.raises(TraceError, match="left over"):
        f(y)
    assert "traced" in repr(y)


def test_variables_made_while_tracing_are_refused() -> None:
    with pytest.raises(TraceError, match="variable"):
        nc.jit(lambda x: nn.Linear(3, 3)(x))(X)


@pytest.mark.parametrize("transform", [nc.vmap, lambda f: lambda x: nc.jvp(f, (x,), (x,))])
@pytest.mark.parametrize("mode", [nc.jit, lambda f: f])
def test_variables_do_not_take_values_of_transformations(transform: Any, mode: Any) -> None:
    v = Variable(nc.tensor(0.0))
    with pytest.raises(TraceError):
        mode(transform(lambda x: (v.assign(v.value + x.sum()), x * 2)[1]))(X)
    assert float(v.value) == 0.0


def test_an_error_inside_does_not_change_variables() -> None:
    v = Variable(X)
    w = nn.Parameter(X)

    @nc.jit
    def f(x: Any, fail: bool) -> Any:
        v.assign(v.value + x)
        (w * x).sum().backward()
        w.assign(w.value.detach() * 2)
        if fail:
            raise KeyError("on purpose")
        return v.value

    with pytest.raises(KeyError, match="purpose"):
        f(X, True)
    same(v.value, X)
    same(w.value.detach(), X)
    assert w.grad is None
    same(f(X, False), X + X)
    with pytest.raises(ShapeError):
        nc.jit(lambda x: v.assign(x[:2]))(X)
    with pytest.raises(DTypeError):
        nc.jit(lambda x: v.assign(x.astype(nc.float64)))(X)
    same(v.value, X + X)


def test_a_module_names_dynamic_shapes_by_the_parameters_of_its_forward() -> None:
    model = nn.Linear(3, 2)
    compiled = nc.jit(model, dynamic_shapes={"x": {0: nc.Dim("batch", max=9)}})
    for n in (2, 5):
        same(compiled(nc.ones((n, 3))), model(nc.ones((n, 3))))
    assert len(compiled.concrete_functions) == 1


def test_errors_name_what_is_wrong_with_dynamic_shapes() -> None:
    with pytest.raises(ArgumentError, match="'z'"):
        nc.jit(lambda x: x, dynamic_shapes={"z": {0: nc.Dim("n")}})
    with pytest.raises(ArgumentError, match="Dim"):
        nc.jit(lambda x: x, dynamic_shapes={"x": {0: 5}})  # type: ignore[dict-item]
    for axis in (3, -2):
        with pytest.raises(ShapeError, match="axis"):
            nc.jit(lambda x: x, dynamic_shapes={"x": {axis: nc.Dim("n")}})(X)
    with pytest.raises(ShapeError, match="symbolic"):
        nc.jit(lambda x: x * range(x.shape[0])[-1], dynamic_shapes={"x": {0: nc.Dim("n")}})(X)


def test_many_compilations_cause_a_warning() -> None:
    f = nc.jit(lambda x, n: x * n)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(12):
            f(X, n)
    assert len(caught) == 1 and "compiled" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert len(f.concrete_functions) == 12 and "argument n is 11, was 10" in f.concrete_functions[-1].reason


# ---- threads


def test_threads_may_call_one_function_at_once() -> None:
    scale = Variable(nc.tensor(2.0))

    @nc.jit
    def f(x: Any, k: int) -> Any:
        return nc.exp(x) * k + (x * scale.value).sum()

    xs = [nc.tensor(np.random.default_rng(k).random(1000, np.float32)) for k in range(8)]
    wanted = [canonical(nc.exp(x) * (k % 3) + (x * 2.0).sum()) for k, x in enumerate(xs)]
    faults: list[Any] = []
    start = threading.Barrier(8)

    def work(k: int) -> None:
        try:
            start.wait()
            for _ in range(30):
                assert canonical(f(xs[k], k % 3)) == wanted[k]
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert faults == []


def test_other_threads_may_assign_to_arguments_while_they_are_read() -> None:
    f, n = nc.jit(lambda x, w: x @ w), 384
    x, w = nc.ones((n, n)), nc.ones((n, n))
    wrong: list[float] = []
    done = threading.Event()

    def change() -> None:
        k = 0
        while not done.is_set():
            k = k % 3 + 1
            w[:n] = nc.full((n, n), float(k))
            nc.full((n, n), math.nan)  # which may get the memory that w had

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(40):
            wrong += set(np.unique(f(x, w).numpy())) - {n * 1.0, n * 2.0, n * 3.0}
    finally:
        done.set()
        thread.join()
    assert wrong == []


def test_tracing_in_one_thread_does_not_disturb_another() -> None:
    inside, done = threading.Event(), threading.Event()

    @nc.jit
    def slow(x: Any) -> Any:
        inside.set()
        assert done.wait(20)
        return x * 2

    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(slow(X)))
    thread.start()
    assert inside.wait(20)
    f = nc.jit(lambda x: x + 1)
    same(f(X), X + 1)
    same(f(X), X + 1)
    v = Variable(X)
    g = nc.jit(lambda x: v.assign(v.value + x))
    g(X)
    same(v.value, X + X)
    done.set()
    thread.join()
    same(results[0], X * 2)


def test_readers_never_see_an_update_in_progress() -> None:
    v = Variable(nc.zeros((200_000,)))
    step = nc.jit(lambda x: v.assign(v.value + x))
    total = nc.jit(lambda: v.value * 1)
    one = nc.ones((200_000,))
    step(one)
    stop = threading.Event()
    faults: list[Any] = []

    def read() -> None:
        try:
            while not stop.is_set():
                held = v.value
                first = held.numpy().copy()
                assert first.min() == first.max(), "half updated"
                both = total().numpy()
                assert both.min() == both.max(), "half updated for a call"
                assert np.array_equal(held.numpy(), first), "changed after it was read"
        except BaseException as fault:
            faults.append(fault)

    def write() -> None:
        try:
            for _ in range(200):
                step(one)
        except BaseException as fault:
            faults.append(fault)

    readers, writer = [threading.Thread(target=read) for _ in range(2)], threading.Thread(target=write)
    for t in (*readers, writer):
        t.start()
    writer.join()
    stop.set()
    for t in readers:
        t.join()
    assert faults == [] and float(v.value[0]) == 201.0


def test_threads_may_update_different_variables_at_once() -> None:
    variables = [Variable(nc.zeros((100_000,))) for _ in range(4)]
    steps = [nc.jit(lambda x, v=v: v.assign(v.value + x)) for v in variables]
    one = nc.ones((100_000,))

    def work(k: int) -> None:
        for _ in range(50):
            steps[k](one, variables[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [v.value.tolist()[::50_000] for v in variables] == [[50.0, 50.0]] * 4


# ---- known before it runs


def grown(f: Callable[..., Any], *args: Any) -> int:
    """The bytes by which a call raises the allocated memory, results included."""
    f(*args)
    gc.collect()
    buffer.reset_peak()
    before = buffer.statistics().allocated
    held = f(*args)
    after = buffer.statistics().peak
    del held
    return after - before


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (nc.cumulative_sum(x, axis=0), x.sum()),
        lambda x: nc.cumulative_sum(nc.cumulative_sum(x * 2, axis=0) @ x, axis=1),
        lambda x: nc.exp(x @ x).sum(axis=0),
        lambda x: nc.grad(lambda y: nc.tanh(y @ y).sum())(x),
    ],
)
def test_memory_is_known_before_the_call(f: Callable[..., Any]) -> None:
    x = nc.ones((512, 512))
    jitted = nc.jit(f)
    memory = jitted.memory(x)
    assert memory.inputs >= x.content.nbytes
    predicted = memory.outputs + memory.workspace + memory.packed  # from the second call on
    assert abs(grown(jitted, x) - predicted) <= 0.1 * predicted + 4096


def test_variables_updated_in_place_take_no_more_memory() -> None:
    v = Variable(nc.ones((512, 512)))
    step = nc.jit(lambda x: v.assign(v.value * 0.5 + x))
    x = nc.ones((512, 512))
    step(x)
    assert step.memory(x).outputs == 0
    assert grown(step, x) < 4096


def test_numpy_and_python_numbers_differ_in_the_signature() -> None:
    f = nc.jit(lambda x, s: x * s)
    given: list[Any] = [0.75, np.float32(0.5), 2, np.float16(-0.0), np.float16(0.0), np.float64(0.75)]
    for s in given:
        same(f(X, s), X * s)
    assert len(f.concrete_functions) == len(given)
    assert str(f.concrete_functions[1]).endswith(f"argument s is {given[1]!r}, was 0.75>")
    assert f(X, np.float32("nan")).shape == f(X, np.float32("nan")).shape
    assert len(f.concrete_functions) == len(given) + 1


def test_deleted_functions_free_their_memory() -> None:
    def make() -> None:
        held = nc.ones((1000, 1000))
        f = nc.jit(lambda x: x * held.sum() + held[0, 0])
        same(f(X), X * 1_000_000.0 + 1.0)

    make()
    gc.collect()
    before = buffer.statistics().allocated
    for _ in range(3):
        make()
    gc.collect()
    assert buffer.statistics().allocated < before + 1_000_000


def test_cost_counts_products() -> None:
    f = nc.jit(lambda a, b: nc.maximum(a @ b, 0.0))
    cost = f.cost(nc.ones((32, 64)), nc.ones((64, 16)))
    assert cost.product_flops == 2 * 32 * 64 * 16 and cost.kernels == 1
    assert cost.bytes == 4 * (32 * 64 + 64 * 16 + 32 * 16)


def test_compiled_variants_can_be_inspected() -> None:
    f = nc.jit(lambda x: nc.exp(x) + 1)
    graph = f.trace(X)
    assert "exp" in str(graph) and graph.verify() is graph
    (concrete,) = f.concrete_functions
    assert "f32[3]" in repr(concrete) and "first call" in repr(concrete)


# ---- training


def train(mode: Callable[[Any], Any], steps: int) -> str:
    nc.random.seed(3)
    model = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Dropout(0.25), nn.LayerNorm(24), nn.Linear(24, 4))
    adam = optim.AdamW(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(0)
    x = nc.tensor(rng.normal(size=(16, 12)).astype(np.float32))
    y = nc.tensor(rng.integers(0, 4, 16))

    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        adam.step()
        adam.zero_grad()
        return loss.detach()

    run = mode(step)
    digest = hashlib.sha256()
    for _ in range(steps):
        digest.update(run(x, y).numpy().tobytes())
    for p in model.parameters():
        digest.update(p.value.detach().numpy().tobytes())
    return digest.hexdigest()


def test_a_training_step_is_the_same_to_the_bit() -> None:
    assert train(nc.jit, 6) == train(lambda f: f, 6)


# ---- x[i] = v on arguments


def test_writing_into_an_argument_reaches_the_caller() -> None:
    def f(x: Any, v: Any) -> Any:
        x[0] = v
        x[1] = x[0] + 1
        return {"sum": x.sum(), "text": "kept"}

    for g in (f, nc.jit(f)):
        for number in (5.0, 7.0, 7.0):
            x = nc.tensor([1.0, 2.0, 3.0])
            alias, view = x.detach(), x[1:]
            result = g(x, nc.tensor(number))
            assert x.tolist() == [number, number + 1, 3.0] and result["sum"].item() == 2 * number + 4
            assert alias.tolist() == [1.0, 2.0, 3.0] and view.tolist() == [2.0, 3.0] and result["text"] == "kept"


def test_writing_into_an_argument_of_an_inner_call_reaches_the_outer_one() -> None:
    inner = nc.jit(lambda x: x.__setitem__(0, x[1] * 2))

    def f(x: Any) -> Any:
        inner(x)
        made = nc.tensor([1.0, 2.0])  # a tensor made inside may be written, too
        made[1] = x.sum()
        return made

    for g in (f, nc.jit(f)):
        x = nc.tensor([1.0, 2.0])
        assert g(x).tolist() == [1.0, 6.0] and x.tolist() == [4.0, 2.0]


def test_writing_into_an_argument_is_recorded() -> None:
    write = nc.jit(lambda a: a.__setitem__(0, a[1] * 2))
    w = nc.tensor([1.0, 2.0]).requires_grad_()
    z = w * 3
    kept = z * z
    write(z)
    z.sum().backward()
    assert z.tolist() == [12.0, 6.0] and w.grad is not None and w.grad.tolist() == [0.0, 9.0]
    with pytest.raises(GradientError, match="changed by"):
        kept.sum().backward()


def test_invalid_writes_are_refused() -> None:
    seen = nc.zeros(2)

    @nc.jit
    def outside(x: Any) -> Any:
        seen[0] = x.sum()
        return x

    x = nc.ones(2)
    for _ in range(2):
        with pytest.raises(TraceError, match="from outside"):
            outside(x)
        assert seen.tolist() == [0.0, 0.0]
    write = nc.jit(lambda a, b: a.__setitem__(0, b[1]))
    with pytest.raises(GradientError, match="must not be a leaf"):
        write(nc.ones(2).requires_grad_(), x)
    with pytest.raises(ArgumentError, match="occurs twice"):
        write(x, x)
    with pytest.raises(ArgumentError, match="NumPy"):
        write(np.ones(2, np.float32), x)
    write(x, nc.tensor([0.0, 4.0]))
    assert x.tolist() == [4.0, 1.0]


# ---- memory after calls


def test_deleted_functions_leave_no_objects() -> None:
    def make(k: int) -> list[weakref.ref[Any]]:
        f = nc.jit(lambda x: nc.exp(x) * 2 + k % 3)
        g = nc.jit(lambda x: nc.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (nc.tensor(0), x))[1])
        h = nc.jit(nc.grad(lambda x: f(x).sum()))
        for each in (f, g, h):
            each(X)
        return [weakref.ref(x) for each in (f, g, h) for x in (each, each.concrete(X))]

    for k in range(4):  # programs of equal graphs are found
        make(k)
    before = len(gc.get_objects())
    left = [r for k in range(20) for r in make(k)]
    gc.collect()
    assert [r for r in left if r() is not None] == []
    assert len(gc.get_objects()) - before < 200


def test_every_call_consumes_donated_arguments() -> None:
    f = nc.jit(lambda x: x * 2 + 1, donate=["x"])
    for _ in range(3):
        x = nc.ones(4)
        assert f(x).tolist() == [3.0] * 4
        with pytest.raises(StateError, match="was donated to"):
            x.tolist()


def test_one_signature_or_several() -> None:
    f = nc.jit(lambda x, k=1: x * 2 + k)
    a, b = nc.ones(2), nc.ones(3)
    for x, want in ((a, [3.0] * 2), (a, [3.0] * 2), (b, [3.0] * 3), (a, [3.0] * 2), (b, [3.0] * 3)):
        assert f(x).tolist() == want
    assert f(a, 5).tolist() == f(a, k=5).tolist() == [7.0, 7.0] and f(np.ones(2, np.float32)).tolist() == [3.0, 3.0]
    assert f(nc.ones((4, 2))[::2, 1]).tolist() == [3.0, 3.0]
    with nc.no_grad():
        assert f(a).tolist() == [3.0, 3.0]
    with nc.numerics("fast"):
        assert f(a).tolist() == [3.0, 3.0]
    assert len([c for c in f.concrete_functions if c.key[1] == (a.type,)]) == 3  # one for each ambient state
    with pytest.raises(TypeError, match="missing"):
        f()
    assert f(a).tolist() == [3.0, 3.0]


@pytest.mark.parametrize("donate", [("x",), ("x", "y"), ("y",)])
def test_a_donated_tensor_that_is_passed_twice_keeps_its_numbers(donate: tuple[str, ...]) -> None:
    for size in (4, 100_000):

        def f(x: Any, y: Any) -> Any:
            return x * 2.0, y + 1.0

        jitted = nc.jit(f, donate=donate)
        for _ in range(2):
            x = nc.ones(size) + 0.0
            a, b = jitted(x, x)
            assert not np.shares_memory(a.numpy(), b.numpy())
            assert (a.numpy() == 2).all() and (b.numpy() == 2).all()
    listed = nc.jit(lambda xs: (xs[0] * 2.0, xs[1] + 1.0), donate=("xs",))
    x = nc.ones(4) + 0.0
    assert [y.tolist() for y in listed([x, x])] == [[2.0] * 4, [2.0] * 4]
