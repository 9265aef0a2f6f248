"""The text of a check that failed, in native Python: its template with the numbers of the call."""

from __future__ import annotations

from typing import Final

from nacre.deploy.executable.codes import GOT, GOT_UNSIGNED, HIGH, LOW, MESSAGE
from nacre.native.python.declarations import native
from nacre.native.python.intrinsics import stack_array
from nacre.native.python.types import embed, i64, ptr, struct, u8, u64
from nacre.runtime.layouts import Outcome

ZERO: Final = ord("0")
MINUS: Final = ord("-")


@struct
class FailureTemplate:
    """A text with bytes that stand for numbers (see `codes`), and a zero at its end."""

    text: ptr[u8]


@native
def write_number(into: ptr[u8], place: i64, number: u64, negative: bool) -> i64:
    """Write a number in decimal digits where there is room; returns the place behind it."""
    digits = stack_array(u8, 32)
    count: i64 = 0
    while True:
        digits[count] = u8(number % 10) + ZERO
        number = number // 10
        count += 1
        if number == 0:
            break
    if negative:
        digits[count] = MINUS
        count += 1
    while count > 0 and place < MESSAGE - 1:
        count -= 1
        into[place] = digits[count]
        place += 1
    return place


@native
def write_signed(into: ptr[u8], place: i64, number: i64) -> i64:
    """Write a number that may be negative."""
    negative = number < 0
    magnitude = u64(number)
    if negative:
        magnitude = u64(0) - magnitude
    return write_number(into, place, magnitude, negative)


@native(symbol="nacre.failure")
def write_failure(outcome: Outcome, templates: ptr[embed[FailureTemplate]], into: ptr[u8]) -> None:
    """Write the text of the check that failed, and a zero behind it."""
    text = templates[outcome.number].text
    place: i64 = 0
    k: i64 = 0
    while text[k] != 0 and place < MESSAGE - 1:
        letter = text[k]
        if letter == LOW:
            place = write_signed(into, place, outcome.low)
        elif letter == HIGH:
            place = write_signed(into, place, outcome.high)
        elif letter == GOT:
            place = write_signed(into, place, outcome.got)
        elif letter == GOT_UNSIGNED:
            place = write_number(into, place, u64(outcome.got), False)
        else:
            into[place] = letter
            place += 1
        k += 1
    into[place] = 0
