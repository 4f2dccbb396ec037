"""Kernels are compiled for this machine, or for the kind of processor that a variable names."""

import platform
from pathlib import Path

import pytest
from tests.libs.engine.kernels.kernel_build import load_build

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux", reason="only Linux has tags by glibc; to run it: use Linux"
)
LIBRARY = b"\x00GLIBC_2.17\x00GLIBC_2.34\x00GLIBC_2.4\x00"


def test_it_is_this_machine_unless_another_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = load_build(root)
    monkeypatch.delenv(build.TARGET_VARIABLE, raising=False)
    assert build.target_machine() == platform.machine()
    assert build.wheel_tag(LIBRARY) == f"py3-none-manylinux_2_34_{platform.machine()}"


@pytest.mark.parametrize(
    ("machine", "sets"),
    [("aarch64", ["neon", "i8mm"]), ("x86_64", ["avx2", "avx_vnni", "avx512", "amx"]), ("riscv64", [])],
)
def test_another_kind_has_its_own_instruction_sets_and_tag(
    root: Path, monkeypatch: pytest.MonkeyPatch, machine: str, sets: list[str]
) -> None:
    build = load_build(root)
    monkeypatch.setenv(build.TARGET_VARIABLE, machine)
    assert build.instruction_sets() == sets
    assert build.wheel_tag(LIBRARY) == f"py3-none-manylinux_2_34_{machine}"
