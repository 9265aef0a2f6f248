"""The engine: targets, errors that show the line, loading, symbols, threads."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from nacre.base.errors import ArgumentError, CompileError, DeviceError
from nacre.native import engine
from nacre.native.llvm import NEST
from nacre.native.text import ModuleText

ADD = "define i64 @kernel(i64 %a) {{\n  %b = add i64 %a, {0}\n  ret i64 %b\n}}\n"
INT = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def call(library: engine.Library, value: int, name: str = "kernel") -> int:
    return INT(library.address(name))(value)


def test_import_does_not_import_llvmlite() -> None:
    code = (
        "import sys, nacre.native.pool, nacre.runtime.buffer; "
        "sys.exit('llvmlite' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], env=os.environ, check=False).returncode == 0


def test_libraries_may_define_the_same_names() -> None:
    target = engine.host_target()
    made = [engine.load(engine.compile_text(ADD.format(k), target)) for k in range(20)]
    assert [call(lib, 100) for lib in made] == [100 + k for k in range(20)]


def test_symbols_far_away_and_in_the_process() -> None:
    text = """declare i64 @elsewhere(i64)
    declare double @cos(double)
    @PyExc_TypeError = external global ptr
    define i64 @kernel(i64 %a) {
      %e = load ptr, ptr @PyExc_TypeError
      %n = ptrtoint ptr %e to i64
      %r = call i64 @elsewhere(i64 %n)
      ret i64 %r
    }
    define double @cosine(double %x) {
      %r = call double @cos(double %x)
      ret double %r
    }
    """
    other = INT(lambda n: n + 1)
    address = ctypes.cast(other, ctypes.c_void_p).value
    assert address is not None
    library = engine.load(engine.compile_text(text, engine.host_target()), {"elsewhere": address})
    assert call(library, 0) == id(TypeError) + 1
    cosine = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(library.address("cosine"))
    assert cosine(0.5) == pytest.approx(math.cos(0.5))


def test_code_calls_across_more_than_two_gibibytes() -> None:
    target = engine.host_target()
    image = engine.compile_text("define i64 @kernel(i64 %a) {\n  ret i64 77\n}\n", target)
    library = engine.load(image)
    code = INT(library.address("kernel"))
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    low = libc.mmap(0x10_0000_0000, 4096, 7, 0x22, -1, 0)  # readable, writable, executable; private
    ctypes.memmove(low, ctypes.cast(code, ctypes.c_void_p), 16)
    text = "declare i64 @far(i64)\ndefine i64 @kernel(i64 %a) {\n  %r = call i64 @far(i64 %a)\n  ret i64 %r\n}\n"
    near = engine.load(engine.compile_text(text, target), {"far": low})
    assert abs(near.address("kernel") - low) > 2**31
    assert call(near, 0) == 77


def test_a_library_outlives_other_lookups() -> None:
    text = ADD.format(1) + "define i64 @second(i64 %a) {\n  ret i64 5\n}\n"
    library = engine.load(engine.compile_text(text, engine.host_target()))
    assert call(library, 0, "second") == 5
    assert call(library, 1) == 2
    assert library.address("kernel") == library.address("kernel")


def test_unknown_names_are_errors(capfd: pytest.CaptureFixture[str]) -> None:
    target = engine.host_target()
    with pytest.raises(CompileError, match="missing"):
        engine.load(engine.compile_text(ADD.format(0), target)).address("missing")
    text = (
        "declare i64 @nowhere(i64)\ndefine i64 @kernel(i64 %a) {\n  %r = call i64 @nowhere(i64 %a)\n  ret i64 %r\n}\n"
    )
    with pytest.raises(CompileError, match="symbols"):
        engine.load(engine.compile_text(text, target)).address("kernel")
    assert "nowhere" in capfd.readouterr().err
    with pytest.raises(CompileError, match="load:"):
        engine.load(b"not an object").address("kernel")


def test_code_of_another_machine_is_refused() -> None:
    image = engine.compile_text(ADD.format(0), engine.cross_target("neon"))
    with pytest.raises(CompileError):
        engine.load(image).address("kernel")


def test_a_parse_error_shows_the_line() -> None:
    with pytest.raises(CompileError, match=r">\s+2 \|   %b = add i32 %a, 3"):
        engine.compile_text(ADD.format(3).replace("add i64", "add i32"), engine.host_target())


def test_a_verifier_error_shows_the_line() -> None:
    text = (
        "define i64 @kernel(i64 %a) {\nentry:\n  br label %b\nother:\n  %x = add i64 1, 2\n"
        "  br label %b\nb:\n  %y = add i64 %x, 3\n  ret i64 %y\n}\n"
    )
    with pytest.raises(CompileError, match="dominate"):
        engine.compile_text(text, engine.host_target())


def test_isa_is_chosen_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NACRE_ISA", "avx2")
    target = engine.host_target()
    assert target.isa == "avx2"
    assert "+avx512" not in target.features and "+avx2" in target.features
    text = (
        "define void @k(ptr %p) {\n  %x = load <16 x float>, ptr %p\n"
        "  %y = fadd <16 x float> %x, %x\n  store <16 x float> %y, ptr %p\n  ret void\n}\n"
    )
    assert "zmm" not in engine.emit_assembly(text, target)
    monkeypatch.setenv("NACRE_ISA", "sse9")
    with pytest.raises(ArgumentError, match="sse9"):
        engine.host_target()
    with pytest.raises(DeviceError, match="neon"):
        engine.host_target("neon")
    with pytest.raises(ArgumentError, match="vax"):
        engine.cross_target("vax")


@pytest.mark.parametrize(("isa", "word"), [("neon", "fmla"), ("avx2", "ymm"), ("avx512", "zmm")])
def test_cross_emission(isa: str, word: str) -> None:
    text = """declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
    define void @k(ptr %p) "prefer-vector-width"="512" {
      %x = load <16 x float>, ptr %p
      %y = call <16 x float> @llvm.fma.v16f32(<16 x float> %x, <16 x float> %x, <16 x float> %x)
      store <16 x float> %y, ptr %p
      ret void
    }
    """
    target = engine.cross_target(isa)
    assert word in engine.emit_assembly(text, target)
    assert engine.compile_text(text, target)[:4] == b"\x7fELF"


def test_counters_of_loops_are_hidden_where_addresses_have_an_index() -> None:
    module = ModuleText("sum", NEST)
    f = module.function("kernel", "i64", {"n": "i64"})
    with f.loop("i", 0, f["n"], 3, carry=[f.i64(0)]) as loop:
        with f.loop("j", 0, loop.index, carry=loop.carried) as inner:
            inner.next(f.add(inner.carried[0], inner.index))
        loop.next(*inner.results)
    f.ret(loop.results[0])
    text, target = module.text(), engine.host_target()
    for isa, count in (("avx2", 2), ("neon", 0)):
        hidden = engine.as_compiled(text, engine.cross_target(isa))
        assert hidden.count("call i64 @llvm.fshl.i64") == count
        assert hidden.count("declare i64 @llvm.fshl.i64") == (count > 0)
    plain = text.replace("; nest", "; module")
    assert engine.as_compiled(plain, engine.cross_target("avx2")) == plain
    expected = {n: sum(j for i in range(0, n, 3) for j in range(i)) for n in (10, 100)}
    assert call(engine.load(engine.compile_text(text, target)), 100) == expected[100]
    together = engine.compile_together([text, ADD.format(1).replace("kernel", "other")], target, {"kernel"})
    assert call(engine.load(together), 10) == expected[10]
    with pytest.raises(CompileError, match=r">\s+\d+ \|   %j.0.next.0.seen = add nsw i64 %j.0, %lost"):
        engine.compile_text(text.replace("%j.0, 1", "%j.0, %lost"), target)


def test_threads_compile_together() -> None:
    target = engine.host_target()

    def one(k: int) -> int:
        return call(engine.load(engine.compile_text(ADD.format(k), target)), 1)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(64))) == [k + 1 for k in range(64)]
