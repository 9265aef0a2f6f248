"""What the parameters of public functions mean, from the files of `parameters/`.

A section names functions by a pattern such as `nacre.nn.Conv*`, and describes parameters by name.  Where several
sections fit, the one with the most letters outside of its wildcards wins; the section `*` is for all functions.
"""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from pathlib import Path


class Notes:
    """The descriptions, found by the full name of a function and the name of its parameter."""

    def __init__(self, folder: Path) -> None:
        self.sections: dict[str, dict[str, str]] = {}
        self.used: set[tuple[str, str]] = set()
        for file in sorted(folder.glob("*.toml")):
            for patterns, described in tomllib.loads(file.read_text(encoding="utf-8")).items():
                for pattern in patterns.split():
                    self.sections.setdefault(pattern, {}).update(described)
        self.order = sorted(self.sections, key=lambda pattern: -len(pattern.replace("*", "")))

    def find(self, function: str, parameter: str) -> str | None:
        """The description of a parameter, or None."""
        for pattern in self.order:
            if parameter in self.sections[pattern] and fnmatchcase(function, pattern):
                self.used.add((pattern, parameter))
                return self.sections[pattern][parameter]
        return None
