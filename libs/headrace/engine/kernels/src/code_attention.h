// Attention over 8-bit keys and values in integer arithmetic. Queries and softmax weights are quantized to 16 bits, so
// their rounding error is a 256th of that of the keys and values.
//
// All KV heads of a task are computed tile by tile, because their keys (or values) lie beside each other in a block:
// memory is read in order, as fast as it can be, and what is read is used by all queries while it is near. Sums of
// codes are integers, exact in any order.

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
constexpr int64_t kTilesAhead = 2;  // Tiles from the one that is computed to the one that is prefetched

// Vectors of sums beside each other for each query: enough independent sums to hide the latency of an addition, and
// few enough for the registers.
#if defined(HEADRACE_AVX512)
template <int kCount> constexpr int kWidth = 2;
#else
template <int kCount> constexpr int kWidth = kCount <= 2 ? 2 : 1;
#endif

// Calls body<count>(), for a count of queries from 1 to kPassQueries.
template <int kCount = kPassQueries, typename Body> inline void with_count(int count, const Body &body) {
    if (count == kCount) return body.template operator()<kCount>();
    if constexpr (kCount > 1) with_count<kCount - 1>(count, body);
}

// Quantizes a query [head] to `codes` and returns their unit.
inline float round_query(const Model &model, const float *query, int16_t *codes) {
    // A lower limit for large heads: the sum over a head must fit 32 bits.
    const float limit = std::min(kMostCode, std::floor(2147483647.0f / 128.0f / static_cast<float>(model.head_size)));
    return round_to_codes(query, model.head_size, limit, codes).unit;
}

// Replaces the scores [kSegment] of query i by `codes` of softmax weights, scaled as the values are. Returns the unit
// of the codes, and writes the sum of the weights to `part`.
inline float soften_codes(const Queries &queries, int i, const Segment &segment, float *scores, int16_t *codes,
                          Part &part) {
    Floats total = spread(0.0f);
    Extent extent;
    for (int64_t t = 0; t < segment.tile_count; ++t) {
        const Floats weight = exponential(load(scores + t * kLanes) - spread(part.most));
        total = total + weight;
        // Masked, because the scales of tokens outside the mask are uninitialized.
        const Floats scaled =
            queries.masked(i, weight * load(segment.tiles[t].value_scales), segment.first + t * kLanes, 0.0f);
        extent.add(scaled);
        store(scores + t * kLanes, scaled);
    }
    part.total = add_lanes(total);
    return round_within(extent, scores, segment.tile_count * kLanes, kMostCode, codes).unit;
}

// Attends from up to kTaskQueries queries of several KV heads to a segment.
class CodeAttention {
  public:
    CodeAttention(const Model &model, const HeadSegments &segments, Scratch &scratch)
        : model_(model), segments_(segments), tile_count_(segments.first_head.tile_count), scratch_(scratch) {}

    void add(const QueryGroup &group) {
        for (int i = 0; i < group.count; i += kPassQueries) {
            Pass &pass = passes_[pass_count_++];
            pass.queries = group.queries.from(i);
            pass.count = std::min(kPassQueries, group.count - i);
            pass.segment = segments_.of(group.head);
            pass.parts = group.parts + i;
            pass.first = query_count_;
            pass.is_first = pass_count_ == 1 || pass.segment.tiles != (&pass)[-1].segment.tiles;
            head_count_ += pass.is_first;
            query_count_ += pass.count;
        }
    }

    void run() {
        score();
        soften();
        weigh();
    }

  private:
    // Queries that share each load of a key or value.
    struct Pass {
        Queries queries;
        int count;
        int64_t first;  // Of the queries of all passes
        Segment segment;
        bool is_first;                      // Of its KV head
        Part *parts;                        // [count]
        float units[kPassQueries];          // Units of the codes of queries, then of softmax weights
        float most[kPassQueries * kLanes];  // Largest scores so far
    };

