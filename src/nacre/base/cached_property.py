"""An attribute that is computed when it is first read, without a lock.

`functools.cached_property` has one lock for all instances before Python 3.12.  A child that is forked while another
thread holds it would wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """A method as an attribute: its result is computed once and stored in the instance.

    Threads that read it first at the same time may each compute it; all of them get the first result.

    >>> class Circle:
    ...     @cached_property
    ...     def radius(self):
    ...         print("computed")
    ...         return 2.0
    >>> circle = Circle()
    >>> circle.radius, circle.radius
    computed
    (2.0, 2.0)
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Self | T:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.name, self.function(instance))
