// Attention of each query over the cached keys of its sequence (paged, grouped queries), in fp32.
//
// Keys lie as [head][16 tokens] and values as [16 tokens][head], so that both products go along the lanes. For each query,
// scores are summed over the head in order, weights over lanes and then blocks, values over tokens in order: whatever the
// length of the chunk that it came with.

#pragma once

#include <cmath>
#include <vector>

#include "abi.h"
#include "lanes.h"

namespace headrace {
inline namespace HEADRACE_ISA {

constexpr int kQueries = 4;  // Attend together.

inline int64_t element_size(int32_t storage) { return storage == kF32 ? 4 : storage == kBf16 || storage == kF16 ? 2 : 1; }

// e4m3 numbers: shifted into place they are 2^120 too small, subnormals included.
inline Floats load_fp8(const uint8_t *p) {
    const Ints bits = load_u8(p);
    const Floats value = as_floats(shift_left<20>(bits & spread(int32_t{0x7F}))) * spread(1.329227995784916e36f);
    return as_floats(as_ints(value) | shift_left<24>(bits & spread(int32_t{0x80})));
}

template <int kStorage> inline Floats load_kv(const uint8_t *p) {
    if constexpr (kStorage == kF32) return load(reinterpret_cast<const float *>(p));
    if constexpr (kStorage == kBf16) return load_bf16(reinterpret_cast<const uint16_t *>(p));
    if constexpr (kStorage == kF16) return load_f16(reinterpret_cast<const uint16_t *>(p));
    if constexpr (kStorage == kS8) return to_floats(load_s8(reinterpret_cast<const int8_t *>(p)));
    if constexpr (kStorage == kFp8) return load_fp8(p);
}

inline uint16_t to_bf16(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// `value` is at most 448 in magnitude.
inline uint8_t to_fp8(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    const uint32_t sign = bits >> 24 & 0x80;
    const float small = std::fabs(value) * 7.52316384526264e-37f;  // 2^-120
    std::memcpy(&bits, &small, 4);
    return static_cast<uint8_t>(sign | (bits + 0x7FFFF + (bits >> 20 & 1)) >> 20);
}

// One number per token and head, such that the largest element becomes the largest code.
inline float code_scale(const float *x, int64_t size, int32_t storage) {
    float most = 0.0f;
    for (int64_t d = 0; d < size; ++d) {
        if (!(std::fabs(x[d]) <= most)) most = std::fabs(x[d]);
    }
    const float limit = storage == kS8 ? 127.0f : 448.0f;
    return most > 1e-30f || most != most ? most / limit : 1.0f;
}

// Writes one head's key or value, whose elements go `stride` elements apart.
inline void store_kv(uint8_t *p, int64_t stride, const float *x, int64_t size, int32_t storage, float *scale) {
    if (storage == kF32) {
        for (int64_t d = 0; d < size; ++d) reinterpret_cast<float *>(p)[d * stride] = x[d];
    } else if (storage == kBf16) {
        for (int64_t d = 0; d < size; ++d) reinterpret_cast<uint16_t *>(p)[d * stride] = to_bf16(x[d]);
    } else {
        const float unit = *scale = code_scale(x, size, storage);
        for (int64_t d = 0; d < size; ++d) {
            const float code = x[d] / unit;
            p[d * stride] = storage == kS8 ? static_cast<uint8_t>(static_cast<int8_t>(std::nearbyint(code))) : to_fp8(code);
        }
    }
}

// The queries of one call: rows of the same sequence and KV head.
struct Queries {
    const float *q[kQueries];     // [head]
    float *out[kQueries];         // [head]
    int64_t first[kQueries];      // The first token that each sees, and
    int64_t last[kQueries];       // the last one
};

// Sixteen tokens in the cache.
struct Tile {
    uint8_t *keys, *values;
    float *key_scales, *value_scales;
};

// What every thread needs room for.
struct Scratch {
    std::vector<float> scores;
    std::vector<Tile> tiles;
};

// The keys and values of one sequence and KV head.
struct Cache {
    const Model &model;
    const Layer &layer;
    int64_t kv_head;
    const int64_t *table;

    // Where `token` and those that follow in its block are.
    Tile tile(int64_t token) const {
        const int64_t block = table[token / model.block_size] * model.block_bytes, index = token % model.block_size;
        const int64_t first = kv_head * model.block_size, head = first * model.head_size, size = element_size(model.kv_storage);
        const int64_t scale = block + (first + index) * static_cast<int64_t>(sizeof(float));
        return {layer.keys + block + (head + index) * size, layer.values + block + (head + index * model.head_size) * size,
                reinterpret_cast<float *>(layer.key_scales + scale), reinterpret_cast<float *>(layer.value_scales + scale)};
    }
};

inline Floats visible(Floats scores, int64_t token, int64_t first, int64_t last) {
    float v[kLanes];
    store(v, scores);
    for (int i = 0; i < kLanes; ++i)
        if (token + i < first || token + i > last) v[i] = -INFINITY;
    return load(v);
}

// Scores of the tokens of `tiles`, the first of which is `begin`: scores[query * stride + token - begin].
template <int kStorage, int kCount>
inline void score(const Model &model, const Queries &queries, const std::vector<Tile> &tiles, int64_t begin, float *scores, int64_t stride) {
    const int64_t step = model.block_size * element_size(kStorage);
    for (size_t t = 0; t < tiles.size(); ++t) {
        const int64_t token = begin + static_cast<int64_t>(t) * kLanes;
        Floats sums[kCount];
        for (int i = 0; i < kCount; ++i) sums[i] = spread(0.0f);
        const uint8_t *keys = tiles[t].keys;
        for (int64_t d = 0; d < model.head_size; ++d, keys += step) {
            const Floats column = load_kv<kStorage>(keys);
            for (int i = 0; i < kCount; ++i) sums[i] = fma(spread(queries.q[i][d]), column, sums[i]);
        }
        Floats scale = spread(model.scale);
        if constexpr (kStorage == kS8 || kStorage == kFp8) scale = scale * load(tiles[t].key_scales);
        for (int i = 0; i < kCount; ++i) {
            Floats scaled = sums[i] * scale;
            if (token < queries.first[i] || token + kLanes - 1 > queries.last[i])
                scaled = visible(scaled, token, queries.first[i], queries.last[i]);
            store(scores + i * stride + t * kLanes, scaled);
        }
    }
}

// Turns scores into weights in place and returns what they add up to.
inline float soften(float *scores, int64_t count) {
    Floats most = spread(-INFINITY);
    for (int64_t i = 0; i < count; i += kLanes) most = larger(load(scores + i), most);
    const Floats largest = spread(largest_lane(most));
    Floats total = spread(0.0f);
    for (int64_t i = 0; i < count; i += kLanes) {
        const Floats weight = exponential(load(scores + i) - largest);
        store(scores + i, weight);
        total = total + weight;
    }
    return add_lanes(total);
}

// Weighted sums of the values of `count` tokens.
template <int kStorage, int kCount>
inline void weigh(const Model &model, const Queries &queries, const std::vector<Tile> &tiles, int64_t count, const float *weights,
                  int64_t stride, const float *totals) {
    const int64_t row_bytes = model.head_size * element_size(kStorage);
    for (int64_t d = 0; d < model.head_size; d += kLanes) {
        Floats sums[kCount];
        for (int i = 0; i < kCount; ++i) sums[i] = spread(0.0f);
        for (size_t t = 0; t < tiles.size(); ++t) {
            const uint8_t *values = tiles[t].values + d * element_size(kStorage);
            const int64_t first = static_cast<int64_t>(t) * kLanes, last = count - first < kLanes ? count : first + kLanes;
            for (int64_t j = first; j < last; ++j, values += row_bytes) {
                const Floats value = load_kv<kStorage>(values);
                for (int i = 0; i < kCount; ++i) sums[i] = fma(spread(weights[i * stride + j]), value, sums[i]);
            }
        }
        for (int i = 0; i < kCount; ++i) store(queries.out[i] + d, sums[i] / spread(totals[i]));
    }
}

template <int kStorage, int kCount> void attend(const Cache &cache, const Queries &queries, Scratch &scratch) {
    int64_t begin = queries.first[0], end = queries.last[0] + 1;
    for (int i = 1; i < kCount; ++i) {
        begin = queries.first[i] < begin ? queries.first[i] : begin;
        end = queries.last[i] + 1 > end ? queries.last[i] + 1 : end;
    }
    begin = begin / kLanes * kLanes;
    scratch.tiles.clear();
    for (int64_t token = begin; token < end; token += kLanes) scratch.tiles.push_back(cache.tile(token));
    const int64_t stride = static_cast<int64_t>(scratch.tiles.size()) * kLanes;
    if (static_cast<int64_t>(scratch.scores.size()) < kCount * stride) scratch.scores.resize(kCount * stride);
    float *scores = scratch.scores.data();
    score<kStorage, kCount>(cache.model, queries, scratch.tiles, begin, scores, stride);
    float totals[kCount];
    for (int i = 0; i < kCount; ++i) {
        totals[i] = soften(scores + i * stride, stride);
        if constexpr (kStorage == kS8 || kStorage == kFp8)
            for (size_t t = 0; t < scratch.tiles.size(); ++t) {
                float *weights = scores + i * stride + t * kLanes;
                store(weights, load(weights) * load(scratch.tiles[t].value_scales));
            }
    }
    weigh<kStorage, kCount>(cache.model, queries, scratch.tiles, end - begin, scores, stride, totals);
}

template <int kStorage> void attend(const Cache &cache, const Queries &queries, int count, Scratch &scratch) {
    switch (count) {
        case 1: return attend<kStorage, 1>(cache, queries, scratch);
        case 2: return attend<kStorage, 2>(cache, queries, scratch);
        case 3: return attend<kStorage, 3>(cache, queries, scratch);
        case 4: return attend<kStorage, 4>(cache, queries, scratch);
    }
}

inline void attend(const Cache &cache, const Queries &queries, int count, Scratch &scratch) {
    switch (cache.model.kv_storage) {
        case kF32: return attend<kF32>(cache, queries, count, scratch);
        case kBf16: return attend<kBf16>(cache, queries, count, scratch);
        case kS8: return attend<kS8>(cache, queries, count, scratch);
        case kFp8: return attend<kFp8>(cache, queries, count, scratch);
    }
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
