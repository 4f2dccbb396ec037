"""`make play` runs the five services in one process, says how to ask them, and ends with Ctrl-C."""

import shutil
import signal
import subprocess
import sys
import threading

import pytest

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl; to run it: install curl"),
]
START_SECONDS, ANSWER_SECONDS, STOP_SECONDS = 60.0, 20.0, 10.0
COMMAND = [sys.executable, "-m", "tests.integration.play", "--engine", "sim"]


def test_the_line_that_it_prints_works_and_ctrl_c_ends_it(pytestconfig: pytest.Config) -> None:
    pipe, folder = subprocess.PIPE, pytestconfig.rootpath
    with subprocess.Popen(COMMAND, stdout=pipe, stderr=pipe, cwd=folder, text=True) as process:
        # Killed when it is late, so that reading its lines ends.
        limit = threading.Timer(START_SECONDS, process.kill)
        limit.start()
        try:
            line = next((line for line in process.stdout or () if line.startswith("curl ")), None)
            assert line is not None, process.communicate()[1]
            asked = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=ANSWER_SECONDS)
            assert asked.stdout.rstrip().endswith("data: [DONE]"), asked.stderr
            process.send_signal(signal.SIGINT)
            assert process.wait(STOP_SECONDS) == 0
            assert "Traceback" not in (process.stderr.read() if process.stderr else "")
        finally:
            limit.cancel()
            process.kill()
