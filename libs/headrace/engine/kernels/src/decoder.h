// One step of a pre-norm decoder (the Llama family): token ids in, logits out.

#pragma once

#include "abi.h"
#include "functions.h"
#include "paged_attention.h"
#include "product.h"
#include "rows.h"

namespace headrace {
namespace HEADRACE_ISA {

inline Floats load_any(const uint8_t *p, int32_t storage, int64_t at) {
    if (storage == kF32) return load(reinterpret_cast<const float *>(p) + at);
    if (storage == kBf16) return load_bf16(reinterpret_cast<const uint16_t *>(p) + at);
    return load_f16(reinterpret_cast<const uint16_t *>(p) + at);
}

class DecoderStep {
  public:
    DecoderStep(const Model &model, const Step &step, Pool &pool, Workspace &space)
        : model_(model), step_(step), pool_(pool), space_(space), products_(pool, space),
          attention_(model, step, pool, space), rows_(step.row_count) {
        hidden_ = space.hidden.take(rows_ * model.hidden);
        qkv_ = space.qkv.take(rows_ * heads() * model.head_size);
        attended_ = space.attended.take(rows_ * model.head_count * model.head_size);
        active_ = space.active.take(rows_ * model.intermediate);
    }

    void run() {
        over_rows(pool_, rows_, [&](int64_t row) { embed(row); });
        for (int64_t index = 0; index < model_.layer_count; ++index) compute(model_.layers[index]);
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

    void compute(const Layer &layer) {
        const int64_t hidden = model_.hidden;
        project(layer, layer.qkv, 0);
        for (int64_t i = 0, first = layer.qkv.out; i < 2 && layer.qkv_rest[i].out; first += layer.qkv_rest[i++].out)
            project(layer, layer.qkv_rest[i], first);
        attention_.run(layer, qkv_, attended_);
        const Inputs attended = products_.prepare(layer.output, attended_, rows_);
        products_.multiply_all(layer.output, attended, rows_, [&](int64_t panel, int64_t row, Floats y) {
            add(hidden_ + row * hidden, panel, hidden, biased(layer.output, panel, y));
        });
        feed_forward(layer);
    }

    // Computes `w.out` queries, keys and values, from number `first` on.
    void project(const Layer &layer, const Matrix &w, int64_t first) {
        const int64_t width = heads() * model_.head_size;
        const Inputs normed = products_.prepare_normed(w, hidden_, layer.attention_norm, model_.epsilon, rows_);
        products_.multiply_all(w, normed, rows_, [&](int64_t panel, int64_t row, Floats y) {
            put(qkv_ + row * width + first, panel, w.out, biased(w, panel, y));
        });
    }

    void feed_forward(const Layer &layer) {
        const int64_t hidden = model_.hidden;
        if (layer.up.out)
            gate_apart(layer);
        else
            gate(layer);
        const Inputs active = products_.prepare(layer.down, active_, rows_);
        products_.multiply_all(layer.down, active, rows_, [&](int64_t panel, int64_t row, Floats y) {
            add(hidden_ + row * hidden, panel, hidden, biased(layer.down, panel, y));
        });
    }

    void gate(const Layer &layer) {
        const int64_t inner = model_.intermediate;
        const Inputs normed = products_.prepare_normed(layer.gate_up, hidden_, layer.mlp_norm, model_.epsilon, rows_);
        // Gate and up panels alternate, so each gate waits in this buffer for the up panel that follows it.
        thread_local float gates[kRowBlock * kPanel];
        products_.multiply_all(layer.gate_up, normed, rows_, [&](int64_t panel, int64_t row, Floats y) {
            float *gate = gates + row % kRowBlock * kPanel;
            if (panel % 2 == 0)
                store(gate, silu(biased(layer.gate_up, panel, y)));
            else
                put(active_ + row * inner, panel / 2, inner, load(gate) * biased(layer.gate_up, panel, y));
        });
    }

    // As `gate`, where gates and ups are in different storage.
    void gate_apart(const Layer &layer) {
        const int64_t inner = model_.intermediate;
        const auto prepare = [&](const Matrix &w) {
            return products_.prepare_normed(w, hidden_, layer.mlp_norm, model_.epsilon, rows_);
        };
        products_.multiply_all(layer.gate_up, prepare(layer.gate_up), rows_, [&](int64_t panel, int64_t row, Floats y) {
            put(active_ + row * inner, panel, inner, silu(biased(layer.gate_up, panel, y)));
        });
        products_.multiply_all(layer.up, prepare(layer.up), rows_, [&](int64_t panel, int64_t row, Floats y) {
            float *to = active_ + row * inner;
            put(to, panel, inner, get(to, panel, inner) * biased(layer.up, panel, y));
        });
    }

    void finish() {
        const int64_t hidden = model_.hidden;
        const int64_t count = step_.logit_count;
        if (step_.hidden)
            over_rows(pool_, rows_, [&](int64_t row) {
                normalize(hidden_ + row * hidden, model_.final_norm, hidden, model_.epsilon,
                          step_.hidden + row * hidden);
            });
        if (!count) return;
        // Only rows that need logits go through the head; `ordered` gathers them.
        float *wanted = space_.ordered.take(count * hidden);
        over_rows(pool_, count, [&](int64_t i) {
            std::memcpy(wanted + i * hidden, hidden_ + step_.logit_rows[i] * hidden, hidden * sizeof(float));
        });
        const Inputs normed = products_.prepare_normed(model_.head, wanted, model_.final_norm, model_.epsilon, count);
        products_.multiply_all(model_.head, normed, count, [&](int64_t panel, int64_t row, Floats y) {
            put(step_.logits + row * model_.vocabulary, panel, model_.vocabulary, biased(model_.head, panel, y));
        });
    }

    const Model &model_;
    const Step &step_;
    Pool &pool_;
    Workspace &space_;
    Products products_;
    PagedAttention attention_;
    int64_t rows_;
    float *hidden_, *qkv_, *attended_, *active_;
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
