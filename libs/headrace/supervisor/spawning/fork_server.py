"""The fork server: a process with one thread that has imported all services, and forks one when it is asked to.

What it forks becomes a child of the supervisor: the process between the two ends at once, and the supervisor adopts the
orphan. So the end of a fork server ends no service.
"""

import contextlib
import gc
import importlib
import os
import runpy
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import NoReturn

from headrace.supervisor.spawning.fork_request import MAX_BYTES, ForkRequest
from headrace.supervisor.spawning.own_metrics import keep_own_metrics
from headrace.supervisor.spawning.parent_death import die_with_parent
from headrace.supervisor.spawning.process_title import set_process_title

MAX_DESCRIPTORS = 16
PID = struct.Struct("=i")
"""Answer to a request: the id of the process, 0 where it could not be forked."""
_MODULES = ("app", "config")


def serve(supervisor: socket.socket, parent: int, services: Sequence[str]) -> NoReturn:
    """Serves the supervisor until it closes its socket. In each process that is forked, runs a service to its end.

    If anything fails, it ends: the supervisor starts services as programs then, and their logs say why they fail."""
    os.setsid()
    die_with_parent()
    _leave_streams()
    if os.getppid() == parent:
        with contextlib.suppress(Exception):
            set_process_title("headrace fork server")
            import_services(services)
            while message := receive_request(supervisor):
                request, descriptors = message
                if _fork(supervisor, request):
                    supervisor.close()
                    become(request, descriptors)
                for descriptor in descriptors:
                    os.close(descriptor)
    os._exit(0)


def _leave_streams() -> None:
    """Redirects the standard streams to /dev/null: their readers wait until every process that has them has ended."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)


def import_services(services: Sequence[str]) -> None:
    """Imports what is to be forked. Raises RuntimeError where that has started a thread."""
    # Imports leave hardly any garbage, and looking for it takes a tenth of their time. Services look again.
    gc.disable()
    if not sys.flags.safe_path:
        # Files of the current folder are no modules of a service.
        del sys.path[0]
    for service in services:
        for module in _MODULES:
            importlib.import_module(f"{service}.{module}")
    # Pages whose objects are not looked at stay shared with what is forked.
    gc.freeze()
    if threading.active_count() > 1:
        raise RuntimeError("an import has started a thread, which no fork would have")


def receive_request(supervisor: socket.socket) -> tuple[ForkRequest, list[int]] | None:
    """Waits for a request and its descriptors. None: the socket is closed."""
    content, descriptors, _, _ = socket.recv_fds(supervisor, MAX_BYTES, MAX_DESCRIPTORS)
    return (ForkRequest.decoded(content), descriptors) if content else None


def _fork(supervisor: socket.socket, request: ForkRequest) -> bool:
    """Forks a process, and tells the supervisor. Returns whether this is the forked one."""
    told, telling = os.pipe()
    going, go = os.pipe()
    middle = os.fork()
    if not middle:
        if os.fork():
            os._exit(0)
        os.close(told)
        os.close(go)
        # The server writes once the process between is gone: then the supervisor is the parent.
        if not os.read(going, 1) or os.getppid() != request.parent:
            os._exit(0)
        die_with_parent()
        os.write(telling, PID.pack(os.getpid()))
        os.close(going)
        os.close(telling)
        return True
    os.waitpid(middle, 0)
    os.close(telling)
    os.close(going)
    os.write(go, b"g")
    pid = os.read(told, PID.size)
    os.close(go)
    os.close(told)
    supervisor.send(pid or PID.pack(0))
    return False


def become(request: ForkRequest, descriptors: Sequence[int]) -> NoReturn:
    """Runs a service as `python -m` would, and ends."""
    os.setsid()
    _take(descriptors, request.numbers)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(request.environment)
    sys.argv = [request.module, *request.arguments]
    set_process_title(" ".join(("headrace", request.module.rpartition(".")[2], *request.arguments)))
    code = 0
    try:
        keep_own_metrics(request.module)
        runpy.run_module(request.module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - it is the end of the process
        traceback.print_exc()
        code = 1
    # As `multiprocessing` ends its forks. What the supervisor has to do at its exit is none of theirs, and taking
    # modules apart one by one would copy the pages that are shared.
    threading._shutdown()  # type: ignore[attr-defined]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _take(descriptors: Sequence[int], numbers: Sequence[int]) -> None:
    """Gives standard output and errors to the first descriptor, and each other one its number."""
    log, *inherited = descriptors
    beyond = max((2, *numbers, *descriptors)) + 1
    # Further up first: the number of one may be that of another by now.
    moved = [os.dup2(descriptor, beyond + place) for place, descriptor in enumerate((log, log, *inherited))]
    for descriptor in descriptors:
        os.close(descriptor)
    for source, number in zip(moved, (1, 2, *numbers), strict=True):
        os.dup2(source, number)
        os.close(source)
    # Objects of the supervisor may be anything by now.
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
