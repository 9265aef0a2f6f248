"""Trust in the cache: only files and folders that other users cannot write are used."""

from __future__ import annotations

import grp
import os
import pwd
import signal
import stat
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from nacre.native import cache, trust
from nacre.native.cache import DiskCache
from nacre.runtime import tunables

KEY = bytes(range(32))
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to act as a second user")


def _hangs(*_: object) -> None:
    raise TimeoutError("it hangs")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files, in which private folders are searched; nothing hangs."""
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    monkeypatch.setattr(trust, "_warned", set[str]())
    before = signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(20)
    yield shared
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def kept(folder: Path, payload: bytes = b"code") -> DiskCache:
    disk = DiskCache(folder)
    disk.write(KEY, payload)
    return disk


def as_nobody(line: str, path: Path, data: bytes = b"") -> None:
    """Run a shell command as another user, who may traverse the path."""
    for parent in path.parents:
        if parent.name.startswith(("pytest-", "popen-", "test_")):
            parent.chmod(parent.stat().st_mode | 0o011)
    subprocess.run(["/bin/sh", "-c", line], check=True, input=data, user=NOBODY, group=NOBODY, extra_groups=[])


# ---- files


def test_only_this_user_can_access_files_and_folders(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        disk = kept(tmp_path / "a" / "cache")
    finally:
        os.umask(mask)
    for path in (tmp_path / "a", tmp_path / "a" / "cache"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for path in (tmp_path / "a" / "cache").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert disk.read(KEY) == b"code"


@pytest.mark.parametrize("mode", [0o602, 0o666, 0o777])
def test_a_file_that_others_may_write_is_not_used(tmp_path: Path, mode: int) -> None:
    disk = kept(tmp_path / "cache")
    os.chmod(disk.path(KEY), mode)
    assert disk.read(KEY) is None
    disk.write(KEY, b"anew")
    assert disk.read(KEY) == b"anew"


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device", "socket"])
def test_special_files_are_not_used_and_nothing_hangs(tmp_path: Path, kind: str) -> None:
    disk = kept(tmp_path / "cache")
    path = Path(disk.path(KEY))
    real = path.rename(tmp_path / "elsewhere")
    if kind == "link":
        path.symlink_to(real)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        os.mknod(path, stat.S_IFSOCK | 0o600)
    assert disk.read(KEY) is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        disk.write(KEY, b"anew")
    assert disk.read(KEY) == (None if kind == "folder" else b"anew")
    assert real.read_bytes().endswith(b"code"), "what a link led to stays"


def test_a_planted_link_empties_no_file(tmp_path: Path) -> None:
    mine = tmp_path / "thesis.tex"
    mine.write_text("years of work")
    os.utime(mine, (0, 0))
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    for name in ("trimmed", f"{KEY.hex()}.o.{os.getpid()}.0.tmp", tunables.FILE):
        (folder / name).symlink_to(mine)
    kept(folder)
    assert mine.read_text() == "years of work"
    (folder / "trimmed").unlink()
    os.mkfifo(folder / "trimmed")
    os.utime(folder / "trimmed", (0, 0))
    kept(folder)


def test_temporary_names_cannot_be_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    real = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (used.append(a), real(a, b)))
    for _ in range(2):
        kept(tmp_path / "cache")
    assert len(set(used)) == 2
    assert all(cache.TEMPORARY_NAME.fullmatch(Path(name).name) for name in used)


def test_a_huge_sparse_object_is_ignored(tmp_path: Path) -> None:
    disk = kept(tmp_path / "cache")
    with open(disk.path(KEY), "r+b") as file:
        file.truncate(1 << 42)
    other = bytes(32)
    disk.write(other, b"other")
    assert disk.read(KEY) is None
    disk.trim()
    assert disk.read(other) == b"other", "it takes no other's room"


# ---- folders


@pytest.mark.parametrize("flaw", ["mode", "above", "link"])
def test_a_folder_that_others_may_write_is_replaced_by_a_private_one(tmp_path: Path, place: Path, flaw: str) -> None:
    folder = tmp_path / "shared" / "cache"
    kept(folder, b"planted")
    if flaw == "mode":
        folder.chmod(0o777)
    elif flaw == "above":
        folder.parent.chmod(0o777)
    else:
        (tmp_path / "link").symlink_to(folder)
        folder.chmod(0o777)
        folder = tmp_path / "link"
    disk = DiskCache(folder)
    with pytest.warns(RuntimeWarning, match="only you may have write access") as said:
        assert disk.read(KEY) is None
        disk.write(KEY, b"mine")
        assert DiskCache(folder).read(KEY) == b"mine", "later processes find it again"
    assert len(said) == 1, "it is said once"
    (private,) = place.iterdir()
    assert private.name.startswith(f"nacre-{os.geteuid()}-")
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert disk.directory is not None and Path(disk.directory).parent == private


def test_a_sticky_folder_above_is_safe(place: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kept(place / "mine").directory == str(place / "mine")


def test_an_invalid_private_folder_is_not_used(tmp_path: Path, place: Path) -> None:
    prefix = f"nacre-{os.geteuid()}-"
    (place / f"{prefix}0").mkdir(mode=0o700)
    (place / f"{prefix}0").chmod(0o755)
    (place / f"{prefix}1").symlink_to(tmp_path)
    (place / f"{prefix}2").write_text("in the way")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="only you may have write access"):
        used = DiskCache(tmp_path / "open").directory
    assert used is not None and Path(used).parent.name not in (f"{prefix}{k}" for k in range(3))


def test_without_a_private_folder_nothing_is_cached(tmp_path: Path, place: Path) -> None:
    place.chmod(0o777)  # not sticky: each user may replace the files of others
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="nothing is kept"):
        assert DiskCache(tmp_path / "open").directory is None


@pytest.mark.parametrize(
    ("members", "users", "alone"),
    [
        ([], [("me", 1000), ("other", 1001)], True),
        (["me", "root"], [("me", 1000)], True),
        (["other"], [("me", 1000), ("other", 1001)], False),
        ([], [("me", 1000), ("other", 1000)], False),  # by its entry alone
        ([], [("me", 1000), ("root", 1000)], True),
    ],
)
def test_members_of_a_group(
    monkeypatch: pytest.MonkeyPatch, members: list[str], users: list[tuple[str, int]], alone: bool
) -> None:
    numbers = {"root": 0, "me": 1000, "other": 1001}
    listed = [pwd.struct_passwd((name, "x", numbers[name], first, "", "/", "/bin/sh")) for name, first in users]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(pwd, "getpwuid", lambda n: next(u for u in listed if u.pw_uid == n))
    monkeypatch.setattr(pwd, "getpwall", lambda: listed)
    monkeypatch.setattr(grp, "getgrgid", lambda n: grp.struct_group(("me", "x", n, members)))
    trust._alone_in.cache_clear()  # type: ignore[reportPrivateUsage]
    assert trust._alone_in(1000) is alone  # type: ignore[reportPrivateUsage]
    assert trust._alone_in(1001) is False, "another's own group"  # type: ignore[reportPrivateUsage]
    trust._alone_in.cache_clear()  # type: ignore[reportPrivateUsage]


# ---- a second user


@as_root
def test_nothing_is_created_in_another_users_home(tmp_path: Path, place: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(home)
    try:
        os.chown(home, NOBODY - 1, NOBODY - 1)
    except OSError:
        pytest.skip("this user namespace has no other user")
    for above in (home, tmp_path / "link"):
        trust._warned.clear()  # type: ignore[reportPrivateUsage]
        with pytest.warns(RuntimeWarning, match=f"belongs to another user \\({NOBODY - 1}\\)"):
            used = DiskCache(above / ".cache" / "nacre").directory
        assert used is not None and Path(used).parent.parent == place
        assert not list(home.iterdir())


def test_nothing_is_created_where_others_may_write(tmp_path: Path, place: Path) -> None:
    above = tmp_path / "open"
    above.mkdir()
    above.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="only you may have write access"):
        used = DiskCache(above / ".cache" / "nacre").directory
    assert used is not None and Path(used).parent.parent == place and not list(above.iterdir())


@as_root
def test_files_of_another_user_are_not_used(tmp_path: Path) -> None:
    disk = kept(tmp_path / "cache")
    os.chown(disk.path(KEY), NOBODY, NOBODY)
    assert disk.read(KEY) is None
    disk.write(KEY, b"mine")
    os.chown(tmp_path / "cache", NOBODY, NOBODY)
    with pytest.warns(RuntimeWarning, match=f"belongs to another user \\({NOBODY}\\)"):
        assert DiskCache(tmp_path / "cache").read(KEY) is None


@as_root
def test_a_second_users_object_is_not_run(tmp_path: Path) -> None:
    """The attack itself: another user puts an object into a world-writable folder that this user's cache reads."""
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    head = cache.HEADER.pack(cache.MAGIC, cache.FORMAT, 0, 4, KEY, cache.hashlib.sha256(b"evil").digest())
    path = folder / (KEY.hex() + ".o")
    path.write_bytes(b"x" * 84)
    path.chmod(0o666)  # this user's own file, writable by all
    as_nobody(f"cat > {path}", path, head + b"evil")
    assert path.read_bytes() == head + b"evil", "the other user did write it"
    with pytest.warns(RuntimeWarning, match="only you may have write access"):
        assert DiskCache(folder).read(KEY) is None
    folder.chmod(0o755)
    assert DiskCache(folder).read(KEY) is None, "nor where the folder was made safe, but not the file"


