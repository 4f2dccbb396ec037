// Products of codes where four rows or more share the weights: inputs lie in panels of 8 rows, as weights lie in panels
// of 16, and the rows of two panels are multiplied together.
//
//   codes   [products][groups][panels of a product][group / 4][8 rows][4 columns]
//   scales  [panels][groups][8 rows]; so are sums, and for u4 what sums begin with
//
// A panel of weights is read once, group by group, whatever the number of rows: the codes of a group are in the
// first-level cache when further rows take them, so memory has as long as all rows take. The sums of a group are kept
// in registers, those of whole rows in the first-level cache.
//
// Rows are spread evenly: 17 of them are 9 and 8. One thread fills a panel, so that no two write to one cache line.
// What lies in the places of missing rows is never read.

#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "abi.h"
#include "lanes.h"
#include "matrix.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr int64_t kLeastRowsInPanels = 4;  // Fewer rows wait for memory, and are not worth the other layout.
constexpr int64_t kInputPanel = 8;         // Rows.
constexpr int64_t kMostTogether = 2 * kInputPanel;

inline bool suits_input_panels(const Matrix &w, int64_t rows) {
    return rows >= kLeastRowsInPanels && (w.storage == kU4 || w.storage == kU8) && !w.exact;
}

// Places of rows of inputs, and of what belongs to them.
class InputPanels {
  public:
    InputPanels(int64_t rows, const Matrix &w)
        : rows_(rows), in_(w.in), group_(w.group), products_((rows + kMostTogether - 1) / kMostTogether),
          together_((rows + products_ - 1) / products_), beside_(together_ > kInputPanel ? 2 : 1) {}

    int64_t groups() const { return in_ / group_; }
    int64_t group_size() const { return group_; }
    // Rows that are multiplied together. The last ones may be fewer.
    int64_t together() const { return together_; }
    // Rows of which several are taken while a group of weights is in the cache.
    int64_t row_block() const { return kRowBlock / kMostTogether * together_; }

    int64_t count() const { return products_ * beside_; }
    int64_t code_count() const { return count() * kInputPanel * in_; }
    int64_t group_count() const { return count() * kInputPanel * groups(); }

    int64_t first_panel(int64_t row) const { return row / together_ * beside_; }
    int64_t first_row(int64_t panel) const { return panel / beside_ * together_ + panel % beside_ * kInputPanel; }
    int64_t last_row(int64_t panel) const {
        return std::min({first_row(panel) + kInputPanel, (panel / beside_ + 1) * together_, rows_});
    }

    // Returns the place of the codes of group `g`.
    int64_t codes_at(int64_t panel, int64_t g) const {
        return ((panel / beside_ * groups() + g) * beside_ + panel % beside_) * group_ * kInputPanel;
    }
    // Returns the place of the scales of group `g`, and of what is laid out like them.
    int64_t scales_at(int64_t panel, int64_t g) const { return (panel * groups() + g) * kInputPanel; }

  private:
    int64_t rows_, in_, group_, products_, together_, beside_;
};

struct PanelArrays {
    int8_t *codes;
    float *scales, *sums;
    int32_t *starts;
};

// Quantizes the rows of a panel as `quantize_row` does. It takes group by group, so that the cache lines that rows
// share stay in the first-level cache.
inline void quantize_into_panel(const InputPanels &panels, int64_t panel, const float *x, const PanelArrays &to) {
    const int64_t group = panels.group_size();
    const int64_t first = panels.first_row(panel);
    for (int64_t g = 0; g < panels.groups(); ++g)
        for (int64_t row = first; row < panels.last_row(panel); ++row) {
            int8_t codes[kLargestGroup];
            const Rounded rounded = round_to_codes(x + (row * panels.groups() + g) * group, group, 127.0f, codes);
            const int64_t at = panels.scales_at(panel, g) + row - first;
            to.scales[at] = rounded.unit;
            to.sums[at] = rounded.sum;
            to.starts[at] = -16 * static_cast<int32_t>(rounded.sum);
            int8_t *quads = to.codes + panels.codes_at(panel, g) + 4 * (row - first);
            for (int64_t k = 0; k < group; k += 4) std::memcpy(quads + k * kInputPanel, codes + k, 4);
        }
}

