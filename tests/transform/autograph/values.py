"""Programs with values of every kind, names that come and go, patterns, and small algorithms."""

from __future__ import annotations

import copy
import dataclasses
import enum
import itertools
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

import nacre as nc
from transform.autograph.numeric import PAIRS, VECTORS, WHOLE_VECTORS, numeric  # noqa: F401

LIMIT = LIM = 3
CALLS: list[int] = []


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Box:
    a: Any
    b: Any


def told(x: Any) -> Any:
    CALLS.append(1)
    return x


def stacked(rows: Any) -> Any:
    return nc.stack(rows) if isinstance(rows[0], nc.Tensor) else np.stack(rows)


@numeric()
def while_tuple(n: Any) -> Any:
    pair = (0, 1)
    while pair[0] < n:
        pair = (pair[0] + 1, pair[1] * 2)
    return pair


@numeric()
def while_nested(n: Any) -> Any:
    s = {"a": [0, 1], "b": (2, {"c": 3})}
    while s["a"][0] < n:
        s = {"a": [s["a"][0] + 1, s["a"][1] * 2], "b": (s["b"][0] - 1, {"c": s["b"][1]["c"] + 2})}
    return s["a"], s["b"]


@numeric()
def while_none_stays(n: Any) -> Any:
    nothing = None
    k = 0
    while k < n:
        k += 1
        if nothing is None:
            nothing = None
    return k, nothing


@numeric()
def while_namedtuple(n: Any) -> Any:
    p = Point(0, 1)
    while p.x < n:
        p = Point(p.x + 1, p.y + p.x)
    return p.x, p.y


@numeric()
def while_dataclass(n: Any) -> Any:
    b = Box(0, 1)
    while b.a < n:
        b = Box(b.a + 1, b.b * 2)
    return b.a, b.b


@numeric()
def while_dataclass_replace(n: Any) -> Any:
    b = Box(0, 1)
    while b.a < n:
        b = dataclasses.replace(b, a=b.a + 1)
    return b.a, b.b


@numeric(*WHOLE_VECTORS)
def for_rows_none(v: Any) -> Any:
    s = 0
    for x in v:
        s = s + x
    return s


@numeric((5, 2), (0, 1), (7, -1), (3, 3), (10, 4))
def negative_step_bounds(a: Any, b: Any) -> Any:
    s = 0
    for i in range(a, b, -1):
        s = s * 10 + i
    for i in range(a, b, -3):
        s = s * 10 + i
    for i in range(b, a, 2):
        s = s + i
    return s


@numeric((3, 1), (10, 3), (0, 2), (7, 7))
def step_from_loop(n: Any, m: Any) -> Any:
    step = 1
    if m > 2:
        step = 2
    s = 0
    for i in range(0, 12, 2):
        if i > n:
            s = s + i * step
    return s


@numeric()
def zero_rounds_range(n: Any) -> Any:
    s = 5
    for i in range(n, n):
        s = s + i
    for i in range(n + 1, n):
        s = s + i
    for i in range(n, n + 1, -1):
        s = s + i
    return s


@numeric()
def loop_var_after_known(n: Any) -> Any:
    for i in range(4):
        if i > n:
            break
    return i


@numeric()
def star_loop(n: Any) -> Any:
    s = 0
    for a, *b in [(1, 2, 3), (4, 5, 6)]:
        if n > a:
            s = s + b[0] * b[1]
    return s


@numeric()
def star_assign(n: Any) -> Any:
    a, *b, c = n, n + 1, n + 2, n + 3
    if n > 2:
        (a, *b), c = (c, *b), a
    return a, b, c


@numeric()
def walrus_statement(n: Any) -> Any:
    s = 0
    while (m := n - 1) > 2:
        s += m
        n = m
    return s, n


@numeric()
def walrus_in_comparison(n: Any) -> Any:
    if 0 < (m := n * 2):  # noqa: SIM300
        return m
    return m - 1


@numeric()
def walrus_in_arg(n: Any) -> Any:
    k = 0
    if max(3, (m := n)) > 4:
        k = m
    return k, m


@numeric()
def match_literal(n: Any) -> Any:
    mode = "b"
    match mode:
        case "a":
            return n
        case "b" | "c":
            if n > 2:
                return n * 2
        case _:
            return n * 3
    return n * 5


