"""Predictions follow the roofline, grow where they must, and agree with published measurements that they rest on."""

import itertools

import pytest

from headrace.catalogue.catalogue import known_models
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.errors import ConfigError
from headrace.planning.deployment import Deployment, parse_devices
from headrace.planning.device_profile import PROFILES, Assumptions, DeviceProfile, list_profiles
from headrace.planning.footprint import list_footprints

PLAIN = DeviceProfile("plain", "cuda", 80 * 10**9, 1e12, {"float16": 1e14}, "float16", 3.6, 1e11, 1e-5, Assumptions())


def deployed(model: str, devices: str) -> Deployment:
    device, count = parse_devices(devices, [PLAIN, *list_profiles(PROFILES)])
    (footprint,) = list_footprints(read_model_config(known_models()[model].shape_folder), device.kind)
    return Deployment(footprint, device, count)


def test_one_token_takes_as_long_as_reading_what_it_needs() -> None:
    found = deployed("llama-3.1-8b", "plain")
    footprint = found.footprint
    config = footprint.shape.config
    table = config.vocabulary_size * config.hidden_size * 2
    needed = footprint.weight_bytes - table + 1000 * footprint.kv_bytes_per_token
    assert found.step_seconds(1, 1000) == pytest.approx(needed / 1e12, rel=0.01)


def test_many_tokens_take_as_long_as_their_arithmetic() -> None:
    found = deployed("llama-3.1-8b", "plain")
    per_token = 2 * found.footprint.shape.parameter_count
    seconds = found.prefill_seconds(4096)
    assert seconds is not None
    assert seconds == pytest.approx(4096 * per_token / 1e14, rel=0.15)


def test_what_published_measurements_found() -> None:
    """gpt-fast's 25.25 tok/s of Llama 2 70B int4, torchao's 180.8 and 241.4 of Llama 3 8B int4, at short contexts."""
    for model, device, published in (
        ("llama-3.3-70b", "a100-80g", 25.25),
        ("llama-3.1-8b", "a100-80g", 180.8),
        ("llama-3.1-8b", "h100", 241.4),
        ("mistral-7b", "l4", 56.0),
    ):
        assert deployed(model, device).token_rate(1, 128) == pytest.approx(published, rel=0.2)


def test_rates_grow_with_the_batch_and_shrink_with_the_context() -> None:
    found = deployed("llama-3.3-70b", "h200")
    rates = [found.token_rate(batch, 2048) or 0 for batch in (1, 2, 8, 32)]
    assert all(one < other for one, other in itertools.pairwise(rates))
    steps = [found.step_seconds(8, context) for context in (128, 2048, 16_384)]
    assert all(one < other for one, other in itertools.pairwise(steps))


def test_two_cards_are_faster_than_one_and_less_than_twice_as_fast() -> None:
    one, two = (deployed("qwen3-8b", devices).token_rate(1, 2048) or 0 for devices in ("l4", "2xl4"))
    assert one < two < 2 * one


def test_what_does_not_fit_has_no_speed() -> None:
    found = deployed("llama-3.3-70b", "l4")
    assert found.kv_token_count == 0
    assert found.token_rate(1, 2048) is None
    assert found.price_per_million(1, 2048) is None
    assert found.prefill_seconds(2048) is None


def test_a_price_is_that_of_the_time() -> None:
    found = deployed("llama-3.1-8b", "plain")
    rate, price = found.token_rate(8, 2048), found.price_per_million(8, 2048)
    assert rate is not None
    assert price == pytest.approx(3.6 / 3600 / rate * 1e6)


@pytest.mark.parametrize(
    ("text", "why"), [("zork", "no device profile"), ("2xcpu", "cannot share"), ("0xl4", "no device")]
)
def test_devices_that_are_not_there(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_devices(text, list_profiles(PROFILES))
