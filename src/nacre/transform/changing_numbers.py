"""Captured Python numbers that change from call to call: the third value of one makes it an input of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any, Final, cast

from nacre.interpret.numbers.traced_number import NumberInputs, may_be_input
from nacre.trace.captures import CapturePlace, PlaceContents, PlaceKey
from nacre.transform.autograph.conversions import Conversions
from nacre.transform.concrete import ConcreteFunction
from nacre.transform.sizes import Call
from nacre.transform.tracing import traced

FEW: Final = 2  # variants for other values of a captured number; a third one makes it an input


class ChangingNumbers:
    """The captured numbers of a function, and those that stay constants, with the reason."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.fixed: dict[PlaceKey, str] = {}

    def changing(self, variants: Sequence[ConcreteFunction]) -> list[CapturePlace]:
        """The places of captured numbers that make a third variant, or are inputs already."""
        if len(variants) < FEW or not isinstance(self.function, FunctionType):
            return []
        last = variants[-1].captures
        places = [(last.places[k], last.contents[k].kind == "number") for k in last.numbers]
        return [
            place
            for place, is_input in places
            if may_be_input(place.content()) and (is_input or self.is_third(place, variants))
        ]

    def is_third(self, place: CapturePlace, variants: Sequence[ConcreteFunction]) -> bool:
        """Whether the number in a place differs from those of all variants, of which some are for such numbers."""
        captures = [c.captures for c in variants]
        known = [h for c in captures for p, h in zip(c.places, c.contents, strict=True) if p.at == place.at]
        now = place.content()
        if place.at in self.fixed or any(h.matches(now, PlaceContents()) for h in known):
            return False
        return sum(h.is_number(now) for h in known) >= FEW

    def traced(
        self, name: str, of: Call, why: str, changing: Sequence[CapturePlace], conversions: Conversions
    ) -> ConcreteFunction | None:
        """A variant for which captured numbers are inputs; None if the trace needs the numbers themselves."""
        numbers = None
        named = ", ".join(p.shown for p in changing)
        why += f"; {named} {'is an input' if len(changing) == 1 else 'are inputs'} from now on"
        try:
            numbers = NumberInputs(cast("FunctionType", self.function), changing)
            concrete = traced(name, self.function, of.key, of.types, of.args, of.kwargs, why, numbers, conversions)
        except Exception as fault:  # perhaps only of traced numbers: the usual trace decides
            if numbers is not None:
                numbers.end()
            if of.symbolic:  # perhaps of symbolic sizes
                raise
            self.fixed |= dict.fromkeys([p.at for p in changing], f"{type(fault).__name__} while it was traced")
            return None
        needed = numbers.end()
        self.fixed |= {at: f"{line} needs the number" for at, line in needed.items()}
        return None if needed else concrete

    def reasons(self, changing: Sequence[CapturePlace]) -> Iterator[str]:
        """Why numbers stay constants, for the reason of a variant."""
        return (f"; {p.shown} stays a constant: {self.fixed[p.at]}" for p in changing if p.at in self.fixed)
