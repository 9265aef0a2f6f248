"""Programs with whole numbers, as the tests of other systems have them: loops, exits, returns, small algorithms."""

from __future__ import annotations

import contextlib
from typing import Any

import nacre as nc
from transform.autograph.programs import program

NUMBERS = [(nc.tensor(k),) for k in (0, 1, 2, 3, 5, 11)]


@program(*NUMBERS)
def while_break_append(n: Any) -> Any:
    v = []
    for _ in range(12):
        if not n > 0:
            break
        n = n - 1
        if n % 2 == 0:
            break
        v.append(n)
    return nc.stack([n * 0, *v], size=13) if v is None else (n,)


@program(*NUMBERS)
def nested_break_lists(n: Any) -> Any:
    v = []
    u = []
    w = []
    z = n * 0
    v.append(z)
    u.append(z)
    w.append(z)
    while n > 0:
        nc.set_loop_options(max_iterations=12)
        n = n - 1
        if n % 2 == 0:
            if n % 3 != 0:
                u.append(n)
            else:
                w.append(n)
                break
        v.append(n)
    return (nc.stack(v, size=13), nc.stack(u, size=13), nc.stack(w, size=13))


@program(*NUMBERS)
def nested_loops_break(n: Any) -> Any:
    v = [n]
    u = [n]
    while n > 0:
        nc.set_loop_options(max_iterations=12)
        n = n - 1
        y = n
        while y > 0:
            nc.set_loop_options(max_iterations=12)
            y = y - 1
            if y % 2 == 0:
                break
            u.append(y)
        if n == 0:
            break
        v.append(n)
    return (nc.stack(v, size=14), nc.stack(u, size=200))


@program(*NUMBERS)
def loop_orelse(n: Any) -> Any:
    v = [n]
    u = [n]
    while n > 0:
        nc.set_loop_options(max_iterations=12)
        n = n - 1
        y = n
        while y > 1:
            break
        else:
            u.append(y)
            break
        v.append(n)
    return (nc.stack(v, size=14), nc.stack(u, size=14))


@program(*NUMBERS)
def continue_with(n: Any) -> Any:
    v = [n]
    while n > 0:
        nc.set_loop_options(max_iterations=12)
        n = n - 1
        with contextlib.nullcontext():
            if n % 2 == 0:
                continue
            with contextlib.nullcontext():
                v.append(n)
        v.append(n)
        with contextlib.nullcontext():
            v.append(n + 1)
        v.append(n + 2)
    return (nc.stack(v, size=60), len(v))


@program(*NUMBERS)
def multiple_continues(n: Any) -> Any:
    v = [n]
    while n > 0:
        nc.set_loop_options(max_iterations=12)
        n = n - 1
        if n > 1:
            continue
        if n > 2:
            continue
        v.append(n)
    return nc.stack(v, size=20)


@program(*NUMBERS)
def superfluous(n: Any) -> Any:
    if n > 0:
        return n
        n = n * 100
        return n
    return n - 1
    return n + 5


@program(*NUMBERS)
def else_only(n: Any) -> Any:
    if n < 2:
        n = n * n
    else:
        return n
    return n + 7


@program(*NUMBERS)
def cond_nested(n: Any) -> Any:
    if n > 0:
        if n < 5:
            return n
        else:
            return n * n
    else:
        return n * n * n


@program(*NUMBERS)
def ctx_in_cond(n: Any) -> Any:
    if n > 0:
        with contextlib.nullcontext():
            return n * n
    else:
        return n


@program(*NUMBERS)
def nested_fn_in_branch(n: Any) -> Any:
    y = n
    if n > 0:

        def inner(a):
            return a * 2 if a > 1 else a

        y = inner(n)
    return y


@program(*NUMBERS)
def return_in_for_traced(n: Any) -> Any:
    for k in range(n):  # noqa: B007
        return n * 2
    return n * 3


@program(*NUMBERS)
def return_from_while(n: Any) -> Any:
    i = 0
    s = 0
    while i < n:
        i += 1
        s += i
        if s > 4:
            return s
    return -1


