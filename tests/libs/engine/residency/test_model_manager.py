"""Several real models behind one manager: they sleep and go on with the same tokens, and survive without memory."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.libs.engine.engine_running import engine_config, request, run, tokens
from tests.libs.engine.tiny_models import make_oracle, make_prompts

from headrace import failpoints
from headrace.engine.contract.engine import Engine
from headrace.engine.contract.request import Delta
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.residency.managed_engine import ManagedEngine
from headrace.engine.residency.model_manager import ModelManager
from headrace.engine.residency.policy.residence import Residence
from headrace.engine.residency.policy.residency_limits import ResidencyLimits
from headrace.errors import HeadraceError, InvalidRequest, Overloaded, Unavailable

NAMES = ("a", "b", "c")
PROMPTS = make_prompts((5, 40, 90))
PATIENCE = 20.0
BLOCK_COUNT = 32


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models of one shape and different weights."""
    made = {name: tmp_path_factory.mktemp(name) for name in NAMES}
    for seed, folder in enumerate(made.values()):
        make_oracle(folder, "grouped", seed)
    return made


@pytest.fixture
def armed(tmp_path: Path) -> Iterator[Path]:
    """The folder of failpoints."""
    failpoints.arm(tmp_path)
    yield tmp_path
    failpoints.arm(None)


class Shelf:
    """Loads models, and counts how often."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self.folders = dict(folders)
        self.shares: list[tuple[str, float]] = []

    def load(self, name: str, share: float) -> Engine:
        self.shares.append((name, share))
        config = engine_config(max_step_token_count=64, block_count=int(BLOCK_COUNT * share), thread_count=1)
        return load_text_engine(self.folders[name], config)

    def awake_bytes(self) -> int:
        memory = self.load("a", 1.0).spec.memory
        return memory.weight_bytes + memory.kv_bytes


@pytest.fixture
def shelf(folders: dict[str, Path]) -> Shelf:
    return Shelf(folders)


@pytest.fixture
def opened(shelf: Shelf) -> Iterator[Callable[..., tuple[ModelManager, dict[str, ManagedEngine]]]]:
    """Opens all models with memory for so many awake and so many asleep."""
    made: list[ModelManager] = []
    crashes: list[BaseException] = []

    def opened(
        awake: float, asleep: float, pinned: tuple[str, ...] = (), **times: float
    ) -> tuple[ModelManager, dict[str, ManagedEngine]]:
        size = shelf.awake_bytes()
        usual = {"stay_seconds": 0.0, "patience_seconds": 0.02, "retry_seconds": 0.05}
        limits = ResidencyLimits(int(awake * size), int(asleep * size), **(usual | times))
        manager = ModelManager(shelf.load, lambda _name, _engine: None, limits)
        engines = dict(manager.open(NAMES, pinned))
        made.append(manager)
        manager.start(lambda _name: None, crashes.append)
        return manager, engines

    yield opened
    for manager in made:
        manager.stop(PATIENCE)
    assert crashes == []


def drive(engine: Engine, stop: threading.Event | None = None) -> tuple[dict[str, list[int]], list[HeadraceError]]:
    """Steps until there is no work, as the engine's thread does. Returns tokens and errors."""
    streams: dict[str, list[Delta]] = {}
    errors: list[HeadraceError] = []
    deadline = time.monotonic() + PATIENCE
    while engine.has_work() and time.monotonic() < deadline and not (stop and stop.is_set()):
        try:
            for delta in engine.step():
                streams.setdefault(delta.request_id, []).append(delta)
        except HeadraceError as error:
            errors.append(error)
    assert not engine.has_work()
    return {name: tokens(stream) for name, stream in streams.items()}, errors


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def requests(count: int = 24) -> list[tuple[str, tuple[int, ...], int]]:
    return [(str(index), prompt, count) for index, prompt in enumerate(PROMPTS)]


def expected_of(shelf: Shelf, name: str, count: int = 24) -> dict[str, list[int]]:
    engine = shelf.load(name, 1.0)
    return run(engine, *(request(i, p, max_tokens=n, temperature=0.0) for i, p, n in requests(count)))


def ask(engine: Engine, count: int = 24) -> None:
    for index, prompt, most in requests(count):
        engine.add(request(index, prompt, max_tokens=most, temperature=0.0))


