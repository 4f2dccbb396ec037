// Attention over 8-bit keys and values in integer arithmetic. Queries and softmax weights are quantized to 16 bits, so
// their rounding error is a 256th of that of the keys and values.

#pragma once

#include <algorithm>
#include <cmath>

#include "kv_cache.h"
#include "queries.h"
#include "rounding.h"
#include "segment.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr float kMostCode = 32767.0f;
constexpr int64_t kTilesAhead = 4;  // Tiles from the one that is computed to the one that is prefetched

// Vectors of sums beside each other for each query: enough independent sums to hide the latency of an addition, and
// few enough for the registers.
#if defined(HEADRACE_AVX512)
constexpr int kWidth = 2;
#else
constexpr int kWidth = 1;
#endif

// Quantizes a query [head] to `codes` and returns their unit.
inline float round_query(const Model &model, const float *query, int16_t *codes) {
    // A lower limit for large heads: the sum over a head must fit 32 bits.
    const float limit = std::min(kMostCode, std::floor(2147483647.0f / 128.0f / static_cast<float>(model.head_size)));
    return round_to_codes(query, model.head_size, limit, codes).unit;
}

// Prefetches the keys of a tile: blocks are too far apart for the hardware prefetcher.
inline void fetch_keys(const Model &model, const Tile &tile) {
    const int64_t step = std::max<int64_t>(64, 2 * model.block_size);
    for (int64_t byte = 0; byte < model.head_size * model.block_size; byte += step)
        __builtin_prefetch(tile.keys + byte);
}

// Prefetches a part of the values of a tile, the `index`th of `count`.
inline void fetch_values(const Model &model, const Tile &tile, int index, int count) {
    const int64_t bytes = model.head_size * kLanes;
    for (int64_t byte = bytes * index / count; byte < bytes * (index + 1) / count; byte += 64)
        __builtin_prefetch(tile.values + byte);
}

// Computes the dot products of queries with the keys of kTiles tiles.
template <int kTiles, int kCount>
inline void multiply_keys(const Model &model, const int16_t *codes, const Tile *tiles, Ints (&sums)[kTiles][kCount]) {
    for (auto &tile : sums)
        for (Ints &sum : tile) sum = spread(int32_t{0});
    for (int64_t d = 0; d < model.head_size; d += 2) {
        Pairs keys[kTiles];
        for (int t = 0; t < kTiles; ++t) keys[t] = load_pairs(tiles[t].keys + d * model.block_size);
        for (int i = 0; i < kCount; ++i) {
            const int32_t two = load_word(codes + i * model.head_size + d);
            for (int t = 0; t < kTiles; ++t) sums[t][i] = add_pairs(sums[t][i], keys[t], two);
        }
    }
}

// Integer counterpart of `score` in attention.h. Also writes the largest score of each query to `parts`.
template <int kCount>
inline void score_codes(const Model &model, const Queries &queries, const Segment &segment, Scratch &scratch,
                        Part *parts) {
    scratch.query_codes.resize(std::max<size_t>(scratch.query_codes.size(), kCount * model.head_size));
    int16_t *codes = scratch.query_codes.data();
    float units[kCount];
    for (int i = 0; i < kCount; ++i) units[i] = round_query(model, queries.q[i], codes + i * model.head_size);
    Floats most[kCount];
    for (Floats &each : most) each = spread(-INFINITY);
    const auto score = [&]<int kTiles>(int64_t t) {
        Ints sums[kTiles][kCount];
        for (int64_t later = t + kTilesAhead; segment.is_new && later < t + kTilesAhead + kTiles; ++later)
            if (later < segment.tile_count) fetch_keys(model, segment.tiles[later]);
        multiply_keys(model, codes, segment.tiles + t, sums);
        for (int j = 0; j < kTiles; ++j) {
            const int64_t token = segment.first + (t + j) * kLanes;
            const bool is_plain = queries.are_plain(model, kCount, token);
            const Floats scale = spread(model.scale) * load(segment.tiles[t + j].key_scales);
            for (int i = 0; i < kCount; ++i) {
                Floats scaled = to_floats(sums[j][i]) * (spread(units[i]) * scale);
                if (!is_plain) scaled = queries.score(model, i, scaled, token);
                most[i] = larger(scaled, most[i]);
                store(scratch.scores + i * kSegment + (t + j) * kLanes, scaled);
            }
        }
    };
    int64_t t = 0;
    for (; t + kWidth <= segment.tile_count; t += kWidth) score.template operator()<kWidth>(t);
    for (; t < segment.tile_count; ++t) score.template operator()<1>(t);
    for (int i = 0; i < kCount; ++i) parts[i].most = largest_lane(most[i]);
}

