"""Tiny checkpoints of each kind of model whose batch was once seen to matter."""

from pathlib import Path

from tests.libs.engine.tiny_adapters import make_adapter
from tests.libs.engine.tiny_encoders import make_decoder, make_encoder, write_sentence_settings
from tests.libs.engine.tiny_models import make_family, make_oracle

FAMILIES = ("qwen3", "gemma3", "qwen3_moe")
NAMES = (*FAMILIES, "adapters", "embedding", "encoder")


def write_checkpoints(root: Path) -> None:
    """A folder of each of NAMES."""
    for name in FAMILIES:
        make_family(root / name, name)
    base = make_oracle(root / "adapters", "multi_query_bias")
    make_adapter(root / "adapters" / "all", base, 0, r=4)
    make_adapter(root / "adapters" / "attention", base, 1, r=8, target_modules=["q_proj", "v_proj"])
    (root / "embedding").mkdir()
    make_decoder(root / "embedding")
    (root / "encoder").mkdir()
    make_encoder(root / "encoder", "bert")
    write_sentence_settings(root / "encoder")
