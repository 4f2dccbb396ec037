// Queries that attend together.

#pragma once

#include <cmath>

#include "abi.h"
#include "functions.h"
#include "lanes.h"

namespace headrace {
inline namespace HEADRACE_ISA {

constexpr int kQueries = 4;

// Rows of the same sequence and KV head.
struct Queries {
    const float *q[kQueries];     // [head]
    float *out[kQueries];         // [head]
    const float *bias[kQueries];  // What is added to the score of each token; may be null.
    int64_t first[kQueries];      // The first token that each sees, and
    int64_t last[kQueries];       // the last one

    // What becomes of products with sixteen keys, from that of `token` on.
    Floats score(const Model &model, int i, Floats products, int64_t token) const {
        if (model.soft_cap) products = soft_cap(products, model.soft_cap);
        if (bias[i]) products = products + load(bias[i] + token);
        return masked(i, products, token, -INFINITY);
    }

    // What query i has for sixteen tokens from `token` on, with `unseen` for those that it does not see.
    Floats masked(int i, Floats values, int64_t token, float unseen) const {
        if (token >= first[i] && token + kLanes - 1 <= last[i]) return values;
        float v[kLanes];
        store(v, values);
        for (int lane = 0; lane < kLanes; ++lane)
            if (token + lane < first[i] || token + lane > last[i]) v[lane] = unseen;
        return load(v);
    }
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
