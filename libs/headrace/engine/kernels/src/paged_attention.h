// The attention of one layer in a step: stores the new keys and values in the cache, then attends from each token of
// the step to the tokens of its sequence.

#pragma once

#include "abi.h"
#include "attention.h"
#include "pool.h"
#include "rows.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr int64_t kQueryRows = 16;  // Query rows per task, all of one sequence and KV head.

// Applies rotary position embeddings (Su et al., 2021) to the pairs (i, i + rotary / 2).
inline void rotate(float *head, const float *cosine, const float *sine, int64_t rotary) {
    const int64_t half = rotary / 2;
    for (int64_t i = 0; i < half; ++i) {
        const float first = head[i];
        const float second = head[i + half];
        head[i] = first * cosine[i] - second * sine[i];
        head[i + half] = second * cosine[i] + first * sine[i];
    }
}

class PagedAttention {
  public:
    PagedAttention(const Model &model, const Step &step, Pool &pool) : model_(model), step_(step), pool_(pool) {}

    // `qkv` [rows, heads, head size] has the queries, keys and values of each token. Queries and keys are rotated in
    // place, and normalized before that if the layer has norms. `out` is [rows, query heads, head size].
    void run(const Layer &layer, float *qkv, float *out) const {
        over_rows(pool_, step_.row_count, [&](int64_t row) { rotate_and_store(layer, row, qkv + row * width()); });
        attend_all(layer, qkv, out);
    }

  private:
    int64_t width() const { return (model_.head_count + 2 * model_.kv_head_count) * model_.head_size; }

    const Span &span_of(int64_t row) const {
        int64_t low = 0;
        int64_t high = step_.span_count - 1;
        while (low < high) {
            const int64_t middle = (low + high + 1) / 2;
            if (step_.spans[middle].first_row <= row)
                low = middle;
            else
                high = middle - 1;
        }
        return step_.spans[low];
    }

    void rotate_and_store(const Layer &layer, int64_t row, float *heads) const {
        const Span &span = span_of(row);
        const int64_t size = model_.head_size;
        const int64_t position = span.first_position + row - span.first_row;
        const int64_t angles = position * (model_.rotary_size / 2);
        float *head = heads;
        for (int64_t h = 0; h < model_.head_count + model_.kv_head_count; ++h, head += size) {
            const float *norm = h < model_.head_count ? layer.query_norm : layer.key_norm;
            if (norm) normalize(head, norm, size, model_.epsilon, head);
            if (model_.rotary_size) rotate(head, layer.cosine + angles, layer.sine + angles, model_.rotary_size);
        }
        const float *key = heads + model_.head_count * size;
        const float *value = key + model_.kv_head_count * size;
        for (int64_t h = 0; h < model_.kv_head_count; ++h) {
            Cache{model_, layer, h, step_.tables + span.table}.put(position, key + h * size, value + h * size);
        }
    }

    // Each task is one KV head of up to kQueryRows rows of a span.
    void attend_all(const Layer &layer, const float *qkv, float *out) const {
        int64_t tasks = 0;
        for (int64_t i = 0; i < step_.span_count; ++i) tasks += parts(step_.spans[i]) * model_.kv_head_count;
        pool_.run(tasks, [&](int64_t task, int) {
            const int64_t kv_head = task % model_.kv_head_count;
            int64_t part = task / model_.kv_head_count;
            const Span *span = step_.spans;
            while (part >= parts(*span)) part -= parts(*span++);
            attend_part(layer, *span, kv_head, part * kQueryRows, qkv, out);
        });
    }

    static int64_t parts(const Span &span) { return (span.row_count + kQueryRows - 1) / kQueryRows; }

    void attend_part(const Layer &layer, const Span &span, int64_t kv_head, int64_t first, const float *qkv,
                     float *out) const {
        thread_local Scratch scratch;
        const int64_t share = model_.head_count / model_.kv_head_count;
        const int64_t size = model_.head_size;
        const int64_t last = first + kQueryRows < span.row_count ? first + kQueryRows : span.row_count;
        const Cache cache{model_, layer, kv_head, step_.tables + span.table};
        Queries queries;
        int count = 0;
        for (int64_t unit = first * share; unit < last * share; ++unit) {
            const int64_t row = span.first_row + unit / share;
            const int64_t head = kv_head * share + unit % share;
            const int64_t position = span.first_position + unit / share;
            queries.q[count] = qkv + row * width() + head * size;
            queries.out[count] = out + (row * model_.head_count + head) * size;
            queries.bias[count] = layer.bias ? layer.bias + head * layer.bias_stride - position : nullptr;
            queries.first[count] = layer.window && position >= layer.window ? position + 1 - layer.window : 0;
            queries.last[count] = model_.sees_all ? span.first_position + span.row_count - 1 : position;
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
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
