"""Commands keep working after the reader of their output is gone."""

import subprocess
import sys

import pytest

PRINTING = """
import sys
from headrace.cli.output import outliving_readers, print_json
sys.stdin.readline()
for number in range(3):
    with outliving_readers():
        print_json({"number": number})
sys.stderr.write("done")
"""


@pytest.mark.process
def test_a_reader_that_leaves_ends_nothing() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PRINTING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    assert process.communicate("\n", timeout=30)[1] == "done"
    assert process.returncode == 0
