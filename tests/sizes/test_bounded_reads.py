"""Attention up to a length has the bits of attention to the rows cut off there, in all modes, and reads no others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from compile.passes.test_attention import ISAS
from deploy.calls import Library, can_link
from nacre import deploy, nn
from nacre.base.errors import Error
from nacre.compile.pipeline import compile_graph
from nacre.deploy.executable.codes import CHECK
from nacre.interpret.stage import stage
from nacre.native.engine import host_target
from nacre.native.pool import pool
from nacre.trace.value import make
from same_bits import canonical

F = nn.functional
attend = F.scaled_dot_product_attention
KEYS = 300
LENGTHS = (0, 1, 7, 255, 256, 257, KEYS)


def operands(*batch: int, queries: int = 1, keys: int = KEYS, seed: int = 0) -> list[Any]:
    """Queries, keys and values."""
    rng = np.random.default_rng(seed)
    shapes = [(*batch, queries, 20), (*batch, keys, 20), (*batch, keys, 17)]
    return [nc.asarray(rng.standard_normal(s).astype(np.float32)) for s in shapes]


def spoilt(x: Any, length: int) -> Any:
    """Rows with numbers behind a length that would reach every result."""
    rows = x.numpy().copy()
    rows[..., length:, :] = np.nan
    rows[..., length + 1 :: 2, :] = np.inf
    return nc.asarray(rows)


def masks(queries: int) -> Iterator[Any]:
    rng = np.random.default_rng(3)
    yield None
    yield nc.asarray(rng.random((queries, KEYS)) > 0.5)
    yield nc.asarray(rng.standard_normal((3, 1, KEYS)).astype(np.float32))


def cut(q: Any, k: Any, v: Any, length: int, mask: Any = None, **more: Any) -> Any:
    """Attention to the rows up to the length, which are all that there are."""
    if length == 0:
        return nc.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
    return attend(q, k[..., :length, :], v[..., :length, :], None if mask is None else mask[..., :length], **more)


# ---- bits


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries", [1, 5, 40])
def test_bits_are_those_of_the_rows_cut_off(queries: int, causal: bool) -> None:
    q, k, v = operands(2, 3, queries=queries)
    for mask in masks(queries):

        def f(q: Any, k: Any, v: Any, n: Any, mask: Any = mask) -> Any:
            return attend(q, k, v, mask, is_causal=causal, lengths=n)

        compiled = nc.jit(f)
        for length in LENGTHS:
            wanted = canonical(cut(q, k, v, length, mask, is_causal=causal))
            given = q, spoilt(k, length), spoilt(v, length)
            assert canonical(f(*given, length)) == wanted
            assert canonical(f(*given, nc.tensor(length))) == wanted
            assert canonical(compiled(*given, nc.tensor(length))) == wanted


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("queries", [1, 33])
def test_threads_and_instruction_sets(queries: int, isa: str, divided: None) -> None:
    q, k, v = operands(2, 3, queries=queries)
    lengths = nc.tensor([259, 31])
    trace = stage(lambda *xs: [attend(*xs[:3], lengths=xs[3])], [x.type for x in (q, k, v, lengths)])
    executable = compile_graph(trace.graph, None, host_target(isa)).executable
    wanted = b"".join(canonical(cut(q[b], k[b], v[b], n)) for b, n in enumerate((259, 31)))
    for threads in (1, 2, 5):
        pool().set_threads(threads)
        (buffer,) = executable.run([x.content.address for x in (q, k, v, lengths, *trace.captures)], {})
        found = make(executable.output_types[0], buffer)
        assert b"".join(canonical(found[b]) for b in range(2)) == wanted


def test_a_length_for_each_sequence_or_head() -> None:
    q, k, v = operands(2, 4)
    by_head = np.array([[1, 0, 300, 5], [256, 17, 2, 299]])
    for lengths in (by_head[:, 0], by_head, by_head.astype(np.uint8)[:, 1]):
        for f in (attend, nc.jit(attend)):
            found = f(q, k, v, lengths=nc.tensor(lengths))
            for b, h in np.ndindex(2, 4):
                length = int(np.broadcast_to(lengths.reshape(2, -1), (2, 4))[b, h])
                assert canonical(found[b, h]) == canonical(cut(q[b, h], k[b, h], v[b, h], length))


def test_heads_that_serve_several_queries() -> None:
    (q, _, _), (_, k, v) = operands(2, 6), operands(2, 3)
    by_head = nc.tensor(np.arange(12).reshape(2, 6) * 20)
    for lengths in (nc.tensor(50), nc.tensor([50, 7]), by_head):
        wanted = attend(q, nc.repeat(k, 2, axis=1), nc.repeat(v, 2, axis=1), lengths=lengths)
        for f in (attend, nc.jit(attend)):
            assert canonical(f(q, k, v, enable_gqa=True, lengths=lengths)) == canonical(wanted)


@pytest.mark.parametrize("dtype", [nc.float16, nc.bfloat16, nc.float64], ids=str)
def test_dtypes(dtype: nc.DType) -> None:
    q, k, v = (x.astype(dtype) for x in operands(2, 3))
    for f in (attend, nc.jit(attend)):
        for length in (1, 258):
            assert canonical(f(q, k, v, lengths=nc.tensor(length))) == canonical(cut(q, k, v, length))


def test_a_mask_gives_equal_numbers_and_loses_the_sign_of_zero() -> None:
    q, k, v = operands(3)
    masked = attend(q, k, v, nc.arange(KEYS) < 70)
    assert canonical(attend(q, k, v, lengths=70)) == canonical(masked)
    q, k, v = [[1.0]], [[3.0], [0.0], [0.0]], [[0.0], [-1e-45], [1.0]]
    found, masked = attend(q, k, v, lengths=2), attend(q, k, v, [True, True, False])
    assert canonical(found) == canonical(attend(q, k[:2], v[:2]))
    assert np.signbit(found.numpy()).all() and not np.signbit(masked.numpy()).any()


def test_batches_of_lengths() -> None:
    q, k, v = operands(3)
    lengths = nc.tensor([3, 300, 41])
    rows = nc.vmap(lambda q, k, v, n: attend(q, k, v, lengths=n))
    shared = nc.vmap(lambda n: attend(q, k, v, lengths=n))
    several = nc.vmap(lambda q: attend(q, k, v, lengths=lengths))
    for each in (lambda f: f, nc.jit):
        found = each(rows)(q, k, v, lengths)
        assert all(canonical(found[b]) == canonical(cut(q[b], k[b], v[b], int(n))) for b, n in enumerate(lengths))
        found = each(shared)(lengths)
        assert all(canonical(found[b]) == canonical(cut(q, k, v, int(n))) for b, n in enumerate(lengths))
        assert canonical(each(several)(nc.stack([q, -q]))[1]) == canonical(attend(-q, k, v, lengths=lengths))


def test_symbolic_sizes() -> None:
    f = nc.jit(attend)
    for keys in (9, 300, 40):
        q, k, v = operands(2, keys=keys)
        for length in (0, 5, keys):
            assert canonical(f(q, k, v, lengths=nc.tensor(length))) == canonical(cut(q, k, v, length))
    assert len(f.concrete_functions) == 2


# ---- derivatives


def test_derivatives_are_those_of_the_rows_cut_off() -> None:
    q, k, v = operands(2, 3, queries=4)
    weights = nc.random.normal((2, 3, 4, 17))
    for mask in masks(4):

        def loss(q: Any, k: Any, v: Any, n: Any, mask: Any = mask) -> Any:
            return nc.sum(attend(q, k, v, mask, lengths=n) * weights)

        def short(q: Any, k: Any, v: Any, n: int, mask: Any = mask) -> Any:
            return nc.sum(cut(q, k, v, n, mask) * weights)

        found = nc.grad(loss, (0, 1, 2))
        for length in (1, 70, KEYS):
            wanted = nc.grad(lambda *xs, n=length, f=short: f(*xs, n), (0, 1, 2))(q, k, v)
            given = q, spoilt(k, length), spoilt(v, length), nc.tensor(length)
            eager = found(*given)
            assert all(nc.all(x == y) for x, y in zip(eager, wanted, strict=True))
            assert not eager[1][..., length:, :].numpy().any() and not eager[2][..., length:, :].numpy().any()
            assert list(map(canonical, nc.jit(found)(*given))) == list(map(canonical, eager))


def test_without_keys_nothing_moves() -> None:
    q, k, v = operands(2)
    for f in (nc.grad(lambda *xs: nc.sum(attend(*xs, lengths=0)), (0, 1, 2)),):
        assert not any(x.numpy().any() for x in (*f(q, k, v), *nc.jit(f)(q, spoilt(k, 0), spoilt(v, 0))))


def test_forward_mode_and_second_derivatives() -> None:
    q, k, v = (x.astype(nc.float64) for x in operands(keys=6))

    def both(n: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return lambda q: nc.sum(attend(q, k, v, lengths=n) ** 2), lambda q: nc.sum(cut(q, k, v, n) ** 2)

    f, g = both(4)
    np.testing.assert_allclose(nc.hessian(f)(q).numpy(), nc.hessian(g)(q).numpy(), rtol=1e-12)
    for found, wanted in zip(nc.jvp(f, (q,), (q,)), nc.jvp(g, (q,), (q,)), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12)


# ---- errors


def text_of(f: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(nc.ArgumentError) as raised:
        f(*args)
    return str(raised.value)


@pytest.mark.parametrize("wrong", [-1, KEYS + 1, 1 << 62])
def test_lengths_out_of_range_are_refused_in_every_mode(wrong: int) -> None:
    q, k, v = operands(2)
    wanted = f"attention: lengths must be in [0, 301), up to the number of keys; got {wrong}"
    lengths = nc.tensor([5, wrong])
    each = nc.vmap(lambda q, k, v, n: attend(q, k, v, lengths=n))
    for f in (lambda *xs: attend(*xs[:3], lengths=xs[3]), each):
        assert text_of(f, q, k, v, lengths) == text_of(nc.jit(f), q, k, v, lengths) == wanted
    assert text_of(lambda: attend(q, k, v, lengths=wrong)) == wanted


def test_other_arguments_that_do_not_fit() -> None:
    q, k, v = operands(2, 3)
    with pytest.raises(nc.DTypeError, match="lengths must be integers; got f32"):
        attend(q, k, v, lengths=nc.tensor(2.0))
    with pytest.raises(nc.ShapeError, match=r"leading sizes of \[2, 3\]; got .*i64\[3\]"):
        attend(q, k, v, lengths=nc.tensor([1, 2, 3]))
    with pytest.raises(nc.ArgumentError, match=r"dropout_p must be 0 with lengths; got 0\.5"):
        attend(q, k, v, lengths=2, dropout_p=0.5)
    with pytest.raises(nc.ArgumentError, match="scale of causal attention with lengths must be positive"):
        attend(q, k, v, lengths=2, scale=-1.0, is_causal=True)


# ---- decoding


class Cache:
    """Keys and values of some sequences, and a step that adds a row to each and attends to all up to it."""

    def __init__(self, sequences: int, rows: int) -> None:
        self.keys, self.values = (nn.Buffer(nc.zeros((sequences, 4, rows, 16))) for _ in range(2))
        self.numbers = nc.arange(sequences)

    def step(self, q: Any, k: Any, v: Any, position: Any) -> Any:
        at = (slice(None), slice(None), position) if position.ndim == 0 else (self.numbers, slice(None), position)
        self.keys[at] = k
        self.values[at] = v
        return attend(q, self.keys.value, self.values.value, lengths=position + 1)


def rows(sequences: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    shapes = (sequences, 4, 1, 16), (sequences, 4, 16), (sequences, 4, 16)
    return [nc.asarray(rng.standard_normal(s).astype(np.float32)) for s in shapes]


@pytest.mark.parametrize("apart", [False, True])
def test_a_step_has_the_bits_of_whole_sequences_and_works_in_place(apart: bool) -> None:
    cache, eager = Cache(3, 40), Cache(3, 40)
    compiled = nc.jit(cache.step)
    starts = np.array([4, 0, 9]) if apart else np.array(0)
    places: set[int] = set()
    for n in range(12):
        given = *rows(3, n), nc.tensor(starts + n)
        assert canonical(compiled(*given)) == canonical(eager.step(*given))
        if n:
            places.add(cache.keys.cell.content.address)
    assert len(places) == 1
    (variant,) = compiled.concrete_functions
    assert variant.in_place is not None and set(variant.in_place.variables) == {cache.keys, cache.values}


def test_a_step_out_of_range_changes_nothing() -> None:
    cache = Cache(2, 8)
    compiled = nc.jit(cache.step)
    compiled(*rows(2, 0), nc.tensor(7))
    before = canonical(cache.keys.value), canonical(cache.values.value)
    for position in (8, -2):
        with pytest.raises(Error):
            compiled(*rows(2, 1), nc.tensor(position))
        assert (canonical(cache.keys.value), canonical(cache.values.value)) == before


UNREADABLE = """
import ctypes, mmap
import nacre as nc
from nacre import nn

