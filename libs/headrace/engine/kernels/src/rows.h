// Kernels that work row by row: norms, activations and expert routing. A row's result depends on that row alone.

#pragma once

#include <cmath>

#include "abi.h"
#include "functions.h"
#include "lanes.h"
#include "pool.h"
#include "reductions.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr int64_t kRowsPerTask = 8;

template <typename Body> void over_rows(Pool &pool, int64_t rows, const Body &body) {
    // A few rows take less time than waking another thread.
    const int64_t tasks = rows < kRowsPerTask ? 1 : (rows + kRowsPerTask - 1) / kRowsPerTask;
    const int64_t each = (rows + tasks - 1) / (tasks ? tasks : 1);
    pool.run(tasks, [&](int64_t task, int) {
        const int64_t last = (task + 1) * each < rows ? (task + 1) * each : rows;
        for (int64_t row = task * each; row < last; ++row) body(row);
    });
}

// RMS norm: x / sqrt(mean(x^2) + epsilon) * weight (Zhang and Sennrich, 2019).
inline void normalize(const float *x, const float *weight, int64_t size, float epsilon, float *out) {
    Floats squares = spread(0.0f);
    for (int64_t i = 0; i < size; i += kLanes) {
        const Floats value = load_some(x + i, size - i);
        squares = fma(value, value, squares);
    }
    const Floats factor = spread(1.0f / std::sqrt(add_lanes(squares) / static_cast<float>(size) + epsilon));
    for (int64_t i = 0; i < size; i += kLanes)
        store_some(out + i, load_some(x + i, size - i) * factor * load_some(weight + i, size - i), size - i);
}

// Layer norm: (x - mean) / sqrt(variance + epsilon) * weight + bias (Ba et al., 2016).
inline void centre_and_normalize(const float *x, const float *weight, const float *bias, int64_t size, float epsilon,
                                 float *out) {
    Floats sum = spread(0.0f);
    Floats squares = spread(0.0f);
    for (int64_t i = 0; i < size; i += kLanes) sum = sum + load_some(x + i, size - i);
    const Floats mean = spread(add_lanes(sum) / static_cast<float>(size));
    for (int64_t i = 0; i < size; i += kLanes) {
        float centered[kLanes] = {};
        store_some(centered, load_some(x + i, size - i) - mean, size - i);
        squares = fma(load(centered), load(centered), squares);
    }
    const Floats factor = spread(1.0f / std::sqrt(add_lanes(squares) / static_cast<float>(size) + epsilon));
    for (int64_t i = 0; i < size; i += kLanes) {
        const Floats scaled = (load_some(x + i, size - i) - mean) * factor;
        store_some(out + i, fma(scaled, load_some(weight + i, size - i), load_some(bias + i, size - i)), size - i);
    }
}

inline void normalize_rows(const Norm &norm, const float *x, float *out, int64_t rows, Pool &pool) {
    over_rows(pool, rows, [&](int64_t row) {
        const int64_t from = row * norm.size;
        if (norm.bias)
            centre_and_normalize(x + from, norm.weight, norm.bias, norm.size, norm.epsilon, out + from);
        else
            normalize(x + from, norm.weight, norm.size, norm.epsilon, out + from);
    });
}

// out = function(x), for rows of `size`.
inline void activate_rows(int32_t function, float cap, const float *x, float *out, int64_t rows, int64_t size,
                          Pool &pool) {
    with_function(function, cap, [&](const auto &f) {
        over_rows(pool, rows, [&](int64_t row) {
            const float *from = x + row * size;
            float *to = out + row * size;
            for (int64_t i = 0; i < size; i += kLanes) store_some(to + i, f(load_some(from + i, size - i)), size - i);
        });
    });
}

// out = function(gate) * up (Shazeer, 2020), for rows of `size` gates followed by `size` ups.
inline void gate_rows(int32_t function, const float *x, float *out, int64_t rows, int64_t size, Pool &pool) {
    with_function(function, 0.0f, [&](const auto &f) {
        over_rows(pool, rows, [&](int64_t row) {
            const float *gate = x + row * 2 * size;
            const float *up = gate + size;
            for (int64_t i = 0; i < size; i += kLanes)
                store_some(out + row * size + i, f(load_some(gate + i, size - i)) * load_some(up + i, size - i),
                           size - i);
        });
    });
}

// Chooses the `chosen_count` experts with the highest scores, the first among equals, and their weights (`shares`): the
// softmax over all experts, or over the chosen ones where `routing.normalizes`. A NaN score is never preferred and
// makes all weights of the row NaN.
inline void route(const Routing &routing, const float *scores, float *shares, int64_t *experts) {
    const int64_t count = routing.expert_count;
    for (int64_t i = 0; i < routing.chosen_count; ++i) {
        int64_t best = -1;
        for (int64_t expert = 0; expert < count; ++expert) {
            bool taken = false;
            for (int64_t j = 0; j < i; ++j) taken |= experts[j] == expert;
            if (!taken && (best < 0 || scores[expert] > scores[best])) best = expert;
        }
        experts[i] = best;
    }
    const Floats largest = spread(scores[experts[0]]);
    Floats total = spread(0.0f);
    Floats flaw = spread(0.0f);
    for (int64_t i = 0; i < count; i += kLanes) {
        const Floats value = load_some(scores + i, count - i);
        flaw = fma(value, spread(0.0f), flaw);
        float weights[kLanes] = {};
        store_some(weights, exponential(value - largest), count - i);
        total = total + load(weights);
    }
    float kept = 0.0f;
    for (int64_t i = 0; i < routing.chosen_count; i += kLanes) {
        float of_chosen[kLanes] = {};
        for (int64_t j = i; j < routing.chosen_count && j < i + kLanes; ++j) of_chosen[j - i] = scores[experts[j]];
        store_some(shares + i, exponential(load(of_chosen) - largest), routing.chosen_count - i);
    }
    for (int64_t i = 0; i < routing.chosen_count; ++i) kept += shares[i];
    const float divisor = (routing.normalizes ? kept : add_lanes(total)) + add_lanes(flaw);
    for (int64_t i = 0; i < routing.chosen_count; ++i) shares[i] /= divisor;
}

inline void route_rows(const Routing &routing, const float *scores, float *shares, int64_t *experts, int64_t rows,
                       Pool &pool) {
    over_rows(pool, rows, [&](int64_t row) {
        route(routing, scores + row * routing.expert_count, shares + row * routing.chosen_count,
              experts + row * routing.chosen_count);
    });
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
