"""The object cache: hits, damage, unwritable disks, many writers, bounds."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import time
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.base.errors import CompileError
from nacre.native import cache, engine
from nacre.native.cache import DiskCache, ObjectCache

TEXT = "define i64 @kernel(i64 %a) {{\n  %b = add i64 %a, {0}\n  ret i64 %b\n}}\n"
KEY = bytes(range(32))


def answer(image: bytes) -> int:
    library = engine.load(image)
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.address("kernel"))(1)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.o"))


def test_a_second_process_need_not_compile(tmp_path: Path) -> None:
    target = engine.host_target()
    first = ObjectCache(DiskCache(tmp_path))
    image = first.compile(TEXT.format(4), target)
    assert first.compile(TEXT.format(4), target) is image
    second = ObjectCache(DiskCache(tmp_path))
    assert second.compile(TEXT.format(4), target) == image
    assert (first.compiled, second.compiled) == (1, 0)
    assert answer(image) == 5


def test_only_text_and_target_determine_the_key() -> None:
    host, other = engine.host_target(), engine.cross_target("neon")
    keys = {cache.key_of(text, target) for text in ("a", "b") for target in (host, other)}
    assert len(keys) == 4
    assert cache.key_of("a", host) == cache.key_of("a", engine.host_target())


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "header", "longer", "renamed"])
def test_a_damaged_file_is_compiled_again(tmp_path: Path, damage: str) -> None:
    target = engine.host_target()
    image = ObjectCache(DiskCache(tmp_path)).compile(TEXT.format(1), target)
    (path,) = files(tmp_path)
    data = bytearray(path.read_bytes())
    if damage == "renamed":
        ObjectCache(DiskCache(tmp_path)).compile(TEXT.format(2), target)
        data = bytearray(next(p for p in files(tmp_path) if p != path).read_bytes())
    elif damage == "flip":
        data[-10] ^= 1
    elif damage == "header":
        data[3] ^= 1
    else:
        data = {"cut": data[:-7], "empty": bytearray(), "longer": data + b"x"}[damage]
    path.write_bytes(data)
    again = ObjectCache(DiskCache(tmp_path))
    assert again.compile(TEXT.format(1), target) == image
    assert again.compiled == 1
    assert DiskCache(tmp_path).read(cache.key_of(TEXT.format(1), target)) == image


@given(st.binary(max_size=300), st.integers(0, 400), st.integers(1, 255))
def test_any_changed_byte_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, payload: bytes, place: int, change: int
) -> None:
    disk = DiskCache(tmp_path_factory.getbasetemp() / "bytes")
    disk.write(KEY, payload)
    assert disk.read(KEY) == payload
    data = bytearray(Path(disk.path(KEY)).read_bytes())
    place %= len(data)
    data[place] ^= change
    Path(disk.path(KEY)).write_bytes(data)
    unused = 12 <= place < 16
    assert disk.read(KEY) == (payload if unused else None)


@pytest.mark.parametrize("kind", ["file in the way", "no such disk", "read-only"])
def test_an_unusable_directory_causes_one_warning(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "cache"
    if kind == "file in the way":
        place.write_text("not a directory")
    elif kind == "no such disk":
        place = Path("/proc/nowhere/cache")
    else:

        def refuse(*_: object) -> None:
            raise OSError(30, "Read-only file system")

        monkeypatch.setattr(os, "replace", refuse)
    objects = ObjectCache(DiskCache(place))
    with pytest.warns(RuntimeWarning, match="NACRE_CACHE_DIR") as seen:
        for k in range(3):
            assert answer(objects.compile(TEXT.format(k), engine.host_target())) == k + 1
    assert len(seen) <= 2  # reading, writing
    assert not list(tmp_path.glob("**/*.tmp"))


def test_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for word in ("", "off", "OFF"):
        monkeypatch.setenv("NACRE_CACHE_DIR", word)
        assert cache.default_directory() is None
    monkeypatch.delenv("NACRE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.default_directory() == str(tmp_path / "nacre")
    objects = ObjectCache(DiskCache(None))
    assert answer(objects.compile(TEXT.format(1), engine.host_target())) == 2


@pytest.mark.parametrize(
    ("text", "size"),
    [("", 512 << 20), ("200M", 200 << 20), ("1g", 1 << 30), ("1.5KiB", 1536), ("12345", 12345), ("lots", 512 << 20)],
)
@pytest.mark.filterwarnings("ignore:NACRE_CACHE_SIZE")
def test_size(monkeypatch: pytest.MonkeyPatch, text: str, size: int) -> None:
    monkeypatch.setenv("NACRE_CACHE_SIZE", text)
    assert cache.default_size() == size


def test_the_least_recently_used_objects_are_removed_first(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path, 1 << 30)
    for k in range(10):
        disk.write(bytes([k]) * 32, bytes(1000))
        stamp = time.time() - 100_000 + 1000 * k
        os.utime(disk.path(bytes([k]) * 32), (stamp, stamp))
    assert disk.read(bytes(32)) is not None  # a use renews the oldest
    disk.limit = 8 * 1100
    disk.trim()
    kept = [k for k in range(10) if disk.read(bytes([k]) * 32) is not None]
    assert kept == [0, 5, 6, 7, 8, 9]


def test_writing_trims(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path, 100_000)
    for k in range(200):
        disk.write(k.to_bytes(32, "little"), bytes(5000))
    assert sum(p.stat().st_size for p in files(tmp_path)) <= 110_000


def test_many_processes_write_the_same(tmp_path: Path) -> None:
    code = f"""if True:
    from pathlib import Path
    from nacre.native import cache, engine
    objects = cache.ObjectCache(cache.DiskCache(Path({str(tmp_path)!r})))
    text = {TEXT!r}
    for k in range(15):
        objects.compile(text.format(k), engine.host_target())
    """
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len(files(tmp_path)) == 15 and not list(tmp_path.glob("*.tmp"))
    last = ObjectCache(DiskCache(tmp_path))
    assert answer(last.compile(TEXT.format(7), engine.host_target())) == 8
    assert last.compiled == 0


def test_threads_share_one_compilation(tmp_path: Path) -> None:
    objects = ObjectCache(DiskCache(tmp_path))
    target = engine.host_target()
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda k: objects.library(TEXT.format(k % 2), target), range(32)))
    assert objects.compiled == 2 and len(made) == 2


def test_unreferenced_libraries_are_unloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LIBRARIES", 3)
    monkeypatch.setattr(cache, "OBJECTS", 2)
    objects, target = ObjectCache(DiskCache(tmp_path)), engine.host_target()
    held = objects.library(TEXT.format(0), target)
    left = [weakref.ref(objects.library(TEXT.format(k), target)) for k in range(1, 6)]
    gc.collect()
    assert [r() is None for r in left] == [True, True, False, False, False]
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(held.address("kernel"))(1) == 1
    assert objects.library(TEXT.format(3), target) is left[2]()
    assert objects.library(TEXT.format(1), target) is not None and objects.compiled == 6


def test_compile_all_keeps_the_order(tmp_path: Path) -> None:
    objects = ObjectCache(DiskCache(tmp_path))
    images = objects.compile_all((TEXT.format(k) for k in range(12)), engine.host_target())
    assert [answer(image) for image in images] == list(range(1, 13))


def test_a_warning_is_never_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DiskCache(tmp_path / "file").write(KEY, b"payload")
    assert "NACRE_CACHE_DIR" in capsys.readouterr().err


def test_compile_all_raises_the_error_of_one_text(tmp_path: Path) -> None:
    objects = ObjectCache(DiskCache(tmp_path))
    with pytest.raises(CompileError):
        objects.compile_all([TEXT.format(1), "not LLVM", TEXT.format(2)], engine.host_target())


def test_libraries_differ_by_symbols(tmp_path: Path) -> None:
    objects = ObjectCache(DiskCache(tmp_path))
    text = "declare i64 @other(i64)\ndefine i64 @kernel(i64 %a) {\n  %r = call i64 @other(i64 %a)\n  ret i64 %r\n}\n"
    target = engine.host_target()
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    results: list[int] = []
    for k in (10, 20):
        other = objects.library(TEXT.format(k), target).address("kernel")
        library = objects.library(text, target, {"other": other})
        results.append(kind(library.address("kernel"))(1))
        assert objects.library(text, target, {"other": other}) is library
    assert results == [11, 21]
    assert objects.compiled == 3
