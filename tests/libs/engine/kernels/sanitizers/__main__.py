"""Runs the kernel tests on builds with sanitizers: `make sanitize`. Exits with 1 if a sanitizer reports an error.

Arguments name the tests to run instead of the usual ones.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.libs.engine.kernels.sanitizers.sanitizer import SANITIZERS, Sanitizer

from headrace.engine.kernels.library import Instructions, available

ROOT = Path(__file__).resolve().parents[5]
ENGINE = Path("tests/libs/engine")
TESTS = (
    *(
        ENGINE / "kernels" / f"test_{name}.py"
        for name in (
            *("products", "checked_ids", "code_attention", "code_rounding"),
            *("recurrence", "convolution", "checked_states"),
        )
    ),
    ENGINE / "kernels" / "choice" / "test_self_test.py",
    ENGINE / "step" / "test_sampler.py",
    ENGINE / "cpu" / "test_kv_precision.py",
    ENGINE / "torch" / "operators" / "test_operators.py",
)
SECONDS = 3000
"""Patience with the tests of one build on one instruction set."""


def run_tests(sanitizer: Sanitizer, library: Path, instructions: Instructions, tests: list[str]) -> bool:
    """Runs the tests with no newer instruction set than this. Returns whether they pass without a report."""
    plugin = ("-p", "tests.libs.engine.kernels.sanitizers.instruction_limit", "--instructions", instructions.name)
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "--timeout=1200", *plugin]
    environment = sanitizer.environment(library)
    return not subprocess.run([*command, *tests], cwd=ROOT, env=environment, timeout=SECONDS).returncode


def main(tests: list[str]) -> int:
    """Returns the code that the process ends with."""
    failed = []
    for sanitizer in SANITIZERS:
        if missing := sanitizer.why_not():
            print(f"{sanitizer.name}: {missing}")
            return 1
        with tempfile.TemporaryDirectory() as folder:
            print(f"Building the kernels with {' '.join(sanitizer.flags)} …", flush=True)
            library = Path(folder) / "_kernels.so"
            sanitizer.build(ROOT, library)
            for instructions in available():
                print(f"{sanitizer.name}, {instructions.name}", flush=True)
                if not run_tests(sanitizer, library, instructions, tests):
                    failed.append(f"{sanitizer.name} on {instructions.name}")
    print(f"Reports or failures: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [str(path) for path in TESTS]))
