"""Claims about cards are predicted for those that profiles describe, and marked so."""

from pathlib import Path

import pytest

from headrace.claims.predicted_claims import CARDS, predict_claims
from headrace.errors import ConfigError
from headrace.planning.device_profile import PROFILES


def test_what_cards_would_do_is_marked_as_predicted() -> None:
    found = list(predict_claims(PROFILES))
    subjects = [f"{what} on {card}" for card in CARDS for what in ("first token", "speed")]
    assert [claim.subject for claim in found] == subjects
    assert {claim.basis for claim in found} == {"predicted"}


def test_without_profiles_nothing_is_predicted(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        list(predict_claims(tmp_path / "none"))
