// Recurrences of linear attention, token by token: the gated delta rule (Yang et al., Gated Delta Networks, 2024) and
// the state space of Mamba-2 (Dao and Gu, Transformers are SSMs, 2024).
//
// A head's memory S [keys, values] takes key k, value v, kept share a and rate b of each token: S = a S + k c, with
// c = b (v - a k S) where values correct what is recalled, else c = b v. The output for query q is q S.
//
// Columns of a memory do not depend on each other. A thread takes a few columns through all tokens of a span, in its
// first-level cache, and reads them once for each token: while it moves them behind one, it sums what the next one's
// key recalls. A lane adds its products in the order of keys, whatever the chunk, the batch, the threads and the
// instruction set.

#pragma once

#include <algorithm>
#include <cstring>

#include "abi.h"
#include "lanes.h"
#include "pool.h"
#include "workspace.h"

namespace headrace {
namespace HEADRACE_ISA {

// Vectors of columns that are moved together: sums of two fill the time that an addition takes, where there are
// registers for them.
#if defined(HEADRACE_AVX512)
constexpr int64_t kColumnVectors = 2;
#else
constexpr int64_t kColumnVectors = 1;
#endif
constexpr int64_t kColumns = kColumnVectors * kLanes;

struct ColumnVectors {
    Floats v[kColumnVectors];
};

inline ColumnVectors zero_columns() {
    ColumnVectors r;
    HEADRACE_UNROLLED
    for (int64_t i = 0; i < kColumnVectors; ++i) r.v[i] = spread(0.0f);
    return r;
}

// Neighboring columns of the memory of one head of a span, of which `width` exist.
class MovedColumns {
  public:
    // `memory` has room for [keys, kColumns].
    MovedColumns(const Recurrence &recurrence, const StateMove &move, int64_t head, int64_t first, float *memory)
        : recurrence_(recurrence), move_(move), head_(head), first_(first), width_(recurrence.value_size - first),
          memory_(memory) {}

    void run() {
        if (recurrence_.corrects)
            take_rows<true>();
        else
            take_rows<false>();
    }

  private:
    // Rows of the columns: in a slot, or beside each other in `memory_`.
    struct Rows {
        float *first;
        int64_t stride;
    };

    template <bool kCorrects> void take_rows() {
        Rows held = begin();
        if (kCorrects) recall(held);
        for (int64_t number = 0; number < move_.row_count; ++number) {
            const int64_t row = move_.first_row + number;
            const bool is_last = number + 1 == move_.row_count;
            const Rows to = is_last && is_whole() && move_.target >= 0 ? slot(move_.target) : own();
            set_taken<kCorrects>(row);
            if (is_last || held.first != memory_)
                advance<kCorrects, false>(row, held, to);
            else
                advance<kCorrects, true>(row, held, to);
            held = to;
            for (const auto &capture : move_.captures)
                if (capture.row_count == number + 1) keep(held, slot(capture.slot));
        }
        if (move_.target >= 0 && held.first == memory_) keep(held, slot(move_.target));
    }

    // Returns the columns of the state that the span continues: where they are, if they fill their vectors.
    Rows begin() const {
        if (move_.source >= 0 && is_whole()) return slot(move_.source);
        for (int64_t i = 0; i < recurrence_.key_size * kColumnVectors; ++i) store(memory_ + i * kLanes, spread(0.0f));
        if (move_.source >= 0) {
            const Rows source = slot(move_.source);
            for (int64_t i = 0; i < recurrence_.key_size; ++i)
                std::memcpy(memory_ + i * kColumns, source.first + i * source.stride, width_ * sizeof(float));
        }
        return own();
    }

    // Sums what the first key recalls.
    void recall(Rows held) {
        const float *key = part(recurrence_.keys, move_.first_row);
        ColumnVectors recalled = zero_columns();
        for (int64_t i = 0, count = recurrence_.key_size; i < count; ++i) {
            const float *columns = held.first + i * held.stride;
            HEADRACE_UNROLLED
            for (int64_t v = 0; v < kColumnVectors; ++v)
                recalled.v[v] = fma(spread(key[i]), load(columns + v * kLanes), recalled.v[v]);
        }
        recalled_ = recalled;
    }

