// Grouped-query attention over the paged KV cache, in segments of tokens (Dao, "Flash-Decoding", 2023).
//
// Softmax runs over each segment by itself, and segments are merged in order. Their boundaries are counted from the
// beginning of the text. So results are batch-invariant: neither the chunk that a query came with, nor a window, nor
// the thread that computed a segment moves a sum. Within a segment, scores are summed over the head in order, softmax
// weights over lanes and then tiles, and values over tokens in order. 8-bit codes are summed as integers (see
// code_attention.h).

#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "abi.h"
#include "code_attention.h"
#include "kv_cache.h"
#include "lanes.h"
#include "queries.h"
#include "segment.h"
#if defined(HEADRACE_AMX)
#include "tile_attention.h"
#endif

namespace headrace {
namespace HEADRACE_ISA {

// Computes scores[query * kSegment + token - segment.first].
template <int kStorage, int kCount>
inline void score(const Model &model, const Queries &queries, const Segment &segment, float *scores) {
    const int64_t step = model.block_size * element_size(kStorage);
    for (int64_t t = 0; t < segment.tile_count; ++t) {
        const int64_t token = segment.first + t * kLanes;
        Floats sums[kCount];
        for (int i = 0; i < kCount; ++i) sums[i] = spread(0.0f);
        const uint8_t *keys = segment.tiles[t].keys;
        for (int64_t d = 0; d < model.head_size; ++d, keys += step) {
            const Floats column = load_kv<kStorage>(keys);
            for (int i = 0; i < kCount; ++i) sums[i] = fma(spread(queries.q[i][d]), column, sums[i]);
        }
        Floats scale = spread(model.scale);
        if constexpr (kStorage == kFp8) scale = scale * load(segment.tiles[t].key_scales);
        for (int i = 0; i < kCount; ++i)
            store(scores + i * kSegment + t * kLanes, queries.score(model, i, sums[i] * scale, token));
    }
}

// Writes the values of the tokens, weighted and summed, to part.sums.
template <int kStorage, int kCount>
inline void weigh(const Model &model, const Segment &segment, int64_t token_count, const float *weights, Part *parts) {
    const int64_t row_bytes = model.head_size * element_size(kStorage);
    for (int64_t d = 0; d < model.head_size; d += kLanes) {
        Floats sums[kCount];
        for (int i = 0; i < kCount; ++i) sums[i] = spread(0.0f);
        for (int64_t t = 0; t < segment.tile_count; ++t) {
            const uint8_t *values = segment.tiles[t].values + d * element_size(kStorage);
            const int64_t first = t * kLanes;
            const int64_t last = std::min(token_count, first + kLanes);
            for (int64_t j = first; j < last; ++j, values += row_bytes) {
                const Floats value = load_kv<kStorage>(values);
                for (int i = 0; i < kCount; ++i) sums[i] = fma(spread(weights[i * kSegment + j]), value, sums[i]);
            }
        }
        for (int i = 0; i < kCount; ++i) store_some(parts[i].sums + d, sums[i], model.head_size - d);
    }
}

// Attends from each query to the tokens of a segment.
template <int kStorage, int kCount>
void attend_plain(const Model &model, const Queries &queries, const Segment &segment, Scratch &scratch, Part *parts) {
    float *scores = scratch.scores;
    score<kStorage, kCount>(model, queries, segment, scores);
    const int64_t count = segment.tile_count * kLanes;
    int64_t last = 0;
    for (int i = 0; i < kCount; ++i) {
        float *weights = scores + i * kSegment;
        parts[i].most = largest(weights, count);
        parts[i].total = soften(weights, count, parts[i].most);
        if constexpr (kStorage == kFp8)
            for (int64_t t = 0; t < segment.tile_count; ++t)
                store(weights + t * kLanes, load(weights + t * kLanes) * load(segment.tiles[t].value_scales));
        last = std::max(last, queries.last[i] + 1);
    }
    weigh<kStorage, kCount>(model, segment, std::min(count, last - segment.first), scores, parts);
}

template <int kStorage>
void attend_plain(const Model &model, const QueryGroup &group, const Segment &segment, Scratch &scratch) {
    for (int i = 0; i < group.count; i += kPassQueries)
        with_count(std::min(kPassQueries, group.count - i), [&]<int kCount> {
            attend_plain<kStorage, kCount>(model, group.queries.from(i), segment, scratch, group.parts + i);
        });
}

inline void attend_plain(const Model &model, const QueryGroup &group, const Segment &segment, Scratch &scratch) {
    switch (model.kv_storage) {
        case kF32: return attend_plain<kF32>(model, group, segment, scratch);
        case kBf16: return attend_plain<kBf16>(model, group, segment, scratch);
        case kF16: return attend_plain<kF16>(model, group, segment, scratch);
        case kFp8: return attend_plain<kFp8>(model, group, segment, scratch);
    }
}

// Attends from `count` groups of queries, kTaskQueries queries at most, to the tokens of a segment.
inline void attend(const Model &model, const QueryGroup *groups, int count, const HeadSegments &segments,
                   Scratch &scratch) {
    CodeAttention codes(model, segments, scratch);
    for (int i = 0; i < count; ++i) {
        const Segment segment = segments.of(groups[i].head);
        if (model.kv_storage != kS8) {
            attend_plain(model, groups[i], segment, scratch);
#if defined(HEADRACE_AMX)
        } else if (suits_tiles(model, groups[i].count)) {
            TileAttention(model, groups[i].queries, groups[i].count, segment, scratch).run(groups[i].parts);
#endif
        } else {
            codes.add(groups[i]);
        }
    }
    codes.run();
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
