"""Reading and writing .npy files, function by function: whole blocks, headers in files, elements, new files."""

from __future__ import annotations

import ctypes
import errno
import io
import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.native_functions import loaded, memory_file, stub_of, text
from deploy.test_npy_header import BAD, GOOD
from nacre.deploy.executable import files, npy_reader, npy_writer
from nacre.deploy.executable.codes import DONE, FAILED, MISUSED
from nacre.deploy.executable.files import ALIGN, MOST_BYTES, TOO_LARGE
from nacre.deploy.executable.layouts import ArrayDescription
from nacre.deploy.executable.npy_header import ArrayHeader
from nacre.deploy.executable.npy_reader import LONGEST, MALFORMED, UNREADABLE, WELL_FORMED
from nacre.deploy.executable.npy_writer import NO_FILE, Replacement
from nacre.native import c_library
from nacre.native.python.declarations import native
from nacre.native.python.types import ptr, u8
from native.python.compiled import structure


@native
def header_memory() -> ptr[u8]:
    return npy_reader.memory.bytes


FUNCTIONS: list[Any] = [
    *(files.read_block, files.write_block, files.array_bytes, files.new_memory, files.say_mismatch, header_memory),
    *(npy_reader.read_header, npy_reader.has_type, npy_reader.open_array, npy_reader.load_array),
    *(npy_writer.write_header, npy_writer.make_beside, npy_writer.open_output, npy_writer.save_array),
]
Header, Description, NewName = structure(ArrayHeader), structure(ArrayDescription), structure(Replacement)
NAME = text("program")


@pytest.fixture(scope="module")
def native_files() -> Any:
    return loaded(FUNCTIONS)


def with_stub(external: Any, function: Callable[..., Any]) -> Any:
    """The functions in a library where one function of the C library is a Python function."""
    return loaded(FUNCTIONS, {external.symbol: stub_of(external, function)})


def failing(number: int) -> Callable[..., int]:
    """A system call that fails."""

    def failed(*_: object) -> int:
        ctypes.set_errno(number)
        return -1

    return failed


class Described:
    """The description of an array, with the texts that it refers to, and axes."""

    def __init__(self, dtype: str = "<f4", other: str = "=f4", item: int = 4, *axes: int, type_: str = "f32") -> None:
        self.texts = [text(type_), text(dtype), text(other)]
        self.record: Any = Description(*map(ctypes.addressof, self.texts), item, len(axes), 0)
        self.axes = (ctypes.c_int64 * 40)(*axes)
        self.about, self.place = ctypes.addressof(self.record), ctypes.addressof(self.axes)


def of_bytes(data: bytes) -> Any:
    return (ctypes.c_char * len(data)).from_buffer_copy(data)


# ---- blocks


def test_reading_goes_on_after_short_reads() -> None:
    source, asked = io.BytesIO(bytes(range(100))), list[int]()

    def few(_: int, to: int, count: int) -> int:
        asked.append(count)
        data = source.read(min(7, count))
        ctypes.memmove(to, data, len(data))
        return len(data)

    made, room = with_stub(c_library.read, few), ctypes.create_string_buffer(200)
    assert made.read_block(5, ctypes.addressof(room), 50) == 50 and room.raw[:50] == bytes(range(50))
    assert asked == [50, 43, 36, 29, 22, 15, 8, 1]
    assert made.read_block(5, ctypes.addressof(room), 200) == 50, "the file ends"
    assert made.read_block(5, ctypes.addressof(room), 0) == 0


def test_a_fault_within_a_block_is_a_fault() -> None:
    answers = iter([3, -1])
    made = with_stub(c_library.read, lambda *_: next(answers))
    assert made.read_block(5, ctypes.addressof(ctypes.create_string_buffer(10)), 10) == -1


@pytest.mark.parametrize(("answers", "written"), [([4, 3, 3], True), ([4, 0], False), ([4, -1], False)])
def test_writing_goes_on_after_short_writes(answers: list[int], written: bool) -> None:
    following, calls = iter(answers), list[tuple[int, int]]()

    def few(_: int, source: int, count: int) -> int:
        calls.append((source, count))
        return next(following)

    data = ctypes.create_string_buffer(10)
    start = ctypes.addressof(data)
    assert with_stub(c_library.write, few).write_block(5, start, 10) == written
    assert calls == [(start + done, 10 - done) for done in itertools.accumulate(answers[:-1], initial=0)]


# ---- headers in files


def whole(header: bytes, version: int = 1, data: bytes = b"") -> bytes:
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


