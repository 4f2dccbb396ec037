// Attention over 8-bit keys and values on tiles, for more queries than a pass takes. Sums of codes are those of
// code_attention.h: they are integers of 32 bits, exact in any order. A query or weight of 16 bits is 256 times a
// signed byte plus an unsigned one, so two products of tiles make one of its own.
//
// Keys and values lie in the cache in pairs, for vectors; tiles take fours. They are joined on the way, 16 rows at a
// time. What a tile holds beyond the head or the tokens is multiplied by zeros.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "code_attention.h"
#include "segment.h"
#include "tiles.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr int64_t kMostTileHead = 256;
constexpr int64_t kStepTiles = kTileBytes / kLanes;  // Tiles of tokens whose values a product of tiles sums up.

// Whether attention of `count` queries runs on tiles. A pass of vectors takes few of them as fast.
inline bool suits_tiles(const Model &model, int count) {
    return model.kv_storage == kS8 && count > kPassQueries && model.head_size <= kMostTileHead;
}

// Joins rows of 16 pairs, [2][16][2], to one of fours, [16][4].
inline void join_pairs(const uint8_t *first, const uint8_t *second, int8_t *fours) {
    alignas(64) static constexpr int16_t kOrder[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                       8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i low = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(first)));
    const __m512i both = _mm512_inserti64x4(low, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(second)), 1);
    _mm512_storeu_si512(fours, _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), both));
}

// Codes of 16 bits in two bytes, in steps of 64 as tiles take them.
template <int kSteps> struct alignas(64) SplitCodes {
    int8_t high[kSteps][kTileRows][kTileBytes];
    uint8_t low[kSteps][kTileRows][kTileBytes];

    // Writes `count` codes of a row, which it fills up with zeros to the end of their last step.
    void put(int row, int16_t *codes, int64_t count) {
        const int64_t padded = (count + kTileBytes - 1) / kTileBytes * kTileBytes;
        std::fill(codes + count, codes + padded, int16_t{0});
        for (int64_t at = 0; at < padded; at += 32) {
            const __m512i some = _mm512_loadu_si512(codes + at);
            const __m256i upper = _mm512_cvtepi16_epi8(_mm512_srai_epi16(some, 8));
            _mm256_store_si256(reinterpret_cast<__m256i *>(high[at / kTileBytes][row] + at % kTileBytes), upper);
            const __m256i lower = _mm512_cvtepi16_epi8(some);
            _mm256_store_si256(reinterpret_cast<__m256i *>(low[at / kTileBytes][row] + at % kTileBytes), lower);
        }
    }
};

// Attends from up to 16 queries to a segment. Tiles 0 to 3 hold sums of high and of low bytes, of two tiles of tokens
// or two vectors of values; 4 and 5 these, and 6 and 7 the high and low bytes of the queries or weights.
class TileAttention {
  public:
    TileAttention(const Model &model, const Queries &queries, int count, const Segment &segment, Scratch &scratch)
        : model_(model), queries_(queries), count_(count), segment_(segment), scratch_(scratch) {}

    void run(Part *parts) {
        const ConfiguredTiles tiles(shapes());
        score(parts);
        for (int i = 0; i < count_; ++i) {
            int16_t *codes = scratch_.codes + i * kSegment;
            units_[i] = soften_codes(queries_, i, segment_, scratch_.scores + i * kSegment, codes, parts[i]);
            weights_.put(i, codes, segment_.tile_count * kLanes);
        }
        weigh(parts);
    }

  private:
    TileShapes shapes() const {
        TileShapes shapes;
        for (int tile : {0, 1, 2, 3, 6, 7}) shapes.set(tile, count_, kTileBytes);
        for (int tile : {4, 5}) shapes.set(tile, kTileRows, kTileBytes);
        return shapes;
    }

    // Integer scores, as `score_codes` computes them.
    void score(Part *parts) {
        int16_t codes[kMostTileHead];
        Floats most[kQueries];
        for (int i = 0; i < count_; ++i) {
            units_[i] = round_query(model_, queries_.q[i], codes);
            query_codes_.put(i, codes, model_.head_size);
            most[i] = spread(-INFINITY);
        }
        for (int64_t t = 0; t < segment_.tile_count; t += 2) {
            const int together = t + 1 < segment_.tile_count ? 2 : 1;
            multiply_keys(t, together);
            for (int j = 0; j < together; ++j) keep_scores(t + j, j, most);
        }
        for (int i = 0; i < count_; ++i) parts[i].most = largest_lane(most[i]);
    }

