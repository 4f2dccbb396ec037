#!/bin/sh
# Prints the Python to install Headrace with: python3, or the system's own where that runs Python code a quarter faster.
# Version managers compile Python without profile-guided optimization unless told to; distributions compile it with.
#   deploy/local/choose_python.sh [ONE OTHER]
one=${1:-python3}
other=${2:-/usr/bin/python3}

# Prints the microseconds that a loop takes; fails where Headrace cannot be installed: too old, without venv or headers.
measure() {
    # What Python prints when it starts is none of ours.
    "$1" 2>/dev/null - <<'PYTHON' | grep -x '[0-9][0-9]*' | tail -n 1 | grep .
import ensurepip, os, sys, sysconfig, time, venv
assert sys.version_info >= (3, 11) and os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))

class Sum:
    def __init__(self): self.total = 0
    def add(self, number): self.total += number

def run(count):
    start, found, sum_ = time.process_time(), {}, Sum()
    for number in range(count):
        found[number % 1000] = str(number)
        sum_.add(len(found.get(number * 7 % 1000, "")))
    return time.process_time() - start

print(int(1e6 * min(run(30_000) for _ in range(7))))
PYTHON
}

if ! other_time=$(measure "$other"); then
    echo "$one"
elif ! one_time=$(measure "$one") || [ $((4 * one_time)) -gt $((5 * other_time)) ]; then
    echo "$other"
else
    echo "$one"
fi
