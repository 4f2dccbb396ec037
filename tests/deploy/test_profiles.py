"""Device profiles: the numbers that planning and placing start from."""

import tomllib
import typing
from pathlib import Path
from typing import Any

import pytest

from headrace.planning.device_profile import read_profile
from headrace.worker.config import WorkerSettings

NAMES = ["cpu", "l4", "a100-40g", "a100-80g", "h100", "h200"]
KEYS = {
    "name": str,
    "device": str,
    "memory_bytes": int,
    "memory_bandwidth": int,
    "default_precision": str,
    "kernels": list,
    "price_per_hour": float,
    "arithmetic_rate": dict,
    "assumed": dict,
}
PRECISIONS = {"float32", "bfloat16", "float16", "float8", "int8"}


def read(root: Path, name: str) -> dict[str, Any]:
    return tomllib.loads((root / "deploy" / "profiles" / f"{name}.toml").read_text())


def test_the_devices_of_the_architecture_have_a_profile(root: Path) -> None:
    assert sorted(path.stem for path in (root / "deploy/profiles").glob("*.toml")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_is_complete(root: Path, name: str) -> None:
    """Every key, with a value of its type, and no other key. Cards have a link to others of their kind."""
    profile = read(root, name)
    wanted = KEYS | ({"link": dict} if profile["device"] == "cuda" else {})
    assert {key: type(value) for key, value in profile.items()} == wanted
    assert profile["name"] == name
    assert profile["device"] in ("cpu", "cuda")
    assert min(profile["memory_bytes"], profile["memory_bandwidth"], profile["price_per_hour"]) > 0


@pytest.mark.parametrize("name", NAMES)
def test_rates_are_given_per_precision(root: Path, name: str) -> None:
    """The default precision among them; narrower types are never slower."""
    profile = read(root, name)
    rates = profile["arithmetic_rate"]
    assert rates.keys() <= PRECISIONS
    assert profile["default_precision"] in rates
    assert rates["float32"] <= rates["bfloat16"] == rates["float16"] <= rates["int8"]


@pytest.mark.parametrize("name", NAMES)
def test_predictions_can_be_made_from_it(root: Path, name: str) -> None:
    profile = read_profile(root / "deploy" / "profiles" / f"{name}.toml")
    assumed = profile.assumed
    assert 0 < assumed.bandwidth_share <= 1
    assert 0 < assumed.arithmetic_share <= 1
    assert assumed.layer_seconds >= 0
    assert assumed.origin
    assert (profile.link_bandwidth > 0) == (profile.kind == "cuda")


@pytest.mark.parametrize("name", NAMES)
def test_a_worker_can_be_started_with_the_default_precision(root: Path, name: str) -> None:
    known = typing.get_args(WorkerSettings.model_fields["precision"].annotation)
    assert read(root, name)["default_precision"] in known


@pytest.mark.parametrize("name", NAMES)
def test_torch_is_the_last_resort(root: Path, name: str) -> None:
    """The kernels that run everywhere come last."""
    kernels = read(root, name)["kernels"]
    assert kernels[-1] == "torch"
    assert len(kernels) == len(set(kernels))


@pytest.mark.parametrize("name", NAMES)
def test_nominal_figures_say_so(root: Path, name: str) -> None:
    text = (root / "deploy" / "profiles" / f"{name}.toml").read_text()
    assert "Nominal vendor figures" in text
    assert "nominal list price" in text
