"""What the parameters of public functions mean, from the files of `parameters/`.

A section names functions by a pattern such as `nacre.nn.Conv*`, and describes parameters by name.  Where several
sections fit, the one with the most letters outside of its wildcards wins; of two alike, the later one.
The section `*` is for all functions.
"""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from pathlib import Path


class Notes:
    """The descriptions, found by the full name of a function and the name of its parameter."""

    def __init__(self, folder: Path) -> None:
        self.sections: dict[str, dict[str, str]] = {}  # by header: the patterns of a section
        self.used: set[tuple[str, str]] = set()
        for file in sorted(folder.glob("*.toml")):
            for header, described in tomllib.loads(file.read_text(encoding="utf-8")).items():
                self.sections.setdefault(header, {}).update(described)
        fits = [(pattern, header) for header in self.sections for pattern in header.split()]
        self.order = sorted(reversed(fits), key=lambda fit: -len(fit[0].replace("*", "")))

    def find(self, function: str, parameter: str) -> str | None:
        """The description of a parameter, or None."""
        for pattern, header in self.order:
            if parameter in self.sections[header] and fnmatchcase(function, pattern):
                self.used.add((header, parameter))
                return self.sections[header][parameter]
        return None

    def unused(self) -> list[tuple[str, str]]:
        """The section and the parameter of each description that `find` never gave."""
        return [
            (header, name) for header, held in self.sections.items() for name in held if (header, name) not in self.used
        ]
