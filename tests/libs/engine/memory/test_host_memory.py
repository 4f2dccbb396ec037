"""The memory that is free is found, the KV cache takes its share of it, and what is held is said."""

from pathlib import Path
from typing import Any, Literal

import pytest
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_adapters import make_adapter
from tests.libs.engine.tiny_models import make_family

from headrace.demo_model import CHECKPOINT, DRAFT
from headrace.engine.checkpoints import model_limits
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.cpu import load as cpu_load
from headrace.engine.cpu.weights import packed_cache
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.memory.host_memory import available_bytes, resident_bytes
from headrace.errors.tree import ConfigError

GIB = 1 << 30
BLOCK_BYTES = 2 * 5 * 4 * 32 * 16 * 4
"""Bytes of a block of the demo model's keys and values."""


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


def block_count(monkeypatch: pytest.MonkeyPatch, free: int | None, folder: Path = CHECKPOINT, **settings: Any) -> int:
    """Loads a model where the system says that `free` bytes are available, before and after."""
    for module in (model_limits, cpu_load):
        monkeypatch.setattr(module, "available_bytes", lambda: free)
    return load_text_engine(folder, engine_config(**settings)).spec.block_count


def weight_bytes(folder: Path = CHECKPOINT, **settings: Any) -> int:
    return load_text_engine(folder, engine_config(block_count=1, **settings)).spec.memory.weight_bytes


def test_through_torch_the_kv_cache_takes_its_share_of_what_is_free_and_no_more_than_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert block_count(monkeypatch, 400 * BLOCK_BYTES, kernels="torch") == 100
    with pytest.raises(ConfigError, match=r"the device has 0 MiB left .* choose a smaller or more quantized model"):
        block_count(monkeypatch, 0, kernels="torch")
    assert block_count(monkeypatch, 0, kernels="torch", block_count=3) == 3
    assert block_count(monkeypatch, 400 * GIB, kernels="torch", max_running_count=2, max_model_length=64) == 8
    assert block_count(monkeypatch, 400 * BLOCK_BYTES, kernels="torch", kv_cache_bytes=7 * BLOCK_BYTES) == 7
    assert block_count(monkeypatch, None, kernels="torch") <= GIB // BLOCK_BYTES


@needs_kernels
def test_mapped_weights_leave_as_little_as_packed_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pages of mapped weights count as available, but the KV cache must not drive them out."""
    monkeypatch.setattr(packed_cache, "MIN_BYTES", 0)
    room = weight_bytes() + 400 * BLOCK_BYTES
    assert [block_count(monkeypatch, room, packed_folder=tmp_path) for _ in range(2)] == [100, 100]
    assert len(list(tmp_path.glob("*.packed"))) == 1
    assert block_count(monkeypatch, 0, packed_folder=tmp_path) == 1
    assert block_count(monkeypatch, 0, packed_folder=tmp_path, kv_cache_bytes=7 * BLOCK_BYTES) == 7
    assert block_count(monkeypatch, None, packed_folder=tmp_path) <= GIB // BLOCK_BYTES


@needs_kernels
def test_adapters_take_their_part_of_what_is_free(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    base, adapters = tmp_path / "base", {"a": tmp_path / "adapter"}
    make_adapter(adapters["a"], make_family(base, "llama"))
    spec = load_text_engine(base, engine_config(block_count=10)).spec
    block_bytes = spec.memory.kv_bytes // 10
    room = weight_bytes(base, adapters=adapters) + 40 * block_bytes
    assert weight_bytes(base, adapters=adapters) > spec.memory.weight_bytes + 4 * block_bytes
    assert block_count(monkeypatch, room, base, adapters=adapters) == 10


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_an_engine_says_what_it_holds(kernels: Literal["auto", "torch"]) -> None:
    memory = load_text_engine(CHECKPOINT, engine_config(kernels=kernels, block_count=10)).spec.memory
    assert memory.kv_bytes == 10 * BLOCK_BYTES
    assert memory.weight_bytes > (CHECKPOINT / "model.safetensors").stat().st_size


def test_a_draft_model_counts_too() -> None:
    settings: dict[str, Any] = {"block_count": 10, "speculation": "on"}
    alone = load_text_engine(CHECKPOINT, engine_config(**settings)).spec.memory
    both = load_text_engine(CHECKPOINT, engine_config(**settings, draft_folder=DRAFT)).spec.memory
    assert both.kv_bytes > alone.kv_bytes
    assert both.weight_bytes > alone.weight_bytes
    assert alone + HeldMemory() == alone
