"""Each construct of native Python: compiled, and compared with the same function as plain Python where that runs."""

from __future__ import annotations

import ctypes
import gc
import math
import mmap
from collections.abc import Callable
from typing import Annotated, Any, Final

import pytest

from nacre.base.gc_pause import gc_paused
from nacre.native.cpython import PyObject
from nacre.native.python.declarations import (
    address,
    external,
    external_variable,
    inline,
    native,
    null,
    row,
    text,
    variable,
)
from nacre.native.python.initial import initial_value
from nacre.native.python.intrinsics import (
    addr,
    atomic_change,
    atomic_load,
    atomic_store,
    cast,
    compare_exchange,
    copy_bytes,
    fill_bytes,
    leading_zeros,
    one_bits,
    stack,
)
from nacre.native.python.module import module
from nacre.native.python.types import (
    array,
    embed,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    kind_of,
    offset_of,
    ptr,
    size_of,
    struct,
    u8,
    u16,
    u32,
    u64,
)
from native.python.compiled import compiled

LIMIT: Final = 10
ON: Final = True
HALF: Final = 0.5

# ---- numbers


@native
def arithmetic(a: i64, b: i64) -> i64:
    return (a + b) * 3 - (a & 15 | b ^ 7) + (-a) + (~b)


@native
def divided(a: u32, b: u32) -> u32:
    return a // b * 1000 + a % b


@native
def narrow_divided(a: u16, b: u16) -> u16:
    return a // b + a % b


@native
def shifted(a: i32, n: i32) -> i32:
    return (a >> n) ^ (a << 3)


@native
def compared(a: i32, b: i32) -> i32:
    return i32(a < b) | i32(a <= b) << 1 | i32(a == b) << 2 | i32(a != b) << 3 | i32(a > b) << 4 | i32(a >= b) << 5


@native
def floats(x: f64, y: f64) -> f64:
    return (x + y) * x - y / 2 + -x + (HALF + 1 / 4)


@native
def narrow_floats(x: f32) -> f32:
    return x * f32(0.1) + 1


@native
def compared_floats(a: f64, b: f64) -> i32:
    return i32(a < b) | i32(a <= b) << 1 | i32(a == b) << 2 | i32(a != b) << 3 | i32(a > b) << 4 | i32(a >= b) << 5


@native
def converted(x: f64) -> i64:
    return i64(i8(x)) * 1000 + i64(u8(i32(x))) + i64(f64(f32(x)) == x) + i64(u64(x) >> 1) - i64(f32(x))


@native
def widened(a: i64) -> f64:
    return f64(a) + f64(u64(a)) * f64(f32(i8(a))) - f64(a > 3)


@native
def mean(values: ptr[f32], count: u64) -> f64:
    total = f64(-0.0)
    for k in range(count):
        values[k] *= 2
        total += f64(values[k])
    return total / f64(count) if count != 0 else math.inf


@native
def least(a: i32, b: i32) -> i32:
    return min(a, b) * 100 + max(max(a, b), 3)


NUMBERS = [(7, 3), (-7, 3), (7, -3), (-7, -3), (0, 5), (1, 1), (100, 9), (-100, 9), (2, 2)]


@pytest.mark.parametrize("function", [arithmetic, compared, compared_floats, least], ids=lambda f: f.__name__)
def test_operators_of_two_numbers(function: Callable[..., Any]) -> None:
    (made,) = compiled(function)
    for a, b in NUMBERS:
        assert made(a, b) == function(a, b)


def test_arithmetic_wraps_around() -> None:
    (made,) = compiled(arithmetic)
    assert made(2**63 - 1, 1) == i64(arithmetic(2**63 - 1, 1))
    (shift,) = compiled(shifted)
    assert [shift(-100, n) for n in (0, 3, 31)] == [i32(shifted(-100, n)) for n in (0, 3, 31)]
    assert shift(1, 33) == shift(1, 1)  # modulo the width


def test_division_is_of_unsigned_integers() -> None:
    wide, narrow = compiled(divided, narrow_divided)
    for a, b in [(7, 3), (2**32 - 1, 10), (5, 2**31)]:
        assert wide(a, b) == divided(a, b) % 2**32
    assert narrow(65535, 7) == narrow_divided(65535, 7)


