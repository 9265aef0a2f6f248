"""Small programs with control flow on tensors: each is a function, with the arguments to call it with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import nacre as nc
from nacre import nn


class Program(NamedTuple):
    """A function and the arguments of its calls."""

    function: Callable[..., Any]
    calls: list[tuple[Any, ...]]


PROGRAMS: dict[str, Program] = {}
VECTORS = [([1.0, 2.0],), ([-3.0, 1.0],), ([6.0, 7.5],), ([0.0, 0.0],)]


def program(*calls: tuple[Any, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        assert f.__name__ not in PROGRAMS
        PROGRAMS[f.__name__] = Program(f, list(calls or VECTORS))
        return f

    return add


# ---- branches


@program()
def if_else(x: Any) -> Any:
    if x.sum() > 0:
        y = x * 2
    else:
        y = -x
    return y


@program()
def if_alone(x: Any) -> Any:
    if x.sum() > 0:
        x = x + 1
    return x


@program()
def elif_chain(x: Any) -> Any:
    total = x.sum()
    if total > 5:
        y = x * 3
    elif total > 0:
        y = x * 2
    elif total == 0:
        y = x + 1
    else:
        y = -x
    return y


@program()
def nested_if(x: Any) -> Any:
    if x[0] > 0:
        if x[1] > 5:
            y = x + 10
        else:
            y = x + 20
        y = y * 2
    else:
        y = x
    return y


@program()
def early_return(x: Any) -> Any:
    if x.sum() > 0:
        return x
    return -x


@program()
def early_returns(x: Any) -> Any:
    if x[0] > 5:
        return x * 5
    y = x + 1
    if y[1] > 2.5:
        return y * 7
    z = y * y
    if z.sum() > 4:
        return z
    return z - 1


@program()
def return_in_inner_branch(x: Any) -> Any:
    if x[0] > 0:
        if x[1] > 5:
            return x * 100
        y = x * 2
    else:
        y = x * 3
    return y + x


@program()
def return_in_both(x: Any) -> Any:
    if x.sum() > 0:
        y = x * 2
        return y + 1
    else:
        return x - 1


@program()
def conditional_expression(x: Any) -> Any:
    return x if x.sum() > 0 else -x


@program()
def nested_conditional_expression(x: Any) -> Any:
    return x * 2 if x[0] > 5 else x * 3 if x[0] > 0 else x * 4


@program()
def python_condition(x: Any) -> Any:
    y = x
    if x.shape[0] == 2:
        y = y * 2
    if x.sum() > 0:
        y = y + 1
    return y


@program()
def python_number_chosen(x: Any) -> Any:
    k = 1
    if x.sum() > 0:
        k = 3
    return x * k


@program()
def float_or_int_chosen(x: Any) -> Any:
    k = 0.1 if x.sum() > 0 else 2
    return x * k


@program()
def float_arithmetic_is_double(x: Any) -> Any:
    k = 0.1 if x.sum() > 0 else 0.7
    k = k * 3 - 0.1
    return x * k, k


@program()
def number_or_scalar_tensor(x: Any) -> Any:
    y = x.sum() if x[0] > 0 else 0.0
    return y + 1


@program()
def tuples_chosen(x: Any) -> Any:
    pair = (x, x.sum()) if x[0] > 0 else (-x, x.max())
    return pair[0] * pair[1]


@program()
def dicts_chosen(x: Any) -> Any:
    if x[0] > 0:
        state = {"a": x, "b": [x * 2, 1]}
    else:
        state = {"a": -x, "b": [x * 3, 2]}
    return state["a"] + state["b"][0] * state["b"][1]


@program()
def condition_of_a_float(x: Any) -> Any:
    if x[0]:
        return x + 5
    return x - 5


@program()
def condition_of_a_matrix_of_one(x: Any) -> Any:
    return x * 2 if x.reshape((1, 2))[:, :1] > 0 else x


@program()
def none_in_both(x: Any) -> Any:
    extra = None
    if x.sum() > 0:
        y = x
    else:
        extra = None
        y = -x
    return y if extra is None else y + extra


@program()
def temporary_in_one_branch(x: Any) -> Any:
    if x.sum() > 0:
        t = x * 2
        x = t + t * t
    return x


@program()
def element_assigned(x: Any) -> Any:
    y = x * 1
    if x.sum() > 0:
        y[0] = 7.0
        y[1] += 1.0
    return y


@program()
def element_of_an_alias(x: Any) -> Any:
    y = x * 1
    z = y
    if x.sum() > 0:
        y[0] = 5.0
        w = z + 1
    else:
        w = z
    return y, z, w


@program()
def augmented(x: Any) -> Any:
    total = x.sum()
    if total > 0:
        total += 3
        total *= 2
    return total


@program()
def branch_binds_many(x: Any) -> Any:
    a = b = c = x
    if x[0] > 0:
        a, b = b + 1, a * 2
        (c, *_) = (a + b, 1, 2)
    return a, b, c


# ---- and, or, not, comparisons


@program()
def and_or(x: Any) -> Any:
    if x[0] > 0 and x[1] > 5:
        return x * 2
    if x[0] < 0 or x[1] == 0:
        return x * 3
    return x


@program()
def not_traced(x: Any) -> Any:
    return x if not x.sum() > 0 else -x


@program()
def values_of_and_or(x: Any) -> Any:
    return x.sum() and x.max(), x.sum() or x.max() + 1


@program()
def three_operands(x: Any) -> Any:
    inside = x[0] > -5 and x[1] > 0 and x.sum() < 10
    outside = x[0] > 5 or x[1] < 0 or x.sum() == 0
    return nc.where(inside, x, 0.0) + nc.where(outside, 1.0, 2.0)


@program()
def mixed_operands(x: Any) -> Any:
    flag = True
    if flag and x.sum() > 0:
        x = x + 1
    if not flag or x.sum() > 3:
        x = x + 2
    return x


@program()
def chained(x: Any) -> Any:
    if 0 < x.sum() < 10:
        return x + 1
    return x - 1


@program()
def longer_chain(x: Any) -> Any:
    return x * 2 if -1 < x[0] <= x[1] != 7.5 else x


@program(([1.0, 2.0], 1), ([1.0, 2.0], 5))
def and_guards_the_second(x: Any, k: Any) -> Any:
    k = nc.asarray(k)
    if k < 2 and x[k] > 1:
        return x * 2
    return x


# ---- while


@program()
def while_loop(x: Any) -> Any:
    while x.sum() > 1:
        x = x / 2
    return x


@program()
def while_counts(x: Any) -> Any:
    n = 0
    while x.sum() > 1:
        x = x / 2
        n += 1
    return x * n, n


@program()
def while_total_begins_as_a_number(x: Any) -> Any:
    total = 0
    k = nc.asarray(0)
    while k < 4:
        total = total + x.sum()
        k = k + 1
    return total


@program()
def while_int_becomes_float(x: Any) -> Any:
    step = 1
    while x.sum() < 30:
        x = x + step + 1
        step = step * 1.5
    return x, step


@program()
def while_break(x: Any) -> Any:
    while True:
        x = x + 1
        if x.sum() > 10:
            break
        x = x * 1.5 + 0.5
    return x


@program()
def while_continue(x: Any) -> Any:
    k = 0
    while k < 6:
        k = k + 1
        if x[0] > 3:
            continue
        x = x + k
    return x


@program()
def while_return(x: Any) -> Any:
    while True:
        x = x + 1
        if x.sum() > 30:
            return x
        if x.sum() > 20:
            continue
        x = x * 1.5


@program()
def while_else(x: Any) -> Any:
    while x.sum() < 20:
        x = x + 3
        if x[0] == 7:
            break
    else:
        x = x * 2
    return x


@program()
def nested_while(x: Any) -> Any:
    total = x.sum() * 0
    i = nc.asarray(0)
    while i < 3:
        j = nc.asarray(0)
        while j < i:
            total = total + x[0] * (i + j).astype(nc.float32)
            j = j + 1
        i = i + 1
    return total


@program()
def while_two_conditions(x: Any) -> Any:
    k = 0
    while x.sum() > 1 and k < 2:
        x, k = x / 2, k + 1
    return x, k


@program()
def while_walrus(x: Any) -> Any:
    while (total := x.sum()) > 1:
        x = x / (total + 1)
    return x


@program()
def while_assigns_elements(x: Any) -> Any:
    y = x * 0
    k = 0
    while x.sum() > 1:
        x = x / 2
        y[k % 2] = y[k % 2] + 1
        k = k + 1
    return y


@program()
def break_and_return(x: Any) -> Any:
    k = nc.asarray(0)
    while k < 10:
        if x[0] > 20:
            return x * 1000
        if x[1] > 12:
            break
        x = x * 1.5 + 1
        k = k + 1
    return x + k.astype(nc.float32)


@program()
def whole_division(x: Any) -> Any:
    n = 37
    while x.sum() > 0:
        x = x - n % 5 - 1
        n = n // 2 - 3
    return x, n


# ---- for


@program()
def for_break(x: Any) -> Any:
    for _ in range(10):
        x = x * 2
        if x.sum() > 20:
            break
    return x


@program()
def for_break_late_in_a_short_range(x: Any) -> Any:
    for k in range(3):
        x = x + k
        if x.sum() > 4:
            break
    return x


@program()
def for_continue(x: Any) -> Any:
    for k in range(5):
        if x[0] > 4:
            continue
        x = x + k
    return x


@program()
def for_return(x: Any) -> Any:
    for k in range(8):
        x = x * 1.5 + k
        if x.sum() > 20:
            return x, k
    return x - 1, 100


@program()
def for_else(x: Any) -> Any:
    for k in range(6):
        x = x + k
        if x.sum() > 17:
            break
    else:
        x = x * 10
    return x


@program()
def for_range_traced(x: Any) -> Any:
    t = 0.5
    for i in range(x.sum().astype(nc.int64)):
        t = t * 1.5 + i
    return x * t


@program()
def for_range_with_steps(x: Any) -> Any:
    n = x.sum().astype(nc.int32)
    total = 0
    for i in range(n, 0, -2):
        total = total + i
    for i in range(1, n, 3):
        total = total + i * i
    return total


@program()
def for_range_traced_break(x: Any) -> Any:
    n = x.sum().astype(nc.int64)
    for i in range(n):
        x = x + i
        if x[0] > 8:
            break
    return x


@program()
def for_indexes_a_tensor(x: Any) -> Any:
    total = x.sum() * 0
    n = nc.asarray(2) if x.shape else None
    for i in range(n + (x[0] > 100).astype(nc.int64)):
        total = total + x[i] * (i + 1)
    return total


@program()
def for_over_a_list(x: Any) -> Any:
    for step in [1.0, 2.0, 3.0, 4.0]:
        x = x + step
        if x.sum() > 9:
            break
    return x


@program()
def for_over_rows(x: Any) -> Any:
    total = x.sum() * 0
    for row in nc.stack([x, x * 2, x * 3]):
        if row.sum() > 3:
            total = total + row[0]
        else:
            total = total - row[1]
    return total


@program()
def for_over_zip(x: Any) -> Any:
    total = 0
    for k, (a, b) in enumerate(zip(x, x * 2)):
        if a > 0:
            total = total + a * b * k
    return total


@program()
def nested_for(x: Any) -> Any:
    for i in range(3):
        for j in range(4):
            x = x + i * j
            if x[0] > 5:
                break
        if x[1] > 12:
            break
    return x


@program()
def for_in_while(x: Any) -> Any:
    while x.sum() < 15:
        for k in range(3):
            x = x + k
            if x[0] > 6:
                break
        x = x + 1
    return x


@program()
def return_from_nested_loops(x: Any) -> Any:
    for i in range(4):
        for j in range(5):
            x = x + 1
            if x.sum() > 14:
                return x * (i + 1), j
    return x, -1


# ---- appends


@program()
def append_in_a_python_loop(x: Any) -> Any:
    rows = []
    for k in range(4):
        rows.append(x * k if x.sum() > 2 else x + k)
    return nc.stack(rows)


@program()
def append_in_a_loop_with_a_continue(x: Any) -> Any:
    rows = []
    for k in range(5):
        rows.append(x + k)
        if x.sum() > 2:
            x = x * 2
    return nc.stack(rows)


@program()
def list_made_in_a_branch(x: Any) -> Any:
    if x.sum() > 0:
        rows = [x]
        rows.append(x * 2)
    else:
        rows = [-x, x]
    return rows[0] + rows[1] * 2


# ---- assert


@program(([1.0, 2.0],), ([6.0, 7.5],))
def assertion(x: Any) -> Any:
    assert x.sum() > 0, "the sum must be positive"
    assert x.shape == (2,)
    return x * 2


# ---- functions


def absolute(x: Any) -> Any:
    if x.sum() > 0:
        return x
    return -x


def halved_until(x: Any, limit: Any) -> Any:
    while x.max() > limit:
        x = x / 2
    return x


@program()
def calls_a_function(x: Any) -> Any:
    return absolute(x) + 1


@program()
def calls_functions_in_branches(x: Any) -> Any:
    if x[0] > 0:
        y = halved_until(x, 1.5)
    else:
        y = absolute(x)
    return y


def power(x: Any, n: int) -> Any:
    if n == 0:
        return nc.ones_like(x)
    if x.sum() > 0:
        return power(x, n - 1) * x
    return power(x, n - 1) * 2


@program()
def recursion_bounded_by_a_number(x: Any) -> Any:
    return power(x, 3)


@program()
def inner_function(x: Any) -> Any:
    def scaled(y: Any) -> Any:
        if y.sum() > 0:
            return y * factor
        return y

    factor = 3.0
    return scaled(x) + scaled(-x)


def doubled(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def wrapped(*args: Any) -> Any:
        y = f(*args)
        return y * 2 if y.sum() > 3 else y

    return wrapped


@program()
@doubled
def decorated(x: Any) -> Any:
    if x[0] > 0:
        return x + 1
    return x - 1


def closure(scale: float) -> Callable[..., Any]:
    def scaled(x: Any) -> Any:
        if x.sum() > 0:
            return x * scale
        return x / scale

    return scaled


@program()
def calls_a_closure(x: Any) -> Any:
    return closure(3.0)(x) + closure(0.5)(x)


@program()
def lambdas(x: Any) -> Any:
    choose = lambda a, b: a if a.sum() > b.sum() else b  # noqa: E731
    return choose(x, x * x)


@program()
def function_argument(x: Any) -> Any:
    def apply(f: Callable[..., Any], y: Any) -> Any:
        return f(y) if y[1] > 1 else f(-y)

    return apply(lambda y: y * 2 if y[0] > 0 else y, x)


class Steps(nn.Module):
    """A module with control flow."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(nc.tensor([2.0, 0.5]))
        self.most = 3

    def forward(self, x: Any) -> Any:
        for _ in range(self.most):
            if x.sum() > 4:
                x = x * self.scale
            else:
                x = self.raised(x)
        return x

    def raised(self, x: Any) -> Any:
        """The vector with a larger sum."""
        while x.sum() < 2:
            x = x + self.scale
        return x


