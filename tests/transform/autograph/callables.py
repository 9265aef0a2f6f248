"""Programs that call: functions, methods, objects, decorators, closures, and functions with names of built-in ones."""

from __future__ import annotations

import contextlib
import functools
import operator
import types
from typing import Any

from transform.autograph.numeric import VECTORS, WHOLE_VECTORS, numeric


def own(name):
    def f(*a, **k):
        return (a[0] if a else 3), len(k)

    return f


def vars(x):
    return x + 2


def fact(n, k):
    if k == 0:
        return 1
    return fact(n, k - 1) * (k if n > k else 2)


def ackermann_like(n, depth):
    if depth == 0:
        return n
    m = ackermann_like(n, depth - 1)
    while m < depth * 3:
        m = m + ackermann_like(1, depth - 1)
    return m


def twice(f):
    @functools.wraps(f)
    def g(*a, **k):
        r = f(*a, **k)
        return r * 2 if r > 3 else r

    return g


def with_argument(limit):
    def decorate(f):
        @functools.wraps(f)
        def g(a):
            if a > limit:
                return f(a)
            return a

        return g

    return decorate


@twice
@with_argument(2)
def decorated_fn(n):
    if n > 4:
        return n + 1
    return n - 1


class Base:
    factor = 2

    def scale(self, n):
        if n > 2:
            return n * self.factor
        return n

    @property
    def limit(self):
        return 3

    @classmethod
    def make(cls, n):
        return cls.factor * n if n > 1 else n

    @staticmethod
    def plain(n):
        return n if n > 3 else -n


class Derived(Base):
    factor = 3

    def scale(self, n):
        if n > self.limit:
            return super().scale(n) + 1
        return super(Derived, self).scale(n) - 1  # noqa: UP008

    @property
    def limit(self):
        return super().limit + 1

    @classmethod
    def make(cls, n):
        if n > 0:
            return super().make(n) + 1
        return n

    def looped(self, n):
        while n < 20:
            n = super().scale(n) + 1
        return n

    def in_lambda(self, n):
        return (lambda: super(Derived, self).scale(n) if n > 1 else n)()


class Lazy:
    def __init__(self, n):
        self.n = n

    @property
    def value(self):
        return self.n if self.n > 2 else -self.n

    @functools.cached_property
    def cached(self):
        return self.n * 2 if self.n > 2 else self.n

    def __getattr__(self, name):
        if name == "missing":
            return self.n + 7 if self.n > 2 else self.n
        raise AttributeError(name)

    def __getitem__(self, k):
        return self.n * k if self.n > k else k

    def __add__(self, other):
        return self.n + other if other > 2 else other

    def __contains__(self, k):
        return k == 3

    def __len__(self):
        return 4

    def __bool__(self):
        return False

    def __eq__(self, other):
        return self.n == other

    __hash__ = None


@numeric()
def own_max(n: Any) -> Any:
    max = own("max")
    min = lambda *a, key=None: a[0] if key is None else key(a[0])  # noqa: E731
    r = n if n > 2 else n + 1
    return max(n, 3, b=2), min(n), min(n, 3, key=lambda q: q * 2), r


@numeric(*VECTORS)
def own_max_vector(v: Any) -> Any:
    max = lambda x, axis=None: x * 2  # noqa: E731
    min = lambda x, other: x + other  # noqa: E731
    a = max(v)
    if a[0] > 0:
        a = min(a, v)
    return max(a, axis=0)


@numeric(*VECTORS)
def own_reductions(v: Any) -> Any:
    sum = lambda x: x[0] + x[1]  # noqa: E731
    any = lambda x: x[0] > 0  # noqa: E731
    all = lambda x: x[1] > 0  # noqa: E731
    abs = lambda x: x * 3  # noqa: E731
    sorted = lambda x: x[::-1]  # noqa: E731
    if any(v):
        return sum(abs(v))
    return sum(sorted(v)) if all(v) else sum(v)


@numeric()
def own_len(n: Any) -> Any:
    len = lambda *a, **k: n * 2  # noqa: E731
    return len(n) if n > 2 else len(*[n]), len(n, 3), len()


@numeric()
def own_type(n: Any) -> Any:
    type = lambda *a, **k: a[0]  # noqa: E731
    return type(n) if n > 2 else type(*[n, 2])


@numeric()
def star_builtins(n: Any) -> Any:
    t = [3]
    q = ("A", (), {})
    k = type(*q)
    return len(*[t]) + n if n > 2 else len(t), k.__name__ == "A", max(*[n, 3]), min(*[[1, 2]])