// A group of columns of the rows that are multiplied together. What belongs to those of the second panel lies `next`
// numbers after what belongs to the first, and their codes `next_codes` after the first codes.
struct InputGroup {
    InputGroup(const Inputs &x, const InputPanels &panels, int64_t row, int64_t g)
        : InputGroup(x, panels.codes_at(panels.first_panel(row), g), panels.scales_at(panels.first_panel(row), g)) {
        columns = panels.group_size();
        next_codes = columns * kInputPanel;
        next = panels.groups() * kInputPanel;
    }

    int64_t at(int row) const { return row / kInputPanel * next + row % kInputPanel; }

    const int8_t *codes;
    const float *scales, *sums;
    const int32_t *starts;
    int64_t columns, next_codes, next;

  private:
    InputGroup(const Inputs &x, int64_t code, int64_t at)
        : codes(x.codes + code), scales(x.scales + at), sums(x.sums + at), starts(x.words + at) {}
};

// Prefetches what is `near` and `far` bytes ahead to the first-level and to the second-level cache.
struct Prefetch {
    int64_t near, far;

    HEADRACE_INLINE void operator()(const uint8_t *p) const {
        __builtin_prefetch(p + near);
        __builtin_prefetch(p + far, 0, 2);
    }
};

// The hardware prefetches what is read in order, but not beyond the end of a page of 4 KiB.
constexpr Prefetch kFirstRead{kAhead, 4096 + 256};
constexpr Prefetch kReadBefore{0, 0};

// Adds to `s` the products of codes with four columns of each row.
template <int kRows>
HEADRACE_INLINE inline void add_quads(Ints codes, const int8_t *first, const int8_t *second, Ints (&s)[kRows]) {
    HEADRACE_UNROLLED for (int m = 0; m < kRows; ++m)
        add_products(s[m], codes, (m < kInputPanel ? first : second) + m % kInputPanel * 4);
}

// Sums up the products of a group of u4, less its zero points. Codes become unsigned numbers that count from 16 below
// them; what sums begin with makes up for that.
template <int kRows>
HEADRACE_INLINE inline void sum_nibbles(const uint8_t *p, Ints zeros, const InputGroup &x, Prefetch fetch,
                                        Ints (&s)[kRows]) {
    const Ints low = spread(int32_t{0x0F0F0F0F});
    const Ints shift = spread(int32_t{0x10101010}) + zeros * spread(int32_t{-0x01010101});
    HEADRACE_UNROLLED for (int m = 0; m < kRows; ++m) s[m] = spread(x.starts[x.at(m)]);
    const int8_t *first = x.codes, *second = first + x.next_codes;
    for (int64_t k = 0; k < x.columns; k += 8, p += kLineBytes, first += 8 * kInputPanel, second += 8 * kInputPanel) {
        fetch(p);
        const Ints bytes = load_i32(p);
        add_quads(add_bytes(bytes & low, shift), first, second, s);
        add_quads(add_bytes(shift_right<4>(bytes) & low, shift), first + 4 * kInputPanel, second + 4 * kInputPanel, s);
    }
}

template <int kRows>
HEADRACE_INLINE inline void sum_bytes(const uint8_t *p, const InputGroup &x, Prefetch fetch, Ints (&s)[kRows]) {
    HEADRACE_UNROLLED for (int m = 0; m < kRows; ++m) s[m] = spread(int32_t{0});
    const int8_t *first = x.codes, *second = first + x.next_codes;
    for (int64_t k = 0; k < x.columns; k += 4, p += kLineBytes, first += 4 * kInputPanel, second += 4 * kInputPanel) {
        fetch(p);
        add_quads(load_i32(p), first, second, s);
    }
}

