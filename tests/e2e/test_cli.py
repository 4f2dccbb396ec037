"""The command line, as a person and as a script would use it."""

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import psutil
import pytest
from tests.e2e.command_line import headrace, headrace_here
from tests.harness.running_platform import RunningPlatform, running_platform

from headrace.claims import measured_claims
from headrace.demo_model import CHECKPOINT
from headrace.engine.kernels.choice import kernel_choice


def state(platform: RunningPlatform) -> list[str]:
    return ["--state-dir", str(platform.state_dir)]


def test_the_ready_line_keeps_the_contract(demo_platform: RunningPlatform) -> None:
    ready = demo_platform.ready
    assert ready["http"].startswith("http://127.0.0.1:")
    assert ready["models"] == ["headrace-demo"]
    services = {service["name"]: service for service in ready["services"]}
    assert set(services) == {"gateway", "tokenizer", "tokenizer-1", "scheduler", "cache", "worker-0", "nats"}
    assert services["worker-0"]["model"] == "headrace-demo"
    for service in services.values():
        assert psutil.pid_exists(service["pid"])
        host, port = service["address"].split(":")
        socket.create_connection((host, int(port)), timeout=5).close()


def test_ps(demo_platform: RunningPlatform) -> None:
    shown = json.loads(headrace("ps", "--json", *state(demo_platform)).stdout)
    assert {service["state"] for service in shown["services"]} == {"ready"}
    table = headrace_here("ps", *state(demo_platform)).stdout
    assert "worker-0" in table
    assert "ready" in table


def test_explain(demo_platform: RunningPlatform) -> None:
    body = {"model": "headrace-demo", "prompt": "Who was first?", "max_tokens": 2}
    asked = httpx2.post(f"{demo_platform.http}/v1/completions", json=body, timeout=30).json()["id"]
    entries = json.loads(headrace_here("explain", asked, "--json", *state(demo_platform)).stdout)["entries"]
    texts = [entry["text"] for entry in entries]
    assert "submitted" in texts[0]
    assert any("accepted by worker-0" in text for text in texts)
    assert "chosen" in headrace_here("explain", asked, *state(demo_platform)).stdout
    unknown = headrace_here("explain", "nobody", *state(demo_platform))
    assert unknown.returncode != 0
    assert "request nobody was not found: schedulers" in unknown.stderr


def test_trace(demo_platform: RunningPlatform) -> None:
    body = {"model": "headrace-demo", "prompt": "Who was second?", "max_tokens": 2}
    asked = httpx2.post(f"{demo_platform.http}/v1/completions", json=body, timeout=30).json()["id"]
    found = json.loads(headrace_here("trace", asked, "--json", *state(demo_platform)).stdout)
    assert found["request_id"] == asked.removeprefix("cmpl-")
    assert sum(found["stages_ms"].values()) >= 0.95 * found["total_ms"] > 0
    shown = headrace_here("trace", "last", *state(demo_platform)).stdout
    assert "prefill" in shown
    assert f"headrace explain {found['request_id']}" in shown
    unknown = headrace_here("trace", "nobody", *state(demo_platform))
    assert unknown.returncode != 0
    assert "request nobody was not found: gateways" in unknown.stderr


def test_trace_of_latency_budgets(demo_platform: RunningPlatform) -> None:
    body = {"model": "headrace-demo", "prompt": "Who was late?", "max_tokens": 2}
    httpx2.post(f"{demo_platform.http}/v1/completions", json=body, timeout=30).raise_for_status()
    found = json.loads(headrace_here("trace", "--slo", "--json", *state(demo_platform)).stdout)
    (row,) = (row for row in found["classes"] if row["class"] == "default")
    assert row["requests"] >= 1
    assert len(found["missed"]) == sum(row["requests"] - row["met"] for row in found["classes"])
    assert "first token late" in headrace_here("trace", "--slo", *state(demo_platform)).stdout


def test_top(demo_platform: RunningPlatform) -> None:
    looked = json.loads(headrace_here("top", "--json", "--interval", "0.2", *state(demo_platform)).stdout)
    (model,) = looked["models"]
    assert (model["model"], model["worker_count"], model["waiting"]) == ("headrace-demo", 1, 0)
    assert {service["state"] for service in looked["services"]} == {"ready"}
    shown = headrace_here("top", "--once", "--interval", "0.2", *state(demo_platform)).stdout
    assert "tok/s" in shown
    assert "time to first token" in shown
    assert "worker-0" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_logs(demo_platform: RunningPlatform) -> None:
    shown = headrace_here("logs", "worker-0", *state(demo_platform)).stdout
    assert re.search(r"worker-0 ready address=127\.0\.0\.1:\d+", shown)
    written = headrace_here("logs", "gateway", "--json", *state(demo_platform)).stdout
    lines = [json.loads(line) for line in written.splitlines()]
    assert "gateway" in {line.get("service") for line in lines}
    assert len(headrace_here("logs", "worker-0", "--lines", "1", *state(demo_platform)).stdout.splitlines()) == 1
    unknown = headrace_here("logs", "nobody", *state(demo_platform))
    assert unknown.returncode == 1
    assert "worker-0" in unknown.stderr


