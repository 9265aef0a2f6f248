"""The outer part of an executable: its options, its files, and the run between them.

The generated `main` calls `nacre.main` with the description of its program.  What runs before the processor's features
are known is compiled for any processor.
"""

from __future__ import annotations

from typing import Final

from nacre.deploy.executable.codes import DONE, FAILED, MISUSED, PROCESSOR, THREADS, UNSUPPORTED
from nacre.deploy.executable.file_status import FileStatus, is_regular, read_status
from nacre.deploy.executable.files import (
    STANDARD_ERROR,
    STANDARD_OUTPUT,
    array_bytes,
    is_standard,
    new_memory,
    say,
    say_mismatch,
    say_no_memory,
    write_block,
)
from nacre.deploy.executable.layouts import ArrayDescription, ProgramDescription
from nacre.deploy.executable.npy_header import ArrayHeader
from nacre.deploy.executable.npy_reader import load_array, open_array
from nacre.deploy.executable.npy_writer import save_array
from nacre.native import c_library as c
from nacre.native.python.declarations import external, inline, native, null
from nacre.native.python.intrinsics import addr, cast, stack
from nacre.native.python.types import i32, i64, ptr, u8, u64

FILE_TOO_LARGE: Final = 25  # SIGXFSZ: a file would grow beyond the limit of the process
IGNORED: Final = 1  # SIG_IGN
ALL_RIGHT: Final = -1  # the number of the wrong input where there is none


@external(symbol="nacre.supported")
def supported() -> bool: ...


@inline
def axes_of(axes: ptr[i64], about: ArrayDescription) -> ptr[i64]:
    """The axes of an array among those of all."""
    return addr(axes[about.first_axis])


@inline
def path_of(arguments: ptr[ptr[u8]], array: u64) -> ptr[u8]:
    """The path of an array's file: the first argument is the program itself."""
    return arguments[array + 1]


@native(baseline=True)
def fail(program: ProgramDescription, code: i32) -> i32:
    """Print the meaning of an error code; returns the exit status."""
    c.dprintf(STANDARD_ERROR, b"%s: %s\n", program.name, program.error(code))
    if code == PROCESSOR:
        return UNSUPPORTED
    return MISUSED if code == THREADS else FAILED


# ---- the files of outputs


@native
def is_same_file(a: ptr[u8], b: ptr[u8]) -> bool:
    """Whether two paths lead to one regular file, or are equal where there is none yet; "-" leads to none."""
    if is_standard(a) or is_standard(b):
        return False
    one, two = stack(FileStatus), stack(FileStatus)
    if read_status(a, one) and read_status(b, two):
        return one.device == two.device and one.serial == two.serial and is_regular(one)
    return c.strcmp(a, b) == 0


@native
def say_shared(name: ptr[u8], path: ptr[u8]) -> bool:
    """Print that an output must be a file of its own; returns False."""
    sentence = b"each output must be a file of its own; this one is an input or another output; name another"
    say(name, path, sentence, MISUSED)
    return False


@native
def are_apart(program: ProgramDescription, arguments: ptr[ptr[u8]]) -> bool:
    """Whether each output is a file of its own; else the message is printed."""
    for output in range(program.inputs, program.arrays):
        path = path_of(arguments, output)
        for other in range(output):
            if is_same_file(path, path_of(arguments, other)):
                sentence = (
                    b"each output must be a file of its own; this one is an input or another output; name another"
                )
                say(program.name, path, sentence, MISUSED)
                return False
    return True


# ---- sizes


