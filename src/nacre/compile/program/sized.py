"""Programs with symbolic sizes, run for the sizes of a call: by a native entry where these come often, or at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from nacre.base.types import TensorType, known_type, row_major
from nacre.codegen.entry.points import entry
from nacre.ir.primitive import Layout
from nacre.runtime.executable import Executable, FixedExecutable
from nacre.runtime.straight import Runner, SizeExpressions, StraightProgram, is_straight
from nacre.trace.value import Value, layout_of, make

OFTEN: Final = 3  # calls for the same sizes before they get a native entry
SMALL: Final = 1_000_000  # instructions of a run that one thread does in the time that an entry takes to write
FORMS: Final = 256  # sizes of one program with native entries
COUNTED: Final = 4096  # sizes whose calls are counted

Numbers = tuple[int, ...]


class SizedProgram:
    """A program, and the names of its symbols in the order of the numbers that calls give."""

    def __init__(self, executable: Executable, names: Sequence[str], strided: bool = False) -> None:
        self.executable, self.names, self.strided = executable, tuple(names), strided
        self.forms: dict[Numbers, Callable[..., Any]] = {}
        self.calls: dict[Numbers, int] = {}
        self.run: Runner | None = None
        if is_straight(executable.plan):
            self.run = StraightProgram(executable, names, strided).run(SMALL, make)

    def __call__(self, inputs: Sequence[Value], numbers: Numbers) -> list[Value]:
        """The results for inputs of the compiled strides, and numbers of the symbols."""
        native = self.forms.get(numbers)
        if native is None:
            if self.count(numbers) <= OFTEN:
                return self.once(inputs, numbers)
            native = self.form(numbers)
        return self.listed(native(*inputs))

    def listed(self, found: Any) -> list[Value]:
        """The results of a native call as a list."""
        return [found] if len(self.executable.output_types) == 1 else list(found)

    def once(self, inputs: Sequence[Value], numbers: Numbers) -> list[Value]:
        """The results, for sizes that may not come again."""
        if self.run is not None:
            found = self.run(*numbers, inputs)
            if found is not None:
                return found
        native = self.forms.get(numbers) or self.form(numbers)
        return self.listed(native(*inputs))

    def form(self, numbers: Numbers) -> Callable[..., Any]:
        """A native entry for given sizes, in the numerics mode for which the program is."""
        fixed = self.at(numbers)
        native = entry(fixed, lambda *xs: answer(run_fixed(fixed, xs)), False, strided=self.strided, any_mode=True)
        if len(self.forms) >= FORMS:
            self.forms.clear()
        self.forms[numbers] = native
        return native

    def count(self, numbers: Numbers) -> int:
        """Count a call for some sizes; how many there were."""
        return counted(self.calls, numbers)

    def at(self, numbers: Numbers) -> FixedExecutable:
        """The program for given sizes."""
        return self.executable.at(dict(zip(self.names, numbers, strict=True)))


def counted(calls: dict[Any, int], key: object) -> int:
    """Count a call; how many there were with this key.  Beyond a limit of keys, counting begins again."""
    found = calls.get(key, 0) + 1
    if found == 1 and len(calls) >= COUNTED:
        calls.clear()
    calls[key] = found
    return found


def view_function(seen: Value, names: Sequence[str], strided: bool) -> Runner:
    """The function of numbers and one input for a view that is given for symbols, and for an input at offset 0."""
    sizes = SizeExpressions(names)
    shape = sizes.tuple(seen.type.shape)
    known: dict[str, Any] = {"Type": TensorType, "make": make, "type_of": known_type, "dtype": seen.type.dtype}
    lines = ["x, = inputs", f"t = type_of(({shape}, dtype)) or Type({shape}, dtype)"]
    if seen.layout is None and not strided:
        lines.append("return [make(t, x.content)]")
    else:
        known["Layout"] = Layout
        layout = layout_of(seen)
        dense = f"(0, {sizes.tuple(row_major(seen.type.shape))})"  # as `interpret.evaluate.view` leaves it out
        begin = "x.layout.offset + " if strided else ""
        lines.append(f"at, strides = {begin}{sizes.of(layout.offset)}, {sizes.tuple(layout.strides)}")
        lines.append(f"return [make(t, x.content, None if (at, strides) == {dense} else Layout(at, strides))]")
    return sizes.function(lines, known)


def _offset(x: Value) -> int:
    """The bytes before the first element of a value in its buffer."""
    return 0 if x.layout is None else x.layout.offset * x.type.dtype.itemsize


def run_fixed(executable: Executable, inputs: Sequence[Value]) -> list[Value]:
    """Run a program of fixed sizes on inputs of the compiled strides, without an entry."""
    held = [(x.content, _offset(x)) for x in inputs]  # other threads may give a value other memory meanwhile
    buffers = executable.run([b.address + n for b, n in held], {})
    types: Sequence[TensorType] = executable.output_types
    return [make(t, b) for t, b in zip(types, buffers, strict=True)]


def answer(outputs: Sequence[Value]) -> Any:
    """The results of a program as native code returns them: one, or a tuple."""
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
