"""`nacre.register_pass`: a pass from outside runs on every program, is used at once, and is refused if it is wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.cli.main import DONE, main
from nacre.compile import extensions
from nacre.compile.pipeline import PASSES, passes


@pytest.fixture(autouse=True)
def removed() -> Iterator[None]:
    """Remove the passes that a test registers after it."""
    yield
    if extensions.PASSES:
        extensions.PASSES.clear()
        extensions.changed()


def negations(operation: Any) -> Any:
    if operation.name == "neg" and (inner := operation.definition(0)) is not None and inner.name == "neg":
        return inner.operands[0]
    return None


def exponentials(operation: Any) -> Any:
    """Replace exp by another function, so that results show whether the pass has run."""
    return operation.operands[0] * 10 if operation.name == "exp" else None


def register(rule: Callable[[Any], Any] = exponentials, name: str = "outside", **options: Any) -> Any:
    return nc.register_pass(name, rule, contract="a pass of the tests", **options)


def test_operations_are_replaced_and_unused_ones_are_removed() -> None:
    register(negations)
    f = nc.jit(lambda x: nc.negative(nc.negative(nc.negative(nc.negative(x)))) + 1)
    x = nc.tensor([1.0, -0.0])
    assert f(x).tolist() == [2.0, 1.0]
    assert "neg" in f.explain(x).after("simplification") and "neg" not in f.explain(x).after("outside")


def test_a_pass_takes_effect_wherever_code_was_compiled_before() -> None:
    x, f = nc.tensor([2.0, 3.0]), nc.jit(lambda x: nc.exp(x) + 1)
    g, h = nc.jit(nc.grad(lambda x: nc.exp(x).sum())), nc.vmap(nc.exp)
    frozen = nc.freeze(f, x)
    ways = (nc.exp, nc.exp, nc.exp, lambda x: f(x) - 1, h, lambda x: frozen(x) - 1, lambda x: nc.exp(x[::-1])[::-1])
    before = [way(x).numpy() for way in ways] + [g(x).numpy()]
    handle = register()
    for way in ways:
        assert way(x).tolist() == [20.0, 30.0]
    handle.remove()
    after = [way(x).numpy() for way in ways] + [g(x).numpy()]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_bodies_of_loops_and_branches_are_separate_graphs() -> None:
    register()
    x = nc.tensor(1.0)
    assert float(nc.fori_loop(0, 3, lambda k, y: nc.exp(y), x)) == 1000.0
    assert float(nc.jit(lambda x: nc.cond(x > 0, nc.exp, lambda x: x, x))(x)) == 10.0
    assert nc.scan(lambda c, x: (c, nc.exp(x)), x, nc.ones(2))[1].tolist() == [10.0, 10.0]


def test_an_explanation_shows_bodies_behind_the_pass() -> None:
    register()
    f = nc.jit(lambda x: nc.fori_loop(0, 3, lambda k, y: nc.cond(y > 0, nc.exp, lambda y: y, y) + nc.exp(y), x))
    before, after = f.explain(nc.tensor(1.0)).after("simplification"), f.explain(nc.tensor(1.0)).after("outside")
    assert before.count("= exp(") == 2 and after.count("= exp(") == 0 and after.count("= mul(") == 2


def test_operands_are_numbered() -> None:
    seen: list[Any] = []
    wrong: list[Callable[[Any], Any]] = [
        lambda o: o.constant(9),
        lambda o: o.definition(-2),
        lambda o: o.constant("a"),
        lambda o: o.definition(1.0),
        lambda o: o.definition(None),
    ]

    def rule(operation: Any) -> Any:
        if operation.name == "exp":
            for ask in wrong:
                with pytest.raises(nc.Error, match=r"operation\.(constant|definition): ") as caught:
                    ask(operation)
                seen.append(type(caught.value))
            assert operation.definition(-1) is operation.definition(0) is None

    register(rule)
    nc.exp(nc.ones(3))
    assert [issubclass(t, IndexError) for t in seen] == [True, True, False, False, False]


def test_rules_get_plain_parameters() -> None:
    scaled = nc.primitive("outside_scaled", element=lambda x, *, by, flag: x * by)
    seen: list[Any] = []
    register(lambda o: seen.append(o.params) if o.name == "outside_scaled" else None)
    scaled(nc.ones(2), by=-0.0, flag=True)
    assert repr(dict(seen[0])) == "{'by': -0.0, 'flag': True}" and type(seen[0]["flag"]) is bool


def test_an_earlier_handle_does_not_remove_a_later_pass() -> None:
    early, late = register(), register(lambda o: o.operands[0] * 7 if o.name == "exp" else None)
    for _ in range(2):
        early.remove()
        assert nc.exp(nc.ones(1)).tolist() == [7.0]
    late.remove()
    assert nc.exp(nc.zeros(1)).tolist() == [1.0] and not extensions.PASSES


def test_a_rule_that_uses_variables_is_refused() -> None:
    nc.random.seed(0)  # the first use of random numbers would compile in the rule
    step = nc.nn.Parameter(nc.tensor(0.5))
    for use in (
        lambda x: x * step,
        lambda x: (step.assign(nc.sum(x)), x)[1],
        lambda x: x + nc.random.uniform(x.shape),
    ):
        register(lambda o, use=use: use(o.operands[0]) if o.name == "exp" else None)
        for _ in range(2):
            with pytest.raises(nc.TraceError, match="the rule of pass outside: a rule must depend on its arguments"):
                nc.exp(nc.ones(()))
    assert step.value.item() == 0.5


def test_registering_in_a_rule_is_refused() -> None:
    register(lambda o: register(name="inner") and None if o.name == "exp" else None)
    with pytest.raises(
        nc.Error, match="must not change while code is compiled; got a call in the rule of pass outside"
    ):
        nc.exp(nc.ones(3))


def test_symbolic_sizes_constants_and_parameters() -> None:
    seen: list[Any] = []

    def rule(operation: Any) -> Any:
        seen.append(operation)
        if operation.name == "mul" and (number := operation.constant(1)) is not None and float(number) == 2.0:
            return operation.operands[0] + operation.operands[0]
        return None

    register(rule)
    f = nc.jit(lambda x: nc.sum(x * nc.tensor(2.0), axis=1), dynamic_shapes={"x": {0: nc.Dim("n", 1, 64)}})
    assert f(nc.ones((3, 2))).tolist() == [4.0] * 3 and f(nc.ones((2, 2))).tolist() == [4.0] * 2
    total = next(o for o in seen if o.name == "sum")
    assert total.params["axes"] == (1,) and str(total).startswith("sum(f32[n, 2]")
    assert str(total.types[0]) == "f32[n]"


def test_passes_run_in_order_and_a_name_is_replaced() -> None:
    register(lambda o: o.operands[0] * 2 if o.name == "exp" else None, "first")
    register(lambda o: o.operands[0] + 1 if o.name == "mul" else None, "second")
    assert [p.name for p in passes()][1:3] == ["first", "second"] and len(passes()) == len(PASSES) + 2
    assert nc.exp(nc.ones(2)).tolist() == [2.0, 2.0]
    register(lambda o: nc.log(o.operands[0]) if o.name == "exp" else None, "first")
    assert nc.exp(nc.ones(2)).tolist() == [0.0, 0.0]


def test_a_rule_may_use_composites_and_constants() -> None:
    table = np.array([1.0, 2.0, 3.0], np.float32)

    def inner(x: Any) -> Any:
        return nc.nn.functional.softmax(x, -1) * 0

    register(lambda o: inner(o.operands[0]) + table if o.name == "exp" else None)
    assert nc.exp(nc.ones(3)).tolist() == [1.0, 2.0, 3.0]
    with nc.no_grad():
        assert nc.jit(lambda x: nc.exp(x) + 1)(nc.ones(3)).tolist() == [2.0, 3.0, 4.0]


def test_several_results() -> None:
    register(lambda o: (o.operands[0] + 5, o.operands[1] * 2) if o.name == "scan" else None)
    f = nc.jit(lambda x: nc.scan(lambda c, x: (c + x, c * x), nc.tensor(0.0), x))
    assert [y.tolist() for y in f(nc.ones(3))] == [5.0, [2.0, 2.0, 2.0]]


def test_derivatives_are_taken_of_the_traced_graph() -> None:
    x = nc.ones(2)
    before = nc.grad(lambda x: nc.tanh(x).sum())(x).numpy()
    register(lambda o: o.operands[0] * 0 if o.name == "cosh" else None)
    np.testing.assert_array_equal(nc.grad(lambda x: nc.tanh(x).sum())(x).numpy(), before)


REFUSED: dict[str, Callable[[], Any]] = {
    "name must not be empty": lambda: nc.register_pass("", negations, contract="c"),
    "contract must be a str": lambda: nc.register_pass("outside", negations, contract=None),  # type: ignore[arg-type]
    "the name must be new; got 'fusion'": lambda: nc.register_pass("fusion", negations, contract="c"),
    "rule must be a function": lambda: nc.register_pass("outside", 3, contract="c"),  # type: ignore[arg-type]
    "version must be a str": lambda: register(version=1),
    r"the replacement of exp\(f32\[3\]\) must have type f32\[3\]; got": lambda: (
        register(lambda o: o.operands[0].sum() if o.name == "exp" else None),
        nc.exp(nc.ones(3)),
    ),
    r"must have type f32\[3\]; got 3.0": lambda: (
        register(lambda o: 3.0 if o.name == "exp" else None),
        nc.exp(nc.ones(3)),
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_passes_are_refused(message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        REFUSED[message]()


def test_an_error_in_a_rule_is_the_users_own() -> None:
    register(lambda o: {}["missing"] if o.name == "exp" else None)
    with pytest.raises(KeyError, match="missing") as caught:
        nc.exp(nc.ones(3))
    assert caught.value.__notes__[0] == "raised in the rule of pass outside, for exp(f32[3])"


def test_a_rule_that_compiles_is_refused() -> None:
    inner = nc.jit(lambda x: nc.exp(x) * 2)
    register(lambda o: inner(o.operands[0]) if o.name == "exp" else None)
    with pytest.raises(nc.Error, match="a rule must not compile"):
        nc.exp(nc.ones(3))


def test_an_operand_has_no_numbers_in_a_rule() -> None:
    register(lambda o: o.operands[0] if o.name == "exp" and o.operands[0].sum() > 0 else None)
    with pytest.raises(nc.TraceError):
        nc.exp(nc.ones(3))


def test_a_pass_that_is_registered_while_another_thread_compiles_is_not_missed() -> None:
    f = nc.jit(lambda x: nc.exp(x) + (register() and 0 if not extensions.PASSES else 0))
    with pytest.raises(nc.Error, match="must not change inside of a transformation"):
        f(nc.ones(2))

    class Late(nc.nn.Module):
        """Registers between trace and compilation, as another thread may."""

        def forward(self, x: Any) -> Any:
            if not extensions.PASSES:
                extensions.PASSES["late"] = extensions.OutsidePass("late", "", lambda graph: graph, "")
                extensions.changed()
            return nc.exp(x)

    g = nc.jit(Late())
    assert g(nc.ones(2)).shape == (2,) and len(g.concrete_functions) == 1


PROGRAM = """
import sys
import nacre as nc
nc.register_pass("outside", lambda o: o.operands[0] * {factor} if o.name == "exp" else None,
                 contract="c", version="{version}")
