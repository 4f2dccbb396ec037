"""Files on disk that survive a crash whole."""
