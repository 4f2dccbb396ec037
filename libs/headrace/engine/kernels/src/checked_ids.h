// Bounds checks of every index that Python passes, before a kernel reads or writes memory by it. They cost one pass
// over the indices per call.

#pragma once

#include <algorithm>

#include "abi.h"

namespace headrace {

// Return codes of the C interface. `context.py` maps each to an exception.
enum Failure : int {
    kFine = 0,
    kNoMemory = 1,
    kBadTokenId = 2,
    kBadSpan = 3,
    kBadBlock = 4,
    kBadPosition = 5,
    kBadLogitRow = 6,
    kBadCount = 7,
    kUnknown = 8,
    kBadAdapter = 9,
    kBadSlot = 10,
};

// Returns whether all of `count` numbers are in [0, limit). If one is not, `number` or `limit - 1 - number` is
// negative. The loop collects sign bits instead of comparing, because every compiler vectorizes that.
inline bool all_below(const int64_t *numbers, int64_t count, int64_t limit) {
    if (count > 0 && limit < 1) return false;
    uint64_t signs = 0;
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t number = static_cast<uint64_t>(numbers[i]);
        signs |= number | (static_cast<uint64_t>(limit - 1) - number);
    }
    return !(signs >> 63);
}

// Returns whether the spans cover the rows of the step in order, without gaps, and their block numbers lie in `tables`.
inline bool spans_fit(const Model &model, const Step &step) {
    if (step.row_count < 0 || step.span_count < 0 || model.block_size < 1) return false;
    int64_t row = 0;
    for (int64_t i = 0; i < step.span_count; ++i) {
        const Span &span = step.spans[i];
        if (span.first_row != row || span.row_count < 1 || span.row_count > step.row_count - row) return false;
        if (span.first_position < 0 || span.table < 0 || span.table > step.table_size) return false;
        const int64_t block_count = step.table_size - span.table;
        if (span.first_position / model.block_size >= block_count) return false;
        if ((span.first_position + span.row_count - 1) / model.block_size >= block_count) return false;
        row += span.row_count;
    }
    return row == step.row_count;
}

// Returns whether every block that a token attends to exists. Tokens attend to `window` tokens each, or to all if it is
// 0. Block numbers before the window are not checked: those blocks may have been freed.
inline bool blocks_fit(const Model &model, const Step &step, int64_t window) {
    for (int64_t i = 0; i < step.span_count; ++i) {
        const Span &span = step.spans[i];
        const int64_t first_seen = window ? std::max<int64_t>(0, span.first_position + 1 - window) : 0;
        const int64_t first = first_seen / model.block_size;
        const int64_t last = (span.first_position + span.row_count - 1) / model.block_size;
        if (!all_below(step.tables + span.table + first, last + 1 - first, model.block_count)) return false;
    }
    return true;
}

inline bool positions_fit(const Model &model, const Step &step) {
    for (int64_t i = 0; i < step.span_count; ++i)
        if (step.spans[i].first_position > model.position_count - step.spans[i].row_count) return false;
    return true;
}

inline Failure check_attention(const Model &model, const Layer &layer, const Step &step) {
    if (!spans_fit(model, step)) return kBadSpan;
    if (!blocks_fit(model, step, layer.window)) return kBadBlock;
    return (model.rotary_size || layer.bias) && !positions_fit(model, step) ? kBadPosition : kFine;
}

// Returns the longest window of any layer, or 0 if a layer has none.
inline int64_t widest_window(const Model &model) {
    int64_t widest = 0;
    for (int64_t i = 0; i < model.layer_count; ++i) {
        if (!model.layers[i].window) return 0;
        widest = std::max(widest, model.layers[i].window);
    }
    return widest;
}

// Returns whether each span has an adapter of the model or none.
inline bool adapters_fit(const Model &model, const Step &step) {
    for (int64_t i = 0; step.adapters && i < step.span_count; ++i)
        if (step.adapters[i] < -1 || step.adapters[i] >= model.adapter_count) return false;
    return true;
}

// Returns whether the routers of all layers have a row for each expert, and for the gate of a shared one.
inline bool routers_fit(const Model &model) {
    const int64_t rows = model.routing.expert_count + (model.routing.shared == kGatedShared ? 1 : 0);
    for (int64_t i = 0; i < model.layer_count; ++i)
        if (model.layers[i].experts && model.layers[i].router.out != rows) return false;
    return true;
}

inline Failure check_routing(const Routing &routing) {
    const int64_t groups = routing.group_count;
    if (routing.chosen_count < 1 || routing.chosen_count > routing.expert_count) return kBadCount;
    if (groups <= 1) return kFine;
    const bool divides = routing.expert_count % groups == 0 && routing.expert_count / groups > 1;
    const int64_t kept = routing.chosen_group_count * (routing.expert_count / groups);
    return divides && routing.chosen_group_count <= groups && kept >= routing.chosen_count ? kFine : kBadCount;
}

inline Failure check_step(const Model &model, const Step &step) {
    if (!spans_fit(model, step)) return kBadSpan;
    if (!all_below(step.token_ids, step.row_count, model.vocabulary)) return kBadTokenId;
    if (!blocks_fit(model, step, widest_window(model))) return kBadBlock;
    if (model.rotary_size && !positions_fit(model, step)) return kBadPosition;
    if (!adapters_fit(model, step)) return kBadAdapter;
    if (model.routing.expert_count && (check_routing(model.routing) || !routers_fit(model))) return kBadCount;
    return step.logit_count < 0 || !all_below(step.logit_rows, step.logit_count, step.row_count) ? kBadLogitRow : kFine;
}

// Returns whether the inputs of a batch make up its rows, and none is empty or longer than the encoder takes.
inline bool inputs_fit(const Encoder &encoder, const EncoderBatch &batch) {
    if (batch.row_count < 0 || batch.input_count < 0) return false;
    int64_t row = 0;
    for (int64_t i = 0; i < batch.input_count; ++i) {
        const int64_t length = batch.lengths[i];
        if (length < 1 || length > encoder.longest || length > batch.row_count - row) return false;
        row += length;
    }
    return row == batch.row_count;
}

inline Failure check_batch(const Encoder &encoder, const EncoderBatch &batch) {
    if (!inputs_fit(encoder, batch)) return kBadSpan;
    if (!all_below(batch.token_ids, batch.row_count, encoder.vocabulary)) return kBadTokenId;
    const bool fits = !encoder.positions || all_below(batch.positions, batch.row_count, encoder.position_count);
    return fits ? kFine : kBadPosition;
}

inline Failure check_rankings(const Ranking *rankings, int64_t count, int64_t vocabulary) {
    for (int64_t i = 0; i < count; ++i)
        if (rankings[i].count < 0 || rankings[i].count > vocabulary) return kBadCount;
    return kFine;
}

inline Failure check_draws(const Draw *draws, int64_t count, int64_t vocabulary) {
    if (vocabulary < 1) return kBadCount;
    for (int64_t i = 0; i < count; ++i)
        if (draws[i].top_k < 0) return kBadCount;
    return kFine;
}

}  // namespace headrace
