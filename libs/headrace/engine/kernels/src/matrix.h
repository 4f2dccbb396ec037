// Matrix products y[m, n] = sum_k x[m, k] * W[n, k], with the weights in panels of 16 rows.
//
// A panel is laid out so that one load takes 16 rows of one column (plain weights) or of a few columns (codes):
//   plain  [in][16]
//   codes  group by group, the codes of its columns and then its grid, so that all is read in order:
//     u4   [group / 8][16 rows][4 bytes], low nibbles columns 0..3 of the eight, high ones 4..7
//     u8   [group / 4][16 rows][4 bytes]
//     grid [16 rows] fp32 scales, with the zero point in place of the last 8 bits
//   blocks see block_format.h
// Missing rows are zeros.
//
// The products are batch-invariant: an element of y depends on its row of x and its row of W alone, and has the same
// bits on every instruction set. For codes the inputs are quantized too (symmetric, one scale per row and group), so
// sums within a group are integers, exact in any order; groups are summed in order. Plain weights are summed column by
// column.

#pragma once

#include "abi.h"
#include "block_format.h"
#include "code_packing.h"
#include "group_sums.h"
#include "lanes.h"
#include "rounding.h"
#include "storage_lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

inline int64_t panel_bytes(const Matrix &w) {
    if (is_block(w.storage)) return block_panel_bytes(w.storage, w.in);
    switch (w.storage) {
        case kF32: return w.in * kPanel * 4;
        case kBf16:
        case kF16: return w.in * kPanel * 2;
        default: return w.in / w.group * group_bytes(w);
    }
}

constexpr int64_t kRowBlock = 64;  // Most rows of x that stay in the cache while panels of weights stream through it.

// Rows of x, prepared for a product: plain, and where it takes them, codes with their scales and sums. Those in panels
// are laid out as in input_panels.h, those for tiles as in tile_product.h.
struct Inputs {
    const float *plain;   // [rows, in], in the order of columns
    const int8_t *codes;  // [rows, in]
    const float *scales;  // [rows, groups]
    const float *sums;    // [rows, groups]: sums of the codes of each group
    // Integers that products with blocks and in panels take: see block_inputs.h and input_panels.h.
    const int32_t *words = nullptr;
    // [rows, in]: the codes as `widen` writes them, where products with bytes take those.
    const int16_t *wide = nullptr;
    // All rows where they lie in panels, or 0.
    int64_t rows_in_panels = 0;
    // Rows that tasks take at a time.
    int64_t row_block = kRowBlock;
};

// Whether products with these weights take the codes of inputs in 16 bits.
constexpr bool takes_wide(int kind) { return kWidensInputs && (kind == kU8 || kind == kQ8_0); }

// Returns the codes of `row` of the inputs, in the form that products with these weights take.
template <int kStorage> inline auto input_codes(const Inputs &x, int64_t row, int64_t in) {
    if constexpr (takes_wide(kStorage))
        return x.wide + row * in;
    else
        return x.codes + row * in;
}

// --- Plain weights -------------------------------------------------------------------------------------------------

// Several panels at once give few rows enough independent accumulators to hide the latency of a multiply-add.
template <int kStorage, int kRows, int kPanels>
inline void multiply_plain(const Matrix &w, const Inputs &x, int64_t panel, int64_t row, Floats (&y)[kPanels][kRows]) {
    constexpr int64_t kStep = kPanel * (kStorage == kF32 ? 4 : 2);
    const uint8_t *p = w.panels + panel * panel_bytes(w);
    const float *rows = x.plain + row * w.in;
    Floats sums[kPanels][kRows];
    for (int j = 0; j < kPanels; ++j)
        for (int m = 0; m < kRows; ++m) sums[j][m] = spread(0.0f);
    for (int64_t k = 0; k < w.in; ++k) {
        Floats column[kPanels];
        for (int j = 0; j < kPanels; ++j) column[j] = load_as<kStorage>(p + j * w.in * kStep + k * kStep);
        for (int m = 0; m < kRows; ++m) {
            const Floats a = spread(rows[m * w.in + k]);
            for (int j = 0; j < kPanels; ++j) sums[j][m] = fma(a, column[j], sums[j][m]);
            if constexpr (kPanels == 1) pin(sums[0][m]);
        }
    }
    for (int j = 0; j < kPanels; ++j)
        for (int m = 0; m < kRows; ++m) y[j][m] = sums[j][m];
}

// --- Codes ---------------------------------------------------------------------------------------------------------

// Scales and zero points of a group of columns, for 16 rows.
struct Grid {
    Floats scale, zero;
};

inline Grid load_grid(const uint8_t *p) {
    const Ints words = load_i32(p);
    return {as_floats(words & spread(int32_t{~255})), to_floats(words & spread(int32_t{255}))};
}