@numeric()
def own_print(n: Any) -> Any:
    seen = []
    print = lambda *a, **k: seen.append((a, len(k)))  # noqa: E731
    if n > 2:
        m = n
    else:
        m = n + 1
    print(f"{1 + 1}", m, end="")
    return seen[0][0][1], len(seen[0][0][0]), seen[0][1]


@numeric()
def own_range(n: Any) -> Any:
    range = lambda *a: [1, 2, len(a)]  # noqa: E731
    s = 0
    for k in range(n, 2):
        if n > k:
            s = s + k
    return s


@numeric()
def own_enumerate(n: Any) -> Any:
    enumerate = lambda x, start=0: [(next(iter(x)), start)]  # noqa: E731
    s = 0
    for k, m in enumerate([4, 5], start=3):
        if n > k:
            s = s + k * m
    return s


@numeric(*WHOLE_VECTORS[1:])
def own_enumerate_of_zip(v: Any) -> Any:
    def enumerate(pairs):
        first = next(pairs)
        return [(1, first), (2, next(pairs, first))]

    s = 0
    for k, (a, b) in enumerate(zip(v, v)):
        if a > 1:
            s = s + k * b
    return s


@numeric(*WHOLE_VECTORS[1:])
def own_zip(v: Any) -> Any:
    def zip(a, b):
        return [(a[0], b[0])]

    s = 0
    for a, b in zip(v, v):
        if a > 2:
            s = s + a * b
    return s


@numeric()
def own_super(n: Any) -> Any:
    super = lambda: n  # noqa: E731
    return super() if n > 2 else super() + 1


@numeric()
def own_eval(n: Any) -> Any:
    eval = lambda a: a + 1  # noqa: E731
    exec = lambda a: a  # noqa: E731
    locals = lambda: 3  # noqa: E731
    return eval(n) if n > 2 else exec(n) + locals()


@numeric()
def own_vars(n: Any) -> Any:
    return vars(n) if n > 2 else n


@numeric()
def own_isinstance(n: Any) -> Any:
    isinstance = lambda a, b: a  # noqa: E731
    return isinstance(n, 3) if n > 2 else n


@numeric(*WHOLE_VECTORS[1:])
def zip_strict(v: Any) -> Any:
    s = 0
    for a, b in zip(v, v * 2, strict=True):
        if a > 2:
            s = s + a * b
    return s


@numeric(*WHOLE_VECTORS[1:])
def max_of_vector(v: Any) -> Any:
    return max(v), min(v)


@numeric()
def max_of_list(n: Any) -> Any:
    return max([n, 3, n + 1]), min((n, 2)), max({n * 1: 2}) if False else 1


@numeric()
def max_with_key(n: Any) -> Any:
    return (
        max(n, 3, key=lambda a: -a),
        min([n, 2], key=lambda a: (a - 2) * (a - 2)),
        max([], default=n),
        max([n], default=3),
    )


@numeric()
def max_generator(n: Any) -> Any:
    return max(k * n for k in range(3)), min(k - n for k in (1, 2))


@numeric()
def sum_start(n: Any) -> Any:
    return sum([n, 1], 10), sum([n, n], start=2), abs(n - 3)


@numeric()
def sorted_numbers_python(n: Any) -> Any:
    return sorted([3, 1, 2])[0] + n if n > 1 else n


@numeric(*WHOLE_VECTORS[1:])
def reversed_rows(v: Any) -> Any:
    s = 0
    for x in reversed(v):
        s = s * 3 + x if x > 1 else s
    return s


@numeric()
def reversed_range(n: Any) -> Any:
    s = 0
    for k in reversed(range(5)):
        if k < n:
            s = s * 10 + k
    return s


@numeric()
def reversed_traced_range(n: Any) -> Any:
    s = 0
    for k in reversed(range(n)):
        s = s * 3 + k
    return s


@numeric()
def range_in_list(n: Any) -> Any:
    s = 0
    for k in list(range(4)):
        if k < n:
            s += k
    return s


@numeric()
def map_filter(n: Any) -> Any:
    return sum(map(lambda a: a * 2 if a > 2 else a, [n, n + 1])), list(filter(lambda k: k > 1, [1, 2]))[0] * n  # noqa: RUF015


@numeric()
def int_in_branch(n: Any) -> Any:
    a = int(3.7) if n > 2 else int("4")
    return a + n


@numeric(*WHOLE_VECTORS)
def any_over_rows(v: Any) -> Any:
    return any(x > 6 for x in v), all(x > 1 for x in v), any(x for x in v if x > 100)


