"""Random numbers as a pure function of (seed, position), so that a draw depends on nothing else."""

_MASK = (1 << 64) - 1


def uniform(seed: int, position: int) -> float:
    """Draws a number in [0, 1) with 52 random bits: SplitMix64 (Steele, Lea and Flood, 2014) as a counter-based
    generator."""
    return (_mix(_mix(seed & _MASK) + (position + 1) * 0x9E3779B97F4A7C15) >> 12) / (1 << 52)


def _mix(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