@native
def solve_sizes(program: ProgramDescription) -> i64:
    """The sizes that the inputs' axes determine, and the axes of all arrays; ALL_RIGHT, or a wrong input's number."""
    for k in range(program.sizes):
        rule = program.rules[k]
        rest = program.file_axes[rule.axis] - rule.offset
        if rest < 0 or u64(rest) % u64(rule.factor) != 0:
            return i64(rule.input)
        size = i64(u64(rest) // u64(rule.factor))
        if size < rule.low or size > rule.high:
            return i64(rule.input)
        program.size_values[k] = size
    program.write_axes(program.size_values, program.axes)
    for k in range(program.inputs):
        about = program.about[k]
        for axis in range(about.first_axis, about.first_axis + about.rank):
            if program.file_axes[axis] != program.axes[axis]:
                return i64(k)
    return ALL_RIGHT


@native
def say_wrong_sizes(program: ProgramDescription, path: ptr[u8], about: ArrayDescription) -> i32:
    """Print the type that is required and the axes of a file; returns the exit status."""
    header = stack(ArrayHeader)
    header.dtype = about.dtype
    header.dtype_length = c.strlen(about.dtype)
    header.rank = about.rank
    for k in range(about.rank):
        header.axes[k] = axes_of(program.file_axes, about)[k]
    return say_mismatch(program.name, path, about, header)


# ---- the run


@native
def open_inputs(program: ProgramDescription, arguments: ptr[ptr[u8]]) -> i32:
    """Read the headers of all inputs and find the sizes: DONE, or an exit status."""
    for k in range(program.inputs):
        about = program.about[k]
        axes = axes_of(program.file_axes, about)
        status = open_array(program.name, path_of(arguments, k), about, addr(program.files[k]), axes)
        if status != DONE:
            return status
    wrong = solve_sizes(program)
    if wrong != ALL_RIGHT:
        return say_wrong_sizes(program, path_of(arguments, u64(wrong)), program.about[wrong])
    return DONE


@native
def load_inputs(program: ProgramDescription, arguments: ptr[ptr[u8]]) -> i32:
    """Read the elements of all inputs: DONE, or an exit status."""
    for k in range(program.inputs):
        about = program.about[k]
        path, file, axes = path_of(arguments, k), program.files[k], axes_of(program.axes, about)
        status = load_array(program.name, path, about, file, axes, addr(program.bases[k]))
        if status != DONE:
            return status
    return DONE


@native
def make_outputs(program: ProgramDescription, arguments: ptr[ptr[u8]]) -> i32:
    """Memory for all outputs: DONE, or an exit status."""
    for k in range(program.inputs, program.arrays):
        about = program.about[k]
        program.bases[k] = new_memory(array_bytes(about, axes_of(program.axes, about)))
        if program.bases[k] == null:
            return say_no_memory(program.name, path_of(arguments, k), FAILED)
    return DONE


@native
def save_outputs(program: ProgramDescription, arguments: ptr[ptr[u8]]) -> i32:
    """Write the files of all outputs: DONE, or an exit status."""
    for k in range(program.inputs, program.arrays):
        about = program.about[k]
        axes = axes_of(program.axes, about)
        status = save_array(program.name, path_of(arguments, k), about, axes, program.bases[k])
        if status != DONE:
            return status
    return DONE


@native
def run(program: ProgramDescription, arguments: ptr[ptr[u8]]) -> i32:
    """Read the inputs' headers, then their elements; run; write the outputs.  Returns the exit status.

    A write beyond a limit is an error like others.
    """
    c.signal(FILE_TOO_LARGE, cast(ptr[u8], IGNORED))
    if not are_apart(program, arguments):
        return MISUSED
    status = open_inputs(program, arguments)
    if status == DONE:
        status = load_inputs(program, arguments)
    if status == DONE:
        status = make_outputs(program, arguments)
    if status != DONE:
        return status
    code = program.call(program.bases, program.size_values)
    if code != 0:
        return fail(program, code)
    return save_outputs(program, arguments)


@native(baseline=True)
def show(file: i32, written: ptr[u8]) -> bool:
    """Write a text; whether the system took it."""
    return write_block(file, written, c.strlen(written))


@native(symbol="nacre.main", baseline=True)
def main(program: ProgramDescription, count: i32, arguments: ptr[ptr[u8]]) -> i32:
    """Answer an option, or run the program on files; returns the exit status."""
    if count == 2:
        word = arguments[1]
        if c.strcmp(word, b"--help") == 0 or c.strcmp(word, b"-h") == 0:
            return DONE if show(STANDARD_OUTPUT, program.help) else FAILED
        if c.strcmp(word, b"--version") == 0:
            return DONE if show(STANDARD_OUTPUT, program.version) else FAILED
    if count != i32(program.arrays) + 1:
        show(STANDARD_ERROR, program.usage)
        return MISUSED
    if not supported():
        return fail(program, PROCESSOR)
    return run(program, arguments)
