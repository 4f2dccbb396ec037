"""The cards that vLLM sees, as CUDA_VISIBLE_DEVICES names them: it has no setting for which card it takes."""

import os
from typing import Any

from headrace.errors.tree import ConfigError

VARIABLE = "CUDA_VISIBLE_DEVICES"
GIVEN = os.environ.get(VARIABLE)
"""Cards that this process was started with. None: all. Loading changes the variable, and may happen again."""


def count_cards(arguments: dict[str, Any]) -> int:
    """Returns how many cards fields of vLLM's EngineArgs ask for. Raises ConfigError for a number that is none."""
    total = 1
    for name in ("tensor_parallel_size", "pipeline_parallel_size"):
        count = arguments.get(name, 1)
        if not isinstance(count, int) or count < 1:
            raise ConfigError(f"vllm_arguments: {name} is {count!r}, not a number of cards", param="vllm_arguments")
        total *= count
    return total


def choose_cards(device: str, count: int, given: str | None) -> str | None:
    """Returns the value of CUDA_VISIBLE_DEVICES that shows `count` cards from the one that `device` names, such as
    cuda:1, among those `given`. None: the value stays as it is, for a device without a number. Raises ConfigError for a
    card that is not among them."""
    kind, _, number = device.partition(":")
    if kind != "cuda" or not number:
        return None
    if not number.isdecimal():
        raise ConfigError(f"device is {device!r}: a card is cuda:NUMBER", param="device")
    wanted = range(int(number), int(number) + count)
    if given is None:
        return ",".join(map(str, wanted))
    cards = [card for each in given.split(",") if (card := each.strip())]
    if wanted[-1] >= len(cards):
        raise ConfigError(
            f"device is {device!r} and the model takes {count} from there, but {VARIABLE} names {len(cards)} cards: "
            f"{given!r}",
            param="device",
        )
    return ",".join(cards[place] for place in wanted)


def show_cards(device: str, arguments: dict[str, Any]) -> None:
    """Shows vLLM, before it is imported, the cards that the settings ask for. Raises ConfigError if they are not all
    there."""
    if (chosen := choose_cards(device, count_cards(arguments), GIVEN)) is not None:
        os.environ[VARIABLE] = chosen
