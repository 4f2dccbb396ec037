"""Remedy for a machine without compiled kernels."""

import platform
import shutil

from headrace.engine.kernels.library import load_kernels

_INSTALLERS = {
    "apt-get": "sudo apt-get install g++",
    "dnf": "sudo dnf install gcc-c++",
    "zypper": "sudo zypper install gcc-c++",
    "pacman": "sudo pacman -S gcc",
    "apk": "sudo apk add g++",
}
_REINSTALL = "then install Headrace again (in a checkout: rm .venv/.local && make up)"


def compiler_remedy() -> str:
    """Says how to get compiled kernels on this machine."""
    if any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        return "There is a C++ compiler: install Headrace again (in a checkout: rm .venv/.local && make up)"
    if platform.system() == "Darwin":
        return f"Install a C++ compiler with xcode-select --install, {_REINSTALL}"
    commands = [command for name, command in _INSTALLERS.items() if shutil.which(name)]
    return f"Install a C++ compiler with {commands[0] if commands else 'your package manager'}, {_REINSTALL}"


def missing_kernels() -> str | None:
    """Returns the message for a start without compiled kernels; None when they are there."""
    if load_kernels() is not None:
        return None
    return f"the CPU kernels are not compiled, so models run through torch, several times slower. {compiler_remedy()}"