f = nc.jit(lambda q, k, v, n: nn.functional.scaled_dot_product_attention(q, k, v, lengths=n))
q, k, v = nc.ones((1, 1, 64)), nc.ones((1, 4096, 64)), nc.ones((1, 4096, 64))
wanted = f(q, k, v, nc.tensor(100)).tolist()
libc = ctypes.CDLL(None, use_errno=True)
parts = [(-(-(x.content.address + 256 * 200) // mmap.PAGESIZE) * mmap.PAGESIZE, 256 * 3000) for x in (k, v)]
for start, size in parts:
    assert libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), 0) == 0
found = f(q, k, v, nc.tensor(100)).tolist()
for start, size in parts:
    assert libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), 3) == 0
assert found == wanted
"""


def test_later_rows_are_not_read() -> None:
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", UNREADABLE], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.skipif(not can_link(), reason="nothing here links for this machine")
def test_ahead_of_time(tmp_path: Path) -> None:
    q, k, v = operands(2)

    def f(q: Any, k: Any, v: Any, n: Any) -> Any:
        return attend(q, k, v, lengths=n)

    library = Library(deploy.compile(f, [q, k, v, nc.tensor([1, 2])], tmp_path / "libf.so", "shared"))
    for lengths in ([1, 300], [0, 257]):
        (found,) = library(q.numpy(), k.numpy(), v.numpy(), np.array(lengths))
        assert canonical(found) == canonical(f(q, k, v, nc.tensor(lengths)))
    arrays = [q.numpy(), k.numpy(), v.numpy(), np.array([1, 301]), np.zeros((2, 1, 17), np.float32)]
    assert library.code(arrays, []) == CHECK
    assert library.error(CHECK).decode() == text_of(f, q, k, v, nc.tensor([1, 301]))
