"""A jitted method of an instance: called like a bound method, inspected like a jitted function."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic

from nacre.trace.function_types import Q, R

QUESTIONS: Final = frozenset({"concrete", "trace", "memory", "cost", "explain", "prepare"})  # of arguments


class JitMethod(partial[R], Generic[Q, R]):
    """A jitted function whose first argument is an instance.  Calls cost what calls of a `partial` cost."""

    if TYPE_CHECKING:

        def __call__(self, /, *args: Q.args, **kwargs: Q.kwargs) -> R: ...

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
