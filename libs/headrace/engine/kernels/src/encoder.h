// An encoder (Devlin et al., 2018): token ids of whole inputs in, hidden states out. Layers normalize the sum of each
// block's output and the residual, or the blocks' inputs, and every token of an input sees every other, or those near
// it. An input's result depends on that input alone.

#pragma once

#include <cstring>

#include "abi.h"
#include "paged_attention.h"
#include "product.h"
#include "rows.h"
#include "storage_lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

// Tokens in a block of keys and values: as few as there can be, so that short inputs leave little room empty.
constexpr int64_t kEncoderBlock = kLanes;

class EncoderRun {
  public:
    EncoderRun(const Encoder &encoder, const EncoderBatch &batch, Pool &pool, Workspace &space)
        : encoder_(encoder), batch_(batch), pool_(pool), space_(space), products_(pool, space), rows_(batch.row_count),
          hidden_(batch.hidden) {
        qkv_ = space.qkv.take(rows_ * 3 * encoder.hidden);
        attended_ = space.attended.take(rows_ * encoder.hidden);
        place_inputs();
    }

    void run() {
        over_rows(pool_, rows_, [&](int64_t row) { embed(row); });
        const PagedAttention attention(model_, step_, pool_, space_);
        for (int64_t index = 0; index < encoder_.layer_count; ++index) compute(encoder_.layers[index], attention);
        normalize_sums(encoder_.final_norm);
    }

  private:
    // Lays out inputs as the sequences of a step, with blocks for the keys and values of one layer, which the next one
    // overwrites.
    void place_inputs() {
        Span *spans = space_.spans.take(batch_.input_count);
        int64_t row = 0;
        int64_t block_count = 0;
        for (int64_t i = 0; i < batch_.input_count; ++i) {
            spans[i] = {row, batch_.lengths[i], 0, block_count};
            row += batch_.lengths[i];
            block_count += (batch_.lengths[i] + kEncoderBlock - 1) / kEncoderBlock;
        }
        int64_t *tables = space_.tables.take(block_count);
        for (int64_t i = 0; i < block_count; ++i) tables[i] = i;
        const int64_t half = kEncoderBlock * encoder_.hidden;
        float *blocks = space_.blocks.take(block_count * 2 * half);
        layer_.keys = reinterpret_cast<uint8_t *>(blocks);
        layer_.values = reinterpret_cast<uint8_t *>(blocks + half);
        layer_.bias = encoder_.bias;
        layer_.bias_stride = encoder_.bias_stride;
        model_.head_count = model_.kv_head_count = encoder_.head_count;
        model_.head_size = encoder_.hidden / encoder_.head_count;
        model_.block_size = kEncoderBlock;
        model_.block_bytes = 2 * half * static_cast<int64_t>(sizeof(float));
        model_.kv_storage = kF32;
        model_.scale = encoder_.scale;
        model_.sees_all = 1;
        model_.rotary_size = encoder_.rotates ? model_.head_size : 0;
        step_.tables = tables;
        step_.spans = spans;
        step_.row_count = rows_;
        step_.span_count = batch_.input_count;
    }

    void embed(int64_t row) {
        const int64_t from = batch_.token_ids[row] * encoder_.hidden;
        float *to = hidden_ + row * encoder_.hidden;
        for (int64_t i = 0; i < encoder_.hidden; i += kLanes)
            store(to + i, load_any(encoder_.words, encoder_.word_storage, from + i));
        if (encoder_.positions) {
            const float *place = encoder_.positions + batch_.positions[row] * encoder_.hidden;
            for (int64_t i = 0; i < encoder_.hidden; i += kLanes) store(to + i, load(to + i) + load(place + i));
        }
        normalize_row(encoder_.norm, to, to);
    }

    void compute(const EncoderLayer &layer, const PagedAttention &attention) {
        layer_.cosine = layer.cosine;
        layer_.sine = layer.sine;
        layer_.window = layer.window;
        const Inputs whole = prepare_inputs(layer.qkv, layer.attention_norm);
        products_.multiply_all(layer.qkv, whole, rows_, [&](int64_t panel, int64_t row, Floats y) {
            put(qkv_ + row * layer.qkv.out, panel, layer.qkv.out, biased(layer.qkv, panel, y));
        });
        attention.run(layer_, qkv_, attended_);
        add_product(layer.output, attended_, layer.attention_norm);
        const int64_t width = layer.up.out;
        float *active = space_.active.take(rows_ * width);
        const Inputs inputs = prepare_inputs(layer.up, layer.output_norm);
        products_.multiply_all(layer.up, inputs, rows_, [&](int64_t panel, int64_t row, Floats y) {
            put(active + row * width, panel, width, biased(layer.up, panel, y));
        });
        add_product(layer.down, activate(active, width), layer.output_norm);
    }

    // Returns what stands between the two products of a feed-forward block, from rows of `width` numbers. In a pass of
    // its own: one function after the other within a product would wait for its own results.
    float *activate(float *active, int64_t width) {
        if (!encoder_.is_gated) {
            activate_rows(encoder_.activation, 0.0f, active, active, rows_, width, pool_);
            return active;
        }
        float *gated = space_.branch.take(rows_ * width / 2);
        gate_rows(encoder_.activation, active, gated, rows_, width / 2, pool_);
        return gated;
    }

    // Prepares the hidden states, normalized before where norms stand before blocks, as inputs of `w`. They stay as
    // they are: they are the residual too.
    Inputs prepare_inputs(const Matrix &w, const Norm &norm) {
        const bool normalizes = encoder_.normalizes_inputs && norm.weight;
        if (!w.order && !normalizes) return products_.prepare(w, hidden_, rows_);
        float *copy = space_.normed.take(rows_ * w.in);
        if (normalizes)
            over_rows(pool_, rows_, [&](int64_t row) { normalize_row(norm, hidden_ + row * w.in, copy + row * w.in); });
        else
            std::memcpy(copy, hidden_, static_cast<size_t>(rows_ * w.in) * sizeof(float));
        return products_.prepare(w, copy, rows_);
    }

    // Adds the product of x to the hidden states, and normalizes the sum where norms stand behind blocks. Reorders x in
    // place where `w` has an order.
    void add_product(const Matrix &w, float *x, const Norm &norm) {
        products_.multiply_all(w, products_.prepare(w, x, rows_), rows_, [&](int64_t panel, int64_t row, Floats y) {
            add(hidden_ + row * encoder_.hidden, panel, encoder_.hidden, biased(w, panel, y));
        });
        if (!encoder_.normalizes_inputs) normalize_sums(norm);
    }

    // Normalizes the hidden states, if the norm has a weight.
    void normalize_sums(const Norm &norm) {
        if (!norm.weight) return;
        over_rows(pool_, rows_, [&](int64_t row) {
            float *x = hidden_ + row * encoder_.hidden;
            normalize_row(norm, x, x);
        });
    }

    static void normalize_row(const Norm &norm, const float *x, float *out) {
        centre_and_normalize(x, norm.weight, norm.bias, norm.size, norm.epsilon, out);
    }

    const Encoder &encoder_;
    const EncoderBatch &batch_;
    Pool &pool_;
    Workspace &space_;
    Products products_;
    const int64_t rows_;
    float *const hidden_;
    float *qkv_, *attended_;
    // What attention reads of a decoder.
    Model model_ = {};
    Layer layer_ = {};
    Step step_ = {};
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