def test_floats() -> None:
    wide, narrow, order = compiled(floats, narrow_floats, compared_floats)
    assert wide(1.25, -3.5) == floats(1.25, -3.5)
    assert narrow(3.0) == f32(f32(3.0 * f32(0.1)) + 1)
    assert order(math.nan, 1.0) == compared_floats(math.nan, 1.0) == 8


@pytest.mark.parametrize("x", [0.0, 1.5, -1.5, 127.9, 300.0, -1e30, 1e30, math.inf, math.nan])
def test_floats_become_integers_within_bounds(x: float) -> None:
    (made,) = compiled(converted)
    assert made(x) == i64(converted(x))


def test_integers_become_floats() -> None:
    (made,) = compiled(widened)
    assert [made(a) for a in (0, 5, -7)] == [widened(a) for a in (0, 5, -7)]


def test_floats_in_memory() -> None:
    (made,) = compiled(mean)
    values = (ctypes.c_float * 3)(1.5, -2.0, 0.25)
    assert made(ctypes.addressof(values), 3) == -0.5 / 3 and list(values) == [3.0, -4.0, 0.5]
    assert made(None, 0) == math.inf


@native
def bits(x: u32) -> u32:
    return leading_zeros(x) * 100 + one_bits(x)


def test_bits() -> None:
    (made,) = compiled(bits)
    assert [made(x) for x in (0, 1, 0x80000000, 0xF0)] == [3200, 3101, 1, 2404]


# ---- control


