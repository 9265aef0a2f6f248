"""Tensors by name in files: every dtype and its bits, files of other writers, and refused invalid files."""

from __future__ import annotations

import json
import os
import stat
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import TensorSpec, serialize_file
from safetensors.numpy import load_file, save_file

import nacre as nc
from nacre import nn, train
from nacre.base import dtypes
from nacre.base.errors import ArgumentError, DeviceError, Error
from nacre.formats.safetensors import NAMES, replacing

HELD = [  # the format has no name for complex128
    *(dtype for dtype in dtypes.ALL if dtype is not dtypes.complex128),
    *(dtype for dtype in dtypes.STORED_FLOATS if dtype.bits == 8),
]


@pytest.mark.parametrize("dtype", HELD, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (2, 0, 4)])
def test_every_dtype(dtype: dtypes.DType, shape: tuple[int, ...], tmp_path: Path) -> None:
    count = int(np.prod(shape)) * dtype.itemsize
    raw = np.random.default_rng(5).integers(0, 2 if dtype.kind == "b" else 256, count, np.uint8)
    x = nc.asarray(raw.view(dtype.numpy).reshape(shape))
    nc.save({"x": x, "y": nc.ones(3)}, tmp_path / "x.safetensors")
    found = nc.load(tmp_path / "x.safetensors")
    assert list(found) == ["x", "y"] and found["x"].type is x.type
    assert found["x"].numpy().tobytes() == raw.tobytes()
    assert set(NAMES.values()) == {*HELD, nc.float4_e2m1fn}


def test_elements_of_four_bits_are_packed(tmp_path: Path) -> None:
    x = nc.asarray(np.arange(16, dtype=np.uint8).view(nc.float4_e2m1fn.numpy).reshape(2, 8))
    nc.save({"x": x, "none": x[:, :0]}, tmp_path / "x.safetensors")
    found = nc.load(tmp_path / "x.safetensors")
    assert found["x"].type is x.type and found["x"].numpy().tobytes() == bytes(range(16))
    assert found["none"].type is x[:, :0].type
    raw = (tmp_path / "x.safetensors").read_bytes()
    assert raw.endswith(bytes.fromhex("1032547698badcfe"))  # the first of each two in the low bits
    for odd in (x[:, :3], x[0, 0]):
        with pytest.raises(ArgumentError, match="save: the last axis must have an even size, because two elements are"):
            nc.save({"x": odd}, tmp_path / "odd.safetensors")
    header = b'{"x":{"dtype":"F4","shape":[1,3],"data_offsets":[0,2]}}'
    (tmp_path / "odd.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"..")
    with pytest.raises(ArgumentError, match=r"x has an odd number of elements of 4 bits: \[1, 3\]"):
        nc.load(tmp_path / "odd.safetensors")


@pytest.mark.parametrize("dtype", dtypes.STORED_INTEGERS, ids=str)
def test_integers_of_fewer_bits_are_saved_as_bytes(dtype: dtypes.DType, tmp_path: Path) -> None:
    x = nc.asarray((np.arange(16, dtype=np.uint8) % (1 << dtype.bits)).view(dtype.numpy).reshape(2, 8))
    with pytest.raises(ArgumentError, match=r"got .*; write y = nacre.bitcast.*, nacre.uint8.* after loading") as fault:
        nc.save({"x": x}, tmp_path / "x.safetensors")
    pairs = str(fault.value).partition("y = nacre.bitcast(")[2].partition(", nacre.uint8")[0]
    y = nc.bitcast(eval(pairs, {"x": x}), nc.uint8)
    nc.save({"y": y}, tmp_path / "y.safetensors")
    back = nc.bitcast(nc.load(tmp_path / "y.safetensors")["y"], dtype).reshape(x.shape)
    assert back.type is x.type and back.numpy().tobytes() == x.numpy().tobytes() and y.size == 16 * dtype.bits // 8


def test_a_dtype_that_the_format_does_not_have(tmp_path: Path) -> None:
    z = nc.tensor([1 + 2j], dtype=nc.complex128)
    with pytest.raises(ArgumentError, match=r"got c128\[1\] for 'z'; write nacre.view_as_real\(x\)"):
        nc.save({"z": z}, tmp_path / "x.safetensors")
    nc.save({"z": nc.view_as_real(z)}, tmp_path / "x.safetensors")
    assert nc.view_as_complex(nc.load(tmp_path / "x.safetensors")["z"]).tolist() == [1 + 2j]


def test_views_are_saved_with_their_shape(tmp_path: Path) -> None:
    x = nc.reshape(nc.arange(12, dtype=nc.float32), (3, 4))
    nc.save({"t": x.T, "s": x[::2, 1:]}, tmp_path / "x.safetensors")
    found = nc.load(tmp_path / "x.safetensors")
    assert found["t"].tolist() == x.T.tolist() and found["s"].tolist() == x[::2, 1:].tolist()


def test_state_dicts_of_modules(tmp_path: Path) -> None:
    nc.random.seed(1)
    a, b = (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)) for _ in range(2))
    nc.save(a.state_dict(), tmp_path / "model.safetensors")
    assert b.load_state_dict(nc.load(tmp_path / "model.safetensors")) == ([], [])
    assert all(
        np.array_equal(x.numpy(), y.numpy())
        for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    )


