// Products of codes where several rows share the weights, whose inputs lie in panels: see input_panels.h.
//
// A panel of weights is read once, group by group, whatever the number of rows: the codes of a group are in the
// first-level cache when further rows take them, so memory has as long as all rows take. The sums of a group are kept
// in registers, those of whole rows in the first-level cache.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "abi.h"
#include "input_panels.h"
#include "lanes.h"
#include "matrix.h"

namespace headrace {
namespace HEADRACE_ISA {

// Codes of four columns of each row.
struct Quads {
    const int8_t *first, *second;  // Of the rows of the first panel and of the second

    const int8_t *of(int row) const { return (row < kInputPanel ? first : second) + row % kInputPanel * 4; }
    Quads after(int64_t columns) const { return {first + columns * kInputPanel, second + columns * kInputPanel}; }
};

// A group of columns of the rows that are multiplied together. What belongs to those of the second panel lies `next`
// numbers after what belongs to the first, and their codes `next_codes` after the first codes.
struct InputGroup {
    const int8_t *codes;
    const float *scales, *sums;
    const int32_t *starts;
    int64_t columns, next_codes, next;

    Quads quads() const { return {codes, codes + next_codes}; }
    int64_t at(int row) const { return row / kInputPanel * next + row % kInputPanel; }
};

inline InputGroup first_group(const Inputs &x, const InputPanels &panels, int64_t row) {
    const int64_t at = panels.scales_at(panels.first_panel(row), 0);
    return {.codes = x.codes + panels.codes_at(panels.first_panel(row), 0),
            .scales = x.scales + at,
            .sums = x.sums + at,
            .starts = x.words + at,
            .columns = panels.group_size(),
            .next_codes = panels.group_size() * kInputPanel,
            .next = panels.groups() * kInputPanel};
}

inline InputGroup next_group(InputGroup x, const InputPanels &panels) {
    x.codes += panels.codes_between();
    x.scales += kInputPanel;
    x.sums += kInputPanel;
    x.starts += kInputPanel;
    return x;
}

// Prefetches what is `near` and `far` bytes ahead to the first-level and to the second-level cache.
struct Prefetch {
    int64_t near, far;

