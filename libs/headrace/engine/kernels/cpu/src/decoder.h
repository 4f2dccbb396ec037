// One step of a decoder with norms before its blocks (Llama and its relatives): tokens in, logits out.

#pragma once

#include <cmath>
#include <vector>

#include "abi.h"
#include "attention.h"
#include "product.h"

namespace headrace {
inline namespace HEADRACE_ISA {

constexpr int64_t kQueryRows = 16;           // Of attention.

inline Floats load_any(const uint8_t *p, int32_t storage, int64_t at) {
    if (storage == kF32) return load(reinterpret_cast<const float *>(p) + at);
    if (storage == kBf16) return load_bf16(reinterpret_cast<const uint16_t *>(p) + at);
    return load_f16(reinterpret_cast<const uint16_t *>(p) + at);
}

// Turns pairs (i, i + rotary / 2) by the angles of one position (Su et al., 2021).
inline void rotate(float *head, const float *cosine, const float *sine, int64_t rotary) {
    const int64_t half = rotary / 2;
    for (int64_t i = 0; i < half; ++i) {
        const float first = head[i], second = head[i + half];
        head[i] = first * cosine[i] - second * sine[i];
        head[i + half] = second * cosine[i] + first * sine[i];
    }
}

class DecoderStep {
  public:
    DecoderStep(const Model &model, const Step &step, Pool &pool, Workspace &space)
        : model_(model), step_(step), pool_(pool), space_(space), products_(pool, space), rows_(step.row_count) {
        hidden_ = space.hidden.take(rows_ * model.hidden);
        qkv_ = space.qkv.take(rows_ * heads() * model.head_size);
        attended_ = space.attended.take(rows_ * model.head_count * model.head_size);
        active_ = space.active.take(rows_ * model.intermediate);
    }

    void run() {
        products_.over_rows(rows_, [&](int64_t row) { embed(row); });
        for (int64_t index = 0; index < model_.layer_count; ++index) compute(model_.layers[index]);
        finish();
    }

  private:
    int64_t heads() const { return model_.head_count + 2 * model_.kv_head_count; }

    void embed(int64_t row) {
        const int64_t from = step_.token_ids[row] * model_.hidden;
        for (int64_t i = 0; i < model_.hidden; i += kLanes) {
            const Floats value = load_any(model_.embedding, model_.embedding_storage, from + i);
            store(hidden_ + row * model_.hidden + i, value * spread(model_.embedding_scale));
        }
    }

    void compute(const Layer &layer) {
        const int64_t hidden = model_.hidden, width = heads() * model_.head_size;
        const Inputs normed = products_.prepare_normed(layer.qkv, hidden_, layer.attention_norm, model_.epsilon, rows_);
        products_.multiply_all(layer.qkv, normed, rows_, [&](int64_t panel, int64_t row, Floats y) {
            put(qkv_ + row * width, panel, width, biased(layer.qkv, panel, y));
        });
        products_.over_rows(rows_, [&](int64_t row) { turn_and_store(layer, row); });
        attend_all(layer);
        products_.multiply_all(layer.output, products_.prepare(layer.output, attended_, rows_), rows_, [&](int64_t panel, int64_t row, Floats y) {
            add(hidden_ + row * hidden, panel, hidden, biased(layer.output, panel, y));
        });
        feed_forward(layer);
    }

    void feed_forward(const Layer &layer) {
        const int64_t hidden = model_.hidden, inner = model_.intermediate;
        const Inputs normed = products_.prepare_normed(layer.gate_up, hidden_, layer.mlp_norm, model_.epsilon, rows_);
        // Panels of gate and up take turns: what a gate panel leaves is taken up by the next one.
        thread_local float gates[kRowBlock * kPanel];
        products_.multiply_all(layer.gate_up, normed, rows_, [&](int64_t panel, int64_t row, Floats y) {
            float *gate = gates + row % kRowBlock * kPanel;
            if (panel % 2 == 0)
                store(gate, silu(biased(layer.gate_up, panel, y)));
            else
                put(active_ + row * inner, panel / 2, inner, load(gate) * biased(layer.gate_up, panel, y));
        });
        products_.multiply_all(layer.down, products_.prepare(layer.down, active_, rows_), rows_, [&](int64_t panel, int64_t row, Floats y) {
            add(hidden_ + row * hidden, panel, hidden, biased(layer.down, panel, y));
        });
    }

    void finish() {
        const int64_t hidden = model_.hidden, count = step_.logit_count;
        if (step_.hidden)
            products_.over_rows(rows_, [&](int64_t row) {
                normalise(hidden_ + row * hidden, model_.final_norm, hidden, model_.epsilon, step_.hidden + row * hidden);
            });
        if (!count) return;
        // The rows that are wanted move to the front, in a buffer that is free by now.
        float *wanted = space_.ordered.take(count * hidden);
        products_.over_rows(count, [&](int64_t i) {
            std::memcpy(wanted + i * hidden, hidden_ + step_.logit_rows[i] * hidden, hidden * sizeof(float));
        });
        const Inputs normed = products_.prepare_normed(model_.head, wanted, model_.final_norm, model_.epsilon, count);
        products_.multiply_all(model_.head, normed, count, [&](int64_t panel, int64_t row, Floats y) {
            put(step_.logits + row * model_.vocabulary, panel, model_.vocabulary, biased(model_.head, panel, y));
        });
    }

    // --- Attention ---

    const Span &span_of(int64_t row) const {
        int64_t low = 0, high = step_.span_count - 1;
        while (low < high) {
            const int64_t middle = (low + high + 1) / 2;
            if (step_.spans[middle].first_row <= row)
                low = middle;
            else
                high = middle - 1;
        }
        return step_.spans[low];
    }

    void turn_and_store(const Layer &layer, int64_t row) {
        const Span &span = span_of(row);
        const int64_t size = model_.head_size, position = span.first_position + row - span.first_row;
        const float *cosine = layer.cosine + position * (model_.rotary_size / 2);
        const float *sine = layer.sine + position * (model_.rotary_size / 2);
        float *head = qkv_ + row * heads() * size;
        for (int64_t h = 0; h < model_.head_count + model_.kv_head_count; ++h, head += size) {
            const float *norm = h < model_.head_count ? layer.query_norm : layer.key_norm;
            if (norm) normalise(head, norm, size, model_.epsilon, head);
            rotate(head, cosine, sine, model_.rotary_size);
        }
        const float *key = qkv_ + (row * heads() + model_.head_count) * size, *value = key + model_.kv_head_count * size;
        for (int64_t h = 0; h < model_.kv_head_count; ++h) {
            Cache{model_, layer, h, step_.tables + span.table}.put(position, key + h * size, value + h * size);
        }
    }

    // Tasks are KV heads of a few rows of a span.
    void attend_all(const Layer &layer) {
        int64_t tasks = 0;
        for (int64_t i = 0; i < step_.span_count; ++i) tasks += parts(step_.spans[i]) * model_.kv_head_count;
        pool_.run(tasks, [&](int64_t task, int) {
            const int64_t kv_head = task % model_.kv_head_count;
            int64_t part = task / model_.kv_head_count;
            const Span *span = step_.spans;
            while (part >= parts(*span)) part -= parts(*span++);
            attend_part(layer, *span, kv_head, part * kQueryRows);
        });
    }

    static int64_t parts(const Span &span) { return (span.row_count + kQueryRows - 1) / kQueryRows; }

    void attend_part(const Layer &layer, const Span &span, int64_t kv_head, int64_t first) {
        thread_local Scratch scratch;
        const int64_t share = model_.head_count / model_.kv_head_count, size = model_.head_size;
        const int64_t last = first + kQueryRows < span.row_count ? first + kQueryRows : span.row_count;
        const Cache cache{model_, layer, kv_head, step_.tables + span.table};
        Queries queries;
        int count = 0;
        for (int64_t unit = first * share; unit < last * share; ++unit) {
            const int64_t row = span.first_row + unit / share, head = kv_head * share + unit % share;
            const int64_t position = span.first_position + unit / share;
            queries.q[count] = qkv_ + (row * heads() + head) * size;
            queries.out[count] = attended_ + (row * model_.head_count + head) * size;
            queries.first[count] = layer.window && position >= layer.window ? position + 1 - layer.window : 0;
            queries.last[count] = position;
            if (++count == kQueries) {
                attend(cache, queries, count, scratch);
                count = 0;
            }
        }
        if (count) attend(cache, queries, count, scratch);
    }

    const Model &model_;
    const Step &step_;
    Pool &pool_;
    Workspace &space_;
    Products products_;
    int64_t rows_;
    float *hidden_, *qkv_, *attended_, *active_;
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
