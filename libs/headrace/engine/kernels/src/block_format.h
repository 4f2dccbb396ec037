// Formats of GGUF's quantized blocks: what the bits of a block mean, and how its panels are laid out.
//
// A span is the columns that share fp16 scales: 32, or 256 with an integer scale for each group of 16 or 32. A panel of
// 16 rows has its codes group by group: the low four bits of eight columns in 64 bytes, as u4 in matrix.h, then the
// high bits of all columns of the group in 64 bytes; codes of 8 bits have four columns in 64 bytes.
//   spans of 32   codes of all groups; then fp16 scales [groups][16]; then fp16 minima [groups][16], if any. Codes of
//                 E2M1 are multiplied as integers, see quad_codes, and have scales of half a unit in bf16
//   spans of 256  span by span: fp16 scales [16], fp16 minima [16], integer scales [groups][16] bytes, integer minima
//                 [groups / 2][16][2] bytes if any, codes
// Panels are padded to cache lines.

#pragma once

#include <cstdint>

#include "abi.h"

namespace headrace {

constexpr int64_t kLineBytes = 64;

struct BlockFormat {
    int64_t span;           // Columns that share fp16 scales; their inputs share a scale too
    int64_t group;          // Columns that share an integer scale, or the span
    int high_bits;          // Bits of a code beyond the low four, or -1 for codes of 8 bits
    int32_t zero;           // Code of the number 0; 0 where there are minima
    bool has_minima;        // Weights are code * scale + minimum, or - minimum with integer scales
    int64_t file_bytes;     // Bytes of a span of one row in a file
    int64_t panel_bytes;    // Bytes of a span in a panel
    bool is_float = false;  // Codes are E2M1 (OCP Microscaling Formats 1.0), and scales bf16 instead of fp16

    constexpr int64_t groups() const { return span / group; }
    constexpr int64_t low_bytes() const { return high_bits < 0 ? group * 16 : group * 8; }
    constexpr int64_t code_bytes() const { return low_bytes() + (high_bits > 0 ? kLineBytes : 0); }
};

constexpr bool is_block(int32_t storage) { return storage >= kQ4_0; }

constexpr BlockFormat block_format(int32_t storage) {
    switch (storage) {
        case kQ4_0: return {32, 32, 0, 8, false, 18, 288};
        case kQ4_1: return {32, 32, 0, 0, true, 20, 320};
        case kQ5_0: return {32, 32, 1, 16, false, 22, 352};
        case kQ5_1: return {32, 32, 1, 0, true, 24, 384};
        case kQ8_0: return {32, 32, -1, 128, false, 34, 544};
        case kQ4K: return {256, 32, 0, 0, true, 144, 2368};
        case kQ5K: return {256, 32, 1, 0, true, 176, 2880};
        case kMxfp4: return {32, 32, 0, 12, false, 17, 288, true};
        default: return {256, 16, 2, 32, false, 210, 3392};
    }
}

// Places in a span of 256 within a panel, in bytes.
constexpr int64_t kMinimaAt = 32;
constexpr int64_t kIntegerScalesAt = 64;
constexpr int64_t kIntegerMinimaAt = 192;
constexpr int64_t kSpanCodesAt = 320;

inline int64_t block_panel_bytes(int32_t storage, int64_t in) {
    const BlockFormat format = block_format(storage);
    return (in / format.span * format.panel_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

}  // namespace headrace