    // Prefetches the keys and all scales of tile `t` to the second-level cache: heads of a tile together may be more
    // than the first holds.
    HEADRACE_INLINE void fetch_keys(const Pass &pass, int64_t t) const {
        if (!pass.is_first || t >= tile_count_) return;
        const Tile &tile = pass.segment.tiles[t];
        __builtin_prefetch(tile.key_scales, 0, 2);
        __builtin_prefetch(tile.value_scales, 0, 2);
        const int64_t step = std::max<int64_t>(64, 2 * model_.block_size);
        for (int64_t byte = 0; byte < model_.head_size * model_.block_size; byte += step)
            __builtin_prefetch(tile.keys + byte, 0, 2);
    }

    // Prefetches the values of tile `t` likewise.
    HEADRACE_INLINE void fetch_values(const Pass &pass, int64_t t) const {
        if (!pass.is_first || t >= tile_count_) return;
        const uint8_t *values = pass.segment.tiles[t].values;
        for (int64_t byte = 0; byte < model_.head_size * kLanes; byte += 64) __builtin_prefetch(values + byte, 0, 2);
    }

    template <typename Body> void over_passes(const Body &body) {
        for (int p = 0; p < pass_count_; ++p) body(passes_[p]);
    }

    const int16_t *query_codes(const Pass &pass) const {
        return scratch_.query_codes.data() + pass.first * model_.head_size;
    }
    float *scores(const Pass &pass, int i) const { return scratch_.scores + (pass.first + i) * kSegment; }
    int16_t *codes(const Pass &pass, int i) const { return scratch_.codes + (pass.first + i) * kSegment; }

    // Computes the scores of all queries, and the largest of each.
    void score() {
        const size_t size = query_count_ * model_.head_size;
        if (scratch_.query_codes.size() < size) scratch_.query_codes.resize(size);
        int16_t *codes = scratch_.query_codes.data();
        over_passes([&](Pass &pass) {
            for (int i = 0; i < pass.count; ++i, codes += model_.head_size)
                pass.units[i] = round_query(model_, pass.queries.q[i], codes);
            std::fill(pass.most, pass.most + pass.count * kLanes, -INFINITY);
        });
        for (int64_t t = 0; t < tile_count_; t += 2) {
            over_passes([&](Pass &pass) {
                fetch_keys(pass, t + kTilesAhead);
                fetch_keys(pass, t + kTilesAhead + 1);
                with_count(pass.count, [&]<int kCount> { score_two<kCount>(pass, t); });
            });
        }
        over_passes([&](Pass &pass) {
            for (int i = 0; i < pass.count; ++i) pass.parts[i].most = largest_lane(load(pass.most + i * kLanes));
        });
    }

    // Computes the scores of two tiles, or of the last one.
    template <int kCount> void score_two(Pass &pass, int64_t t) const {
        if (kWidth<kCount> == 2 && t + 1 < tile_count_) return score_tiles<2, kCount>(pass, t);
        score_tiles<1, kCount>(pass, t);
        if (t + 1 < tile_count_) score_tiles<1, kCount>(pass, t + 1);
    }

    // Integer counterpart of `score` in attention.h, for the tiles from `t` on.
    template <int kTiles, int kCount> void score_tiles(Pass &pass, int64_t t) const {
        Ints sums[kTiles][kCount];
        multiply_keys(query_codes(pass), pass.segment.tiles + t, sums);
        for (int j = 0; j < kTiles; ++j) {
            const int64_t token = pass.segment.first + (t + j) * kLanes;
            const bool is_plain = pass.queries.are_plain(model_, kCount, token);
            const Floats scale = spread(model_.scale) * load(pass.segment.tiles[t + j].key_scales);
            for (int i = 0; i < kCount; ++i) {
                Floats scaled = to_floats(sums[j][i]) * (spread(pass.units[i]) * scale);
                if (!is_plain) scaled = pass.queries.score(model_, i, scaled, token);
                store(pass.most + i * kLanes, larger(scaled, load(pass.most + i * kLanes)));
                store(scores(pass, i) + (t + j) * kLanes, scaled);
            }
        }
    }

    // Computes the dot products of queries with the keys of kTiles tiles.
    template <int kTiles, int kCount>
    void multiply_keys(const int16_t *codes, const Tile *tiles, Ints (&sums)[kTiles][kCount]) const {
        for (auto &tile : sums)
            for (Ints &sum : tile) sum = spread(int32_t{0});
        for (int64_t d = 0; d < model_.head_size; d += 2) {
            Pairs keys[kTiles];
            for (int t = 0; t < kTiles; ++t) keys[t] = load_pairs(tiles[t].keys + d * model_.block_size);
            for (int i = 0; i < kCount; ++i) {
                const int32_t two = load_word(codes + i * model_.head_size + d);
                for (int t = 0; t < kTiles; ++t) sums[t][i] = add_pairs(sums[t][i], keys[t], two);
            }
        }
    }

