"""Builds the images without a registry of images: `python -m tests.images.build_offline FOLDER`, as root on Debian.

The base is made of Debian's packages, under the name that the Dockerfile asks for; NATS is the server of the tests.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.images.podman import ENVIRONMENT

from headrace.supervisor.nats_server import find_nats_server

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("buildah", "podman", "runc", "netavark", "aardvark-dns", "catatonit", "iptables", "iproute2", "mmdebstrap")
PROGRAMS = ("buildah", "podman", "runc", "iptables", "ip", "mmdebstrap")
BASE = "localhost/python:3.11-slim-bookworm"
NATS = "localhost/headrace-nats:test"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
LEFT_OUT = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*", "/usr/share/info/*")
"""As images of Python leave it out, too."""
BASE_FILE = """\
FROM scratch
ADD base.tar /
RUN ln -s python3 /usr/bin/python && rm -f /usr/lib/python3*/EXTERNALLY-MANAGED
"""
NATS_FILE = """\
FROM scratch
COPY nats-server /usr/local/bin/nats-server
ENV PATH=/usr/local/bin
"""


def run(*command: str | Path, folder: Path = ROOT, **variables: str) -> None:
    print("+", *command, flush=True)
    subprocess.run(list(map(str, command)), cwd=folder, env=ENVIRONMENT | variables, check=True)


def install_programs() -> None:
    """Installs what builds and runs images, where it is not there."""
    if not all(map(shutil.which, PROGRAMS)):
        run("apt-get", "update", "-qq")
        run(
            "apt-get", "install", "--yes", "-qq", "--no-install-recommends", *PACKAGES, DEBIAN_FRONTEND="noninteractive"
        )


def build_base(folder: Path) -> None:
    """Builds the base image, once for a folder."""
    tar = folder / "base.tar"
    if not tar.exists():
        sources = [*Path("/etc/apt/sources.list.d").glob("*.sources"), Path("/etc/apt/sources.list")]
        left_out = [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
        included = "--include=python3,python3-pip,python3-venv,ca-certificates"
        made = folder / "made.tar"
        run("mmdebstrap", "--variant=minbase", included, *left_out, "bookworm", made, sources[0])
        made.rename(tar)
    (folder / "Dockerfile").write_text(BASE_FILE)
    run("buildah", "bud", "--isolation", "chroot", "--layers", "--tag", BASE, ".", folder=folder)


def build_nats(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    shutil.copy(find_nats_server(), folder / "nats-server")
    (folder / "Dockerfile").write_text(NATS_FILE)
    run("buildah", "bud", "--isolation", "chroot", "--tag", NATS, ".", folder=folder)


def build_services() -> None:
    options = "--isolation chroot --network host --pull=never --layers"
    if AUTHORITIES.exists():
        options += f" --volume {AUTHORITIES}:{AUTHORITIES}:ro"
    run("deploy/docker/build_images.sh", BUILDER="buildah", BUILD_OPTIONS=options, HEADRACE_TAG="test")


def main() -> None:
    if os.geteuid() != 0:
        sys.exit("images are built and run as root here: sudo make test-images")
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    install_programs()
    build_base(folder)
    build_nats(folder / "nats")
    build_services()


if __name__ == "__main__":
    main()