@native
def choices(a: i32) -> i32:
    if a < 0:
        return -1
    elif a == 0 or (a > 100 and not a > 200):
        result = i32(0)
    else:
        result = a if a & 1 == 0 else i32(u32(a) // u32(a - 1)) if a != 1 else 77
    return result


@native
def loops(n: u32) -> u32:
    total: u32 = 0
    k = n
    while True:
        if k == 0:
            break
        k -= 1
        if k % 3 == 0:
            continue
        for j in range(k):
            if j == 7:
                break
            for m in range(u32(2), j):
                total += m
        total += 1
    return total


@native
def ranges(start: i8, end: i8) -> i32:
    total: i32 = 0
    for k in range(start, end, 1):
        total += i32(k)
    for k in range(end, start, -1):
        total -= i32(k) * 3
    for k in range(end, start, -1):
        total += 1
        k = i8(0)
    return total


@native
def swapped(n: u32) -> u32:
    a, b = u32(0), u32(1)
    for _ in range(n):
        a, b = b, a + b
    return a


@native
def logic(a: i32, p: ptr[i32]) -> bool:
    return (a > 0 and p[0] > 0) or a < -5


@native
def constants_decide() -> i32:
    x: i32
    if ON:
        x = 3
    else:
        x = undefined_here  # noqa: F821 - it is left out
    return x if not ON else x + LIMIT


def test_control() -> None:
    choice, loop, ranged, swap, constant = compiled(choices, loops, ranges, swapped, constants_decide)
    assert [choice(a) for a in range(-2, 210)] == [choices(a) for a in range(-2, 210)]
    assert [loop(n) for n in range(30)] == [loops(n) for n in range(30)]
    assert [swap(n) for n in range(30)] == [swapped(n) for n in range(30)]
    for pair in [(0, 127), (-128, 127), (-128, 0), (100, 127), (5, 5), (6, 5)]:
        assert ranged(*pair) == ranges(*pair)
    assert constant() == 13


def test_operands_are_computed_only_where_they_matter() -> None:
    (made,) = compiled(logic)
    one = ctypes.c_int32(1)
    assert [made(1, ctypes.addressof(one)), made(0, None), made(-6, None)] == [True, False, True]


# ---- functions


@inline
def both(x: u64) -> tuple[u64, u64]:
    if x > 3:
        return x, x + 1
    return 0, x


@inline
def nested(x: u64) -> u64:
    low, high = both(x)
    for k in range(high):
        if k == 5:
            return low
    return high


@native
def expanded(x: u64) -> u64:
    total: u64 = 0
    for k in range(x):
        total += nested(k) * nested(k + 1)
    return total


@inline
def is_small(x: u64) -> bool:
    if x == 7:
        return False
    return x < 10


@native
def small_or_even(x: u64) -> u64:
    if not is_small(x) and x & 1 != 0:
        return 0
    return 1


@native
def fibonacci(n: u64) -> u64:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@native
def twice(f: Callable[[u64], u64], x: u64) -> u64:
    return f(f(x))


@native
def passed(x: u64) -> u64:
    return twice(fibonacci, x)


def test_conditions_of_inlined_functions_branch_at_their_returns() -> None:
    (made,) = compiled(small_or_even)
    assert [made(x) for x in (6, 7, 8, 10, 11)] == [1, 0, 1, 1, 0]
    assert "phi" not in module([small_or_even])


def test_functions() -> None:
    expand, fib, twofold = compiled(expanded, fibonacci, passed)
    assert [expand(n) for n in range(20)] == [expanded(n) for n in range(20)]
    assert fib(15) == 610 and twofold(7) == 233


def test_no_cycles_of_objects_remain() -> None:
    gc.collect()
    with gc_paused():
        module([expanded, small_or_even])
        found = [type(o).__name__ for o in gc.get_objects() if type(o).__module__.startswith("nacre.native.python.")]
    assert not {"Computed", "Phi", "BasicBlock", "FunctionScope"} & set(found)


def test_only_what_is_needed_is_written() -> None:
    assert "define internal i64 @test_constructs.twice" in module([passed])
    assert "define i64 @fibonacci" in module([fibonacci]) and "twice" not in module([fibonacci])
    assert module([passed]) == module([passed])


# ---- memory


@struct
class Point:
    x: i8
    y: i64
    on: bool


@struct
class Chain(Point):
    next: Chain
    inside: embed[Point]
    words: Annotated[array[u16], 5]
    handler: Callable[[u64], u64]


class PointC(ctypes.Structure):
    _fields_ = (("x", ctypes.c_int8), ("y", ctypes.c_int64), ("on", ctypes.c_bool))


class ChainC(ctypes.Structure):
    _fields_ = (
        ("base", PointC),
        ("next", ctypes.c_void_p),
        ("inside", PointC),
        ("words", ctypes.c_uint16 * 5),
        ("handler", ctypes.c_void_p),
    )


@native
def length(chain: Chain) -> u64:
    n: u64 = 0
    while chain != null:
        chain = chain.next
        n += 1
    return n


@native
def changed(chain: Chain) -> u64:
    chain.y += 3
    chain.on = not chain.on
    chain.inside.y = i64(chain.x) * 2
    for k in range(u64(5)):
        chain.words[k] += u16(k)
    place = addr(chain.words[3])
    place[-1] = place[0] + 1
    chain.handler = fibonacci
    inside = chain.inside
    inside.on = chain.next == null
    return chain.handler(10)


def test_structures() -> None:
    last = ChainC(base=PointC(-4, 10, False), words=(1, 2, 3, 4, 5))
    first = ChainC(next=ctypes.addressof(last))
    count, change = compiled(length, changed)
    assert count(ctypes.addressof(first)) == 2 and count(None) == 0
    assert change(ctypes.addressof(last)) == 55
    assert (last.base.y, last.base.on, last.inside.y, last.inside.on) == (13, True, -8, True)
    assert list(last.words) == [1, 3, 8, 7, 9]


def test_layouts_are_those_of_c() -> None:
    assert size_of(Chain) == ctypes.sizeof(ChainC) and size_of(Point) == ctypes.sizeof(PointC)
    for name in ("next", "inside", "words", "handler"):
        assert offset_of(Chain, name) == getattr(ChainC, name).offset
    assert offset_of(Chain, "y") == PointC.y.offset == 8
    assert (size_of(u16), size_of(f32), size_of(f64), size_of(ptr[u8])) == (2, 4, 8, 8)


@struct
class Row:
    name: ptr[u8]
    number: i32
    function: Callable[[u64], u64]


@struct
class Table:
    rows: Annotated[array[embed[Row]], 3]
    scale: f64


@struct
class Count:
    value: u64


table = variable(
    Table,
    initial=Table(
        rows=row(
            Row(name=text('a "b"\\'), number=-3, function=address(fibonacci)),
            Row(name=null, number=LIMIT, function=null),
        ),
        scale=-0.5,
    ),
    symbol="the_table",
)
counted = variable(Count)


@native
def entry_of(k: u64) -> i64:
    counted.value += 1
    entry = table.rows[k]
    called = i64(entry.function(9)) if entry.function != null else 0
    name = i64(entry.name[3]) if entry.name != null else 0
    return called * 1000 + name + i64(entry.number)


@native
def count_of() -> f64:
    return f64(counted.value) * table.scale


def test_variables() -> None:
    entry, count = compiled(entry_of, count_of)
    assert [entry(k) for k in range(3)] == [34000 + ord("b") - 3, LIMIT, 0]
    assert count() == -1.5
    assert "@the_table = global <{" in module([entry_of])
    assert initial_value(kind_of(f64), -0.0, str) == ("double", f"0x{1 << 63:X}")


@struct
class Workspace:
    bytes: Annotated[array[u8], 40]


@native
def on_the_stack(source: ptr[u8]) -> u64:
    work = stack(Workspace, 64)
    fill_bytes(work.bytes, 1, size_of(Workspace))
    copy_bytes(addr(work.bytes[8]), source, 8)
    total: u64 = 0
    for k in range(u64(size_of(Workspace))):
        total += u64(work.bytes[k])
    return total + (cast(u64, work) & 63) + u64(b"A"[0]) + mmap.PROT_READ


def test_the_stack_and_blocks_of_bytes() -> None:
    (made,) = compiled(on_the_stack)
    source = ctypes.create_string_buffer(bytes(range(8)), 8)
    assert made(ctypes.addressof(source)) == 32 + 28 + 65 + mmap.PROT_READ


@native
def atomics(c: Count) -> u64:
    before = atomic_change("add", c.value, 5, "seq_cst")
    was, done = compare_exchange(c.value, before + 5, 100, "acq_rel", "acquire")
    again, failed = compare_exchange(c.value, 7, 8, "seq_cst", "relaxed")
    atomic_store(c.value, atomic_load(c.value, "acquire") + was + again, "release")
    atomic_change("exchange", c.value, atomic_change("or", c.value, 1, "relaxed") + u64(done) + u64(failed), "release")
    return before


def test_atomics() -> None:
    (made,) = compiled(atomics)
    place = ctypes.c_uint64(10)
    assert made(ctypes.addressof(place)) == 10
    assert place.value == 100 + 15 + 100 + 1


@struct
class Buffer:
    bytes: ptr[u64]
    spare: ptr[u64]


@native
def grown(buffer: Buffer) -> u64:
    buffer.bytes = buffer.spare
    return 7


@native
def written_after_the_value(buffer: Buffer) -> None:
    buffer.bytes[0] = grown(buffer)
    buffer.bytes[grown(buffer) - 6] = buffer.bytes[0] + 1


def test_a_value_is_computed_before_its_place() -> None:
    (made,) = compiled(written_after_the_value)
    old, new = (ctypes.c_uint64 * 2)(), (ctypes.c_uint64 * 2)()
    made(ctypes.byref((ctypes.c_void_p * 2)(ctypes.addressof(old), ctypes.addressof(new))))
    assert (list(old), list(new)) == ([0, 0], [7, 8])


@external
def snprintf(to: ptr[u8], most: u64, form: ptr[u8], *more: object) -> i32: ...


true = external_variable(PyObject, "_Py_TrueStruct")


@native
def printed(to: ptr[u8], n: i32, x: f64) -> i32:
    return snprintf(to, 40, b"%d %.2f %s", n, x, b"end")


@native
def is_true(object: PyObject) -> bool:
    return object == true


def test_functions_and_variables_of_other_libraries() -> None:
    printing, asked = compiled(printed, is_true)
    text_ = ctypes.create_string_buffer(40)
    assert printing(ctypes.addressof(text_), -3, 0.25) == 11 and text_.value == b"-3 0.25 end"
    assert [asked(id(x)) for x in (True, False)] == [True, False]


@native
def wide(a: u8, b: i16) -> i64:
    return i64(a) + i64(b) + i64(u32(i32(b)))


def test_extension_is_by_the_sign_of_the_source() -> None:
    (made,) = compiled(wide)
    assert made(200, -3) == 200 - 3 + (2**32 - 3)