// Replaces the scores of query i by codes of softmax weights, scaled as the values are. Returns the unit of the codes,
// and writes the sum of the weights to `part`.
template <int kCount>
inline float soften_codes(const Model &model, const Queries &queries, int i, const Segment &segment, Scratch &scratch,
                          Part &part) {
    float *weights = scratch.scores + i * kSegment;
    Floats total = spread(0.0f);
    Extent extent;
    for (int64_t t = 0; t < segment.tile_count; ++t) {
        if (segment.is_new) fetch_values(model, segment.tiles[t], i, kCount);
        const Floats weight = exponential(load(weights + t * kLanes) - spread(part.most));
        total = total + weight;
        // Masked, because the scales of tokens outside the mask are uninitialized.
        const Floats scaled =
            queries.masked(i, weight * load(segment.tiles[t].value_scales), segment.first + t * kLanes, 0.0f);
        extent.add(scaled);
        store(weights + t * kLanes, scaled);
    }
    part.total = add_lanes(total);
    int16_t *codes = scratch.codes + i * kSegment;
    return round_within(extent, weights, segment.tile_count * kLanes, kMostCode, codes).unit;
}

// Sums kVectors * 16 elements of the values from `d` on, weighted by `codes` [kCount, kSegment].
template <int kVectors, int kCount>
inline void multiply_values(const Model &model, const Segment &segment, const int16_t *codes, int64_t d,
                            const float (&units)[kCount], Part *parts) {
    Ints sums[kVectors][kCount];
    for (auto &vector : sums)
        for (Ints &sum : vector) sum = spread(int32_t{0});
    for (int64_t t = 0; t < segment.tile_count; ++t) {
        const uint8_t *values = segment.tiles[t].values + 2 * d;
        for (int64_t j = 0; j < kLanes; j += 2) {
            Pairs pairs[kVectors];
            for (int v = 0; v < kVectors; ++v) pairs[v] = load_pairs(values + j * model.head_size + 2 * v * kLanes);
            for (int i = 0; i < kCount; ++i) {
                const int32_t two = load_word(codes + i * kSegment + t * kLanes + j);
                for (int v = 0; v < kVectors; ++v) sums[v][i] = add_pairs(sums[v][i], pairs[v], two);
            }
        }
    }
    for (int i = 0; i < kCount; ++i)
        for (int v = 0; v < kVectors; ++v)
            store(parts[i].sums + d + v * kLanes, to_floats(sums[v][i]) * spread(units[i]));
}

// Attends from each query to a segment of codes.
template <int kCount>
void attend_codes(const Model &model, const Queries &queries, const Segment &segment, Scratch &scratch, Part *parts) {
    score_codes<kCount>(model, queries, segment, scratch, parts);
    float units[kCount];
    for (int i = 0; i < kCount; ++i) units[i] = soften_codes<kCount>(model, queries, i, segment, scratch, parts[i]);
    int64_t d = 0;
    for (; d + kWidth * kLanes <= model.head_size; d += kWidth * kLanes)
        multiply_values<kWidth>(model, segment, scratch.codes, d, units, parts);
    for (; d < model.head_size; d += kLanes) multiply_values<1>(model, segment, scratch.codes, d, units, parts);
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
