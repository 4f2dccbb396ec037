"""Claims are measured with a real engine."""

import pytest

from headrace.claims.measured_claims import measure_claims
from headrace.demo_model import CHECKPOINT, DRAFT

SUBJECTS = ["quantization", "prefix caching", "speculation", "fused attention", "batching"]


@pytest.mark.process  # It measures for some seconds, and is no test of speed.
def test_every_claim_is_measured() -> None:
    found = list(measure_claims(CHECKPOINT, DRAFT))
    assert [claim.subject for claim in found] == SUBJECTS
    assert all(claim.basis == "measured here" and claim.found and claim.condition for claim in found)
    assert found[1].found == "88%", "7/8 of the prompts are shared: a count, not a time"
