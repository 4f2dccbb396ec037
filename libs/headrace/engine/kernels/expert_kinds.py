"""Kinds of mixtures of experts, as the kernels number them."""

import enum


class ScoreKind(enum.IntEnum):
    """Function that makes weights of a router's outputs. The values are those of `ExpertScore` in abi.h."""

    SOFTMAX = 0
    SIGMOID = 1


class SharedKind(enum.IntEnum):
    """Presence of a shared expert. The values are those of `SharedExpert` in abi.h."""

    NONE = 0
    PLAIN = 1
    GATED = 2
