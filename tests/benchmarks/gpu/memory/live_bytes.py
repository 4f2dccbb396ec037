"""Bytes of tensors that are alive, and the most there were."""

import weakref
from collections import Counter
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Follows the memory of every tensor that an operation makes, until the last view of it is gone. Tensors may be
    fake."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.most = 0
        self._views: Counter[int] = Counter()

    def reset_most(self) -> None:
        """Counts the most from here on."""
        self.most = self.now

    def __torch_dispatch__(self, function: Any, types: Any, operands: Any = (), options: Any = None) -> Any:
        found = function(*operands, **(options or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor):
                self._follow(tensor)
        return found

    def _follow(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        place, size = storage._cdata, storage.nbytes()
        self._views[place] += 1
        if self._views[place] == 1:
            self.now += size
            self.most = max(self.most, self.now)
        weakref.finalize(tensor, self._forget, place, size)

    def _forget(self, place: int, size: int) -> None:
        self._views[place] -= 1
        if not self._views[place]:
            del self._views[place]
            self.now -= size
