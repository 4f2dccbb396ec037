"""Runs one simulation for `headrace simulate`: a Scenario comes as JSON on stdin, and its figures go as JSON to stdout.

A trace or a policy that cannot be ends it with exit code 2 and `{"error": MESSAGE}`.
"""

import gc
import json
import sys

from headrace.errors import ConfigError, InvalidRequest
from headrace.scheduler.simulation.figures import figures
from headrace.scheduler.simulation.scenario import Scenario


def main() -> int:
    """Returns the exit code."""
    scenario = Scenario(**json.load(sys.stdin))
    try:
        traffic = scenario.traffic()
        found = figures(scenario, traffic, scenario.play(traffic))
    except (ConfigError, InvalidRequest) as error:
        json.dump({"error": error.message}, sys.stdout)
        return 2
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    # A simulation makes millions of small objects and no cycles: looking for garbage would take a fifth of its time.
    gc.disable()
    sys.exit(main())
