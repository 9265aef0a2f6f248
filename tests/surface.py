"""The public namespace as the tests of whole classes draw on it: what is added to it later is tested, too.

Names are those of the reference's pages, in full (`nacre.nn.Linear`), with what they stand for.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_WEBSITE = str(Path(__file__).parents[1] / "docs" / "website")
sys.path.insert(0, _WEBSITE)
_public: Any = import_module("public_names")
sys.path.remove(_WEBSITE)

NAMES: dict[str, Any] = {
    name: held for space in _public.spaces() for part in space.parts for name, held in part.objects()
}
MADE: set[str] = _public.MADE  # classes whose objects Nacre makes
CALLABLES: dict[str, Any] = {name: held for name, held in NAMES.items() if _public.is_called(held)}
FUNCTIONS: dict[str, Any] = {name: held for name, held in CALLABLES.items() if not isinstance(held, type)}
CLASSES: dict[str, type] = {name: held for name, held in CALLABLES.items() if isinstance(held, type)}
METHODS: dict[str, Any] = {  # `nacre.Tensor.sum` and so on, of every public class; public functions are above
    f"{name}.{word}": member
    for name, held in CLASSES.items()
    for word, member in inspect.getmembers(held)
    if not word.startswith("_") and callable(member) and member not in FUNCTIONS.values()
}
