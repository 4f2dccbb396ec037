"""Without torch the kernels serve what they can, from the checkpoint on; the rest says what to install."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.demo_model import CHECKPOINT, DRAFT
from headrace.engine.loading.load_text_engine import load_text_engine

pytestmark = [pytest.mark.process, needs_kernels]
SCRIPT = """
import sys
sys.modules["torch"] = None
from pathlib import Path
from headrace.engine.loading.load_engine import load_engine
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.contract.engine_config import EngineConfig
config = EngineConfig(packed_folder=None, block_count=64, **eval(sys.argv[2]))
engine = load_engine(Path(sys.argv[1]), config)
engine.add(EngineRequest("r", tuple(range(5, 30)), SamplingParams(max_tokens=20, temperature=0, ignore_eos=True)))
found = []
while engine.has_work():
    found += [token_id for delta in engine.step() for token_id in delta.token_ids]
print(*found)
"""


def start(folder: Path, **settings: object) -> "subprocess.CompletedProcess[str]":
    """Loads a model in a process that has no torch, and generates."""
    command = [sys.executable, "-c", SCRIPT, str(folder), repr(settings)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("precision", ["auto", "bfloat16", "int4"])
def test_the_bundled_model_and_its_draft_model_are_packed_without_torch(precision: str) -> None:
    done = start(CHECKPOINT, precision=precision, draft_folder=str(DRAFT))
    assert done.returncode == 0, done.stderr
    config = engine_config(block_count=64, packed_folder=None, precision=precision, draft_folder=DRAFT)
    prompt = request("r", range(5, 30), max_tokens=20, temperature=0, ignore_eos=True)
    assert [int(word) for word in done.stdout.split()] == run(load_text_engine(CHECKPOINT, config), prompt)["r"]


def test_what_the_kernels_lack_says_what_to_install(tmp_path: Path) -> None:
    config = json.loads((CHECKPOINT / "config.json").read_text()) | {"hidden_act": "gelu"}
    encoder = {"architectures": ["BertModel"], "model_type": "bert", "num_attention_heads": config["hidden_size"] // 8}
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "config.json").write_text(json.dumps(config | encoder))
    for folder, settings, reason in (
        (tmp_path / "encoder", {}, "its head size of 8 is not a multiple of 16"),
        (CHECKPOINT, {"kernels": "torch"}, "the settings ask for torch"),
    ):
        done = start(folder, **settings)
        assert done.returncode != 0
        assert reason in done.stderr
        assert "-m pip install 'headrace[torch]'" in done.stderr
