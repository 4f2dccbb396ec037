"""Detectors: expressions and word lists that search texts arriving in parts."""
