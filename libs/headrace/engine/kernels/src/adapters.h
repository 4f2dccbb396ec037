// Adapters of a step: what each adds to the products of its rows (Hu et al., 2021).

#pragma once

#include "abi.h"
#include "functions.h"
#include "matrix.h"
#include "pool.h"
#include "product.h"
#include "storage_lanes.h"
#include "workspace.h"

namespace headrace {
namespace HEADRACE_ISA {

// The updates of one product at a time. Batch-invariant: an update depends on its row and adapter alone, and rows
// without an adapter are left as they are.
class StepAdapters {
  public:
    StepAdapters(const Model &model, const Step &step, Pool &pool, Workspace &space)
        : model_(model), step_(step), pool_(pool), space_(space) {
        if (step.adapters) find_groups();
    }

    // Computes scale * A x for the inputs x [rows, in] of a layer's product, in the order of its columns.
    void shrink(int64_t layer, Product product, const float *x) {
        if (!group_count_) return;
        const auto update_of = [&](int64_t adapter) -> const Update & {
            return model_.updates[(adapter * model_.layer_count + layer) * kProductCount + product];
        };
        int64_t panels = 0;
        for (int64_t i = 0; i < group_count_; ++i) panels = std::max(panels, panels_of(update_of(groups_[i]).shrink));
        is_active_ = panels > 0;
        if (!is_active_) return;
        point_at(update_of);
        stride_ = panels * kPanel;
        float *const shrunk = space_.shrunk.take(step_.row_count * stride_);
        shrunk_ = shrunk;
        const int64_t blocks = (step_.row_count + kRowBlock - 1) / kRowBlock;
        // Rows of one adapter in one task, so that its matrix is read once for all of them.
        pool_.run(group_count_ * panels * blocks, [&](int64_t task, int) {
            const int64_t adapter = groups_[task / blocks / panels];
            const int64_t panel = task / blocks % panels;
            const Update &update = update_of(adapter);
            if (panel >= panels_of(update.shrink)) return;
            const int64_t begin = task % blocks * kRowBlock;
            over_runs(adapter, begin, std::min(begin + kRowBlock, step_.row_count), [&](int64_t first, int64_t last) {
                const Inputs inputs{x, nullptr, nullptr, nullptr, nullptr};
                const auto finish = [&](int64_t, int64_t row, Floats y) {
                    const Floats scaled = y * get(update.scales, panel, update.shrink.out);
                    put(shrunk + row * stride_, panel, update.shrink.out, scaled);
                };
                multiply(update.shrink, inputs, panel, panel + 1, first, last, finish);
            });
        });
    }

    // Adds the update of a row to 16 of its outputs.
    Floats updated(int64_t panel, int64_t row, Floats y) const {
        return is_active_ && updates_[row] ? expanded(*updates_[row], panel, row, y) : y;
    }

  private:
    static int64_t panels_of(const Matrix &w) { return (w.out + kPanel - 1) / kPanel; }

    void find_groups() {
        groups_ = space_.groups.take(step_.span_count);
        updates_ = space_.updates.take(step_.row_count);
        for (int64_t i = 0; i < step_.span_count; ++i) {
            bool is_new = step_.adapters[i] >= 0;
            for (int64_t j = 0; j < group_count_; ++j) is_new &= groups_[j] != step_.adapters[i];
            if (is_new) groups_[group_count_++] = step_.adapters[i];
        }
    }

    template <typename UpdateOf> void point_at(const UpdateOf &update_of) {
        for (int64_t i = 0; i < step_.span_count; ++i) {
            const Update *update = step_.adapters[i] < 0 ? nullptr : &update_of(step_.adapters[i]);
            const Span &span = step_.spans[i];
            std::fill_n(updates_ + span.first_row, span.row_count, update && update->shrink.out ? update : nullptr);
        }
    }

    // Calls body(first, last) for the rows of an adapter from `begin` to `end`; rows that follow each other at once.
    template <typename Body> void over_runs(int64_t adapter, int64_t begin, int64_t end, const Body &body) const {
        int64_t first = -1;
        int64_t last = -1;
        for (int64_t i = 0; i < step_.span_count; ++i) {
            const Span &span = step_.spans[i];
            const int64_t from = std::max(begin, span.first_row);
            const int64_t to = std::min(end, span.first_row + span.row_count);
            if (step_.adapters[i] != adapter || from >= to) continue;
            if (from != last) {
                if (first >= 0) body(first, last);
                first = from;
            }
            last = to;
        }
        if (first >= 0) body(first, last);
    }

    // Not inlined: products call it from each of their many kernels.
    [[gnu::noinline]] Floats expanded(const Update &update, int64_t panel, int64_t row, Floats y) const {
        const float *shrunk = shrunk_ + row * stride_ + update.ranks[panel];
        const int64_t first = update.starts[panel];
        const int64_t count = update.starts[panel + 1] - first;
        Floats sum = spread(0.0f);
        for (int64_t k = 0; k < count; ++k)
            sum = fma(spread(shrunk[k]), load_any(update.expand, update.storage, (first + k) * kPanel), sum);
        return y + sum;
    }

    const Model &model_;
    const Step &step_;
    Pool &pool_;
    Workspace &space_;
    int64_t *groups_ = nullptr;         // Adapters of the step, each once
    const Update **updates_ = nullptr;  // [rows]: of the product; null: none
    const float *shrunk_ = nullptr;     // [rows, stride]
    int64_t group_count_ = 0;
    int64_t stride_ = 0;
    bool is_active_ = false;  // Whether any row has an update of the product
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