@numeric()
def any_python_first(n: Any) -> Any:
    return (
        any(k > 1 and n > k for k in range(4)),
        any(x for x in (0, 1, n)),
        all(x for x in (1, 0, n)),
        all(n > k for k in range(4) if k % 2),
    )


@numeric()
def any_pairs(n: Any) -> Any:
    return any(a * n > b for a, b in [(1, 2), (3, 20)]), all(a <= b + n for a, b in zip((1, 2), (1, 4)))


@numeric()
def any_filtered_traced(n: Any) -> Any:
    return any(n > k for k in range(5) if n != 3), all(k < n for k in (1, 2) if n > k)


@numeric()
def any_empty(n: Any) -> Any:
    return any(n > k for k in ()), all(n > k for k in [] if n), n if any(k > n for k in (2, 3)) else 0


@numeric()
def own_any(n: Any) -> Any:
    any = lambda g: sum(g)  # noqa: E731
    r = n if n > 2 else 3
    return any(k * n for k in (1, 2, 3) if k > 1), r


@numeric()
def any_guards(n: Any) -> Any:
    return any(k != 0 and n // k > 2 for k in range(4))


@numeric()
def any_all(n: Any) -> Any:
    return any([n > 1, n > 2]), all([n > 1, n > 2]), any(n > k for k in (5, 9)), all(n > k for k in ())


@numeric()
def while_inner_function(n: Any) -> Any:
    def step(k):
        return k + 2

    k = 0
    while k < n:
        k = step(k)
    return k


@numeric()
def while_inner_defined_in_body(n: Any) -> Any:
    k = 0
    while k < n:

        def step(a):
            return a + 1

        k = step(k)
    return k


@numeric()
def while_lambda_in_body(n: Any) -> Any:
    k = 0
    while k < n:
        step = lambda a: a + 2  # noqa: E731
        k = step(k)
    return k


@numeric()
def bounded_recursion(n: Any) -> Any:
    return fact(n, 4)


@numeric()
def recursion_in_loop(n: Any) -> Any:
    return ackermann_like(n, 2)


@numeric()
def lambda_chain(n: Any) -> Any:
    f = lambda a: lambda b: b if b > a else a  # noqa: E731
    return f(n)(3)


@numeric()
def defaults(n: Any) -> Any:
    def f(a, b=n * 2, *, c=3):
        return a if a > b else c

    return f(n), f(n, 0), f(n, c=n)


@numeric()
def default_conditional(n: Any) -> Any:
    def f(a=n if n > 2 else 7):
        return a

    return f()


@numeric()
def decorators(n: Any) -> Any:
    return decorated_fn(n)


@numeric()
def classes(n: Any) -> Any:
    d = Derived()
    return d.scale(n), Derived.make(n), d.plain(n), d.looped(n), d.in_lambda(n), d.limit


@numeric()
def properties(n: Any) -> Any:
    l = Lazy(n)
    return l.value, l.cached, l.missing, l[3], l + n, len(l), 3 in l, not l, l == 2


@numeric()
def truth_of_object(n: Any) -> Any:
    l = Lazy(n)
    if l:
        return n
    return n + 1 if n > 2 and not l else n


@numeric()
def partials(n: Any) -> Any:
    def f(a, b, c):
        return a + b if a > c else b

    g = functools.partial(f, n, c=2)
    h = functools.partial(g, 5)
    return g(1), h()


@numeric()
def partialmethods(n: Any) -> Any:
    class A:
        def f(self, a, b):
            return a if a > b else b

        g = functools.partialmethod(f, 3)

    return A().g(n)


@numeric()
def callable_object(n: Any) -> Any:
    class A:
        def __init__(self, k):
            self.k = k

        def __call__(self, n):
            if n > self.k:
                return n
            return self.k

    return A(3)(n) + sum(map(A(2), [n, n + 1]))


@numeric()
def while_cond_side(n: Any) -> Any:
    log = []

    def more(k):
        log.append(1)
        return k < 3

    k = 0
    while more(k):
        k += 1
    return (n if n > 2 else 1) * len(log)


@numeric()
def method_assigned_as_attribute(n: Any) -> Any:
    class A:
        def __init__(self, k):
            self.k = k

        def m(self, a):
            return a if a > self.k else self.k

    class B:
        def __init__(self, f):
            self.f = f

    return B(A(3).m).f(n), A.m(A(2), n), types.MethodType(A.m, A(1))(n)


@numeric()
def class_in_function_with_base(n: Any) -> Any:
    class A:
        def m(self, a):
            if a > 2:
                return a
            return -a

    class B(A):
        def m(self, a):
            if a > 4:
                return super().m(a) * 2
            r = super().m(a)
            return r + 1

    return B().m(n)


@numeric()
def init_with_branch(n: Any) -> Any:
    class A:
        def __init__(self, k):
            if k > 2:
                v = k
            else:
                v = 2
            self.v = v

    return A(n).v


@numeric()
def constructor_writes_in_branch(n: Any) -> Any:
    class A:
        def __init__(self, k):
            self.v = k

    a = A(n)
    b = A(n + 1)
    return a.v if a.v > 2 else b.v


@numeric()
def object_made_in_branch(n: Any) -> Any:
    class A:
        def __init__(self, k):
            self.k = k

    if n > 2:
        r = A(n).k
    else:
        r = A(3).k
    return r


@numeric()
def generator_python(n: Any) -> Any:
    def g():
        yield n
        yield n + 1

    a, b = g()
    return a if a > 2 else b


@numeric()
def iterator_protocol(n: Any) -> Any:
    it = iter([n, n + 1, n + 2])
    a = next(it)
    b = next(it)
    c = next(it, 0)
    d = next(it, 9)
    return a if a > b - 2 else c, d


@numeric()
def nested_functions_three(n: Any) -> Any:
    def a(x):
        def b(y):
            def c(z):
                return z + x if z > y else y

            return c(y + 1) if y > 2 else c(y)

        return b(x)

    return a(n)


@numeric()
def recursion_inner_closure(n: Any) -> Any:
    def fib(k):
        if k < 2:
            return n if n > 2 else k
        return fib(k - 1) + fib(k - 2)

    return fib(6)


@numeric()
def default_mutable(n: Any) -> Any:
    def f(a, seen=[]):  # noqa: B006
        seen.append(1)
        return len(seen) + a

    x = f(n)
    y = f(n)
    return x if n > 2 else y


@numeric()
def kwonly_star(n: Any) -> Any:
    def f(a, *args, b=2, **kw):
        if a > b:
            return a + sum(args)
        return kw["c"]

    return f(n, 1, 2, c=5), f(n, b=n, c=n)


@numeric()
def posonly_default(n: Any) -> Any:
    def f(a, b=3, /, c=4):
        return a if a > b else c

    return f(n), f(n, 1), f(n, 1, c=n)


@numeric()
def none_default_param(n: Any) -> Any:
    def f(a, b=None):
        if b is None:
            b = a + 1
        if a > 2:
            return b
        return a

    return f(n), f(n, 7)


@numeric()
def optional_result_python(n: Any) -> Any:
    def find(k):
        if k > 2:
            return None
        return k

    r = find(3)
    return n if r is None and n > 2 else 0


@numeric()
def operator_functions(n: Any) -> Any:
    f = operator.add if True else operator.sub
    return f(n, 2) if operator.gt(n, 2) else operator.mul(n, 5)


@numeric()
def reduce_function(n: Any) -> Any:
    return functools.reduce(lambda a, b: a + b if b > 1 else a, [n, 1, 2])


@numeric()
def singledispatch(n: Any) -> Any:
    @functools.lru_cache
    def f(k):
        return k + 1

    return f(2) if n > 2 else f(3)


@numeric()
def contextmanager_function(n: Any) -> Any:
    log = []

    @contextlib.contextmanager
    def ctx():
        log.append(1)
        yield 4
        log.append(2)

    with ctx() as k:
        if n > k:
            r = n
        else:
            r = k
    return r, len(log)


@numeric()
def conditional_lambda_same(n: Any) -> Any:
    f = lambda a: a + 1  # noqa: E731
    if n > 2:
        f = f
    return f(n)


@numeric()
def with_as(n: Any) -> Any:
    class Ctx:
        def __enter__(self):
            return 5

        def __exit__(self, *a):
            return False

    with Ctx() as c, Ctx() as (d):
        if n > 2:
            r = c + n
        else:
            r = d
    return r


@numeric()
def a_closure_sees_each_round(n: Any) -> Any:
    height = 4

    def taller() -> Any:
        return height * 3 - 2

    total = 0
    height = 1
    while height < n:
        total = total + taller()
        height = height + 2
    return total, taller()


@numeric()
def a_closure_sees_the_loop_variable(n: Any) -> Any:
    turn, digits = 9, 0
    shown = lambda: turn * turn + 1  # noqa: E731
    for turn in range(n):  # noqa: B007
        digits = digits * 3 + shown()
    return digits, turn if n < 0 else digits


@numeric()
def an_object_sees_a_variable(n: Any) -> Any:
    depth = 0

    class Depth:
        def __call__(self) -> Any:
            return depth + 1

    measured, total = Depth(), 1
    while depth < n:
        total = total * 2 + measured()
        depth = depth + 1
    return total
