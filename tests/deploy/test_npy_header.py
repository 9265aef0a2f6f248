"""The parser of .npy headers, function by function, against memory that ends where the header ends."""

from __future__ import annotations

import ctypes
import random
import re
from typing import Any, NamedTuple

import numpy as np
import pytest

from deploy.native_functions import GuardedBytes, loaded
from nacre.deploy.executable import npy_header
from nacre.deploy.executable.npy_header import DEEPEST, DESCR, MOST, ORDER, SHAPE, ArrayHeader, HeaderText
from native.python.compiled import structure

FUNCTIONS: list[Any] = [
    *(npy_header.next_character, npy_header.take, npy_header.take_word, npy_header.take_string, npy_header.take_number),
    *(npy_header.take_shape, npy_header.take_order, npy_header.take_item, npy_header.read_dictionary),
]
Text, Header = structure(HeaderText), structure(ArrayHeader)
GUARDED = GuardedBytes()


@pytest.fixture(scope="module")
def parser() -> Any:
    return loaded(FUNCTIONS)


class State:
    """A parser before a text, and a header that it writes."""

    def __init__(self, text: bytes, at: int = 0) -> None:
        self.start = GUARDED.place(text)
        self.text: Any = Text(bytes=self.start, count=len(text), at=at)
        self.header: Any = Header()
        self.place = ctypes.addressof(self.text)
        self.places = self.place, ctypes.addressof(self.header)

    @property
    def string(self) -> bytes:
        """The last string that was read."""
        return ctypes.string_at(self.text.string, self.text.length)

    @property
    def axes(self) -> tuple[int, ...]:
        return tuple(self.header.axes[: self.header.rank])

    @property
    def dtype(self) -> bytes:
        return ctypes.string_at(self.header.dtype, self.header.dtype_length)


# ---- pieces


@pytest.mark.parametrize(
    ("text", "found", "at"),
    [(b"a", "a", 0), (b" \n a", "a", 3), (b"", "\0", 0), (b"  ", "\0", 2), (b"\ta", "\t", 0), (b"\0a", "\0", 0)],
)
def test_the_next_character(parser: Any, text: bytes, found: str, at: int) -> None:
    state = State(text)
    assert (parser.next_character(state.place), state.text.at) == (ord(found), at)


def test_a_character_is_taken_if_it_is_next(parser: Any) -> None:
    state = State(b" ,;")
    assert not parser.take(state.place, ord(";")) and parser.take(state.place, ord(",")) and state.text.at == 2
    assert parser.take(state.place, ord(";")) and state.text.at == 3
    assert not parser.take(state.place, ord(";"))


@pytest.mark.parametrize(
    ("text", "taken"), [(b"False", 5), (b"  False,", 7), (b"Fals", 0), (b"", 0), (b"false", 0), (b"   Fa", 0)]
)
def test_words(parser: Any, text: bytes, taken: int) -> None:
    state, word = State(text), ctypes.create_string_buffer(b"False")
    assert parser.take_word(state.place, ctypes.addressof(word), 5) == bool(taken)
    assert state.text.at == taken or not taken


STRINGS: dict[bytes, bytes | None] = {
    b"'<f4'": b"<f4",
    b'  "<f4" ': b"<f4",
    b"''": b"",
    b"'a\"b'": b'a"b',
    b'"it\'s"': b"it's",
    b"' ~'": b" ~",
    b"'open": None,
    b"'": None,
    b"": None,
    b"f4": None,
    b"'<f4\"": None,
    b"'es\\cape'": None,
    b"'line\nend'": None,
    b"'\x1f'": None,
    b"'\x7f'": None,
    b"'\x80'": None,
    b"'\xff'": None,
    b"'\0'": None,
}


@pytest.mark.parametrize("text", STRINGS)
def test_strings(parser: Any, text: bytes) -> None:
    state, wanted = State(text), STRINGS[text]
    assert parser.take_string(state.place) == (wanted is not None)
    if wanted is not None:
        assert state.string == wanted and state.text.at == len(text.rstrip())


