"""The examples of README and guides work as printed. Only the addresses are those of the platform under test."""

import json
import re
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from tests.harness.running_platform import RunningPlatform

from headrace.cli.__main__ import COMMANDS

BLOCK = re.compile(r"```(bash|python|toml)\n(.*?)```", re.DOTALL)


def blocks(root: Path, language: str, heading: str) -> list[str]:
    pages = [root / "README.md", *sorted((root / "docs" / "guide").glob("*.md"))]
    sections = [section for page in pages for section in re.split(r"\n##+ ", page.read_text())]
    section = next(section for section in sections if section.startswith(f"{heading}\n"))
    return [code for kind, code in BLOCK.findall(section) if kind == language]


def at(platform: RunningPlatform, code: str) -> str:
    assert "127.0.0.1:8000" in code or "127.0.0.1:9000" in code
    place = platform.http.removeprefix("http://")
    return code.replace("127.0.0.1:8000", place).replace("127.0.0.1:9000", platform.grpc)


def run(*command: str) -> str:
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def run_python(platform: RunningPlatform, code: str) -> str:
    return run(sys.executable, "-W", "ignore", "-c", at(platform, code))


def test_curl(root: Path, demo_platform: RunningPlatform) -> None:
    whole, stream = blocks(root, "bash", "curl")
    answer = json.loads(run("bash", "-c", at(demo_platform, whole)))
    assert "batch" in answer["choices"][0]["message"]["content"].lower()
    lines = run("bash", "-c", at(demo_platform, stream)).split("\n\n")
    assert lines[-2] == "data: [DONE]"
    chunks = [json.loads(line.partition("\n")[0][6:]) for line in lines[:-2]]
    said = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert "first token" in said.lower()


def test_resuming_a_stream(root: Path, demo_platform: RunningPlatform, tmp_path: Path) -> None:
    (code,) = blocks(root, "bash", "Resuming a stream")
    text = run("bash", "-c", f"cd {tmp_path}; {at(demo_platform, code)}")
    chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    said = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert "first token" in said.lower()
    assert len(re.findall("^id: ", (tmp_path / "begun.txt").read_text(), re.MULTILINE)) == 3
    assert text.count("data: [DONE]") == 1


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("The openai SDK", "model"),
        ("gRPC", "kv"),
        ("The Python client", "kv"),
        ("Asking from Python", "first token after"),
        ("The client over gRPC", "get_weather {"),
    ],
)
def test_python(root: Path, demo_platform: RunningPlatform, heading: str, expected: str) -> None:
    """One of three answers has the word: some are sampled, and the bundled model may then speak of something else."""
    (code,) = blocks(root, "python", heading)
    assert any(expected in run_python(demo_platform, code).lower() for _ in range(3))


def test_batches(root: Path, demo_platform: RunningPlatform) -> None:
    (code,) = blocks(root, "python", "Batches")
    assert run_python(demo_platform, code).strip()


def test_tools(root: Path, demo_platform: RunningPlatform) -> None:
    (code,) = blocks(root, "python", "Tools and reasoning")
    assert "name='get_weather'" in run_python(demo_platform, code)


def test_responses_over_websocket_and_anthropics_messages(root: Path, demo_platform: RunningPlatform) -> None:
    socket, messages = blocks(root, "python", "Responses, and Anthropic's Messages")
    for code in (socket, messages):
        assert any("kv" in run_python(demo_platform, code).lower() for _ in range(3))


def test_embeddings(root: Path, embedding_platform: RunningPlatform) -> None:
    (code,) = blocks(root, "python", "Embeddings")
    said = re.fullmatch(r"paraphrase (0\.\d+), other (-?0\.\d+)\n", run_python(embedding_platform, code))
    assert said is not None
    assert float(said[1]) > 0.7 > 0.2 > float(said[2])


def test_the_folder_map_names_real_folders(root: Path) -> None:
    text = (root / "README.md").read_text().split("## Folder map")[1].split("```")[1]
    for line in text.splitlines():
        names = re.findall(r"([\w/]+/)(?: |$)", line.split("   ")[0].strip())
        base = root / "libs" / "headrace" if line.startswith("  ") else root
        for name in names:
            assert (base / name).is_dir(), name


def test_the_two_commands_are_targets_of_the_makefile(root: Path) -> None:
    makefile = (root / "Makefile").read_text()
    for command in re.findall(r"^make (\w+)", (root / "README.md").read_text(), re.MULTILINE):
        assert f"\n{command}:" in makefile


def table_of(root: Path, heading: str) -> str:
    """The first cells of a section's table."""
    section = re.split(r"\n##+ ", (root / "README.md").read_text())
    text = next(part for part in section if part.startswith(f"{heading}\n"))
    return "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("|"))


def test_the_table_of_endpoints_is_what_a_platform_serves(root: Path, demo_platform: RunningPlatform) -> None:
    served = set(httpx2.get(f"{demo_platform.http}/", timeout=10).json()["endpoints"])
    named = set(re.findall(r"`((?:GET|POST|DELETE|PUT|PATCH) [^`]+)`", table_of(root, "Endpoints")))
    assert named == served


def test_the_table_of_commands_is_what_there_is(root: Path) -> None:
    named = re.findall(r"`headrace ([a-z]+)`", table_of(root, "Commands"))
    assert sorted(named) == sorted(COMMANDS)
