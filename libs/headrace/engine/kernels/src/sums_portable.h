// Sums within a group of columns in plain C++: see group_sums.h.

#pragma once

#include <cstdint>

#include "abi.h"
#include "lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr int32_t kTakenZero = 0;

template <int kPanels, int kRows>
inline void sum_u4(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    for (int j = 0; j < kPanels; ++j)
        for (int m = 0; m < kRows; ++m)
            for (int64_t k = 0; k < count; k += 8)
                for (int n = 0; n < kPanel * 4; ++n) {
                    const int8_t *four = x + m * stride + k + n % 4;
                    const uint8_t codes = p[j * next + k * 8 + n];
                    s[j][m].v[n / 4] += (codes & 15) * four[0] + (codes >> 4) * four[4];
                }
}

template <int kPanels, int kRows>
inline void sum_u8(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    for (int j = 0; j < kPanels; ++j)
        for (int m = 0; m < kRows; ++m)
            for (int64_t k = 0; k < count; k += 4)
                for (int n = 0; n < kPanel * 4; ++n)
                    s[j][m].v[n / 4] += p[j * next + k * kPanel + n] * x[m * stride + k + n % 4];
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
