"""TLS at the REST bridge and at the public gRPC API, of a platform that `headrace up` starts."""

import ssl
from pathlib import Path

import grpc
import httpx2
import pytest
from tests.e2e.command_line import headrace_here
from tests.harness.running_platform import RunningPlatform, running_platform
from tests.own_certificate import make_certificate

from headrace.v1 import inference_pb2, inference_pb2_grpc


def test_both_apis_show_the_certificate_and_nothing_is_said_in_plain_text(tmp_path: Path) -> None:
    public, private = make_certificate(tmp_path)
    config = tmp_path / "headrace.toml"
    config.write_text(f'[gateway]\ntls_certificate = "{public}"\ntls_key = "{private}"\n')
    with running_platform(tmp_path / "state", ["--engine", "sim", "--config", str(config)]) as platform:
        assert platform.http.startswith("https://")
        trust = ssl.create_default_context(cafile=public)
        body = {"model": "headrace-demo", "prompt": [1, 2, 3], "max_tokens": 2}
        answer = httpx2.post(f"{platform.http}/v1/completions", json=body, timeout=30, verify=trust)
        assert answer.status_code == 200
        with pytest.raises(httpx2.TransportError):
            httpx2.get(platform.http.replace("https", "http"), timeout=10)
        with grpc.secure_channel(platform.grpc, grpc.ssl_channel_credentials(public.read_bytes())) as channel:
            request = inference_pb2.GenerateRequest(model="headrace-demo", text="Where?")
            assert inference_pb2_grpc.InferenceServiceStub(channel).Generate(request, timeout=30).result.text
        _check_commands(platform, public)


def _check_commands(platform: RunningPlatform, public: Path) -> None:
    """Commands trust the platform of a state folder; for an address, they want to be given what to trust."""
    state, address = ["--state-dir", str(platform.state_dir)], ["--url", platform.http]
    for command in (["trace"], ["status"], ["top", "--once", "--interval", "0.1"], ["ps", "--json"]):
        done = headrace_here(*command, *state)
        assert done.returncode == 0, done.stderr
        assert "not trusted" not in done.stdout + done.stderr
    for command in (["trace"], ["drain", "worker-9"], ["chat", "-p", "hi"], ["bench", "--requests", "1"]):
        refused = headrace_here(*command, *address)
        assert refused.returncode == 1
        assert "is not trusted: name its authority, a PEM file, with --ca or in HEADRACE_CA" in refused.stderr
        assert "not trusted" not in headrace_here(*command, *address, "--ca", str(public)).stderr
