"""Facts of models whose weights are not here."""

import json
import tempfile
from pathlib import Path

from tests.benchmarks.peers.shapes import SHAPES

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.model_config import read_model_config


def read_shape(name: str) -> DecoderConfig:
    """Reads the facts of a shape, in bfloat16."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(SHAPES[name] | {"torch_dtype": "bfloat16"}))
        return read_model_config(Path(folder))
