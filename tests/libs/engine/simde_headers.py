"""SIMDe's headers: with them the code for AVX-512 is tested on machines without it. `make test` runs this file.

They are in a package of Debian and Ubuntu, which is unpacked into the virtual environment and not installed: the
machine stays as it is, and nobody's rights are needed. What goes wrong is kept for the reason of the skip, and fails
nothing. The next `make test` tries again.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "libsimde-dev"
FOLDER = Path(sys.prefix) / "share" / "simde"
INCLUDE = FOLDER / "usr" / "include"
HEADER = Path("simde") / "x86" / "avx512.h"
WHY_NOT = FOLDER / "why-not.txt"
DOWNLOAD_SECONDS, UPDATE_SECONDS = 30, 60
PATIENCE = ("-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10")


class Unfetched(Exception):
    """In words, why there are no headers."""


def fetch() -> None:
    """Downloads and unpacks the package. Raises Unfetched."""
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Unfetched(f"there is no {tool} here to fetch {PACKAGE} with")
    with tempfile.TemporaryDirectory() as folder:
        try:
            package = download(Path(folder))
            run("dpkg-deb", "--extract", str(package), str(FOLDER), seconds=DOWNLOAD_SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            raise Unfetched(f"{PACKAGE} could not be fetched: {last_line(error)}") from None


def download(folder: Path) -> Path:
    """The package's file. Where the machine has no list of packages, as in images, one is fetched for the moment."""
    lists, cache = folder / "lists", folder / "cache"
    own = ("-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={cache}", "-o", "Acquire::Languages=none")
    command = ("apt-get", *PATIENCE, "-o", "APT::Sandbox::User=root")
    try:
        run(*command, "download", PACKAGE, folder=folder, seconds=DOWNLOAD_SECONDS)
    except subprocess.CalledProcessError:
        for made in (lists / "partial", cache / "archives" / "partial"):
            made.mkdir(parents=True)
        run(*command, *own, "update", seconds=UPDATE_SECONDS)
        run(*command, *own, "download", PACKAGE, folder=folder, seconds=DOWNLOAD_SECONDS)
    found = next(folder.glob("*.deb"), None)
    if found is None:
        raise Unfetched(f"apt-get left no {PACKAGE} behind")
    return found


def run(*command: str, seconds: int, folder: Path | None = None) -> None:
    subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=seconds)


def last_line(error: Exception) -> str:
    """What a program said last, else the error itself."""
    said = (error.stderr or "").strip() if isinstance(error, subprocess.CalledProcessError) else ""
    return said.splitlines()[-1] if said else str(error)


def why_not() -> str:
    """Why the last attempt failed."""
    return WHY_NOT.read_text().strip() if WHY_NOT.exists() else "`make test` has not fetched them yet"


def main() -> None:
    """Leaves either the headers or the reason."""
    if (INCLUDE / HEADER).exists():
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        fetch()
        WHY_NOT.unlink(missing_ok=True)
    except Unfetched as reason:
        WHY_NOT.write_text(f"{reason}\n")
        print(f"Without SIMDe's headers the code for AVX-512 is not emulated: {reason}")


if __name__ == "__main__":
    main()
