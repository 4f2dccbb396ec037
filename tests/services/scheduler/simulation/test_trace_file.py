"""Traces are recognized by their columns, and a fault is named with its line."""

from pathlib import Path

import pytest

from headrace.errors import InvalidRequest
from headrace.scheduler.simulation.trace_file import read_trace
from headrace.scheduler.simulation.traffic import BLOCK_TOKENS, Arrival

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.2299600,3180,8\n"
)
BURST = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,API log\n118.5,GPT-4,417,276,693,API log\n"
)
MOONCAKE = (
    '{"timestamp": 3000, "input_length": 600, "output_length": 7, "hash_ids": [4, 5]}\n\n'
    '{"timestamp": 4500, "input_length": 513, "output_length": 8, "hash_ids": [4, 6]}\n'
)
USAGE = (
    '{"time": 1700000010.5, "request_id": "b", "key": "", "tenant": "u", "model": "m", "prompt_tokens": 5, '
    '"cached_tokens": 0, "output_tokens": 3, "outcome": "finished", "seconds": 0.5}\n'
    '{"time": 1700000011.0, "request_id": "a", "key": "", "tenant": "t", "model": "m", "prompt_tokens": 9, '
    '"cached_tokens": 0, "output_tokens": 4, "outcome": "finished", "seconds": 4.0}\n'
)


def written(folder: Path, text: str) -> Path:
    path = folder / "trace"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "arrivals", "skipped"),
    [
        (AZURE, [(0.0, 4808, 10, ""), (0.25, 3180, 8, "")], 0),
        (BURST, [(0.0, 472, 18, ""), (113.5, 417, 276, "")], 1),
        (MOONCAKE, [(0.0, 600, 7, ""), (1.5, 513, 8, "")], 0),
        (USAGE, [(0.0, 9, 4, "t"), (3.0, 5, 3, "u")], 0),
        ("\ufeff" + AZURE.replace("\n", "\r\n"), [(0.0, 4808, 10, ""), (0.25, 3180, 8, "")], 0),
    ],
    ids=["azure", "burstgpt", "mooncake", "usage", "azure from windows"],
)
def test_public_forms_are_read(
    tmp_path: Path, text: str, arrivals: list[tuple[float, int, int, str]], skipped: int
) -> None:
    traffic = read_trace(written(tmp_path, text))
    found = [(one.time, one.prompt_token_count, one.output_token_count, one.tenant) for one in traffic.arrivals]
    assert [(pytest.approx(time, abs=1e-6), *rest) for time, *rest in arrivals] == found
    assert traffic.skipped_count == skipped


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no request"),
        ("a,b\n1,2\n", "line 1: no known trace has the columns a, b; accepted are: TIMESTAMP, ContextTokens"),
        ("TIMESTAMP,ContextTokens\n", "line 1: no known trace"),
        (AZURE + "2023-11-16 18:17:05,many,3\n", "line 4: ContextTokens is 'many'; it must be a number"),
        (AZURE + "2023-11-16 18:17:05,12.5,3\n", "line 4: ContextTokens is '12.5'; it must be an integer"),
        (AZURE + "2023-11-16 18:17:05,-1,3\n", "line 4: ContextTokens is '-1'"),
        (AZURE + "yesterday,1,3\n", "line 4: TIMESTAMP is 'yesterday'; it must be a time such as"),
        (AZURE + "2023-11-16 18:17:05,1\n", "line 4: the row has 2 values for 3 columns"),
        (AZURE + '"never closed', "line 4: it is not CSV"),
        (MOONCAKE + "{oops}\n", "line 4: it is not JSON"),
        (MOONCAKE + "[1]\n", "line 4: it must be a JSON object"),
        (MOONCAKE + '{"timestamp": 1}\n', "line 4: the row lacks input_length, output_length (Mooncake, JSONL)"),
        (MOONCAKE + '{"timestamp": NaN, "input_length": 1, "output_length": 1}\n', "line 4: timestamp is 'nan'"),
        (MOONCAKE.replace("[4, 6]", '"4"'), "line 3: hash_ids is '4'; it must be a list of integers"),
        (BURST.replace("417", "0").replace("472", "0"), "has no request"),
    ],
)
def test_a_fault_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_trace(written(tmp_path, text))
    assert said in caught.value.message
    assert str(tmp_path) in caught.value.message


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "trace").write_bytes(b"\x1f\x8b\xff\xfe")
    with pytest.raises(InvalidRequest, match="not text in UTF-8"):
        read_trace(tmp_path / "trace")
    with pytest.raises(InvalidRequest, match="cannot be read: No such file"):
        read_trace(tmp_path / "nothing")
    with pytest.raises(InvalidRequest, match="cannot be read: Is a directory"):
        read_trace(tmp_path)


def test_prompts_begin_alike_as_far_as_their_blocks_do() -> None:
    first = Arrival(0.0, 600, 1, block_ids=(4, 5)).prompt_token_ids(0)
    second = Arrival(0.0, 1300, 1, block_ids=(4, 6)).prompt_token_ids(1)
    assert (len(first), len(second)) == (600, 1300)
    assert first[:BLOCK_TOKENS] == second[:BLOCK_TOKENS]
    assert not set(first[BLOCK_TOKENS:]) & set(second[BLOCK_TOKENS:])


def test_a_part_is_cut_before_it_is_hastened(tmp_path: Path) -> None:
    traffic = read_trace(written(tmp_path, BURST))
    assert len(traffic.part(100.0, None).arrivals) == len(traffic.part(None, 1).arrivals) == 1
    assert [one.time for one in traffic.at_rate(2.0)] == [0.0, 56.75]
