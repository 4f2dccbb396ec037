// A sparse mixture of feed-forward blocks (Shazeer et al., 2017), as in Mixtral and Qwen3-MoE.

#pragma once

#include "abi.h"
#include "feed_forward.h"
#include "product.h"
#include "rows.h"
#include "workspace.h"

namespace headrace {
namespace HEADRACE_ISA {

// Sends each row through the experts with the highest scores and sums their outputs, weighted. An expert computes only
// the rows that chose it; a row's outputs are summed in the order of the experts' numbers, so that its result does not
// depend on what other rows choose.
class Experts {
  public:
    Experts(const Model &model, Products &products, Pool &pool, Workspace &space, int64_t rows)
        : model_(model), products_(products), pool_(pool), space_(space), rows_(rows) {}

    // `hidden` [rows, hidden] is normalized by the layer's norm first. `sums` [rows, hidden] receives the outputs.
    void run(const Layer &layer, const float *hidden, float *sums) {
        route_all(layer, hidden);
        group();
        std::fill_n(sums, rows_ * model_.hidden, 0.0f);
        for (int64_t expert = 0; expert < expert_count(); ++expert)
            if (firsts_[expert] < firsts_[expert + 1]) compute(layer, expert, hidden, sums);
    }

  private:
    int64_t expert_count() const { return model_.routing.expert_count + (model_.routing.shared ? 1 : 0); }

    int64_t chosen_count() const { return places_of(model_.routing); }

    void route_all(const Layer &layer, const float *hidden) {
        const Matrix &router = layer.router;
        float *scores = space_.scores.take(rows_ * router.out);
        shares_ = space_.shares.take(rows_ * chosen_count());
        chosen_ = space_.chosen.take(rows_ * chosen_count());
        const Inputs normed = products_.prepare_normed(router, hidden, layer.mlp_norm, model_.epsilon, rows_);
        products_.multiply_all(router, normed, rows_, [&](int64_t panel, int64_t row, Floats y) {
            put(scores + row * router.out, panel, router.out, biased(router, panel, y));
        });
        Routing routing = model_.routing;
        routing.bias = layer.router_bias;
        route_rows(routing, scores, shares_, chosen_, rows_, pool_);
    }

    // Lists the choices of each expert, which are places in `chosen_`, ascending.
    void group() {
        const int64_t count = expert_count();
        const int64_t total = rows_ * chosen_count();
        firsts_ = space_.firsts.take(count + 2);
        rows_of_ = space_.places.take(2 * total);
        int64_t *places = rows_of_ + total;
        std::fill_n(firsts_, count + 2, 0);
        for (int64_t i = 0; i < total; ++i) ++firsts_[chosen_[i] + 2];
        for (int64_t expert = 1; expert <= count; ++expert) firsts_[expert + 1] += firsts_[expert];
        for (int64_t i = 0; i < total; ++i) {
            const int64_t at = firsts_[chosen_[i] + 1]++;
            rows_of_[at] = i / chosen_count();
            places[at] = i;
        }
    }

    void compute(const Layer &layer, int64_t expert, const float *hidden, float *sums) {
        const FeedForward &mlp = layer.experts[expert];
        const int64_t *rows = rows_of_ + firsts_[expert];
        const int64_t *places = rows + rows_ * chosen_count();
        const int64_t count = firsts_[expert + 1] - firsts_[expert];
        float *active = space_.active.take(count * mlp.down.in);
        const auto prepare = [&](const Matrix &w) {
            return products_.prepare_normed(w, hidden, layer.mlp_norm, model_.epsilon, count, rows);
        };
        const Gates gates(mlp, model_.activation, products_, nullptr, active, count);
        if (gates.are_apart()) {
            gates.gate(prepare(mlp.gate_up));
            gates.up(prepare(mlp.up));
        } else {
            gates.gate_and_up(prepare(mlp.gate_up));
        }
        const Inputs inputs = products_.prepare(mlp.down, active, count);
        products_.multiply_all(mlp.down, inputs, count, [&](int64_t panel, int64_t i, Floats y) {
            const Floats weighted = biased(mlp.down, panel, y) * spread(shares_[places[i]]);
            add(sums + rows[i] * model_.hidden, panel, model_.hidden, weighted);
        });
    }

    const Model &model_;
    Products &products_;
    Pool &pool_;
    Workspace &space_;
    const int64_t rows_;
    float *shares_ = nullptr;     // [rows, chosen]
    int64_t *chosen_ = nullptr;   // [rows, chosen]
    int64_t *firsts_ = nullptr;   // [experts + 1]: where the rows of each expert begin
    int64_t *rows_of_ = nullptr;  // [rows * chosen]: rows, expert by expert; behind them, their places in `chosen_`
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