@program(*NUMBERS)
def nested_reset(n: Any) -> Any:
    i = 0
    j = 0
    s = 0
    while i < n:
        while j < i:
            j += 3
        u = i + j
        s += u
        i += 1
        j = 0
    return (s, i, j, n)


@program(*NUMBERS)
def local_only_if(n: Any) -> Any:
    if n > 0:
        b = 4
        n = n * 0 + b + 1
    return n


@program(*NUMBERS)
def created_in_loop(n: Any) -> Any:
    x = 10
    for i in range(n):
        if i == 0:
            r = i - 1
        else:
            r = i + 1
        if r > 0:
            x += 1
    return x


@program(*NUMBERS)
def created_by_earlier(n: Any) -> Any:
    x = 10
    r = 0
    for i in range(n):
        if i == 0:
            r = i - 1
        if i > 0:  # noqa: SIM102
            if r < 0:
                x += 1
    return x


@program(*NUMBERS)
def if_two_vars(n: Any) -> Any:
    a = 0
    b = 0
    if n > 2:
        a = -n
    else:
        b = 2 * n
    return (a, b)


@program(*NUMBERS)
def elif_no_else(n: Any) -> Any:
    a = n
    if n == 0:
        a = n + 10
    elif n == 1:
        a = n + 20
    elif n == 2:
        a = n + 30
    return a


@program(*NUMBERS)
def for_shadow_loopvar(n: Any) -> Any:
    for i in range(3):
        i = i + n
    return i


@program(*NUMBERS)
def loopvar_in_body_reassigned(n: Any) -> Any:
    s = 0
    for i in range(n):
        i = i * 2
        s += i
    return s


@program(*NUMBERS)
def tuple_loopvar(n: Any) -> Any:
    s = n * 0
    for a, (b, c) in [(1, (2, 3)), (4, (5, 6))]:
        if n > a:
            s = s + b * c
    return s


@program(*NUMBERS)
def starred_loopvar(n: Any) -> Any:
    s = n * 0
    for a, *b in [(1, 2, 3), (4, 5, 6)]:
        if n > a:
            s = s + sum(b)
    return s


@program(*NUMBERS)
def subscript_loopvar(n: Any) -> Any:
    d = {}
    for d["k"] in [1, 2, 3]:
        if n > d["k"]:
            n = n - 1
    return n + d["k"]


@program(*NUMBERS)
def attr_in_loop_local(n: Any) -> Any:

    class T:
        pass

    while n > 0:
        t = T()
        t.x = n
        n = n - t.x
    return n


@program(*NUMBERS)
def local_dict_in_loop(n: Any) -> Any:
    while n > 0:
        d = {"x": n}
        k = "x"
        d[k] = d[k] - 1
        n = d[k]
    return n


@program(*NUMBERS)
def dict_state(n: Any) -> Any:
    d = {"a": n}
    while n > 0:
        d = {"a": d["a"] + 1}
        n = n - 1
    return (d["a"], n)


@program(*NUMBERS)
def namedtuple_state(n: Any) -> Any:
    T = __import__("collections").namedtuple("T", "x y")
    t = T(n, n * 2)
    while n > 0:
        t = t._replace(x=t.x + 1)
        n = n - 1
    return (t.x, t.y)


@program(*NUMBERS)
def correlated(n: Any) -> Any:
    l = [n]
    while True:
        nc.set_loop_options(max_iterations=12)
        if n > 2:
            l.append(n)
        else:
            break
        n = n - 1
    return nc.stack(l, size=20)


@program(*NUMBERS)
def and_shortcut(n: Any) -> Any:
    k = nc.tensor([1, 2, 3])
    if n < 3 and k[n] > 1:
        return n
    return n + 100


@program(*NUMBERS)
def or_chain(n: Any) -> Any:
    return 1 if n == 1 or n == 3 or n == 11 else 0


