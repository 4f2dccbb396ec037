"""Out-of-memory errors, whichever library raises them."""

_TORCH_NAME = "OutOfMemoryError"
"""Name of torch's error on devices; torch itself may not be installed."""
_TORCH_ALLOCATOR = "DefaultCPUAllocator"
"""Beginning of the RuntimeError by which torch says the same of main memory."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out: with less to hold, the same would have worked."""
    if isinstance(error, MemoryError) or any(kind.__name__ == _TORCH_NAME for kind in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError) and _TORCH_ALLOCATOR in str(error)
