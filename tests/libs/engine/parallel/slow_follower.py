"""A follower that takes some seconds longer to load:

python -m tests.libs.engine.parallel.slow_follower SECONDS --leader HOST:PORT
"""

import sys
import time
from typing import Any

import pytest

from headrace.engine.checkpoints.weight_source import open_weights
from headrace.engine.parallel import follower, load_stage


def main() -> None:
    seconds = float(sys.argv.pop(1))

    def open_late(*operands: Any, **named: Any) -> Any:
        time.sleep(seconds)
        return open_weights(*operands, **named)

    pytest.MonkeyPatch().setattr(load_stage, "open_weights", open_late)
    follower.main()


if __name__ == "__main__":
    main()
