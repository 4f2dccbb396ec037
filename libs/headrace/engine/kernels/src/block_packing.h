// Packs rows of GGUF's blocks, as a file has them, into panels: see block_format.h. The structs of the file are those
// of ggml's ggml-common.h.

#pragma once

#include <cstring>

#include "block_format.h"

namespace headrace {

// One span of one row.
struct Block {
    uint8_t codes[256];
    uint8_t scales[16], minima[8];  // Integer ones
    uint16_t scale, minimum;        // fp16
};

inline uint16_t load_half(const uint8_t *p) {
    uint16_t half;
    std::memcpy(&half, p, sizeof half);
    return half;
}

// Returns half of the power of two that E8M0 stands for, as bf16: 2^(exponent - 128), NaN for the largest exponent.
inline uint16_t half_unit(uint8_t exponent) {
    if (exponent == 255) return 0x7FC0;
    return static_cast<uint16_t>(exponent > 1 ? (exponent - 1) << 7 : exponent ? 0x40 : 0x20);
}

// Reads a block of 32 codes. Codes of 8 bits become unsigned.
template <int kStorage> inline void read_small_block(const uint8_t *from, Block *block) {
    constexpr BlockFormat format = block_format(kStorage);
    if constexpr (format.is_float) {
        block->scale = half_unit(*from++);
    } else {
        block->scale = load_half(from);
        from += 2;
    }
    if constexpr (format.has_minima) {
        block->minimum = load_half(from);
        from += 2;
    }
    if constexpr (format.high_bits < 0) {
        for (int k = 0; k < 32; ++k) block->codes[k] = from[k] ^ 0x80;
        return;
    }
    uint32_t high = 0;
    if constexpr (format.high_bits == 1) {
        std::memcpy(&high, from, sizeof high);
        from += 4;
    }
    for (int k = 0; k < 16; ++k) {
        block->codes[k] = static_cast<uint8_t>((from[k] & 15) | (high >> k & 1) << 4);
        block->codes[k + 16] = static_cast<uint8_t>(from[k] >> 4 | (high >> (k + 16) & 1) << 4);
    }
}

// Reads a block of Q4_K or Q5_K: eight scales and minima of 6 bits in 12 bytes, then the high bits, then the low ones.
template <int kStorage> inline void read_k_block(const uint8_t *from, Block *block) {
    constexpr bool kHasHigh = block_format(kStorage).high_bits > 0;
    block->scale = load_half(from);
    block->minimum = load_half(from + 2);
    const uint8_t *packed = from + 4;
    for (int g = 0; g < 4; ++g) {
        block->scales[g] = packed[g] & 63;
        block->minima[g] = packed[g + 4] & 63;
        block->scales[g + 4] = static_cast<uint8_t>((packed[g + 8] & 15) | packed[g] >> 6 << 4);
        block->minima[g + 4] = static_cast<uint8_t>(packed[g + 8] >> 4 | packed[g + 4] >> 6 << 4);
    }
    const uint8_t *high = from + 16;
    const uint8_t *low = kHasHigh ? high + 32 : high;
    for (int g = 0; g < 8; ++g)
        for (int k = 0; k < 32; ++k) {
            const int bits = low[g / 2 * 32 + k] >> g % 2 * 4 & 15;
            const int bit = kHasHigh ? high[k] >> g & 1 : 0;
            block->codes[g * 32 + k] = static_cast<uint8_t>(bits | bit << 4);
        }
}

inline void read_q6_block(const uint8_t *from, Block *block) {
    for (int half = 0; half < 2; ++half)
        for (int part = 0; part < 4; ++part)
            for (int k = 0; k < 32; ++k) {
                const int low = from[64 * half + k + 32 * (part % 2)] >> part / 2 * 4 & 15;
                const int high = from[128 + 32 * half + k] >> 2 * part & 3;
                block->codes[half * 128 + part * 32 + k] = static_cast<uint8_t>(low | high << 4);
            }
    std::memcpy(block->scales, from + 192, 16);
    block->scale = load_half(from + 208);
}

template <int kStorage> inline void read_block(const uint8_t *from, Block *block) {
    if constexpr (block_format(kStorage).span == 32)
        read_small_block<kStorage>(from, block);
    else if constexpr (kStorage == kQ6K)
        read_q6_block(from, block);
    else
        read_k_block<kStorage>(from, block);
}

// Writes the codes of one group of row `lane`, four bytes at a time.
template <int kStorage> inline void write_codes(const uint8_t *codes, int64_t lane, uint8_t *to) {
    constexpr BlockFormat format = block_format(kStorage);
    uint32_t quads[format.group / 4];
    std::memcpy(quads, codes, sizeof quads);
    uint32_t high = 0;
    for (int64_t quad = 0; quad < format.group / 4; ++quad) {
        if constexpr (format.high_bits < 0) {
            std::memcpy(to + quad * kLineBytes + lane * 4, quads + quad, 4);
        } else if (quad % 2 == 0) {
            const uint32_t low = (quads[quad] & 0x0F0F0F0Fu) | (quads[quad + 1] & 0x0F0F0F0Fu) << 4;
            std::memcpy(to + quad / 2 * kLineBytes + lane * 4, &low, 4);
        }
        if constexpr (format.high_bits > 0) high |= (quads[quad] >> 4 & 0x03030303u) << quad * format.high_bits;
    }
    if constexpr (format.high_bits > 0) std::memcpy(to + format.low_bytes() + lane * 4, &high, 4);
}

// Writes span `index` of row `lane` to a panel.
template <int kStorage>
inline void write_block(const Block &block, int64_t index, int64_t spans, int64_t lane, uint8_t *panel) {
    constexpr BlockFormat format = block_format(kStorage);
    if constexpr (format.span == 32) {
        uint8_t *scales = panel + spans * format.code_bytes();
        write_codes<kStorage>(block.codes, lane, panel + index * format.code_bytes());
        std::memcpy(scales + (index * 16 + lane) * 2, &block.scale, 2);
        if constexpr (format.has_minima) std::memcpy(scales + spans * 32 + (index * 16 + lane) * 2, &block.minimum, 2);
        return;
    }
    uint8_t *span = panel + index * format.panel_bytes;
    std::memcpy(span + lane * 2, &block.scale, 2);
    if constexpr (format.has_minima) std::memcpy(span + kMinimaAt + lane * 2, &block.minimum, 2);
    for (int64_t g = 0; g < format.groups(); ++g) {
        span[kIntegerScalesAt + g * 16 + lane] = block.scales[g];
        if constexpr (format.has_minima) span[kIntegerMinimaAt + g / 2 * 32 + lane * 2 + g % 2] = block.minima[g];
        write_codes<kStorage>(block.codes + g * format.group, lane, span + kSpanCodesAt + g * format.code_bytes());
    }
}

template <int kStorage>
void pack_blocks(const uint8_t *blocks, const int64_t *rows, int64_t out, int64_t in, uint8_t *panels) {
    constexpr BlockFormat format = block_format(kStorage);
    const int64_t spans = in / format.span;
    const int64_t size = block_panel_bytes(kStorage, in);
    std::memset(panels, 0, static_cast<size_t>((out + 15) / 16 * size));
    Block block = {};
    for (int64_t row = 0; row < out; ++row) {
        if (rows[row] < 0) continue;
        const uint8_t *from = blocks + rows[row] * spans * format.file_bytes;
        for (int64_t i = 0; i < spans; ++i, from += format.file_bytes) {
            read_block<kStorage>(from, &block);
            write_block<kStorage>(block, i, spans, row % 16, panels + row / 16 * size);
        }
    }
}

// Packs `out` rows of blocks. `rows` [out] names the source row of each packed row, or -1 for zeros.
inline void pack_blocks(const uint8_t *blocks, const int64_t *rows, int64_t out, int64_t in, int32_t storage,
                        uint8_t *panels) {
    switch (storage) {
        case kQ4_0: return pack_blocks<kQ4_0>(blocks, rows, out, in, panels);
        case kQ4_1: return pack_blocks<kQ4_1>(blocks, rows, out, in, panels);
        case kQ5_0: return pack_blocks<kQ5_0>(blocks, rows, out, in, panels);
        case kQ5_1: return pack_blocks<kQ5_1>(blocks, rows, out, in, panels);
        case kQ8_0: return pack_blocks<kQ8_0>(blocks, rows, out, in, panels);
        case kQ4K: return pack_blocks<kQ4K>(blocks, rows, out, in, panels);
        case kQ5K: return pack_blocks<kQ5K>(blocks, rows, out, in, panels);
        case kQ6K: return pack_blocks<kQ6K>(blocks, rows, out, in, panels);
        case kMxfp4: return pack_blocks<kMxfp4>(blocks, rows, out, in, panels);
    }
}

}  // namespace headrace
