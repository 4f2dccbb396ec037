"""The card is told by its facts; without one, it is said what is missing."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.benchmarks.gpu import card
from tests.benchmarks.gpu.card import Card, choose_profile, find_missing, read_versions

from headrace.planning.device_profile import PROFILES, list_profiles

A100 = Card("NVIDIA A100-SXM4-80GB", (8, 0), 85_094_825_984, {})


@pytest.fixture
def with_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(card, "find_spec", lambda _: object())
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))


@pytest.mark.usefixtures("with_cuda")
def test_what_is_missing_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_missing() == ""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    assert find_missing() == "the card is sm_75: the kernels need sm_80 or newer"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_missing() == "torch sees no CUDA card: check nvidia-smi and the driver"
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "is built without CUDA" in find_missing()
    monkeypatch.setattr(card, "find_spec", lambda _: None)
    assert find_missing() == "triton is not installed: pip install 'headrace[gpu]'"
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert find_missing().startswith("TRITON_INTERPRET=1 is set")


@pytest.mark.parametrize(
    ("name", "memory", "profile"),
    [
        ("NVIDIA A100-SXM4-80GB", 85_094_825_984, "a100-80g"),
        ("NVIDIA A100-PCIE-40GB", 42_405_855_232, "a100-40g"),
        ("NVIDIA L4", 23_580_639_232, "l4"),
        ("NVIDIA L40S", 47_699_722_240, None),
        ("NVIDIA H100 80GB HBM3", 85_029_158_912, "h100"),
        ("NVIDIA H200", 150_121_545_728, "h200"),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 10_200_547_328, None),
    ],
)
def test_a_card_has_the_profile_of_its_name_and_memory(name: str, memory: int, profile: str | None) -> None:
    found = choose_profile(replace(A100, name=name, memory_bytes=memory), list_profiles(PROFILES))
    assert (found and found.name) == profile


def test_its_name_becomes_part_of_a_file_name() -> None:
    assert A100.slug == "nvidia-a100-sxm4-80gb"


def test_versions_that_matter_are_read() -> None:
    assert read_versions()["torch"] == torch.__version__


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU; to run it: a machine without one")
def test_without_a_card_it_says_so_and_exits(root: Path) -> None:
    command = [sys.executable, "-m", "tests.benchmarks.gpu"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("make gpu: ")
    assert len(done.stderr.splitlines()) == 1