def test_logs_are_followed(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "worker-0.log"
    log.write_text("before\n")
    command = [sys.executable, "-m", "headrace.cli", "logs", "-f", "--json", "--state-dir", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        with process.stdout as lines:
            assert lines.readline() == "before\n"
            with log.open("a") as file:
                file.write("after\n")
            assert lines.readline() == "after\n"
            log.write_text("new\n")
            assert lines.readline() == "new\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 130
    finally:
        process.kill()
        process.wait(10)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    script = headrace_here("completion", shell).stdout
    for word in ("quantize", "models", "state-dir"):
        assert word in script


def test_models(tmp_path: Path) -> None:
    listed = json.loads(headrace_here("models", "list", "--json").stdout)["models"]
    (bundled,) = (model for model in listed if model["from"] == "bundled")
    assert (bundled["name"], bundled["path"]) == ("headrace-demo", str(CHECKPOINT))
    assert bundled["bytes"] > 2 * bundled["parameter_count"] > 6_000_000
    shown = headrace_here("models", "list").stdout
    assert "apache-2.0" in shown
    assert "Qwen/Qwen3-32B-AWQ" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    missing = headrace_here("models", "rm", "org/none")
    assert missing.returncode == 1
    assert "org/none was not pulled" in missing.stderr


def test_chat_answers_one_question(demo_platform: RunningPlatform) -> None:
    answered = headrace("chat", "--prompt", "What is continuous batching?", *state(demo_platform))
    assert answered.returncode == 0
    assert "batch" in answered.stdout.lower()
    as_json = json.loads(headrace_here("chat", "-p", "What does TTFT mean?", "--json", *state(demo_platform)).stdout)
    assert "first token" in as_json["answer"].lower()


def test_chat_takes_what_is_piped_in_as_one_text(demo_platform: RunningPlatform) -> None:
    piped = "What is TTFT?\n\nWho are you?"
    for prompt, question in ((), piped), (("-p", "Say:"), f"Say:\n\n{piped}"):
        answered = headrace_here("chat", *prompt, "--json", *state(demo_platform), stdin=f"{piped}\n")
        assert [json.loads(line)["question"] for line in answered.stdout.splitlines()] == [question]
    assert headrace_here("chat", *state(demo_platform), stdin="\n").stdout == ""


def test_bench(demo_platform: RunningPlatform) -> None:
    arguments = ["bench", "--requests", "6", "--concurrency", "3", "--output-tokens", "8", *state(demo_platform)]
    summary = json.loads(headrace_here(*arguments, "--json").stdout)
    assert (summary["requests"], summary["failed"]) == (6, 0)
    assert summary["output_tokens_per_second"] > 0
    assert 0 < summary["ttft_ms"]["p50"] <= summary["ttft_ms"]["p99"] <= summary["e2e_ms"]["p99"]
    assert "TTFT" in headrace_here(*arguments).stdout


def test_bench_of_a_profile_is_kept_and_compared(demo_platform: RunningPlatform, tmp_path: Path) -> None:
    saved = [str(tmp_path / name) for name in ("closed.json", "open.json")]
    page = tmp_path / "page.html"
    load = ["bench", "--profile", "batch", "--requests", "5", *state(demo_platform)]
    shown = headrace_here(*load, "--save", saved[0], "--html", str(page))
    assert "batch: 5 sessions" in shown.stdout, shown.stderr
    assert page.read_text().count("<svg") == 7
    summary = json.loads(headrace_here(*load, "--rate", "20", "--save", saved[1], "--json").stdout)
    assert (summary["requests"], summary["failed"], summary["rate"]) == (5, 0, 20.0)
    compared = headrace_here("bench", "compare", *saved)
    assert "TTFT p50" in compared.stdout, compared.stderr
    assert "the loads differ in concurrency, rate" in compared.stderr
    metrics = json.loads(headrace_here("bench", "compare", *saved, "--json").stdout)["metrics"]
    assert all(metric["low"] <= metric["high"] and metric["first"] > 0 for metric in metrics)
    assert "tokens/s" in {metric["name"] for metric in metrics}
    for wrong in (["--input-tokens", "5"], ["--rate", "5", "--concurrency", "2"], ["--rate", "0"]):
        assert "--" in (refused := headrace_here(*load, *wrong)).stderr
        assert refused.returncode == 1
    failed = headrace_here("bench", "compare", saved[0], str(page))
    assert failed.returncode == 1
    assert "page.html is not a run" in failed.stderr


def test_config_of_services_that_run(demo_platform: RunningPlatform) -> None:
    shown = json.loads(headrace_here("config", "show", "--json", *state(demo_platform)).stdout)["services"]
    assert set(shown) == {"gateway", "tokenizer", "tokenizer-1", "scheduler", "cache", "worker-0"}
    worker = {setting["name"]: setting for setting in shown["worker-0"]}
    assert (worker["model"]["value"], worker["model"]["origin"]) == ("headrace-demo", "flag --model")
    assert (worker["credential"]["value"], worker["credential"]["origin"][:11]) == ("***", "environment")
    text = headrace_here("config", "show", "gateway", "--origin", *state(demo_platform)).stdout
    assert "max_attempts = 5  default" in text
    assert re.search(r'http_address = "127\.0\.0\.1:\d+"  from headrace up, as flag --http-address\b', text)
    assert (demo_platform.state_dir / "credential").read_text() not in text + json.dumps(shown)
    unknown = headrace_here("config", "show", "nobody", *state(demo_platform))
    assert unknown.returncode == 1
    assert "worker-0" in unknown.stderr


def test_config_of_services_that_would_start(tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text("[gateway]\nstrict = true\n")
    text = headrace_here("config", "show", "gateway", "--origin", "--config", str(file)).stdout
    assert f"strict = true  from file {file}  (default: false)" in text
    schema = json.loads(headrace_here("config", "schema").stdout)
    assert set(schema["properties"]) == {"gateway", "tokenizer", "scheduler", "cache", "worker", "picker"}
    file.write_text("[gateway]\nzork = true\n")
    failed = headrace_here("config", "show", "gateway", "--config", str(file))
    assert failed.returncode == 1
    assert "gateway.zork" in failed.stderr


def test_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_choice, "REPEATS", 1)
    findings = json.loads(headrace_here("doctor", "--json").stdout)["findings"]
    subjects = {finding["subject"]: finding["status"] for finding in findings}
    assert subjects["Python"] == subjects["NATS"] == subjects["Engine"] == "ok"
    assert "NATS" in headrace_here("doctor").stdout


def test_commands_without_a_platform_say_what_to_do(tmp_path: Path) -> None:
    for command in ("ps", "chat", "bench"):
        failed = headrace_here(command, "--state-dir", str(tmp_path))
        assert failed.returncode == 1
        assert "headrace up" in failed.stderr
        assert "Traceback" not in failed.stderr


def test_a_model_that_is_not_served_is_named(demo_platform: RunningPlatform) -> None:
    failed = headrace_here("chat", "none", "-p", "hi", *state(demo_platform))
    assert failed.returncode == 1
    assert "headrace-demo" in failed.stderr


def test_a_state_folder_in_use_is_refused(demo_platform: RunningPlatform) -> None:
    failed = headrace("up", "--http-port", "0", "--grpc-port", "0", *state(demo_platform))
    assert failed.returncode == 1
    assert "already runs" in failed.stderr
    assert httpx2.get(f"{demo_platform.http}/ready", timeout=5).status_code == 200


def test_two_platforms_run_side_by_side_and_models_have_the_names_they_are_given(
    demo_platform: RunningPlatform, tmp_path: Path
) -> None:
    with running_platform(tmp_path, [f"other={CHECKPOINT}", "--engine", "sim"]) as second:
        assert second.http != demo_platform.http
        listed = httpx2.get(f"{second.http}/v1/models", timeout=5).json()
        assert [model["id"] for model in listed["data"]] == ["other"]
    assert httpx2.get(f"{demo_platform.http}/ready", timeout=5).status_code == 200


def test_claims_are_printed_with_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_claims, "ROUNDS", 1)
    monkeypatch.setattr(measured_claims, "OUTPUTS", 8)
    done = headrace_here("bench", "--claims", "--json")
    assert done.returncode == 0, done.stderr
    claims = json.loads(done.stdout)["claims"]
    assert {claim["basis"] for claim in claims} == {"measured here", "predicted"}
    assert all(claim["found"] for claim in claims)
    failed = headrace_here("bench", "no-such-model", "--claims")
    assert failed.returncode == 1
    assert "no-such-model" in failed.stderr