NUMBERS: dict[bytes, int] = {
    b"0": 0,
    b" 7,": 7,
    b"00": 0,
    b"000)": 0,
    b"1234567890": 1234567890,
    str(MOST - 1).encode(): MOST - 1,
    str(MOST).encode(): -1,
    b"9" * 19: -1,
    str(2**64).encode(): -1,
    str(2**64 + 5).encode(): -1,
    b"9" * 500: -1,
    b"01": -1,
    b"001": -1,
    b"": -1,
    b"-1": -1,
    b"+1": -1,
    b"x": -1,
    b"/": -1,  # the neighbours of digits
    b":": -1,
    b"1e3": 1,
    b"1.5": 1,
    b"1 2": 1,
    b"0x10": 0,
    b"\xb2": -1,
}


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers(parser: Any, text: bytes) -> None:
    assert parser.take_number(State(text).place) == NUMBERS[text]


SHAPES: dict[bytes, tuple[int, ...] | None] = {
    b"()": (),
    b"( )": (),
    b"(3,)": (3,),
    b"(3 , )": (3,),
    b"(2, 1, 8, 8)": (2, 1, 8, 8),
    b"(2,1,)": (2, 1),
    b"(0, 0)": (0, 0),
    b"(\n2,\n3)": (2, 3),
    b"(%d, %d)" % (MOST - 1, MOST - 1): (MOST - 1, MOST - 1),
    b"(" + b"1," * DEEPEST + b")": (1,) * DEEPEST,
    b"(" + b"1," * (DEEPEST - 1) + b"1)": (1,) * DEEPEST,
    b"(" + b"1," * (DEEPEST + 1) + b")": None,
    b"(" + b"1," * DEEPEST + b"1)": None,
    b"(" + b"1," * 20000 + b")": None,
    b"(3)": None,
    b"(": None,
    b"(3": None,
    b"(3,": None,
    b"(3, 4": None,
    b"(,)": None,
    b"(3,,4)": None,
    b"(3 4)": None,
    b"(-1,)": None,
    b"(02,)": None,
    b"(%d,)" % MOST: None,
    b"[3, 4]": None,
    b"3": None,
    b"": None,
    b"(3L, 4L)": None,
}


@pytest.mark.parametrize("text", SHAPES, ids=range(len(SHAPES)))
def test_shapes(parser: Any, text: bytes) -> None:
    state, wanted = State(text), SHAPES[text]
    state.header.dtype_length = 0xA5A5
    assert parser.take_shape(*state.places) == (wanted is not None)
    assert state.header.dtype_length == 0xA5A5, "it must stay within the axes"
    assert wanted is None or (state.axes, state.text.at) == (wanted, len(text))


@pytest.mark.parametrize(("text", "order"), [(b"False", False), (b" True", True), (b"Tru", None), (b"1", None)])
def test_orders(parser: Any, text: bytes, order: bool | None) -> None:
    state = State(text)
    assert parser.take_order(*state.places) == (order is not None)
    assert order is None or state.header.fortran_order == order


@pytest.mark.parametrize(
    ("text", "bit"),
    [
        (b"'descr': '<f4'", DESCR),
        (b'"shape" : (2,)', SHAPE),
        (b"'fortran_order':True", ORDER),
        (b"'descr' '<f4'", 0),
        (b"'descr': [('a', '<f4')]", 0),
        (b"'shape': 3", 0),
        (b"'fortran_order': 'False'", 0),
        (b"'other': 1", 0),
        (b"'descr_': '<f4'", 0),
        (b"'': 1", 0),
        (b"descr: '<f4'", 0),
        (b"'descr':", 0),
        (b"", 0),
    ],
)
def test_items(parser: Any, text: bytes, bit: int) -> None:
    assert parser.take_item(*State(text).places) == bit


# ---- whole headers


