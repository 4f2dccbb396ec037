"""Bodies of requests as they arrive: counted, unpacked, and kept under one limit."""