template <int kStorage, int kRows, int kPanels>
inline void multiply_codes(const Matrix &w, const Inputs &x, int64_t panel, int64_t row, Floats (&y)[kPanels][kRows]) {
    const int64_t next = panel_bytes(w);
    const uint8_t *p = w.panels + panel * next;
    const int64_t groups = w.in / w.group;
    const int64_t bytes = code_bytes(w);
    for (auto &rows : y)
        for (Floats &sum : rows) sum = spread(0.0f);
    for (int64_t g = 0; g < groups; ++g, p += bytes + kPanel * 4) {
        Ints sums[kPanels][kRows];
        clear(sums);
        const auto *codes = input_codes<kStorage>(x, row, w.in) + g * w.group;
        if constexpr (kStorage == kU4)
            sum_u4(p, next, codes, w.in, w.group, sums);
        else
            sum_u8(p, next, codes, w.in, w.group, sums);
        for (int j = 0; j < kPanels; ++j) {
            Grid grid = load_grid(p + j * next + bytes);
            if constexpr (kStorage == kU8) grid.zero = grid.zero - spread(float{kTakenZero});
            for (int m = 0; m < kRows; ++m) {
                const int64_t at = (row + m) * groups + g;
                // Both terms are integers below 2^24, so the difference is exact.
                const Floats centered = fma(grid.zero, spread(-x.sums[at]), to_floats(sums[j][m]));
                y[j][m] = fma(centered, grid.scale * spread(x.scales[at]), y[j][m]);
            }
        }
    }
}

// Returns the codes of eight columns of u4, or of four of u8, from 64 bytes of a panel.
template <int kStorage, int kColumns> inline void load_columns(const uint8_t *p, Floats (&columns)[kColumns]) {
    constexpr int kBits = kStorage == kU4 ? 4 : 8;
    const Ints words = load_i32(p);
    const Ints low = spread(int32_t{(1 << kBits) - 1});
    columns[0] = to_floats(words & low);
    columns[1] = to_floats(shift_right<8>(words) & low);
    columns[2] = to_floats(shift_right<16>(words) & low);
    columns[3] = to_floats(shift_right<24>(words) & low);
    if constexpr (kStorage == kU4) {
        columns[4] = to_floats(shift_right<4>(words) & low);
        columns[5] = to_floats(shift_right<12>(words) & low);
        columns[6] = to_floats(shift_right<20>(words) & low);
        columns[7] = to_floats(shift_right<28>(words));
    }
}

// Dequantizes the weights, (code - zero) * scale rounded once, and multiplies plain inputs by them.
template <int kStorage, int kRows>
inline void multiply_exactly(const Matrix &w, const Inputs &x, int64_t panel, int64_t row, Floats (&y)[1][kRows]) {
    constexpr int kColumns = kStorage == kU4 ? 8 : 4;
    const uint8_t *p = w.panels + panel * panel_bytes(w);
    for (int m = 0; m < kRows; ++m) y[0][m] = spread(0.0f);
    for (int64_t first = 0; first < w.in; first += w.group, p += kPanel * 4) {
        const Grid grid = load_grid(p + code_bytes(w));
        for (int64_t k = first; k < first + w.group; k += kColumns, p += kLineBytes) {
            Floats columns[kColumns];
            load_columns<kStorage>(p, columns);
            for (int j = 0; j < kColumns; ++j) {
                const Floats weight = (columns[j] - grid.zero) * grid.scale;
                for (int m = 0; m < kRows; ++m)
                    y[0][m] = fma(spread(x.plain[(row + m) * w.in + k + j]), weight, y[0][m]);
            }
        }
    }
}

// --- Any weights ---------------------------------------------------------------------------------------------------

// Runs a kernel over tiles with as many rows of x as fit in registers. `finish` gets 16 elements of y, before the bias.
template <typename Kernel, typename Finish>
inline void over_tiles(int64_t first_row, int64_t last_row, const Kernel &kernel, const Finish &finish) {
    int64_t row = first_row;
    if constexpr (Kernel::kMostRows == 6)
        for (; row + 6 <= last_row; row += 6) kernel.template run<6>(row, finish);
    for (; row + 4 <= last_row; row += 4) kernel.template run<4>(row, finish);
    switch (last_row - row) {
        case 3: kernel.template run<3>(row, finish); break;
        case 2: kernel.template run<2>(row, finish); break;
        case 1: kernel.template run<1>(row, finish); break;
    }
}

template <int kStorage, bool kExact, int kPanels> struct PanelKernel {
    static constexpr int kMostRows = kStorage <= kF16 ? 6 : 4;

    const Matrix &w;
    const Inputs &x;
    int64_t panel;

    template <int kRows, typename Finish> void run(int64_t row, const Finish &finish) const {
        Floats y[kPanels][kRows];
        if constexpr (kStorage <= kF16)
            multiply_plain<kStorage, kRows, kPanels>(w, x, panel, row, y);
        else if constexpr (kExact)
            multiply_exactly<kStorage, kRows>(w, x, panel, row, y);
        else
            multiply_codes<kStorage, kRows, kPanels>(w, x, panel, row, y);
        for (int j = 0; j < kPanels; ++j)
            for (int m = 0; m < kRows; ++m) finish(panel + j, row + m, y[j][m]);
    }
};

