// Products on several threads: inputs are prepared row by row, and panels of weights are split into tasks.

#pragma once

#include "abi.h"
#include "block_inputs.h"
#include "block_matrix.h"
#include "lanes.h"
#include "matrix.h"
#include "rows.h"
#include "workspace.h"

#if defined(HEADRACE_PANELS)
#include "panel_product.h"
#endif
#if defined(HEADRACE_AMX)
#include "tile_product.h"
#endif

namespace headrace {
namespace HEADRACE_ISA {

constexpr int64_t kTaskBytes = 48 * 1024;  // Least bytes of weights per task.
constexpr int64_t kTasksPerThread = 8;     // With many rows: enough to balance the load when a thread is slow.

// Load and store a panel's 16 elements of a row of `size`. The last panel may have a tail.
inline Floats get(const float *p, int64_t panel, int64_t size) {
    return load_some(p + panel * kPanel, size - panel * kPanel);
}
inline void put(float *p, int64_t panel, int64_t size, Floats y) {
    store_some(p + panel * kPanel, y, size - panel * kPanel);
}

inline void add(float *p, int64_t panel, int64_t size, Floats y) { put(p, panel, size, get(p, panel, size) + y); }

inline Floats biased(const Matrix &w, int64_t panel, Floats y) { return w.bias ? y + get(w.bias, panel, w.out) : y; }

class Products {
  public:
    Products(Pool &pool, Workspace &space) : pool_(pool), space_(space) {}

    // Prepares the inputs of `w` from RMS-normalized rows of x: the first `rows` of them, or those that `chosen` names.
    Inputs prepare_normed(const Matrix &w, const float *x, const float *norm, float epsilon, int64_t rows,
                          const int64_t *chosen = nullptr) {
        float *normed = space_.normed.take(rows * w.in);
        return prepare_rows(w, normed, rows, [=](int64_t row) {
            normalize(x + (chosen ? chosen[row] : row) * w.in, norm, w.in, epsilon, normed + row * w.in);
        });
    }

    // Prepares the inputs of `w` from the rows of x. Reorders x in place where `w` has an order.
    Inputs prepare(const Matrix &w, float *x, int64_t rows) {
        return prepare_rows(w, x, rows, [](int64_t) {});
    }

    // Calls finish(panel, row, y) for all panels of `w` and rows. The same thread finishes panels 2i and 2i + 1, in
    // that order, and no more than kRowBlock rows of one before the other.
    template <typename Finish> void multiply_all(const Matrix &w, const Inputs &x, int64_t rows, const Finish &finish) {
#if defined(HEADRACE_AMX)
        if (suits_tiles(w, rows)) return multiply_all_on_tiles(w, x, rows, pool_, finish);
#endif
        const int64_t pairs = ((w.out + kPanel - 1) / kPanel + 1) / 2;
        const int64_t panels = (w.out + kPanel - 1) / kPanel;
        const int64_t pair_bytes = 2 * panel_bytes(w);
        // With many rows even a few panels are worth a task.
        int64_t each = rows >= kRowBlock ? 4 : (kTaskBytes + pair_bytes - 1) / pair_bytes;
        const int64_t most = (pairs + 4 * pool_.thread_count() - 1) / (4 * pool_.thread_count());
        if (rows < kRowBlock && most > each) each = most;
        const int64_t columns = (pairs + each - 1) / each;
        const int64_t row_blocks = (rows + x.row_block - 1) / x.row_block;
        // A narrow matrix has few panels, so its rows are split too.
        const int64_t wanted = (kTasksPerThread * pool_.thread_count() + columns - 1) / columns;
        const int64_t parts = pool_.thread_count() == 1 || wanted < 1 ? 1 : wanted < row_blocks ? wanted : row_blocks;
        pool_.run(columns * parts, [&](int64_t task, int) {
            const int64_t first = task / parts * each;
            const int64_t end = first + each < pairs ? first + each : pairs;
            const int64_t part = task % parts;
            const int64_t last = (part + 1) * row_blocks / parts * x.row_block;
            for (int64_t row = part * row_blocks / parts * x.row_block; row < last && row < rows; row += x.row_block) {
                const int64_t last_row = row + x.row_block < rows ? row + x.row_block : rows;
                multiply(w, x, 2 * first, 2 * end < panels ? 2 * end : panels, row, last_row, finish);
            }
        });
    }

