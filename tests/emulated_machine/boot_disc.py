"""The disc that the emulated machine starts from: a Linux kernel, and a program that mounts the root disk."""

import shutil
import subprocess
from pathlib import Path

BUSYBOX = Path("/bin/busybox")
LOADER = (Path("/usr/lib/ISOLINUX/isolinux.bin"), Path("/usr/lib/syslinux/modules/bios/ldlinux.c32"))
MODULES = ("ata_piix", "sd_mod", "ext4", "crc32c_generic")
# Linux 6.1 copies too much without clearcpuid: Bochs shows fast short copies (580) without fast long ones.
LOADER_SETTINGS = """\
default linux
prompt 0
timeout 1
label linux
 kernel /vmlinuz
 append initrd=/initrd.gz console=ttyS0 quiet mitigations=off nokaslr no5lvl clearcpuid=580 tsc=reliable nowatchdog
"""
FIRST_PROGRAM = """\
#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc proc /proc; $B mount -t sysfs sys /sys; $B mount -t devtmpfs dev /dev
exec >/dev/ttyS0 2>&1 </dev/ttyS0
for module in $($B cat /modules/order); do $B insmod /modules/$module; done
tries=0; while [ ! -b /dev/sda ] && [ $tries -lt 200 ]; do $B sleep 0.1; tries=$((tries+1)); done
$B mount -t ext4 /dev/sda /root
for folder in proc sys dev; do $B mount -o bind /$folder /root/$folder; done
$B mount -t tmpfs tmp /root/tmp
$B mkdir -p /root/dev/shm; $B mount -t tmpfs shm /root/dev/shm
$B ip link set lo up
$B chroot /root /bin/sh /command.sh
$B sleep 2
$B poweroff -f
"""


def write_boot_disc(folder: Path, package: Path) -> None:
    """Writes `folder`/boot.iso with the kernel of a package."""
    kernel, first, disc = folder / "kernel", folder / "first", folder / "disc"
    run("dpkg-deb", "--extract", str(package), str(kernel))
    for each in (first / "bin", first / "modules", disc / "isolinux"):
        each.mkdir(parents=True)
    for name in ("dev", "proc", "sys", "root"):
        (first / name).mkdir()
    shutil.copy(BUSYBOX, first / "bin")
    copy_modules(kernel, first / "modules")
    (first / "init").write_text(FIRST_PROGRAM)
    (first / "init").chmod(0o755)
    pack = f"cd {first} && find . | cpio --quiet -o -H newc | gzip -1 > {disc}/initrd.gz"
    run("sh", "-c", pack)
    (vmlinuz,) = (kernel / "boot").glob("vmlinuz-*")
    shutil.copy(vmlinuz, disc / "vmlinuz")
    for each in LOADER:
        shutil.copy(each, disc / "isolinux")
    (disc / "isolinux" / "isolinux.cfg").write_text(LOADER_SETTINGS)
    start = ("-b", "isolinux/isolinux.bin", "-c", "isolinux/boot.cat", "-no-emul-boot", "-boot-load-size", "4")
    run("xorriso", "-as", "mkisofs", "-quiet", "-o", str(folder / "boot.iso"), *start, "-boot-info-table", str(disc))


def copy_modules(kernel: Path, folder: Path) -> None:
    """Copies MODULES and all that they need to `folder`, and writes the order to load them in."""
    (modules,) = (kernel / "lib" / "modules").iterdir()
    run("depmod", "-b", str(kernel), modules.name)
    needs = dict(line.split(":") for line in (modules / "modules.dep").read_text().splitlines())
    places = {Path(place).name.partition(".")[0].replace("-", "_"): place for place in needs}
    order: list[str] = []

    def add(place: str) -> None:
        for need in reversed(needs[place].split()):
            add(need)
        if place not in order:
            order.append(place)

    for name in MODULES:
        add(places[name])
    for place in order:
        shutil.copy(modules / place, folder)
    (folder / "order").write_text("\n".join(Path(place).name for place in order))


def run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=600, stdout=subprocess.DEVNULL)
