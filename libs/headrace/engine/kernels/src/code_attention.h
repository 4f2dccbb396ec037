// Attention over 8-bit keys and values in integer arithmetic. Queries and softmax weights are quantized to 16 bits, so
// their rounding error is a 256th of that of the keys and values.

#pragma once

#include <algorithm>
#include <vector>

#include "kv_cache.h"
#include "queries.h"
#include "rounding.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr float kMostCode = 32767.0f;
constexpr int64_t kExactTokens = 512;  // 512 * 127 * 32767 fits 32 bits.

// Returns the tile to prefetch while tile `t` is computed: blocks are too far apart for the hardware prefetcher.
inline const Tile &ahead(const std::vector<Tile> &tiles, size_t t) { return tiles[std::min(t + 2, tiles.size() - 1)]; }

// Integer counterpart of `score` in attention.h.
template <int kCount>
inline void score_codes(const Model &model, const Queries &queries, const std::vector<Tile> &tiles, int64_t begin,
                        float *scores, int64_t stride, std::vector<int16_t> &room) {
    room.resize(std::max<size_t>(room.size(), kCount * model.head_size));
    int16_t *codes = room.data();
    float units[kCount];
    // A lower limit for large heads: the sum over a head must fit 32 bits.
    const float limit = std::min(kMostCode, std::floor(2147483647.0f / 128.0f / static_cast<float>(model.head_size)));
    for (int i = 0; i < kCount; ++i)
        units[i] = round_to_codes(queries.q[i], model.head_size, limit, codes + i * model.head_size).unit;
    for (size_t t = 0; t < tiles.size(); ++t) {
        const int64_t token = begin + static_cast<int64_t>(t) * kLanes;
        Ints sums[kCount];
        for (Ints &sum : sums) sum = spread(int32_t{0});
        const uint8_t *keys = tiles[t].keys;
        const uint8_t *later = ahead(tiles, t).keys;
        for (int64_t d = 0; d < model.head_size; d += 2) {
            __builtin_prefetch(later + d * model.block_size);
            const Pairs pairs = load_pairs(keys + d * model.block_size);
            for (int i = 0; i < kCount; ++i)
                sums[i] = add_pairs(sums[i], pairs, load_word(codes + i * model.head_size + d));
        }
        const Floats scale = spread(model.scale) * load(tiles[t].key_scales);
        for (int i = 0; i < kCount; ++i) {
            const Floats scaled = to_floats(sums[i]) * (spread(units[i]) * scale);
            store(scores + i * stride + t * kLanes, queries.score(model, i, scaled, token));
        }
    }
}

// Integer counterpart of `weigh` in attention.h. Scales `weights` in place.
template <int kCount>
inline void weigh_codes(const Model &model, const Queries &queries, const std::vector<Tile> &tiles, int64_t begin,
                        float *weights, int64_t stride, const float *totals, std::vector<int16_t> &room) {
    room.resize(std::max<size_t>(room.size(), kCount * stride));
    int16_t *codes = room.data();
    float units[kCount];
    for (int i = 0; i < kCount; ++i) {
        for (size_t t = 0; t < tiles.size(); ++t) {
            float *part = weights + i * stride + t * kLanes;
            const int64_t token = begin + static_cast<int64_t>(t) * kLanes;
            // Masked, because the scales of tokens outside the mask are uninitialized.
            store(part, queries.masked(i, load(part) * load(tiles[t].value_scales), token, 0.0f));
        }
        units[i] = round_to_codes(weights + i * stride, stride, kMostCode, codes + i * stride).unit;
    }
    for (size_t first = 0, last; first < tiles.size(); first = last) {
        const int64_t token = begin + static_cast<int64_t>(first) * kLanes;
        last = std::min(tiles.size(), first + (kExactTokens - token % kExactTokens) / kLanes);
        for (int64_t d = 0; d < model.head_size; d += kLanes) {
            Ints sums[kCount];
            for (Ints &sum : sums) sum = spread(int32_t{0});
            for (size_t t = first; t < last; ++t)
                for (int64_t j = 0; j < kLanes; j += 2) {
                    __builtin_prefetch(ahead(tiles, t).values + j * model.head_size + 2 * d);
                    const Pairs pairs = load_pairs(tiles[t].values + j * model.head_size + 2 * d);
                    for (int i = 0; i < kCount; ++i)
                        sums[i] = add_pairs(sums[i], pairs, load_word(codes + i * stride + t * kLanes + j));
                }
            for (int i = 0; i < kCount; ++i) {
                const Floats sum = to_floats(sums[i]);
                store(queries.out[i] + d, first ? load(queries.out[i] + d) + sum : sum);
            }
        }
    }
    for (int i = 0; i < kCount; ++i)
        for (int64_t d = 0; d < model.head_size; d += kLanes)
            store(queries.out[i] + d, load(queries.out[i] + d) * spread(units[i] / totals[i]));
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
