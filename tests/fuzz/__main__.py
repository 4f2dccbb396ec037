"""Sends random requests to a platform: `python -m tests.fuzz --seconds 300`."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.run_schemathesis import run_schemathesis
from tests.harness.running_platform import running_platform


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_platform(Path(folder)) as platform:
        found = run_schemathesis(platform, given.seconds, given.seed)
    sys.stdout.write(found.output)
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
