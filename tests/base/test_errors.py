"""Every error derives from Nacre's `Error` and from the corresponding builtin."""

from __future__ import annotations

import inspect

import pytest

from nacre.base import errors

ERRORS = [
    c
    for c in vars(errors).values()
    if inspect.isclass(c) and c.__module__ == errors.__name__ and c.__name__[0] != "_" and c is not errors.Error
]


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_derives_from_error_and_a_builtin(kind: type[Exception]) -> None:
    assert issubclass(kind, errors.Error) and kind.__doc__
    general = (Exception, BaseException, object)
    assert any(base.__module__ == "builtins" and base not in general for base in kind.__mro__)


def test_explanations_show_wrong_and_right_code() -> None:
    text = errors.explain("f: what", "a = 1\nb", "Because.", "c")
    assert text == "f: what\n\n  This code\n    a = 1\n    b\n\n  Because.\n\n  Write\n    c"


@pytest.mark.parametrize("kind", [FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError])
def test_file_errors_derive_from_the_system_errors(kind: type[OSError]) -> None:
    made = errors.file_error("load: cannot read x", kind(2, "what the system says"))
    assert isinstance(made, errors.DeviceError) and isinstance(made, kind) and str(made) == "load: cannot read x"
    assert errors.reason(kind(2, "what the system says")) == "what the system says"


def test_other_system_errors_are_device_errors() -> None:
    assert type(errors.file_error("save: x", OSError(28, "No space left on device"))) is errors.DeviceError
    assert errors.reason(ValueError("a null byte")) == "a null byte"
