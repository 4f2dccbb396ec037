"""Claims about cards that are not here, predicted by `planning`."""

from collections.abc import Iterator
from pathlib import Path

from headrace.catalogue.catalogue import known_models
from headrace.claims.claim import Claim
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.planning.deployment import Deployment
from headrace.planning.device_profile import list_profiles
from headrace.planning.footprint import list_footprints

MODEL = "llama-3.1-8b"
CARDS = ("a100-80g", "l4", "h200")
PROMPT = 512
FIRST_SECONDS = 0.1
TOKENS_PER_SECOND = 100


def predict_claims(profiles: Path) -> Iterator[Claim]:
    """Predicts what a model of 8 billion parameters in int4 does on each card. Raises ConfigError for a folder without
    profiles."""
    config = read_model_config(known_models()[MODEL].shape_folder)
    devices = {device.name: device for device in list_profiles(profiles)}
    for card in CARDS:
        (footprint,) = list_footprints(config, devices[card].kind)
        deployment = Deployment(footprint, devices[card])
        first, rate = deployment.prefill_seconds(PROMPT), deployment.token_rate(1, PROMPT)
        if first is None or rate is None:
            continue
        condition = f"{MODEL} in int4, one request of {PROMPT} tokens; see headrace plan {MODEL} --on {card}"
        is_soon, is_fast = first <= FIRST_SECONDS, rate >= TOKENS_PER_SECOND
        first_text, rate_text = f"{first * 1000:.0f} ms", f"{rate:.0f} tok/s"
        yield Claim(f"first token on {card}", "50-100 ms", first_text, is_soon, "predicted", condition)
        yield Claim(f"speed on {card}", "100-150 tok/s", rate_text, is_fast, "predicted", condition)
