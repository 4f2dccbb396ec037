"""Files from Debian and Ubuntu packages that tests use. `make test` runs this file before them.

The packages are unpacked into the virtual environment and not installed: the machine stays as it is, and no special
permission is needed. A failure is kept as the reason of the skip, and fails nothing. The next `make test` tries again.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(sys.prefix) / "share" / "unpacked-packages"
SIMDE, PROMETHEUS, ARM_COMPILER = "libsimde-dev", "prometheus", "g++-12-aarch64-linux-gnu"
REDIS = "redis-server"
WANTED = {
    SIMDE: Path("usr/include/simde"),
    PROMETHEUS: Path("usr/bin"),
    ARM_COMPILER: Path("usr"),
    REDIS: Path("usr"),
}
"""0.4, 19, 55 and 2 MB to download; the rest of a package is thrown away."""
NEEDED = {
    ARM_COMPILER: (
        "gcc-12-aarch64-linux-gnu",
        "binutils-aarch64-linux-gnu",
        *(f"{name}-arm64-cross" for name in ("libc6", "libc6-dev", "linux-libc-dev", "libgcc-s1", "libgcc-12-dev")),
        *(f"{name}-arm64-cross" for name in ("libstdc++6", "libstdc++-12-dev")),
        # Emulates the processor that the compiled programs are for.
        "qemu-user",
        *("libcapstone4", "liburing2", "libglib2.0-0", "libnuma1", "libbinutils", "libjansson4"),
    ),
    REDIS: ("redis-tools", "libatomic1", "libjemalloc2", "liblzf1"),
}
"""Packages that are unpacked over the first one, because it does not work without them."""
DOWNLOAD_SECONDS, UPDATE_SECONDS = 60, 60
PATIENCE = ("-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10")


class Unfetched(Exception):
    """Reason, in words, for which a package is not there."""


class Downloads:
    """Gets packages from where the machine gets its own. One without lists of packages, such as a container, gets lists
    for the moment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lists: tuple[str, ...] = ()
        self._has_updated = False

    def unpack(self, package: str) -> Path:
        """Returns a folder with the contents of the package and its dependencies. Raises Unfetched."""
        for tool in ("apt-get", "dpkg-deb"):
            if shutil.which(tool) is None:
                raise Unfetched(f"there is no {tool} here to fetch {package} with")
        for each in (package, *NEEDED.get(package, ())):
            try:
                self._download(each)
                (file,) = self._folder.glob(f"{each}_*.deb")
                run("dpkg-deb", "--extract", str(file), str(self._folder / package), seconds=DOWNLOAD_SECONDS)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                raise Unfetched(f"{each} could not be fetched: {last_line(error)}") from None
        return self._folder / package

    def _download(self, package: str) -> None:
        try:
            self._apt_get("download", package, seconds=DOWNLOAD_SECONDS)
        except subprocess.CalledProcessError as first:
            if self._has_updated:
                raise
            self._update()
            try:
                self._apt_get("download", package, seconds=DOWNLOAD_SECONDS)
            except subprocess.CalledProcessError:
                # Lists that could not be fetched say that there is no such package.
                self._lists = ()
                raise first from None

    def _update(self) -> None:
        lists, cache = self._folder / "lists", self._folder / "cache"
        for made in (lists / "partial", cache / "archives" / "partial"):
            made.mkdir(parents=True)
        self._lists = ("-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={cache}", "-o", "Acquire::Languages=none")
        self._has_updated = True
        self._apt_get("update", seconds=UPDATE_SECONDS)

    def _apt_get(self, *arguments: str, seconds: int) -> None:
        # As root it would have another user do the download, who cannot write here.
        command = ("apt-get", *PATIENCE, *self._lists, "-o", "APT::Sandbox::User=root", *arguments)
        run(*command, seconds=seconds, folder=self._folder)


def run(*command: str, seconds: int, folder: Path | None = None) -> None:
    subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=seconds)


def last_line(error: Exception) -> str:
    """Last line that a program printed, else the error itself."""
    said = (error.stderr or "").strip() if isinstance(error, subprocess.CalledProcessError) else ""
    return said.splitlines()[-1] if said else str(error)


def unpacked(package: str) -> Path:
    """Path of the wanted part of a package, if it was fetched."""
    return FOLDER / package / WANTED[package].name


def why_not(package: str) -> str:
    """Reason for which the last attempt failed."""
    path = FOLDER / f"{package}.txt"
    return path.read_text().strip() if path.exists() else "make test has not fetched it yet"


def main() -> None:
    """Keeps the wanted files of each package, or the reason why there are none."""
    missing = [package for package in WANTED if not unpacked(package).exists()]
    if not missing:
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        downloads = Downloads(Path(folder))
        for package in missing:
            reason = FOLDER / f"{package}.txt"
            try:
                found = downloads.unpack(package) / WANTED[package]
                unpacked(package).parent.mkdir(exist_ok=True)
                found.rename(unpacked(package))
                reason.unlink(missing_ok=True)
            except (Unfetched, OSError) as error:
                reason.write_text(f"{error}\n")
                print(f"Some tests will be skipped: {error}")


if __name__ == "__main__":
    main()
