// Queries that attend together.

#pragma once

#include <cmath>

#include "lanes.h"

namespace headrace {
inline namespace HEADRACE_ISA {

constexpr int kQueries = 4;

// Rows of the same sequence and KV head.
struct Queries {
    const float *q[kQueries];     // [head]
    float *out[kQueries];         // [head]
    int64_t first[kQueries];      // The first token that each sees, and
    int64_t last[kQueries];       // the last one

    // `scores` of query i for sixteen tokens from `token` on, without those that it does not see.
    Floats masked(int i, Floats scores, int64_t token) const {
        if (token >= first[i] && token + kLanes - 1 <= last[i]) return scores;
        float v[kLanes];
        store(v, scores);
        for (int lane = 0; lane < kLanes; ++lane)
            if (token + lane < first[i] || token + lane > last[i]) v[lane] = -INFINITY;
        return load(v);
    }
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
