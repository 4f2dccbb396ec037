// The paged KV cache: the addresses of keys and values in its blocks, and how they are stored.
//
// Keys are [head size][block size] and values [block size][head size], so that both kinds of product run along the
// lanes. 8-bit integer codes are multiplied in pairs: keys [head size / 2][block size][2], values [block size / 2][head
// size][2].

#pragma once

#include <cmath>

#include "abi.h"
#include "lanes.h"
#include "storage_lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

inline int64_t element_size(int32_t storage) {
    return storage == kF32 ? 4 : storage == kBf16 || storage == kF16 ? 2 : 1;
}

// Shifting the bits of e4m3 into those of fp32 gives numbers 2^120 too small, subnormals included.
inline Floats load_fp8(const uint8_t *p) {
    const Ints bits = load_u8(p);
    const Floats value = as_floats(shift_left<20>(bits & spread(int32_t{0x7F}))) * spread(1.329227995784916e36f);
    return as_floats(as_ints(value) | shift_left<24>(bits & spread(int32_t{0x80})));
}

template <int kStorage> inline Floats load_kv(const uint8_t *p) {
    if constexpr (kStorage == kFp8)
        return load_fp8(p);
    else
        return load_as<kStorage>(p);
}

inline uint16_t to_bf16(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline uint16_t to_f16(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    const uint32_t sign = bits >> 16 & 0x8000;
    bits &= 0x7FFFFFFF;
    if (bits > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00);
    if (bits >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);
    if (bits < 0x38800000) {
        // In [0.5, 1) the unit in the last place of fp32 is that of fp16 subnormals, so this addition rounds correctly.
        const float shifted = std::fabs(value) + 0.5f;
        std::memcpy(&bits, &shifted, 4);
        return static_cast<uint16_t>(sign | (bits - 0x3F000000));
    }
    return static_cast<uint16_t>(sign | (bits + 0xFFF + (bits >> 13 & 1) - 0x38000000) >> 13);
}

// `value` must be at most 448 in magnitude.
inline uint8_t to_fp8(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    const uint32_t sign = bits >> 24 & 0x80;
    const float small = std::fabs(value) * 7.52316384526264e-37f;  // 2^-120
    std::memcpy(&bits, &small, 4);
    return static_cast<uint8_t>(sign | (bits + 0x7FFFF + (bits >> 20 & 1)) >> 20);
}

// `value` must be at most 127 in magnitude, or NaN. Converting NaN to an integer is undefined, but any code will do:
// its scale is NaN anyway.
inline uint8_t to_s8(float value) {
    return value != value ? 0 : static_cast<uint8_t>(static_cast<int8_t>(std::nearbyint(value)));
}

// Returns the scale of one token and head, such that the largest element gets the largest code.
inline float code_scale(const float *x, int64_t size, int32_t storage) {
    float most = 0.0f;
    for (int64_t d = 0; d < size; ++d) {
        if (!(std::fabs(x[d]) <= most)) most = std::fabs(x[d]);
    }
    const float limit = storage == kS8 ? 127.0f : 448.0f;
    return most > 1e-30f || most != most ? most / limit : 1.0f;
}

// The addresses of a token in the cache. At multiples of kLanes they begin a tile of kLanes tokens.
struct Tile {
    uint8_t *keys, *values;
    float *key_scales, *value_scales;
};

// The cached keys and values of one sequence and KV head.
struct Cache {
    const Model &model;
    const Layer &layer;
    int64_t kv_head;
    const int64_t *table;

    // Returns the addresses of `token`; those of the tokens after it in its block follow.
    Tile tile(int64_t token) const {
        const int64_t block = table[token / model.block_size] * model.block_bytes;
        const int64_t index = token % model.block_size;
        const int64_t first = kv_head * model.block_size;
        const int64_t head = model.head_size;
        const int64_t size = element_size(model.kv_storage);
        const int64_t odd = model.kv_storage == kS8 ? index % 2 : 0;
        const int64_t width = model.kv_storage == kS8 ? 2 : 1;
        const int64_t place = block + (first + index) * static_cast<int64_t>(sizeof(float));
        // Only codes have scales: nothing may be added to a null pointer.
        const auto scale = [=](uint8_t *p) { return p ? reinterpret_cast<float *>(p + place) : nullptr; };
        return {layer.keys + block + (first * head + index * width) * size,
                layer.values + block + (first * head + (index - odd) * head + odd) * size, scale(layer.key_scales),
                scale(layer.value_scales)};
    }

    // Stores the key and the value of `token`.
    void put(int64_t token, const float *key, const float *value) const {
        const Tile at = tile(token);
        const int64_t pair = model.kv_storage == kS8 ? 2 : 1;
        write(at.keys, key, at.key_scales,
              [=, this](int64_t d) { return d / pair * pair * model.block_size + d % pair; });
        write(at.values, value, at.value_scales, [=](int64_t d) { return d * pair; });
    }

  private:
    // Stores x[d] at element `place(d)` of p, and the scale if the storage has one.
    template <typename Place> void write(uint8_t *p, const float *x, float *scale, const Place &place) const {
        const int64_t size = model.head_size;
        const int32_t storage = model.kv_storage;
        if (storage == kF32) {
            for (int64_t d = 0; d < size; ++d) reinterpret_cast<float *>(p)[place(d)] = x[d];
        } else if (storage == kBf16) {
            for (int64_t d = 0; d < size; ++d) reinterpret_cast<uint16_t *>(p)[place(d)] = to_bf16(x[d]);
        } else if (storage == kF16) {
            for (int64_t d = 0; d < size; ++d) reinterpret_cast<uint16_t *>(p)[place(d)] = to_f16(x[d]);
        } else {
            const float unit = code_scale(x, size, storage);
            *scale = unit;
            for (int64_t d = 0; d < size; ++d) {
                const float code = x[d] / unit;
                p[place(d)] = storage == kS8 ? to_s8(code) : to_fp8(code);
            }
        }
    }
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
