// Products with GGUF's blocks as they are, and the numbers that blocks stand for.
//
// Sums of codes within a span are integers, exact in any order; spans are summed in order, so results are batch-
// invariant and have the same bits on every instruction set, as those of matrix.h.

#pragma once

#include "block_format.h"
#include "block_inputs.h"
#include "block_sums.h"
#include "matrix.h"

namespace headrace {
namespace HEADRACE_ISA {

// --- Codes times codes ---------------------------------------------------------------------------------------------

// Loads the scales of a span, for 16 rows.
template <int kStorage> inline Floats load_scales(const uint8_t *p) {
    const auto *halves = reinterpret_cast<const uint16_t *>(p);
    return block_format(kStorage).is_float ? load_bf16(halves) : load_f16(halves);
}

// Spans of 32: one sum of codes each.
template <int kStorage, int kRows, int kPanels>
inline void multiply_small_blocks(const Matrix &w, const Inputs &x, int64_t panel, int64_t next, int64_t row,
                                  Floats (&y)[kPanels][kRows]) {
    constexpr BlockFormat format = block_format(kStorage);
    const int64_t groups = w.in / format.span;
    const bool has_minima = block_format(w.storage).has_minima;
    const uint8_t *p = w.panels + panel * panel_bytes(w);
    const uint8_t *scales = p + groups * format.code_bytes();
    const uint8_t *minima = scales + groups * kPanel * 2;
    for (int64_t g = 0; g < groups; ++g) {
        Ints sums[kPanels][kRows];
        for (int m = 0; m < kRows; ++m)
            for (int j = 0; j < kPanels; ++j) sums[j][m] = spread(x.words[(row + m) * groups + g]);
        const auto *codes = input_codes<kStorage>(x, row, w.in) + g * format.span;
        sum_group<kStorage>(p + g * format.code_bytes(), next, codes, w.in, sums);
        for (int j = 0; j < kPanels; ++j) {
            const int64_t at = j * next + g * kPanel * 2;
            const Floats scale = load_scales<kStorage>(scales + at);
            for (int m = 0; m < kRows; ++m)
                y[j][m] = fma(to_floats(sums[j][m]), scale * spread(x.scales[(row + m) * groups + g]), y[j][m]);
            if (!has_minima) continue;
            const Floats minimum = load_f16(reinterpret_cast<const uint16_t *>(minima + at));
            for (int m = 0; m < kRows; ++m) y[j][m] = fma(minimum, spread(x.sums[(row + m) * groups + g]), y[j][m]);
        }
    }
}

template <int kStorage> inline Ints integer_scales(const uint8_t *span, int64_t group) {
    const uint8_t *p = span + kIntegerScalesAt + group * kPanel;
    if constexpr (kStorage == kQ6K) return load_s8(reinterpret_cast<const int8_t *>(p));
    return load_u8(p);
}

// Sums the codes of a span of 256, each group times its integer scale. Sums stay below 2^28.
template <int kStorage, int kRows, int kPanels>
inline void sum_span(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, const int32_t *words,
                     int64_t word_stride, Ints (&totals)[kPanels][kRows]) {
    constexpr BlockFormat format = block_format(kStorage);
    constexpr int64_t kGroups = format.groups();
    clear(totals);
#pragma GCC unroll 1
    for (int64_t g = 0; g < kGroups; ++g) {
        Ints sums[kPanels][kRows];
        for (int m = 0; m < kRows; ++m)
            for (int j = 0; j < kPanels; ++j)
                sums[j][m] = spread(format.has_minima ? int32_t{0} : words[m * word_stride + g]);
        sum_group<kStorage>(p + kSpanCodesAt + g * format.code_bytes(), next, x + g * format.group, stride, sums);
        for (int j = 0; j < kPanels; ++j) {
            const Ints scale = integer_scales<kStorage>(p + j * next, g);
            for (int m = 0; m < kRows; ++m) totals[j][m] = totals[j][m] + sums[j][m] * scale;
        }
    }
}

// Subtracts the minima of a span: integer minima times sums of input codes, then the fp16 scale.
template <int kRows>
inline void subtract_minima(const uint8_t *span, const int32_t *words, int64_t word_stride, const float *scales,
                            int64_t spans, Floats (&y)[kRows]) {
    const Floats scale = load_f16(reinterpret_cast<const uint16_t *>(span + kMinimaAt));
    for (int m = 0; m < kRows; ++m) {
        Ints low = spread(int32_t{0});
        for (int i = 0; i < 4; ++i)
            low = add_pairs(low, load_pairs(span + kIntegerMinimaAt + i * 32), words[m * word_stride + i]);
        y[m] = fma(to_floats(low), scale * spread(-scales[m * spans]), y[m]);
    }
}

// Spans of 256: one integer in each, and one fp32 addition.
template <int kStorage, int kRows, int kPanels>
inline void multiply_large_blocks(const Matrix &w, const Inputs &x, int64_t panel, int64_t next, int64_t row,
                                  Floats (&y)[kPanels][kRows]) {
    constexpr BlockFormat format = block_format(kStorage);
    const int64_t spans = w.in / format.span;
    const int64_t width = word_count(format, w.in);
    const uint8_t *p = w.panels + panel * panel_bytes(w);
    for (int64_t i = 0; i < spans; ++i, p += format.panel_bytes) {
        Ints totals[kPanels][kRows];
        const int32_t *words = x.words + row * width + i * width / spans;
        const float *scales = x.scales + row * spans + i;
        sum_span<kStorage>(p, next, x.codes + row * w.in + i * format.span, w.in, words, width, totals);
        for (int j = 0; j < kPanels; ++j) {
            const Floats scale = load_f16(reinterpret_cast<const uint16_t *>(p + j * next));
            for (int m = 0; m < kRows; ++m)
                y[j][m] = fma(to_floats(totals[j][m]), scale * spread(scales[m * spans]), y[j][m]);
            if constexpr (format.has_minima) subtract_minima(p + j * next, words, width, scales, spans, y[j]);
        }
    }
}

// --- The numbers that blocks stand for -----------------------------------------------------------------------------

// Scale and minimum of a group of columns, for 16 rows. Products of an fp16 scale and an integer are exact.
struct GroupScales {
    Floats scale, minimum;
};

template <int kStorage>
inline GroupScales group_scales(const uint8_t *panel, int64_t in, int64_t group, bool has_minima) {
    constexpr BlockFormat format = block_format(kStorage);
    const auto halves = [](const uint8_t *p) { return load_f16(reinterpret_cast<const uint16_t *>(p)); };
    if constexpr (format.span == 32) {
        const int64_t groups = in / format.span;
        const uint8_t *scales = panel + groups * format.code_bytes() + group * kPanel * 2;
        return {load_scales<kStorage>(scales), has_minima ? halves(scales + groups * kPanel * 2) : spread(0.0f)};
    } else {
        const int64_t at = group % format.groups();
        const uint8_t *span = panel + group / format.groups() * format.panel_bytes;
        const Floats scale = halves(span) * to_floats(integer_scales<kStorage>(span, at));
        if constexpr (!format.has_minima) return {scale, spread(0.0f)};
        const Ints pairs = load_u16(reinterpret_cast<const uint16_t *>(span + kIntegerMinimaAt + at / 2 * 32));
        const Ints minima = (at % 2 ? shift_right<8>(pairs) : pairs) & spread(int32_t{255});
        return {scale, halves(span + kMinimaAt) * to_floats(minima)};
    }
}

constexpr int64_t kMostGroup = 32;

// Writes the columns of a group in fp32, 16 rows each, rounded as ggml's dequantize_row. Not inlined: all tiles share
// it.
template <int kStorage>
__attribute__((noinline)) void dequantize_group(const uint8_t *panel, int32_t storage, int64_t in, int64_t group,
                                                float *columns) {
    constexpr BlockFormat format = block_format(kStorage);
    const bool has_minima = block_format(storage).has_minima;
    const GroupScales scales = group_scales<kStorage>(panel, in, group, has_minima);
    const Floats zero = spread(static_cast<float>(block_format(storage).zero));
    const int64_t span = group / format.groups();
    const uint8_t *codes = format.span == 32 ? panel + group * format.code_bytes()
                                             : panel + span * format.panel_bytes + kSpanCodesAt +
                                                   group % format.groups() * format.code_bytes();
    each_quad<format.group / 4>([&](auto quad) {
        const Ints four = quad_codes<kStorage, quad>(codes);
        const Ints byte = spread(int32_t{255});
        const Ints column[] = {four & byte, shift_right<8>(four) & byte, shift_right<16>(four) & byte,
                               shift_right<24>(four) & byte};
        for (int n = 0; n < 4; ++n) {
            Floats value = (to_floats(column[n]) - zero) * scales.scale;
            if (has_minima) value = format.span == 32 ? value + scales.minimum : value - scales.minimum;
            store(columns + (4 * quad + n) * kPanel, value);
        }
    });
}

// Calls body(constant) with the storage whose code also runs `storage`: those with and without minima share it.
template <typename Body> inline void with_codes_of(int32_t storage, const Body &body) {
    switch (storage) {
        case kQ4_0:
        case kQ4_1: return body(std::integral_constant<int, kQ4_1>{});
        case kQ5_0:
        case kQ5_1: return body(std::integral_constant<int, kQ5_1>{});
        case kQ8_0: return body(std::integral_constant<int, kQ8_0>{});
        case kQ4K: return body(std::integral_constant<int, kQ4K>{});
        case kQ5K: return body(std::integral_constant<int, kQ5K>{});
        case kQ6K: return body(std::integral_constant<int, kQ6K>{});
        case kMxfp4: return body(std::integral_constant<int, kMxfp4>{});
    }
}

// Writes one row of a matrix [., in] of blocks in fp32.
inline void dequantize_row(const uint8_t *panels, int32_t storage, int64_t in, int64_t row, float *out) {
    const uint8_t *panel = panels + row / kPanel * block_panel_bytes(storage, in);
    with_codes_of(storage, [&](auto kind) {
        constexpr int64_t kGroup = block_format(kind).group;
        float columns[kMostGroup * kPanel];
        for (int64_t g = 0; g < in / kGroup; ++g) {
            dequantize_group<kind>(panel, storage, in, g, columns);
            for (int64_t k = 0; k < kGroup; ++k) out[g * kGroup + k] = columns[k * kPanel + row % kPanel];
        }
    });
}

// Multiplies plain inputs by dequantized weights, column by column, as plain weights are.
template <int kStorage, int kRows>
inline void multiply_blocks_exactly(const Matrix &w, const Inputs &x, int64_t panel, int64_t row,
                                    Floats (&y)[1][kRows]) {
    constexpr int64_t kGroup = block_format(kStorage).group;
    const uint8_t *p = w.panels + panel * panel_bytes(w);
    const float *rows = x.plain + row * w.in;
    float columns[kMostGroup * kPanel];
    for (int64_t g = 0; g < w.in / kGroup; ++g, rows += kGroup) {
        dequantize_group<kStorage>(p, w.storage, w.in, g, columns);
        for (int64_t k = 0; k < kGroup; ++k)
            for (int m = 0; m < kRows; ++m)
                y[0][m] = fma(spread(rows[m * w.in + k]), load(columns + k * kPanel), y[0][m]);
    }
}

// --- Tiles ---------------------------------------------------------------------------------------------------------

template <int kStorage, bool kExact, int kPanels> struct BlockKernel {
    static constexpr int kMostRows = 4;

    const Matrix &w;
    const Inputs &x;
    int64_t panel;
    int64_t count = kPanels;  // Panels to compute: all, or one, which then is computed by way of all

    template <int kRows, typename Finish> void run(int64_t row, const Finish &finish) const {
        const int64_t next = count == kPanels ? panel_bytes(w) : 0;
        Floats y[kPanels][kRows];
        for (auto &rows : y)
            for (Floats &sum : rows) sum = spread(0.0f);
        if constexpr (kExact)
            multiply_blocks_exactly<kStorage, kRows>(w, x, panel, row, y);
        else if constexpr (block_format(kStorage).span == 32)
            multiply_small_blocks<kStorage, kRows, kPanels>(w, x, panel, next, row, y);
        else
            multiply_large_blocks<kStorage, kRows, kPanels>(w, x, panel, next, row, y);
        for (int64_t j = 0; j < count; ++j)
            for (int m = 0; m < kRows; ++m) finish(panel + j, row + m, y[j][m]);
    }
};

#if defined(HEADRACE_AVX512)
constexpr int kBlockPanels = 2;  // 32 registers hold the sums of two panels beside four rows.
#else
constexpr int kBlockPanels = 1;
#endif

// One row waits for memory, and reads it in order (decision 0040): panels of spans of 256 one by one, and four side by
// side of those whose scales lie apart. A last panel that has no partner is computed twice: a kernel of its own would
// take longer to compile than this ever costs.
template <int kStorage, typename Finish>
void multiply_block_panels(const Matrix &w, const Inputs &x, int64_t panel, int64_t last_panel, int64_t first_row,
                           int64_t last_row, const Finish &finish) {
    constexpr int kBeside = block_format(kStorage).span == 32 ? 4 : 1;
    for (; last_row - first_row == 1 && panel + kBeside <= last_panel; panel += kBeside)
        BlockKernel<kStorage, false, kBeside>{w, x, panel}.template run<1>(first_row, finish);
    for (; panel < last_panel; panel += kBlockPanels) {
        const int64_t count = panel + kBlockPanels <= last_panel ? kBlockPanels : 1;
        over_tiles(first_row, last_row, BlockKernel<kStorage, false, kBlockPanels>{w, x, panel, count}, finish);
    }
}

template <typename Finish>
void multiply_blocks(const Matrix &w, const Inputs &x, int64_t first_panel, int64_t last_panel, int64_t first_row,
                     int64_t last_row, const Finish &finish) {
    with_codes_of(w.storage, [&](auto kind) {
        if (!w.exact) return multiply_block_panels<kind>(w, x, first_panel, last_panel, first_row, last_row, finish);
        for (int64_t panel = first_panel; panel < last_panel; ++panel)
            over_tiles(first_row, last_row, BlockKernel<kind, true, 1>{w, x, panel}, finish);
    });
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
