"""A jitted method of an instance: called like a bound method, inspected like a jitted function."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

QUESTIONS: Final = frozenset({"concrete", "trace", "memory", "cost", "explain", "prepare"})  # of arguments


class JitMethod(partial[Any]):
    """A jitted function whose first argument is an instance.  Calls cost what calls of a `partial` cost."""

    def __getattr__(self, name: str) -> Any:
        """An attribute of the jitted function; questions about a call get the instance, too."""
        if name == "__wrapped__":  # its signature has the instance
            raise AttributeError(name)
        found = getattr(self.func, name)
        return partial(found, *self.args) if name in QUESTIONS else found

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.func)})

    def __repr__(self) -> str:
        return f"<{self.func!r} of {self.args[0]!r}>"
