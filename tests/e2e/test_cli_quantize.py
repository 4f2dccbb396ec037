"""`headrace quantize` and `headrace eval`, as a person and as a script would use them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.e2e.command_line import headrace, headrace_here

from headrace.cli import engine_parts
from headrace.errors import ConfigError


@pytest.fixture(autouse=True)
def _threads_of_torch() -> Iterator[None]:
    """Commands that run here set their number."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quantized")
    text = folder / "text.txt"
    text.write_text("Continuous batching lets requests join a running batch between two steps. " * 120)
    arguments = ["quantize", "headrace-demo", str(folder / "int4"), "--calibration", str(text), "--json"]
    done = headrace(*arguments, "--sequences", "4")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["bits"], summary["module_count"], summary["calibration_token_count"]) == (4, 35, 1024)
    assert summary["byte_count"] < summary["source_byte_count"] / 2
    return folder / "int4"


def test_a_quantized_model_is_evaluated_against_the_plain_one(target: Path) -> None:
    done = headrace_here("eval", str(target), "--reference", "headrace-demo", "--sequences", "3", "--json")
    assert done.returncode == 0, done.stderr
    plain, quantized = json.loads(done.stdout)["rows"]
    assert (plain["precision"], quantized["precision"]) == ("float32", "int4 (gptq)")
    # The plain weights are held in the 16 bits that they came in.
    assert quantized["weight_bytes"] < plain["weight_bytes"] / 2
    assert quantized["quality"]["top1_agreement"] > 0.9
    assert plain["quality"]["kl_divergence"] is None


def test_precisions_side_by_side() -> None:
    arguments = ["eval", "headrace-demo", "--precision", "float32", "--precision", "int8", "--sequences", "2"]
    table = headrace_here(*arguments).stdout
    assert "perplexity" in table
    assert "float32" in table
    assert "int8" in table


def test_mistakes_are_told_in_words(target: Path, tmp_path: Path) -> None:
    fresh = str(tmp_path / "fresh")
    for arguments, named in (
        (("quantize", "headrace-demo", str(target)), "nothing is overwritten"),
        (("quantize", str(target), fresh), "quantized already"),
        (("eval", "headrace-demo", "--precision", "int3"), "int3"),
        (("eval", "headrace-demo", "--text", str(tmp_path / "none.txt")), "none.txt"),
        (("quantize", "no-such-model", fresh), "no-such-model"),
    ):
        failed = headrace_here(*arguments)
        assert failed.returncode == 1
        assert named in failed.stderr.replace("\n", " ")
        assert "Traceback" not in failed.stderr
    assert not Path(fresh).exists()
    failed = headrace_here("plan", "no-such-model")
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr


def write_profile(folder: Path, kind: str, memory_bytes: int) -> Path:
    path = folder / "small.toml"
    path.write_text(
        f'name = "small"\ndevice = "{kind}"\nmemory_bytes = {memory_bytes}\nmemory_bandwidth = 1e11\n'
        'default_precision = "float32"\nprice_per_hour = 1.0\n[arithmetic_rate]\nfloat32 = 1e12\n'
    )
    return path


def test_plan(tmp_path: Path) -> None:
    profile = write_profile(tmp_path, "cuda", 5_000_000)
    done = headrace_here("plan", "headrace-demo", "--profiles", str(tmp_path), "--json")
    rows = {(row["device"], row["precision"]): row for row in json.loads(done.stdout)["rows"]}
    assert rows["this machine", "int4"]["request_count"] > 0
    assert rows["small", "bfloat16"]["request_count"] == 0
    assert rows["small", "bfloat16"]["token_rates"] == [None] * 3
    assert rows["this machine", "int4"]["token_rates"][0] > 0
    table = headrace_here("plan", "headrace-demo").stdout
    assert "this machine" in table
    profile.write_text("zork")
    failed = headrace_here("plan", "headrace-demo", "--profiles", str(tmp_path))
    assert failed.returncode == 1
    assert "small.toml" in failed.stderr.replace("\n", "")
    assert "Traceback" not in failed.stderr


def test_plan_of_a_model_that_is_not_here() -> None:
    cards = ("--on", "a100-80g", "--on", "4xl4", "--on", "h200")
    done = headrace_here("plan", "llama-3.3-70b", *cards)
    assert done.returncode == 0, done.stderr
    pages = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert pages == [f"{name}, int4 (awq): fits" for name in ("a100-80g", "4xl4", "h200")]
    assert done.stdout.count("assumed: ") == 4
    rows = json.loads(headrace_here("plan", "llama-3.3-70b", *cards, "--json").stdout)["rows"]
    assert all(row["token_rates"][0] and row["prices_per_million"][0] for row in rows)
    failed = headrace_here("up", "llama-3.3-70b")
    assert failed.returncode == 1
    assert "headrace models pull llama-3.3-70b" in failed.stderr.replace("\n", " ")
    unknown = headrace_here("plan", "llama-3.3-70b", "--on", "zork")
    assert "no device profile 'zork'" in unknown.stderr


def test_plan_chooses_by_recorded_quality(target: Path, tmp_path: Path) -> None:
    write_profile(tmp_path, "cpu", 30_000_000)
    arguments = ["plan", str(target), "--profiles", str(tmp_path), "--quality-floor"]
    unknown = headrace_here(*arguments, "0.9")
    assert "quality not known" in unknown.stdout
    assert "--record" in unknown.stdout
    recorded = headrace_here("eval", str(target), "--reference", "headrace-demo", "--sequences", "2", "--record")
    assert recorded.returncode == 0, recorded.stderr
    for floor, is_chosen in (("0.9", True), ("1", False)):
        rows = json.loads(headrace_here(*arguments, floor, "--json").stdout)["rows"]
        assert {row["device"]: row["is_chosen"] for row in rows} == {"this machine": is_chosen, "small": is_chosen}
        assert all(0.9 < row["top1_agreement"] < 1 for row in rows)


def test_plan_measures_what_is_small(tmp_path: Path) -> None:
    write_profile(tmp_path, "cpu", 20_000_000)
    done = headrace_here("plan", "headrace-demo", "--profiles", str(tmp_path), "--quality-floor", "0.98", "--json")
    rows = {(row["device"], row["precision"]): row for row in json.loads(done.stdout)["rows"]}
    assert [name for name, row in rows.items() if row["is_chosen"]] == [("this machine", "int8"), ("small", "int8")]
    assert rows["small", "float32"]["reason"] == "does not fit"
    assert rows["small", "int4"]["reason"] == "below 98.0%"
    for floor in ("2", "nan"):
        assert "between 0 and 1" in headrace_here("plan", "headrace-demo", "--quality-floor", floor).stderr


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_parts, "PARTS", ("json", "zork"))
    with pytest.raises(ConfigError, match=r"^zork not installed: .*pip install"):
        engine_parts.require_engine_parts()
