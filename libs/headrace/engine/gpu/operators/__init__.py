"""Operations on the kernels for GPUs, and their choice."""
