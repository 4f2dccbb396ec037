"""Processors have names that tell them apart, with and without a `model name`."""

from pathlib import Path

import pytest

from headrace.engine.kernels.choice.processor import Processor

EPYC = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9R14\nflags\t\t: fpu avx2\n"
GRAVITON = (
    "processor\t: {core}\nBogoMIPS\t: 2100.00\nFeatures\t: asimd asimddp\nCPU implementer\t: 0x41\n"
    "CPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: {part}\nCPU revision\t: 1\n\n"
)


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        (EPYC, "AMD EPYC 9R14"),
        (GRAVITON.format(core=0, part="0xd40"), "CPU implementer 0x41, CPU part 0xd40, CPU variant 0x1"),
        (
            GRAVITON.format(core=0, part="0xd4f") + GRAVITON.format(core=1, part="0xd40"),
            "CPU implementer 0x41, CPU part 0xd4f, CPU variant 0x1",
        ),
    ],
)
def test_the_first_core_names_the_processor(tmp_path: Path, facts: str, name: str) -> None:
    (tmp_path / "cpuinfo").write_text(facts)
    assert Processor.here(tmp_path / "cpuinfo").name == name


def test_a_system_that_says_nothing_still_has_a_name(tmp_path: Path) -> None:
    assert Processor.here(tmp_path / "missing").name
    assert Processor.here(tmp_path).name
