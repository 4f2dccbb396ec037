"""Another client's stream, in a process of its own, and how long it has waited for its next part."""

import http.client
import json
import subprocess
import sys
import threading
import time
from types import TracebackType
from urllib.parse import urlsplit

BODY = {"model": "headrace-demo", "prompt": "The", "max_tokens": 1500, "ignore_eos": True, "stream": True}


class OtherClient:
    """Reads one long stream after another while a block runs."""

    def __init__(self, url: str, key: str = "") -> None:
        command = [sys.executable, "-m", "tests.e2e.other_client", url, key]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> "OtherClient":
        self.longest_wait()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def longest_wait(self) -> float:
        """Returns the longest wait since this was last asked, in seconds, that which goes on included."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


class _Reader:
    def __init__(self, url: str, key: str) -> None:
        self._address = urlsplit(url)
        self._headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        self._last = time.monotonic()
        self._longest = 0.0
        self.has_begun = threading.Event()

    def read(self) -> None:
        while True:
            connection = http.client.HTTPConnection(self._address.hostname or "", self._address.port, timeout=120)
            connection.request("POST", "/v1/completions", json.dumps(BODY), self._headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            while (line := answer.readline()) and b"[DONE]" not in line:
                self._note()
            connection.close()

    def taken(self) -> float:
        self._note()
        longest, self._longest = self._longest, 0.0
        return longest

    def _note(self) -> None:
        now = time.monotonic()
        self._longest, self._last = max(self._longest, now - self._last), now
        self.has_begun.set()


def main() -> None:
    reader = _Reader(*sys.argv[1:3])
    threading.Thread(target=reader.read, daemon=True).start()
    for _ in sys.stdin:
        assert reader.has_begun.wait(30), "the stream does not begin"
        print(f"{reader.taken():.4f}", flush=True)


if __name__ == "__main__":
    main()