@numeric()
def match_sequence(n: Any) -> Any:
    match (n, n + 1, n + 2):
        case (a, *rest):
            if a > 2:
                a = rest[0]
            return a, rest
    return n


@numeric()
def match_class(n: Any) -> Any:
    match Point(n, n + 1):
        case Point(x=a, y=b):
            return a if a > 2 else b


@numeric()
def match_mapping(n: Any) -> Any:
    match {"kind": "sum", "v": n}:
        case {"kind": "sum", "v": v, **rest}:
            if v > 2:
                return v + len(rest)
            return v - 1
        case _:
            return n


@numeric()
def match_guard_python(n: Any) -> Any:
    match 3:
        case k if k > 2:
            return n if n > 1 else k
        case _:
            return n


@numeric()
def match_in_loop_break(n: Any) -> Any:
    k = 0
    while k < 10:
        k += 1
        match "x":
            case "x":
                if k > n:
                    break
    return k


@numeric()
def compr_python_condition(n: Any) -> Any:
    return sum([k * n for k in range(6) if k % 2]), {k: n for k in (1, 2) if k > 1}[2]


@numeric()
def compr_nested(n: Any) -> Any:
    return [[a if a > b else b for a in (n, 2)] for b in (1, n + 1)]


@numeric()
def chained_once(n: Any) -> Any:
    CALLS.clear()
    r = 0 < told(n) < 5
    return r, len(CALLS)


@numeric()
def chained_in_list(n: Any) -> Any:
    k = 3
    return (n, 1 < k in (3, 4), 1 < k not in (3,), k is k is not None)


@numeric()
def is_and_in(n: Any) -> Any:
    a = None
    b = n
    x = 1 if a is None else 2
    y = 3 if b is not None else 4
    z = 5 if "a" in {"a": n} else 6
    w = 7 if "b" not in "abc" else 8
    return x, y, z, w, n if n > 1 else x


@numeric()
def nested_ternary(n: Any) -> Any:
    return (1 if n > 1 else 2) if (n < 3 if n > 0 else n > -1) else (3 if n > 4 else 4)


@numeric()
def deleted_name(n: Any) -> Any:
    a = n + 1
    b = a * 2
    del a
    if n > 2:
        b = b + 1
    return b


@numeric()
def deleted_in_loop(n: Any) -> Any:
    k = 0
    while k < n:
        t = k + 1
        k = t
        del t
    return k


@numeric()
def deleted_item_python(n: Any) -> Any:
    d = {"a": n, "b": n + 1}
    del d["a"]
    if n > 2:
        return d["b"]
    return len(d)


@numeric()
def aug_attr_item(n: Any) -> Any:
    b = Box(n, [n, 1])
    b.a += 1
    b.b[0] *= 2
    b.b[-1] -= 5
    if n > 2:
        return b.a
    return b.b[0] + b.b[1]


@numeric(*VECTORS)
def aug_all(v: Any) -> Any:
    a = v[0]
    a += 1
    a -= 2
    a *= 3
    a /= 4
    if a > 0:
        a //= 1
        a %= 3
    return a


@numeric()
def aug_bits(n: Any) -> Any:
    a = n
    if n > 2:
        a <<= 2
        a |= 1
        a ^= 5
        a &= 29
        a >>= 1
        a **= 2
    return a


@numeric()
def del_and_set_again(n: Any) -> Any:
    a = n
    del a
    a = 3
    if n > 1:
        a = a + n
    return a


@numeric()
def global_read(n: Any) -> Any:
    if n > LIMIT:
        return n * LIMIT
    return LIMIT


@numeric()
def nonlocal_read(n: Any) -> Any:
    k = 4

    def f():
        def g():
            return k if n > k else n

        return g()

    return f()


@numeric()
def nonlocal_written_python(n: Any) -> Any:
    k = 0

    def add():
        nonlocal k
        k = k + 1

    add()
    m = n if n > k else k
    add()
    return m, k


@numeric(*WHOLE_VECTORS[1:])
def slices(v: Any) -> Any:
    a = v[0]
    b = v[-1]
    c = v[:2]
    if a > 2:
        c = v[-2:] if False else c + 1
    return a, b, c, v[::-1], v[None], v[..., 0]


@numeric(*WHOLE_VECTORS[1:])
def index_by_loop(v: Any) -> Any:
    s = 0
    i = 0
    while i < v.shape[0]:
        if v[i] > 2:
            s += v[i] * i
        i += 1
    return s


