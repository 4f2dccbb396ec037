"""The tests of determinism under every setting of torch's libraries that this processor can take.

    python -m tests.benchmarks.determinism

Each setting has a run of its own. Prints one line for each, with what passed and what failed.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGINE = "tests/libs/engine"
TESTS = {
    f"{ENGINE}/determinism/test_adapters_in_a_batch.py": "batch or drafted or scored",
    f"{ENGINE}/checkpoints/families/test_families.py": "batch_chunks and (qwen3 or gemma3 or qwen3_moe)",
    f"{ENGINE}/engines/test_embedding_engines.py": "batch_order_and_budget",
    f"{ENGINE}/determinism/test_one_text.py": "bundled_model_has_one_text",
    f"{ENGINE}/determinism/test_inverse_determinism.py": "",
}
SETTINGS = {
    "MKL_ENABLE_INSTRUCTIONS": ("", "SSE4_2", "AVX2", "AVX512"),
    "ATEN_CPU_CAPABILITY": ("default", "avx2", "avx512"),
    "ONEDNN_MAX_CPU_ISA": ("AVX2", "AVX512_CORE", "AVX512_CORE_VNNI", "AVX512_CORE_AMX"),
}


def run(settings: dict[str, str], checkout: Path) -> str:
    """The closing line of pytest."""
    others = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    chosen = " or ".join(f"({words})" for words in TESTS.values() if words)
    command = [str(checkout / ".venv/bin/python"), "-m", "pytest", "-q", "--no-header", "-k", f"{chosen} or inverse"]
    done = subprocess.run(
        [*command, *TESTS], cwd=checkout, env=others | settings, capture_output=True, text=True, check=False
    )
    return done.stdout.strip().splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, default=ROOT, help="another one, with an environment of its own")
    options = parser.parse_args()
    failed = False
    for name, values in SETTINGS.items():
        for value in values:
            closing = run({name: value} if value else {}, options.checkout.resolve())
            failed |= "failed" in closing or "passed" not in closing
            print(f"{f'{name}={value}' if value else 'default':45} {closing}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