@program(*NUMBERS)
def not_and_or(n: Any) -> Any:
    return 1 if not ((n == 1 and (not n > 5)) or n == 2) else 0


@program(*NUMBERS)
def ternary_nested(n: Any) -> Any:
    return (1 if n > 3 else 2) if n > 1 else 3 if n > 0 else 4


@program(*NUMBERS)
def eq_bool(n: Any) -> Any:
    return (n == 1) == (n > 0)


@program(*NUMBERS)
def assert_msg(n: Any) -> Any:
    assert n >= 0, f"n is {n}"
    return n


@program(*NUMBERS)
def default_fn_of_traced(n: Any) -> Any:

    def g(a, b=n):
        return a if a > b else b

    return g(n + 1)


@program(*NUMBERS)
def fact(n: Any) -> Any:
    f = 1
    for k in range(1, n + 1):
        f *= k
    return f


@program(*NUMBERS)
def fib(n: Any) -> Any:
    a, b = (0, 1)
    for _ in range(n):
        a, b = (b, a + b)
    return a


@program(*NUMBERS)
def gcd(n: Any) -> Any:
    a, b = (n * 6, nc.asarray(21))
    while b != 0:
        a, b = (b, a % b)
    return a


@program(*NUMBERS)
def primes(n: Any) -> Any:
    c = 0
    for k in range(2, n + 10):
        p = True
        for d in range(2, k):
            if k % d == 0:
                p = False
                break
        if p:
            c += 1
    return c


@program(*NUMBERS)
def isqrt(n: Any) -> Any:
    r = 0
    while (r + 1) * (r + 1) <= n:
        r += 1
    return r


@program(*NUMBERS)
def bubble(n: Any) -> Any:
    v = nc.stack([n, n - 3, n * 2 % 5, n * 7 % 4])
    for i in range(4):  # noqa: B007
        for j in range(3):
            if v[j] > v[j + 1]:
                t = v[j]
                v[j] = v[j + 1]
                v[j + 1] = t
    return v


@program(*NUMBERS)
def search_first(n: Any) -> Any:
    v = nc.tensor([5, 3, 8, 1, 9])
    at = -1
    for k in range(5):
        if v[k] < n:
            at = k
            break
    return at


@program(*NUMBERS)
def pow_mod(n: Any) -> Any:
    r = 1
    b = n + 2
    e = nc.asarray(13)
    while e > 0:
        if e % 2 == 1:
            r = r * b % 1000
        b = b * b % 1000
        e = e // 2
    return r


@program(*NUMBERS)
def early_none(n: Any) -> Any:
    x = None
    if n.dtype == nc.int64:
        x = n
    if x is not None and n > 0:
        return x
    return n - 1


@program(*NUMBERS)
def while_cond_call(n: Any) -> Any:

    def more(a):
        return a > 0 and a != 2

    while more(n):
        n = n - 1
    return n


@program(*NUMBERS)
def while_not(n: Any) -> Any:
    done = n < 0
    k = 0
    while not done:
        k += 1
        done = k >= n
    return k


@program(*NUMBERS)
def lambda_in_loop(n: Any) -> Any:
    f = lambda a: a  # noqa: E731
    for k in range(3):
        g = f  # noqa: F841
        if n > k:
            n = f(n) - 1
    return n


@program(*NUMBERS)
def global_lookup_builtin_shadow(n: Any) -> Any:
    sum = 0
    for k in range(n):
        sum += k
    return sum


@program(*NUMBERS)
def nested_def_recursion(n: Any) -> Any:

    def g(k, a):
        if k == 0:
            return a
        return g(k - 1, a + 1 if a > 2 else a + 2)

    return g(4, n)


@program(*NUMBERS)
def vardict(n: Any) -> Any:

    def g(**kw):
        if kw["a"] > 1:
            return kw["a"]
        return kw["b"]

    return g(a=n, b=n * 2)


@program(*NUMBERS)
def posonly(n: Any) -> Any:

    def g(a, /, b, *, c):
        return a if b > c else c

    return g(n, 2, c=n)
