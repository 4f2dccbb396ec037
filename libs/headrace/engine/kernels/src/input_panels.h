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
    // Codes from one group to the next.
    int64_t codes_between() const { return beside_ * group_ * kInputPanel; }
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

// Writes the codes of four rows, which lie kLargestGroup apart, to a panel: four columns of each row in turn.
inline void interleave_rows(const int8_t *codes, int64_t columns, int8_t *to) {
    const auto row = [=](int64_t k) { return _mm_load_si128((const __m128i *)(codes + k)); };
    for (int64_t k = 0; k < columns; k += 16, to += 16 * kInputPanel) {
        const __m128i a = row(k), b = row(kLargestGroup + k), c = row(2 * kLargestGroup + k),
                      d = row(3 * kLargestGroup + k);
        const __m128i first_ab = _mm_unpacklo_epi32(a, b), last_ab = _mm_unpackhi_epi32(a, b);
        const __m128i first_cd = _mm_unpacklo_epi32(c, d), last_cd = _mm_unpackhi_epi32(c, d);
        _mm_storeu_si128((__m128i *)to, _mm_unpacklo_epi64(first_ab, first_cd));
        _mm_storeu_si128((__m128i *)(to + 4 * kInputPanel), _mm_unpackhi_epi64(first_ab, first_cd));
        _mm_storeu_si128((__m128i *)(to + 8 * kInputPanel), _mm_unpacklo_epi64(last_ab, last_cd));
        _mm_storeu_si128((__m128i *)(to + 12 * kInputPanel), _mm_unpackhi_epi64(last_ab, last_cd));
    }
}

// Quantizes the rows of a panel as `quantize_row` does. It takes group by group, so that the cache lines that rows
// share stay in the first-level cache.
inline void quantize_into_panel(const InputPanels &panels, int64_t panel, const float *x, const PanelArrays &to) {
    const int64_t group = panels.group_size();
    const int64_t first = panels.first_row(panel), count = panels.last_row(panel) - first;
    alignas(64) int8_t codes[kInputPanel][kLargestGroup] = {};
    for (int64_t g = 0; g < panels.groups(); ++g) {
        for (int64_t i = 0; i < count; ++i) {
            const Rounded rounded =
                round_to_codes(x + ((first + i) * panels.groups() + g) * group, group, 127.0f, codes[i]);
            const int64_t at = panels.scales_at(panel, g) + i;
            to.scales[at] = rounded.unit;
            to.sums[at] = rounded.sum;
            // The sum of what is not finite fits no integer, and its scale is NaN anyway.
            to.starts[at] = std::isnan(rounded.unit) ? 0 : -16 * static_cast<int32_t>(rounded.sum);
        }
        for (int64_t i = 0; i < count; i += 4)
            interleave_rows(codes[i], group, to.codes + panels.codes_at(panel, g) + 4 * i);
    }
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
