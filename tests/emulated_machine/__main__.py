"""Runs a command on a whole machine that Bochs emulates, with a processor that this one is not, such as one with AMX.

    python -m tests.emulated_machine --bochs build/bochs --kernel linux-image-6.1.deb "python -m pytest -q tests/…"

The machine has this checkout, its virtual environment and no network. It is far slower than this one. The packages
busybox-static, cpio, e2fsprogs, isolinux, kmod, syslinux-common and xorriso must be installed.
docs/results/2026-11-23-emulated-amx.md says which Bochs was used and what was mended in it.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.emulated_machine.boot_disc import write_boot_disc
from tests.emulated_machine.root_disk import EXIT_MARK, write_root_disk

SETTINGS = """\
cpu: model={model}, count=1, ips=200000000
memory: guest=2048, host=2048
romimage: file={bios}/BIOS-bochs-latest
vgaromimage: file={bios}/VGABIOS-lgpl-latest.bin
ata0-master: type=disk, path={folder}/root.img, mode=flat
ata1: enabled=1, ioaddr1=0x170, ioaddr2=0x370, irq=15
ata1-master: type=cdrom, path={folder}/boot.iso, status=inserted
boot: cdrom
clock: sync=none, time0=utc
display_library: nogui
com1: enabled=1, mode=file, dev={folder}/console.txt
log: {folder}/bochs.log
panic: action=fatal
error: action=ignore
info: action=ignore
"""
"""Without a log: Bochs' clock writes to it from a signal, which may interrupt the writing of another line for good."""


def main() -> None:
    """Prints what the machine prints. Exits with the status of the command, or 1 if the machine stopped before."""
    arguments = read_arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_root_disk(folder, arguments.command)
        write_boot_disc(folder, arguments.kernel)
        settings = folder / "bochsrc"
        bios = arguments.bochs.resolve().parent / "bios"
        settings.write_text(SETTINGS.format(model=arguments.model, bios=bios, folder=folder))
        command = [str(arguments.bochs), "-q", "-f", str(settings)]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as machine:
            try:
                status = follow(machine, folder / "console.txt", arguments.timeout)
            finally:
                machine.kill()
    sys.exit(status)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bochs", type=Path, required=True, help="program, in the folder where it was compiled")
    parser.add_argument("--kernel", type=Path, required=True, help="package of a Linux kernel for x86-64 (.deb)")
    parser.add_argument("--model", default="sapphire_rapids", help="processor, of those that `bochs -help cpu` lists")
    parser.add_argument("--timeout", type=float, default=7200, help="seconds for all of it")
    parser.add_argument("command", help="for the machine's shell, in the checkout")
    return parser.parse_args()


def follow(machine: subprocess.Popen[bytes], console: Path, timeout: float) -> int:
    """Prints the console until the command has ended. Returns its status, or 1 if there is none."""
    end, place = time.monotonic() + timeout, 0
    while time.monotonic() < end:
        stopped = machine.poll() is not None
        text = console.read_text(errors="replace") if console.exists() else ""
        lines = text[place:].splitlines(keepends=True)
        for line in lines if stopped else [line for line in lines if line.endswith("\n")]:
            if line.startswith(EXIT_MARK):
                return int(line.removeprefix(EXIT_MARK))
            print(line, end="", flush=True)
            place += len(line)
        if stopped:
            break
        time.sleep(1)
    return 1


if __name__ == "__main__":
    main()
