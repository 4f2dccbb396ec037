"""Peak rates of the device that a worker runs on, and its price: what MBU, MFU and the cost of a request divide by."""

import hashlib
import json
import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.engine.contract.engine import EngineSpec
from headrace.engine.memory.host_cores import usable_core_count
from headrace.errors import HeadraceError
from headrace.planning.device_profile import read_profile
from headrace.storage.whole_file import write_whole
from headrace.worker.config import WorkerSettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """Peak rates of a device. Zero: not known."""

    memory_bandwidth: float = 0.0
    """Bytes per second."""
    arithmetic_rate: float = 0.0
    """Operations per second, in the precision of the model; a multiplication and an addition are two."""
    hourly_price: float = 0.0


def device_rates(settings: WorkerSettings, spec: EngineSpec) -> DeviceRates:
    """Returns the rates that the settings name, else those of the device profile, else on a CPU what was measured, now
    or at an earlier start. Raises ConfigError for a profile that cannot be read."""
    profile = _rates_of(settings.device_profile, spec.precision) if settings.device_profile else DeviceRates()
    bandwidth = settings.memory_bandwidth or profile.memory_bandwidth
    arithmetic = settings.arithmetic_rate or profile.arithmetic_rate
    if not (bandwidth and arithmetic) and spec.device == "cpu" and settings.engine == "model":
        measured = _measured_rates(settings, spec)
        bandwidth, arithmetic = bandwidth or measured.memory_bandwidth, arithmetic or measured.arithmetic_rate
    return DeviceRates(bandwidth, arithmetic, settings.hourly_price or profile.hourly_price)


def _rates_of(path: Path, precision: str) -> DeviceRates:
    """Reads a file like those in deploy/profiles. Weights of fewer bits than the arithmetic has count as its default
    precision."""
    profile = read_profile(path)
    return DeviceRates(profile.memory_bandwidth, profile.arithmetic_rate(precision), profile.hourly_price)


def _measured_rates(settings: WorkerSettings, spec: EngineSpec) -> DeviceRates:
    """Measures once for each machine and number of threads, where there is a folder to keep the result in. Without
    kernels nothing is known."""
    thread_count = settings.thread_count or usable_core_count()
    name = f"{_processor()}-{thread_count}.json"
    path = settings.packed_folder.expanduser().parent / "rates" / name if settings.packed_folder else None
    rates = _read_kept(path) if path is not None else None
    if rates is None:
        try:
            from headrace.engine.kernels.choice.machine_rates import measure_rates

            rates = asdict(measure_rates(thread_count))
        except (ImportError, HeadraceError) as error:
            _log.info("the rates of this machine are not known", extra={"error": str(error)})
            return DeviceRates()
        if path is not None:
            _keep(path, rates)
    is_integer = spec.precision.startswith("int") and not settings.exact
    return DeviceRates(rates["memory_bandwidth"], rates["integer_rate" if is_integer else "float_rate"])


def _processor() -> str:
    """Returns a name for this kind of processor and its number of cores, fit for a file: the names of containers
    change."""
    # Imports numpy, which a worker of another engine does without.
    from headrace.engine.kernels.choice.processor import Processor

    return f"{hashlib.sha256(Processor.here().name.encode()).hexdigest()[:12]}-{os.cpu_count()}"


def _read_kept(path: Path) -> dict[str, float] | None:
    """Returns the rates of an earlier start. None: there was none, or another version wrote them."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {name: float(kept[name]) for name in ("memory_bandwidth", "float_rate", "integer_rate")}
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _keep(path: Path, rates: dict[str, float]) -> None:
    """Writes rates for the next start. A folder that cannot be written costs a measurement, no more."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(rates), durable=False)
    except OSError as error:
        _log.info("the rates of this machine could not be kept", extra={"error": str(error)})
