"""Manager of the models of one process: moves them between disk, host memory and device as its policy decides."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from headrace.engine.contract.engine import Engine
from headrace.engine.residency.engine_store import EngineStore, Load
from headrace.engine.residency.managed_engine import ManagedEngine
from headrace.engine.residency.memory_recovery import no_memory
from headrace.engine.residency.out_of_memory import is_out_of_memory
from headrace.engine.residency.policy.move import Move, MoveKind
from headrace.engine.residency.policy.residence import Residence
from headrace.engine.residency.policy.residency import Residency
from headrace.engine.residency.policy.residency_limits import ResidencyLimits
from headrace.engine.residency.policy.resident import Resident
from headrace.engine.residency.resident_status import ResidentStatus
from headrace.engine.residency.sleeper import can_sleep
from headrace.engine.residency.step_turn import StepTurn
from headrace.errors.tree import HeadraceError, Unavailable

BUSY_LOOK_SECONDS = 0.01
"""Seconds between two looks while a model is wanted that cannot come in yet."""
IDLE_LOOK_SECONDS = 1.0
MOVE_SECONDS = 600.0
"""Seconds after which a move counts as hanging: waiting for it no longer counts as progress."""

_log = logging.getLogger(__name__)


class ModelManager:
    """Decides and moves in a separate thread, so that no step waits for a model that comes in."""

    def __init__(self, load: Load, prove: Callable[[str, Engine], None], limits: ResidencyLimits) -> None:
        """`prove` makes a freshly loaded engine of the model named generate something. Raises HeadraceError if that
        fails."""
        self._load = load
        self._prove = prove
        self._limits = limits
        self._turn = StepTurn()
        self._wanted = threading.Condition()
        """Guards the policy; notified when a request waits."""
        self._policy = Residency(limits, [])
        self._engines: dict[str, ManagedEngine] = {}
        self._store = EngineStore(load, self._engines)
        self._is_stopping = False
        self._moving_since: float | None = None
        self._on_change: Callable[[str], None] = lambda _name: None
        self._on_crash: Callable[[BaseException], None] = lambda _error: None
        self._thread = threading.Thread(target=self._run, name="model-manager", daemon=True)

    def open(self, names: Iterable[str], pinned: Iterable[str] = ()) -> Mapping[str, ManagedEngine]:
        """Loads every model once and proves that it works. Returns an engine for each.

        Afterwards the pinned ones are awake, and as many of the others as have room; the rest sleeps. Raises
        HeadraceError for one that cannot be loaded, does not work, or can never be awake beside those pinned."""
        pinned = frozenset(pinned)
        seconds: dict[str, float] = {}
        residents: list[Resident] = []
        for name in sorted(names, key=lambda name: name not in pinned):
            started = time.monotonic()
            engine = self._first_load(name, residents)
            self._prove(name, engine)
            seconds[name] = time.monotonic() - started
            self._engines[name] = ManagedEngine(engine.spec, self._turn, self.notice, self._is_sound)
            resident = Resident(name, engine.spec.memory, can_sleep(engine), name in pinned)
            resident.used_time = time.monotonic()
            residents.append(resident)
            self._lay_down(resident, engine, residents)
            del engine
        self._policy = Residency(self._limits, residents)
        for name, taken in seconds.items():
            self._policy.times.note(Move(MoveKind.LOAD, name), taken)
        while (move := self._policy.warm_move()) is not None:
            self._perform(move)
        return self._engines

    def start(self, on_change: Callable[[str], None], on_crash: Callable[[BaseException], None]) -> None:
        """Starts to move models. `on_change` receives the name of each that moved, and `on_crash` the error after which
        none moves any more; both from another thread."""
        self._on_change, self._on_crash = on_change, on_crash
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Ends after the move that is under way. Waits at most `timeout` seconds."""
        with self._wanted:
            self._is_stopping = True
            self._wanted.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)
        if not self._thread.is_alive():
            self._store.close()

    def pin(self, name: str, *, is_pinned: bool) -> None:
        """Has a model stay awake from now on, or take turns. From any thread. Raises ConfigError where it or another
        one could then never be awake."""
        with self._wanted:
            self._policy.pin(name, is_pinned=is_pinned)
            self._wanted.notify_all()

    def notice(self) -> None:
        """Has the manager look for something to do. From any thread."""
        with self._wanted:
            self._wanted.notify_all()

    def status(self, name: str) -> ResidentStatus:
        """Returns the state of a model. From any thread."""
        with self._wanted:
            times, engine = self._policy.times, self._engines[name]
            return ResidentStatus(
                residence=self._policy.residents[name].residence,
                predicted_wait_seconds=self._policy.predicted_wait(name, time.monotonic()),
                load_count=times.count(MoveKind.LOAD, name),
                wake_count=times.count(MoveKind.WAKE, name),
                sleep_count=times.count(MoveKind.SLEEP, name),
                drop_count=times.count(MoveKind.DROP, name),
                is_pinned=self._policy.residents[name].is_pinned,
                out_of_memory_count=engine.out_of_memory_count + self._store.failure_counts.get(name, 0),
            )

    def _first_load(self, name: str, residents: list[Resident]) -> Engine:
        """Loads a model of unknown size: where memory runs out, all others leave it first."""
        try:
            return self._load(name, 1.0)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        for resident in residents:
            resident.residence = Residence.ON_DISK
        self._store.close()
        return self._load(name, 1.0)

    def _lay_down(self, resident: Resident, engine: Engine, residents: list[Resident]) -> None:
        """Puts a model that was just proved to sleep, or on disk where host memory has no room for it."""
        asleep = sum(one.held_asleep_bytes for one in residents)
        if asleep + resident.memory.weight_bytes > self._limits.asleep_bytes:
            engine.close()
        elif self._store.keep(resident.name, engine):
            resident.residence = Residence.ASLEEP

    def _run(self) -> None:
        try:
            while (move := self._next_move()) is not None:
                self._perform(move)
        except BaseException as error:  # noqa: BLE001 - whatever it was, the process must learn of it
            _log.exception("the model manager crashed")
            self._on_crash(error)

    def _next_move(self) -> Move | None:
        """Waits for the next move. Returns None once stopped."""
        while not self._is_stopping:
            self._drop_lost()
            with self._wanted:
                self._look()
                move = self._policy.begin(time.monotonic())
                for name, engine in self._engines.items():
                    engine.is_draining = name == self._policy.draining
                if move is not None:
                    return move
                is_wanted = any(one.waiting_since is not None for one in self._policy.residents.values())
                self._wanted.wait(BUSY_LOOK_SECONDS if is_wanted else IDLE_LOOK_SECONDS)
        return None

    def _look(self) -> None:
        """Tells the policy of the requests that there are."""
        for name, resident in self._policy.residents.items():
            engine = self._engines[name]
            resident.waiting_since, resident.is_busy = engine.waiting_since, engine.is_busy
            resident.used_time = max(resident.used_time, engine.used_time)

    def _drop_lost(self) -> None:
        """Drops the engines that ran out of memory beyond recovery."""
        for name, engine in self._engines.items():
            if engine.is_lost:
                self._store.lose(name)
                engine.refuse(no_memory)
                engine.is_lost = False
                with self._wanted:
                    self._policy.lose(name, time.monotonic())
                self._on_change(name)

    def _perform(self, move: Move) -> None:
        """Carries out a move that the policy began. One that fails costs the model's requests, and nothing else."""
        started = self._moving_since = time.monotonic()
        try:
            is_done = self._store.perform(move, lambda: self._free_for(move.name))
        except Exception as error:
            is_memory = is_out_of_memory(error)
            if not is_memory and not isinstance(error, (HeadraceError, OSError)):
                raise
            _log.warning("a model could not be brought in", extra={"model": move.name, "error": repr(error)})
            self._store.lose(move.name)
            self._engines[move.name].refuse(no_memory if is_memory else _not_loaded(move.name, error))
            with self._wanted:
                self._policy.lose(move.name, time.monotonic())
        else:
            self._note(move, is_done, started)
        self._moving_since = None
        self._on_change(move.name)

    def _note(self, move: Move, is_done: bool, started: float) -> None:
        now = time.monotonic()
        with self._wanted:
            if is_done:
                self._policy.finish(move, now - started, now)
            else:
                self._policy.abandon(move)
        if is_done:
            _log.info("a model moved", extra={"model": move.name, "move": move.kind.value, "seconds": now - started})

    def _free_for(self, name: str) -> bool:
        """Makes another model give its memory up. Returns False if there is none left."""
        while True:
            with self._wanted:
                self._look()
                move = self._policy.spare_move(name)
            if move is None:
                return False
            started = time.monotonic()
            is_done = self._store.perform(move, lambda: False)
            self._note(move, is_done, started)
            self._on_change(move.name)
            if is_done:
                return True

    def _is_sound(self) -> bool:
        """Whether models that are wanted will come: no move hangs."""
        since = self._moving_since
        return self._thread.is_alive() and (since is None or time.monotonic() - since < MOVE_SECONDS)


def _not_loaded(name: str, error: Exception) -> Callable[[str], HeadraceError]:
    """Makes the errors of requests for a model that cannot be loaded."""
    reason = error.message if isinstance(error, HeadraceError) else str(error)

    def refused(request_id: str) -> Unavailable:
        message = f"model {name} cannot be loaded at the moment: {reason}"
        return Unavailable(message, stage="decode", details={"request_id": request_id})

    return refused