@numeric()
def python_list_ops(n: Any) -> Any:
    l = [1, 2]
    l += [3]
    l[0] = 5
    l.insert(0, 9)
    l.sort()
    return l[0] + n if n > 2 else l[-1]


@numeric()
def dict_methods(n: Any) -> Any:
    d = dict(a=n)
    d |= {"b": 2}
    d.update(c=3)
    return d["a"] if d["a"] > 2 else d["b"] + d.get("z", 4)


@numeric()
def star_in_call_and_list(n: Any) -> Any:
    a = [n, n + 1]
    b = [*a, *[1, 2]]

    def f(*x, **k):
        return x[0] if x[0] > x[-1] else k["q"]

    return f(*a, *b, **{"q": n}), (*b,)[-1]


@numeric()
def string_format_python(n: Any) -> Any:
    text = f"{3:>4}|{'a'!r}"
    m = n if n > 1 else 2
    return m * len(text)


@numeric()
def ellipsis_and_docstring(n: Any) -> Any:
    """Doc."""
    ...
    if n > 1:
        ...
    else:
        pass
    return n


@numeric()
def import_inside(n: Any) -> Any:
    from math import floor as f  # noqa: I001, PLC0415
    import os.path  # noqa: PLC0415

    return f(2.5) + n if n > 2 else len(os.path.sep)


@numeric()
def for_over_tuple_traced(n: Any) -> Any:
    s = 0
    for m in (n, n + 1, n * 2):
        if m > 3:
            break
        s += m
    return s


@numeric()
def for_over_dict_items(n: Any) -> Any:
    s = 0
    for k, v in {"a": n, "b": 3}.items():
        if v > 2:
            s += v * len(k)
    return s


@numeric()
def for_over_string(n: Any) -> Any:
    s = 0
    for c in "abc":
        if n > 2:
            s += ord(c)
    return s


@numeric()
def for_over_itertools(n: Any) -> Any:
    s = 0
    for a, b in itertools.product((1, 2), (3, 4)):
        if n > a:
            s += b
            continue
        s -= 1
    for k in itertools.count():
        if k > 3:
            break
        s += k
    return s


@numeric()
def for_over_generator_function(n: Any) -> Any:
    def gen(m):
        for k in range(m):
            yield k * 2

    s = 0
    for k in gen(3):
        if n > k:
            s += k
    return s


@numeric()
def for_over_generator_traced(n: Any) -> Any:
    s = 0
    for k in (j * n for j in range(3)):
        if k > 3:
            s += k
    return s


@numeric()
def enum_constant(n: Any) -> Any:
    class Mode(enum.Enum):
        A = 1
        B = 2

    mode = Mode.A
    if mode is Mode.A:
        mode = Mode.B
    r = n if n > 2 else 3
    return r * mode.value


@numeric()
def enum_chosen_equal(n: Any) -> Any:
    class Mode(enum.Enum):
        A = 1

    m = Mode.A
    if n > 2:
        m = Mode.A
    return n * m.value


@numeric()
def strings_same_in_both(n: Any) -> Any:
    name = "a"
    if n > 2:
        name = "a"
    return {"a": n}[name]


@numeric()
def bool_carried(n: Any) -> Any:
    found = False
    k = 0
    while k < n and not found:
        k += 1
        found = k * k > 6
    return found, k


@numeric()
def int_then_tensor(n: Any) -> Any:
    s = 0
    for k in range(4):  # noqa: B007
        s = s + n
        if s > 6:
            s = 1
    return s


@numeric()
def multiple_targets(n: Any) -> Any:
    a = b = c = n
    if n > 2:
        a = b = c + 1
    [d, e] = a, b
    return a, b, c, d, e


@numeric()
def annotated_assign(n: Any) -> Any:
    a: int = 3
    b: "no such name"  # noqa: F722, F842
    if n > 2:
        a: int = 4
    return a


@numeric()
def global_statement_read(n: Any) -> Any:
    global LIM
    if n > LIM:
        return n
    return LIM


@numeric()
def complex_condition(n: Any) -> Any:
    if (n > 1 and n < 4) or (not n > 0 and n == 0) or n == 11:
        return 1
    return 0


@numeric()
def or_defaults(n: Any) -> Any:
    name = None
    k = name or 3
    return n if n > k else k


