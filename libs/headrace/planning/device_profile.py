"""Profiles of devices: memory, peak rates, price, and the shares of those rates that steps are taken to reach."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.errors.tree import ConfigError

PROFILES = Path(__file__).parents[3] / "deploy" / "profiles"
"""Folder of the profiles. Only a checkout has it; installed packages do not."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Figures that no vendor gives. A prediction is as good as these."""

    bandwidth_share: float = 1.0
    """Share of the memory bandwidth that products with few rows reach."""
    arithmetic_share: float = 1.0
    """Share of the arithmetic rate that products with many rows reach."""
    layer_seconds: float = 0.0
    """Time of a layer that no roofline explains: launches, norms, and the gaps between kernels."""
    origin: str = ""
    """Origin of these figures, in words."""


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """A kind of device that models run on. Rates are peak values, as the vendor states them or as measured."""

    name: str
    kind: str
    """Kind of device: cpu or cuda."""
    memory_bytes: int
    memory_bandwidth: float
    """Bytes per second."""
    arithmetic_rates: Mapping[str, float]
    """Operations per second by precision; a multiplication and an addition are two."""
    default_precision: str
    hourly_price: float
    """Price of one hour. 0: not known."""
    link_bandwidth: float = 0.0
    """Bytes per second to another device of its kind, in one direction. 0: none beside it."""
    link_seconds: float = 0.0
    """Time of an exchange with another device that carries nothing."""
    assumed: Assumptions = field(default_factory=Assumptions)

    def arithmetic_rate(self, precision: str) -> float:
        """Returns operations per second in a precision; the default one's where the device has no unit for it."""
        return self.arithmetic_rates.get(precision) or self.arithmetic_rates[self.default_precision]


def read_profile(path: Path) -> DeviceProfile:
    """Reads a profile such as those in deploy/profiles. Raises ConfigError."""
    try:
        raw = tomllib.loads(path.expanduser().read_text(encoding="utf-8"))
        rates = {str(name): float(rate) for name, rate in raw["arithmetic_rate"].items()}
        link: Mapping[str, Any] = raw.get("link", {})
        profile = DeviceProfile(
            name=str(raw["name"]),
            kind=str(raw["device"]),
            memory_bytes=int(raw["memory_bytes"]),
            memory_bandwidth=float(raw["memory_bandwidth"]),
            arithmetic_rates=rates,
            default_precision=str(raw["default_precision"]),
            hourly_price=float(raw["price_per_hour"]),
            link_bandwidth=float(link.get("bandwidth", 0.0)),
            link_seconds=float(link.get("seconds", 0.0)),
            assumed=Assumptions(**raw.get("assumed", {})),
        )
        profile.arithmetic_rate(profile.default_precision)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"{path} is not a device profile: {error!r}", param="device_profile") from None
    return profile


def list_profiles(folder: Path) -> list[DeviceProfile]:
    """Reads all profiles of a folder, by name. Raises ConfigError."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder of device profiles", param="profiles")
    return [read_profile(path) for path in sorted(folder.glob("*.toml"))]
