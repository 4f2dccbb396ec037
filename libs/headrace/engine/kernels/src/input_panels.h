// Inputs of products with codes, in panels: those of a few rows lie side by side, as the rows of weights do.
//
//   codes   [products][groups][panels of a product][group / 4][rows of a panel][4 columns]
//   scales  [panels][groups][rows of a panel]; so are sums, and for u4 what sums begin with
//
// Rows are spread evenly over products: with up to 16 in each, 17 of them are 9 and 8. One thread fills a panel, so
// that no two write to one cache line. What lies in the places of missing rows is never read.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "abi.h"
#include "lanes.h"
#include "matrix.h"

namespace headrace {
namespace HEADRACE_ISA {

// Fewer rows wait for memory, and are not worth the other layout.
#if defined(HEADRACE_AVX512)
constexpr int64_t kLeastRowsInPanels = 4;
constexpr int64_t kMostRowsInPanels = INT64_MAX;
constexpr int64_t kInputPanel = 8;     // Rows
constexpr int64_t kMostTogether = 16;  // Rows of a product, whose sums fit the registers
#else
constexpr int64_t kLeastRowsInPanels = 8;
constexpr int64_t kMostRowsInPanels = 31;  // More of them wait for arithmetic alone.
constexpr int64_t kInputPanel = 4;
constexpr int64_t kMostTogether = 4;
#endif

// Inputs that products with bytes take in 16 bits do not lie in panels.
inline bool suits_input_panels(const Matrix &w, int64_t rows) {
    const bool is_coded = w.storage == kU4 || (w.storage == kU8 && !takes_wide(kU8));
    return rows >= kLeastRowsInPanels && rows <= kMostRowsInPanels && is_coded && !w.exact;
}

// Says where the rows of inputs lie, and their scales and sums.
class InputPanels {
  public:
    InputPanels(int64_t rows, const Matrix &w)
        : rows_(rows), in_(w.in), group_(w.group), products_((rows + kMostTogether - 1) / kMostTogether),
          together_((rows + products_ - 1) / products_), beside_(together_ > kInputPanel ? 2 : 1) {}

    int64_t groups() const { return in_ / group_; }
    int64_t group_size() const { return group_; }
    // Rows that are multiplied together. The last ones may be fewer.
    int64_t together() const { return together_; }
    // Rows that take a group of weights while it is in the first-level cache: several times those.
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
            // The sum of what is not finite fits no integer, and its scale is NaN anyway.
            to.starts[at] = std::isnan(rounded.unit) ? 0 : -16 * static_cast<int32_t>(rounded.sum);
            int8_t *quads = to.codes + panels.codes_at(panel, g) + 4 * (row - first);
            for (int64_t k = 0; k < group; k += 4) std::memcpy(quads + k * kInputPanel, codes + k, 4);
        }
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