@numeric()
def and_none(n: Any) -> Any:
    x = None
    y = x and x.foo
    return n if y is None and n > 2 else 1


@numeric()
def compare_mixed(n: Any) -> Any:
    return n > 2 > 1, 1 < 2 < n, 1 == 1 != n, (n == n) == (1 == 1)


@numeric()
def mixed_compare_three(n: Any) -> Any:
    return 0 <= n < 4 <= 5, n < n + 1 < n + 2, 3 > n >= 1 == 1


@numeric()
def subscript_chain(n: Any) -> Any:
    d = {"a": [{"b": n}]}
    return d["a"][0]["b"] if d["a"][0]["b"] > 2 else len(d)


@numeric()
def slices_python(n: Any) -> Any:
    l = [1, 2, 3, 4]
    a, b = l[1:3], l[::-1]
    return a[0] + n if n > 2 else b[0]


@numeric()
def matmul_and_pow(n: Any) -> Any:
    a = n**2 if n > 2 else n**3
    return a, divmod(n, 3), n // 2, -n, +n


@numeric()
def floats_in_loop(n: Any) -> Any:
    t = 1.0
    k = 0
    while k < n:
        t = t / 2 + k * 0.25
        k += 1
    return t


@numeric()
def float_steps(n: Any) -> Any:
    t = 0.0
    while t < n:
        t += 0.5
    return t


@numeric()
def shadowed_names(n: Any) -> Any:
    autograph = 3
    returned = 4
    result = 5
    then_3 = 6
    if n > autograph:
        return returned + n
    return result + then_3


@numeric()
def names_like_generated(n: Any) -> Any:
    item_7 = 2
    s = 0
    for k in range(n):
        s += item_7 * k
    broken_9 = s
    while s > 3:
        s -= broken_9 + 1
        if s < 1:
            break
    return s


@numeric()
def unicode_names(n: Any) -> Any:
    größe = n + 1
    if größe > 2:
        größe = größe * 2
    return größe


@numeric()
def statements_over_lines(n: Any) -> Any:
    a = n + 1
    b = n if n > 2 else a
    if n > 1 and n < 5:
        a = b
        c = 3
    else:
        c = 4
    return a, b, c


@numeric()
def elif_with_loops(n: Any) -> Any:
    if n == 0:
        return 7
    elif n < 3:
        for k in range(n):
            n = n + k
    elif n > 10:
        while n > 4:
            n = n - 3
    else:
        n = -n
    return n


@numeric()
def triple_nested(n: Any) -> Any:
    s = 0
    for i in range(3):
        j = 0
        while j < n:
            j += 1
            if j == i:
                continue
            for k in range(2):
                if k + j > 3:
                    break
                s += i * 100 + j * 10 + k
            else:
                s += 1
    return s


@numeric()
def while_in_branch_in_while(n: Any) -> Any:
    s = 0
    while n > 0:
        if n % 2 == 0:
            m = n
            while m > 0:
                m -= 2
                s += 1
        else:
            s += 10
        n -= 1
    return s, n


@numeric()
def variable_only_in_loop_then_defined(n: Any) -> Any:
    k = 0
    while k < n:
        t = k * 2
        k = k + 1
    t = 5
    return k + t


@numeric()
def loop_local_conditionally(n: Any) -> Any:
    k = 0
    s = 0
    while k < n:
        if k > 2:
            t = k
        else:
            t = -k
        s += t
        k += 1
    return s


@numeric()
def swap_in_loop(n: Any) -> Any:
    a, b = 1, 2
    while n > 0:
        a, b = b, a + b
        n -= 1
    return a, b


@numeric()
def tuple_reassigned_as_parts(n: Any) -> Any:
    p = (n, 2)
    if p[0] > p[1]:
        p = p[::-1]
    x, y = p
    return x * 10 + y


@numeric()
def set_and_frozenset_python(n: Any) -> Any:
    s = {1, 2}
    if n > 2:
        r = len(s)
    else:
        r = 0 if 3 in s else 5
    return r


@numeric()
def counters_python_in_loop(n: Any) -> Any:
    c = Counter()
    for k in range(3):
        c[k % 2] += 1
    return n * c[0] if n > 2 else c[1]


@numeric()
def copy_deepcopy(n: Any) -> Any:
    d = copy.deepcopy({"a": [1, 2]})
    d["a"].append(3)
    return n * len(d["a"]) if n > 2 else 1


