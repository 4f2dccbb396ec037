"""A process knows its age to hundredths of a second."""

import subprocess
import sys
import time

import pytest

AGED = """
import time
time.sleep(0.3)
from headrace.supervisor.system.process_age import process_age
print(process_age())
"""


@pytest.mark.process
def test_the_age_is_between_what_passed_inside_and_outside() -> None:
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", AGED], capture_output=True, text=True, check=True)
    assert 0.28 < float(done.stdout) < time.monotonic() - began + 0.02