    // Finds what the memory takes in of a token's value, from what its key recalls.
    template <bool kCorrects> void set_taken(int64_t row) {
        const int64_t at = row * recurrence_.head_count + head_;
        const float *value = recurrence_.values + at * recurrence_.value_size + first_;
        const Floats rate = spread(recurrence_.rates[at]);
        HEADRACE_UNROLLED
        for (int64_t v = 0; v < kColumnVectors; ++v) {
            Floats wanted = present(v) > 0 ? load_some(value + v * kLanes, present(v)) : spread(0.0f);
            if (kCorrects) wanted = wanted - spread(recurrence_.kept[at]) * recalled_.v[v];
            taken_.v[v] = rate * wanted;
        }
    }

    // Moves columns behind a token and stores its outputs. Sums what the next token's key recalls, or nothing of use
    // behind the last one. `kOwn`: both are the thread's own, and their strides known.
    template <bool kRecalls, bool kOwn> void advance(int64_t row, Rows from, Rows to) {
        if (kOwn) from = to = own();
        const int64_t at = row * recurrence_.head_count + head_;
        const float *query = part(recurrence_.queries, row);
        const float *key = part(recurrence_.keys, row);
        const bool is_last = row + 1 == move_.first_row + move_.row_count;
        const float *next = part(recurrence_.keys, is_last ? row : row + 1);
        const Floats kept = spread(recurrence_.kept[at]);
        const ColumnVectors taken = taken_;
        ColumnVectors sums = zero_columns();
        ColumnVectors recalled = zero_columns();
        for (int64_t i = 0, count = recurrence_.key_size; i < count; ++i) {
            HEADRACE_UNROLLED
            for (int64_t v = 0; v < kColumnVectors; ++v) {
                const Floats before = load(from.first + i * from.stride + v * kLanes);
                const Floats state = fma(spread(key[i]), taken.v[v], kept * before);
                store(to.first + i * to.stride + v * kLanes, state);
                sums.v[v] = fma(spread(query[i]), state, sums.v[v]);
                if (kRecalls) recalled.v[v] = fma(spread(next[i]), state, recalled.v[v]);
            }
        }
        recalled_ = recalled;
        float *outputs = recurrence_.outputs + at * recurrence_.value_size + first_;
        // Indexed by constants alone, so that the compiler keeps the sums in registers.
        HEADRACE_UNROLLED
        for (int64_t v = 0; v < kColumnVectors; ++v)
            if (present(v) > 0) store_some(outputs + v * kLanes, sums.v[v], present(v));
    }

    void keep(Rows held, Rows target) const {
        const size_t bytes = static_cast<size_t>(std::min(width_, kColumns)) * sizeof(float);
        for (int64_t i = 0; i < recurrence_.key_size; ++i)
            std::memcpy(target.first + i * target.stride, held.first + i * held.stride, bytes);
    }

    Rows own() const { return {memory_, kColumns}; }

    bool is_whole() const { return width_ >= kColumns; }

    // Columns of a vector that exist; none or fewer: the vector lies beyond the memory.
    int64_t present(int64_t vector) const { return width_ - vector * kLanes; }

    // The head's part of the queries or keys of a row.
    const float *part(const float *rows, int64_t row) const {
        const int64_t head = head_ / (recurrence_.head_count / recurrence_.key_head_count);
        return rows + (row * recurrence_.key_head_count + head) * recurrence_.key_size;
    }

    Rows slot(int64_t number) const {
        const int64_t head = number * recurrence_.head_count + head_;
        const int64_t size = recurrence_.value_size;
        return {recurrence_.memories + head * recurrence_.key_size * size + first_, size};
    }

    const Recurrence &recurrence_;
    const StateMove &move_;
    const int64_t head_, first_, width_;
    float *const memory_;
    ColumnVectors recalled_, taken_;
};

// A task is some columns of a head of a span.
class RecurrenceRun {
  public:
    // Throws std::bad_alloc.
    RecurrenceRun(const Recurrence &recurrence, Pool &pool, Workspace &space)
        : recurrence_(recurrence), pool_(pool),
          memories_(space.memories.take(pool.thread_count() * recurrence.key_size * kColumns)) {}

    void run() {
        const int64_t parts = (recurrence_.value_size + kColumns - 1) / kColumns;
        const int64_t each = recurrence_.head_count * parts;
        pool_.run(recurrence_.move_count * each, [&](int64_t task, int thread) {
            const StateMove &move = recurrence_.moves[task / each];
            float *memory = memories_ + thread * recurrence_.key_size * kColumns;
            MovedColumns(recurrence_, move, task % each / parts, task % parts * kColumns, memory).run();
        });
    }

  private:
    const Recurrence &recurrence_;
    Pool &pool_;
    float *const memories_;
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
