// Packs plain weights in panels: see matrix.h.

#pragma once

#include <algorithm>
#include <cstring>

#include "abi.h"

namespace headrace {

constexpr int64_t kPackedColumns = 16;  // Columns at a time: what they read and write stays in the nearest cache.

// Packs the columns from `first` to `last` of a row of a panel.
template <int kWidth>
inline void pack_columns(const uint8_t *from, int64_t first, int64_t last, int64_t row, uint8_t *panel) {
    for (int64_t k = first; k < last; ++k) std::memcpy(panel + (k * kPanel + row) * kWidth, from + k * kWidth, kWidth);
}

// Packs numbers of kWidth bytes. `rows` [out] names the source row of each packed row, or -1 for zeros.
template <int kWidth>
inline void pack_plain(const uint8_t *weights, const int64_t *rows, int64_t out, int64_t in, uint8_t *panels) {
    const int64_t panel_bytes = in * kPanel * kWidth;
    for (int64_t begin = 0; begin < out; begin += kPanel, panels += panel_bytes) {
        const int64_t count = std::min<int64_t>(kPanel, out - begin);
        if (count < kPanel || *std::min_element(rows + begin, rows + begin + count) < 0)
            std::memset(panels, 0, static_cast<size_t>(panel_bytes));
        for (int64_t k = 0; k < in; k += kPackedColumns) {
            const int64_t last = std::min(k + kPackedColumns, in);
            for (int64_t row = 0; row < count; ++row)
                if (const int64_t source = rows[begin + row]; source >= 0)
                    pack_columns<kWidth>(weights + source * in * kWidth, k, last, row, panels);
        }
    }
}

}  // namespace headrace
