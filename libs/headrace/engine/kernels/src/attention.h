// Grouped-query attention over the paged KV cache, in fp32.
//
// It is batch-invariant: for each query, scores are summed over the head in order, softmax weights over lanes and then
// tiles, and values over tokens in order, whatever the length of the chunk that the query came with. 8-bit codes are
// summed as integers (see code_attention.h).

#pragma once

#include <cmath>
#include <vector>

#include "abi.h"
#include "code_attention.h"
#include "kv_cache.h"
#include "lanes.h"
#include "queries.h"

namespace headrace {
namespace HEADRACE_ISA {

// Buffers that each thread reuses from call to call.
struct Scratch {
    std::vector<float> scores;
    std::vector<Tile> tiles;
    std::vector<int16_t> codes;
};

// Computes scores[query * stride + token - begin] for the tokens of `tiles`, the first of which is `begin`.
template <int kStorage, int kCount>
inline void score(const Model &model, const Queries &queries, const std::vector<Tile> &tiles, int64_t begin,
                  float *scores, int64_t stride) {
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
        if constexpr (kStorage == kFp8) scale = scale * load(tiles[t].key_scales);
        for (int i = 0; i < kCount; ++i) {
            store(scores + i * stride + t * kLanes, queries.score(model, i, sums[i] * scale, token));
        }
    }
}

// Replaces scores by unnormalized softmax weights and returns their sum.
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

// Writes the weighted means of the values of `count` tokens to `queries.out`.
template <int kStorage, int kCount>
inline void weigh(const Model &model, const Queries &queries, const std::vector<Tile> &tiles, int64_t count,
                  const float *weights, int64_t stride, const float *totals) {
    const int64_t row_bytes = model.head_size * element_size(kStorage);
    for (int64_t d = 0; d < model.head_size; d += kLanes) {
        Floats sums[kCount];
        for (int i = 0; i < kCount; ++i) sums[i] = spread(0.0f);
        for (size_t t = 0; t < tiles.size(); ++t) {
            const uint8_t *values = tiles[t].values + d * element_size(kStorage);
            const int64_t first = static_cast<int64_t>(t) * kLanes;
            const int64_t last = count - first < kLanes ? count : first + kLanes;
            for (int64_t j = first; j < last; ++j, values += row_bytes) {
                const Floats value = load_kv<kStorage>(values);
                for (int i = 0; i < kCount; ++i) sums[i] = fma(spread(weights[i * stride + j]), value, sums[i]);
            }
        }
        for (int i = 0; i < kCount; ++i)
            store_some(queries.out[i] + d, sums[i] / spread(totals[i]), model.head_size - d);
    }
}

template <int kStorage, int kCount> void attend(const Cache &cache, const Queries &queries, Scratch &scratch) {
    int64_t begin = queries.first[0];
    int64_t end = queries.last[0] + 1;
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
    if constexpr (kStorage == kS8)
        score_codes<kCount>(cache.model, queries, scratch.tiles, begin, scores, stride, scratch.codes);
    else
        score<kStorage, kCount>(cache.model, queries, scratch.tiles, begin, scores, stride);
    float totals[kCount];
    for (int i = 0; i < kCount; ++i) {
        totals[i] = soften(scores + i * stride, stride);
        if constexpr (kStorage == kFp8)
            for (size_t t = 0; t < scratch.tiles.size(); ++t) {
                float *weights = scores + i * stride + t * kLanes;
                store(weights, load(weights) * load(scratch.tiles[t].value_scales));
            }
    }
    if constexpr (kStorage == kS8)
        weigh_codes<kCount>(cache.model, queries, scratch.tiles, begin, scores, stride, totals, scratch.codes);
    else
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
        case kF16: return attend<kF16>(cache, queries, count, scratch);
        case kS8: return attend<kS8>(cache, queries, count, scratch);
        case kFp8: return attend<kFp8>(cache, queries, count, scratch);
    }
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
