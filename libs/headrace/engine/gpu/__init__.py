"""GPUs: their backend for models on torch, which runs the kernels in Triton and replays steps as CUDA graphs."""