class Found(NamedTuple):
    """What a header says."""

    dtype: bytes
    fortran_order: bool
    axes: tuple[int, ...]


_BLANKS = rb"[ \n]*"
_STRING = rb"(?:'(?:(?!['\\])[ -~])*'|\"(?:(?![\"\\])[ -~])*\")"
_NUMBER = rb"(?:0+|[1-9][0-9]*)(?![0-9])"
_TOKEN = re.compile(_BLANKS + rb"(" + rb"|".join((_STRING, _NUMBER, rb"True|False", rb"[{}():,]")) + rb")")


def expected(text: bytes) -> Found | None:
    """What a header says, read in another way: by tokens, and the order of their kinds as one expression."""
    tokens, at = list[bytes](), 0
    while found := _TOKEN.match(text, at):
        tokens.append(found[1])
        at = found.end()
    if text[at:].strip(b" \n") or tokens[:1] != [b"{"]:
        return None
    items: dict[bytes, Any] = {}
    k = 1
    while tokens[k : k + 1] != [b"}"]:
        key, colon, *rest = (*tokens[k : k + 2], b"", b"")
        k += 2
        name = key[1:-1]
        if key[:1] not in (b"'", b'"') or colon != b":" or name in items or not rest:
            return None
        value = tokens[k] if k < len(tokens) else b""
        if name == b"descr" and value[:1] in (b"'", b'"'):
            items[name] = value[1:-1]
        elif name == b"fortran_order" and value in (b"True", b"False"):
            items[name] = value == b"True"
        elif name == b"shape" and value == b"(":
            end = tokens.index(b")", k) if b")" in tokens[k:] else k
            inner = tokens[k + 1 : end]
            numbers, commas = inner[::2], inner[1::2]
            if any(not n.isdigit() or int(n) >= MOST for n in numbers) or any(c != b"," for c in commas):
                return None
            if end == k or inner == [b","] or len(inner) == 1 or len(numbers) > DEEPEST:
                return None
            items[name] = tuple(map(int, numbers))
            k = end
        else:
            return None
        k += 1
        if tokens[k : k + 1] == [b","]:
            k += 1
        elif tokens[k : k + 1] != [b"}"]:
            return None
    if k + 1 != len(tokens) or items.keys() != {b"descr", b"fortran_order", b"shape"}:
        return None
    return Found(items[b"descr"], items[b"fortran_order"], items[b"shape"])


def read(parser: Any, text: bytes) -> Found | None:
    """What the native parser finds; None for a malformed header."""
    state = State(text)
    if not parser.read_dictionary(*state.places):
        return None
    assert state.text.at == len(text) and state.header.rank <= DEEPEST
    return Found(state.dtype, state.header.fortran_order, state.axes)


GOOD: dict[bytes, Found] = {
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n": Found(b"<f4", False, (2, 3)),
    b"{'shape': (), 'fortran_order': True, 'descr': '|b1'}": Found(b"|b1", True, ()),
    b'{"descr":"<f4","fortran_order":False,"shape":(7,)}': Found(b"<f4", False, (7,)),
    b" \n{ 'descr' : '' ,\n'fortran_order': False, 'shape': (0,)}  ": Found(b"", False, (0,)),
    b"{'descr': '%s', 'fortran_order': False, 'shape': ()}" % (b"f" * 60000): Found(b"f" * 60000, False, ()),
}
BAD: list[bytes] = [
    *(
        b"",
        b"{",
        b"{}",
        b"[]",
        b"()",
        b"\0",
        b"}",
        b"{,}",
        b"{'",
        b"{'descr",
        b"{'descr'",
        b"{'descr':",
        b"{'descr': '",
    ),
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (2",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,),",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,),,}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}\0",
    b"\0{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
    b"\t{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}{}",
    b"{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}",
    b"{'descr': '<f4', 'fortran_order': Falsehood, 'shape': (2,)}",
    b"{'descr': '<f4', 'fortran_order': False}",
    b"{'descr': '<f4', 'shape': (2,)}",
    b"{'fortran_order': False, 'shape': (2,)}",
    b"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'shape': (2,)}",
    b"{'descr': '<f4', 'fortran_order': False, 'fortran_order': False, 'shape': (2,)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
    b"{'descr': 'a\\'b', 'fortran_order': False, 'shape': (2,)}",
    b"{'descr': '\x1b]0;title\x07<f4', 'fortran_order': False, 'shape': (2,)}",
    b"{'descr': ('<f4', (3,)), 'fortran_order': False, 'shape': (2,)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"1, " * 40 + b")}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999, 1)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551617,)}",
]