class Scaled(Steps):
    """A module that calls its base class."""

    def forward(self, x: Any) -> Any:
        if x[0] > 0:
            y = super().forward(x * 2)
        else:
            y = super().forward(x)
        return y + 1


STEPS, SCALED = Steps(), Scaled()


@program()
def module(x: Any) -> Any:
    return STEPS(x)


@program()
def method_of_a_subclass(x: Any) -> Any:
    return SCALED(x)


class Line:
    """An object with methods and a property."""

    def __init__(self, slope: float) -> None:
        self.slope = slope

    def __call__(self, x: Any) -> Any:
        return x * self.slope if x.sum() > self.limit else x

    @property
    def limit(self) -> float:
        """Where it begins."""
        return self.slope / 2

    @staticmethod
    def clipped(x: Any) -> Any:
        """No element above 5."""
        return x if x.max() < 5 else x * 0 + 5

    @classmethod
    def made(cls, x: Any) -> Any:
        """A line by a tensor."""
        line = cls(2.0)
        return line(x) if x[0] > 0 else cls(3.0)(x)


@program()
def methods(x: Any) -> Any:
    return Line(1.5)(x), Line.clipped(x), Line.made(x)


@program()
def comprehension(x: Any) -> Any:
    rows = [x * k if x.sum() > k else x - k for k in range(4)]
    return sum(rows), {k: (r if r[0] > 0 else -r) for k, r in enumerate(rows)}[2]


