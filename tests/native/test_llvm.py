"""LLVM's functions: the libraries loaded for them, the inputs they refuse, and their results."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from nacre.base.errors import MissingExtra
from nacre.native import llvm

ANSWER = "define i64 @answer() {\n  ret i64 42\n}\n"


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], env=os.environ, check=True)


def machine() -> llvm.Machine:
    return llvm.Machine(llvm.process_triple(), llvm.host_cpu(), "", 2)


def test_python_classes_of_llvmlite_are_not_loaded() -> None:
    run("import sys, nacre as nc; float(nc.sum(nc.ones(3) + 1)); sys.exit('llvmlite.binding' in sys.modules)")


def test_an_unusual_library_path_comes_from_llvmlite() -> None:
    run(
        "from nacre.native import llvm; llvm.os.path.exists = lambda path: False; print(llvm.version()); "
        "import sys; sys.exit('llvmlite.binding' not in sys.modules)"
    )


def test_llvmlite_may_be_used_in_the_same_process() -> None:
    run(
        "import nacre as nc; x = nc.ones(3) + 1; import llvmlite.binding as b; b.initialize_native_target(); "
        "b.parse_assembly('define void @f() { ret void }').verify(); assert float(nc.sum(x * 2)) == 12"
    )


def test_invalid_texts_are_refused() -> None:
    for text, word in (
        (ANSWER[:-2], "expecting"),
        ("define i64 @f() {\n  ret i32 0\n}\n", "ret"),
        (
            "define void @f() {\na:\n  br label %b\nb:\n  %y = add i64 %x, 1\n  ret void\nc:\n"
            "  %x = add i64 1, 1\n  br label %b\n}\n",
            "dominate",
        ),
    ):
        with pytest.raises(llvm.LLVMError, match=word):
            llvm.VerifiedModule(text)
    with pytest.raises(llvm.LLVMError, match="nowhere"):
        llvm.Machine("nowhere-unknown-none", "", "", 2)


def test_modules_are_linked_and_hide_internal_functions() -> None:
    made = machine()
    with llvm.VerifiedModule(
        made.head + "declare i64 @answer()\ndefine i64 @more() {\n  %a = call i64 @answer()\n"
        "  %b = add i64 %a, 1\n  ret i64 %b\n}\n"
    ) as whole:
        whole.take_in(made.head + ANSWER)
        with pytest.raises(llvm.LLVMError, match="answer"):
            whole.take_in(made.head + ANSWER)
        whole.hide(frozenset({"more"}))
        text = made.emit(whole, as_object=False).decode()
        image = made.emit(whole, as_object=True)
    assert ".globl\tmore" in text
    assert ".globl\tanswer" not in text
    linker = llvm.Linker(machine())
    held = linker.link("test", image, {})
    address, also = linker.find("test", "more")
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(address)() == 43
    with pytest.raises(llvm.LLVMError, match="absent"):
        linker.find("test", "absent")
    del held, also


def test_the_host_is_known() -> None:
    assert llvm.process_triple().count("-") >= 2
    assert llvm.host_cpu()
    assert all(name and on in (True, False) for name, on in llvm.host_features().items())
    assert llvm.version().startswith("llvmlite ")


def test_a_function_that_llvmlite_lacks_is_an_error_with_the_version_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = llvm._shared_library()
    monkeypatch.setattr(llvm, "_shared_library", lambda: (ctypes.util.find_library("c"), ctypes.CDLL(None)._handle))
    with pytest.raises(MissingExtra, match=r"LLVMPY_ContextCreate is required; got .*'llvmlite>=0\.45,<0\.51'"):
        llvm._Functions()
    monkeypatch.setattr(llvm, "_shared_library", lambda: handle)
    assert llvm._Functions().version()


def test_the_required_version_of_llvmlite_is_that_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert llvm.REQUIRED in project["dependencies"]