def test_the_same_files_as_the_formats_own_library(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([True, False])}
    save_file(arrays, tmp_path / "theirs.safetensors", {"made": "elsewhere"})
    nc.save({k: nc.asarray(v) for k, v in arrays.items()}, tmp_path / "ours.safetensors")
    for found in (nc.load(tmp_path / "theirs.safetensors"), load_file(tmp_path / "ours.safetensors")):
        assert all(np.array_equal(np.asarray(found[k]), v) for k, v in arrays.items())


def test_writing_is_atomic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    nc.save({"x": nc.ones(3)}, path)
    before = path.read_bytes()

    def fails(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(DeviceError, match="No space left"):
        nc.save({"x": nc.zeros(3000)}, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["x.safetensors"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a pipe", "device", "socket"])
def test_special_files_are_never_replaced(kind: str, tmp_path: Path) -> None:
    if kind == "device" and os.geteuid() != 0:
        pytest.skip("root is needed to make a device")
    path = tmp_path / "there"
    if kind == "folder":
        path.mkdir()
    elif kind in ("device", "socket"):
        os.mknod(path, (stat.S_IFCHR if kind == "device" else stat.S_IFSOCK) | 0o600, os.makedev(1, 3))
    else:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to("pipe") if kind != "pipe" else (tmp_path / "pipe").rename(path)
    before = path.lstat()
    double = nc.freeze(lambda x: x * 2, nc.ones(2))
    for write in (
        lambda: nc.save({"x": nc.ones(2)}, path),
        lambda: nc.save_program(double, path),
        lambda: nc.deploy.compile(double, (), path, "object"),
    ):
        with pytest.raises(Error, match="folder" if kind == "folder" else "a regular file"):
            write()
        assert os.path.samestat(path.lstat(), before)
    assert len(os.listdir(tmp_path)) == 1 + (kind == "link to a pipe")


def test_the_mode_of_a_replaced_file_is_preserved(tmp_path: Path) -> None:
    path, link = tmp_path / "x.safetensors", tmp_path / "link"
    for mode in (0o600, 0o640, 0o666):
        path.touch()
        path.chmod(mode)
        nc.save({"x": nc.ones(2)}, path)
        assert stat.S_IMODE(path.stat().st_mode) == mode
    path.chmod(0o600)
    link.symlink_to(path)
    nc.save({"x": nc.zeros(2)}, link)
    assert not link.is_symlink() and stat.S_IMODE(link.stat().st_mode) == 0o600
    assert nc.load(path)["x"].tolist() == [1, 1], "what a link leads to stays"
    path.chmod(0o640)
    with replacing(path, "deploy", 0o777) as made:
        made.write_bytes(b"a program")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750, "who may read a program may run it"


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "n" * 300, "\0/x", "x/\0", ""])
def test_names_that_no_file_has(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    double = nc.freeze(lambda x: x * 2, nc.ones(2))
    for use in (
        lambda: nc.save({"x": nc.ones(2)}, name),
        lambda: nc.save_program(double, name),
        lambda: nc.load(name),
        lambda: nc.load_program(name),
        lambda: nc.deploy.compile(double, (), name, "object"),
    ):
        with pytest.raises(Error, match=r"must be|cannot read|in an existing folder"):
            use()
    nc.save({"x": nc.ones(2)}, "é" * 120)
    assert os.listdir() == ["é" * 120], "as long as a name may be"


@pytest.mark.parametrize("names", [{1: nc.ones}, {"__metadata__": nc.ones}, {"x": "text"}])
def test_values_that_cannot_be_saved(names: Any, tmp_path: Path) -> None:
    with pytest.raises(Error):
        nc.save({k: v(2) if callable(v) else v for k, v in names.items()}, tmp_path / "x.safetensors")
    assert not os.listdir(tmp_path)


def test_values_that_are_not_tensors_are_named(tmp_path: Path) -> None:
    for value, words in (
        ({"b": nc.ones(2)}, r"a dict for 'a'; join the names of nested dicts: {f'{a}.{b}': x"),
        (None, "'a' has another value: .* got NoneType"),
        ([nc.ones(2), nc.ones(3)], "equal shapes"),
        ("x", "got text"),
    ):
        with pytest.raises(Error, match=f"^save: each name must have a tensor; .*{words}"):
            nc.save({"a": value}, tmp_path / "x.safetensors")


def test_a_module_is_saved_by_its_state(tmp_path: Path) -> None:
    with pytest.raises(nc.Error, match=r"mapping; got a Linear; write save\(x\.state_dict\(\), path\)"):
        nc.save(nn.Linear(2, 2), tmp_path / "a.safetensors")


def test_files_of_another_format_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(2))
    with pytest.raises(ArgumentError, match=r"begins with b'.x93NUMPY.*; read it with nc.asarray\(np.load\(path\)\)"):
        nc.load(tmp_path / "x.npy")
    (tmp_path / "text.npy").write_text("1.0 2.0 3.0")
    with pytest.raises(ArgumentError, match=r"is not: .*begins with b'1.0 2.0 '$"):
        nc.load(tmp_path / "text.npy")


def test_pickles_of_torch_are_named_with_what_converts_them(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as file:
        file.writestr("a/data.pkl", b"\x80\x02}.")
    (tmp_path / "old.pt").write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")
    for name in ("a.pt", "old.pt"):
        with pytest.raises(ArgumentError, match=r"torch.save writes such pickles.*safetensors.torch.save_file\(torch"):
            nc.load(tmp_path / name)
    np.savez(tmp_path / "x.npz", x=np.ones(2))
    with pytest.raises(ArgumentError, match=r"read it with .*np.load\(path\).items") as raised:
        nc.load(tmp_path / "x.npz")
    assert "torch.save" not in str(raised.value)


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    path = train.Checkpoints(tmp_path).save(1, {"w": nc.ones(2)}, {})
    with pytest.raises(IsADirectoryError, match=r"it is a folder; pass .*model\.safetensors$"):
        nc.load(path)
    with pytest.raises(IsADirectoryError, match=r"it is a folder$"):
        nc.load(tmp_path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, kind in ((tmp_path / "none", FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(kind):
            nc.load(path)
    with pytest.raises(IsADirectoryError):
        nc.save({}, tmp_path)
    for path in (tmp_path / "none.safetensors", tmp_path):
        with pytest.raises(DeviceError, match="load: cannot read"):
            nc.load(path)
    with pytest.raises(DeviceError, match="save: cannot write into the folder"):
        nc.save({}, tmp_path / "none" / "x.safetensors")


# ---- hostile files


def written(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "longer than the file"),
    "short": (b"\x02\0\0\0", "longer than the file"),
    "a huge header": (written({}, length=1 << 62), "longer than the file"),
    "a header beyond the end": (written({}, length=3), "longer than the file"),
    "no JSON": (written(b"{x}"), "is not JSON"),
    "no UTF-8": (written(b'{"\xff": 1}'), "is not JSON"),
    "nested": (written(b"[" * 100_000), "is not JSON"),
    "a list": (written([]), "not a dictionary"),
    "a name twice": (written(b'{"a": 1, "a": 1}'), "occurs twice"),
    "metadata of numbers": (written({"__metadata__": {"a": 1}}), "metadata"),
    "metadata as a list": (written({"__metadata__": []}), "metadata"),
    "an entry that is a number": (written({"x": 1}), "must have dtype"),
    "an entry with more": (written({"x": entry() | {"more": 1}}, bytes(8)), "must have dtype"),
    "an unknown dtype": (written({"x": entry("F6_E2M3")}, bytes(8)), "has the dtype 'F6_E2M3'"),
    "a dtype that is a list": (written({"x": entry(["F32"])}, bytes(8)), "has the dtype"),
    "a negative size": (written({"x": entry(shape=[-2])}, bytes(8)), "must be a list of whole numbers"),
    "a size that is true": (written({"x": entry(shape=[True, 2])}, bytes(8)), "must be a list of whole numbers"),
    "a fraction": (written({"x": entry(shape=[2.0])}, bytes(8)), "must be a list of whole numbers"),
    "sizes whose product wraps": (written({"x": entry(shape=[1 << 47, 1 << 47, 0, 1 << 40])}, bytes(8)), "has 8 bytes"),
    "too many axes": (written({"x": entry(shape=[1] * 65, offsets=[0, 4])}, bytes(4)), "must be a list of"),
    "beyond the end": (written({"x": entry(offsets=[0, 16])}, bytes(8)), "outside"),
    "backwards": (written({"x": entry(offsets=[8, 0])}, bytes(8)), "outside"),
    "three offsets": (written({"x": entry(offsets=[0, 4, 8])}, bytes(8)), "outside"),
    "another length": (written({"x": entry(shape=[3])}, bytes(8)), "has 8 bytes"),
    "overlapping": (written({"x": entry(), "y": entry()}, bytes(8)), "overlap"),
    "a gap": (written({"x": entry(), "y": entry(offsets=[12, 20])}, bytes(20)), "gaps"),
    "more behind": (written({"x": entry()}, bytes(9)), "follow after"),
    "bools of two": (written({"x": entry("BOOL", [2], [0, 2])}, b"\1\2"), "neither 0 nor 1"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name: str, tmp_path: Path) -> None:
    data, message = HOSTILE[name]
    (tmp_path / "x.safetensors").write_bytes(data)
    with pytest.raises(ArgumentError, match=message):
        nc.load(tmp_path / "x.safetensors")


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=5), st.integers(-60, 4))
@settings(max_examples=200, deadline=None)
def test_files_of_any_bytes(changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(written({"x": entry(), "y": entry("BF16", [2, 1], [8, 12])}, bytes(range(12))))
    for place, value in changes:
        data[place % len(data)] = value
    path = Path(os.environ.get("TMPDIR", "/tmp"), f"nacre-any-bytes-{os.getpid()}.safetensors")
    path.write_bytes(data[:cut] if cut < 0 else data + bytes(cut))
    try:
        nc.load(path)
    except ArgumentError:
        pass
    finally:
        path.unlink()


# ---- what files are made of, and disks without room


def test_the_same_tensors_are_the_same_bytes(tmp_path: Path) -> None:
    code = """if True:
    import sys
    import nacre as nc
    from nacre import nn
    nc.random.seed(1)
    words = {f"key {k}": str(k) for k in sorted(range(40), key=lambda k: hash(str(k)))}
    tensors = {str(k): nc.ones(k + 1, dtype=("float32", "uint8", "int64")[k % 3]) for k in range(9)}
    nc.save({k: tensors[k] for k in sorted(tensors, key=hash)}, sys.argv[1] + "/tensors", words)
    nc.save_program(nn.Sequential(nn.Linear(3, 4), nn.ReLU()).eval(), sys.argv[1] + "/program", nc.ones((2, 3)))
    """
    found: list[tuple[bytes, bytes]] = []
    for seed in "1", "2", "3":
        (tmp_path / seed).mkdir()
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / seed)],
            check=True,
            timeout=60,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
        )
        found.append(((tmp_path / seed / "tensors").read_bytes(), (tmp_path / seed / "program").read_bytes()))
    assert found[0] == found[1] == found[2]


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        st.sampled_from(sorted(dtype.name for dtype in HELD)),
        max_size=8,
    )
)
@settings(max_examples=60)
def test_files_are_those_of_the_formats_own_library(
    tmp_path_factory: pytest.TempPathFactory, kinds: dict[str, str]
) -> None:
    kinds.pop("__metadata__", None)
    place = tmp_path_factory.getbasetemp() / "library.safetensors"
    held = {name: nc.arange(0, k % 4).astype(kind).numpy() for k, (name, kind) in enumerate(kinds.items())}
    nc.save(held, place)
    ours = place.read_bytes()
    serialize_file(
        {
            name: TensorSpec(dtype=a.dtype.name, shape=a.shape, data_ptr=a.ctypes.data, data_len=a.nbytes)
            for name, a in held.items()
        },
        place,
    )
    assert ours == place.read_bytes()


@pytest.mark.parametrize("shape", [[0, 1 << 47, 1 << 47], [1 << 47, 0, 1 << 20], [0] + [1 << 40] * 8])
def test_no_array_has_such_a_shape(tmp_path: Path, shape: list[int]) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(written({"x": entry(shape=shape, offsets=[0, 0])}))
    with pytest.raises(ArgumentError, match="63 bits"):
        nc.load(path)
    with pytest.raises(ArgumentError, match="63 bits"):
        nc.save({"x": nc.zeros(tuple(shape))}, tmp_path / "y.safetensors")
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]


def test_special_files_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(DeviceError, match="cannot read"):
            nc.load(path)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    code = """if True:
    import os, resource, signal, sys
    import nacre as nc
    nc.save({"a": nc.ones(3)}, sys.argv[1] + "/x")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        nc.save({"a": nc.ones(10_000)}, sys.argv[1] + "/x")
    except nc.Error as fault:
        print(type(fault).__name__, nc.load(sys.argv[1] + "/x")["a"].shape, os.listdir(sys.argv[1]))
    """
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))},
        timeout=60,
    )
    assert done.stdout == "DeviceError (3,) ['x']\n"
