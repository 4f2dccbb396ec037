"""The memory that is free is found, the KV cache takes its share of it, and what is held is said."""

from pathlib import Path
from typing import Any, Literal

import pytest
from tests.libs.engine.engine_running import engine_config

from headrace.demo_model import CHECKPOINT, DRAFT
from headrace.engine.checkpoints import model_limits as placement
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.memory.host_memory import available_bytes, resident_bytes

GIB = 1 << 30


def write(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def machine(root: Path, groups: str) -> Path:
    meminfo = f"MemTotal: {16 * GIB // 1024} kB\nMemAvailable: {8 * GIB // 1024} kB\n"
    return write(root, {"proc/meminfo": meminfo, "proc/self/cgroup": groups})


def test_a_machine_without_limits(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/user.slice\n")
    write(root, {"sys/fs/cgroup/user.slice/memory.max": "max\n", "sys/fs/cgroup/user.slice/memory.current": "5\n"})
    assert available_bytes(root) == 8 * GIB


def test_a_system_that_says_nothing(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) is None
    assert resident_bytes(tmp_path) == 0


def test_the_tightest_group_counts_and_its_file_cache_is_free(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/outer/inner\n")
    for name, limit in (("outer", 3 * GIB), ("outer/inner", 6 * GIB)):
        folder = f"sys/fs/cgroup/{name}"
        usage, stat = f"{2 * GIB}\n", f"anon 7\ninactive_file {GIB}\n"
        write(root, {f"{folder}/memory.max": f"{limit}\n", f"{folder}/memory.current": usage})
        write(root, {f"{folder}/memory.stat": stat})
    assert available_bytes(root) == 2 * GIB


@pytest.mark.parametrize("folder", ["memory/docker/7a", "memory"])
def test_groups_of_the_first_version_under_their_name_or_as_a_container_sees_them(tmp_path: Path, folder: str) -> None:
    root = machine(tmp_path, "4:memory:/docker/7a\n1:cpu:/\n0::/\n")
    limits = {
        "limit_in_bytes": f"{2 * GIB}\n",
        "usage_in_bytes": f"{GIB}\n",
        "stat": f"total_inactive_file {GIB // 2}\n",
    }
    write(root, {f"sys/fs/cgroup/{folder}/memory.{name}": content for name, content in limits.items()})
    assert available_bytes(root) == 3 * GIB // 2


def test_a_group_over_its_limit_has_no_room(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/\n")
    write(root, {"sys/fs/cgroup/memory.max": "5\n", "sys/fs/cgroup/memory.current": "9\n"})
    assert available_bytes(root) == 0


def block_count(monkeypatch: pytest.MonkeyPatch, free: int | None, **settings: Any) -> int:
    monkeypatch.setattr(placement, "available_bytes", lambda: free)
    return load_text_engine(CHECKPOINT, engine_config(**settings)).spec.block_count


def test_the_kv_cache_takes_its_share_of_what_is_free_and_no_more_than_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bytes_per_block = 2 * 5 * 4 * 32 * 16 * 4
    assert block_count(monkeypatch, 400 * bytes_per_block) == 100
    assert block_count(monkeypatch, 0) == 1
    assert block_count(monkeypatch, 400 * GIB, max_running_count=2, max_model_length=64) == 8
    assert block_count(monkeypatch, 400 * bytes_per_block, kv_cache_bytes=7 * bytes_per_block) == 7
    assert block_count(monkeypatch, None) <= GIB // bytes_per_block


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_an_engine_says_what_it_holds(kernels: Literal["auto", "torch"]) -> None:
    memory = load_text_engine(CHECKPOINT, engine_config(kernels=kernels, block_count=10)).spec.memory
    assert memory.kv_bytes == 10 * 2 * 5 * 4 * 32 * 16 * 4
    assert memory.weight_bytes > (CHECKPOINT / "model.safetensors").stat().st_size


def test_a_draft_model_counts_too() -> None:
    settings: dict[str, Any] = {"block_count": 10, "speculation": "on"}
    alone = load_text_engine(CHECKPOINT, engine_config(**settings)).spec.memory
    both = load_text_engine(CHECKPOINT, engine_config(**settings, draft_folder=DRAFT)).spec.memory
    assert both.kv_bytes > alone.kv_bytes
    assert both.weight_bytes > alone.weight_bytes
    assert alone + HeldMemory() == alone
