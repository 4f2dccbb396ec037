// Products of a step: inputs prepared row by row, panels shared out among the threads.

#pragma once

#include "abi.h"
#include "lanes.h"
#include "matrix.h"
#include "rows.h"
#include "workspace.h"

namespace headrace {
inline namespace HEADRACE_ISA {

constexpr int64_t kRowBlock = 64;            // Rows of x that stay in the cache while panels pass by.
constexpr int64_t kTaskBytes = 48 * 1024;    // Weights that are worth handing out.
constexpr int64_t kTasksPerThread = 8;       // Of a product with many rows, so that a slow thread leaves some to the others.

// Sixteen numbers at a panel's place in a row of `size`, the last ones missing perhaps.
inline Floats get(const float *p, int64_t panel, int64_t size) { return load_some(p + panel * kPanel, size - panel * kPanel); }
inline void put(float *p, int64_t panel, int64_t size, Floats y) { store_some(p + panel * kPanel, y, size - panel * kPanel); }

inline void add(float *p, int64_t panel, int64_t size, Floats y) { put(p, panel, size, get(p, panel, size) + y); }

inline Floats biased(const Matrix &w, int64_t panel, Floats y) { return w.bias ? y + get(w.bias, panel, w.out) : y; }

class Products {
  public:
    Products(Pool &pool, Workspace &space) : pool_(pool), space_(space) {}

    // Inputs of `w` from normalised rows of x.
    Inputs prepare_normed(const Matrix &w, const float *x, const float *norm, float epsilon, int64_t rows) {
        float *normed = space_.normed.take(rows * w.in);
        return prepare_rows(w, normed, rows, [=](int64_t row) { normalise(x + row * w.in, norm, w.in, epsilon, normed + row * w.in); });
    }

    // Inputs of `w` from the rows of x, which may change.
    Inputs prepare(const Matrix &w, float *x, int64_t rows) {
        return prepare_rows(w, x, rows, [](int64_t) {});
    }

    // Calls finish(panel, row, y) for all panels of `w` and rows; for each pair of panels, the even one first.
    template <typename Finish> void multiply_all(const Matrix &w, const Inputs &x, int64_t rows, const Finish &finish) {
        const int64_t pairs = ((w.out + kPanel - 1) / kPanel + 1) / 2, panels = (w.out + kPanel - 1) / kPanel;
        const int64_t pair_bytes = 2 * panel_bytes(w);
        // Many rows make even a pair of panels worth a task; enough tasks let a slow thread leave some to the others.
        int64_t each = rows >= kRowBlock ? 4 : (kTaskBytes + pair_bytes - 1) / pair_bytes;
        const int64_t most = (pairs + 4 * pool_.thread_count() - 1) / (4 * pool_.thread_count());
        if (rows < kRowBlock && most > each) each = most;
        const int64_t columns = (pairs + each - 1) / each, row_blocks = (rows + kRowBlock - 1) / kRowBlock;
        // A narrow matrix gives few tasks, so that its rows are shared out too.
        const int64_t wanted = (kTasksPerThread * pool_.thread_count() + columns - 1) / columns;
        const int64_t parts = pool_.thread_count() == 1 || wanted < 1 ? 1 : wanted < row_blocks ? wanted : row_blocks;
        pool_.run(columns * parts, [&](int64_t task, int) {
            const int64_t first = task / parts * each, end = first + each < pairs ? first + each : pairs;
            const int64_t part = task % parts, last = (part + 1) * row_blocks / parts * kRowBlock;
            for (int64_t row = part * row_blocks / parts * kRowBlock; row < last && row < rows; row += kRowBlock) {
                const int64_t last_row = row + kRowBlock < rows ? row + kRowBlock : rows;
                multiply(w, x, 2 * first, 2 * end < panels ? 2 * end : panels, row, last_row, finish);
            }
        });
    }

  private:
    // Puts the rows of x in the order of the columns and quantises them, as `w` wants it.
    template <typename First> Inputs prepare_rows(const Matrix &w, float *x, int64_t rows, const First &first) {
        const bool coded = w.storage >= kU4 && !w.exact;
        const int64_t groups = coded ? w.in / w.group : 0;
        Inputs inputs{x, nullptr, nullptr, nullptr, nullptr};
        float *scales = space_.scales.take(rows * groups), *sums = space_.sums.take(rows * groups);
        int8_t *codes8 = space_.codes8.take(w.storage == kU4 ? rows * w.in : 0);
        int16_t *codes16 = space_.codes16.take(w.storage == kS8 ? rows * w.in : 0);
        over_rows(pool_, rows, [&](int64_t row) {
            first(row);
            float *values = x + row * w.in;
            if (w.order) reorder(values, w);
            if (coded && w.storage == kU4) quantise_row(values, w.in, w.group, codes8 + row * w.in, scales + row * groups, sums + row * groups);
            if (coded && w.storage == kS8) quantise_row(values, w.in, w.group, codes16 + row * w.in, scales + row * groups, sums + row * groups);
        });
        if (coded) inputs = Inputs{nullptr, codes8, codes16, scales, sums};
        return inputs;
    }

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
