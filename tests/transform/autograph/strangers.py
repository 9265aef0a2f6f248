"""Programs that strangers write: unusual statements around control flow on tensors."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import nacre as nc
from transform.autograph.programs import program

G = 3.0


class Suppressing:
    """A context that suppresses every exception."""

    def __enter__(self) -> Suppressing:
        return self

    def __exit__(self, *_: object) -> bool:
        return True


@program()
def shadow_range(x: Any) -> Any:
    range = lambda n: [5.0, 6.0]  # noqa: E731
    for k in range(3):
        if x.sum() > 0:
            x = x + k
    return x


@program()
def shadow_print(x: Any) -> Any:
    out = []
    print = out.append
    if x.sum() > 0:
        x = x + 1
    print(1)
    return x * len(out)


@program()
def shadow_len(x: Any) -> Any:
    len = 5
    if x.sum() > 0:
        x = x * len
    return x


@program()
def shadow_super(x: Any) -> Any:
    super = lambda: 3  # noqa: E731
    if x.sum() > 0:
        x = x * super()
    return x


@program()
def walrus_if(x: Any) -> Any:
    if (t := x.sum()) > 0:
        return x * t
    return x - t


@program()
def walrus_compr(x: Any) -> Any:
    ys = [(last := (x * k)) for k in range(3)]  # noqa: F841
    if x.sum() > 0:
        last = last + 1
    return last


@program()
def walrus_in_branch(x: Any) -> Any:
    t = x
    if x.sum() > 0:
        y = (t := (x + 1)) * 2
    else:
        y = x
    return y + t


@program()
def match_class(x: Any) -> Any:
    d = {"a": x, "b": x * 2}
    if x.sum() > 0:
        match d:
            case {"a": q, **rest}:
                y = q + rest["b"]
    else:
        y = x
    return y


@program()
def try_return_finally(x: Any) -> Any:
    try:
        if x.sum() > 0:
            return x * 2
        y = x + 1
    finally:
        x = x + 100
    return y + x


@program()
def finally_return(x: Any) -> Any:
    try:
        if x.sum() > 0:
            return x * 2
    finally:
        return x + 5  # noqa: B012


@program()
def try_except_in_branch(x: Any) -> Any:
    y = x
    if x.sum() > 0:
        try:
            y = {"a": x}["b"]
        except KeyError:
            y = x * 7
    return y


@program()
def try_else(x: Any) -> Any:
    try:
        if x.sum() > 0:
            return x
    except ValueError:
        y = x
    else:
        y = x * 3
    return y


@program()
def try_break(x: Any) -> Any:
    for k in range(5):
        try:
            if x.sum() > 4:
                break
            x = x + k
        finally:
            x = x + 1
    return x


@program()
def try_continue_finally(x: Any) -> Any:
    for k in range(4):
        try:
            if x.sum() > 4:
                continue
            x = x + k
        finally:
            x = x + 0.5
    return x


@program()
def with_return(x: Any) -> Any:
    with contextlib.nullcontext():
        if x.sum() > 0:
            return x
        x = x * 3
    return x - 1


@program()
def with_suppress(x: Any) -> Any:
    with Suppressing():
        if x.sum() > 0:
            x = x * 2
        raise KeyError
    return x


@program()
def with_break(x: Any) -> Any:
    for k in range(6):
        with nc.no_grad():
            if x.sum() > 6:
                break
            x = x + k
        x = x * 1.5
    return x


@program()
def del_local(x: Any) -> Any:
    y = x * 2
    if x.sum() > 0:
        z = y + 1
    else:
        z = y
    del y
    return z


@program()
def del_both(x: Any) -> Any:
    y = x * 2
    if x.sum() > 0:
        z = y + 1
        del y
    else:
        z = y
        del y
    return z


@program()
def global_read(x: Any) -> Any:
    if x.sum() > 0:
        return x * G
    return x


@program()
def star_args(x: Any) -> Any:

    def g(*args, scale=2.0, **kw):
        if args[0].sum() > 0:
            return args[0] * scale + kw.get("b", 0)
        return args[0] - scale

    return g(x, x, b=3) + g(*[x], **{"scale": 5.0})


@program()
def default_args(x: Any) -> Any:

    def g(y, k=[1.0, 2.0], *, m={"a": 2}):  # noqa: B006  # noqa: B006
        if y.sum() > 0:
            return y * k[0] * m["a"]
        return y * k[1]

    return g(x) + g(x, [3.0, 3.0])


@program()
def default_traced(x: Any) -> Any:

    def g(y=x * 2):
        if y.sum() > 0:
            return y
        return -y

    return g()


@program()
def class_body(x: Any) -> Any:

    class A:
        k = 2.0
        if k > 1:
            v = 3

        def m(self, y):
            if y.sum() > 0:
                return y * self.k
            return y

    return A().m(x) * A.v


@program()
def private_names(x: Any) -> Any:

    class A:
        def __init__(self):
            self.__k = 3.0

        def m(self, y):
            if y.sum() > 0:
                return y * self.__k
            return y - self.__k

    return A().m(x)


@program()
def nested_func_two(x: Any) -> Any:

    def a(y):

        def b(z):
            if z.sum() > 0:
                return z * 2
            return z

        if y[0] > 0:
            return b(y) + 1
        return b(-y)

    return a(x)


@program()
def nonlocal_plain(x: Any) -> Any:
    n = 0

    def inc():
        nonlocal n
        n += 1

    inc()
    inc()
    if x.sum() > 0:
        x = x * n
    return x


@program()
def lambda_default(x: Any) -> Any:
    fs = [lambda y, k=k: y * k if y.sum() > 0 else y - k for k in range(3)]
    return fs[0](x) + fs[1](x) + fs[2](x)


@program()
def two_lambdas_line(x: Any) -> Any:
    a, b = (lambda y: y * 2 if y.sum() > 0 else y, lambda y: y * 3 if y.sum() > 0 else y)
    return a(x) + b(x)


@program()
def compr_shadow(x: Any) -> Any:
    k = 7.0
    r = [k * x for k in range(3) if k]
    if x.sum() > 0:
        x = x * k
    return x + r[0]


@program()
def genexp(x: Any) -> Any:
    return sum(x * k if x.sum() > k else x for k in range(3))


@program()
def unpack_star(x: Any) -> Any:
    if x.sum() > 0:
        a, *b = [x, x + 1, x + 2]
    else:
        a, *b = [x, x, x]
    return a + b[0] * b[1]


@program()
def swap(x: Any) -> Any:
    a, b = (x, x * 2)
    if x.sum() > 0:
        a, b = (b, a)
    return a - b


@program()
def aug_attr(x: Any) -> Any:

    class O:  # noqa: E742
        pass

    o = O()
    o.v = x
    if x.sum() > 0:
        y = o.v * 2
    else:
        y = o.v
    o.v += y
    return o.v


@program()
def is_none(x: Any) -> Any:
    y = None
    if x.sum() > 0:
        z = x
    else:
        z = x * 2
    if y is None and z is not None:
        return z
    return x


@program()
def bool_state(x: Any) -> Any:
    done = False
    k = 0
    while not done:
        x = x + 1
        k += 1
        done = x.sum() > 10 or k > 20
    return (x, k)


@program()
def while_else_ret(x: Any) -> Any:
    while x.sum() < 10:
        x = x + 1
    else:
        return x * 2


@program()
def for_else_traced_continue(x: Any) -> Any:
    for k in range(5):  # noqa: B007
        if x[0] > 3:
            continue
        x = x + 1
    else:
        x = x * 2
    return x


@program()
def loop_var_after(x: Any) -> Any:
    for k in range(5):
        x = x + k
        if x.sum() > 8:
            break
    return x * k


@program()
def nested_break_flag(x: Any) -> Any:
    found = False
    for i in range(3):
        for j in range(3):
            if x[0] + i * j > 4:
                found = True
                break
        if found:
            break
    return x + i * 10 + j


@program()
def ternary_chain(x: Any) -> Any:
    s = x.sum()
    return x if s > 5 else x * 2 if s > 0 else x * 3 if s == 0 else -x


@program()
def not_in(x: Any) -> Any:
    k = "a"
    if k not in ("b",) and x.sum() > 0:
        return x
    return x * 2


@program()
def abs_builtin(x: Any) -> Any:
    n = abs(x.sum())
    if n > 2:
        return x / n
    return x


@program()
def min_python(x: Any) -> Any:
    n = min(3, 5)
    if x.sum() > n:
        return x * n
    return x


@program()
def fstring(x: Any) -> Any:
    n = 3
    if x.sum() > 0:
        n = 4  # noqa: F841
    s = f"{x.shape}"
    return x * len(s)


@program()
def assert_py(x: Any) -> Any:
    assert x.shape[0] == 2, "x"
    if x.sum() > 0:
        return x
    return -x


@program()
def assert_in_branch(x: Any) -> Any:
    if x.sum() > 0:
        assert x[0] > 0
        return x
    return -x


@program()
def docstring_only(x: Any) -> Any:
    """Doc."""
    if x.sum() > 0:
        "text"
        return x
    return -x


@program()
def pass_branch(x: Any) -> Any:
    if x.sum() > 0:
        pass
    else:
        x = -x
    return x


@program()
def empty_return(x: Any) -> Any:
    if x.sum() > 0:
        return
    return


@program()
def import_in(x: Any) -> Any:
    if x.sum() > 0:
        import math  # noqa: PLC0415

        return x * math.pi
    return x


@program()
def annotated(x: Any) -> Any:
    y: float = 1.0
    z: int  # noqa: F842
    if x.sum() > 0:
        y: float = 2.0
    return x * y


@program()
def lots_returns(x: Any) -> Any:
    for k in range(6):
        if x[0] > k + 3:
            return x + 1
        elif x[1] > k + 6:
            return x + 2
        x = x + k
        if x.sum() < -1:
            return x + 3
    return x


@program()
def list_local(x: Any) -> Any:
    if x.sum() > 0:
        o = []
        for k in range(3):
            o.append(x * k)
        y = sum(o)
    else:
        y = x
    return y


@program()
def copy_mut(x: Any) -> Any:
    a = [x, x * 2]
    b = a
    if x.sum() > 0:
        b = b + [x]
    else:
        b = b + [-x]
    return b[2] + a[0]


@program()
def extend_in_loop(x: Any) -> Any:
    o = []
    for k in range(3):
        if x.sum() > 0:
            x = x + 1
        o.extend([x, x * k])
    return nc.stack(o)


@program()
def slicing_assign(x: Any) -> Any:
    y = nc.zeros((4,))
    if x.sum() > 0:
        y[1:3] = x
    else:
        y[:2] = x
    return y


@program()
def aug_item(x: Any) -> Any:
    y = x * 1
    k = 0
    while y.sum() < 20:
        y[k % 2] += 2.0
        k += 1
    return (y, k)


@program()
def mod_chain(x: Any) -> Any:
    k = 0
    while k < 5 and x.sum() < 100:
        if k % 2 == 0:
            x = x * 2 + 1
        elif k % 3 == 0:
            x = x + 5
        else:
            k += 1
            continue
        k += 1
    return (x, k)


@program()
def tensor_iadd_alias(x: Any) -> Any:
    y = x * 1
    z = y
    if x.sum() > 0:
        y += 1
    return z


@program()
def try_swallow(x: Any) -> Any:
    try:
        if x.sum() > 0:
            x = x * 2
    except Exception:
        x = x * 3
    return x


@program()
def try_swallow_bare(x: Any) -> Any:
    try:
        if x.sum() > 0:
            x = x * 2
    except:  # noqa: E722
        x = x * 3
    return x


@program()
def getattr_default(x: Any) -> Any:

    class O:  # noqa: E742
        pass

    o = O()
    if x.sum() > 0:
        y = getattr(o, "q", x * 2)
    else:
        y = x
    return y


@program()
def hasattr_bool(x: Any) -> Any:
    if hasattr(x, "shape") and x.sum() > 0:
        return x
    return x * 2


@program()
def isinstance_number(x: Any) -> Any:
    n = 0
    while x.sum() > 1:
        x = x / 2
        n += 1
    if isinstance(n, int):
        return x + 1
    return x


@program()
def type_is(x: Any) -> Any:
    n = 0
    while x.sum() > 1:
        x = x / 2
        n += 1
    if type(n) is int:
        return x + 1
    return x


@program()
def int_compare_is(x: Any) -> Any:
    n = 0
    while x.sum() > 1:
        x = x / 2
        n += 1
    return x if n == 2 else x * 3


@program()
def int_div_neg(x: Any) -> Any:
    n = -7
    if x.sum() > 0:
        n = 7
    return (x * (n // 2), n % 3, n / 2, -n, abs(n))


@program()
def float_inf(x: Any) -> Any:
    n = float("inf")
    if x.sum() > 0:
        n = 1.0
    return x + n


@program()
def not_int(x: Any) -> Any:
    n = 0
    if x.sum() > 0:
        n = 3
    return x if not n else -x


@program()
def and_value_int(x: Any) -> Any:
    n = 0
    if x.sum() > 0:
        n = 3
    return (x * (n and 5), x * (n or 7))


@program()
def sum_numbers(x: Any) -> Any:
    n = 2
    if x.sum() > 0:
        n = 3
    return x * sum([n, 1, 2])


@program()
def while_float_acc(x: Any) -> Any:
    t = 0.1
    while t < 2:
        t = t * 1.7
        if x.sum() > t:
            x = x - t
    return (x, t)


@program()
def two_d_cond(x: Any) -> Any:
    if nc.any(x > 0):
        return x
    return x * 2


@program()
def for_over_dict(x: Any) -> Any:
    d = {"a": 1, "b": 2}
    for k, v in d.items():  # noqa: B007
        if x.sum() > v:
            x = x - v
    return x


@program()
def while_true_return_tuple(x: Any) -> Any:
    k = 0
    while True:
        k += 1
        if x.sum() + k > 5:
            return (x, k)
        if k > 10:
            return (x * 2, k)


@program()
def for_in_branch_return(x: Any) -> Any:
    if x.sum() > 0:
        for k in range(4):
            if x[0] > k:
                return x * k
            x = x + 1
    return x


@program()
def while_in_for_continue(x: Any) -> Any:
    for i in range(3):
        while x.sum() < i * 4:
            x = x + 1
            if x[0] > 2:
                break
        else:
            continue
        x = x * 2
    return x


@program()
def continue_in_while_true(x: Any) -> Any:
    k = 0
    while True:
        k += 1
        if k % 2 == 0:
            continue
        x = x + 1
        if x.sum() > 9:
            break
    return (x, k)


@program()
def for_range_neg(x: Any) -> Any:
    for k in range(5, -1, -2):
        x = x + k
        if x.sum() > 8:
            break
    return (x, k)


@program()
def recursion_py(x: Any) -> Any:

    def fact(n):
        return 1 if n <= 1 else n * fact(n - 1)

    if x.sum() > 0:
        return x * fact(4)
    return x


@program()
def mutual(x: Any) -> Any:

    def even(n, y):
        return y if n == 0 else odd(n - 1, y * 2 if y.sum() > 0 else y)

    def odd(n, y):
        return -y if n == 0 else even(n - 1, y + 1)

    return even(5, x)


@program()
def wraps_two(x: Any) -> Any:

    def d(f):

        @functools.wraps(f)
        def w(*a, **k):
            r = f(*a, **k)
            return r if r.sum() > 0 else r * 2

        return w

    @d
    @d
    def g(y):
        if y[0] > 0:
            return y
        return y - 1

    return g(x)


@program()
def lru(x: Any) -> Any:

    @functools.lru_cache
    def k(n):
        return n * 2

    if x.sum() > 0:
        return x * k(3)
    return x


@program()
def staticm(x: Any) -> Any:

    class A:
        @staticmethod
        def s(y):
            return y if y.sum() > 0 else -y

        @classmethod
        def c(cls, y):
            return cls.s(y) * 2 if y[0] > 0 else cls.s(y)

    return A.s(x) + A.c(x) + A().c(x)


@program()
def callable_obj(x: Any) -> Any:

    class A:
        def __call__(self, y):
            if y.sum() > 0:
                return y
            return -y

    return A()(x)


@program()
def iterator_class(x: Any) -> Any:

    class It:
        def __init__(s):
            s.k = 0

        def __iter__(s):
            return s

        def __next__(s):
            s.k += 1
            if s.k > 3:
                raise StopIteration
            return s.k

    for k in It():
        if x.sum() > k:
            x = x - k
    return x
