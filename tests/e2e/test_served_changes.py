"""Models, adapters and names come and go while others are asked, and are there again after everything was killed."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from tests.e2e.command_line import Done, headrace
from tests.e2e.test_adapters import save_adapter
from tests.harness.ended import wait_ended
from tests.harness.running_platform import RunningPlatform, running_platform

from headrace.demo_model import CHECKPOINT
from headrace.supervisor.state import read_platform

pytestmark = pytest.mark.slow
DEMO, SECOND, TUNED, ALIAS = "headrace-demo", "second", "tuned", "gpt-4o"
CLIENTS = 2
PAUSE_SECONDS = 0.15
"""Pause of each client between two questions: most of the processors is left to what the tests are about."""
TIMEOUT = 60.0


def ask(url: str, model: str, key: dict[str, str] | None = None) -> httpx2.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "What is a dam?"}], "max_tokens": 12}
    return httpx2.post(f"{url}/v1/chat/completions", json=body | {"temperature": 0}, headers=key, timeout=TIMEOUT)


def text_of(response: httpx2.Response) -> str:
    assert response.status_code == 200, response.text
    said: str = response.json()["choices"][0]["message"]["content"]
    return said


def models_of(url: str, key: dict[str, str] | None = None) -> dict[str, Any]:
    listed = httpx2.get(f"{url}/v1/models", headers=key, timeout=TIMEOUT).json()["data"]
    return {model["id"]: model for model in listed}


@contextmanager
def traffic(url: str) -> Iterator[list[str]]:
    """Asks the bundled model again and again in the block, and yields the answers."""
    answers: list[str] = []
    ended = threading.Event()

    def keep_asking() -> None:
        while not ended.is_set():
            answer = ask(url, DEMO)
            answers.append(answer.text if answer.status_code != 200 else text_of(answer))
            time.sleep(PAUSE_SECONDS)

    threads = [threading.Thread(target=keep_asking) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        ended.set()
        for thread in threads:
            thread.join(TIMEOUT)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """With two gateways: a new connection reaches any of them."""
    with running_platform(tmp_path_factory.mktemp("served") / "state", counts=("--gateways", "2")) as running:
        yield running


def change(platform: RunningPlatform, *arguments: str) -> Done:
    return headrace("models", *arguments, "--state-dir", str(platform.state_dir))


def test_models_adapters_and_names_come_and_go_under_traffic(platform: RunningPlatform, tmp_path: Path) -> None:
    save_adapter(tmp_path / "tuned")
    plain = text_of(ask(platform.http, DEMO))
    with traffic(platform.http) as answers:
        assert change(platform, "load", f"{SECOND}={CHECKPOINT}").returncode == 0
        assert text_of(ask(platform.http, SECOND)) == plain
        assert change(platform, "load", f"{TUNED}={tmp_path / 'tuned'}", "--adapter-of", DEMO).returncode == 0
        assert text_of(ask(platform.http, TUNED)) != plain
        assert change(platform, "alias", ALIAS, SECOND).returncode == 0
        # Each gateway looks for names every quarter of a second, and each connection reaches one or the other.
        wait_for(lambda: all(ALIAS in models_of(platform.http) for _ in range(20)))
        assert ask(platform.http, ALIAS).json()["model"] == models_of(platform.http)[ALIAS]["root"] == SECOND
        assert change(platform, "unload", TUNED).returncode == 0
        assert change(platform, "unload", SECOND).returncode == 0
        assert list(models_of(platform.http)) == [DEMO]
    assert set(answers) == {plain}
    for name in (TUNED, SECOND, ALIAS):
        gone = ask(platform.http, name)
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "model_not_found")
    platform.wait_until_idle()


def test_a_gateway_changes_what_is_served_too(platform: RunningPlatform) -> None:
    models = f"{platform.http}/headrace/models"
    with traffic(platform.http) as answers:
        loaded = httpx2.post(models, json={"name": SECOND, "source": str(CHECKPOINT)}, timeout=TIMEOUT)
        assert loaded.json() == {"name": SECOND, "state": "served"}
        assert ask(platform.http, SECOND).status_code == 200
        refused = httpx2.post(models, json={"name": "bad", "source": "/nowhere"}, timeout=TIMEOUT)
        assert (refused.status_code, "/nowhere" in refused.json()["error"]["message"]) == (400, True)
        assert httpx2.delete(f"{models}/{SECOND}", timeout=TIMEOUT).json() == {"name": SECOND, "state": "unloaded"}
    assert len(set(answers)) == 1
    assert ask(platform.http, SECOND).status_code == 404


def test_a_model_gets_another_chat_template(platform: RunningPlatform, tmp_path: Path) -> None:
    template = tmp_path / "template.jinja"
    template.write_text("{{ messages[-1].content }}")
    assert change(platform, "load", f"{SECOND}={CHECKPOINT}", "--chat-template", str(template)).returncode == 0
    usage = [ask(platform.http, name).json()["usage"]["prompt_tokens"] for name in (SECOND, DEMO)]
    assert usage[0] < usage[1]
    broken = tmp_path / "broken.jinja"
    broken.write_text("{% broken")
    refused = change(platform, "load", f"{SECOND}={CHECKPOINT}", "--chat-template", str(broken))
    assert (refused.returncode, "does not compile" in refused.stderr) == (1, True)
    assert {ask(platform.http, name).status_code for name in (DEMO, SECOND)} == {200}
    assert change(platform, "unload", SECOND).returncode == 0


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("load", "bad={folder}"), "has no 'num_attention_heads'"),
        (("load", "/nowhere"), "/nowhere"),
        (("load", "a b={demo}"), "cannot be the name of a model"),
        (("load", "new={demo}", "--chat-template", "/nowhere"), "there is no file /nowhere with a chat template"),
        (("load", "tuned={folder}", "--adapter-of", DEMO), "is not the folder of a LoRA adapter"),
        (("load", "tuned={folder}", "--adapter-of", "nothing"), "no model 'nothing' is served"),
        (("unload", DEMO), "it is the only model"),
        (("unload", "nothing"), "no model 'nothing' is served; there are: headrace-demo"),
        (("alias", ALIAS, "nothing"), "no model 'nothing' is served"),
        (("alias", ALIAS, "--remove"), f"no model was given the name '{ALIAS}'"),
    ],
)
def test_what_cannot_be_done_says_why_and_disturbs_nobody(
    platform: RunningPlatform, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
    with traffic(platform.http) as answers:
        wait_for(lambda: answers)
        done = change(platform, *(each.format(folder=tmp_path, demo=CHECKPOINT) for each in arguments))
    assert done.returncode != 0
    assert says in " ".join(done.stderr.split())
    assert len(set(answers)) == 1
    assert "model_not_found" not in answers[0]
    assert list(models_of(platform.http)) == [DEMO]


def test_all_is_served_again_after_everything_was_killed(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    ports = ("--http-port", "0", "--grpc-port", "0")
    started = headrace("up", "--detach", "--memory", "4G", "--state-dir", state, *ports)
    assert started.returncode == 0, started.stderr
    assert "headrace-demo: 1 worker with" in started.stdout
    assert headrace("models", "load", f"{SECOND}={CHECKPOINT}", "--state-dir", state).returncode == 0
    assert headrace("models", "alias", ALIAS, SECOND, "--state-dir", state).returncode == 0
    save_adapter(tmp_path / "tuned")
    tuned = f"{TUNED}={tmp_path / 'tuned'}"
    assert headrace("models", "load", tuned, "--adapter-of", DEMO, "--state-dir", state).returncode == 0
    made = headrace("keys", "create", "laptop", "--json", "--state-dir", state)
    key = {"authorization": f"Bearer {json.loads(made.stdout)['key']}"}
    supervisor = psutil.Process(read_platform(tmp_path / "state")["pid"])
    processes = [supervisor, *supervisor.children(recursive=True)]
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    assert wait_ended(processes, TIMEOUT) == []
    with running_platform(tmp_path / "state") as platform:
        assert ask(platform.http, DEMO).status_code == 401
        assert set(models_of(platform.http, key)) == {DEMO, SECOND, ALIAS, TUNED}
        assert ask(platform.http, ALIAS, key).json()["model"] == SECOND
        assert text_of(ask(platform.http, TUNED, key)) != text_of(ask(platform.http, DEMO, key))
