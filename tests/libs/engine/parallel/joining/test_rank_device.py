"""Each rank has a device of its own, or shares one where the library of exchanges can."""

import pytest
import torch
from tests.libs.engine.engine_running import engine_config

from headrace.engine.parallel.joining.rank_device import check_device_count, device_of, sharer_count
from headrace.engine.parallel.shards.place import ShardPlace
from headrace.errors import ConfigError

CUDA = torch.device("cuda", 0)


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A host with two cards."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    return monkeypatch


@pytest.mark.usefixtures("cards")
def test_ranks_are_dealt_over_the_cards() -> None:
    devices = [device_of(engine_config(device="cuda"), ShardPlace(rank, 2, 2)) for rank in range(4)]
    assert devices == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]
    assert device_of(engine_config(device="cpu"), ShardPlace(3, 2, 2)) == "cpu"


@pytest.mark.usefixtures("cards")
def test_nccl_needs_a_card_for_each_rank() -> None:
    four, two = ShardPlace(0, 2, 2), ShardPlace(0, 2, 1)
    with pytest.raises(ConfigError, match="by 4 processes, but torch sees 2 CUDA devices"):
        check_device_count(engine_config(device="cuda"), four)
    check_device_count(engine_config(device="cuda"), two)
    check_device_count(engine_config(device="cuda", collective_backend="gloo"), four)
    check_device_count(engine_config(), four)


def test_ranks_share_the_memory_of_a_card_with_gloo_alone(cards: pytest.MonkeyPatch) -> None:
    place = ShardPlace(0, 2, 1)
    assert sharer_count(engine_config(device="cuda", collective_backend="gloo"), place, CUDA) == 1
    cards.setattr(torch.cuda, "device_count", lambda: 1)
    assert sharer_count(engine_config(device="cuda", collective_backend="gloo"), place, CUDA) == 2
    assert sharer_count(engine_config(device="cuda"), place, CUDA) == 1
    assert sharer_count(engine_config(), place, torch.device("cpu")) == 2
