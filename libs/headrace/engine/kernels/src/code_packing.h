// Packs codes of 4 and 8 bits into panels: see matrix.h.

#pragma once

#include <cstring>

#include "abi.h"

namespace headrace {

constexpr int64_t kLargestGroup = 128;  // Of columns that share a scale.

// Bytes of the codes of a group of columns in a panel, and of a group with its grid.
inline int64_t code_bytes(const Matrix &w) { return w.group * (w.storage == kU4 ? kPanel / 2 : kPanel); }
inline int64_t group_bytes(const Matrix &w) { return code_bytes(w) + kPanel * 4; }

// Returns a scale, rounded to its first 16 significant bits (to nearest, ties to even), with the zero point in the
// others. Scales of fp16 and bf16 have no more.
inline uint32_t grid_word(float scale, uint8_t zero) {
    uint32_t bits;
    std::memcpy(&bits, &scale, sizeof bits);
    const bool is_finite = (bits & 0x7F800000u) != 0x7F800000u;
    if (is_finite) bits += 127 + (bits >> 8 & 1);
    return (bits & ~255u) | zero;
}

// Writes the codes of one group of row `lane`, and its grid.
inline void write_group(const uint8_t *codes, float scale, uint8_t zero, const Matrix &w, int64_t lane, uint8_t *to) {
    to += lane * 4;
    for (int64_t k = 0; k < w.group; k += 4, to += kPanel * 4) {
        uint32_t four;
        std::memcpy(&four, codes + k, 4);
        if (w.storage == kU4) {
            uint32_t next;
            std::memcpy(&next, codes + (k += 4), 4);
            four |= next << 4;
        }
        std::memcpy(to, &four, 4);
    }
    const uint32_t word = grid_word(scale, zero);
    std::memcpy(to, &word, 4);
}

// Packs codes [., in] with scales and zeros [., groups]. `rows` [out] names the source row of each packed row, or -1
// for zeros.
inline void pack_codes(const uint8_t *codes, const float *scales, const uint8_t *zeros, const int64_t *rows,
                       const Matrix &w, uint8_t *panels) {
    const int64_t groups = w.in / w.group;
    const int64_t size = group_bytes(w);
    std::memset(panels, 0, static_cast<size_t>((w.out + kPanel - 1) / kPanel * groups * size));
    for (int64_t row = 0; row < w.out; ++row) {
        if (rows[row] < 0) continue;
        for (int64_t g = 0; g < groups; ++g) {
            const int64_t from = rows[row] * groups + g;
            uint8_t *to = panels + (row / kPanel * groups + g) * size;
            write_group(codes + from * w.group, scales[from], zeros[from], w, row % kPanel, to);
        }
    }
}

}  // namespace headrace