@program()
def loop_over_functions(x: Any) -> Any:
    for f in (nc.sin, nc.cos, absolute):
        x = f(x) if x.sum() > 0 else f(x + 1)
    return x


# ---- around


@program()
def with_block(x: Any) -> Any:
    with nc.no_grad():
        if x.sum() > 0:
            x = x * 2
        else:
            return x - 7
    return x


@program()
def try_around(x: Any) -> Any:
    try:
        if x.sum() > 0:
            x = x + 1
        y = {"a": x}["b"]
    except KeyError:
        y = x * 3
    finally:
        x = x + 100
    return x + y


@program()
def match_statement(x: Any) -> Any:
    match x.shape:
        case (2,):
            if x.sum() > 0:
                return x * 2
            y = x
        case _:
            y = x * 0
    return y - 1


@program()
def gradient_inside(x: Any) -> Any:
    def loss(y: Any) -> Any:
        if y.sum() > 0:
            return (y * y).sum()
        return (y * 3).sum()

    return nc.grad(loss)(x)


@program(([[1.0, 2.0], [-3.0, 1.0], [0.0, 0.0]],))
def batched_inside(xs: Any) -> Any:
    def each(x: Any) -> Any:
        while x.sum() > 1:
            x = x / 2
        return x if x[0] > 0.2 else x - 1

    return nc.vmap(each)(xs) if isinstance(xs, nc.Tensor) and TRACED[0] else nc.stack([each(x) for x in xs])


TRACED = [False]


@program()
def collatz(x: Any) -> Any:
    n = (x.sum() * 4).astype(nc.int64) + 27
    steps = 0
    while n > 1 and steps < 200:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@program()
def newton(x: Any) -> Any:
    target = nc.abs(x).sum() + 2
    root = target
    for _ in range(20):
        better = (root + target / root) / 2
        if nc.abs(better - root) < 1e-6 * target:
            break
        root = better
    return root


@program()
def bisection(x: Any) -> Any:
    low, high = 0.0, 10.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        if middle * middle < nc.abs(x).sum() + 1:
            low = middle
        else:
            high = middle
    return low
