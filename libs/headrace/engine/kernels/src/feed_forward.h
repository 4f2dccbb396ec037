// Gated feed-forward blocks (Shazeer, 2020), of whole layers and of experts.

#pragma once

#include "abi.h"
#include "adapters.h"
#include "functions.h"
#include "product.h"

namespace headrace {
namespace HEADRACE_ISA {

// Applies the function of gates. Not inlined: products call it from each of their many kernels.
[[gnu::noinline]] inline Floats activated(int32_t function, Floats x) {
    with_function(function, 0.0f, [&x](const auto &f) { x = f(x); });
    return x;
}

// Gates of one block for some rows: function(gate) * raised(up).
class Gates {
  public:
    // `active` [rows, inner] receives them.
    Gates(const FeedForward &mlp, int32_t function, Products &products, const StepAdapters *adapters, float *active,
          int64_t rows)
        : mlp_(mlp), function_(function), products_(products), adapters_(adapters), active_(active), rows_(rows) {}

    int64_t inner() const { return mlp_.down.in; }

    // Whether gates and ups are in different storage.
    bool are_apart() const { return mlp_.up.out; }

    void gate_and_up(const Inputs &inputs) const {
        // Gate and up panels alternate, so each gate waits in this buffer for the up panel that follows it.
        thread_local float gates[kRowBlock * kPanel];
        products_.multiply_all(mlp_.gate_up, inputs, rows_, [this](int64_t panel, int64_t row, Floats y) {
            float *gate = gates + row % kRowBlock * kPanel;
            y = whole(mlp_.gate_up, panel, row, y);
            if (panel % 2 == 0)
                store(gate, activated(function_, y));
            else
                put(active_ + row * inner(), panel / 2, inner(), load(gate) * raised(function_, y));
        });
    }

    void gate(const Inputs &inputs) const {
        products_.multiply_all(mlp_.gate_up, inputs, rows_, [this](int64_t panel, int64_t row, Floats y) {
            put(active_ + row * inner(), panel, inner(), activated(function_, whole(mlp_.gate_up, panel, row, y)));
        });
    }

    // Expects the gates to be there.
    void up(const Inputs &inputs) const {
        products_.multiply_all(mlp_.up, inputs, rows_, [this](int64_t panel, int64_t row, Floats y) {
            float *to = active_ + row * inner();
            put(to, panel, inner(), get(to, panel, inner()) * raised(function_, whole(mlp_.up, panel, row, y)));
        });
    }

  private:
    Floats whole(const Matrix &w, int64_t panel, int64_t row, Floats y) const {
        y = biased(w, panel, y);
        return adapters_ ? adapters_->updated(panel, row, y) : y;
    }

    const FeedForward &mlp_;
    const int32_t function_;
    Products &products_;
    const StepAdapters *adapters_;
    float *active_;
    const int64_t rows_;
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