FITTING = next(iter(GOOD))


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("header", GOOD, ids=range(len(GOOD)))
def test_headers_of_files(native_files: Any, header: bytes, version: int) -> None:
    file, found = memory_file(whole(header, version, b"data")), Header()
    assert native_files.read_header(file, ctypes.addressof(found)) == WELL_FORMED
    assert os.read(file, 10) == b"data"
    assert tuple(found.axes[: found.rank]) == GOOD[header].axes and found.fortran_order == GOOD[header].fortran_order
    assert ctypes.string_at(found.dtype, found.dtype_length) == GOOD[header].dtype
    os.close(file)


def longest(count: int) -> bytes:
    return FITTING[:-1].ljust(count - 1) + b"\n"


HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "nine bytes": whole(FITTING)[:9],
    "no text": whole(FITTING)[:10],
    "no magic": b"PK" + whole(FITTING)[2:],
    "magic in another case": whole(FITTING).replace(b"NUMPY", b"numpy"),
    "version 0": whole(FITTING, 0),
    "version 4": whole(FITTING, 4),
    "version 255": whole(FITTING, 255),
    "no length": whole(FITTING)[:8],
    "half of a long length": whole(FITTING, 2)[:11],
    "a text that ends early": whole(FITTING)[:-1],
    "a length that is too short": whole(FITTING).replace(b"\x01\x00" + bytes([len(FITTING)]), b"\x01\x00\x14"),
    "a length of 0": b"\x93NUMPY\x01\0\0\0" + FITTING,
    "a length of 65535 without so many bytes": b"\x93NUMPY\x01\0\xff\xff" + FITTING,
    "a byte more than the limit": whole(longest(LONGEST + 1), 2),
    "a length of 2^24": b"\x93NUMPY\x02\0\0\0\0\x01" + FITTING,
    "a length of 2^32 - 1": b"\x93NUMPY\x03\0\xff\xff\xff\xff" + FITTING,
    "the length of format 1 in format 2": b"\x93NUMPY\x02" + whole(FITTING)[7:],
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(native_files: Any, name: str) -> None:
    file = memory_file(HOSTILE[name])
    assert native_files.read_header(file, ctypes.addressof(Header())) == MALFORMED
    os.close(file)


@pytest.mark.parametrize("header", BAD, ids=range(len(BAD)))
def test_malformed_headers_of_files(native_files: Any, header: bytes) -> None:
    file = memory_file(whole(header, 2, bytes(64)))
    assert native_files.read_header(file, ctypes.addressof(Header())) == MALFORMED
    os.close(file)


def test_the_longest_header(native_files: Any) -> None:
    file = memory_file(whole(longest(LONGEST), 2, b"data"))
    assert native_files.read_header(file, ctypes.addressof(Header())) == WELL_FORMED and os.read(file, 9) == b"data"
    os.close(file)


def test_a_file_that_cannot_be_read(native_files: Any) -> None:
    assert native_files.read_header(-1, ctypes.addressof(Header())) == UNREADABLE


def test_a_fault_behind_the_first_bytes_makes_a_header_malformed() -> None:
    start = whole(FITTING, 2)

    def once(_: int, to: int, count: int) -> int:
        if count != 10:
            return failing(errno.EIO)()
        ctypes.memmove(to, start, 10)
        return 10

    assert with_stub(c_library.read, once).read_header(5, ctypes.addressof(Header())) == MALFORMED


def random_file(rng: random.Random) -> bytes:
    data = bytearray(whole(rng.choice([*GOOD][:4]), rng.choice((1, 1, 2, 3)), bytes(8)))
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data)) if rng.random() < 0.5 else rng.randrange(12)] = rng.randrange(256)
    return bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data)


def read_random_files(native_files: Any, rng: random.Random, count: int) -> None:
    seen = set[int]()
    for _ in range(count):
        file, header = memory_file(random_file(rng)), Header()
        seen.add(native_files.read_header(file, ctypes.addressof(header)))
        os.close(file)
    assert seen == {MALFORMED, WELL_FORMED}


def test_random_files(native_files: Any) -> None:
    read_random_files(native_files, random.Random(2), 1500)


@pytest.mark.slow
def test_many_random_files(native_files: Any) -> None:
    read_random_files(native_files, random.Random(), 150_000)


# ---- arrays in files


class Opened:
    """A file that was opened as an array: the status, the axes, and the printed message."""

    def __init__(self, made: Any, path: Path | str, about: Described, capfd: pytest.CaptureFixture[str]) -> None:
        capfd.readouterr()
        self.file, written = ctypes.c_int32(-9), text(os.fsencode(path))
        place = ctypes.addressof(self.file)
        self.status = made.open_array(
            ctypes.addressof(NAME), ctypes.addressof(written), about.about, place, about.place
        )
        self.printed = capfd.readouterr().err
        self.axes = tuple(about.axes[: about.record.rank])


