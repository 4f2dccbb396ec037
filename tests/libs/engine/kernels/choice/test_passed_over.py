"""Sets that should be usable are named with a remedy; those of other processors, and slower ones, are not."""

from pathlib import Path

import pytest

from headrace.engine.kernels.choice import passed_over as module
from headrace.engine.kernels.choice.candidates import KernelCandidate
from headrace.engine.kernels.choice.passed_over import REPORT, passed_over
from headrace.engine.kernels.choice.processor import Processor
from headrace.engine.kernels.library import Instructions

AVX512 = "avx2 fma f16c avx512f avx512dq avx512bw avx512vl avx512_vnni"
ZEN4 = f"model name\t: AMD EPYC 9R14\nflags\t\t: fpu {AVX512} avx512_bf16\n\nprocessor\t: 1\nflags\t\t: fpu\n"
SAPPHIRE_RAPIDS = f"model name\t: Intel(R) Xeon(R)\nflags\t\t: {AVX512} avx_vnni amx_bf16 amx_tile amx_int8\n"
NEOVERSE_V1 = "BogoMIPS\t: 2100.00\nFeatures\t: fp asimd asimddp sve i8mm bf16\nCPU implementer\t: 0x41\n"
NO_X86 = "the kernels were compiled without it"
ABSENT = "this processor does not have it"


def processor(tmp_path: Path, facts: str) -> Processor:
    """Reads the facts of a processor as Linux tells them."""
    (tmp_path / "cpuinfo").write_text(facts)
    return Processor.here(tmp_path / "cpuinfo")


def told(
    monkeypatch: pytest.MonkeyPatch, reasons: dict[Instructions, str], here: Processor, can_run: set[Instructions]
) -> dict[str, tuple[str, str]]:
    """Returns what is said of each set that is named. Those without a reason are fine, and the fastest is chosen."""
    found = tuple(KernelCandidate(each, reasons.get(each, "")) for each in reversed(Instructions))
    monkeypatch.setattr(module, "candidates", lambda: found)
    monkeypatch.setattr(module, "why_not", lambda each: "" if each in can_run else reasons[each])
    chosen = max(each for each in Instructions if each not in reasons)
    return {each.instructions.name: (each.reason, each.remedy) for each in passed_over(chosen, here)}


def test_features_are_those_of_the_first_core(tmp_path: Path) -> None:
    zen4 = processor(tmp_path, ZEN4)
    assert zen4.name == "AMD EPYC 9R14"
    assert zen4.features == {"fpu", *AVX512.split(), "avx512_bf16"}
    arm = processor(tmp_path, NEOVERSE_V1)
    assert {"asimddp", "i8mm", "sve"} <= arm.features
    assert [each.name for each in Instructions if arm.has(each)] == ["PORTABLE", "NEON", "I8MM"]
    assert Processor.here(tmp_path / "missing").features == frozenset()


def test_slower_sets_and_those_of_other_processors_are_not_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sets = Instructions
    arm = dict.fromkeys((sets.I8MM, sets.NEON), NO_X86)
    reasons = {sets.AMX: ABSENT, sets.AVX_VNNI: ABSENT, **arm}
    assert told(monkeypatch, reasons, processor(tmp_path, ZEN4), {sets.AVX512, sets.AVX2, sets.PORTABLE}) == {}
    x86 = dict.fromkeys((sets.AMX, sets.AVX512, sets.AVX_VNNI, sets.AVX2), NO_X86)
    neoverse = processor(tmp_path, NEOVERSE_V1)
    assert told(monkeypatch, x86, neoverse, {sets.I8MM, sets.NEON, sets.PORTABLE}) == {}


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("the kernels were compiled without it", "newer C++ compiler"),
        ("the hypervisor shows no palette of tiles", "another type of processor"),
        ("the operating system does not permit tiles", "newer kernel of the system"),
        ("HEADRACE_ISA asks for avx512", "unset it"),
        ("tiles give wrong results, or are lost when processes take turns", REPORT),
    ],
)
def test_a_faster_set_of_this_processor_has_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reason: str, remedy: str
) -> None:
    sets = Instructions
    reasons = {sets.AMX: reason, sets.NEON: NO_X86, sets.I8MM: NO_X86}
    found = told(monkeypatch, reasons, processor(tmp_path, SAPPHIRE_RAPIDS), {sets.AVX512})
    assert set(found) == {"AMX"}
    assert found["AMX"][0] == reason
    assert remedy in found["AMX"][1]


def test_matrix_products_of_arm_that_the_compiler_lacked_have_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sets = Instructions
    reasons = dict.fromkeys((sets.AMX, sets.AVX512, sets.AVX_VNNI, sets.AVX2, sets.I8MM), NO_X86)
    found = told(monkeypatch, reasons, processor(tmp_path, NEOVERSE_V1), {sets.NEON, sets.PORTABLE})
    assert set(found) == {"I8MM"}
    assert "newer C++ compiler" in found["I8MM"][1]


def test_a_set_that_the_self_test_refused_is_named_even_if_it_is_slower(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sets, flaw = Instructions, "the exact product with U4 weights is off by 1.0e+00"
    reasons = {sets.AMX: ABSENT, sets.AVX_VNNI: ABSENT, sets.AVX2: flaw, sets.NEON: NO_X86, sets.I8MM: NO_X86}
    found = told(monkeypatch, reasons, processor(tmp_path, ZEN4), {sets.AVX512, sets.AVX2, sets.PORTABLE})
    assert found == {"AVX2": (flaw, REPORT)}