print(nc.jit(lambda x: nc.exp(x) + 1)(nc.ones(3)).tolist()[0])
"""


def test_programs_are_stored_on_disk_under_the_versions_of_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NACRE_CACHE_DIR", str(tmp_path))

    def run(factor: int, version: str) -> str:
        code = PROGRAM.format(factor=factor, version=version)
        return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()

    assert [run(2, "1"), run(5, "1"), run(5, "2")] == ["3.0", "6.0", "6.0"]
    assert [run(6, ""), run(7, "")] == ["7.0", "8.0"]


def test_the_command_line_names_passes_of_the_users_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "model.py"
    file.write_text(
        "import nacre as nc\n"
        "nc.register_pass('ten', lambda o: o.operands[0] * 10 if o.name == 'exp' else None, contract='c')\n"
        "def f(x):\n    return nc.exp(x)\n"
    )

    line = ["explain", f"{file}:f", "f32[3]", "--after"]
    assert main([*line, "ten"]) == DONE
    assert "mul" in capsys.readouterr().out
    assert main([*line, "tenth"]) != DONE
    assert "after must be one of simplification, ten, " in capsys.readouterr().err


ORDERED = """
import sys
import nacre as nc
passes = {"a": ("tanh", nc.exp), "b": ("exp", nc.sin)}
for name in sys.argv[1]:
    old, new = passes[name]
    nc.register_pass(name, lambda o, old=old, new=new: new(o.operands[0]) if o.name == old else None,
                     contract="c", version="1")
print(round(float(nc.jit(nc.tanh)(nc.ones(()))), 3))
"""


def test_the_order_of_passes_is_part_of_what_is_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NACRE_CACHE_DIR", str(tmp_path))
    for order, value in (("ab", "0.841"), ("ba", "2.718"), ("ab", "0.841")):
        line = [sys.executable, "-c", ORDERED, order]
        assert subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip() == value
