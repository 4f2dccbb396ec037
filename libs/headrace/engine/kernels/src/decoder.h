// One step of a decoder: token ids in; logits out, or normalized hidden states of a model without a head.

#pragma once

#include "abi.h"
#include "adapters.h"
#include "experts.h"
#include "feed_forward.h"
#include "functions.h"
#include "paged_attention.h"
#include "product.h"
#include "rows.h"
#include "storage_lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

class DecoderStep {
  public:
    DecoderStep(const Model &model, const Step &step, Pool &pool, Workspace &space)
        : model_(model), step_(step), pool_(pool), space_(space), products_(pool, space),
          attention_(model, step, pool, space), adapters_(model, step, pool, space), rows_(step.row_count) {
        hidden_ = space.hidden.take(rows_ * model.hidden);
        qkv_ = space.qkv.take(rows_ * heads() * model.head_size);
        attended_ = space.attended.take(rows_ * model.head_count * model.head_size);
        branch_ = space.branch.take(rows_ * model.hidden);
    }

    void run() {
        over_rows(pool_, rows_, [&](int64_t row) { embed(row); });
        for (int64_t index = 0; index < model_.layer_count; ++index) {
            keep(index);
            compute(index);
        }
        keep(model_.layer_count);
        finish();
    }

  private:
    int64_t heads() const { return model_.head_count + 2 * model_.kv_head_count; }

    void embed(int64_t row) {
        const int64_t from = step_.token_ids[row] * model_.hidden;
        float *to = hidden_ + row * model_.hidden;
        const bool has_blocks = is_block(model_.embedding_storage);
        if (has_blocks)
            dequantize_row(model_.embedding, model_.embedding_storage, model_.hidden, step_.token_ids[row], to);
        for (int64_t i = 0; i < model_.hidden; i += kLanes) {
            const Floats value =
                has_blocks ? load(to + i) : load_any(model_.embedding, model_.embedding_storage, from + i);
            store(to + i, value * spread(model_.embedding_scale));
        }
    }

    // Copies the hidden states that a layer gets, where a draft head wants them.
    void keep(int64_t index) {
        const int64_t hidden = model_.hidden;
        for (int64_t i = 0; i < step_.auxiliary_count; ++i) {
            if (step_.auxiliary_layers[i] != index) continue;
            over_rows(pool_, rows_, [&](int64_t row) {
                float *to = step_.auxiliary + (row * step_.auxiliary_count + i) * hidden;
                std::memcpy(to, hidden_ + row * hidden, hidden * sizeof(float));
            });
        }
    }

    void compute(int64_t index) {
        const Layer &layer = model_.layers[index];
        project(index, layer.qkv, kQkv, 0);
        int64_t first = layer.qkv.out;
        for (int i = 0; i < 2 && layer.qkv_rest[i].out; first += layer.qkv_rest[i++].out)
            project(index, layer.qkv_rest[i], static_cast<Product>(kQkv1 + i), first);
        attention_.run(layer, qkv_, attended_);
        add_product(index, layer.output, kOutput, attended_, layer.post_attention_norm);
        if (layer.experts) {
            Experts(model_, products_, pool_, space_, rows_).run(layer, hidden_, branch_);
            add_branch(layer.post_mlp_norm);
        } else {
            feed_forward(index);
        }
    }

    // Computes `w.out` queries, keys and values, from number `first` on.
    void project(int64_t index, const Matrix &w, Product product, int64_t first) {
        const int64_t width = heads() * model_.head_size;
        const Inputs normed = normalized(index, w, product, model_.layers[index].attention_norm);
        products_.multiply_all(w, normed, rows_, [&](int64_t panel, int64_t row, Floats y) {
            put(qkv_ + row * width + first, panel, w.out, adapters_.updated(panel, row, biased(w, panel, y)));
        });
    }

    // Prepares the inputs of a product from normalized hidden states, and its updates.
    Inputs normalized(int64_t index, const Matrix &w, Product product, const float *norm) {
        const Inputs inputs = products_.prepare_normed(w, hidden_, norm, model_.epsilon, rows_);
        adapters_.shrink(index, product, inputs.plain);
        return inputs;
    }

    void feed_forward(int64_t index) {
        const Layer &layer = model_.layers[index];
        const FeedForward &mlp = layer.mlp;
        float *active = space_.active.take(rows_ * mlp.down.in);
        const Gates gates(mlp, model_.activation, products_, &adapters_, active, rows_);
        const Inputs normed = normalized(index, mlp.gate_up, kGateUp, layer.mlp_norm);
        if (gates.are_apart()) {
            gates.gate(normed);
            gates.up(normalized(index, mlp.up, kUp, layer.mlp_norm));
        } else {
            gates.gate_and_up(normed);
        }
        add_product(index, mlp.down, kDown, active, layer.post_mlp_norm);
    }

    // Adds the product of x to the hidden states, normalized before where there is a norm. Reorders x in place where
    // `w` has an order.
    void add_product(int64_t index, const Matrix &w, Product product, float *x, const float *norm) {
        const int64_t hidden = model_.hidden;
        const Inputs inputs = products_.prepare(w, x, rows_);
        adapters_.shrink(index, product, x);
        products_.multiply_all(w, inputs, rows_, [&](int64_t panel, int64_t row, Floats y) {
            y = adapters_.updated(panel, row, biased(w, panel, y));
            if (norm)
                put(branch_ + row * hidden, panel, hidden, y);
            else
                add(hidden_ + row * hidden, panel, hidden, y);
        });
        if (norm) add_branch(norm);
    }

    // Adds what a block has left in `branch_`, normalized before where there is a norm.
    void add_branch(const float *norm) {
        const int64_t hidden = model_.hidden;
        over_rows(pool_, rows_, [&](int64_t row) {
            float *from = branch_ + row * hidden;
            float *to = hidden_ + row * hidden;
            if (norm) normalize(from, norm, hidden, model_.epsilon, from);
            for (int64_t i = 0; i < hidden; i += kLanes) store(to + i, load(to + i) + load(from + i));
        });
    }

    void finish() {
        const int64_t hidden = model_.hidden;
        const int64_t count = step_.logit_count;
        if (!count) return;
        if (!model_.head.out) {
            over_rows(pool_, count, [&](int64_t i) {
                normalize(hidden_ + step_.logit_rows[i] * hidden, model_.final_norm, hidden, model_.epsilon,
                          step_.logits + i * hidden);
            });
            return;
        }
        // Only rows that need logits go through the head; `ordered` gathers them.
        float *wanted = space_.ordered.take(count * hidden);
        over_rows(pool_, count, [&](int64_t i) {
            std::memcpy(wanted + i * hidden, hidden_ + step_.logit_rows[i] * hidden, hidden * sizeof(float));
        });
        const Inputs normed = products_.prepare_normed(model_.head, wanted, model_.final_norm, model_.epsilon, count);
        products_.multiply_all(model_.head, normed, count, [&](int64_t panel, int64_t row, Floats y) {
            y = biased(model_.head, panel, y);
            if (model_.logit_soft_cap) y = capped(y);
            put(step_.logits + row * model_.vocabulary, panel, model_.vocabulary, y);
        });
    }

    // Not inlined: the product of the head calls it from each of its many kernels.
    [[gnu::noinline]] Floats capped(Floats y) const { return soft_cap(y, model_.logit_soft_cap); }

    const Model &model_;
    const Step &step_;
    Pool &pool_;
    Workspace &space_;
    Products products_;
    PagedAttention attention_;
    StepAdapters adapters_;
    int64_t rows_;
    float *hidden_, *qkv_, *attended_, *branch_;
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