@pytest.mark.parametrize("text", GOOD, ids=range(len(GOOD)))
def test_headers(parser: Any, text: bytes) -> None:
    assert read(parser, text) == GOOD[text] == expected(text)


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_malformed_headers(parser: Any, text: bytes) -> None:
    assert read(parser, text) is None and expected(text) is None


@pytest.mark.parametrize("text", [*GOOD][:3], ids=range(3))
def test_every_beginning_of_a_header(parser: Any, text: bytes) -> None:
    for end in range(len(text)):
        assert read(parser, text[:end]) == expected(text[:end]), text[:end]


def test_headers_that_numpy_writes(parser: Any) -> None:
    for shape in ((), (0,), (5,), (2, 3, 4)):
        for dtype in (np.float32, np.bool_, ">i8", np.complex128):
            for order in ("C", "F"):
                array = np.zeros(shape, dtype, order)  # pyright: ignore[reportCallIssue, reportArgumentType]
                wanted = np.lib.format.header_data_from_array_1_0(array)
                text = repr(wanted).encode() + b"\n"
                assert read(parser, text) == Found(wanted["descr"].encode(), wanted["fortran_order"], shape)


PIECES = (
    *(b"{", b"}", b"(", b")", b",", b":", b"'", b'"', b" ", b"\n", b"\0", b"\\", b"\t", b"0", b"7", b"00", b"x", b"-"),
    *(
        b"'descr'",
        b"'shape'",
        b"'fortran_order'",
        b"'descr': '<f8', ",
        b"'shape': (2, 3), ",
        b"'fortran_order': True, ",
    ),
    *(
        b"True",
        b"False",
        b"(5,)",
        b"(5)",
        b"281474976710655",
        b"281474976710656",
        b"18446744073709551616",
        b"\xff",
        b"1,",
    ),
)


def mutated(rng: random.Random) -> bytes:
    """A header with a few changes, or pieces in any order."""
    if rng.random() < 0.1:
        return b"".join(rng.choices(PIECES, k=rng.randrange(12)))
    text = bytearray(rng.choice([*GOOD][:4]))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at, kind = rng.randrange(len(text) + 1), rng.randrange(5)
        end = min(len(text), at + rng.choice((1, 1, 2, 5, 20)))
        if kind == 0:
            text[at:end] = bytes(rng.randrange(256) for _ in range(end - at))
        elif kind == 1:
            del text[at:end]
        elif kind == 2:
            text[at:at] = rng.choice(PIECES)
        elif kind == 3:
            text[at:end] = rng.choice(PIECES)
        else:
            text[at:at] = text[at:end] * rng.choice((1, 1, 40))
    return bytes(text[: rng.randrange(len(text) + 1)] if rng.random() < 0.1 else text)


def compare_mutations(parser: Any, rng: random.Random, count: int) -> None:
    well = 0
    for _ in range(count):
        text = mutated(rng)
        found = read(parser, text)
        assert found == expected(text), text
        well += found is not None
    assert count // 100 < well < count // 2, "some are well-formed, and most are not"


def test_mutated_headers(parser: Any) -> None:
    compare_mutations(parser, random.Random(1), 3000)


@pytest.mark.slow
def test_many_mutated_headers(parser: Any) -> None:
    compare_mutations(parser, random.Random(), 200_000)
