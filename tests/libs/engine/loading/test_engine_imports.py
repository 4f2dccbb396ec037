"""Imports of a start of the engine: a model is there sooner without what only some requests need."""

import subprocess
import sys

import pytest
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.demo_model import CHECKPOINT

pytestmark = [pytest.mark.process, needs_kernels]
LATER = ("torch", "tokenizers", "llguidance", "gguf", "grpc", "asyncio", "opentelemetry", "cryptography")
"""Packages that an answer without a grammar, from a folder with plain weights, does without."""
SCRIPT = """
import sys
from pathlib import Path
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.loading.load_text_engine import load_text_engine
engine = load_text_engine(Path(sys.argv[1]), EngineConfig(block_count=64))
engine.add(EngineRequest("r", (5, 6, 7), SamplingParams(max_tokens=2, temperature=0, ignore_eos=True)))
while engine.has_work():
    engine.step()
print(*(name for name in sys.argv[2:] if name in sys.modules))
"""


def test_an_answer_imports_nothing_that_it_does_not_need() -> None:
    command = [sys.executable, "-c", SCRIPT, str(CHECKPOINT), *LATER]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []
