"""Delays the frames of one network device on their way to another: `python slow_link.py SOURCE TARGET SECONDS`.

What comes back passes at once. A kernel with netem would do the same; not every kernel has it. Frames are taken and
given with the header of virtio, which tells what their sender left to hardware: checksums, and cutting them to size.
"""

import heapq
import select
import socket
import sys
import time

READY = "ready"
ALL_PROTOCOLS = 3
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
MAX_FRAME = 1 << 17


def open_device(name: str) -> socket.socket:
    """A socket that gets and sends whole frames of a device."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    opened.bind((name, ALL_PROTOCOLS))
    opened.setblocking(False)
    return opened


def send(target: socket.socket, frame: bytes) -> None:
    """Loses a frame that the device does not take, as a network does."""
    try:
        target.send(frame)
    except OSError as error:
        print(f"a frame of {len(frame)} bytes is lost: {error!r}", file=sys.stderr, flush=True)


def pass_on(source: socket.socket, target: socket.socket, seconds: float) -> None:
    """Passes frames on until it is killed: those of the source later, those of the target at once."""
    waiting: list[tuple[float, int, bytes]] = []
    number = 0
    while True:
        rest = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select([source, target], [], [], rest)
        if target in ready:
            send(source, target.recv(MAX_FRAME))
        if source in ready:
            number += 1
            heapq.heappush(waiting, (time.monotonic() + seconds, number, source.recv(MAX_FRAME)))
        while waiting and waiting[0][0] <= time.monotonic():
            send(target, heapq.heappop(waiting)[2])


if __name__ == "__main__":
    devices = open_device(sys.argv[1]), open_device(sys.argv[2])
    print(READY, flush=True)
    pass_on(*devices, float(sys.argv[3]))