// Multiplies several panels of plain weights side by side, for few rows: a row has one accumulator in each, too few to
// keep the multipliers busy. Returns the first remaining panel.
template <int kRows, int kStorage, int kPanels, typename Finish>
int64_t multiply_together(const Matrix &w, const Inputs &x, int64_t panel, int64_t last_panel, int64_t row,
                          const Finish &finish) {
    for (; panel + kPanels <= last_panel; panel += kPanels)
        PanelKernel<kStorage, false, kPanels>{w, x, panel}.template run<kRows>(row, finish);
    return panel;
}

constexpr int kWideRows = 8;

// Not inlined: within a function of all storages, compilers keep the sums of a tile in memory.
template <int kStorage, bool kExact, typename Finish>
__attribute__((noinline)) void multiply_panels(const Matrix &w, const Inputs &x, int64_t first_panel,
                                               int64_t last_panel, int64_t first_row, int64_t last_row,
                                               const Finish &finish) {
    int64_t panel = first_panel;
    const int64_t rows = last_row - first_row;
    // Codes of one panel after the other lie in memory as they are read, which is what one row waits for.
    if constexpr (kStorage <= kF16) {
        if (rows == 1) panel = multiply_together<1, kStorage, 4>(w, x, panel, last_panel, first_row, finish);
        if (rows == 2) panel = multiply_together<2, kStorage, 2>(w, x, panel, last_panel, first_row, finish);
    }
#if defined(HEADRACE_AVX512)
    // 32 registers hold the tiles of two panels, which keeps both 512-bit multipliers of a core busy.
    if constexpr (kStorage <= kF16)
        for (; rows >= kWideRows && panel + 2 <= last_panel; panel += 2) {
            const int64_t wide_end = first_row + rows / kWideRows * kWideRows;
            for (int64_t row = first_row; row < wide_end; row += kWideRows)
                PanelKernel<kStorage, false, 2>{w, x, panel}.template run<kWideRows>(row, finish);
            for (int64_t i = panel; i < panel + 2; ++i)
                over_tiles(wide_end, last_row, PanelKernel<kStorage, false, 1>{w, x, i}, finish);
        }
#endif
    for (; panel < last_panel; ++panel)
        over_tiles(first_row, last_row, PanelKernel<kStorage, kExact, 1>{w, x, panel}, finish);
}

#if defined(HEADRACE_PANELS)
// In panel_product.h.
template <typename Finish>
void multiply_input_panels(const Matrix &w, const Inputs &x, int64_t first_panel, int64_t last_panel, int64_t first_row,
                           int64_t last_row, const Finish &finish);
#endif

// In block_matrix.h.
template <typename Finish>
void multiply_blocks(const Matrix &w, const Inputs &x, int64_t first_panel, int64_t last_panel, int64_t first_row,
                     int64_t last_row, const Finish &finish);

template <typename Finish>
void multiply(const Matrix &w, const Inputs &x, int64_t first_panel, int64_t last_panel, int64_t first_row,
              int64_t last_row, const Finish &finish) {
#if defined(HEADRACE_PANELS)
    if (x.rows_in_panels) return multiply_input_panels(w, x, first_panel, last_panel, first_row, last_row, finish);
#endif
    switch (w.storage) {
        case kF32: return multiply_panels<kF32, false>(w, x, first_panel, last_panel, first_row, last_row, finish);
        case kBf16: return multiply_panels<kBf16, false>(w, x, first_panel, last_panel, first_row, last_row, finish);
        case kF16: return multiply_panels<kF16, false>(w, x, first_panel, last_panel, first_row, last_row, finish);
        case kU4:
            if (w.exact) return multiply_panels<kU4, true>(w, x, first_panel, last_panel, first_row, last_row, finish);
            return multiply_panels<kU4, false>(w, x, first_panel, last_panel, first_row, last_row, finish);
        case kU8:
            if (w.exact) return multiply_panels<kU8, true>(w, x, first_panel, last_panel, first_row, last_row, finish);
            return multiply_panels<kU8, false>(w, x, first_panel, last_panel, first_row, last_row, finish);
        default: return multiply_blocks(w, x, first_panel, last_panel, first_row, last_row, finish);
    }
}

// --- Inputs --------------------------------------------------------------------------------------------------------

// Quantizes each group of a row to symmetric codes -127..127. Groups must be multiples of 16.
inline void quantize_row(const float *x, int64_t in, int64_t group, int8_t *codes, float *scales, float *sums) {
    for (int64_t g = 0; g < in / group; ++g) {
        const Rounded rounded = round_to_codes(x + g * group, group, 127.0f, codes + g * group);
        scales[g] = rounded.unit;
        sums[g] = rounded.sum;
    }
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