    void multiply_keys(int64_t t, int together) {
        clear_sums();
        for (int64_t d = 0; d < model_.head_size; d += kTileBytes) {
            for (int j = 0; j < together; ++j) join_keys(segment_.tiles[t + j].keys, d, operands_[j]);
            multiply(query_codes_.high[d / kTileBytes], query_codes_.low[d / kTileBytes], together);
        }
        store_sums();
    }

    // Joins the elements from `d` on of the keys of a tile to [64 / 4][16 tokens][4].
    void join_keys(const uint8_t *keys, int64_t d, int8_t *fours) const {
        const int64_t step = 2 * model_.block_size;
        const int64_t last = std::min<int64_t>(d + kTileBytes, model_.head_size);
        for (const uint8_t *p = keys + d / 2 * step; d < last; d += 4, p += 2 * step, fours += kTileBytes)
            join_pairs(p, p + step, fours);
    }

    void keep_scores(int64_t t, int place, Floats *most) {
        const int64_t token = segment_.first + t * kLanes;
        const bool is_plain = queries_.are_plain(model_, count_, token);
        const Floats scale = spread(model_.scale) * load(segment_.tiles[t].key_scales);
        for (int i = 0; i < count_; ++i) {
            Floats scaled = to_floats(sum_of(place, i)) * (spread(units_[i]) * scale);
            if (!is_plain) scaled = queries_.score(model_, i, scaled, token);
            most[i] = larger(scaled, most[i]);
            store(scratch_.scores + i * kSegment + t * kLanes, scaled);
        }
    }

    // Weighted sums of the values, as `multiply_values` computes them.
    void weigh(Part *parts) {
        for (int64_t d = 0; d < model_.head_size; d += 2 * kLanes) {
            const int together = d + kLanes < model_.head_size ? 2 : 1;
            clear_sums();
            for (int64_t t = 0; t < segment_.tile_count; t += kStepTiles) {
                for (int j = 0; j < together; ++j) join_values(t, d + j * kLanes, operands_[j]);
                multiply(weights_.high[t / kStepTiles], weights_.low[t / kStepTiles], together);
            }
            store_sums();
            for (int i = 0; i < count_; ++i)
                for (int j = 0; j < together; ++j)
                    store(parts[i].sums + d + j * kLanes, to_floats(sum_of(j, i)) * spread(units_[i]));
        }
    }

    // Joins 16 elements, from `d` on, of the values of some tiles, from `t` on, to [64 tokens / 4][16 elements][4].
    void join_values(int64_t t, int64_t d, int8_t *fours) const {
        const int64_t step = 2 * model_.head_size;
        const int64_t last = std::min(t + kStepTiles, segment_.tile_count);
        for (; t < last; ++t) {
            const uint8_t *p = segment_.tiles[t].values + 2 * d;
            for (int j = 0; j < kLanes; j += 4, p += 2 * step, fours += kTileBytes) join_pairs(p, p + step, fours);
        }
    }

    static void clear_sums() {
        clear_tile<0>();
        clear_tile<1>();
        clear_tile<2>();
        clear_tile<3>();
    }

    // Adds the products of the codes with one or two operands to the sums.
    void multiply(const int8_t (*high)[kTileBytes], const uint8_t (*low)[kTileBytes], int together) const {
        load_tile<6>(high, kTileBytes);
        load_tile<7>(low, kTileBytes);
        load_tile<4>(operands_[0], kTileBytes);
        multiply_tiles<0, 6, 4>();
        multiply_unsigned_tiles<1, 7, 4>();
        if (together == 1) return;
        load_tile<5>(operands_[1], kTileBytes);
        multiply_tiles<2, 6, 5>();
        multiply_unsigned_tiles<3, 7, 5>();
    }

    void store_sums() {
        store_tile<0>(sums_[0][0], kTileBytes);
        store_tile<1>(sums_[0][1], kTileBytes);
        store_tile<2>(sums_[1][0], kTileBytes);
        store_tile<3>(sums_[1][1], kTileBytes);
    }

    // Sums of query i for one of the two operands.
    Ints sum_of(int place, int i) const {
        return shift_left<8>(load_i32(sums_[place][0][i])) + load_i32(sums_[place][1][i]);
    }

    const Model &model_;
    const Queries &queries_;
    const int count_;
    const Segment segment_;
    Scratch &scratch_;
    float units_[kQueries];
    SplitCodes<kMostTileHead / kTileBytes> query_codes_;
    SplitCodes<kSegment / kTileBytes> weights_;
    alignas(64) int8_t operands_[2][kTileRows * kTileBytes];
    alignas(64) int32_t sums_[2][2][kTileRows][kLanes];
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