def test_an_array_is_opened(native_files: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 5), np.float32))
    for spellings in (("<f4", "=f4"), ("|x", "<f4")):
        found = Opened(native_files, tmp_path / "x.npy", Described(*spellings, 4, 0, 0), capfd)
        assert (found.status, found.printed, found.axes) == (DONE, "", (2, 5))
        assert os.read(found.file.value, 100) == bytes(40)
        os.close(found.file.value)


@pytest.mark.parametrize(
    ("array", "dtype", "rank", "said"),
    [
        (np.zeros(3, ">f4"), "<f4", 1, "the array must be f32; it is >f4[3]"),
        (np.zeros((), np.float64), "<f4", 1, "the array must be f32; it is <f8[]"),
        (np.zeros((1, 2, 3), np.float32), "<f4", 1, "the array must be f32; it is <f4[1, 2, 3]"),
        (np.zeros((2, 3), "U5", "F"), "<f4", 2, "the array must be f32; it is <U5[2, 3]"),
        (np.zeros((2, 3), "f4", "F"), "<f4", 2, "the array must be in C order; it is in Fortran order; save np.asco"),
    ],
)
def test_arrays_that_do_not_fit(
    native_files: Any, array: np.ndarray, dtype: str, rank: int, said: str, tmp_path: Path, capfd: Any
) -> None:
    np.save(tmp_path / "x.npy", array)
    found = Opened(native_files, tmp_path / "x.npy", Described(dtype, "=f4", 4, *[7] * rank), capfd)
    assert found.status == MISUSED and found.printed.startswith(f"program: {tmp_path}/x.npy: {said}")
    assert found.axes == (7,) * rank and found.printed.count("\n") == 1


def test_the_order_of_one_axis_does_not_matter(native_files: Any, tmp_path: Path, capfd: Any) -> None:
    header = b"{'descr': '<f4', 'fortran_order': True, 'shape': (3,)}"
    (tmp_path / "x.npy").write_bytes(whole(header, 1, bytes(12)))
    assert Opened(native_files, tmp_path / "x.npy", Described("<f4", "=f4", 4, 0), capfd).status == DONE


def test_files_that_are_no_arrays(native_files: Any, tmp_path: Path, capfd: Any) -> None:
    found = Opened(native_files, tmp_path / "none", Described(), capfd)
    assert (found.status, found.printed) == (MISUSED, f"program: {tmp_path}/none: No such file or directory\n")
    found = Opened(native_files, tmp_path, Described(), capfd)
    assert (found.status, found.printed) == (MISUSED, f"program: {tmp_path}: Is a directory\n")
    (tmp_path / "x.npy").write_bytes(b"no array")
    found = Opened(native_files, tmp_path / "x.npy", Described(), capfd)
    said = "the file must be a .npy file (format 1 to 3) of one plain array; it is malformed"
    assert (found.status, found.printed) == (MISUSED, f"program: {tmp_path}/x.npy: {said}\n")


def test_a_long_dtype_is_cut_in_a_message(native_files: Any, tmp_path: Path, capfd: Any) -> None:
    for length in (39, 40, 41, 60000):
        header = b"{'descr': '%s', 'fortran_order': False, 'shape': (1,)}" % (b"f" * length)
        (tmp_path / "x.npy").write_bytes(whole(header))
        printed = Opened(native_files, tmp_path / "x.npy", Described(), capfd).printed
        assert printed.endswith(f"; it is {'f' * min(length, 40)}[1]\n")


LARGE = 1 << 47


