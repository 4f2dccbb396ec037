"""A supervisor in a process of its own, told what to do line by line.

    python -m tests.libs.supervisor.spawning.supervisor_process FOLDER

`spawn MODE` starts the module `told` of the folder and answers with its pid, `wait PID` with its exit code.
`terminate PID` ends it, `end-server` kills the fork server.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from headrace.supervisor.spawning.fork_spawner import ForkSpawner
from headrace.supervisor.spawning.process_start import ProcessStart
from headrace.supervisor.spawning.running_process import RunningProcess

TOLD = """
import json, os, subprocess, sys, time
if __name__ == "__main__":
    mode, report, *_ = sys.argv[1:]
    facts = {
        "parent": os.getppid(),
        "session": os.getsid(0),
        "secret": os.environ["SECRET"],
        "arguments": sys.argv[1:],
        "title": open("/proc/self/cmdline").read(),
        "imported": "told.app" in sys.modules,
        "inherited": os.fstat(int(sys.argv[3])).st_ino,
    }
    with open(report + ".part", "w") as file:
        json.dump(facts, file)
    os.rename(report + ".part", report)
    if mode == "refuse":
        print("a line", flush=True)
        print("the reason", file=sys.stderr)
        raise SystemExit(78)
    if mode == "raise":
        raise ValueError("a fault")
    if mode == "orphan":
        subprocess.Popen(["sleep", "0.05"])
    if mode == "sleep":
        time.sleep(60)
"""


class SupervisorProcess:
    """Controls it from a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        package = folder / "told"
        package.mkdir()
        for name, content in (("__init__", ""), ("app", ""), ("config", ""), ("__main__", TOLD)):
            (package / f"{name}.py").write_text(content)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name if __spec__ else __name__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), *filter(None, sys.path)))},
        )
        self.pid = self._process.pid

    def ask(self, *words: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


async def answer(spawner: ForkSpawner, folder: Path) -> None:
    with (folder / "inherited").open("w") as inherited:
        running: dict[int, RunningProcess] = {}
        while line := await asyncio.to_thread(sys.stdin.readline):
            verb, _, word = line.strip().partition(" ")
            if verb == "spawn":
                arguments = (word, str(folder / f"{word}.json"), str(inherited.fileno()))
                process = await spawner.spawn(
                    ProcessStart(
                        command=[sys.executable, "-m", "told", *arguments],
                        log_path=folder / f"{word}.log",
                        environment={"SECRET": "s"},
                        descriptors=[inherited.fileno()],
                        module="told",
                        arguments=arguments,
                        is_importable=True,
                    )
                )
                running[process.pid] = process
                said: object = process.pid
            elif verb == "wait":
                said = await running[int(word)].wait()
            elif verb == "terminate":
                running[int(word)].terminate()
                said = None
            else:
                os.kill(spawner.server_pid, signal.SIGKILL)
                said = None
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    asyncio.run(answer(ForkSpawner(["told"]), Path(sys.argv[1])))
