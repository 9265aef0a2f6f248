"""Variants for sizes that are needed as numbers: their reasons, the warning, the limit, and what a trace leaves."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

import nacre as nc
from nacre import nn
from nacre.transform.jit import Jitted
from same_bits import canonical

F = nn.functional


def ones(*shape: int) -> Any:
    return nc.ones(shape)


def same(f: Jitted, *calls: Any) -> None:
    for x in calls:
        assert canonical(f(x)) == canonical(f.function(x)), x.shape


def doubled(x: Any) -> Any:
    return x * 2 if x.shape[0] > 4 else x


def line(function: Callable[..., Any], after: int) -> str:
    """A line of a function as reasons show it."""
    return f"{__file__}:{function.__code__.co_firstlineno + after} ({function.__name__})"


# ---- many variants


def test_many_variants_for_sizes_warn_once() -> None:
    f = nc.jit(doubled)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for n in range(2, 20):
            f(ones(n, 3))
    (warning,) = found
    text = str(warning.message)
    assert text.startswith("doubled was compiled 8 times for sizes that are numbers; axis 0 of argument x stays a")
    assert f"{line(doubled, 1)} needs the number; use no number there, or pad to a few sizes" in text
    assert warning.filename == __file__


@pytest.mark.filterwarnings("ignore:doubled was compiled")
def test_of_many_variants_for_sizes_the_one_found_longest_ago_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nacre.transform.sizes.MOST", 10)
    f = nc.jit(doubled)
    f(ones(2, 3))
    for n in range(3, 23):
        same(f, ones(n, 3), ones(3, 3), ones(2, 3))
    assert f.dropped == 10 and len(f.concrete_functions) == 11
    sizes = [c.graph.input_types[0].shape[0] for c in f.concrete_functions]
    assert sizes == [2, 3, *range(14, 23)]  # 3 was called all the time, 2 was the first one
    assert len(f.known) == 12  # one without variants is for the symbol
    before = len(f.concrete_functions)
    same(f, ones(4, 3))
    assert len(f.concrete_functions) == before and f.dropped == 11
    assert "needs the number" in f.concrete_functions[-1].reason


@pytest.mark.filterwarnings("ignore:mixed was compiled")
def test_the_limit_holds_for_variants_with_a_symbol_and_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nacre.transform.sizes.MOST", 5)

    def mixed(x: Any) -> Any:
        return x * 2 if x.shape[1] > 4 else x

    f = nc.jit(mixed)
    for n in range(2, 14):
        same(f, ones(n, n + 1), ones(n + 3, n + 1))
    assert len(f.concrete_functions) == 7 and f.dropped > 0  # the first two need no number
    assert all(c.symbolic for c in f.concrete_functions[1:])


# ---- reasons


def needs_none(x: Any) -> Any:
    y = x * 2
    return F.adaptive_avg_pool2d(y[None], 2)


def multiplied(x: Any) -> Any:
    return nc.grad(nc.prod)(x)


def raised(x: Any) -> Any:
    if type(x.shape[0]) is not int:
        raise TypeError
    return x


def handled(x: Any) -> Any:
    try:
        y = F.adaptive_avg_pool2d(x[None], 2)
    except nc.Error:
        y = x
    return y


REASONS: dict[Callable[[Any], Any], str] = {
    needs_none: f"{line(needs_none, 2)}: adaptive_avg_pool2d has no form for symbolic sizes",
    multiplied: f"{line(multiplied, 1)}: gradient has no form for symbolic sizes",
    raised: f"{line(raised, 2)} raises TypeError with symbolic sizes",
    handled: f"{line(handled, 2)} raises ShapeError, which is handled",
}


@pytest.mark.parametrize("function", REASONS, ids=lambda f: f.__name__)
def test_a_reason_has_the_line_of_the_user_and_the_operation(function: Callable[[Any], Any]) -> None:
    f = nc.jit(function)
    same(f, ones(4, 5), ones(6, 7), ones(8, 9))
    assert [c.symbolic for c in f.concrete_functions] == [False] * 3
    for c in f.concrete_functions[1:]:
        assert c.reason.endswith(f"; axes 0 and 1 of argument x stay numbers: {REASONS[function]}"), c.reason


def test_a_convolution_has_symbols_for_batch_and_image() -> None:
    f = nc.jit(lambda x: F.conv2d(x, nc.ones((2, 3, 3, 3)), padding=1))
    same(f, ones(2, 3, 8, 8), ones(4, 3, 9, 9), ones(5, 3, 9, 9), ones(6, 3, 9, 9))
    assert [str(c.graph.input_types[0]) for c in f.concrete_functions] == ["f32[2, 3, 8, 8]", "f32[n0, 3, n2, n2]"]


def test_a_reason_names_the_axis_that_stays_a_number() -> None:
    def g(x: Any, y: Any) -> Any:
        z = x + 1
        return nc.concat([z * k for k in range(x.shape[1])], axis=1), y * int(y.shape[0])

    f = nc.jit(g)
    for x, y in ((ones(4, 2), ones(7)), (ones(5, 3), ones(8)), (ones(6, 3), ones(8))):
        assert list(map(canonical, f(x, y))) == list(map(canonical, g(x, y)))
    assert [str(c.graph.input_types[0]) for c in f.concrete_functions] == ["f32[4, 2]", "f32[n0, 3]"]
    assert f.concrete_functions[1].reason == (
        f"axis 0 of argument x varied; axis 1 of argument x and axis 0 of argument y stay numbers: "
        f"{line(g, 2)} needs the number"
    )


def test_axes_that_stay_numbers_for_other_lines_are_named_apart() -> None:
    def g(x: Any) -> Any:
        y = x * int(x.shape[0])
        return y * int(y.shape[1])

    f = nc.jit(g)
    same(f, ones(4, 2), ones(5, 3))
    assert f.concrete_functions[1].reason.partition("; ")[2] == (
        f"axis 0 of argument x stays a number: {line(g, 1)} needs the number; "
        f"axis 1 of argument x stays a number: {line(g, 2)} needs the number"
    )


def test_a_result_and_a_variable_are_reasons() -> None:
    f = nc.jit(lambda x: (x + 1, x.shape[0]))
    for n in (4, 5):
        assert f(ones(n, 3))[1] == n
    assert f.concrete_functions[1].reason.endswith(
        "axis 0 of argument x stays a number: it is a result of the function"
    )


# ---- questions about sizes within a range


def matched(x: Any) -> Any:
    match x.shape[0]:
        case 5:
            return x * 2
        case _:
            return x


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "equal": lambda x: x * 2 if x.shape[0] == 5 else x,
    "unequal": lambda x: x * 2 if x.shape[0] != 5 else x,
    "equal float": lambda x: x * 2 if x.shape[0] == 5.0 else x,
    "from the right": lambda x: x * 2 if 5 == x.shape[0] else x,  # noqa: SIM300 - the order is what is tested
    "other size": lambda x: x * 2 if x.shape[0] == x.shape[1] else x,
    "product": lambda x: x * 2 if 2 * x.shape[0] + 1 == 11 else x,
    "member": lambda x: x * 2 if x.shape[0] in (4, 8) else x,
    "set": lambda x: x * 2 if x.shape[0] in {4, 8} else x,
    "match": matched,
    "key": lambda x: x * {5: 2.0}.get(x.shape[0], 1.0),
    "shape": lambda x: x * 2 if x.shape == (5, 3) else x,
    "shape as a key": lambda x: x * {(5, 3): 2.0}.get(x.shape, 1.0),
    "index": lambda x: x * [*x.shape].index(5),
    "count": lambda x: x * x.shape.count(5),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_that_bounds_cannot_answer_raises(name: str) -> None:
    n, m = nc.Dim("n", min=1, max=64), nc.Dim("m", min=1, max=64)
    f = nc.jit(QUESTIONS[name], dynamic_shapes={"x": {0: n, 1: m}})
    with pytest.raises(nc.ShapeError, match="dimension: ") as found:
        f(ones(5, 3))
    assert any(__file__ in note for note in found.value.__notes__)


@pytest.mark.parametrize(
    "question",
    [lambda n: n == 0, lambda n: n in (0, 65), lambda n: n == -n, lambda n: n != n + 0, lambda n: n == n + 1],
)
def test_a_question_that_bounds_answer(question: Callable[[Any], bool]) -> None:
    answers: list[bool] = []

    def g(x: Any) -> Any:
        answers.append(question(x.shape[0]))
        assert x.shape == (x + 1).shape
        return x

    nc.jit(g, dynamic_shapes={"x": {0: nc.Dim("n", min=1, max=64)}})(ones(5, 3))
    assert answers == [False]


def test_sizes_are_compared_and_hashed_outside_of_traces() -> None:
    n, m = nc.Dim("n"), nc.Dim("m")
    assert n != m and n == nc.Dim("n") and n != 5 and {n: 1, m: 2}[n] == 1


# ---- sizes that are kept


class Log:
    """An object with lists of sizes, and a class with one."""

    shared: list[Any] = []  # noqa: RUF012 - a container of the class is what is tested
    last: Any = None

    def __init__(self) -> None:
        self.sizes: list[Any] = []
        self.deep: dict[str, Any] = {"sizes": deque()}
        self.total = 0

    def add(self, x: Any) -> None:
        self.sizes.append(x.shape[0])
        self.deep["sizes"].append((x.shape, "text"))
        self.total += x.shape[0]


seen: list[Any] = []
latest: Any = None
made_later: Any


def note(x: Any) -> None:
    further(x.shape[0])


def further(n: Any) -> None:
    seen.append([n, {"n": n}])


def assigned(x: Any) -> Any:
    global latest, made_later
    latest = made_later = x.shape[0] + 1
    return x + 1


def test_sizes_that_are_kept_in_containers_are_numbers() -> None:
    log, sizes, by_count, first = Log(), [0], dict[int, Any](), {"n": 0}
    cell: Any = None

    def g(x: Any, log: Log = log) -> Any:
        nonlocal cell
        log.add(x)
        sizes.append(x.shape[0] * 2)
        by_count[len(by_count)] = x.shape
        first["n"] += x.shape[0]
        cell = x.shape[0]
        Log.shared.append(x.shape[0])
        Log.last = x.shape[0]
        note(x)
        return x + 1

    Log.shared.clear()
    seen.clear()
    f = nc.jit(g)
    for n in (4, 5, 6):
        f(ones(n, 3))
        assert cell == Log.last == n and type(cell) is type(Log.last) is int
    assert [c.symbolic for c in f.concrete_functions] == [False] * 3
    assert log.sizes == Log.shared == [4, 5, 6] and sizes == [0, 8, 10, 12] and log.total == first["n"] == 15
    assert list(log.deep["sizes"]) == [((n, 3), "text") for n in (4, 5, 6)]
    assert by_count == {0: (4, 3), 1: (5, 3), 2: (6, 3)}
    assert seen == [[n, {"n": n}] for n in (4, 5, 6)]
    numbers = [*log.sizes, *sizes, *Log.shared, log.total, *first.values(), *(n for n, _ in seen)]
    assert {type(n) for n in numbers} == {int}


def test_a_kept_size_is_listed_with_its_line() -> None:
    kept: list[Any] = []

    def g(x: Any) -> Any:
        y = x + 1
        kept.append(x.shape)
        return y

    f = nc.jit(g)
    for n in (4, 5, 6):
        f(ones(n, 3))
    assert kept == [(4, 3), (5, 3), (6, 3)]
    assert f.concrete_functions[1].reason.endswith(
        f"axis 0 of argument x stays a number: {line(g, 2)} keeps it in kept"
    )


def test_sizes_in_global_names_are_numbers() -> None:
    f = nc.jit(assigned)
    for n in (4, 5, 6):
        f(ones(n, 3))
        assert latest == made_later == n + 1 and type(latest) is type(made_later) is int


def test_objects_without_sizes_do_not_need_numbers() -> None:
    log: list[Any] = []

    def g(x: Any) -> Any:
        log.append("traced")
        return x * 2

    f = nc.jit(g)
    same(f, ones(4, 3), ones(5, 3), ones(6, 3))
    assert [c.symbolic for c in f.concrete_functions] == [False, True]


def test_a_large_container_gets_numbers_at_its_end() -> None:
    many: list[Any] = list(range(3000))
    table: dict[Any, Any] = dict.fromkeys(range(3000))

    def g(x: Any) -> Any:
        many.append(x.shape[0])
        table["size"] = x.shape[0]
        return x + 1

    f = nc.jit(g)
    for n in (4, 5, 6):
        f(ones(n, 3))
    assert many[3000:] == [4, 5, 6] and type(table["size"]) is int


def test_lists_within_lists_stay_the_same_objects() -> None:
    inner: list[Any] = []
    outer = [inner, {"inner": inner}]
    replaced: list[Any] = [0, 0]

    def g(x: Any) -> Any:
        outer[0].append(x.shape[0])
        replaced[1] = x.shape[0]
        return x + 1

    f = nc.jit(g)
    for n in (4, 5, 6):
        f(ones(n, 3))
        assert replaced == [0, n] and type(replaced[1]) is int
    assert outer[0] is inner and inner == [4, 5, 6] and outer == [inner, {"inner": inner}]


def test_arithmetic_within_a_range_is_no_question() -> None:
    def g(x: Any) -> Any:
        n = x.shape[0]
        return nc.sum(x) * (n // 3) + (n + 1) // 2 + n % 4 + 6 * n // n

    f = nc.jit(g, dynamic_shapes={"x": {0: nc.Dim("n", min=1, max=64)}})
    for k in (1, 2, 7):
        assert canonical(f(ones(k, 3))) == canonical(g(ones(k, 3)))


def test_a_reason_names_the_operation_that_needs_the_number() -> None:
    def scaled(x: Any) -> Any:
        return x * x.shape[0] ** -0.5

    f = nc.jit(scaled)
    same(f, *map(ones, (4, 5, 6)))
    assert f"{line(scaled, 1)}: a power of a size needs the number" in f.concrete_functions[-1].reason


PRODUCTS: dict[str, Callable[[Any], Any]] = {
    "arange": lambda x: nc.arange(x.size),
    "arange-steps": lambda x: nc.arange(3, 4 * x.shape[0] * x.shape[2], 2),
    "arange-squared": lambda x: nc.arange(4 * x.shape[0] * x.shape[0]),
    "linspace": lambda x: nc.linspace(0, 1, x.size),
    "mean": lambda x: nc.mean(x * 3 + 0.1),
    "var": lambda x: nc.var(x * nc.arange(x.shape[2]).astype(nc.float32), correction=1),
    "loss": lambda x: F.mse_loss(x * 3, x),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_three_sizes_need_no_number(name: str) -> None:
    f = nc.jit(PRODUCTS[name])
    same(f, *[ones(n, n + 1, n + 2) for n in (4, 5, 6, 50)])
    assert len(f.concrete_functions) == 2


def test_a_sequence_that_may_not_fit_its_dtype_keeps_numbers() -> None:
    def counted(x: Any) -> Any:
        return nc.arange(x.size, dtype=nc.int32)

    f = nc.jit(counted)
    same(f, *[ones(n, n + 1, n + 2) for n in (4, 5, 6)])
    assert f"{line(counted, 1)}: arange needs the number" in f.concrete_functions[-1].reason
