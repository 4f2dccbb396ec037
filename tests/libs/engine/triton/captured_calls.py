"""Watch over what a captured step may not do."""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

WAITS = ("_local_scalar_dense", "nonzero", "item", "is_nonzero", "unique", "masked_select")
"""Operations whose results the host needs before it can go on."""
MAKES = ("lift_fresh", "_to_copy", "scalar_tensor", "tensor", "arange", "eye")
"""Operations that fill a tensor from the host, or copy one to another device or type, which only the host starts."""


class CapturedCalls(TorchDispatchMode):
    """Notes operations of torch, and the addresses of tensors that they did not make themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[str] = []
        self.waits: list[str] = []
        self.host_made: list[str] = []
        self.inputs: set[int] = set()
        self._made: list[Tensor] = []

    def __torch_dispatch__(self, function: Any, types: Any, operands: Any = (), options: Any = None) -> Any:
        name = function.overloadpacket.__name__
        self.operations.append(name)
        if name in WAITS:
            self.waits.append(name)
        own = {each.untyped_storage().data_ptr() for each in self._made}
        tensors = [each for each in tree_leaves((operands, options or {})) if isinstance(each, Tensor)]
        self.inputs |= {each.untyped_storage().data_ptr() for each in tensors} - own
        if name in MAKES and not (name == "_to_copy" and tensors):
            self.host_made.append(name)
        found = function(*operands, **(options or {}))
        # Held, so that no later tensor has the same address.
        self._made += [each for each in tree_leaves(found) if isinstance(each, Tensor)]
        return found
