"""The header of a .npy file: a Python dictionary, read by a parser that trusts no byte.

It has the keys `descr`, `fortran_order` and `shape`, each once.  Texts are printable characters without escapes.
"""

from __future__ import annotations

from typing import Annotated, Final

from nacre.native import c_library as c
from nacre.native.python.declarations import inline, native
from nacre.native.python.intrinsics import addr
from nacre.native.python.types import array, cstring, i64, ptr, struct, u8, u32, u64

DEEPEST: Final = 32  # limit of a header's axes
MOST: Final = 1 << 48  # limit of an axis
NO_NUMBER: Final = -1
DESCR: Final = 1  # bits of the keys that were seen
SHAPE: Final = 2
ORDER: Final = 4
ALL_KEYS: Final = DESCR | SHAPE | ORDER

LINE_END: Final = ord("\n")
SPACE: Final = ord(" ")
TILDE: Final = ord("~")  # the last printable character
QUOTE: Final = ord('"')
APOSTROPHE: Final = ord("'")
BACKSLASH: Final = ord("\\")
ZERO: Final = ord("0")
COMMA: Final = ord(",")
COLON: Final = ord(":")
OPENING_PARENTHESIS: Final = ord("(")
CLOSING_PARENTHESIS: Final = ord(")")
OPENING_BRACE: Final = ord("{")
CLOSING_BRACE: Final = ord("}")


@struct
class HeaderText:
    """The text of a header, the place of the parser in it, and the last string that it read."""

    bytes: ptr[u8]
    count: u64
    at: u64
    string: ptr[u8]
    length: u64


@struct
class ArrayHeader:
    """What a header says of its array: the axes, the dtype as it is spelled there, and the order of the elements."""

    axes: Annotated[array[i64], DEEPEST]
    rank: u64
    dtype: ptr[u8]
    dtype_length: u64
    fortran_order: bool


@native
def next_character(text: HeaderText) -> u8:
    """The next character that is no space, 0 at the end; the spaces are behind the parser."""
    while text.at < text.count:
        found = text.bytes[text.at]
        if found != SPACE and found != LINE_END:
            return found
        text.at += 1
    return 0


@native
def take(text: HeaderText, wanted: u8) -> bool:
    """Step over a character if it is next."""
    if next_character(text) != wanted:
        return False
    text.at += 1
    return True


@native
def take_word(text: HeaderText, word: cstring, length: u64) -> bool:
    """Step over a word if it is next."""
    next_character(text)
    if text.count - text.at < length or c.memcmp(addr(text.bytes[text.at]), word, length) != 0:
        return False
    text.at += length
    return True


@native
def take_string(text: HeaderText) -> bool:
    """Step over a string in quotes, which is stored without them."""
    quote = next_character(text)
    if quote != APOSTROPHE and quote != QUOTE:
        return False
    start = text.at + 1
    end = start
    while end < text.count:
        found = text.bytes[end]
        if found == quote:
            text.string = addr(text.bytes[start])
            text.length = end - start
            text.at = end + 1
            return True
        if found == BACKSLASH or found < SPACE or found > TILDE:
            return False
        end += 1
    return False


@inline
def string_is(text: HeaderText, word: cstring, length: u64) -> bool:
    """Whether the last string is this one."""
    return text.length == length and c.memcmp(text.string, word, length) == 0


@inline
def is_digit(found: u8) -> bool:
    """Whether a character is a decimal digit."""
    return found - ZERO < 10


@native
def take_number(text: HeaderText) -> i64:
    """A whole number below the limit as Python spells it, without zeros before another digit; or NO_NUMBER."""
    value: i64 = NO_NUMBER
    found = next_character(text)
    while is_digit(found):
        total = max(value, 0) * 10 + i64(found - ZERO)
        text.at += 1
        if total >= MOST or (value == 0 and total != 0):
            return NO_NUMBER
        value = total
        found = text.bytes[text.at] if text.at < text.count else 0
    return value


@native
def take_shape(text: HeaderText, header: ArrayHeader) -> bool:
    """Step over a tuple of axes, which are stored with their number; (3) is a number and no tuple."""
    if not take(text, OPENING_PARENTHESIS):
        return False
    rank: u64 = 0
    while not take(text, CLOSING_PARENTHESIS):
        n = take_number(text)
        if n < 0 or rank >= DEEPEST:
            return False
        header.axes[rank] = n
        rank += 1
        header.rank = rank
        if not take(text, COMMA):
            return rank != 1 and take(text, CLOSING_PARENTHESIS)
    header.rank = rank
    return True


@native
def take_order(text: HeaderText, header: ArrayHeader) -> bool:
    """Step over a bool: whether the elements are in Fortran order."""
    if take_word(text, b"False", 5):
        header.fortran_order = False
        return True
    header.fortran_order = True
    return take_word(text, b"True", 4)


@native
def take_item(text: HeaderText, header: ArrayHeader) -> u32:
    """Step over a key and its value, which is stored: the bit of the key, or 0 if they are malformed."""
    if not take_string(text) or not take(text, COLON):
        return 0
    if string_is(text, b"descr", 5):
        if not take_string(text):
            return 0
        header.dtype = text.string
        header.dtype_length = text.length
        return DESCR
    if string_is(text, b"shape", 5):
        return SHAPE if take_shape(text, header) else 0
    if string_is(text, b"fortran_order", 13):
        return ORDER if take_order(text, header) else 0
    return 0


@native
def read_dictionary(text: HeaderText, header: ArrayHeader) -> bool:
    """Read the whole header; whether it is a dictionary of the three keys and nothing else."""
    if not take(text, OPENING_BRACE):
        return False
    seen: u32 = 0
    while not take(text, CLOSING_BRACE):
        key = take_item(text, header)
        if key == 0 or (seen & key) != 0:
            return False
        seen |= key
        if not take(text, COMMA):
            if not take(text, CLOSING_BRACE):
                return False
            break
    next_character(text)
    return text.at == text.count and seen == ALL_KEYS
