"""Imports of a worker: traces, certificates and grammars cost those who use them."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process
LATER = ("torch", "tokenizers", "llguidance", "gguf", "cryptography", "opentelemetry.sdk", "opentelemetry.exporter")
SCRIPT = "import sys, headrace.worker.app; print(*(name for name in sys.argv[1:] if name in sys.modules))"


def test_a_worker_imports_what_only_some_settings_need_when_they_ask_for_it() -> None:
    command = [sys.executable, "-c", SCRIPT, *LATER]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []
