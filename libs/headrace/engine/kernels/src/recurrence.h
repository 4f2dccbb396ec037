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
    template <bool kCorrects> void take_rows() {
        begin<kCorrects>();
        for (int64_t number = 0; number < move_.row_count; ++number) {
            const int64_t row = move_.first_row + number;
            const bool is_last = number + 1 == move_.row_count;
            set_taken<kCorrects>(row);
            if (kCorrects && !is_last)
                advance<true>(row);
            else
                advance<false>(row);
            for (const auto &capture : move_.captures)
                if (capture.row_count == number + 1) keep(capture.slot);
        }
        if (move_.target >= 0) keep(move_.target);
    }

    // Copies the columns of the state that the span continues, and sums what the first key recalls.
    template <bool kCorrects> void begin() {
        const float *key = kCorrects ? part(recurrence_.keys, move_.first_row) : nullptr;
        const float *source = move_.source < 0 ? nullptr : slot(move_.source);
        recalled_ = zero_columns();
        for (int64_t i = 0; i < recurrence_.key_size; ++i) {
            float *columns = memory_ + i * kColumns;
            HEADRACE_UNROLLED
            for (int64_t v = 0; v < kColumnVectors; ++v) {
                Floats state = spread(0.0f);
                if (source && present(v) > 0)
                    state = load_some(source + i * recurrence_.value_size + v * kLanes, present(v));
                store(columns + v * kLanes, state);
                if (kCorrects) recalled_.v[v] = fma(spread(key[i]), state, recalled_.v[v]);
            }
        }
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

    // Moves the columns behind a token and stores its outputs. Sums what the next token's key recalls, if it is wanted.
    template <bool kRecalls> void advance(int64_t row) {
        const int64_t at = row * recurrence_.head_count + head_;
        const float *query = part(recurrence_.queries, row);
        const float *key = part(recurrence_.keys, row);
        const float *next = kRecalls ? part(recurrence_.keys, row + 1) : nullptr;
        const Floats kept = spread(recurrence_.kept[at]);
        const ColumnVectors taken = taken_;
        ColumnVectors sums = zero_columns();
        ColumnVectors recalled = zero_columns();
        for (int64_t i = 0; i < recurrence_.key_size; ++i) {
            float *columns = memory_ + i * kColumns;
            HEADRACE_UNROLLED
            for (int64_t v = 0; v < kColumnVectors; ++v) {
                const Floats state = fma(spread(key[i]), taken.v[v], kept * load(columns + v * kLanes));
                store(columns + v * kLanes, state);
                sums.v[v] = fma(spread(query[i]), state, sums.v[v]);
                if (kRecalls) recalled.v[v] = fma(spread(next[i]), state, recalled.v[v]);
            }
        }
        recalled_ = recalled;
        float *outputs = recurrence_.outputs + at * recurrence_.value_size + first_;
        for (int64_t v = 0; v < kColumnVectors && present(v) > 0; ++v)
            store_some(outputs + v * kLanes, sums.v[v], present(v));
    }

    void keep(int64_t number) const {
        float *target = slot(number);
        for (int64_t i = 0; i < recurrence_.key_size; ++i)
            for (int64_t v = 0; v < kColumnVectors && present(v) > 0; ++v)
                store_some(target + i * recurrence_.value_size + v * kLanes, load(memory_ + i * kColumns + v * kLanes),
                           present(v));
    }

    // Columns of a vector that exist; none or fewer: the vector lies beyond the memory.
    int64_t present(int64_t vector) const { return width_ - vector * kLanes; }

    // The head's part of the queries or keys of a row.
    const float *part(const float *rows, int64_t row) const {
        const int64_t head = head_ / (recurrence_.head_count / recurrence_.key_head_count);
        return rows + (row * recurrence_.key_head_count + head) * recurrence_.key_size;
    }

    float *slot(int64_t number) const {
        const int64_t head = number * recurrence_.head_count + head_;
        return recurrence_.memories + head * recurrence_.key_size * recurrence_.value_size + first_;
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
