"""The page of a platform that is ready shows newcomers the console first, and an example for each model."""

import time
from pathlib import Path

import pytest

from headrace.cli.commands.up.ready_page import ReadyPage
from headrace.demo_model import CHECKPOINT
from headrace.launch.platform_spec import ModelSource

ADDRESSES = {"http": "http://127.0.0.1:8000", "grpc": "127.0.0.1:9000", "lan": "http://10.0.0.5:8000", "pid": 7}


@pytest.mark.parametrize("in_background", [False, True])
def test_the_console_is_the_first_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], in_background: bool
) -> None:
    page = ReadyPage(tmp_path, None, time.time())
    page.print(ADDRESSES, [ModelSource("demo", CHECKPOINT)], in_background=in_background)
    lines = capsys.readouterr().out.split("\n")
    ready = next(index for index, line in enumerate(lines) if line.startswith("Ready in "))
    assert lines[ready + 1].split() == ["console", ADDRESSES["http"], "in", "a", "browser"]
    assert [line.split()[0] for line in lines[ready + 2 : ready + 6]] == ["REST", "gRPC", "LAN", "logs"]
    assert any("chat" in line for line in lines[ready + 6 :])
    assert any("Ctrl-C stops everything" in line for line in lines) != in_background
    assert any("Running in the background (pid 7)" in line for line in lines) == in_background
