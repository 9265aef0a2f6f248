"""custom_jvp: one rule serves both modes, in every transformation, with the same bits eagerly and compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.interpret import pullback
from nacre.interpret.custom import forward_rule
from nacre.ir.graph import Builder
from nacre.ir.parse import parse
from nacre.ir.rewrite import inline
from tensor_bits import bits
from transform.derivatives.operands import ONE, XS, F, X, Y, close


@nc.custom_jvp
def twice(x: Any, y: Any) -> Any:
    """sin(x)·y with twice its derivative by x, so that tests see which rule is used."""
    return nc.sin(x) * y


@twice.defjvp
def twice_rule(primals: Any, tangents: Any) -> Any:
    (x, y), (tx, ty) = primals, tangents
    return twice(x, y), 2 * nc.cos(x) * tx * y + nc.sin(x) * ty


def test_values_are_those_of_the_function() -> None:
    assert bits(twice(X, Y)) == bits(nc.jit(twice)(X, Y)) == bits(nc.sin(X) * Y)
    assert bits(nc.vmap(twice, in_axes=(0, None))(XS, Y)) == bits(nc.sin(XS) * Y)


FIRST: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: nc.grad(f)(X),
    "jit of grad": lambda f: nc.jit(nc.grad(f))(X),
    "grad of jit": lambda f: nc.grad(nc.jit(f))(X),
    "jvp": lambda f: nc.jvp(f, (X,), (ONE,))[1],
    "jit of jvp": lambda f: nc.jit(lambda x: nc.jvp(f, (x,), (ONE,))[1])(X),
    "jvp of jit": lambda f: nc.jvp(nc.jit(f), (X,), (ONE,))[1],
    "vjp": lambda f: nc.vjp(f, X)[1](ONE)[0],
    "jacfwd": lambda f: nc.jacfwd(f)(X),
    "jacrev": lambda f: nc.jacrev(f)(X),
    "vmap of grad": lambda f: nc.vmap(nc.grad(f))(nc.stack([Y, X]))[1],
    "grad of vmap": lambda f: nc.grad(lambda xs: nc.vmap(f)(xs).sum())(nc.stack([Y, X]))[1],
    "checkpoint": lambda f: nc.grad(nc.checkpoint(f))(X),
    "cond": lambda f: nc.grad(lambda x: nc.cond(x > 0, f, nc.cos, x))(X),
    "cond of a batch": lambda f: nc.grad(lambda xs: nc.vmap(lambda x: nc.cond(x < 1, f, nc.cos, x))(xs).sum())(
        nc.stack([Y, X])
    )[1],
    "scan": lambda f: nc.grad(lambda x: nc.scan(lambda c, _: (f(c), None), x, length=1)[0])(X),
    "while": lambda f: nc.jvp(lambda x: nc.while_loop(lambda c: c < 0.5, f, x), (X,), (ONE,))[1],
    "jit of scan": lambda f: nc.jit(nc.grad(lambda x: nc.scan(lambda c, _: (f(c), None), x, length=1)[0]))(X),
}


@pytest.mark.parametrize("name", FIRST)
def test_first_derivatives_use_the_rule(name: str) -> None:
    close(FIRST[name](lambda x: twice(x, Y)), 4 * np.cos(0.3))


def test_eager_and_compiled_derivatives_have_the_same_bits() -> None:
    def f(x: Any) -> Any:
        return twice(twice(x, Y), x * Y).sum()

    wanted = bits(nc.grad(f)(XS))
    assert bits(nc.jit(nc.grad(f))(XS)) == bits(nc.grad(nc.jit(f))(XS)) == wanted
    x = nc.tensor(XS).requires_grad_()
    f(x).backward()
    assert bits(x.grad) == wanted
    assert bits(nc.grad(nc.checkpoint(f))(XS)) == wanted


SECOND: dict[str, Callable[[Any], Any]] = {
    "grad of grad": lambda f: nc.grad(nc.grad(f))(X),
    "hessian": lambda f: nc.hessian(f)(X),
    "jacfwd of jacfwd": lambda f: nc.jacfwd(nc.jacfwd(f))(X),
    "jacrev of jacfwd": lambda f: nc.jacrev(nc.jacfwd(f))(X),
    "jit of all": lambda f: nc.jit(nc.hessian(nc.jit(f)))(X),
    "through scan": lambda f: nc.hessian(lambda x: nc.scan(lambda c, _: (f(c), None), x, length=1)[0])(X),
    "batched": lambda f: nc.vmap(nc.hessian(f))(nc.stack([Y, X]))[1],
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_differentiate_the_rule(name: str) -> None:
    close(SECOND[name](lambda x: twice(x, Y)), -4 * np.sin(0.3))


def test_a_recorded_backward_pass_is_differentiated() -> None:
    x = nc.tensor(0.3, dtype=F).requires_grad_()
    twice(x, Y).backward(create_graph=True)
    slope, x.grad = x.grad, None
    slope.backward()
    close(x.grad, -4 * np.sin(0.3))


def test_rules_that_use_each_other() -> None:
    sin, cos = nc.custom_jvp(lambda x: nc.sin(x)), nc.custom_jvp(lambda x: nc.cos(x))
    sin.defjvp(lambda p, t: (sin(*p), cos(*p) * t[0]))
    cos.defjvp(lambda p, t: (cos(*p), -sin(*p) * t[0]))
    f: Any = sin
    for wanted in (np.cos(0.3), -np.sin(0.3), -np.cos(0.3), np.sin(0.3)):
        f = nc.grad(f)
        close(f(X), wanted)
        close(nc.jit(f)(X), wanted)


def test_trees_defaults_and_arguments_by_name() -> None:
    seen: list[Any] = []

    @nc.custom_jvp
    def f(p: Any, x: Any, scale: float = 3.0, n: int = 1) -> Any:
        return {"y": p["w"] * x * scale, "index": nc.argmax(p["w"])}

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        p, x, scale, n = primals
        seen.append((scale, n, *tangents[2:]))
        return f(*primals), {"y": 10 * (tangents[0]["w"] * x + p["w"] * tangents[1]) * scale, "index": None}

    p = {"w": XS}
    close(nc.grad(lambda p: f(p, x=Y, scale=2.0)["y"].sum())(p)["w"], [40.0] * 3)
    close(nc.jit(nc.grad(lambda p: f(p, Y)["y"].sum()))(p)["w"], [60.0] * 3)
    y, t = nc.jvp(lambda x: f(p, x), (Y,), (ONE,))
    close(t["y"], 30 * XS.numpy())
    assert int(y["index"]) == 2
    assert seen[0] == (2.0, 1, 0.0, None)


def test_functions_as_arguments() -> None:
    @partial(nc.custom_jvp, nondiff_argnums=(0,))
    def apply(f: Any, x: Any) -> Any:
        return f(x)

    apply.defjvp(lambda f, p, t: (apply(f, *p), 5.0 * t[0]))
    close(apply(nc.exp, X), np.exp(0.3))
    close(nc.grad(lambda x: apply(nc.exp, x))(X), 5.0)
    close(nc.jit(nc.vmap(nc.grad(lambda x: apply(lambda z: z * Y, x))))(XS), [5.0] * 3)
    with pytest.raises(nc.GradientError, match=r"custom_jvp: the rule of apply .* got one by a f64\[\] that .*detach"):
        nc.grad(lambda y: apply(lambda z: z * y, X))(Y)
    close(nc.grad(lambda y: apply(lambda z: z * y.detach(), X) + y)(Y), 1.0)


def test_one_rule_for_each_argument() -> None:
    f = nc.custom_jvp(lambda x, y: x * y)
    f.defjvps(lambda t, out, x, y: 3 * t * y + 0 * out, None)
    close(nc.grad(f)(X, Y), 6.0)
    close(nc.grad(f, argnums=1)(X, Y), 0.0)
    close(nc.jvp(f, (X, Y), (ONE, ONE))[1], 6.0)
    f.defjvps(None)
    with pytest.raises(nc.ArgumentError, match="needs a rule for each of its 2 arguments; got 1"):
        nc.grad(f)(X, Y)


def test_methods_and_modules() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(nc.tensor([2.0, 3.0]))

        @nc.custom_jvp
        def forward(self, x: Any) -> Any:
            return self.w * x

        @forward.defjvp
        def rule(primals: Any, tangents: Any) -> Any:
            (m, x), (tm, tx) = primals, tangents
            return m.forward(x), 10 * (tm.w * x + m.w * tx)

    m = Scaled()
    m(nc.ones(2)).sum().backward()
    assert m.w.grad is not None
    assert m.w.grad.tolist() == nc.jit(nc.grad(lambda m: m(nc.ones(2)).sum()))(m).w.tolist() == [10.0, 10.0]


def test_what_a_rule_captures_is_differentiated_too() -> None:
    def second(c: Any) -> Any:
        f = nc.custom_jvp(lambda x: nc.exp(x))

        def rule(primals: Any, tangents: Any) -> Any:
            y = f(*primals)
            return y, y * tangents[0] * c

        f.defjvp(rule)
        return nc.grad(nc.grad(f))(X)

    close(second(Y), 4 * np.exp(0.3))
    for f in (nc.grad(second), nc.jit(nc.grad(second)), nc.grad(nc.jit(second))):
        close(f(Y), 4 * np.exp(0.3))
    close(nc.vmap(second)(nc.stack([Y, Y + 1])), np.exp(0.3) * np.array([4.0, 9.0]))


def test_parameters_that_the_function_reads() -> None:
    w = nn.Parameter(nc.tensor(2.0, dtype=F))
    f = nc.custom_jvp(lambda x: w * x)
    f.defjvp(lambda p, t: (f(*p), w * t[0]))
    for call in (f, nc.jit(f)):  # only a derivative by it is refused
        close(call(X).detach(), 0.6)
        close(nc.grad(call)(X).detach(), 2.0)
        with pytest.raises(nc.GradientError, match="pass it as an argument"):
            call(X).backward()
    g = nc.custom_jvp(lambda x: nc.sin(x))
    g.defjvp(lambda p, t: (g(*p), w * nc.cos(*p) * t[0]))
    nc.grad(g)(X).backward()  # the rule's own derivative
    close(w.grad, np.cos(0.3))


def test_zero_tangents_are_left_out() -> None:
    f = nc.custom_jvp(lambda x, y: x**y)
    f.defjvp(lambda p, t: (f(*p), t[0] * p[1] * p[0] ** (p[1] - 1) + t[1] * nc.log(p[0]) * p[0] ** p[1]))
    zero = nc.tensor(0.0, dtype=F)
    assert float(nc.grad(f)(zero, Y)) == float(nc.jvp(lambda x: f(x, Y), (zero,), (ONE,))[1]) == 0.0  # no log(0)


def test_sizes_may_change() -> None:
    compiled = nc.jit(lambda x: twice(x, x + 1).sum())
    gradient = nc.jit(nc.grad(lambda x: twice(x, x + 1).sum()))
    for n in (2, 3, 5, 8):
        x = np.linspace(0.0, 1.0, n)
        wanted = 2 * np.cos(x) * (x + 1) + np.sin(x)
        close(nc.grad(compiled)(nc.tensor(x)), wanted)
        close(gradient(nc.tensor(x)), wanted)
        t = nc.tensor(x).requires_grad_()
        compiled(t).backward()
        close(t.grad, wanted)
        close(nc.grad(lambda x: nc.grad(compiled)(x).sum())(nc.tensor(x)), -2 * np.sin(x) * (x + 1) + 3 * np.cos(x))


def test_checks_inside_count_for_their_examples() -> None:
    pick = nc.custom_jvp(lambda table, i: table[i])
    pick.defjvp(lambda p, t: (pick(*p), 2 * t[0][p[1]]))

    def f(table: Any) -> Any:
        which = nc.tensor([1, 2, 9])
        return nc.vmap(lambda i: nc.cond(i < 3, lambda i: pick(table, i), lambda i: table[0], i))(which).sum()

    assert nc.grad(f)(XS).tolist() == nc.jit(nc.grad(f))(XS).tolist() == [1.0, 2.0, 2.0]


def test_complex_numbers() -> None:
    square = nc.custom_jvp(lambda z: z * z)
    square.defjvp(lambda p, t: (square(*p), 2 * p[0] * t[0]))
    z = nc.tensor([1 + 2j, -0.5 + 1j])
    wanted = nc.grad(lambda z: nc.abs(z * z).sum())(z).numpy()
    for f in (nc.grad, lambda f: nc.jit(nc.grad(f))):
        np.testing.assert_allclose(f(lambda z: nc.abs(square(z)).sum())(z).numpy(), wanted, rtol=1e-6)


def test_equal_rules_are_derived_once() -> None:
    def run() -> None:
        f = nc.custom_jvp(lambda x: nc.sin(x))
        f.defjvp(lambda p, t: (f(*p), nc.cos(*p) * t[0]))
        nc.grad(f)(X)

    run()
    before = len(pullback._rules)  # pyright: ignore[reportPrivateUsage]
    run()
    assert len(pullback._rules) == before  # pyright: ignore[reportPrivateUsage]


def test_graphs_print_and_programs_are_saved(tmp_path: Any) -> None:
    graph = nc.jit(twice).trace(X, Y)
    assert "custom_jvp[rule=twice](a, b)" in str(graph)
    graph.verify()
    with pytest.raises(nc.GraphError, match="got twice"):
        parse(str(graph))
    frozen = nc.freeze(lambda x: twice(x, x), X)
    with pytest.raises(nc.ArgumentError, match=r"twice, whose derivative rule is Python code.*without_rules"):
        nc.save_program(frozen, tmp_path / "f.safetensors")
    nc.save_program(frozen.without_rules(), tmp_path / "f.safetensors")
    close(nc.load_program(tmp_path / "f.safetensors")(X), np.sin(0.3) * 0.3)


WRONG: dict[str, tuple[Any, str]] = {
    "no pair": (lambda p, t: nc.sin(*p), r"rule of f must return \(result, tangent\); got Tensor"),
    "result's structure": (
        lambda p, t: ([nc.sin(*p)], t[0]),
        r"the result of the rule of f must have structure \*; got",
    ),
    "result's shape": (
        lambda p, t: (p[0][:1], t[0]),
        r"the result of the rule of f must have type f64\[3\]; got f64\[1\]",
    ),
    "tangent's structure": (lambda p, t: (nc.sin(*p), [t[0]]), "the tangent of f: values must be .* got list"),
    "tangent's dtype": (lambda p, t: (nc.sin(*p), t[0].astype(nc.float32)), r"tangent of f must have type f64.*f32"),
    "tangent's shape": (
        lambda p, t: (nc.sin(*p), t[0].sum()),
        r"the tangent of f must have type f64\[3\]; got f64\[\]",
    ),
    "not linear": (lambda p, t: (nc.sin(*p), t[0] * t[0]), "rule of f must be linear in the tangents; got mul"),
    "a constant": (lambda p, t: (nc.sin(*p), nc.ones_like(t[0])), "linear in the tangents; got a constant"),
    "tangent in result": (lambda p, t: (nc.sin(*p) + t[0], t[0]), "result of the rule of f must not depend on"),
    "itself": (lambda p, t: (nc.sin(*p), nc.grad(lambda x: WITH_ITSELF[0](x).sum())(*p) * t[0]), "must not diff"),
}
WITH_ITSELF: list[Any] = []


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rules_are_refused(name: str) -> None:
    rule, message = WRONG[name]

    @nc.custom_jvp
    def f(x: Any) -> Any:
        return nc.sin(x)

    f.defjvp(rule)
    WITH_ITSELF[:] = [f]
    with pytest.raises(nc.Error, match=message):
        nc.grad(lambda x: f(x).sum())(XS)


def test_leaves_are_named() -> None:
    f = nc.custom_jvp(lambda x: {"a": x, "b": [x, x]})
    f.defjvp(lambda p, t: (f(*p), {"a": t[0], "b": [t[0], t[0][:1]]}))
    with pytest.raises(nc.ShapeError, match=r"the tangent of <lambda>, at \['b'\]\[1\], must have type f64\[3\]"):
        nc.grad(lambda x: f(x)["a"].sum())(XS)


def test_wrong_functions_and_calls_are_refused() -> None:
    f = nc.custom_jvp(lambda x: x)
    with pytest.raises(nc.ArgumentError, match="must have a rule before it is called"):
        f(X)
    with pytest.raises(nc.KindError, match="custom_jvp: f must be a function; got 3"):
        nc.custom_jvp(3)
    g = nc.custom_jvp(lambda x, nondiff_argnums=(4,): x)
    g.defjvp(lambda p, t: (p[0], t[0]))
    h = nc.custom_jvp(lambda x: x, nondiff_argnums=(4,))
    h.defjvp(lambda p, t: (p[0], t[0]))
    with pytest.raises(nc.ArgumentError, match="nondiff_argnums must be less than 1"):
        h(X)

    @nc.custom_jvp
    def named(x: Any, *, scale: Any = 1) -> Any:
        return x

    named.defjvp(lambda p, t: (p[0], t[0]))
    with pytest.raises(nc.ArgumentError, match="must not be keyword-only"):
        named(X, scale=2)


def test_functions_with_effects_are_refused() -> None:
    n = nc.Variable(nc.tensor(0.0, dtype=F))

    def count(x: Any) -> Any:
        n.assign(n.value + 1)
        return x * 2

    f = nc.custom_jvp(count)
    f.defjvp(lambda p, t: (f(*p), 2 * t[0]))
    with pytest.raises(nc.TraceError, match="must not assign variables"):
        nc.grad(f)(X)

    def write(x: Any) -> Any:
        x[0] = 1.0
        return x

    g = nc.custom_jvp(write)
    g.defjvp(lambda p, t: (p[0], t[0]))
    for call in (g, nc.jit(g)):
        with pytest.raises(nc.TraceError, match="must not change"):
            call(XS)
    assert XS.tolist() == [0.1, 0.7, 2.0]

    asked = nc.custom_jvp(lambda x: nc.host_call(lambda x: x.numpy() * 2, x.type, x))
    asked.defjvp(lambda p, t: (asked(*p), 2 * t[0]))
    close(nc.jvp(asked, (X,), (ONE,))[1], 2.0)
    with pytest.raises(nc.GradientError, match=r"calls the host, which must run once; write nc\.custom_vjp"):
        nc.grad(asked)(X)


def test_equal_graphs_of_two_threads_are_not_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    along = forward_rule._along

    def other(params: Any, moving: Any) -> Any:
        """An equal graph with variables of its own, as another thread makes it."""
        pushed = along(params, moving)
        b = Builder(pushed.graph.name)
        graph = b.finish(inline(b, pushed.graph, [b.input(t) for t in pushed.graph.input_types]))
        return type(pushed)(graph, pushed.active)

    monkeypatch.setattr(forward_rule, "_along", other)
    f = nc.custom_jvp(lambda x: nc.exp(nc.sin(x)))
    f.defjvp(lambda primals, tangents: (f(*primals), nc.cos(primals[0]) * f(*primals) * tangents[0]))
    graph = nc.Graph.trace(f, nc.ones(3)).graph
    (e,) = (e for e in graph.equations if e.primitive.name == "custom_jvp")
    types = tuple(a.type for a in e.inputs)
    for _ in range(3):
        rule = forward_rule._reverse(e.primitive, e.params, types, (0,))
        assert rule is not None and rule.pull((0,)).graph.outputs


@nc.custom_jvp
def quotient(x: Any, y: Any) -> Any:
    """x / y with a derivative by x alone, so that tests see which rule is used."""
    return x / y


@quotient.defjvp
def quotient_rule(primals: Any, tangents: Any) -> Any:
    (x, y), (tx, _) = primals, tangents
    return quotient(x, y), quotient(tx, y)


@pytest.mark.parametrize("way", FIRST)
def test_a_linear_function_is_its_own_derivative(way: str) -> None:
    close(FIRST[way](lambda x: quotient(x, 0.5 * ONE)), 2.0)


def test_a_linear_function_in_derivatives_of_derivatives() -> None:
    by_y = nc.jvp(lambda y: nc.jvp(lambda x: quotient(x, y), (X,), (ONE,))[1], (Y,), (ONE,))
    close(by_y[0], (1 / Y).item())
    close(by_y[1], 0.0)
    close(nc.grad(nc.grad(lambda x: quotient(x * x * x, Y)))(X), (6 * X / Y).item())
    assert [g.item() for g in nc.grad(quotient, argnums=(0, 1))(X, Y)] == [(1 / Y).item(), 0.0]
    second = nc.hessian(lambda x: quotient(x * x, Y))
    assert bits(nc.jit(second)(X)) == bits(second(X))