// Adds to `y` the products of a group of one panel of weights, as `multiply_codes` does.
template <int kStorage, int kRows>
void add_group(const uint8_t *p, const InputGroup &x, Prefetch fetch, float (*y)[kPanel]) {
    const uint8_t *words = p + (kStorage == kU4 ? x.columns / 2 : x.columns) * kPanel;
    const Grid grid = load_grid(words);
    Ints s[kRows];
    if constexpr (kStorage == kU4)
        sum_nibbles(p, load_i32(words) & spread(int32_t{255}), x, fetch, s);
    else
        sum_bytes(p, x, fetch, s);
    HEADRACE_UNROLLED for (int m = 0; m < kRows; ++m) {
        Floats centered = to_floats(s[m]);
        if constexpr (kStorage == kU8) centered = fma(grid.zero, spread(-x.sums[x.at(m)]), centered);
        store(y[m], fma(centered, grid.scale * spread(x.scales[x.at(m)]), load(y[m])));
    }
}

using AddGroup = void (*)(const uint8_t *, const InputGroup &, Prefetch, float (*)[kPanel]);

// Returns add_group for a number of rows.
template <int kStorage> AddGroup add_group_of(int64_t rows) {
    static constexpr auto kAll = []<int... kLess>(std::integer_sequence<int, kLess...>) {
        return std::array<AddGroup, kMostTogether>{add_group<kStorage, kLess + 1>...};
    }(std::make_integer_sequence<int, kMostTogether>{});
    return kAll[static_cast<size_t>(rows - 1)];
}

// Panels of weights, some of which are read side by side, multiplied by up to kRowBlock rows that begin with a panel.
template <int kStorage> class PanelProduct {
  public:
    PanelProduct(const Matrix &w, const Inputs &x, int64_t first_row, int64_t last_row)
        : w_(w), x_(x), panels_(x.rows_in_panels, w), first_row_(first_row), last_row_(last_row) {}

    // Calls finish(panel, row, y) for all panels and rows, panel by panel.
    template <typename Finish> void run(int64_t panel, int64_t last_panel, const Finish &finish) {
        for (int64_t count; panel < last_panel; panel += count) {
            count = std::min(most_beside(), last_panel - panel);
            multiply(panel, count);
            for (int64_t j = 0; j < count; ++j)
                for (int64_t row = first_row_; row < last_row_; ++row)
                    finish(panel + j, row, load(y_[j][row - first_row_]));
        }
    }

  private:
    static constexpr int64_t kMostBeside = 4;

    // Bytes are used up faster than one stream brings them; many rows are read from the first-level cache by several
    // panels. Nibbles for few rows come fastest in order.
    int64_t most_beside() const { return kStorage == kU8 || last_row_ - first_row_ > kMostTogether ? kMostBeside : 1; }

    void multiply(int64_t panel, int64_t count) {
        for (int64_t j = 0; j < count; ++j)
            for (int64_t row = first_row_; row < last_row_; ++row) store(y_[j][row - first_row_], spread(0.0f));
        for (int64_t g = 0; g < panels_.groups(); ++g)
            for (int64_t row = first_row_; row < last_row_; row += panels_.together()) {
                const InputGroup inputs(x_, panels_, row, g);
                const AddGroup add = add_group_of<kStorage>(std::min(last_row_ - row, panels_.together()));
                const Prefetch fetch = row == first_row_ ? kFirstRead : kReadBefore;
                for (int64_t j = 0; j < count; ++j)
                    add(w_.panels + (panel + j) * panel_bytes(w_) + g * group_bytes(w_), inputs, fetch,
                        y_[j] + (row - first_row_));
            }
    }

    const Matrix &w_;
    const Inputs &x_;
    const InputPanels panels_;
    const int64_t first_row_, last_row_;
    alignas(64) float y_[kMostBeside][kRowBlock][kPanel];
};

template <typename Finish>
void multiply_input_panels(const Matrix &w, const Inputs &x, int64_t first_panel, int64_t last_panel, int64_t first_row,
                           int64_t last_row, const Finish &finish) {
    if (w.storage == kU4)
        PanelProduct<kU4>(w, x, first_row, last_row).run(first_panel, last_panel, finish);
    else
        PanelProduct<kU8>(w, x, first_row, last_row).run(first_panel, last_panel, finish);
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
