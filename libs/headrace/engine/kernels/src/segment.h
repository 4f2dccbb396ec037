// Segments of the tokens of a sequence, and softmax over one of them at a time.

#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "abi.h"
#include "kv_cache.h"
#include "lanes.h"
#include "queries.h"
#include "reductions.h"
#include "workspace.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr int64_t kSegment = 512;  // Tokens. 512 * 127 * 32767, the largest sum of codes, fits 32 bits.
constexpr int64_t kSegmentTiles = kSegment / kLanes;

// Tiles of a KV head, of the tokens from `first` on, which is a multiple of kLanes, all of one segment.
struct Segment {
    int64_t first;
    int64_t tile_count;
    const Tile *tiles;
};

// The same tokens for several KV heads, whose tiles are listed `stride` apart.
struct HeadSegments {
    Segment first_head;
    int64_t stride;

    Segment of(int64_t head) const {
        return {first_head.first, first_head.tile_count, first_head.tiles + head * stride};
    }
};

// Buffers that each thread reuses from call to call.
struct Scratch {
    alignas(64) float scores[kTaskQueries * kSegment];
    alignas(64) int16_t codes[kTaskQueries * kSegment];
    std::vector<int16_t> query_codes;
    std::vector<float> part_sums, merged_sums;
    std::vector<Tile> tiles;
};

// Largest of `count` scores. NaN is not preferred.
inline float largest(const float *scores, int64_t count) {
    Floats most = spread(-INFINITY);
    for (int64_t i = 0; i < count; i += kLanes) most = larger(load(scores + i), most);
    return largest_lane(most);
}

// Replaces scores by exp(score - most) and returns the sum of these weights.
inline float soften(float *scores, int64_t count, float most) {
    Floats total = spread(0.0f);
    for (int64_t i = 0; i < count; i += kLanes) {
        const Floats weight = exponential(load(scores + i) - spread(most));
        store(scores + i, weight);
        total = total + weight;
    }
    return add_lanes(total);
}

// Factor that turns weights relative to `most` into weights relative to `reference`, which is no smaller.
inline float rescale(float most, float reference) {
    if (most == -INFINITY) return 0.0f;
    float v[kLanes];
    store(v, exponential(spread(most - reference)));
    return v[0];
}

inline void clear(Part &part, int64_t size) {
    part.most = -INFINITY;
    part.total = 0.0f;
    std::fill(part.sums, part.sums + size, 0.0f);
}

// Adds the attention to a further segment.
inline void merge(Part &to, const Part &from, int64_t size) {
    const float most = from.most > to.most ? from.most : to.most;
    const float kept = rescale(to.most, most);
    const float added = rescale(from.most, most);
    to.most = most;
    to.total = std::fma(from.total, added, to.total * kept);
    for (int64_t d = 0; d < size; d += kLanes)
        store(to.sums + d, fma(load(from.sums + d), spread(added), load(to.sums + d) * spread(kept)));
}

// Begins with a key that has a score and no value.
inline void begin_with_sink(Part &part, float score) {
    part.most = score;
    part.total = 1.0f;
}

// Writes the weighted mean of the values.
inline void finish(const Part &part, float *out, int64_t size) {
    for (int64_t d = 0; d < size; d += kLanes) store_some(out + d, load(part.sums + d) / spread(part.total), size - d);
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
