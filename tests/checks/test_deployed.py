"""Executables and libraries refuse indices out of range with the text of the error."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from deploy.calls import Library, can_link, execute
from nacre import deploy, nn
from nacre.base.errors import Error
from nacre.deploy.executable import failure
from nacre.deploy.executable.codes import CHECK, GOT, GOT_UNSIGNED, HIGH, LOW, MESSAGE
from nacre.deploy.executable.failure import FailureTemplate
from nacre.runtime.layouts import Outcome
from nacre.runtime.tables import row_type
from native.python.compiled import compiled, structure

F = nn.functional
TABLE = nc.arange(6.0).reshape(3, 2)
linked = pytest.mark.skipif(not can_link(), reason="nothing here links for this machine")


def rows(i: Any) -> Any:
    return F.embedding(i, TABLE)


def error_of(f: Any, *args: Any) -> str:
    with pytest.raises(Error) as raised:
        f(*args)
    return str(raised.value)


@linked
def test_an_executable_prints_the_error(tmp_path: Path) -> None:
    made = deploy.compile(rows, [nc.zeros(3, nc.int64)], tmp_path / "rows")
    given, out = tmp_path / "i.npy", tmp_path / "o.npy"
    for numbers in ([0, 2, 1], [0, -7, 1], [1 << 62, 0, 0], [2, 2, 2]):
        np.save(given, np.array(numbers))
        out.unlink(missing_ok=True)
        done = execute(made.path, given, out)
        if max(numbers) < 3 and min(numbers) >= 0:
            assert done.returncode == 0 and np.array_equal(np.load(out), rows(nc.tensor(numbers)).numpy())
        else:
            assert done.returncode == 1 and not out.exists()
            assert done.stderr.decode() == f"rows: {error_of(rows, nc.tensor(numbers))}\n"


@linked
def test_a_library_has_the_error_of_each_thread(tmp_path: Path) -> None:
    sizes = {"i": {0: nc.Dim("n", min=0, max=64)}}
    library = Library(
        deploy.compile(rows, [nc.zeros(3, nc.int64)], tmp_path / "librows.so", "shared", dynamic_shapes=sizes)
    )
    found = dict[int, list[bytes]]()

    def call(k: int) -> None:
        found[k] = []
        for n in range(1, 40):
            i = np.full(n, 1)
            i[-1] = 3 + k
            assert library.code([i, np.empty((n, 2), np.float32)], [n]) == CHECK
            found[k].append(library.error(CHECK))

    threads = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(4):
        assert set(found[k]) == {error_of(rows, nc.tensor([3 + k])).encode()}
    assert np.array_equal(library(np.array([2, 0]), n=2)[0], rows(nc.tensor([2, 0])).numpy())


@linked
def test_bounds_of_the_call_are_in_the_text(tmp_path: Path) -> None:
    def read(x: Any, i: Any) -> Any:
        return x[i]

    sizes = {"x": {0: nc.Dim("n", min=1, max=64)}}
    made = deploy.compile(
        read, [nc.zeros(3), nc.zeros(2, nc.int64)], tmp_path / "libr.so", "shared", dynamic_shapes=sizes
    )
    library = Library(made)
    for n, got in ((5, -6), (9, 9)):
        x, i = np.arange(n, dtype=np.float32), np.array([0, got])
        assert library.code([x, i, np.empty(2, np.float32)], [n]) == CHECK
        assert library.error(CHECK).decode() == error_of(read, nc.tensor(x), nc.tensor(i))


@pytest.mark.parametrize("got", [0, 7, -7, (1 << 63) - 1, -(1 << 63)])
def test_numbers_in_texts(got: int) -> None:
    (write,) = compiled(failure.write_failure)
    text = f"a {chr(LOW)} b {chr(HIGH)} c {chr(GOT)} d {chr(GOT_UNSIGNED)}".encode()
    templates = (structure(FailureTemplate) * 2)()
    texts = [ctypes.create_string_buffer(b"another"), ctypes.create_string_buffer(text)]
    for k, each in enumerate(texts):
        templates[k].text = ctypes.addressof(each)
    outcome = np.zeros(1, row_type(Outcome))
    outcome[0] = (2, 1, -12, 345, got)
    into = np.full(MESSAGE + 8, 0xA5, np.uint8)
    write(outcome.ctypes.data, ctypes.addressof(templates), into.ctypes.data)
    wanted = f"a -12 b 345 c {got} d {got % (1 << 64)}".encode()
    assert into.tobytes().startswith(wanted + b"\0") and (into[MESSAGE:] == 0xA5).all()


@pytest.mark.parametrize("length", [MESSAGE - 12, MESSAGE - 3, MESSAGE - 1, MESSAGE, MESSAGE + 5])
def test_long_texts_are_cut(length: int) -> None:
    (write,) = compiled(failure.write_failure)
    held = ctypes.create_string_buffer(b"x" * length + chr(GOT).encode() + b"y" * 9)
    templates = (structure(FailureTemplate) * 1)()
    templates[0].text = ctypes.addressof(held)
    outcome = np.zeros(1, row_type(Outcome))
    outcome[0] = (2, 0, 0, 1, -123456)
    into = np.full(MESSAGE + 8, 0xA5, np.uint8)
    write(outcome.ctypes.data, ctypes.addressof(templates), into.ctypes.data)
    whole = (b"x" * length + b"-123456" + b"y" * 9)[: MESSAGE - 1]
    assert into.tobytes().startswith(whole + b"\0") and (into[MESSAGE:] == 0xA5).all()
