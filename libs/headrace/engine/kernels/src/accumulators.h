// Sums of a tile, kept in registers, and prefetches of the weights that they read.

#pragma once

#include <cstdint>

#include "lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

// Prefetch distances in bytes. The hardware prefetches what is read in order, but not beyond the end of a page of 4
// KiB: what lies a page ahead is brought as far as the second-level cache.
constexpr int64_t kAhead = 512;
constexpr int64_t kAheadOfTile = 1024;
constexpr int64_t kNextPage = 4096 + 256;

template <int kPanels, int kRows> inline void clear(Ints (&sums)[kPanels][kRows]) {
    for (auto &rows : sums)
        for (Ints &sum : rows) sum = spread(int32_t{0});
}

template <int kPanels, int kRows> inline void add(const Ints (&from)[kPanels][kRows], Ints (&to)[kPanels][kRows]) {
    for (int j = 0; j < kPanels; ++j)
        for (int m = 0; m < kRows; ++m) to[j][m] = to[j][m] + from[j][m];
}

// Prefetches a single panel, which is read in order.
template <int kPanels> inline void fetch_ahead(const uint8_t *p) {
    if constexpr (kPanels == 1) {
        __builtin_prefetch(p + kAhead);
        __builtin_prefetch(p + kNextPage, 0, 2);
    }
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
