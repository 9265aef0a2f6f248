"""Arrays of .npy files, checked; no code in a file is run."""

from __future__ import annotations

from pathlib import Path
from tokenize import TokenError

import numpy as np

from nacre.base.errors import ArgumentError, file_error, reason

MAGIC = b"\x93NUMPY"
SHOWN = 8  # bytes of another file that a message shows


def read_array(path: Path, operation: str) -> np.ndarray:
    """The array of a .npy file.

    Raises ArgumentError, with the reason, for any other file and for an array of Python objects.  Raises DeviceError if
    the file cannot be read.
    """
    wrong = f"{operation}: a .npy file is required; {path} is not: "
    try:
        with open(path, "rb") as file:
            first = file.read(SHOWN)
            if not first.startswith(MAGIC):
                raise ArgumentError(f"{wrong}it begins with {first!r}" if first else f"{wrong}it is empty")
            file.seek(0)
            return np.lib.format.read_array(file, allow_pickle=False)
    except OSError as fault:
        raise file_error(f"{operation}: a .npy file is required; {path}: {reason(fault)}", fault) from None
    except ArgumentError:
        raise
    except (ValueError, EOFError, MemoryError, OverflowError, SyntaxError, TypeError, TokenError) as fault:
        raise ArgumentError(f"{wrong}{_fault(fault)}") from None


def _fault(fault: Exception) -> str:
    """The fault of a file, without NumPy's advice to run the code that it may contain."""
    text = str(fault)
    if "Object arrays" in text:
        return "it holds Python objects; save an array of numbers"
    return text if isinstance(fault, ValueError) and "pickle" not in text else "its header is malformed"
