"""First ranks that are forked as followers are, and start their followers as a worker does."""

import os
import signal
import sys
import time
from pathlib import Path

import psutil
from tests.libs.engine.parallel.forked_followers import END_SECONDS, ForkedFollowers

from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.parallel import follower

READY, STATUS = "leads", "ended"
"""Files in the folder of a leader's model: its process number once it is ready, and the status of its end."""


def start_leader(forking: ForkedFollowers, folder: Path) -> psutil.Process:
    """Forks the first rank of two, which serves the model in a folder. Returns once its follower has joined it."""
    forking.start([sys.executable, "-P", "-m", "headrace.engine.parallel.follower", "--leader", str(folder)])
    return psutil.Process(int(written(folder / READY)))


def written(path: Path) -> str:
    """Waits until a file has a content, and returns it."""
    deadline = time.monotonic() + END_SECONDS
    while not (path.is_file() and (content := path.read_text())):
        assert time.monotonic() < deadline, path
        time.sleep(0.01)
    return content


def allow_leaders() -> None:
    """Has this process, which was forked to follow, lead where it is given a folder for an address."""
    follow = follower.main

    def main() -> None:
        folder = Path(sys.argv[2])
        if folder.is_dir():
            lead(folder)
        else:
            follow()

    follower.main = main


def lead(folder: Path) -> None:
    """Leads a group until this process is killed or forgotten. Its parent writes down the status of its end."""
    pid = os.fork()
    if pid:
        (folder / STATUS).write_text(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}")
        os._exit(0)
    signal.alarm(int(2 * END_SECONDS))
    engine = load_text_engine(folder, EngineConfig(block_count=64, speculation="off", tensor_parallel_count=2))
    (folder / READY).write_text(f"{os.getpid()}")
    signal.pause()
    engine.close()
