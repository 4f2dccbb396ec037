"""A load times what an engine does."""

from headrace.claims.engine_load import EngineLoad
from headrace.demo_model import CHECKPOINT
from headrace.engine.contract.engine_config import EngineConfig


def test_a_prompt_that_came_before_is_cached() -> None:
    with EngineLoad(CHECKPOINT, EngineConfig(block_count=256, speculation="off")) as load:
        (prompt,) = load.prompts(1, 64, 0)
        new, known = (load.answer([prompt], 8) for _ in range(2))
        assert new.cached_share == 0
        assert known.cached_share == 48 / 64, "all whole blocks but the last, which has the token to go on from"
        assert min(new.first_seconds, new.tokens_per_second) > 0
        assert len(load.continuation(prompt, 5)) == 5
        assert not load.engine.has_work()
