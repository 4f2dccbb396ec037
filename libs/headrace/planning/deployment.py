"""A model on one device, or split among several of a kind: whether it fits, and how fast it is predicted to run."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from headrace.errors.tree import ConfigError
from headrace.planning.device_profile import DeviceProfile
from headrace.planning.footprint import Footprint
from headrace.planning.roofline import Launch, attention_launch, product_launch, state_launch

RESERVE = 0.1
"""Fraction of a device's memory that is left for activations and everything else."""
STATES_EACH = 3
"""States of a request in a model that keeps some: its own, and two snapshots for the prefix cache."""
CHUNK = 512
"""Tokens of a prompt that a step reads."""
REDUCTIONS = 2
"""Exchanges per layer of a model whose products are split (Shoeybi et al., Megatron-LM, 2019)."""
_SEVERAL = re.compile(r"([1-9][0-9]?)x(.+)")


@dataclass(frozen=True)
class Deployment:
    """A model in one precision on `device_count` devices of a kind."""

    footprint: Footprint
    device: DeviceProfile
    device_count: int = 1

    @property
    def name(self) -> str:
        return self.device.name if self.device_count == 1 else f"{self.device_count}x{self.device.name}"

    @property
    def memory_bytes(self) -> int:
        return self.device.memory_bytes * self.device_count

    @cached_property
    def kv_token_count(self) -> int:
        """Tokens whose keys and values fit beside the weights. 0: the model does not fit."""
        return max(0, int(self._left // max(1, self.footprint.kv_bytes_per_token)))

    def request_count(self, context: int) -> int:
        """Returns how many requests of `context` tokens fit at once, each with its state and the snapshots of it."""
        each = context * self.footprint.kv_bytes_per_token + STATES_EACH * self.footprint.state_bytes
        return max(0, int(self._left // max(1, each)))

    @property
    def _left(self) -> float:
        """Bytes beside the weights."""
        return self.memory_bytes * (1 - RESERVE) - self.footprint.weight_bytes

    def step_seconds(self, batch: int, context: int) -> float:
        """Predicts a step in which each of `batch` sequences gets a token after `context` others."""
        return self._seconds(batch, batch, lambda layer: attention_launch(self.footprint, layer, 1, context, batch))

    def prefill_seconds(self, token_count: int) -> float | None:
        """Predicts the time that a prompt of `token_count` tokens takes alone, in chunks. None: it does not fit, or the
        device's rates are not known."""
        if not self.request_count(token_count) or not self.device.memory_bandwidth:
            return None
        return sum(
            self._chunk_seconds(first, min(CHUNK, token_count - first)) for first in range(0, token_count, CHUNK)
        )

    def token_rate(self, batch: int, context: int) -> float | None:
        """Predicts output tokens per second of `batch` sequences together. None: they do not fit, or the device's
        rates are not known."""
        if self.request_count(context) < batch or not self.device.memory_bandwidth:
            return None
        return batch / self.step_seconds(batch, context)

    def price_per_million(self, batch: int, context: int) -> float | None:
        """Predicts the price of a million output tokens. None: they do not fit, or the price is not known."""
        rate = self.token_rate(batch, context)
        hourly = self.device.hourly_price * self.device_count
        return hourly / 3600 / rate * 1e6 if rate and hourly else None

    def assumptions(self) -> list[str]:
        """Lists what the predictions rest on, a sentence each."""
        device, assumed = self.device, self.device.assumed
        rate = device.arithmetic_rate(self.footprint.arithmetic_precision)
        lines = [
            f"{device.name}: {assumed.bandwidth_share:.0%} of {device.memory_bandwidth / 1e9:,.0f} GB/s, "
            f"{assumed.arithmetic_share:.0%} of {rate / 1e12:,.1f} TFLOP/s, "
            f"{assumed.layer_seconds * 1e6:.0f} µs per layer besides"
            + (f" ({assumed.origin})" if assumed.origin else "")
        ]
        if self.device_count > 1:
            lines.append(
                f"{self.name}: every product is split; {REDUCTIONS} exchanges per layer at "
                f"{device.link_bandwidth / 1e9:,.0f} GB/s and {device.link_seconds * 1e6:.0f} µs each"
            )
        return lines

    def _chunk_seconds(self, first: int, count: int) -> float:
        return self._seconds(
            count, 1, lambda layer: attention_launch(self.footprint, layer, count, first + count, sequence_count=1)
        )

    def _seconds(self, row_count: int, logit_count: int, attention: Callable[[int], Launch]) -> float:
        *inner, head = self.footprint.shape.products
        layer_count = self.footprint.shape.config.layer_count
        launches = [product_launch(self.footprint, product, row_count) for product in inner]
        launches += [attention(layer) for layer in self.footprint.shape.config.kv_layers]
        launches.append(state_launch(self.footprint, row_count, logit_count))
        launches.append(product_launch(self.footprint, head, logit_count))
        return self._total(launches) + layer_count * (self.device.assumed.layer_seconds + self._exchange(row_count))

    def _total(self, launches: Iterable[Launch]) -> float:
        precision = self.footprint.arithmetic_precision
        return sum(launch.split(self.device_count).seconds(self.device, precision) for launch in launches)

    def _exchange(self, row_count: int) -> float:
        """Returns the time of a layer's ring all-reduces."""
        if self.device_count == 1:
            return 0.0
        moved = row_count * self.footprint.shape.config.hidden_size * self.footprint.item_bytes
        share = 2 * (self.device_count - 1) / self.device_count
        return REDUCTIONS * (self.device.link_seconds + share * moved / self.device.link_bandwidth)


def parse_devices(text: str, profiles: Iterable[DeviceProfile]) -> tuple[DeviceProfile, int]:
    """Reads a device such as `h200`, or several such as `2xl4`. Raises ConfigError."""
    known = {profile.name: profile for profile in profiles}
    count, name = 1, text.lower()
    if name not in known and (several := _SEVERAL.fullmatch(name)):
        count, name = int(several[1]), several[2]
    if name not in known:
        raise ConfigError(f"there is no device profile {name!r}; there are: {', '.join(known)}", param="on")
    if count > 1 and not known[name].link_bandwidth:
        raise ConfigError(f"the profile {name!r} has no [link]: several of them cannot share a model", param="on")
    return known[name], count
