"""Waits until the platform can answer, and asks it once. Exits 0 if a text came back."""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request

PAUSE = 2.0
# The Service's name is in no public certificate.
ANY_CERTIFICATE = ssl._create_unverified_context()


def call(path: str, body: object = None) -> bytes:
    """Returns the answer's body. Raises OSError where there is none, or it is an error."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["URL"] + path, data, {"content-type": "application/json"})
    if key := os.environ.get("API_KEY"):
        request.add_header("authorization", f"Bearer {key}")
    with urllib.request.urlopen(request, timeout=60, context=ANY_CERTIFICATE) as answer:
        return answer.read()


def main() -> int:
    """Asks until the deadline of the test."""
    deadline = time.monotonic() + float(os.environ["TIMEOUT"]) - 5
    question = {"model": os.environ["MODEL"], "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
    while True:
        try:
            call("/ready")
            print(call("/v1/chat/completions", question).decode())
            return 0
        except OSError as error:
            print(f"not yet: {error}", flush=True)
            if time.monotonic() > deadline:
                return 1
        time.sleep(PAUSE)


if __name__ == "__main__":
    sys.exit(main())
