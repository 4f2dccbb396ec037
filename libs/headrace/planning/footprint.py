"""Memory that a model takes in each precision."""

from dataclasses import dataclass, field

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.layout.attention_parts import attention_parts
from headrace.engine.checkpoints.layout.model_shape import HEAD, ModelShape, Module, model_shape
from headrace.engine.checkpoints.model_limits import ROUNDED_BITS
from headrace.engine.checkpoints.weights.weight_rounding import GROUP_SIZES, HEAD_BITS
from headrace.engine.kernels import packed_weight
from headrace.engine.kernels.kv_arena import KvShape
from headrace.engine.kernels.storage import Storage

BYTE_BITS = 8
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
GRID_BYTES = {"cpu": packed_weight.GRID_BYTES, "cuda": 8}
"""Size of a group's scale and zero point in the kernels of each kind of device, in bytes."""
SCALE_BYTES = 4
"""Size of the scale of floating-point codes, which have no zero point."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Format of a module's codes."""

    bits: int
    group_size: int
    is_float: bool = False


@dataclass(frozen=True, slots=True)
class Footprint:
    """A model in one precision on one kind of device, and the memory that it takes there, in bytes."""

    shape: ModelShape
    device_kind: str
    precision: str
    compute_precision: str
    """Precision of unpacked weights, and on a GPU of inputs."""
    packings: dict[str, Packing] = field(repr=False)
    """Packed modules by name."""

    @property
    def weight_bytes(self) -> int:
        config = self.shape.config
        kept_bytes = min(ITEM_BYTES[self.compute_precision], ITEM_BYTES[config.precision])
        loose = (self.shape.tensor_size - config.input_table_size) * ITEM_BYTES[self.compute_precision]
        loose += config.input_table_size * kept_bytes
        has_head = not self.shape.config.tied_embeddings or HEAD in self.packings
        products = self.shape.products if has_head else self.shape.products[:-1]
        return loose + sum(p.copies * sum(map(self.module_bytes, p.modules)) for p in products)

    @property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of a token in all layers that keep any."""
        parts = [part.config for part in attention_parts(self.shape.config)]
        sizes = [(len(part.kv_layers), part.kv_head_count, part.head_size) for part in parts]
        return sum(KvShape(*each, 1, self._kv_storage).block_bytes for each in sizes)

    def layer_kv_bytes(self, index: int) -> int:
        """Returns the keys and values of a token that a layer reads, its own or those of another."""
        heads = self.shape.config.heads(index)
        return KvShape(1, heads.kv_head_count, heads.head_size, 1, self._kv_storage).block_bytes

    @property
    def _kv_storage(self) -> Storage:
        """Format of keys and values. On a CPU, 8 bits with a scale per head beside packed weights, where the fused
        kernels compute the model."""
        is_coded = self.packings and self.device_kind == "cpu" and not self.shape.config.misfit
        return Storage.S8 if is_coded else {4: Storage.F32, 2: Storage.BF16}[ITEM_BYTES[self.compute_precision]]

    @property
    def state_bytes(self) -> int:
        """States of a sequence, fp32, in all layers that keep one."""
        states = self.shape.config.blocks.states
        return 0 if states is None else ITEM_BYTES["float32"] * states.number_count

    @property
    def arithmetic_precision(self) -> str:
        """Precision of the products: the kernels of CPUs round inputs to 8 bits beside packed weights, and compute in
        float32 with all others."""
        if self.device_kind == "cpu":
            return "int8" if self.packings else "float32"
        return self.compute_precision

    @property
    def item_bytes(self) -> int:
        """Size of a number of inputs and outputs, in bytes."""
        return ITEM_BYTES[self.compute_precision]

    def module_bytes(self, module: Module) -> int:
        """Returns the bytes of one matrix, its scales included."""
        name, out_size, in_size = module
        packing = self.packings.get(name)
        if packing is None:
            return out_size * in_size * self.item_bytes
        groups = -(-in_size // packing.group_size)
        grid_bytes = SCALE_BYTES if packing.is_float else GRID_BYTES[self.device_kind]
        return out_size * (in_size * packing.bits // BYTE_BITS + groups * grid_bytes)


def list_footprints(config: DecoderConfig, device_kind: str) -> list[Footprint]:
    """Lists the footprint of each precision that a "cpu" or "cuda" device supports, most exact first."""
    shape = model_shape(config)
    scheme = config.quantization
    # The kernels of CPUs multiply integers: floating-point codes are plain numbers there.
    if scheme is not None and not (scheme.is_float and device_kind == "cpu"):
        compute = "float32" if device_kind == "cpu" else _half(config)
        name = f"{scheme.number_name} ({scheme.method})"
        packings = _packed_by(scheme, shape)
        if device_kind == "cuda" and not scheme.is_float:
            packings |= _packed_head(shape)
        return [Footprint(shape, device_kind, name, compute, packings)]
    if device_kind == "cuda":
        return [Footprint(shape, device_kind, _half(config), _half(config), {})]
    plain = [Footprint(shape, device_kind, name, name, {}) for name in ("float32", "bfloat16")]
    rounded = ROUNDED_BITS.items()
    return plain + [Footprint(shape, "cpu", name, "float32", _rounded_to(bits, shape)) for name, bits in rounded]


def _half(config: DecoderConfig) -> str:
    """Names the precision of inputs on a GPU."""
    return config.precision if config.precision in ("bfloat16", "float16") else "bfloat16"


def _modules(shape: ModelShape) -> list[Module]:
    modules = [module for product in shape.products for module in product.modules]
    return [module for module in modules if module[0] != HEAD or not shape.config.tied_embeddings]


def _rounded_to(bits: int, shape: ModelShape) -> dict[str, Packing]:
    """Returns the modules that are rounded at load."""
    packings = {}
    for name, _, in_size in _modules(shape):
        group_size = _group_size(in_size)
        if group_size is not None:
            packings[name] = Packing(HEAD_BITS if name == HEAD else bits, group_size)
    return packings


def _packed_head(shape: ModelShape) -> dict[str, Packing]:
    """Returns the output head, which GPUs round beside integer codes. A tied one is held beside the embedding."""
    group_size = _group_size(shape.config.hidden_size)
    return {} if group_size is None else {HEAD: Packing(HEAD_BITS, group_size)}


def _group_size(in_size: int) -> int | None:
    """Returns the inputs of a group of a matrix that is rounded at load. None: it stays as it is."""
    return next((size for size in GROUP_SIZES if in_size % size == 0), None)


def _packed_by(scheme: QuantizationScheme, shape: ModelShape) -> dict[str, Packing]:
    """Returns the modules that files usually pack: all except output heads and routers."""
    packings = {}
    for name, _, in_size in _modules(shape):
        module_scheme = scheme.of_module(name)
        if module_scheme is not None and name != HEAD and not name.endswith(".gate"):
            group_size = module_scheme.group_size or in_size
            packings[name] = Packing(module_scheme.bits, group_size, module_scheme.is_float)
    return packings
