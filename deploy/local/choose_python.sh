#!/bin/sh
# Prints the Python to install Headrace with: python3, or the system's own where that runs Python code a quarter faster.
# Version managers compile Python without profile-guided optimization unless told to; distributions compile it with.
#   deploy/local/choose_python.sh [ONE OTHER]
one=${1:-python3}
other=${2:-/usr/bin/python3}

# Prints the microseconds that a loop takes; fails where Headrace cannot be installed: too old, without venv or headers.
measure() {
    "$1" 2>/dev/null - <<'PYTHON'
import ensurepip, os, sys, sysconfig, time, venv
assert sys.version_info >= (3, 11) and os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))

class Sum:
    def __init__(self): self.total = 0
    def add(self, number): self.total += number

def run(count):
    start, found, sum_ = time.perf_counter(), {}, Sum()
    for number in range(count):
        found[number % 1000] = str(number)
        sum_.add(len(found.get(number * 7 % 1000, "")))
    return time.perf_counter() - start

print(int(1e6 * min(run(30_000) for _ in range(7))))
PYTHON
}

if ! its=$(measure "$other"); then
    echo "$one"
elif ! mine=$(measure "$one") || [ $((4 * mine)) -gt $((5 * its)) ]; then
    echo "$other"
else
    echo "$one"
fi