@numeric(*VECTORS)
def slice_assign_rows(v: Any) -> Any:
    m = stacked([v, v * 2, v * 3]) * 1
    for k in range(3):
        if m[k][0] > 2:
            m[k] = v
        m[k, 1] += 1
    return m


@numeric(*VECTORS)
def tensors_in_dict_loop(v: Any) -> Any:
    d = {"m": v, "k": 0}
    while d["m"][0] > 1:
        d = {**d, "m": d["m"] / 2, "k": d["k"] + 1}
    return d["m"], d["k"]


@numeric(*VECTORS)
def ext_slices(v: Any) -> Any:
    m = v[:, None] - v[None, :]
    if m[0, 1] > 0:
        m = m[:, ::-1]
    return m[0, :], m[:, 0], m[..., -1:]


@numeric(*VECTORS)
def shape_conditions(v: Any) -> Any:
    if v.ndim == 1 and v.shape[0] == 2 and v[0] > 0:
        return v * v.shape[0]
    return v


@numeric(*VECTORS)
def float32_stays(v: Any) -> Any:
    t = v[0]
    for k in range(3):
        t = t * 1.1 + k
        if t > 3:
            t = t - 0.3
    return t


@numeric()
def true_division_number(n: Any) -> Any:
    k = 1
    s = 0.0
    while k < n:
        s = s + 1 / k
        k = k + 1
    return s


@numeric()
def bit_count_loop(n: Any) -> Any:
    c = 0
    while n > 0:
        c += n & 1
        n >>= 1
    return c


@numeric()
def digits(n: Any) -> Any:
    n = n * 7919 + 13
    rev = 0
    while n > 0:
        rev, n = rev * 10 + n % 10, n // 10
    return rev


@numeric()
def binary_search(n: Any) -> Any:
    lo, hi = 0, 100
    while lo < hi:
        mid = (lo + hi) // 2
        if mid * mid < n * 9:
            lo = mid + 1
        else:
            hi = mid
    return lo


@numeric()
def prime_factors(n: Any) -> Any:
    n = n + 60
    p = 2
    s = 0
    while p * p <= n:
        while n % p == 0:
            n //= p
            s += p
        p += 1
    if n > 1:
        s += n
    return s


@numeric()
def pascal(n: Any) -> Any:
    c = 1
    for k in range(n):
        c = c * (n - k) // (k + 1)
        if k > 3:
            break
    return c


@numeric()
def josephus(n: Any) -> Any:
    r = 0
    for k in range(2, n + 2):
        r = (r + 3) % k
    return r


@numeric()
def large_loop(n: Any) -> Any:
    s = 0
    k = 0
    while k < n * 1000:
        if k % 3 == 0 or k % 5 == 0:
            s += k
        k += 1
    return s


@numeric()
def dead_in_branches(n: Any) -> Any:
    if n > 2:
        t = n * 2
        r = t
    else:
        t = "text"
        r = n + len(t)
    return r


@numeric()
def dead_then_assigned(n: Any) -> Any:
    t = None
    if n > 2:
        t = n * 2
        r = t
    else:
        r = n
    t = 3
    return r + t


@numeric()
def dead_in_loop(n: Any) -> Any:
    t = "text"
    s = len(t)
    while n > 0:
        t = n * 2
        s += t
        n -= 1
    return s


@numeric()
def dead_in_for_break(n: Any) -> Any:
    t = None
    s = 0
    for k in range(9):
        t = (k, n)
        if k > n:
            break
        s += t[0]
    return s


@numeric()
def dead_structures_nested(n: Any) -> Any:
    s = 0
    for k in range(4):
        if n > k:
            part = [k, n]
            s += part[0]
        else:
            part = {"a": k}
            s -= part["a"]
        part = s
    return s, part


@numeric()
def deleted_each_time(n: Any) -> Any:
    t = 5
    k = 0
    while k < n:
        t = k + 1
        k = t
        del t
    return k


@numeric()
def none_dead(n: Any) -> Any:
    a = 1
    if n > 2:
        a = None  # noqa: F841
    return n


@numeric()
def bool_of_compare(n: Any) -> Any:
    a = n > 2
    b = n < 5
    return a and b, a or b, not a, a & b, a == b, a != b


@numeric()
def assert_with_else(n: Any) -> Any:
    assert n >= 0
    assert n >= 0, "message"
    assert True
    return n
