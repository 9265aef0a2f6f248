"""Wrong kernels: each is refused with the file, the line, the construct and a remedy, or caught in debug mode."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc

WRONG: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any, str, str]] = {}
X = np.arange(6, dtype=np.float32)
AT = np.array([0, 2, 2, 5])
TABLE = [1.0, 2.0]


def wrong(*inputs: Any, line: str, says: str, out: Any = None) -> Callable[[Callable[..., Any]], Any]:
    def added(f: Callable[..., Any]) -> Callable[..., Any]:
        WRONG[f.__name__] = f, inputs or (X,), out or (lambda x: x), line, says
        return f

    return added


# ---- constant indices that each call gets to


@wrong(line="last = x[6]", says="an index must be from -6 to 5")
def beyond_the_end(x, out):
    last = x[6]
    out[0] = last


@wrong(line="out[i] = x[-7]", says="an index must be from -6 to 5")
def before_the_beginning(x, out):
    for i in range(len(x)):
        out[i] = x[-7]


@wrong(np.ones(0), line="first = x[0]", says="an array must have elements")
def of_nothing(x, out):
    first = x[0]
    for i in range(len(x)):
        out[i] = first


# ---- races between rounds


@wrong(line="s += x[i]", says="must not share the local s")
def shared_sum(x, out):
    s = 0.0
    for i in nc.prange(x.shape[0]):
        s += x[i]
    out[0] = s


@wrong(line="last = x[i]", says="must not share the local last")
def used_behind(x, out):
    last = 0.0
    for i in nc.prange(x.shape[0]):
        last = x[i]
    out[0] = last


@wrong(line="for i in nc.prange(x.shape[0]):", says="different elements of out")
def one_element(x, out):
    for i in nc.prange(x.shape[0]):
        out[0] = x[i]


@wrong(line="for i in nc.prange(1, x.shape[0]):", says="read only their own")
def recurrence(x, out):
    for i in nc.prange(1, x.shape[0]):
        out[i] = out[i - 1] + x[i]


@wrong(AT, line="for i in nc.prange(at.shape[0]):", says="different elements of out", out=lambda at: ((6,), at.dtype))
def counts(at, out):
    for i in nc.prange(at.shape[0]):
        out[at[i]] += 1


@wrong(line="for i in nc.prange(x.shape[0]):", says="different elements of out")
def halves(x, out):
    for i in nc.prange(x.shape[0]):
        out[i // 2] = x[i]


@wrong(line="for i in nc.prange(3):", says="different elements of out")
def overlapping(x, out):
    for i in nc.prange(3):
        for j in range(3):
            out[i + j] = x[i]


@wrong(line="for i in nc.prange(x.shape[0]):", says="must provably be inside")
def wraps(x, out):
    for i in nc.prange(x.shape[0]):
        out[i - 1] = x[i]


# ---- types


@wrong(AT, line="out[i] = at[i] / 2", says="elements of out are int64", out=lambda at: at)
def float_into_integers(at, out):
    for i in range(4):
        out[i] = at[i] / 2


@wrong(line="out[i] = x[x[i]]", says="an index must be an integer")
def float_index(x, out):
    for i in range(x.shape[0]):
        out[i] = x[x[i]]


@wrong(X, AT, line="out[i] = x[i] * at[i]", says="both numbers must be integers", out=lambda x, at: x)
def mixed(x, at, out):
    for i in range(at.shape[0]):
        out[i] = x[i] * at[i]


@wrong(X, AT, line="s = at[0]", says="the local s must have one dtype", out=lambda x, at: x)
def two_dtypes(x, at, out):
    s = x[0]
    if x[0] > 0:
        s = at[0]
    out[0] = s


@wrong(np.ones(3, np.int8), line="out[i] = a * a", says="must have a result of its later dtype, int8")
def narrower_later(x, out):
    a = 100
    for i in range(x.shape[0]):
        out[i] = a * a
        a += x[i]


@wrong(line="h = 0x1CBF29CE484222325", says="an int64 or a uint64")
def too_many_bits(x, out):
    h = 0x1CBF29CE484222325
    out[0] = h


@wrong(line="out[i] = x[i] & 1", says="bits must be those of integers")
def bits_of_floats(x, out):
    for i in range(x.shape[0]):
        out[i] = x[i] & 1


@wrong(line="out[i] = x", says="the expression must be a number")
def whole_array(x, out):
    for i in range(x.shape[0]):
        out[i] = x


@wrong(line="out[i] = x[i] * 2j", says="a literal must be a real number")
def complex_literal(x, out):
    for i in range(x.shape[0]):
        out[i] = x[i] * 2j


@wrong(line='out[i] = x[i] + "a"', says="the expression must be a number")
def text_operand(x, out):
    for i in range(x.shape[0]):
        out[i] = x[i] + "a"


# ---- shapes and indices


@wrong(line="out[0] = x[6]", says="must be from -6 to 5")
def constant_outside(x, out):
    out[0] = x[6]


@wrong(line="out[0] = x[0, 0]", says="as many indices")
def too_many_indices(x, out):
    out[0] = x[0, 0]


@wrong(line="out[:] = x[0]", says="an index must be an integer")
def slices(x, out):
    out[:] = x[0]


@wrong(line="x[i] = 0", says="only elements of outputs can be stored")
def store_to_input(x, out):
    for i in range(x.shape[0]):
        x[i] = 0


# ---- constructs


@wrong(line="return x[0]", says="return nothing")
def returns(x, out):
    return x[0]


@wrong(line="for i in x:", says="must be over range or nacre.prange")
def over_elements(x, out):
    for i in x:
        out[0] = i


@wrong(line="out[1] = print(x[0])", says="a function in a kernel must be one of math")
def prints(x, out):
    out[0] = x[0]
    out[1] = print(x[0])


@wrong(line="values = [x[0], x[1]]", says="an expression of a kernel must be made of numbers")
def lists(x, out):
    values = [x[0], x[1]]
    out[0] = values[0]


@wrong(line="try:", says="a statement of a kernel must be an assignment")
def tries(x, out):
    try:  # noqa: SIM105
        out[0] = x[0]
    except ValueError:
        pass


@wrong(line="out[0] = y", says="a local must have a value on every way")
def maybe_unbound(x, out):
    if x[0] > 0:
        y = x[0]
    out[0] = y


@wrong(line="out[0] = unknown_name", says="a name must be a parameter, a local, or one of the module")
def undefined(x, out):
    out[0] = unknown_name  # noqa: F821


@wrong(line="out[0] = TABLE[0]", says="pass an array as a parameter")
def list_of_the_module(x, out):
    out[0] = TABLE[0]


@wrong(line="for i in nc.prange(int(x[0])):", says="must follow from shapes and parameters")
def rounds_from_data(x, out):
    for i in nc.prange(int(x[0])):
        out[i] = 1


@wrong(line="for j in nc.prange(2):", says="a parallel loop must be the outermost one")
def inner_parallel(x, out):
    for i in range(x.shape[0]):
        for j in nc.prange(2):
            out[i] = j


@wrong(line="for i in nc.prange(x.shape[0]):", says="must run all of its rounds")
def break_in_parallel(x, out):
    for i in nc.prange(x.shape[0]):
        if x[i] > 2:
            break
        out[i] = x[i]


@wrong(line="def two_loops(x, out):", says="a kernel with a parallel loop must consist of it")
def two_loops(x, out):
    for i in nc.prange(x.shape[0]):
        out[i] = x[i]
    for j in nc.prange(x.shape[0]):
        out[j] += 1


@wrong(line="out[0] = math.sqrt(x[0], 2)", says="math.sqrt must have 1 arguments")
def wrong_arguments(x, out):
    out[0] = math.sqrt(x[0], 2)


@wrong(line="for i in nc.prange(x.shape[0]):", says="must not share the local i")
def counter_behind(x, out):
    i = 0
    for i in nc.prange(x.shape[0]):
        out[i] = 1
    out[i] = 2


@wrong(line="for i in nc.prange(x.shape[0]):", says="must run all of its rounds")
def returns_in_a_parallel_loop(x, out):
    for i in nc.prange(x.shape[0]):
        if x[i] > 2:
            return
        out[i] = 1


@wrong(line="for i in nc.prange(x.shape[0] // 2):", says="different elements of out")
def three_at_two(x, out):
    for i in nc.prange(x.shape[0] // 2):
        out[2 * i] = x[i]
        out[2 * i + 2] = x[i]


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_refused(name: str) -> None:
    f, inputs, out, line, says = WRONG[name]
    with pytest.raises(nc.GraphError) as caught:
        nc.kernel(f, out=out)(*inputs)
    message = str(caught.value)
    lines, first = inspect.getsourcelines(f)
    at = first + next(k for k, text in enumerate(lines) if text.strip().startswith(line))
    assert f"kernel {name} (test_wrong_kernels.py:{at})" in message, message
    assert says in message and "; got " in message and message.count("; ") >= 2, message


# ---- caught in debug mode

CAUGHT: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any, str]] = {}


def caught(*inputs: Any, says: str, out: Any) -> Callable[[Callable[..., Any]], Any]:
    def added(f: Callable[..., Any]) -> Callable[..., Any]:
        CAUGHT[f.__name__] = f, inputs, out, says
        return f

    return added


@caught(X, says="an index of axis 0 of x must be in [-6, 6); got 6", out=lambda x: x)
def beyond(x, out):
    for i in nc.prange(x.shape[0]):
        out[i] = x[i + 1]


@caught(X, np.array([1, -7]), says="an index of axis 0 of x must be in [-6, 6); got -7", out=lambda x, at: x)
def gathered(x, at, out):
    for i in nc.prange(at.shape[0]):
        out[i] = x[at[i]]


@caught(X, says="an index of axis 0 of out must be in [-6, 6); got 6", out=lambda x: x)
def stored_beyond(x, out):
    for i in range(x.shape[0]):
        out[2 * i] = x[i]


@caught(np.ones((2, 3)), says="an index of axis 1 of x must be in [-3, 3); got 3", out=lambda x: ((2,), x.dtype))
def second_axis(x, out):
    for i in nc.prange(2):
        j = 0
        while j < 4:
            out[i] += x[i, j]
            j += 1


@caught(np.ones(0), says="counted from 1, must be in [0, 1); got 1", out=lambda x: ((1,), x.dtype))
def empty(x, out):
    for i in range(1):
        k = i
        while k < 1:
            out[i] = x[k]
            k += 1


@caught(X, AT, says="rounds of a parallel loop must use different elements of out; got round 3", out=lambda x, at: x)
def scattered(x, at, out):
    for i in nc.prange(at.shape[0]):
        out[at[i]] = x[i]


@pytest.mark.parametrize("name", CAUGHT)
def test_a_wrong_kernel_is_caught_in_debug_mode(name: str) -> None:
    f, inputs, out, says = CAUGHT[name]
    k = nc.kernel(f, out=out, debug=True)
    for call in (k, nc.jit(lambda *xs: k(*xs))):
        with pytest.raises(nc.AxisError) as found:
            call(*map(nc.asarray, inputs))
        assert f"kernel {name} (test_wrong_kernels.py:" in str(found.value) and says in str(found.value)
    plain = nc.kernel(f, out=out)
    assert np.isfinite(plain(*inputs).numpy()).all()  # defined, and inside of memory, in any case


def test_debug_mode_finds_an_example_of_a_batch() -> None:
    k = nc.kernel(gathered, out=lambda x, at: x, debug=True)
    at = np.array([[0, 1], [2, 9]])
    with pytest.raises(nc.AxisError, match="got 9"):
        nc.vmap(lambda a: k(X, a))(nc.asarray(at))


def test_wrong_definitions_are_refused() -> None:
    def f(x, out):
        out[0] = x[0]

    for given, says in ((lambda x, out: None, "write def"), (3, "must be a function")):
        with pytest.raises(nc.KindError, match=says):
            nc.kernel(given, out=lambda x: x)
    with pytest.raises(nc.ArgumentError, match="a parameter for each output"):
        nc.kernel(f, out=lambda x, y: x)
    with pytest.raises(nc.ArgumentError, match="a parameter for each input"):
        nc.kernel(f, out=lambda *types: types[0])
    with pytest.raises(nc.KindError, match="a shape and a dtype"):
        nc.kernel(f, out=lambda x: 3)(X)
    with pytest.raises(nc.ShapeError, match="a type for each of 1 outputs"):
        nc.kernel(f, out=lambda x: [x, x])(X)
    with pytest.raises(nc.ArgumentError, match="the inputs must be x"):
        nc.kernel(f, out=lambda x: x)(X, X)
    with pytest.raises(nc.ArgumentError, match="the parameters must be none"):
        nc.kernel(f, out=lambda x: x)(X, mode=1)
    with pytest.raises(nc.DTypeError, match="x must have real numbers"):
        nc.kernel(f, out=lambda x: x)(nc.ones(2, dtype=nc.complex64))


def test_a_dtype_is_no_description_of_outputs() -> None:
    def copied(x: Any, y: Any) -> None:
        y[0] = x[0]

    with pytest.raises(nc.KindError, match=r"out of copied must be a type, a shape and a dtype.*got nacre.float32"):
        nc.kernel(out=nc.float32)(copied)(X)


def sometimes(x):
    while x > 1:
        if x > 5:
            return
        x -= 1
    return x


def test_a_function_that_returns_a_number_returns_one_in_its_loops() -> None:
    @nc.kernel(out=lambda x: x)
    def first(x, out):
        out[0] = sometimes(x[0])

    with pytest.raises(nc.GraphError, match=r"must return a number on each way"):
        first(nc.ones(3))
