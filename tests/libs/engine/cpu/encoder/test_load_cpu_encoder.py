"""Settings and sizes decide what computes an encoder, a broken one is refused, and a start needs no torch."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from tests.libs.engine.engine_running import engine_config, without_kernels
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_encoders import NAMES, make_encoder
from tests.libs.engine.tiny_models import make_prompts

from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.cpu.encoder.cpu_encoder import CpuEncoder
from headrace.engine.engines.encoder_engine import EncoderEngine
from headrace.engine.loading.load_engine import load_engine
from headrace.engine.torch.encoder.encoder import Encoder
from headrace.errors import InvalidCheckpoint

pytestmark = needs_kernels
(PROMPT,) = make_prompts((40,))


def load(folder: Path, **settings: Any) -> EncoderEngine:
    engine = load_engine(folder, engine_config(**settings))
    assert isinstance(engine, EncoderEngine)
    return engine


@pytest.mark.parametrize(
    ("settings", "sizes", "kind"),
    [
        ({}, {}, CpuEncoder),
        ({"precision": "int8"}, {}, CpuEncoder),
        ({"block_size": 40}, {}, CpuEncoder),
        ({"precision": "bfloat16"}, {}, CpuEncoder),
        ({"kernels": "torch"}, {}, Encoder),
        ({}, {"num_attention_heads": 8}, Encoder),
        ({}, {"hidden_size": 40, "num_attention_heads": 1}, Encoder),
    ],
)
def test_settings_and_sizes_decide_what_computes(
    settings: dict[str, Any], sizes: dict[str, Any], kind: type, tmp_path: Path
) -> None:
    make_encoder(tmp_path, "bert", **sizes)
    assert type(load(tmp_path, **settings)._encoder) is kind


def test_a_machine_without_kernels_computes_with_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_kernels(monkeypatch)
    make_encoder(tmp_path, "bert")
    assert type(load(tmp_path)._encoder) is Encoder


@pytest.mark.parametrize("name", NAMES)
def test_both_ways_count_the_same_and_have_one_fingerprint(name: str, tmp_path: Path) -> None:
    make_encoder(tmp_path, name)
    one, other = load(tmp_path).spec, load(tmp_path, kernels="torch").spec
    for fact in ("parameter_count", "precision", "device", "fingerprint", "max_model_length", "embedding_size"):
        assert getattr(one, fact) == getattr(other, fact), fact


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 4}, r"tensor encoder\.layer\.3\.attention\.self\.query\.weight is in none"),
        ({"hidden_size": 32, "num_attention_heads": 2}, "has shape"),
        ({"vocab_size": 1 << 40}, "has shape"),
        ({"max_position_embeddings": 1 << 40}, "has shape"),
        ({"intermediate_size": 64}, "has shape"),
    ],
)
def test_a_broken_checkpoint_is_a_typed_error(change: dict[str, int], message: str, tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InvalidCheckpoint, match=message):
        load(tmp_path)


def test_integers_are_no_weights(tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")
    path, name = tmp_path / "model.safetensors", "encoder.layer.1.output.dense.bias"
    tensors = load_file(path)
    save_file(tensors | {name: tensors[name].int()}, path)
    with pytest.raises(InvalidCheckpoint, match=f"{name} holds I32, not floating-point"):
        load(tmp_path)


@pytest.mark.process
@pytest.mark.parametrize("name", ["bert", "mpnet"])
def test_a_start_needs_no_torch(name: str, tmp_path: Path) -> None:
    make_encoder(tmp_path, name)
    engine = load(tmp_path, precision="int8")
    engine.add(EngineRequest("r", PROMPT, SamplingParams()))
    (expected,) = engine.step()
    script = f"""
import sys
sys.modules["torch"] = None
from pathlib import Path
from headrace.engine.loading.load_engine import load_engine
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.contract.engine_config import EngineConfig
engine = load_engine(Path({str(tmp_path)!r}), EngineConfig(precision="int8"))
engine.add(EngineRequest("r", {PROMPT!r}, SamplingParams()))
(delta,) = engine.step()
print(*delta.embedding)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    assert tuple(map(float, done.stdout.split())) == expected.embedding
