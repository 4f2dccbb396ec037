"""Waits until the platform can answer, and asks it once. Exits 0 if a text came back."""

import http.client
import json
import os
import ssl
import sys
import time
from urllib.parse import urlsplit

PAUSE = 2.0
MARGIN = 5.0
"""Seconds before the deadline of the Pod at which the test gives up, and says so."""


def connect() -> http.client.HTTPConnection:
    """Connects to the Service, whose name is in no certificate that clients see."""
    url = urlsplit(os.environ["URL"])
    if url.scheme == "http":
        return http.client.HTTPConnection(url.netloc, timeout=60)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(url.netloc, timeout=60, context=context)


def call(method: str, path: str, body: str = "") -> tuple[int, str]:
    """Returns the status and the body of an answer. Raises OSError where there is none."""
    headers = {"content-type": "application/json"}
    if key := os.environ.get("API_KEY"):
        headers["authorization"] = f"Bearer {key}"
    connection = connect()
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def attempt() -> tuple[bool, str]:
    """Asks once the platform is ready. Returns whether a text came back, and what was said."""
    question = {"model": os.environ["MODEL"], "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
    try:
        status, said = call("GET", "/ready")
        if status == http.client.OK:
            status, said = call("POST", "/v1/chat/completions", json.dumps(question))
            return status == http.client.OK, said
    except (OSError, http.client.HTTPException) as error:
        said = str(error)
    return False, said


def main() -> int:
    """Tries until the deadline of the test."""
    deadline = time.monotonic() + float(os.environ["TIMEOUT"]) - MARGIN
    while True:
        is_answered, said = attempt()
        sys.stdout.write(f"{said}\n")
        sys.stdout.flush()
        if is_answered or time.monotonic() > deadline:
            return 0 if is_answered else 1
        time.sleep(PAUSE)


if __name__ == "__main__":
    sys.exit(main())
