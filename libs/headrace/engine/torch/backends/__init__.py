"""Backends of models on torch: operations, attention, sampler and graphs as one value."""
