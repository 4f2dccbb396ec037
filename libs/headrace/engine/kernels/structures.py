"""The C structures that the kernels take: `src/abi.h`, field by field."""

import ctypes

_POINTER, _SIZE, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_float


class Matrix(ctypes.Structure):
    _fields_ = (
        ("panels", _POINTER),
        ("bias", _POINTER),
        ("order", _POINTER),
        ("out", _SIZE),
        ("in_", _SIZE),
        ("group", _SIZE),
        ("storage", _INT),
        ("exact", _INT),
    )


class FeedForward(ctypes.Structure):
    _fields_ = (
        ("gate_up", Matrix),
        ("down", Matrix),
        ("up", Matrix),
    )


class Layer(ctypes.Structure):
    _fields_ = (
        ("attention_norm", _POINTER),
        ("mlp_norm", _POINTER),
        ("query_norm", _POINTER),
        ("key_norm", _POINTER),
        ("post_attention_norm", _POINTER),
        ("post_mlp_norm", _POINTER),
        ("qkv", Matrix),
        ("output", Matrix),
        ("mlp", FeedForward),
        ("qkv_rest", Matrix * 2),
        ("router", Matrix),
        ("experts", ctypes.POINTER(FeedForward)),
        ("router_bias", _POINTER),
        ("cosine", _POINTER),
        ("sine", _POINTER),
        ("window", _SIZE),
        ("keys", _POINTER),
        ("values", _POINTER),
        ("key_scales", _POINTER),
        ("value_scales", _POINTER),
        ("bias", _POINTER),
        ("bias_stride", _SIZE),
        ("key_factors", _POINTER),
        ("sinks", _POINTER),
    )


class Routing(ctypes.Structure):
    _fields_ = (
        ("expert_count", _SIZE),
        ("chosen_count", _SIZE),
        ("group_count", _SIZE),
        ("chosen_group_count", _SIZE),
        ("bias", _POINTER),
        ("scale", _FLOAT),
        ("least_sum", _FLOAT),
        ("normalizes", _INT),
        ("score", _INT),
        ("shared", _INT),
    )


class Update(ctypes.Structure):
    _fields_ = (
        ("shrink", Matrix),
        ("scales", _POINTER),
        ("expand", _POINTER),
        ("starts", _POINTER),
        ("ranks", _POINTER),
        ("storage", _INT),
    )


class Model(ctypes.Structure):
    _fields_ = (
        ("layers", ctypes.POINTER(Layer)),
        ("embedding", _POINTER),
        ("final_norm", _POINTER),
        ("head", Matrix),
        *((name, _SIZE) for name in ("layer_count", "hidden", "vocabulary")),
        *((name, _SIZE) for name in ("head_count", "kv_head_count", "head_size", "rotary_size")),
        ("block_size", _SIZE),
        ("block_bytes", _SIZE),
        ("block_count", _SIZE),
        ("position_count", _SIZE),
        ("embedding_storage", _INT),
        ("kv_storage", _INT),
        ("epsilon", _FLOAT),
        ("scale", _FLOAT),
        ("embedding_scale", _FLOAT),
        ("soft_cap", _FLOAT),
        ("sees_all", _INT),
        ("norms_rotated", _INT),
        ("logit_soft_cap", _FLOAT),
        ("activation", _INT),
        ("routing", Routing),
        ("updates", ctypes.POINTER(Update)),
        ("adapter_count", _SIZE),
    )


class Step(ctypes.Structure):
    _fields_ = (
        ("token_ids", _POINTER),
        ("tables", _POINTER),
        ("spans", _POINTER),
        ("logit_rows", _POINTER),
        ("logits", _POINTER),
        ("row_count", _SIZE),
        ("span_count", _SIZE),
        ("logit_count", _SIZE),
        ("table_size", _SIZE),
        ("adapters", _POINTER),
        ("auxiliary", _POINTER),
        ("auxiliary_layers", _POINTER),
        ("auxiliary_count", _SIZE),
    )


class Norm(ctypes.Structure):
    _fields_ = (
        ("weight", _POINTER),
        ("bias", _POINTER),
        ("size", _SIZE),
        ("epsilon", _FLOAT),
    )


class EncoderLayer(ctypes.Structure):
    _fields_ = (
        ("qkv", Matrix),
        ("output", Matrix),
        ("up", Matrix),
        ("down", Matrix),
        ("attention_norm", Norm),
        ("output_norm", Norm),
        ("cosine", _POINTER),
        ("sine", _POINTER),
        ("window", _SIZE),
    )


class Encoder(ctypes.Structure):
    _fields_ = (
        ("layers", ctypes.POINTER(EncoderLayer)),
        ("words", _POINTER),
        ("positions", _POINTER),
        ("norm", Norm),
        *((name, _SIZE) for name in ("layer_count", "hidden", "vocabulary", "position_count", "head_count")),
        ("longest", _SIZE),
        ("bias", _POINTER),
        ("bias_stride", _SIZE),
        ("word_storage", _INT),
        ("activation", _INT),
        ("scale", _FLOAT),
        ("final_norm", Norm),
        ("rotates", _INT),
        ("normalizes_inputs", _INT),
        ("is_gated", _INT),
    )


class EncoderBatch(ctypes.Structure):
    _fields_ = (
        ("token_ids", _POINTER),
        ("positions", _POINTER),
        ("lengths", _POINTER),
        ("hidden", _POINTER),
        ("row_count", _SIZE),
        ("input_count", _SIZE),
    )


class Recurrence(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("queries", "keys", "values", "kept", "rates", "outputs", "memories", "moves")),
        *((name, _SIZE) for name in ("row_count", "move_count", "slot_count")),
        *((name, _SIZE) for name in ("head_count", "key_head_count", "key_size", "value_size")),
        ("corrects", _INT),
    )


class Convolution(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("inputs", "taps", "bias", "outputs", "tails", "moves")),
        *((name, _SIZE) for name in ("row_count", "move_count", "slot_count")),
        *((name, _SIZE) for name in ("tap_count", "channel_count", "stride")),
    )


class Draw(ctypes.Structure):
    _fields_ = (
        ("logits", _POINTER),
        ("uniform", ctypes.c_double),
        ("top_k", _SIZE),
        ("token_id", _SIZE),
        ("temperature", _FLOAT),
        ("top_p", _FLOAT),
        ("min_p", _FLOAT),
    )


class Ranking(ctypes.Structure):
    _fields_ = (
        ("logits", _POINTER),
        ("token_ids", _POINTER),
        ("count", _SIZE),
        ("normalizer", ctypes.c_double),
    )
