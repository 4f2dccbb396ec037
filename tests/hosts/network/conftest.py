"""Tests of the network of hosts, for the same target alone."""

import os

collect_ignore_glob = [] if os.environ.get("HEADRACE_HOSTS") else ["test_*.py"]
