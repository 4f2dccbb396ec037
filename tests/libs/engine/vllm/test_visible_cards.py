"""vLLM sees the card that the settings name, and only as many processes as cards are asked for."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.libs.engine.engine_running import engine_config

from headrace.engine.vllm import load_vllm, visible_cards
from headrace.engine.vllm.visible_cards import VARIABLE, choose_cards, count_cards, show_cards
from headrace.errors import ConfigError


@pytest.mark.parametrize(
    ("device", "count", "given", "chosen"),
    [
        ("cpu", 1, None, None),
        ("cuda", 2, "3,4", None),
        ("cuda:1", 1, None, "1"),
        ("cuda:2", 2, None, "2,3"),
        ("cuda:1", 1, "4, 6", "6"),
        ("cuda:1", 2, "4,6,7", "6,7"),
        ("cuda:0", 1, "GPU-8a3f,GPU-11d0", "GPU-8a3f"),
    ],
)
def test_a_device_is_a_place_among_the_given_cards(
    device: str, count: int, given: str | None, chosen: str | None
) -> None:
    assert choose_cards(device, count, given) == chosen


@pytest.mark.parametrize(
    ("device", "count", "given", "said"),
    [
        ("cuda:1", 1, "5", "takes 1 from there, but CUDA_VISIBLE_DEVICES names 1 cards: '5'"),
        ("cuda:1", 2, "5,6", "takes 2 from there"),
        ("cuda:0", 1, "", "names 0 cards"),
        ("cuda:one", 1, None, "a card is cuda:NUMBER"),
        ("cuda:-1", 1, "0", "a card is cuda:NUMBER"),
    ],
)
def test_a_card_that_is_not_given_is_refused(device: str, count: int, given: str | None, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        choose_cards(device, count, given)


def test_cards_are_those_of_all_shares_and_stages() -> None:
    assert count_cards({}) == 1
    assert count_cards({"tensor_parallel_size": 2, "pipeline_parallel_size": 3}) == 6
    for wrong in (0, "two", 1.5):
        with pytest.raises(ConfigError, match="tensor_parallel_size is"):
            count_cards({"tensor_parallel_size": wrong})


def test_a_model_that_is_loaded_again_sees_the_same_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visible_cards, "GIVEN", "4,6")
    monkeypatch.setenv(VARIABLE, "4,6")
    for _ in range(2):
        show_cards("cuda:1", {})
        assert os.environ[VARIABLE] == "6"


def test_the_card_is_chosen_before_vllm_is_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Here it cannot be imported at all."""
    monkeypatch.setattr(visible_cards, "GIVEN", None)
    for name in (VARIABLE, "VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_NO_USAGE_STATS", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("VLLM_CONFIGURE_LOGGING", "0")
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ConfigError, match="needs vLLM"):
        load_vllm.load_vllm_engine(tmp_path, engine_config(device="cuda:1"), {})
    assert os.environ[VARIABLE] == "1"


@pytest.mark.parametrize(
    ("device", "arguments", "backend"),
    [
        ("cuda", {}, "uni"),
        ("cuda:1", {"tensor_parallel_size": 1}, "uni"),
        ("cuda", {"tensor_parallel_size": 2}, "mp"),
        ("cuda", {"pipeline_parallel_size": 2}, "mp"),
        ("cpu", {}, "mp"),
    ],
)
def test_one_card_takes_no_process_of_its_own(
    tmp_path: Path, device: str, arguments: dict[str, Any], backend: str
) -> None:
    defaults = load_vllm._defaults(tmp_path, engine_config(device=device), arguments)
    assert defaults["distributed_executor_backend"] == backend
