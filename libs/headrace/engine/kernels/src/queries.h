// Groups of queries that share one pass over the keys and values.

#pragma once

#include <cmath>

#include "abi.h"
#include "functions.h"
#include "lanes.h"
#include "workspace.h"

namespace headrace {
namespace HEADRACE_ISA {

// As many as the registers hold sums for.
#if defined(HEADRACE_AVX512)
constexpr int kPassQueries = 8;
#else
constexpr int kPassQueries = 4;
#endif

// As many as share a list of segments: those of a pass, or of the rows of a tile.
#if defined(HEADRACE_AMX)
constexpr int kQueries = 16;
#else
constexpr int kQueries = kPassQueries;
#endif

// As many as a task holds scores for at once.
constexpr int kTaskQueries = 64;

// Up to kQueries queries of one sequence and KV head.
struct Queries {
    const float *q[kQueries];     // [head]
    float *out[kQueries];         // [head]
    const float *bias[kQueries];  // Added to the score of each token; may be null.
    int64_t first[kQueries];      // First token that each attends to
    int64_t last[kQueries];       // Last token that each attends to

    // Returns the queries from the one at `index` on, as many as a pass takes.
    Queries from(int index) const {
        Queries some{};
        for (int i = 0; i < kPassQueries && index + i < kQueries; ++i) {
            some.q[i] = q[index + i];
            some.out[i] = out[index + i];
            some.bias[i] = bias[index + i];
            some.first[i] = first[index + i];
            some.last[i] = last[index + i];
        }
        return some;
    }

    // Returns the scores of query i for the tile of keys at `token`, from their dot products.
    Floats score(const Model &model, int i, Floats products, int64_t token) const {
        if (model.soft_cap) products = soft_cap(products, model.soft_cap);
        if (bias[i]) products = products + load(bias[i] + token);
        return masked(i, products, token, -INFINITY);
    }

    // Whether scores of the tile at `token` are the scaled dot products, for all of the first `count` queries.
    bool are_plain(const Model &model, int count, int64_t token) const {
        bool plain = !model.soft_cap;
        for (int i = 0; i < count; ++i) plain &= !bias[i] & (token >= first[i]) & (token + kLanes - 1 <= last[i]);
        return plain;
    }

    // Returns `values` of the tile at `token` with those outside the mask of query i replaced by `unseen`.
    Floats masked(int i, Floats values, int64_t token, float unseen) const {
        if (token >= first[i] && token + kLanes - 1 <= last[i]) return values;
        float v[kLanes];
        store(v, values);
        for (int lane = 0; lane < kLanes; ++lane)
            if (token + lane < first[i] || token + lane > last[i]) v[lane] = unseen;
        return load(v);
    }
};

// Queries of one KV head, and the parts [count] that attention to a segment writes.
struct QueryGroup {
    Queries queries;
    int count;
    int64_t head;  // Counted from the first KV head of the task
    Part *parts;
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