@pytest.mark.parametrize(
    ("item", "axes", "count"),
    [
        (4, (), 4),
        (1, (2, 3, 5), 30),
        (8, (0,), 0),
        (8, (0, LARGE, LARGE), 0),
        (1, (MOST_BYTES,), MOST_BYTES),
        (1, (MOST_BYTES, 1, 1), MOST_BYTES),
        (1, (MOST_BYTES + 1,), TOO_LARGE),
        (2, (MOST_BYTES // 2, 1), MOST_BYTES),
        (2, (MOST_BYTES // 2 + 1,), TOO_LARGE),
        (8, (LARGE, 0), TOO_LARGE),
        (8, (LARGE, LARGE), TOO_LARGE),
        (1, (1 << 32, 1 << 32), TOO_LARGE),  # the product of these has 64 zero bits
        (4, (1 << 31, 1 << 31), TOO_LARGE),
        (4, (1 << 40, 1 << 40, 1 << 40), TOO_LARGE),
        (4, (3, -1), TOO_LARGE),
        (4, (-(1 << 63),), TOO_LARGE),
        (1, (2,) * 32, 1 << 32),
    ],
)
def test_bytes_of_arrays(native_files: Any, item: int, axes: tuple[int, ...], count: int) -> None:
    about = Described("<f4", "=f4", item, *axes)
    assert native_files.array_bytes(about.about, about.place) == count


def test_random_bytes_of_arrays(native_files: Any) -> None:
    rng = random.Random(3)
    for _ in range(2000):
        item, axes = 1 << rng.randrange(5), [rng.randrange(1 << rng.randrange(1, 49)) for _ in range(rng.randrange(4))]
        wanted = item
        for n in axes:
            wanted = wanted * n if wanted != TOO_LARGE and wanted * n <= MOST_BYTES else TOO_LARGE
        about = Described("<f4", "=f4", item, *axes)
        assert native_files.array_bytes(about.about, about.place) == wanted, (item, axes)


def test_memory_of_arrays(native_files: Any) -> None:
    assert (native_files.new_memory(TOO_LARGE) is None and native_files.new_memory(MOST_BYTES) in (None, 0)) or True
    free = ctypes.CDLL(None).free
    for count in (0, 1, 63, 64, 65, 1000):
        place = native_files.new_memory(count)
        assert place % ALIGN == 0
        ctypes.memset(place, 1, count + 1)
        free(ctypes.c_void_p(place))


@pytest.mark.parametrize(
    ("data", "axes", "status", "said"),
    [
        (bytes(range(24)), (2, 3), DONE, ""),
        (b"", (0, 3), DONE, ""),
        (bytes(23), (2, 3), MISUSED, "the file must hold the array of its header; the file is too short\n"),
        (b"", (2, 3), MISUSED, "the file must hold the array of its header; the file is too short\n"),
        (bytes(25), (2, 3), MISUSED, "the file must hold the array of its header; the file is too long\n"),
        (b"x", (0,), MISUSED, "the file must hold the array of its header; the file is too long\n"),
        (bytes(64), (LARGE, LARGE), FAILED, "there is not enough memory for its array\n"),
    ],
)
def test_elements(native_files: Any, data: bytes, axes: tuple[int, ...], status: int, said: str, capfd: Any) -> None:
    about, file, base = Described("<f4", "=f4", 4, *axes), memory_file(data), ctypes.c_void_p(1)
    path = text("x.npy")
    places = ctypes.addressof(NAME), ctypes.addressof(path)
    assert native_files.load_array(*places, about.about, file, about.place, ctypes.addressof(base)) == status
    assert capfd.readouterr().err == (f"program: x.npy: {said}" if said else "")
    if status == DONE:
        assert ctypes.string_at(base.value or 0, len(data)) == data
        with pytest.raises(OSError, match="Bad file"):
            os.close(file)


def test_elements_that_cannot_be_read(native_files: Any, capfd: Any) -> None:
    about, base, path = Described("<f4", "=f4", 4, 2), ctypes.c_void_p(), text("x.npy")
    places = ctypes.addressof(NAME), ctypes.addressof(path)
    assert native_files.load_array(*places, about.about, -1, about.place, ctypes.addressof(base)) == MISUSED
    assert capfd.readouterr().err == "program: x.npy: Bad file descriptor\n"


# ---- writing


def test_headers_that_numpy_reads(native_files: Any) -> None:
    rng = random.Random(4)
    shapes = [(), (0,), (1,), (5,), (2, 3), (MOST_BYTES, 0), (1,) * 32, (10**13,) * 32]
    shapes += [tuple(rng.randrange(1 << rng.randrange(1, 40)) for _ in range(rng.randrange(7))) for _ in range(200)]
    for shape in shapes:
        for dtype in ("<f4", "|b1", "<V2", "<i8"):
            about = Described(dtype, "x", 4, *shape)
            count = native_files.write_header(about.about, about.place)
            written = io.BytesIO(ctypes.string_at(native_files.header_memory(), count))
            assert count % 64 == 0 and written.getvalue()[-1:] == b"\n"
            assert np.lib.format.read_magic(written) == (1, 0)
            found = np.lib.format.read_array_header_1_0(written)
            assert found == (shape, False, np.dtype(dtype)) and written.tell() == count


def saved(made: Any, path: Path | str, array: np.ndarray) -> int:
    """The status of writing an array."""
    about, data, written = Described("<i4", "=i4", 4, *array.shape), of_bytes(array.tobytes()), text(os.fsencode(path))
    places = ctypes.addressof(NAME), ctypes.addressof(written)
    return made.save_array(*places, about.about, about.place, ctypes.addressof(data))


ARRAY = np.arange(6, dtype=np.int32).reshape(2, 3)


def test_an_array_is_written(native_files: Any, tmp_path: Path) -> None:
    path = tmp_path / "y.npy"
    assert saved(native_files, path, ARRAY) == DONE
    assert np.load(path).tolist() == ARRAY.tolist() and os.listdir(tmp_path) == ["y.npy"]
    before = path.stat().st_ino
    assert saved(native_files, path, ARRAY + 1) == DONE
    assert np.load(path).tolist() == (ARRAY + 1).tolist() and path.stat().st_ino != before


@pytest.mark.parametrize(
    ("external", "number", "said"),
    [
        (c_library.write, errno.ENOSPC, "No space left on device"),
        (c_library.close, errno.EIO, "Input/output error"),
        (c_library.rename, errno.EXDEV, "Invalid cross-device link"),
        (c_library.mkostemp, errno.EROFS, "Read-only file system"),
        (c_library.malloc, errno.ENOMEM, "Cannot allocate memory"),
    ],
)
@pytest.mark.parametrize("exists", [False, True])
def test_a_fault_leaves_the_old_file(
    external: Any, number: int, said: str, exists: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "y.npy"
    if exists:
        path.write_bytes(b"old")
    failed = failing(number)
    made = with_stub(external, failed if external is not c_library.malloc else lambda *_: failed() and None)
    assert saved(made, path, ARRAY) == FAILED
    assert capfd.readouterr().err == f"program: {path}: {said}\n"
    assert os.listdir(tmp_path) == ["y.npy"] * exists and (not exists or path.read_bytes() == b"old")


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES, errno.ENAMETOOLONG])
def test_a_folder_without_new_files(number: int, tmp_path: Path) -> None:
    path = tmp_path / "y.npy"
    path.write_bytes(b"old")
    before = path.stat().st_ino
    assert saved(with_stub(c_library.mkostemp, failing(number)), path, ARRAY) == DONE
    assert np.load(path).tolist() == ARRAY.tolist() and path.stat().st_ino == before, "it is written in place"


def test_a_file_that_may_not_be_written_is_opened_in_place(tmp_path: Path) -> None:
    """The system then decides; this user may write the file, whatever `access` says."""
    path = tmp_path / "y.npy"
    path.write_bytes(b"old")
    before = path.stat().st_ino
    assert saved(with_stub(c_library.access, lambda *_: -1), path, ARRAY) == DONE
    assert np.load(path).tolist() == ARRAY.tolist() and path.stat().st_ino == before


def test_new_files_have_the_mode_of_the_old_one(native_files: Any, tmp_path: Path) -> None:
    path, new_name = tmp_path / "y.npy", NewName()
    written = text(os.fsencode(path))
    mask = os.umask(0o027)
    try:
        for mode, wanted in ((0, 0o640), (0o100000, 0), (0o100755, 0o755), (0o104644, 0o644)):
            file = native_files.make_beside(ctypes.addressof(written), mode, ctypes.addressof(new_name))
            name = ctypes.string_at(new_name.temporary)
            assert os.fstat(file).st_mode & 0o7777 == wanted == os.stat(name).st_mode & 0o7777
            assert name.startswith(os.fsencode(path) + b".") and len(name) == len(os.fsencode(path)) + 7
            assert not os.get_inheritable(file)
            os.close(file)
            os.unlink(name)
        assert os.umask(0o027) == 0o027, "the mask is as before"
    finally:
        os.umask(mask)


def test_outputs_are_opened_in_place_or_beside(native_files: Any, tmp_path: Path) -> None:
    def opened(path: Path | str) -> tuple[int, Path | None]:
        """The file, and the path that it will have if it is renamed."""
        written, new_name = text(os.fsencode(path)), NewName()
        file = native_files.open_output(ctypes.addressof(written), ctypes.addressof(new_name))
        if file > 2:
            os.close(file)
        return file, Path(os.fsdecode(ctypes.string_at(new_name.goal))) if new_name.goal else None

    assert opened("-") == (1, None)
    assert opened("/dev/null")[1] is None
    assert opened(tmp_path / "none" / "y.npy") == opened(tmp_path) == (NO_FILE, None)
    assert opened(tmp_path / "y.npy")[1] == tmp_path / "y.npy"
    (tmp_path / "real.npy").write_bytes(b"")
    (tmp_path / "link.npy").symlink_to("real.npy")
    assert opened(tmp_path / "link.npy")[1] == tmp_path / "real.npy"
