"""Dtypes that are only stored: what moves numbers takes them, everything else refuses them by name."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from collections.abc import Callable, Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nacre as nc
from deploy.calls import execute
from nacre import deploy, nn
from nacre.base.conversion import element
from nacre.base.dtypes import ALL, INTEGERS, STORAGE, STORED_FLOATS, STORED_INTEGERS, DType
from nacre.ir.parse import parse
from surface import FUNCTIONS

F = nn.functional
SHAPES = ((7,), (4, 4), (2, 4, 6), (2, 4, 6, 6))


def codes(dtype: DType, *shape: int) -> np.ndarray:
    """Numbers of a storage dtype in order, again and again."""
    count = int(np.prod(shape))
    return (np.arange(count) % (1 << dtype.bits)).astype(np.uint8).view(dtype.numpy).reshape(shape)


def bits(x: Any) -> np.ndarray:
    return x.numpy().view(np.uint8)


# ---- what moves numbers

MOVES: dict[str, Callable[[Any], Any]] = {
    "concat": lambda x: nc.concat([x, x], axis=1),
    "stack": lambda x: nc.stack([x, x]),
    "reshape": lambda x: x.reshape((-1, 2)),
    "transpose": lambda x: x.mT,
    "slice": lambda x: x[1, ::-2],
    "mask": lambda x: nc.where(nc.eye(4, 6, dtype=nc.bool), x, x[::-1]),
    "number": lambda x: nc.where(nc.eye(4, 6, dtype=nc.bool), x, 1),
    "take": lambda x: nc.take(x, nc.tensor([3, 0, 0]), axis=0),
    "take_along_axis": lambda x: nc.take_along_axis(x, nc.tensor([[1], [0], [2], [0]]), axis=1),
    "take_along_dim": lambda x: nc.take_along_dim(x, nc.tensor([[1], [0], [2], [0]]), axis=1),
    "index": lambda x: x[nc.tensor([1, 2]), nc.tensor([0, 5])],
    "index_update": lambda x: nc.index_update(x, 1, x[0]),
    "embedding": lambda x: F.embedding(nc.tensor([[1, 2]]), x),
    "roll": lambda x: nc.roll(x, 2, axis=1),
    "tile": lambda x: nc.tile(x, (1, 2)),
    "repeat": lambda x: nc.repeat(x, 2, axis=0),
    "tril": nc.tril,
    "broadcast": lambda x: nc.broadcast_to(x[:1], (3, 6)),
    "split": lambda x: nc.split(x, sections=2, axis=1)[1],
    "scan": lambda x: nc.scan(lambda c, row: (c, row), nc.tensor(0), x)[1],
    "cond": lambda x: nc.cond(nc.tensor(False), lambda: x, lambda: x[::-1]),
    "vmap": nc.vmap(lambda row: row[::-1]),
    "dynamic_slice": lambda x: nc.dynamic_slice(x, (nc.tensor(1), nc.tensor(2)), (2, 2)),
}


@pytest.mark.parametrize("dtype", STORAGE, ids=str)
def test_moves_take_the_codes(dtype: DType) -> None:
    """The result is that of the codes as uint8, which tell what each element is."""
    x = nc.asarray(codes(dtype, 4, 6))
    for name, move in MOVES.items():
        if name in ("tril", "number") and not dtype.has_zero:
            continue
        one = nc.asarray(codes(dtype, 2)).dtype is dtype and int(bits(nc.ones((), dtype=dtype)))
        wanted = move(nc.asarray(codes(dtype, 4, 6).view(np.uint8)))
        if name == "number":
            wanted = nc.where(nc.eye(4, 6, dtype=nc.bool), nc.asarray(bits(x)), nc.asarray(np.uint8(one)))
        for found in (move(x), nc.jit(move)(x)):
            assert found.dtype is dtype and found.shape == wanted.shape, name
            assert np.array_equal(bits(found), wanted.numpy()), name


@pytest.mark.parametrize("dtype", STORAGE, ids=str)
def test_tensors_of_numbers(dtype: DType) -> None:
    for made in (nc.full((2,), 1, dtype=dtype), nc.ones(2, dtype=dtype), nc.tensor([1, 1], dtype=dtype)):
        assert made.dtype is dtype and made.tolist() == [1, 1] and nc.jit(lambda x: x)(made).tolist() == [1, 1]
    held = nc.asarray(codes(dtype, 16))
    assert nc.asarray(held, dtype=nc.float64).dtype is nc.float64 and nc.asarray(held, dtype=dtype) is held
    assert repr(held[:1]).endswith(f"{dtype.short}[1])") and str(held.type) == f"{dtype.short}[16]"
    assert repr(held[:3]).partition(",")[0] == repr(held[:3].astype(dtype.number)).partition(",")[0]
    assert isinstance(held[1].item(), dtype.python) and float(held[2]) == held[2].item() and bool(held[1])
    for copied in (copy.deepcopy(held), pickle.loads(pickle.dumps(held)), nc.asarray(held, copy=True)):
        assert copied.type is held.type and np.array_equal(bits(copied), bits(held))
    assert nc.asarray(held.numpy(), copy=False).dtype is dtype
    assert np.asarray(held).dtype == getattr(ml_dtypes, dtype.name) and nc.DType is type(dtype)
    assert nc.tensor([held[0], held[1]]).dtype is dtype


def test_facts() -> None:
    for dtype in STORED_FLOATS:
        facts, theirs = nc.finfo(dtype), ml_dtypes.finfo(dtype.numpy)
        assert (facts.bits, facts.max, facts.eps) == (theirs.bits, float(theirs.max), float(theirs.eps))
    for dtype in STORED_INTEGERS:
        facts, theirs = nc.iinfo(dtype), ml_dtypes.iinfo(dtype.numpy)
        assert (facts.bits, facts.min, facts.max) == (dtype.bits, theirs.min, theirs.max)
    words = ("bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric")
    for dtype in STORAGE:
        assert dtype.is_storage and dtype.itemsize == 1 and not any(nc.isdtype(dtype, word) for word in words)
        assert nc.isdtype(dtype, dtype) and nc.can_cast(dtype, dtype) and not nc.can_cast(dtype, nc.float32)
        assert nc.result_type(dtype, dtype) is dtype
        assert pickle.loads(pickle.dumps(dtype)) is dtype and dtype == dtype.numpy


# ---- conversion


@pytest.mark.parametrize("dtype", STORAGE, ids=str)
def test_compiled_conversions_have_the_bits_of_the_definition(dtype: DType, tmp_path: Path) -> None:
    """Eager, compiled and ahead of time; `tests/kernel/elementary/test_storage.py` tests the definition."""
    rng = np.random.default_rng(7)
    numbers = rng.normal(size=999) * np.exp2(rng.integers(-20, 20, 999))
    x = nc.asarray(np.concatenate([numbers, codes(STORED_FLOATS[0], 256).astype(float), [np.inf, np.nan, 0.0, -0.0]]))
    y = nc.asarray(codes(dtype, 513))

    def convert(x: Any, y: Any) -> Any:
        wide = [x.astype(d) for d in ALL if not d.is_complex]
        return [*(v.astype(dtype) for v in wide), *(y.astype(d) for d in ALL if not d.is_complex)]

    eager = convert(x, y)
    made = deploy.compile(convert, [x, y], tmp_path / "convert")
    for name, array in (("x", x.numpy()), ("y", y.numpy())):
        np.save(tmp_path / f"{name}.npy", array)
    names = [tmp_path / f"{n}.npy" for n in ("x", "y", *made.interface.output_names)]
    done = execute(made.path, *names)
    assert done.returncode == 0, done.stderr
    for one, other, file in zip(eager, nc.jit(convert)(x, y), names[2:], strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes() == np.load(file).tobytes(), one.type


@pytest.mark.parametrize("dtype", [*STORAGE, nc.float16, nc.bfloat16, nc.float32, *INTEGERS], ids=str)
def test_saturation_gives_the_nearest_finite_number(dtype: DType) -> None:
    facts: Any = nc.finfo(dtype) if dtype.python is float else nc.iinfo(dtype)
    low, high = (facts.smallest_normal if not dtype.has_zero else facts.min), facts.max
    x = nc.tensor([np.inf, -np.inf, 1e300, -1e300, 1.0], dtype=nc.float64)
    for source in (nc.float64, nc.float32, nc.float16, nc.float8_e5m2):
        found = x.astype(source).astype(dtype, saturate=True)
        assert found.dtype is dtype and found.tolist() == [high, low, high, low, 1]
    for source in INTEGERS:
        ends = nc.iinfo(source)
        given = nc.tensor([ends.max, ends.min, 1], dtype=source)
        wanted = [min(ends.max, high), max(ends.min, low), 1]
        exact = [element(n if dtype.python is float else int(n), dtype).item() for n in wanted]
        assert given.astype(dtype, saturate=True).tolist() == [float(n) if dtype.python is float else n for n in exact]
    if dtype.python is float and dtype is not nc.float4_e2m1fn:
        assert np.isnan(float(nc.tensor(np.nan).astype(dtype, saturate=True)))


def test_saturation_beyond_the_standard_rounding() -> None:
    x = nc.tensor([448.0, 464.0, 464.1, -1000.0])
    assert x.astype(nc.float8_e4m3fn).tolist()[:2] == [448.0, 448.0]
    assert np.isnan(x.astype(nc.float8_e4m3fn).tolist()[2:]).all()
    assert x.astype(nc.float8_e4m3fn, saturate=True).tolist() == [448.0, 448.0, 448.0, -448.0]
    assert nc.tensor([300, -5, 7]).astype(nc.uint8, saturate=True).tolist() == [255, 0, 7]
    with pytest.raises(nc.DTypeError, match="astype: numbers must be real with saturate=True; got complex64 for int8"):
        nc.tensor([1j]).astype(nc.int8, saturate=True)


def test_numbers_must_fit() -> None:
    for dtype, value, held in (
        (nc.int4, 8, r"whole, -8 to 7"),
        (nc.uint2, -1, r"whole, 0 to 3"),
        (nc.int2, 0.5, r"whole, -2 to 1"),
        (nc.float8_e8m0fnu, 0.0, "above zero"),
        (nc.float8_e8m0fnu, -1, "above zero"),
        (nc.float8_e5m2, 1j, "real"),
    ):
        with pytest.raises(nc.DTypeError, match=rf"the number must fit {dtype.name} \({held}\); got .*; .*`x.astype"):
            nc.tensor([value], dtype=dtype)
        with pytest.raises(nc.DTypeError, match=rf"the number must fit {dtype.name} \({held}\)"):
            nc.full((2,), value, dtype=dtype)


# ---- bits


def test_bitcast_of_equal_and_of_other_widths() -> None:
    rng = np.random.default_rng(5)
    real = [*(d for d in ALL if not d.is_complex and not d.is_bool), *STORAGE]
    for source, target in product(real, real):
        k = max(source.bits // target.bits, 1)
        shape = (3, 2) if source.bits >= target.bits else (3, target.bits // source.bits)
        raw = rng.integers(0, 256, (3, shape[1] * source.itemsize), np.uint8)
        if source.bits < 8:
            raw &= (1 << source.bits) - 1
        x = nc.asarray(raw.view(source.numpy))
        for y in (nc.bitcast(x, target), nc.jit(lambda v: nc.bitcast(v, target))(x)):  # noqa: B023
            assert y.dtype is target
            assert y.shape == ((3,) if source.bits < target.bits else (*shape, *((k,) if k > 1 else ())))
            if source.bits >= 8 and target.bits >= 8:
                assert y.numpy().tobytes() == x.numpy().tobytes()
            assert bits(nc.bitcast(y, source)).tobytes() == raw.tobytes()


def test_integers_of_four_bits_are_packed_as_in_onnx() -> None:
    x = nc.tensor([[1, -8], [7, -1]], dtype=nc.int4)
    packed = nc.bitcast(x, nc.uint8)
    assert packed.tolist() == [0x81, 0xF7] and nc.bitcast(packed, nc.int4).tolist() == x.tolist()
    with pytest.raises(nc.ShapeError, match=r"bitcast: the last axis must have 2 elements of 4 bits for uint8; got u4"):
        nc.bitcast(x[:, :1], nc.uint8)
    for bad, remedy in ((nc.tensor(True), "x.astype"), (nc.tensor(1j), "nacre.view_as_real")):
        with pytest.raises(nc.DTypeError, match=f"bitcast: dtypes must be of real numbers; got .*; write {remedy}"):
            nc.bitcast(bad, nc.uint8)


# ---- refusals

MOVING = {  # functions that accept them: they move numbers, or make tensors of the shape and dtype
    *("atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to", "column_stack", "concat", "dstack"),
    *("empty_like", "expand_dims", "fft.fftshift", "fft.ifftshift", "flatten", "flip", "full", "full_like", "gather"),
    *("hstack", "index", "index_select", "index_update", "linalg.diagonal", "linalg.matrix_transpose"),
    *("masked_fill", "masked_select", "matrix_transpose", "meshgrid", "moveaxis", "narrow", "ones_like", "pad"),
    *(
        "permute_dims",
        "repeat",
        "repeat_interleave",
        "reshape",
        "roll",
        "split",
        "squeeze",
        "stack",
        "swapaxes",
        "take",
        "take_along_dim",
    ),
    *("take_along_axis", "tile", "tril", "triu", "unstack", "vstack", "where", "zeros_like", "astype", "bitcast"),
    *("dynamic_slice", "dynamic_update_slice", "nn.functional.channel_shuffle", "nn.functional.embedding"),
    *("nn.functional.max_unpool1d", "nn.functional.max_unpool2d", "nn.functional.max_unpool3d", "nn.functional.pad"),
    *("nn.functional.pixel_shuffle", "nn.functional.pixel_unshuffle", "nn.functional.unfold", "nn.pack_sequence"),
    *("nn.pad_sequence", "nn.pack_padded_sequence", "nn.unpad_sequence"),
    *("diagonal", "sliding_window_view"),
    *("clip",),  # without bounds
}
ELSEWHERE = ("nacre.random.", "nacre.nn.init.", "nacre.data.", "nacre.nn.utils.", "nacre.autograd.")
BY_HAND: dict[str, Callable[[Any], Any]] = {  # whose other arguments must fit
    "nn.functional.affine_grid": lambda x: F.affine_grid(x((2, 2, 3)), (2, 1, 4, 5)),
    "nn.functional.grid_sample": lambda x: F.grid_sample(x((1, 1, 3, 3)), x((1, 2, 2, 2))),
    "nn.functional.interpolate": lambda x: F.interpolate(x((1, 2, 5, 5)), size=(7, 8), mode="bilinear"),
    "nn.functional.layer_norm": lambda x: F.layer_norm(x((3, 6)), (6,)),
    "nn.functional.rms_norm": lambda x: F.rms_norm(x((3, 6)), (6,), eps=1e-5),
    "scatter_reduce": lambda x: nc.scatter_reduce(x((3,)), 0, [0, 0], x((2,)), "sum"),
    "sparse.csr": lambda x: nc.sparse.csr(x((3,)), [0, 0, 1], [0, 1, 3], (2, 2)),
    "nn.functional.fold": lambda x: F.fold(x((1, 4, 4)), 3, 2),
}
NAMES = [
    name.removeprefix("nacre.")
    for name, f in FUNCTIONS.items()
    if not name.startswith(ELSEWHERE)
    and not inspect.isbuiltin(f)
    and any("TensorLike" in str(p.annotation) for p in inspect.signature(f).parameters.values())
]
OPERATORS: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x + x,
    "number": lambda x: 1 * x,
    "equal": lambda x: x == x,
    "less": lambda x: x < 1,
    "negative": lambda x: -x,
    "abs": abs,
    "matmul": lambda x: x @ x,
    "power": lambda x: x**1,
    "invert": lambda x: ~x,
    "contains": lambda x: 1 in x,
    "sum": lambda x: x.sum(),
    "max": lambda x: x.max(),
    "round": lambda x: x.round(),
    "other dtype": lambda x: x + nc.ones((4, 4)),
    "arange": lambda x: nc.arange(4, dtype=x.dtype),
    "add in place": lambda x: x.__iadd__(x),
}


def candidates(p: inspect.Parameter) -> list[Any]:
    """Possible arguments of a parameter, as functions of a constructor and a shape."""
    kind = str(p.annotation)
    if kind.startswith(("Sequence[TensorLike", "list[")):
        return [lambda x, s: [x(s), x(s)]]
    if "TensorLike" in kind or kind == "Any":
        return [lambda x, s: x(s), lambda x, s: nc.zeros(s[:1], dtype=nc.int64), lambda x, s: nc.ones(s, dtype=bool)]
    if "int" in kind or "Size" in kind or "Axes" in kind:
        return [lambda x, s: 2, lambda x, s: 1]
    value = 0.7 if "float" in kind or "Scalar" in kind else "ij->ij" if "str" in kind else None
    return [lambda x, s: value]


def calls(f: Callable[..., Any]) -> Iterator[Callable[[Any], Any]]:
    """Calls of a function with possible arguments; the first operand is of the storage dtype."""
    wanted = [
        p for p in inspect.signature(f).parameters.values() if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    for shape in SHAPES:
        for chosen in islice(product(*map(candidates, wanted)), 12):
            named = [(p, make) for p, make in zip(wanted, chosen, strict=True)]
            yield lambda x, named=named, shape=shape: f(
                *(make(x, shape) for p, make in named if p.kind is not p.KEYWORD_ONLY),
                **{p.name: make(x, shape) for p, make in named if p.kind is p.KEYWORD_ONLY},
            )


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if k % 6 == 1 else pytest.mark.slow) for k, n in enumerate(NAMES) if n not in MOVING],
)
def test_all_other_functions_refuse_them_and_say_what_to_write(name: str) -> None:
    own = [BY_HAND[name]] if name in BY_HAND else list(calls(FUNCTIONS[f"nacre.{name}"]))
    refused = False
    for dtype in (nc.float8_e4m3fn, nc.int4):
        for call in own:
            made: list[Any] = []

            def x(shape: tuple[int, ...], dtype: DType = dtype, made: list[Any] = made) -> Any:
                made.append(nc.ones(shape, dtype=dtype))
                return made[-1]

            try:
                found = call(x)
            except nc.DTypeError as fault:
                refused |= (dtype.name in str(fault) or dtype.short in str(fault)) and "astype" in str(fault)
                continue
            except (nc.Error, TypeError):
                continue
            assert not made, f"{name} accepts {dtype.name}: {found}"
    assert refused, f"no call of {name} reached the refusal: write one in BY_HAND"


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", STORAGE, ids=str)
def test_operators_refuse_them(name: str, dtype: DType) -> None:
    x = nc.ones((4, 4), dtype=dtype)
    for f in (OPERATORS[name], nc.jit(OPERATORS[name])):
        with pytest.raises(nc.DTypeError, match=rf"(got {dtype.name}|got float32 and {dtype.name}).*astype\(nacre\."):
            f(x)


def test_primitives_from_outside_refuse_them() -> None:
    with pytest.raises(
        nc.DTypeError, match=r"primitive: dtypes must have arithmetic; got int4, .*; list int8, and write"
    ):
        nc.primitive("of_four_bits", element=lambda x: x, dtypes=[nc.int4])


# ---- networks


def test_buffers_of_modules_and_captures(tmp_path: Path) -> None:
    class Quantised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", nc.tensor([[0.3, 1.0], [2.0, -1.1]]).astype(nc.float8_e4m3fn))
            self.register_buffer("offset", nc.tensor([1, -2], dtype=nc.int4))

        def forward(self, x: nc.Tensor) -> nc.Tensor:
            return x @ self.weight.astype(nc.float32) + self.offset.astype(nc.float32)

    model, x = Quantised(), nc.tensor([[1.0, 2.0]])
    wanted = [[0.3125 + 4.0 + 1.0, 1.0 - 2.25 - 2.0]]
    assert model(x).tolist() == nc.jit(model)(x).tolist() == wanted
    assert model.to(nc.float16).weight.dtype is nc.float8_e4m3fn and model.offset.dtype is nc.int4
    state = {"weight": nc.ones((2, 2)), "offset": nc.tensor([3, 4])}
    model.load_state_dict(state)
    assert model.weight.dtype is nc.float8_e4m3fn and model.offset.tolist() == [3, 4]
    with pytest.raises(nc.DTypeError, match=r"load_state_dict: offset: the number must fit int4 \(whole, -8 to 7\)"):
        model.load_state_dict({**state, "offset": nc.tensor([3, 40])})
    loaded = nc.save_program(model, tmp_path / "model.safetensors", x)
    assert nc.load_program(tmp_path / "model.safetensors")(x).tolist() == loaded(x).tolist() == [[6.0, 7.0]]


def test_host_calls_get_and_return_them() -> None:
    x = nc.tensor([1, -2, 3], dtype=nc.int4)
    assert nc.jit(lambda v: nc.host_call(lambda y: y.numpy()[::-1], v.type, v))(x).tolist() == [3, -2, 1]


# ---- gradients


def test_a_conversion_to_a_stored_float_has_no_derivative() -> None:
    def stored(w: Any) -> Any:
        return nc.sum(w.astype(nc.float8_e4m3fn).astype(nc.float32) * w)

    w = nc.tensor([0.3, 1.1])
    told = r"astype: the derivative does not exist; .*; write x.detach\(\).astype\(dtype\)"
    for f in (nc.grad(stored), nc.jit(nc.grad(stored)), lambda w: nc.jvp(stored, (w,), (w,))):
        with pytest.raises(nc.GradientError, match=told):
            f(w)
    p = nn.Parameter(w)
    with pytest.raises(nc.GradientError, match=told):
        stored(p).backward()
    with nc.no_grad():
        assert p.astype(nc.float8_e5m2).dtype is nc.float8_e5m2

    def straight_through(w: Any) -> Any:
        rounded = w.detach().astype(nc.float8_e4m3fn).astype(nc.float32)
        return nc.sum((w + (rounded - w.detach())) * 2)

    assert nc.grad(straight_through)(w).tolist() == [2.0, 2.0]
    with pytest.raises(nc.DTypeError, match="requires_grad_: dtype must be floating-point; got float8_e4m3fn"):
        w.astype(nc.float8_e4m3fn).requires_grad_()


# ---- programs


def test_program_files_hold_weights_of_every_dtype(tmp_path: Path) -> None:
    held = [nc.asarray(codes(d, 3, 5)) for d in STORAGE]
    z = nc.tensor([[1 + 2j, 3.0]], dtype=nc.complex128)

    def f(x: Any) -> Any:
        return [x, *(v[::-1] for v in held), z, *(v.astype(nc.float32) for v in held)]

    nc.save_program(f, tmp_path / "program.safetensors", nc.ones(2))
    loaded = nc.load_program(tmp_path / "program.safetensors")
    for one, other in zip(f(nc.ones(2)), loaded(nc.ones(2)), strict=True):
        assert one.type is other.type and one.numpy().tobytes() == other.numpy().tobytes()


def test_executables_read_and_write_numpys_files(tmp_path: Path) -> None:
    for dtype in STORAGE:
        made = deploy.compile(lambda x: x[::-1], [nc.ones(20, dtype=dtype)], tmp_path / dtype.name)
        x = codes(dtype, 20)
        for given in (x, x.view("V1")):
            file = io.BytesIO()
            np.save(file, given)
            done = execute(made.path, "-", "-", data=file.getvalue())
            assert done.returncode == 0, done.stderr
            assert np.load(io.BytesIO(done.stdout)).view(np.uint8).tolist() == x[::-1].view(np.uint8).tolist()


def test_graphs_print_and_parse() -> None:
    for dtype in STORAGE:
        one, many = nc.asarray(codes(dtype, 2)), nc.asarray(codes(dtype, 1 << dtype.bits))
        graph = nc.jit(lambda x, many=many, one=one: (nc.concat([x, many]), one[1])).trace(one)
        assert parse(str(graph)) == graph and f"{dtype.short}[" in str(graph)
        made = nc.jit(lambda x: nc.where(nc.tensor([True, False]), x, 1)).trace(one)  # a literal
        assert parse(str(made)) == made