    HEADRACE_INLINE void operator()(const uint8_t *p) const {
        __builtin_prefetch(p + near);
        __builtin_prefetch(p + far, 0, 2);
    }
};

constexpr Prefetch kFirstRead{kAhead, kNextPage};
constexpr Prefetch kReadBefore{0, 0};

// Adds to `s` the products of codes with four columns of each row.
template <int kRows> HEADRACE_INLINE inline void add_quads(Ints codes, const Quads &x, Ints (&s)[kRows]) {
    HEADRACE_UNROLLED for (int m = 0; m < kRows; ++m) add_products(s[m], codes, x.of(m));
}

template <int kRows> HEADRACE_INLINE inline void clear(Ints (&s)[kRows]) {
    HEADRACE_UNROLLED for (int m = 0; m < kRows; ++m) s[m] = spread(int32_t{0});
}

#if defined(HEADRACE_AVX512) || defined(HEADRACE_AVX_VNNI)

// Sums up the products of a group of u4, less its zero points. Codes become unsigned numbers that count from 16 below
// them; what sums begin with makes up for that.
constexpr bool kCentersNibbles = true;

template <int kRows>
HEADRACE_INLINE inline void sum_nibbles(const uint8_t *p, Ints zeros, const InputGroup &x, Prefetch fetch,
                                        Ints (&s)[kRows]) {
    const Ints low = spread(int32_t{0x0F0F0F0F});
    const Ints shift = spread(int32_t{0x10101010}) + zeros * spread(int32_t{-0x01010101});
    HEADRACE_UNROLLED for (int m = 0; m < kRows; ++m) s[m] = spread(x.starts[x.at(m)]);
    Quads quads = x.quads();
    // Where a loop might not run at all, GCC moves all sums before and after it.
    int64_t k = x.columns;
    do {
        fetch(p);
        const Ints bytes = load_i32(p);
        add_quads(add_bytes(bytes & low, shift), quads, s);
        add_quads(add_bytes(shift_right<4>(bytes) & low, shift), quads.after(4), s);
        p += kLineBytes;
        quads = quads.after(8);
        k -= 8;
    } while (k > 0);
}

#else

constexpr bool kCentersNibbles = false;

template <int kRows>
HEADRACE_INLINE inline void sum_nibbles(const uint8_t *p, Ints, const InputGroup &x, Prefetch fetch, Ints (&s)[kRows]) {
    const Ints low = spread(int32_t{0x0F0F0F0F});
    clear(s);
    Quads quads = x.quads();
    for (int64_t k = 0; k < x.columns; k += kNarrowColumns) {
        Ints narrow[kRows];
        clear(narrow);
        HEADRACE_UNROLLED for (int i = 0; i < kNarrowColumns; i += 8, p += kLineBytes, quads = quads.after(8)) {
            fetch(p);
            const Ints bytes = load_i32(p);
            add_quads(bytes & low, quads, narrow);
            add_quads(shift_right<4>(bytes) & low, quads.after(4), narrow);
        }
        HEADRACE_UNROLLED for (int m = 0; m < kRows; ++m) s[m] = s[m] + widened(narrow[m]);
    }
}

#endif

template <int kRows>
HEADRACE_INLINE inline void sum_bytes(const uint8_t *p, const InputGroup &x, Prefetch fetch, Ints (&s)[kRows]) {
    clear(s);
    Quads quads = x.quads();
    int64_t k = x.columns;
    do {
        fetch(p);
        add_quads(load_i32(p), quads, s);
        p += kLineBytes;
        quads = quads.after(4);
        k -= 4;
    } while (k > 0);
}

// Adds to `y` the products of a group of one panel of weights, as `multiply_codes` does.
template <int kStorage, int kRows>
void add_group(const uint8_t *p, const InputGroup &group, Prefetch fetch, float (*y)[kPanel]) {
    const InputGroup x = group;  // A copy, which no store to `y` can change.
    const uint8_t *words = p + (kStorage == kU4 ? x.columns / 2 : x.columns) * kPanel;
    const Grid grid = load_grid(words);
    const Floats less = spread(0.0f) - grid.zero;
    Ints s[kRows];
    if constexpr (kStorage == kU4)
        sum_nibbles(p, load_i32(words) & spread(int32_t{255}), x, fetch, s);
    else
        sum_bytes(p, x, fetch, s);
    HEADRACE_UNROLLED for (int m = 0; m < kRows; ++m) {
        Floats centered = to_floats(s[m]);
        if constexpr (kStorage == kU8 || !kCentersNibbles) centered = fma(less, spread(x.sums[x.at(m)]), centered);
        store(y[m], fma(centered, grid.scale * spread(x.scales[x.at(m)]), load(y[m])));
    }
}

using AddGroup = void (*)(const uint8_t *, const InputGroup &, Prefetch, float (*)[kPanel]);

// Returns add_group for a number of rows. The table is not static: what several libraries have under one name, such as
// static data of templates, is shared by all that a process loads, and tests load two.
template <int kStorage> AddGroup add_group_of(int64_t rows) {
    constexpr auto kAll = []<int... kLess>(std::integer_sequence<int, kLess...>) {
        return std::array<AddGroup, kMostTogether>{add_group<kStorage, kLess + 1>...};
    }(std::make_integer_sequence<int, kMostTogether>{});
    return kAll[static_cast<size_t>(rows - 1)];
}

// Panels of weights, some of which are read side by side, multiplied by up to kRowBlock rows that begin with a panel.
template <int kStorage> class PanelProduct {
  public:
    PanelProduct(const Matrix &w, const Inputs &x, int64_t first_row, int64_t last_row)
        : w_(w), panels_(x.rows_in_panels, w), first_row_(first_row), last_row_(last_row) {
        for (int64_t row = first_row; row < last_row; row += panels_.together())
            tiles_[tile_count_++] = {add_group_of<kStorage>(std::min(panels_.together(), last_row - row)),
                                     row - first_row, first_group(x, panels_, row)};
    }

    // Calls finish(panel, row, y) for all panels and rows, panel by panel.
    template <typename Finish> void run(int64_t panel, int64_t last_panel, const Finish &finish) {
        for (int64_t count; panel < last_panel; panel += count) {
            count = std::min(most_beside(), last_panel - panel);
            multiply(w_.panels + panel * panel_bytes_, count);
            for (int64_t j = 0; j < count; ++j)
                for (int64_t row = first_row_; row < last_row_; ++row)
                    finish(panel + j, row, load(y_[j][row - first_row_]));
        }
    }

  private:
    static constexpr int64_t kMostBeside = 4;

    // Rows that are multiplied together, counted from the first of all.
    struct RowTile {
        AddGroup add;
        int64_t row;
        InputGroup inputs;
    };

    // Bytes are used up faster than one stream brings them; many rows are read from the first-level cache by several
    // panels. Nibbles for few rows come fastest in order.
    int64_t most_beside() const { return kStorage == kU8 || last_row_ - first_row_ > kMostTogether ? kMostBeside : 1; }

    void multiply(const uint8_t *weights, int64_t count) {
        for (int64_t j = 0; j < count; ++j)
            for (int64_t row = first_row_; row < last_row_; ++row) store(y_[j][row - first_row_], spread(0.0f));
        InputGroup inputs[kMostTiles];
        for (int64_t t = 0; t < tile_count_; ++t) inputs[t] = tiles_[t].inputs;
        for (int64_t g = 0; g < panels_.groups(); ++g, weights += group_bytes_)
            for (int64_t t = 0; t < tile_count_; ++t) {
                const RowTile &tile = tiles_[t];
                for (int64_t j = 0; j < count; ++j)
                    tile.add(weights + j * panel_bytes_, inputs[t], t ? kReadBefore : kFirstRead, y_[j] + tile.row);
                inputs[t] = next_group(inputs[t], panels_);
            }
    }

    static constexpr int64_t kMostTiles = kRowBlock / kMostTogether;

    const Matrix &w_;
    const InputPanels panels_;
    const int64_t first_row_, last_row_;
    const int64_t panel_bytes_ = panel_bytes(w_), group_bytes_ = group_bytes(w_);
    int64_t tile_count_ = 0;
    RowTile tiles_[kMostTiles];
    alignas(64) float y_[kMostBeside][kRowBlock][kPanel];
};

template <typename Finish>
void multiply_input_panels(const Matrix &w, const Inputs &x, int64_t first_panel, int64_t last_panel, int64_t first_row,
                           int64_t last_row, const Finish &finish) {
    if constexpr (!takes_wide(kU8))
        if (w.storage == kU8) return PanelProduct<kU8>(w, x, first_row, last_row).run(first_panel, last_panel, finish);
    PanelProduct<kU4>(w, x, first_row, last_row).run(first_panel, last_panel, finish);
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
