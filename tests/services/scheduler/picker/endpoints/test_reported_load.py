"""Loads are read from the metrics of vLLM, SGLang and Headrace, in any order and with any labels."""

import pytest

from headrace.errors import Unavailable
from headrace.scheduler.picker.endpoints.reported_load import ReportedLoad, parse_load

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:num_requests_waiting{engine="1",model_name="m"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.25
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000",sliding_window="None"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="1000",sliding_window="None"} 1.0
vllm:prompt_tokens_total{engine="0",model_name="m"} 1.5e+06
vllm:generation_tokens_total{engine="0",model_name="a}b"} 2000.0
vllm:inter_token_latency_seconds_sum{engine="0"} 12.5
vllm:inter_token_latency_seconds_count{engine="0"} 500.0
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.01"} 400.0
process_resident_memory_bytes 1e9
"""


def test_engines_behind_one_endpoint_are_summed() -> None:
    load = parse_load(VLLM)
    assert (load.running_count, load.waiting_count, load.request_count) == (7, 1, 8)
    assert (load.kv_share, load.kv_token_count) == (0.375, 32_000)
    assert (load.prompt_tokens, load.output_tokens, load.progress) == (1_500_000, 2000, 1_502_000)
    assert (load.step_seconds, load.step_count, load.prefill_seconds) == (12.5, 500, None)


def test_older_names_and_other_servers_are_known() -> None:
    older = parse_load("vllm:num_requests_running 1\nvllm:gpu_cache_usage_perc 0.75\n")
    assert older == ReportedLoad(1, 0, kv_share=0.75)
    sglang = parse_load('sglang:num_running_reqs{model_name="m"} 2\nsglang:num_queue_reqs 3\nsglang:token_usage 0.5\n')
    assert sglang == ReportedLoad(2, 3, kv_share=0.5)
    own = parse_load('headrace_requests_running{model="m",worker="w"} 2\nheadrace_requests_waiting{model="m"} 1\n')
    assert own == ReportedLoad(2, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the metrics have none of"),
        ("<html>not found</html>", "the metrics have none of"),
        ("vllm:num_requests_running NaN", "is NaN"),
        ("vllm:num_requests_running -1", "is -1"),
        ("vllm:num_requests_running 1e99", "is 1e99"),
        ("vllm:num_requests_running many", "is many"),
    ],
)
def test_metrics_that_say_nothing_or_the_impossible_are_no_load(text: str, message: str) -> None:
    with pytest.raises(Unavailable, match=message):
        parse_load(text)
