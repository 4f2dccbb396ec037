// Rounds plain weights to codes while they are packed, so that neither their fp32 numbers nor their codes ever lie in
// memory as a whole. The same grid, bit for bit, as array_rounding.py chooses.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "abi.h"
#include "code_packing.h"
#include "kv_cache.h"
#include "lanes.h"
#include "matrix.h"
#include "reductions.h"
#include "storage_lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr float kLeastStep = 1e-8f;
constexpr float kLeastScale = 6.103515625e-05f;  // The smallest normal number of fp16, in which formats store scales

// Grid of a group of weights of one row: weight = (code - zero) * scale.
struct RowGrid {
    float scale;
    float zero;
};

inline float through_f16(float value) {
    uint16_t halves[kLanes] = {to_f16(value)};
    float v[kLanes];
    store(v, load_f16(halves));
    return v[0];
}

// Chooses a grid that covers the numbers from `k` on, and zero. Its scale is NaN if one of them is not finite.
inline RowGrid choose_grid(const uint8_t *row, int32_t storage, int64_t k, int64_t group, float top) {
    Floats low = spread(0.0f);
    Floats high = spread(0.0f);
    Floats flaw = spread(0.0f);
    for (int64_t i = k; i < k + group; i += kLanes) {
        const Floats values = load_any(row, storage, i);
        low = smaller(values, low);
        high = larger(values, high);
        flaw = fma(values, spread(0.0f), flaw);
    }
    const float least = -largest_lane(spread(0.0f) - low);
    const float step = std::max((largest_lane(high) - least) / top, kLeastStep);
    // In this order the maximum is 0 where the least number is infinite and the quotient NaN, which no code is.
    const float zero = std::min(std::max(0.0f, std::nearbyint(-least / step)), top);
    return {std::max(through_f16(step), kLeastScale) + add_lanes(flaw), zero};
}

// Rounds a group to codes 0..top.
inline void round_group(const uint8_t *row, int32_t storage, int64_t k, int64_t group, const RowGrid &grid, float top,
                        uint8_t *codes) {
    for (int64_t i = 0; i < group; i += kLanes) {
        const Floats steps = to_floats(round_to_ints(load_any(row, storage, k + i) / spread(grid.scale)));
        const Floats code = smaller(larger(steps + spread(grid.zero), spread(0.0f)), spread(top));
        // Lanes become signed bytes: flipping the sign bit adds 128 again.
        store_s8(reinterpret_cast<int8_t *>(codes + i), round_to_ints(code - spread(128.0f)));
    }
    for (int64_t i = 0; i < group; ++i) codes[i] ^= 0x80;
}

// Packs the panels from `first` to `last` of `w`, which must be zeros. `rows` are the addresses of the numbers [in] of
// each row, in `storage`, or null for zeros.
inline void pack_rounded(const uint8_t *const *rows, int32_t storage, const Matrix &w, int64_t first, int64_t last,
                         uint8_t *panels) {
    const float top = w.storage == kU4 ? 15.0f : 255.0f;
    const int64_t size = group_bytes(w);
    std::vector<uint8_t> codes(static_cast<size_t>(w.group));
    for (int64_t row = first * kPanel; row < std::min(last * kPanel, w.out); ++row) {
        if (!rows[row]) continue;
        uint8_t *to = panels + row / kPanel * panel_bytes(w);
        for (int64_t k = 0; k < w.in; k += w.group, to += size) {
            const RowGrid grid = choose_grid(rows[row], storage, k, w.group, top);
            round_group(rows[row], storage, k, w.group, grid, top, codes.data());
            write_group(codes.data(), grid.scale, static_cast<uint8_t>(grid.zero), w, row % kPanel, to);
        }
    }
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