def test_each_model_answers_with_memory_for_one(shelf: Shelf, opened: Callable[..., tuple]) -> None:
    """Three threads ask three models at once; each sleeps in the middle of its requests, and goes on to the same
    tokens."""
    expected = {name: expected_of(shelf, name) for name in NAMES}
    manager, engines = opened(1, 3)
    found: dict[str, dict[str, list[int]]] = {}

    def serve(name: str) -> None:
        ask(engines[name])
        found[name], errors = drive(engines[name])
        assert errors == []

    threads = [threading.Thread(target=serve, args=(name,)) for name in NAMES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == expected
    statuses = [manager.status(name) for name in NAMES]
    assert sum(status.wake_count for status in statuses) >= 3
    assert sum(status.load_count for status in statuses) == 3, "only the first loads: all sleep in host memory"


def test_a_request_is_the_same_after_a_sleep_in_its_middle(shelf: Shelf, opened: Callable[..., tuple]) -> None:
    manager, engines = opened(1, 3)
    expected = expected_of(shelf, "a", 60)
    ask(engines["a"], 60)
    streams: dict[str, list[int]] = {}

    def gather(deltas: list[Delta]) -> None:
        for delta in deltas:
            streams.setdefault(delta.request_id, []).extend(delta.token_ids)

    while sum(map(len, streams.values())) < 30:
        gather(engines["a"].step())
    engines["b"].add(request("other", PROMPTS[0], max_tokens=2, temperature=0.0))
    until(lambda: manager.status("a").residence is Residence.ASLEEP)
    drive(engines["b"])
    while engines["a"].has_work():
        gather(engines["a"].step())
    assert streams == expected
    assert manager.status("a").sleep_count >= 1
    assert engines["a"].stats().step_count > 60, "counts go on"


def test_dropped_models_are_loaded_again(shelf: Shelf, opened: Callable[..., tuple]) -> None:
    """Without room in host memory a model leaves it, and its counts go on where they were."""
    manager, engines = opened(1, 0)
    expected = {name: expected_of(shelf, name) for name in NAMES}
    before = {name: manager.status(name).load_count for name in NAMES}
    for name in (*NAMES, *NAMES):
        ask(engines[name])
        assert drive(engines[name]) == (expected[name], [])
    assert all(manager.status(name).load_count >= before[name] + 2 for name in NAMES)
    assert all(engines[name].stats().output_token_count == 2 * 3 * 24 for name in NAMES)


def test_idle_models_leave_memory_and_answer_the_same_when_they_are_asked_again(
    shelf: Shelf, opened: Callable[..., tuple]
) -> None:
    expected = expected_of(shelf, "a")
    manager, engines = opened(3, 3, ("c",), idle_seconds=0.2)
    until(lambda: all(manager.status(name).residence is Residence.ON_DISK for name in "ab"))
    assert manager.status("c").residence is Residence.AWAKE
    ask(engines["a"])
    assert drive(engines["a"]) == (expected, [])
    until(lambda: manager.status("a").residence is Residence.ON_DISK)
    assert manager.status("a").drop_count == 2


def test_pinned_models_stay_awake(opened: Callable[..., tuple]) -> None:
    manager, engines = opened(2, 3, pinned=("b",))
    for name in ("a", "c", "a"):
        ask(engines[name], 4)
        drive(engines[name])
    assert manager.status("b").residence is Residence.AWAKE
    assert manager.status("b").sleep_count == 0


def test_requests_of_a_sleeping_model_can_be_withdrawn(opened: Callable[..., tuple]) -> None:
    manager, engines = opened(1, 3, stay_seconds=60.0)
    asleep = next(name for name in NAMES if manager.status(name).residence is Residence.ASLEEP)
    ask(engines[asleep])
    assert engines[asleep].step() == []
    stats = engines[asleep].stats()
    assert (stats.waiting_token_count, stats.running_count) == (sum(map(len, PROMPTS)), 0)
    assert stats.wait_count > 0, "waiting is a sign of life"
    assert manager.status(asleep).predicted_wait_seconds > 30.0
    for index, _, _ in requests():
        engines[asleep].cancel(index)
    assert not engines[asleep].has_work()


def test_what_a_sleeping_model_cannot_run_ends_when_it_wakes(opened: Callable[..., tuple]) -> None:
    manager, engines = opened(1, 3)
    asleep = next(name for name in NAMES if manager.status(name).residence is Residence.ASLEEP)
    engines[asleep].add(request("bad", [10_000], max_tokens=2))
    engines[asleep].add(request("good", PROMPTS[0], max_tokens=2, temperature=0.0))
    found, errors = drive(engines[asleep])
    assert [(type(error), error.details["request_id"]) for error in errors] == [(InvalidRequest, "bad")]
    assert list(found) == ["good"]


def test_a_hundred_times_without_memory_in_a_step(shelf: Shelf, opened: Callable[..., tuple], armed: Path) -> None:
    """Every one is survived, and requests go on to the same tokens with smaller steps."""
    expected = expected_of(shelf, "a", 120)
    manager, engines = opened(3, 3)
    ask(engines["a"], 120)
    streams: dict[str, list[int]] = {}
    point = armed / "residency.step"
    for number in range(100):
        point.write_text("once memory")
        while engines["a"].out_of_memory_count == number:
            assert engines["a"].step() == []
        for delta in engines["a"].step():
            streams.setdefault(delta.request_id, []).extend(delta.token_ids)
    for name, ids in drive(engines["a"])[0].items():
        streams.setdefault(name, []).extend(ids)
    assert streams == expected
    assert manager.status("a").out_of_memory_count == 100


def test_steps_that_never_find_memory_refuse_their_requests(opened: Callable[..., tuple], armed: Path) -> None:
    _, engines = opened(3, 3)
    point = armed / "residency.step"
    point.write_text("memory")
    ask(engines["a"])
    _, errors = drive(engines["a"])
    assert len(errors) == 3
    assert all(isinstance(error, Overloaded) and error.retry_after for error in errors)
    point.unlink()
    ask(engines["a"])
    assert len(drive(engines["a"])[0]) == 3


def test_an_engine_without_memory_for_its_cache_is_dropped_and_comes_back(
    opened: Callable[..., tuple], armed: Path
) -> None:
    manager, engines = opened(3, 3)
    (armed / "residency.step").write_text("once memory")
    (armed / "residency.recover").write_text("once memory")
    ask(engines["a"])
    _, errors = drive(engines["a"])
    assert len(errors) == 3
    until(lambda: manager.status("a").residence is Residence.ON_DISK)
    ask(engines["a"])
    assert len(drive(engines["a"])[0]) == 3


def test_a_load_without_memory_frees_and_retries(shelf: Shelf, opened: Callable[..., tuple], armed: Path) -> None:
    manager, engines = opened(2, 0)
    on_disk = next(name for name in NAMES if manager.status(name).residence is Residence.ON_DISK)
    (armed / "residency.load").write_text("once memory")
    ask(engines[on_disk])
    assert len(drive(engines[on_disk])[0]) == 3
    assert manager.status(on_disk).out_of_memory_count == 1


def test_a_load_that_never_finds_memory_is_refused(opened: Callable[..., tuple], armed: Path) -> None:
    manager, engines = opened(1, 0)
    point = armed / "residency.load"
    point.write_text("memory")
    on_disk = next(name for name in NAMES if manager.status(name).residence is Residence.ON_DISK)
    ask(engines[on_disk])
    _, errors = drive(engines[on_disk])
    assert [type(error) for error in errors] == [Overloaded] * 3
    assert manager.status(on_disk).out_of_memory_count >= 2
    point.unlink()
    ask(engines[on_disk])
    assert len(drive(engines[on_disk])[0]) == 3


def test_half_the_blocks_are_tried_last(shelf: Shelf, opened: Callable[..., tuple]) -> None:
    manager, engines = opened(1, 0)
    on_disk = next(name for name in NAMES if manager.status(name).residence is Residence.ON_DISK)
    usual = shelf.load

    def short(name: str, share: float) -> Engine:
        if share == 1.0:
            raise MemoryError
        return usual(name, share)

    manager._store._load = short
    ask(engines[on_disk])
    assert len(drive(engines[on_disk])[0]) == 3
    assert engines[on_disk].stats().block_count == BLOCK_COUNT // 2


def test_a_checkpoint_that_went_away_costs_its_requests_alone(shelf: Shelf, opened: Callable[..., tuple]) -> None:
    manager, engines = opened(1, 0)
    on_disk = next(name for name in NAMES if manager.status(name).residence is Residence.ON_DISK)
    awake = next(name for name in NAMES if name != on_disk)
    kept, shelf.folders[on_disk] = shelf.folders[on_disk], Path("/nowhere")
    ask(engines[on_disk])
    _, errors = drive(engines[on_disk])
    assert [type(error) for error in errors] == [Unavailable] * 3
    shelf.folders[on_disk] = kept
    ask(engines[awake])
    assert len(drive(engines[awake])[0]) == 3
    ask(engines[on_disk])
    assert len(drive(engines[on_disk])[0]) == 3
