"""Steps captured once and replayed as CUDA graphs."""