  private:
    // Calls first(row) for each row of x, then reorders and quantizes the row as `w` needs.
    template <typename First> Inputs prepare_rows(const Matrix &w, float *x, int64_t rows, const First &first) {
        if (is_block(w.storage)) return prepare_for_blocks(w, x, rows, first, pool_, space_);
#if defined(HEADRACE_AMX)
        if (suits_tiles(w, rows)) return prepare_for_tiles(w, x, rows, first);
#endif
#if defined(HEADRACE_PANELS)
        if (suits_input_panels(w, rows)) return prepare_panels(w, x, rows, first);
#endif
        const bool coded = w.storage >= kU4 && !w.exact;
        const int64_t groups = coded ? w.in / w.group : 0;
        float *scales = space_.scales.take(rows * groups);
        float *sums = space_.sums.take(rows * groups);
        int8_t *codes = space_.codes.take(coded ? rows * w.in : 0);
        int16_t *wide = space_.wide.take(coded && takes_wide(w.storage) ? rows * w.in : 0);
        over_rows(pool_, rows, [&](int64_t row) {
            first(row);
            float *values = x + row * w.in;
            if (w.order) reorder(values, w);
            if (!coded) return;
            quantize_row(values, w.in, w.group, codes + row * w.in, scales + row * groups, sums + row * groups);
            if (takes_wide(w.storage)) widen(codes + row * w.in, w.in, wide + row * w.in);
        });
        return coded ? Inputs{x, codes, scales, sums, nullptr, wide} : Inputs{x, nullptr, nullptr, nullptr};
    }

#if defined(HEADRACE_PANELS)
    // Does as `prepare_rows`, with the layout in input_panels.h.
    template <typename First> Inputs prepare_panels(const Matrix &w, float *x, int64_t rows, const First &first) {
        const InputPanels panels(rows, w);
        const PanelArrays to{space_.codes.take(panels.code_count()), space_.scales.take(panels.group_count()),
                             space_.sums.take(panels.group_count()), space_.words.take(panels.group_count())};
        pool_.run(panels.count(), [&](int64_t panel, int) {
            for (int64_t row = panels.first_row(panel); row < panels.last_row(panel); ++row) {
                first(row);
                if (w.order) reorder(x + row * w.in, w);
            }
            quantize_into_panel(panels, panel, x, to);
        });
        return Inputs{x, to.codes, to.scales, to.sums, to.starts, nullptr, rows, panels.row_block()};
    }
#endif

#if defined(HEADRACE_AMX)
    // Does as `prepare_rows`, with the layout in tile_product.h.
    template <typename First> Inputs prepare_for_tiles(const Matrix &w, float *x, int64_t rows, const First &first) {
        const int64_t padded = row_blocks(rows) * kTileRows;
        int8_t *codes = space_.codes.take(padded * w.in);
        float *scales = space_.scales.take(padded * (w.in / w.group));
        float *sums = space_.sums.take(padded * (w.in / w.group));
        over_rows(pool_, rows, [&](int64_t row) {
            first(row);
            float *values = x + row * w.in;
            if (w.order) reorder(values, w);
            quantize_for_tiles(w, values, row, rows, codes, scales, sums);
        });
        return Inputs{x, codes, scales, sums};
    }
#endif

    static void reorder(float *values, const Matrix &w) {
        thread_local std::vector<float> copy;
        copy.assign(values, values + w.in);
        for (int64_t k = 0; k < w.in; ++k) values[k] = copy[w.order[k]];
    }

    Pool &pool_;
    Workspace &space_;
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
