// Kernels that work row by row: norms, activations and expert routing. A row's result depends on that row alone.

#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

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

// out = function(gate) * raised(up) (Shazeer, 2020), for rows of `size` gates followed by `size` ups.
inline void gate_rows(int32_t function, const float *x, float *out, int64_t rows, int64_t size, Pool &pool) {
    with_function(function, 0.0f, [&](const auto &f) {
        over_rows(pool, rows, [&](int64_t row) {
            const float *gate = x + row * 2 * size;
            const float *up = gate + size;
            for (int64_t i = 0; i < size; i += kLanes)
                store_some(out + row * size + i,
                           f(load_some(gate + i, size - i)) * raised(function, load_some(up + i, size - i)), size - i);
        });
    });
}

// Lists the `wanted` largest of `count` numbers, the first among equals. NaN is never preferred.
inline void choose_largest(const float *numbers, int64_t count, int64_t wanted, int64_t *found) {
    for (int64_t i = 0; i < wanted; ++i) {
        int64_t best = -1;
        for (int64_t each = 0; each < count; ++each) {
            bool taken = false;
            for (int64_t j = 0; j < i; ++j) taken |= found[j] == each;
            if (!taken && (best < 0 || numbers[each] > numbers[best])) best = each;
        }
        found[i] = best;
    }
}

// Returns 0, or NaN where any of the numbers is not finite.
inline float flaw_of(const float *numbers, int64_t count) {
    Floats flaw = spread(0.0f);
    for (int64_t i = 0; i < count; i += kLanes) flaw = fma(load_some(numbers + i, count - i), spread(0.0f), flaw);
    return add_lanes(flaw);
}

// Makes weights of a router's outputs: their softmax, or the sigmoid of each.
inline void weigh(int32_t score, const float *outputs, int64_t count, float *weights) {
    const bool is_softmax = score == kSoftmax;
    float largest = outputs[0];
    for (int64_t i = 1; is_softmax && i < count; ++i) largest = outputs[i] > largest ? outputs[i] : largest;
    float total = 0.0f;
    for (int64_t i = 0; i < count; i += kLanes) {
        const Floats x = load_some(outputs + i, count - i);
        const Floats one = spread(1.0f);
        const Floats e = exponential(is_softmax ? x - spread(largest) : spread(0.0f) - x);
        const Floats y = is_softmax ? e : one / (one + e);
        store_some(weights + i, y, count - i);
    }
    for (int64_t i = 0; i < count; ++i) total += weights[i];
    for (int64_t i = 0; is_softmax && i < count; ++i) weights[i] /= total;
}

// Gives all experts outside the chosen groups the lowest rank.
inline void keep_groups(const Routing &routing, float *ranks) {
    const int64_t size = routing.expert_count / routing.group_count;
    thread_local std::vector<float> sums;
    thread_local std::vector<int64_t> kept;
    sums.resize(routing.group_count);
    kept.resize(routing.chosen_group_count);
    for (int64_t group = 0; group < routing.group_count; ++group) {
        int64_t best[2];
        choose_largest(ranks + group * size, size, 2, best);
        sums[group] = ranks[group * size + best[0]] + ranks[group * size + best[1]];
    }
    choose_largest(sums.data(), routing.group_count, routing.chosen_group_count, kept.data());
    for (int64_t group = 0; group < routing.group_count; ++group)
        if (std::find(kept.begin(), kept.end(), group) == kept.end())
            std::fill_n(ranks + group * size, size, -INFINITY);
}

// Chooses the `chosen_count` experts with the highest scores, the first among equals, and their weights (`shares`): the
// softmax over all experts, or over the chosen ones where `routing.normalizes`. A NaN score is never preferred and
// makes all weights of the row NaN.
inline void route_by_softmax(const Routing &routing, const float *scores, float *shares, int64_t *experts) {
    const int64_t count = routing.expert_count;
    choose_largest(scores, count, routing.chosen_count, experts);
    const Floats largest = spread(scores[experts[0]]);
    Floats total = spread(0.0f);
    for (int64_t i = 0; i < count; i += kLanes) {
        float weights[kLanes] = {};
        store_some(weights, exponential(load_some(scores + i, count - i) - largest), count - i);
        total = total + load(weights);
    }
    float kept = 0.0f;
    for (int64_t i = 0; i < routing.chosen_count; i += kLanes) {
        float of_chosen[kLanes] = {};
        for (int64_t j = i; j < routing.chosen_count && j < i + kLanes; ++j) of_chosen[j - i] = scores[experts[j]];
        store_some(shares + i, exponential(load(of_chosen) - largest), routing.chosen_count - i);
    }
    for (int64_t i = 0; i < routing.chosen_count; ++i) kept += shares[i];
    const float divisor = (routing.normalizes ? kept : add_lanes(total)) + flaw_of(scores, count);
    for (int64_t i = 0; i < routing.chosen_count; ++i) shares[i] /= divisor;
}

// The same where scores are no softmax, or the choice is by other numbers than the weights (DeepSeek-V3, 2024): by
// scores with a bias, among the groups with the largest sums of two.
inline void route_by_choice(const Routing &routing, const float *scores, float *shares, int64_t *experts) {
    const int64_t count = routing.expert_count;
    thread_local std::vector<float> weights, ranks;
    weights.resize(count);
    ranks.resize(count);
    weigh(routing.score, scores, count, weights.data());
    for (int64_t i = 0; i < count; ++i) ranks[i] = weights[i] + (routing.bias ? routing.bias[i] : 0.0f);
    if (routing.group_count > 1) keep_groups(routing, ranks.data());
    choose_largest(ranks.data(), count, routing.chosen_count, experts);
    float kept = 0.0f;
    for (int64_t i = 0; i < routing.chosen_count; ++i) kept += shares[i] = weights[experts[i]];
    const float divisor = (routing.normalizes ? std::max(kept, routing.least_sum) : 1.0f) + flaw_of(scores, count);
    for (int64_t i = 0; i < routing.chosen_count; ++i) shares[i] /= divisor;
}

// Chooses the experts of a row, the shared one last, and their weights.
inline void route(const Routing &routing, const float *scores, float *shares, int64_t *experts) {
    const bool is_plain = routing.score == kSoftmax && !routing.bias && routing.group_count <= 1;
    (is_plain ? route_by_softmax : route_by_choice)(routing, scores, shares, experts);
    if (routing.scale != 0.0f && routing.scale != 1.0f)
        for (int64_t i = 0; i < routing.chosen_count; ++i) shares[i] *= routing.scale;
    if (!routing.shared) return;
    experts[routing.chosen_count] = routing.expert_count;
    shares[routing.chosen_count] = 1.0f;
    if (routing.shared == kGatedShared)
        weigh(kSigmoid, scores + routing.expert_count, 1, shares + routing.chosen_count);
}

inline int64_t places_of(const Routing &routing) { return routing.chosen_count + (routing.shared ? 1 : 0); }

inline void route_rows(const Routing &routing, const float *scores, float *shares, int64_t *experts, int64_t rows,
                       Pool &pool) {
    const int64_t width = routing.expert_count + (routing.shared == kGatedShared ? 1 : 0);
    over_rows(pool, rows, [&](int64_t row) {
        route(routing, scores + row * width, shares + row * places_of(routing), experts + row * places_of(routing));
    });
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