@as_root
def test_a_second_users_private_folder_is_not_used(tmp_path: Path, place: Path) -> None:
    planted = place / f"nacre-{os.geteuid()}-0"
    as_nobody(f"mkdir -m 700 {planted}", planted)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="only you may have write access"):
        used = DiskCache(tmp_path / "open").directory
    assert used is not None and Path(used).parent != planted


# ---- the cache never stops a program


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e400", "-5M", "1e308G", "M", "٣"])
@pytest.mark.filterwarnings("ignore:NACRE_CACHE_SIZE")
def test_any_cache_size_is_accepted_or_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("NACRE_CACHE_SIZE", text)
    assert cache.default_size() in (cache.DEFAULT_SIZE, 3)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 200_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"\xff\xfe",
        b"9" * 10_000,
        b"[]",
        b'{"x": 1e999}',
        b"\0" * 9,
    ],
)
def test_any_stored_choices_are_used_or_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    path = tmp_path / tunables.FILE
    path.write_bytes(data)
    path.chmod(0o600)
    monkeypatch.setattr(tunables, "_path", lambda: str(path))
    tunables.best.cache_clear()
    assert tunables.choose("a choice", (8, 4)) == 8
    tunables.keep({"a choice": 4})
    tunables.best.cache_clear()
    assert tunables.choose("a choice", (8, 4)) == 4
    path.chmod(0o666)
    tunables.best.cache_clear()
    assert tunables.choose("a choice", (8, 4)) == 8, "others may have written it"
    path.unlink()
    os.mkfifo(path)
    tunables.best.cache_clear()
    assert tunables.choose("a choice", (8, 4)) == 8
    tunables.best.cache_clear()


def test_choices_that_cannot_be_stored_cause_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunables, "_path", lambda: "/proc/nowhere/tuned.json")
    tunables.best.cache_clear()
    with pytest.warns(RuntimeWarning, match="tune: the folder for tuning results must be writable"):
        tunables.keep({"a choice": 4})
    assert tunables.choose("a choice", (8, 4)) == 4
    tunables.best.cache_clear()


def test_a_full_disk_causes_a_warning(tmp_path: Path) -> None:
    code = f"""if True:
    import resource, warnings, os
    from nacre.native.cache import DiskCache
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        DiskCache({str(tmp_path / "cache")!r}).write(bytes(32), bytes(100_000))
    print(len(said), os.listdir({str(tmp_path / "cache")!r}))
    """
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1 []\n"
