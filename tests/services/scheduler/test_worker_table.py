"""Newest status wins; silence counts only while the bus works; reservations never grant too much."""

from headrace.scheduler.worker_table import WorkerTable
from headrace.v1.generation_pb2 import ModelInfo
from headrace.v1.worker_pb2 import WorkerStatus


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def status(version: int, credit: int = 4, epoch: int = 1, worker: str = "w", **fields: object) -> WorkerStatus:
    return WorkerStatus(
        worker_id=worker, epoch=epoch, version=version, credit_count=credit, model_info=ModelInfo(model="m"), **fields
    )  # type: ignore[arg-type]


def table() -> tuple[WorkerTable, Clock]:
    clock = Clock()
    made = WorkerTable(3.0, clock)
    made.note_bus(True)
    return made, clock


def test_an_older_status_is_ignored() -> None:
    workers, _ = table()
    workers.observe(status(5, credit=1))
    workers.observe(status(4, credit=9))
    assert workers.entries[0].free_count == 1
    workers.observe(status(1, credit=7, epoch=2))
    assert workers.entries[0].free_count == 7


def test_reservations_count_until_the_worker_counts_them_itself() -> None:
    workers, _ = table()
    workers.observe(status(1, credit=4))
    workers.reserve("w", 3)
    assert workers.entries[0].free_count == 1
    workers.observe(status(2, credit=4))
    assert workers.entries[0].free_count == 1
    workers.release("w", 1, 3)
    workers.observe(status(3, credit=1))
    assert workers.entries[0].free_count == 1


def test_a_silent_worker_gets_nothing() -> None:
    workers, clock = table()
    workers.observe(status(1))
    clock.now += 2
    assert workers.with_room("m")
    clock.now += 2
    assert not workers.with_room("m")


def test_a_scheduler_that_stood_still_itself_calls_nobody_silent() -> None:
    workers, clock = table()
    workers.observe(status(1))
    clock.now += 10
    workers.note_bus(True)
    assert workers.with_room("m")
    for _ in range(8):
        clock.now += 0.5
        workers.note_bus(True)
    assert not workers.with_room("m")


def test_without_the_bus_nobody_is_silent_and_afterwards_all_get_time() -> None:
    workers, clock = table()
    workers.observe(status(1))
    workers.note_bus(False)
    clock.now += 100
    assert workers.with_room("m")
    workers.note_bus(True)
    clock.now += 2
    assert workers.with_room("m")
    clock.now += 2
    assert not workers.with_room("m")


def test_draining_and_suspect_workers_get_nothing() -> None:
    workers, _ = table()
    workers.observe(status(1))
    workers.observe(status(2, draining=True))
    assert not workers.with_room("m")
    workers.observe(status(3))
    workers.suspect("w", 1)
    assert not workers.with_room("m")
    workers.observe(status(4))
    assert workers.with_room("m")


def test_a_worker_that_said_goodbye_does_not_come_back_by_its_last_words() -> None:
    workers, _ = table()
    workers.observe(status(1))
    workers.remove("w", 1)
    workers.observe(status(2, draining=True))
    assert not workers.entries


def test_workers_that_are_long_gone_are_forgotten() -> None:
    workers, clock = table()
    workers.observe(status(1, worker="old"))
    clock.now += 1000
    workers.observe(status(1, worker="new"))
    assert [entry.worker_id for entry in workers.entries] == ["new"]


def test_removal_spares_a_newer_life() -> None:
    workers, _ = table()
    workers.observe(status(1, epoch=2))
    workers.remove("w", 1)
    assert workers.entries
    workers.remove("w", 2)
    assert not workers.entries
