"""Programs that have no conversion: each raises an error that says what, where and what to write."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import nacre as nc

WRONG: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
X = [1.0, 2.0]


def wrong(f: Callable[..., Any]) -> Callable[..., Any]:
    WRONG[f.__name__] = nc.jit(f), (nc.tensor(X),)
    return f


# ---- types


@wrong
def shapes_differ(x: Any) -> Any:
    if x.sum() > 0:
        y = x
    else:
        y = x[0]
    return y


@wrong
def dtypes_differ(x: Any) -> Any:
    y = x
    if x.sum() > 0:
        y = x.astype(nc.int32)
    return y


@wrong
def number_and_vector(x: Any) -> Any:
    if x.sum() > 0:
        y = x
    else:
        y = 0.0
    return y


@wrong
def none_and_tensor(x: Any) -> Any:
    extra = None
    if x.sum() > 0:
        extra = x
    return x if extra is None else extra


@wrong
def texts_differ(x: Any) -> Any:
    name = "a" if x.sum() > 0 else "b"
    return {"a": x, "b": -x}[name]


@wrong
def structures_differ(x: Any) -> Any:
    y = (x, x) if x.sum() > 0 else [x]
    return y[0]


@wrong
def results_differ(x: Any) -> Any:
    if x.sum() > 0:
        return x
    return x, x


@wrong
def bool_and_int(x: Any) -> Any:
    k = True if x.sum() > 0 else 3
    return x * k


@wrong
def functions_differ(x: Any) -> Any:
    if x.sum() > 0:

        def scaled(y: Any) -> Any:
            return y * 2

    else:

        def scaled(y: Any) -> Any:
            return -y

    return scaled(x)


@wrong
def classes_differ(x: Any) -> Any:
    if x.sum() > 0:

        class Scale:
            value = 1

    else:

        class Scale:
            value = 2

    return x * Scale.value


@wrong
def carry_becomes_a_tuple(x: Any) -> Any:
    steps: Any = ()
    while x.sum() > 1:
        x = x / 2
        steps = (*steps, x)
    return nc.stack(steps)


@wrong
def carry_is_a_text(x: Any) -> Any:
    state = "begun"
    while x.sum() > 1:
        x, state = x / 2, "halved"
    return x * len(state)


@wrong
def carry_begins_as_a_bool(x: Any) -> Any:
    n = False
    while x.sum() > 1:
        x, n = x / 2, n + 1
    return x * n


@wrong
def carry_grows(x: Any) -> Any:
    while x.sum() < 10:
        x = nc.concat([x, x])
    return x


@wrong
def carry_changes_dtype(x: Any) -> Any:
    n = x.sum().astype(nc.int64)
    while n < 10:
        n = n * 1.5
    return n


@wrong
def carry_begins_as_none(x: Any) -> Any:
    best = None
    while x.sum() > 1:
        x = x / 2
        best = x
    return best


@wrong
def condition_of_many(x: Any) -> Any:
    if x > 0:
        return x
    return -x


# ---- names


@wrong
def bound_in_one_branch(x: Any) -> Any:
    if x.sum() > 0:
        y = x * 2
    return y


@wrong
def bound_in_a_loop(x: Any) -> Any:
    while x.sum() > 1:
        x = x / 2
        y = x + 1
    return y


@wrong
def no_result_on_one_path(x: Any) -> Any:
    if x.sum() > 0:
        return x


@wrong
def deleted_in_a_branch(x: Any) -> Any:
    y = x
    if x.sum() > 0:
        del y
    return y


# ---- side effects


class Counter:
    """Counts calls."""

    def __init__(self) -> None:
        self.count = 0
        self.seen: dict[str, Any] = {}

    def add(self) -> None:
        """One more."""
        self.count += 1


COUNTER = Counter()
SEEN: list[int] = []
TOTAL = 0


@wrong
def attribute_written(x: Any) -> Any:
    if x.sum() > 0:
        COUNTER.count += 1
    return x


@wrong
def item_written(x: Any) -> Any:
    seen = {"sum": x}
    if x.sum() > 0:
        seen["sum"] = x * 2
    return seen["sum"]


@wrong
def item_of_an_attribute_written(x: Any) -> Any:
    if x.sum() > 0:
        COUNTER.seen["x"] = 1
    return x


@wrong
def global_written(x: Any) -> Any:
    global TOTAL
    if x.sum() > 0:
        TOTAL = 1
    return x


@wrong
def nonlocal_written(x: Any) -> Any:
    k = 0

    def add() -> None:
        nonlocal k
        if x.sum() > 0:
            k += 1

    add()
    return x * k


@wrong
def append_in_a_branch(x: Any) -> Any:
    rows = [x]
    if x.sum() > 0:
        rows.append(x * 2)
    return nc.stack(rows)


@wrong
def append_in_a_while(x: Any) -> Any:
    rows = []
    while x.sum() > 1:
        x = x / 2
        rows.append(x)
    return nc.stack(rows)


@wrong
def pop_in_a_branch(x: Any) -> Any:
    rows = [x, x * 2]
    if x.sum() > 0:
        rows.pop()
    return rows[-1]


@wrong
def added_to_a_set(x: Any) -> Any:
    names = {"a"}
    y = x * 2 if x.sum() > 0 and not names.add("b") else x
    return y * len(names)


@wrong
def changed_by_a_method(x: Any) -> Any:
    if x.sum() > 0:
        COUNTER.add()
    return x


@wrong
def global_list_changed(x: Any) -> Any:
    while x.sum() > 1:
        SEEN.append(1)
        x = x / 2
    return x


@wrong
def raised(x: Any) -> Any:
    if x.sum() > 0:
        raise ValueError("positive")
    return x


def add_one() -> None:
    global TOTAL
    TOTAL += 1


@wrong
def global_written_by_a_callee(x: Any) -> Any:
    if x.sum() > 0:
        add_one()
    return x


@wrong
def nonlocal_written_by_a_callee(x: Any) -> Any:
    k = 0

    def add() -> None:
        nonlocal k
        k += 1

    if x.sum() > 0:
        add()
    return x * k


@wrong
def changed_by_a_closure(x: Any) -> Any:
    seen: dict[str, Any] = {}

    def keep(y: Any) -> Any:
        seen["y"] = y
        return y

    return keep(x) if x.sum() > 0 else x * len(seen)


@wrong
def iterator_advanced(x: Any) -> Any:
    scales = iter([1.0, 2.0])
    if x.sum() > 0:
        x = x * next(scales)
    return x * next(scales)


@wrong
def array_written(x: Any) -> Any:
    table = np.zeros(2, np.float32)
    while x.sum() > 1:
        table[0] = 1.0
        x = x / 2
    return x + nc.tensor(table)


@wrong
def class_written(x: Any) -> Any:
    class Settings:
        scale = 1.0

    if x.sum() > 0:
        Settings.scale = 2.0
    return x * Settings.scale


@wrong
def exception_caught_outside(x: Any) -> Any:
    try:
        if x.sum() > 0:
            x = {"a": x}["b"]
    except KeyError:
        x = x * 2
    return x


@wrong
def refusal_caught(x: Any) -> Any:
    try:
        y = x if x.sum() > 0 else 0.0
    except Exception:
        y = x * 2
    return y


class Empty:
    """An object without attributes, at first."""


@wrong
def attribute_added(x: Any) -> Any:
    settings = Empty()
    if x.sum() > 0:
        settings.scale = 2.0
    return x * getattr(settings, "scale", 1.0)


@wrong
def attribute_deleted(x: Any) -> Any:
    settings = Empty()
    settings.scale = 2.0
    while x.sum() > 1:
        x = x / 2
        del settings.scale
    return x


@wrong
def exit_in_a_branch(x: Any) -> Any:
    if x.sum() > 100:
        sys.exit(1)
    return x


@wrong
def finally_breaks(x: Any) -> Any:
    for _ in range(5):
        try:
            if x.sum() > 0:
                return x
        finally:
            if x[0] > 1:
                break  # noqa: B012
    return -x


@wrong
def missing_value_caught(x: Any) -> Any:
    if x.sum() > 0:
        y = x * 2
    try:
        return y
    except NameError:
        return x


@wrong
def two_types_caught(x: Any) -> Any:
    y = "none"
    if x.sum() > 0:
        y = x * 2
    try:
        return y * 2
    except Exception:
        return x


@wrong
def function_attribute_written(x: Any) -> Any:
    def scaled(y: Any) -> Any:
        return y * 2

    if x.sum() > 0:
        scaled.calls = 1
    return scaled(x)


# ---- lists


@wrong
def list_without_a_size(x: Any) -> Any:
    steps: list[Any] = []
    for _ in range(20):
        if x.sum() < 1:
            break
        x = x / 2
        steps.append(x)
    return nc.stack(steps)


@wrong
def item_of_a_list(x: Any) -> Any:
    steps = [x]
    while x.sum() > 1:
        nc.set_loop_options(max_iterations=10)
        x = x / 2
        steps.append(x)
    return steps[-1]


@wrong
def list_returned(x: Any) -> Any:
    steps: list[Any] = []
    while x.sum() > 1:
        nc.set_loop_options(max_iterations=10)
        x = x / 2
        steps.append(x)
    return steps


@wrong
def list_with_two_names(x: Any) -> Any:
    steps: list[Any] = []
    same = steps
    while x.sum() > 1:
        nc.set_loop_options(max_iterations=10)
        x = x / 2
        steps.append(x)
    return nc.stack(same, size=10)


@wrong
def items_of_two_types(x: Any) -> Any:
    steps: list[Any] = []
    while x.sum() > 1:
        nc.set_loop_options(max_iterations=10)
        x = x / 2
        steps.append(x)
        steps.append(x.sum())
    return nc.stack(steps, size=20)


@wrong
def more_items_than_the_size(x: Any) -> Any:
    steps: list[Any] = []
    while x.sum() > 0.1:
        nc.set_loop_options(max_iterations=10)
        x = x / 2
        steps.append(x)
    return nc.stack(steps, size=2)


@wrong
def more_iterations_than_allowed(x: Any) -> Any:
    while x.sum() > 0.1:
        nc.set_loop_options(max_iterations=2)
        x = x / 2
    return x


# ---- Python requests numbers


@wrong
def condition_of_a_comprehension(x: Any) -> Any:
    return sum([row for row in x if row > 1.5])


@wrong
def rows_sorted(x: Any) -> Any:
    return sorted([x[0], x[1]])[0]


@wrong
def contained_in_a_list(x: Any) -> Any:
    return x if x[0] in [1.0, 2.0] else -x


@wrong
def number_read(x: Any) -> Any:
    if x.sum() > 0:
        return x * float(x[0])
    return x


@wrong
def size_computed(x: Any) -> Any:
    n = 0
    while x.sum() > 1:
        x, n = x / 2, n + 1
    return nc.zeros((n,))


@wrong
def list_indexed(x: Any) -> Any:
    scales = [1.0, 2.0, 3.0]
    k = 2 if x.sum() > 0 else 1
    return x * scales[k]


@wrong
def power_of_a_number(x: Any) -> Any:
    k = 2.0 if x.sum() > 0 else 3.0
    return x * k**2


@wrong
def negative_power(x: Any) -> Any:
    n = 0
    while x.sum() > 1:
        x, n = x / 2, n + 1
    return x * n**-1


@wrong
def negative_power_when_run(x: Any) -> Any:
    n = 0
    while x.sum() > 1:
        x, n = x / 2, n + 1
    return x * 2 ** (n - 10)


@wrong
def division_by_zero(x: Any) -> Any:
    n = 2
    while x.sum() > 1:
        x, n = x / 2, n - 1
    return x * (7 // n)


@wrong
def slice_by_a_number(x: Any) -> Any:
    n = 0
    while x.sum() > 1:
        x, n = x / 2, n + 1
    return x[n : n + 1]


@wrong
def slice_by_a_tensor(x: Any) -> Any:
    n = x.sum().astype(nc.int64)
    return x[:n]


@wrong
def axis_by_a_number(x: Any) -> Any:
    return x.sum(axis=0 if x.sum() > 0 else -1)


@wrong
def number_converted(x: Any) -> Any:
    n = 0
    while x.sum() > 1:
        x, n = x / 2, n + 1
    return x * float(n)


@wrong
def number_as_a_key(x: Any) -> Any:
    n = 0
    while x.sum() > 1:
        x, n = x / 2, n + 1
    return {0: x, 1: -x}.get(n, x + 1)


@wrong
def truth_of_a_number(x: Any) -> Any:
    n = 0
    while x.sum() > 1:
        x, n = x / 2, n + 1
    return x * bool(n)


@wrong
def number_of_many_bits(x: Any) -> Any:
    n = 2**70
    if x.sum() > 0:
        n = n + 1
    return x * n


@wrong
def range_in_enumerate(x: Any) -> Any:
    for k, n in enumerate(range(x.sum().astype(nc.int64))):
        x = x + k * n
    return x


@wrong
def range_with_a_traced_step(x: Any) -> Any:
    for k in range(0, 10, x.sum().astype(nc.int64)):
        x = x + k
    return x


@wrong
def range_of_floats(x: Any) -> Any:
    for k in range(x.sum()):
        x = x + k
    return x


@wrong
def walrus_in_an_and(x: Any) -> Any:
    if x[0] > 0 and (y := x[1]) > 0:
        return x * y
    return x


@wrong
def number_as_text(x: Any) -> Any:
    n = 0
    while x.sum() > 1:
        x, n = x / 2, n + 1
    return {str(n): x}


@wrong
def power_of_a_tensor(x: Any) -> Any:
    return x ** (2 if x.sum() > 0 else 3)


@wrong
def key_of_a_tensor(x: Any) -> Any:
    signs = {1: x, 3: -x}
    return signs[x.sum().astype(nc.int64)]


@wrong
def rows_filtered(x: Any) -> Any:
    return nc.stack(list(filter(lambda row: row > 1, x)))


@wrong
def contained_in_a_tensor(x: Any) -> Any:
    return x if 1.0 in x else -x


@wrong
def list_extended(x: Any) -> Any:
    steps: list[Any] = []
    while x.sum() > 1:
        x = x / 2
        steps.extend([x, x])
    return nc.stack(steps)


@wrong
def tuples_appended(x: Any) -> Any:
    steps: list[Any] = []
    while x.sum() > 1:
        nc.set_loop_options(max_iterations=9)
        x = x / 2
        steps.append((x, x + 1))
    return nc.stack([a for a, _ in steps])


@wrong
def matched(x: Any) -> Any:
    match x.sum():
        case 3.0:
            return x
        case _:
            return -x


@wrong
def guard_of_a_case(x: Any) -> Any:
    match x.shape:
        case (n,) if x.sum() > n:
            return x
        case _:
            return -x


@wrong
def any_of_two_loops(x: Any) -> Any:
    return x if any(a * k > 1 for a in x for k in (1, 2)) else -x


@wrong
def class_body(x: Any) -> Any:
    class Settings:
        scale = 2.0 if x.sum() > 0 else 1.0

    return x * Settings.scale


# ---- functions


def yielding(x: Any) -> Any:
    for k in range(3):
        if x.sum() > k:
            yield x + k


@wrong
def generator(x: Any) -> Any:
    return sum(yielding(x))


@wrong
def coroutine(x: Any) -> Any:
    async def chosen() -> Any:
        return x if x.sum() > 0 else -x

    return asyncio.run(chosen())


@wrong
def evaluated_text(x: Any) -> Any:
    return eval("x if x.sum() > 0 else -x")


exec("def without_source(x):\n    return x if x.sum() > 0 else -x", globals())


@wrong
def calls_a_function_without_source(x: Any) -> Any:
    return without_source(x)  # noqa: F821


@wrong
def sees_its_names(x: Any) -> Any:
    if x.sum() > 0:
        y = x
    else:
        y = -x
    return y * len(locals())


@wrong
def an_inner_function_sees_its_names(x: Any) -> Any:
    def inner(y: Any) -> Any:
        z = y if y.sum() > 0 else -y
        return z * len(locals())

    return inner(x)


@wrong
def endless_recursion(x: Any) -> Any:
    if x.sum() > 1:
        return endless_recursion(x / 2)
    return x


@wrong
def endless_loop(x: Any) -> Any:
    y = x
    while x.sum() > 0:
        y = y + 1
    return y


def off(x: Any) -> Any:
    if x.sum() > 0:
        return x
    return -x


WRONG["autograph_is_off"] = nc.jit(off, autograph=False), (nc.tensor(X),)


@wrong
def gradient_of_a_while(x: Any) -> Any:
    def loss(y: Any) -> Any:
        while y.sum() > 1:
            y = y / 2
        return y.sum()

    return nc.grad(loss)(x)


@wrong
def assertion_shows_a_tensor(x: Any) -> Any:
    assert x.sum() < 0, x.sum()
    return x


@wrong
def assertion_fails(x: Any) -> Any:
    assert x.sum() < 0, "the {sum} must be negative"
    return x
