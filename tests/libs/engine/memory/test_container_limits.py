"""Threads of the engine under real limits: a process that is bound to a core, and one in a mount namespace of its own,
which sees the files of a container with a quota."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.demo_model import CHECKPOINT
from headrace.engine.memory.host_cores import usable_core_count

ONE_CORE = "this machine has one core for us, and a limit would change nothing; to run it: a machine with two"
NO_NAMESPACE = "a mount namespace of one's own is not allowed here; to run it: root, or user namespaces"

pytestmark = [
    pytest.mark.process,
    needs_kernels,
    pytest.mark.skipif(
        sys.platform != "linux", reason="only Linux tells a process's threads in /proc; to run it: Linux"
    ),
    pytest.mark.skipif(usable_core_count() < 2, reason=ONE_CORE),
]

SCRIPT = """
import os, sys, threading
import numpy
from pathlib import Path
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.loading.load_text_engine import load_text_engine
others = set(os.listdir("/proc/self/task"))
engine = load_text_engine(Path(sys.argv[1]), EngineConfig(block_count=64))
engine.add(EngineRequest("r", (5, 6, 7), SamplingParams(max_tokens=2, temperature=0, ignore_eos=True)))
while engine.has_work():
    engine.step()
others |= {str(thread.native_id) for thread in threading.enumerate()}
print(1 + len(set(os.listdir(f"/proc/{os.getpid()}/task")) - others))
"""
"""Loads a model and answers, then prints how many threads the kernels have: those that they started, and the caller."""


def kernel_thread_count(*prefix: str) -> int:
    """Runs the engine, with all cores that it may use, behind a command that limits it."""
    command = [*prefix, sys.executable, "-c", SCRIPT, str(CHECKPOINT)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)


def namespace() -> list[str]:
    """Returns the command that gives a process a mount namespace. Skips the test where none is allowed."""
    for flags in ("-m", "-Urm"):
        probe = ["unshare", flags, "mount", "--bind", "/tmp", "/tmp"]
        try:
            if subprocess.run(probe, capture_output=True, check=False, timeout=20).returncode == 0:
                return ["unshare", flags]
        except FileNotFoundError:
            break
    pytest.skip(NO_NAMESPACE)


def test_without_a_limit_the_kernels_take_every_core() -> None:
    assert kernel_thread_count() == usable_core_count()


def test_a_process_that_is_bound_to_one_core_starts_no_other_thread() -> None:
    core = min(os.sched_getaffinity(0))
    assert kernel_thread_count("taskset", "--cpu-list", str(core)) == 1


@pytest.mark.parametrize(
    ("group", "files"),
    [
        ("0::/pod\n", {"cpu.max": "max 100000\n", "pod/cpu.max": "150000 100000\n"}),
        ("4:cpu,cpuacct:/pod\n", {"cpu/pod/cpu.cfs_quota_us": "150000\n", "cpu/pod/cpu.cfs_period_us": "100000\n"}),
    ],
    ids=["version 2", "version 1"],
)
def test_a_container_with_a_quota_of_one_core_starts_no_other_thread(
    tmp_path: Path, group: str, files: dict[str, str]
) -> None:
    limits = tmp_path / "cgroup"
    for name, content in files.items():
        (limits / name).parent.mkdir(parents=True, exist_ok=True)
        (limits / name).write_text(content)
    (tmp_path / "self").write_text(group)
    # The shell becomes the engine, so that the files of its process are those of the engine's.
    script = 'mount --bind "$1" /sys/fs/cgroup && mount --bind "$2" /proc/$$/cgroup && shift 2 && exec "$@"'
    entered = [*namespace(), "sh", "-c", script, "sh", str(limits), str(tmp_path / "self")]
    assert kernel_thread_count(*entered) == 1
