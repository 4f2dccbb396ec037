"""`headrace up`: starts that are refused, in words, and ends that leave nothing behind."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import psutil
import pytest
from tests.e2e.command_line import Done, headrace, headrace_here
from tests.harness.ended import wait_ended
from tests.harness.forked_up import ForkedUp
from tests.harness.running_platform import start_up

from headrace.demo_model import CHECKPOINT
from headrace.supervisor.spawning.parent_death import adopts_orphans
from headrace.supervisor.state import read_platform


def up_fails(tmp_path: Path, *arguments: str, run: Callable[..., Done] = headrace_here) -> tuple[str, dict[str, Any]]:
    """Starts a platform that must refuse; returns what it says to people and to scripts. One that has to start a
    service for that is quicker as a process of its own: its fork has imported the services."""
    ports = [] if "--http-port" in arguments else ["--http-port", "0"]
    common = ["--json", *ports, "--grpc-port", "0", "--state-dir", str(tmp_path / "state")]
    failed = run("up", *common, *arguments)
    assert failed.returncode == 1, failed.stderr
    assert "Traceback" not in failed.stderr
    return failed.stderr, json.loads(failed.stdout.splitlines()[-1])


def test_an_occupied_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said, event = up_fails(tmp_path, "--http-port", str(port), run=headrace)
    assert str(port) in said
    assert "--http-port" in event["message"]


def test_an_occupied_port_for_metrics_is_named_at_once(tmp_path: Path) -> None:
    config = tmp_path / "headrace.toml"
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config.write_text(f"[cache]\nmetrics_port = {port}\n")
        said, event = up_fails(tmp_path, "--config", str(config), "--start-silence-seconds", "300", run=headrace)
    assert f"cannot show metrics on port {port}" in said
    assert "metrics_port" in event["message"]


def test_a_refused_start_leaves_no_process(tmp_path: Path) -> None:
    before = psutil.Process().children()
    said, _ = up_fails(tmp_path, "--memory", "64M")
    assert "--memory 64 MB is too little" in said
    assert psutil.Process().children() == before
    assert not adopts_orphans()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[gateway]\nzork = 1\n", "gateway.zork"),
        ("[worker]\nblock_size = 0\n", "worker.block_size"),
        ("[zork]\n", "zork"),
    ],
)
def test_a_bad_setting_is_named(tmp_path: Path, text: str, named: str) -> None:
    config = tmp_path / "headrace.toml"
    config.write_text(text)
    said, _ = up_fails(tmp_path, "--config", str(config), run=headrace)
    assert named in said


def test_models_that_are_not_there(tmp_path: Path) -> None:
    assert "no-such-model" in up_fails(tmp_path, "no-such-model")[0]
    (tmp_path / "empty").mkdir()
    assert "config.json" in up_fails(tmp_path, str(tmp_path / "empty"))[0]
    assert "-replicas" in up_fails(tmp_path, "--replicas", "0")[0]


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(CHECKPOINT, folder)
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"model.embed_tokens.weight": "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    said, _ = up_fails(tmp_path, f"broken={folder}", run=headrace)
    assert "model-00001-of-00002.safetensors" in said


@contextlib.contextmanager
def starting(folder: Path, *arguments: str) -> "Iterator[tuple[subprocess.Popen[str] | ForkedUp, IO[str], IO[str]]]":
    """Starts a platform. Yields its process, what that says line by line, and its errors."""
    process = start_up(["--state-dir", str(folder), "--http-port", "0", "--grpc-port", "0", *arguments])
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout as said, process.stderr as errors:
        yield process, said, errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_while_starting_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with starting(tmp_path) as (process, said, _):
        next(line for line in said if json.loads(line).get("name") == "worker-0")
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        process.send_signal(number)
        assert process.wait(10) == 0
    assert wait_ended(children, 0) == []
    assert not (tmp_path / "platform.json").exists()
    assert not (tmp_path / "lock").exists()


def test_a_reader_that_leaves_does_not_end_the_platform(tmp_path: Path) -> None:
    with starting(tmp_path, "--engine", "sim") as (process, said, errors):
        ready = next(event for event in map(json.loads, said) if event["event"] == "ready")
        said.close()
        victim = next(service for service in ready["services"] if service["name"] == "cache")
        os.kill(victim["pid"], signal.SIGKILL)
        deadline = time.monotonic() + 20
        while not any(s["restarts"] and s["state"] == "ready" for s in read_platform(tmp_path)["services"]):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        code, written = process.wait(10), errors.read()
    assert code == 0, written
    assert "Traceback" not in written


def test_a_killed_supervisor_leaves_no_orphans(tmp_path: Path) -> None:
    with starting(tmp_path, "--engine", "sim") as (process, said, _):
        next(line for line in said if json.loads(line)["event"] == "ready")
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait(10)
    assert wait_ended(children, 10) == []
