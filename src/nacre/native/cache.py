"""The object code cache: in this process, and on disk for later ones.

The key is a hash of the text, the target and the engine's version, which determine every byte of an object.  On disk,
each object is a file under NACRE_CACHE_DIR ("" or "off": none), else `$XDG_CACHE_HOME/nacre`, else `~/.cache/nacre`.
Objects are code.  So files that are damaged, or that another user could have written, are ignored, and a directory that
others may write is not used (`native/trust`).  An unusable disk causes one warning, never an error.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import struct
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from typing import TypeVar

from nacre.base.cached_property import cached_property
from nacre.base.errors import CompileError
from nacre.native import compile_workers, engine, trust
from nacre.native.engine import Library, Target

MAGIC = b"NacreObj"
FORMAT = 1
HEADER = struct.Struct("<8sIIQ32s32s")  # magic, format, unused, length, key, sha256 of the payload
DEFAULT_SIZE = 512 << 20
LARGEST = 1 << 30  # bytes of a file up to which it is read
OBJECT_NAME = re.compile(r"[0-9a-f]{64}\.o")  # other files of the directory are ignored
TEMPORARY_NAME = re.compile(r"([0-9a-f]{64}\.o|tuned\.json)\.[0-9a-f.]+\.tmp")
REFRESH_SECONDS = 6 * 3600  # age of a file's time from which on a use renews it
TRIM_SECONDS = 3600  # interval between measurements of the directory
OBJECTS = 4096  # limit of objects in memory
LIBRARIES = 512  # limit of loaded libraries without references

K = TypeVar("K")
V = TypeVar("V")


def key_of(text: str, target: Target) -> bytes:
    """The 32-byte key of the object for this text on this target."""
    digest = hashlib.sha256()
    for part in (engine.version(), target.isa, target.triple, target.cpu, target.features, text):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()


def default_directory() -> str | None:
    """The object directory, by the environment; None if the disk cache is off."""
    chosen = os.environ.get("NACRE_CACHE_DIR")
    if chosen is not None:
        return None if chosen.strip().lower() in ("", "off") else os.path.expanduser(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return None if base.startswith("~") else os.path.join(base, "nacre")  # without a home there is no cache


def default_size() -> int:
    """The limit of the directory in bytes: NACRE_CACHE_SIZE (`200M`, `1G` …), else 512 MiB."""
    value = os.environ.get("NACRE_CACHE_SIZE", "")
    text = value.strip().upper().removesuffix("B").removesuffix("I")
    if not text:
        return DEFAULT_SIZE
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1], 1)
    try:
        size = int(float(text if scale == 1 else text[:-1]) * scale)
    except (ValueError, OverflowError):  # not a number, or not a finite one
        size = -1
    if size < 0:
        trust.warn(
            f"NACRE_CACHE_SIZE: the value must be a number of bytes such as 200M; got {value!r}; "
            "correct it (the default of 512M is used)"
        )
        return DEFAULT_SIZE
    return size


class DiskCache:
    """Checked object files in one directory, bounded in size; none of its methods raises."""

    def __init__(self, directory: str | os.PathLike[str] | None, limit: int = DEFAULT_SIZE) -> None:
        self._requested = None if directory is None else os.fspath(directory)
        self.limit = limit
        self._unmeasured = 0  # bytes written since the directory was last trimmed
        self._writable = True

    @cached_property
    def directory(self) -> str | None:
        """The directory of the files: the requested one, a private one if other users could write that, or None."""
        return None if self._requested is None else trust.folder(self._requested)

    def path(self, key: bytes) -> str:
        """The file of a key."""
        return os.path.join(self.directory or "", key.hex() + ".o")

    def read(self, key: bytes) -> bytes | None:
        """The object of a key; None without a valid file that only trusted users could write."""
        if self.directory is None:
            return None
        path = self.path(key)
        found = trust.read(path, LARGEST)
        if found is None:
            return None
        data, status = found
        if len(data) < HEADER.size:
            return None
        magic, form, _, length, name, digest = HEADER.unpack_from(data)
        payload = data[HEADER.size :]
        sound = (
            magic == MAGIC
            and form == FORMAT
            and length == len(payload)
            and name == key
            and digest == hashlib.sha256(payload).digest()
        )
        if not sound:
            return None
        if time.time() - status.st_mtime > REFRESH_SECONDS:
            with contextlib.suppress(OSError):
                os.utime(path, follow_symlinks=False)  # file times order the files by use
        return payload

    def write(self, key: bytes, payload: bytes) -> None:
        """Write an object; several processes may write the same one."""
        if not self._writable or self.directory is None:
            return
        head = HEADER.pack(MAGIC, FORMAT, 0, len(payload), key, hashlib.sha256(payload).digest())
        try:
            os.makedirs(self.directory, mode=trust.PRIVATE_FOLDER, exist_ok=True)  # another process may have removed it
            trust.replace(self.path(key), head + payload)
        except OSError as fault:
            self._writable = False
            trust.warn(
                f"cache: the directory must be writable to keep code between processes; could not "
                f"write {self.directory}: {fault}; set NACRE_CACHE_DIR to another, or to off"
            )
            return
        self._unmeasured += len(payload)
        self._trim_sometimes()

    def _trim_sometimes(self) -> None:
        stamp = os.path.join(self.directory or "", "trimmed")
        try:
            due = time.time() - os.lstat(stamp).st_mtime > TRIM_SECONDS
        except OSError:
            due = True
        if due or self._unmeasured > self.limit // 16:
            self._unmeasured = 0
            with contextlib.suppress(OSError):
                trust.touch(stamp)
            self.trim()

    def trim(self) -> None:
        """Above the limit, remove the least recently used objects until three quarters of it remain; also remove
        the files of interrupted writers."""
        if self.directory is None:
            return
        files: list[tuple[float, int, str]] = []
        now = time.time()
        with contextlib.suppress(OSError), os.scandir(self.directory) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if OBJECT_NAME.fullmatch(entry.name) and status.st_size > LARGEST + HEADER.size:
                        os.unlink(entry.path)  # not an object, so it would never be read
                    elif OBJECT_NAME.fullmatch(entry.name):
                        files.append((status.st_mtime, status.st_size, entry.path))
                    elif TEMPORARY_NAME.fullmatch(entry.name) and now - status.st_mtime > TRIM_SECONDS:
                        os.unlink(entry.path)
        total = sum(size for _, size, _ in files)
        if total <= self.limit:
            return
        for _, size, path in sorted(files):
            if total <= self.limit * 3 // 4:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
                total -= size


class ObjectCache:
    """Objects and loaded libraries of this process, over a DiskCache; thread-safe."""

    def __init__(self, disk: DiskCache | None = None) -> None:
        self.disk = disk or DiskCache(default_directory(), default_size())
        self._objects: dict[bytes, bytes] = {}
        self._libraries: dict[tuple[bytes, tuple[tuple[str, int], ...]], Library] = {}
        self._loaded: weakref.WeakSet[Library] = weakref.WeakSet()
        atexit.register(self._stay)
        self._making: dict[bytes, threading.Lock] = {}
        self._begun: set[bytes] = set()
        self._lock = threading.Lock()
        self.compiled = 0  # objects that no cache contained

    def compile(self, text: str, target: Target) -> bytes:
        """Object code, from memory, from disk or from the compiler; then cached in both."""
        return self._object(key_of(text, target), text, target)

    def _object(self, key: bytes, text: str, target: Target) -> bytes:
        known = self._objects.get(key)
        if known is not None:
            return known
        with compile_workers.under_way():
            with self._lock:
                making = self._making.setdefault(key, threading.Lock())
            with making:  # one thread compiles, others that need the object wait
                known = self._objects.get(key) or self.disk.read(key)
                if known is None:
                    known = engine.compile_text(text, target)
                    self.compiled += 1
                    self.disk.write(key, known)
                with self._lock:
                    _insert(self._objects, key, known, OBJECTS)
            with self._lock:
                self._making.pop(key, None)
        return known

    def begin(self, text: str, target: Target) -> None:
        """Compile a text on another thread, if there is a processor for it, because it will be needed."""
        key = key_of(text, target)

        def make() -> None:
            """Compile the text; errors are left to the callers that need it."""
            try:
                self._object(key, text, target)
            finally:
                self._begun.discard(key)

        if key not in self._objects and key not in self._begun:
            self._begun.add(key)
            compile_workers.begin(len(text), make)

    def compile_all(self, texts: Iterable[str], target: Target) -> list[bytes]:
        """Object code of many texts, compiled on all cores."""
        work = list(texts)
        for text in work:
            self.begin(text, target)
        compile_workers.help_out()
        return [self.compile(text, target) for text in work]

    def library(self, text: str, target: Target, symbols: Mapping[str, int] | None = None) -> Library:
        """The loaded library of a text; the same one for the same text, target and symbols.

        It is unloaded when it has no references and other libraries have been requested since.
        """
        key = key_of(text, target)
        if (key, tuple(sorted((symbols or {}).items()))) not in self._libraries:
            self._object(key, text, target)
        return self.loaded(key, symbols)

    def known(self, key: bytes) -> bool:
        """Whether an object of a key is cached, in memory or on disk; this call loads it into memory."""
        if key not in self._objects:
            found = self.disk.read(key)
            if found is None:
                return False
            with compile_workers.under_way(), self._lock:
                _insert(self._objects, key, found, OBJECTS)
        return True

    def loaded(self, key: bytes, symbols: Mapping[str, int] | None = None) -> Library:
        """The loaded library of a cached object; it is unloaded when it has no references and others were used."""
        name = key, tuple(sorted((symbols or {}).items()))
        with compile_workers.under_way():
            known = self._libraries.get(name)
            if known is None:
                image = self._objects.get(key) or self.disk.read(key)
                if image is None:
                    raise CompileError(
                        "load: the object must be in memory or on disk; its file is missing "
                        f"from {self.disk.directory}; run again"
                    )
                made = engine.load(image, symbols)
                with self._lock:
                    known = self._libraries.setdefault(name, made)
                    self._loaded.add(known)
            with self._lock:
                _insert(self._libraries, name, known, LIBRARIES)
        return known

    def _stay(self) -> None:
        """At exit, leave libraries loaded, because threads may still run in them."""
        with self._lock:
            loaded = list(self._loaded)
        for library in loaded:
            library.keep()


def _insert(known: dict[K, V], key: K, value: V, limit: int) -> None:
    """Make an entry the most recent one; above the limit, drop the least recently used one."""
    known.pop(key, None)
    known[key] = value
    if len(known) > limit:
        del known[next(iter(known))]


_shared: ObjectCache | None = None
_shared_lock = threading.Lock()


def shared() -> ObjectCache:
    """The cache of this process, created at first use."""
    global _shared
    if _shared is None:
        with _shared_lock:
            if _shared is None:
                _shared = ObjectCache()
    return _shared


def compile_cached(text: str, target: Target) -> bytes:
    """Object code of a text by the process's cache."""
    return shared().compile(text, target)


def compile_all(texts: Iterable[str], target: Target) -> list[bytes]:
    """Object code of many texts, compiled in parallel, by the process's cache."""
    return shared().compile_all(texts, target)


def begin(text: str, target: Target) -> None:
    """Compile a text on another thread, by the process's cache."""
    shared().begin(text, target)


def library(text: str, target: Target, symbols: Mapping[str, int] | None = None) -> Library:
    """The loaded library of a text by the process's cache; it is never unloaded."""
    return shared().library(text, target, symbols)
