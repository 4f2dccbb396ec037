"""The face of an engine: its Protocol, requests, settings and facts. Plain data, no tensors."""