    void soften() {
        over_passes([&](Pass &pass) {
            for (int64_t t = 0; t < kTilesAhead; ++t) fetch_values(pass, t);
            for (int i = 0; i < pass.count; ++i)
                pass.units[i] =
                    soften_codes(pass.queries, i, pass.segment, scores(pass, i), codes(pass, i), pass.parts[i]);
        });
    }

    // Tiles whose values are summed up in registers before the next queries' turn. The more, the fewer sums are loaded
    // and stored. But several heads with few queries each wait for memory, which is read in order tile by tile.
    int64_t tiles_together() const {
        if (head_count_ <= 1) return kSegmentTiles;
        return passes_[0].count >= 4 ? 4 : 1;
    }

    // Sums up the weighted values. Until all are summed up, the sums of the parts hold integers.
    void weigh() {
        over_passes([&](Pass &pass) {
            for (int i = 0; i < pass.count; ++i)
                for (int64_t d = 0; d < model_.head_size; d += kLanes)
                    store(pass.parts[i].sums + d, as_floats(spread(int32_t{0})));
        });
        const int64_t together = tiles_together();
        for (int64_t t = 0; t < tile_count_; t += together) {
            const int64_t last = std::min(t + together, tile_count_);
            over_passes([&](Pass &pass) {
                for (int64_t next = t; next < last; ++next) fetch_values(pass, next + kTilesAhead);
                with_count(pass.count, [&]<int kCount> { weigh_tiles<kCount>(pass, t, last); });
            });
        }
        over_passes([&](Pass &pass) {
            for (int i = 0; i < pass.count; ++i)
                for (int64_t d = 0; d < model_.head_size; d += kLanes) {
                    float *sums = pass.parts[i].sums + d;
                    store(sums, to_floats(as_ints(load(sums))) * spread(pass.units[i]));
                }
        });
    }

    template <int kCount> void weigh_tiles(Pass &pass, int64_t first, int64_t last) const {
        constexpr int kStep = kWidth<kCount> * kLanes;
        int64_t d = 0;
        for (; d + kStep <= model_.head_size; d += kStep) add_values<kWidth<kCount>, kCount>(pass, first, last, d);
        for (; d < model_.head_size; d += kLanes) add_values<1, kCount>(pass, first, last, d);
    }

    // Adds kVectors * kLanes elements of the values of tiles, from `d` on, to the sums.
    template <int kVectors, int kCount> void add_values(Pass &pass, int64_t first, int64_t last, int64_t d) const {
        Ints sums[kVectors][kCount];
        for (int v = 0; v < kVectors; ++v)
            for (int i = 0; i < kCount; ++i) sums[v][i] = as_ints(load(pass.parts[i].sums + d + v * kLanes));
        for (int64_t t = first; t < last; ++t) {
            const uint8_t *values = pass.segment.tiles[t].values + 2 * d;
            for (int64_t j = 0; j < kLanes; j += 2) {
                Pairs pairs[kVectors];
                for (int v = 0; v < kVectors; ++v)
                    pairs[v] = load_pairs(values + j * model_.head_size + 2 * v * kLanes);
                for (int i = 0; i < kCount; ++i) {
                    const int32_t two = load_word(codes(pass, i) + t * kLanes + j);
                    for (int v = 0; v < kVectors; ++v) sums[v][i] = add_pairs(sums[v][i], pairs[v], two);
                }
            }
        }
        for (int v = 0; v < kVectors; ++v)
            for (int i = 0; i < kCount; ++i) store(pass.parts[i].sums + d + v * kLanes, as_floats(sums[v][i]));
    }

    const Model &model_;
    const HeadSegments &segments_;
    const int64_t tile_count_;
    Scratch &scratch_;
    int pass_count_ = 0;
    int head_count_ = 0;
    int64_t query_count_ = 0;
    Pass passes_[kTaskQueries];
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
