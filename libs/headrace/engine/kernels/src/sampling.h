// Sampling from a row of logits: the argmax, a random token, or the top tokens in order.
//
// A random token is found by inverting the cumulative distribution at a uniform random number, with the weights
// e^((logit - largest) / temperature). Top-k and top-p sort only the head of the distribution; a histogram of the
// weights tells which tokens can belong to it.

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "abi.h"
#include "lanes.h"
#include "reductions.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr int64_t kSection = 1024;  // Numbers that are summed or searched together.

// Calls body(index, vector) for the `count` numbers at p. The tail is padded with minus infinity.
template <typename Body> inline void over_lanes(const float *p, int64_t count, const Body &body) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) body(i, load(p + i));
    if (i == count) return;
    float rest[kLanes];
    for (int j = 0; j < kLanes; ++j) rest[j] = i + j < count ? p[i + j] : -INFINITY;
    body(i, load(rest));
}

// Returns the index of the largest logit, the first among equals. `value` gets that logit, or NaN where any is NaN.
inline int64_t find_likeliest(const float *logits, int64_t count, float *value) {
    Floats most = spread(-INFINITY);
    Floats numbers = spread(0.0f);
    int64_t section = 0;
    float largest = -INFINITY;
    for (int64_t begin = 0; begin < count; begin += kSection) {
        over_lanes(logits + begin, std::min(kSection, count - begin), [&](int64_t, Floats x) {
            most = larger(x, most);
            numbers = numbers + where_at_least(x, x, spread(1.0f));
        });
        const float found = largest_lane(most);
        if (found > largest) {
            largest = found;
            section = begin;
        }
    }
    const int64_t padded = (count + kLanes - 1) / kLanes * kLanes;
    *value = add_lanes(numbers) == static_cast<float>(padded) ? largest : NAN;
    for (int64_t i = section; i < std::min(section + kSection, count); ++i)
        if (logits[i] == largest) return i;
    return 0;
}

// Buffers for one row. Each thread has its own.
struct DrawScratch {
    std::vector<float> weights;
    std::vector<int32_t> head;  // Token ids, largest weight first.
};

// Computes the weights of all tokens, the largest of which is 1. Returns their sum.
inline double weigh_tokens(const Draw &draw, int64_t vocabulary, float largest, std::vector<float> &weights) {
    const Floats temperature = spread(draw.temperature);
    const Floats most = spread(largest);
    weights.resize((vocabulary + kLanes - 1) / kLanes * kLanes);
    double total = 0.0;
    for (int64_t begin = 0; begin < vocabulary; begin += kSection) {
        Floats sum = spread(0.0f);
        over_lanes(draw.logits + begin, std::min(kSection, vocabulary - begin), [&](int64_t i, Floats x) {
            const Floats weight = exponential((x - most) / temperature);
            store(weights.data() + begin + i, weight);
            sum = sum + weight;
        });
        total += add_lanes(sum);
    }
    return total;
}

// Histogram bins: eight for each power of two, from the smallest weight above zero to 1.
constexpr int kSteps = 128 * 8;

inline int step_of(float weight) {
    int32_t bits;
    std::memcpy(&bits, &weight, sizeof bits);
    return bits >> 20;  // At most 127 * 8.
}

// Fills `scratch.head` with the tokens that top-k and top-p choose from, largest weight first, lower id first among
// equals. It may hold more than needed.
inline void find_head(const Draw &draw, int64_t vocabulary, double total, DrawScratch &scratch) {
    const float *weights = scratch.weights.data();
    int64_t counts[kSteps] = {};
    double masses[kSteps] = {};
    for (int64_t i = 0; i < vocabulary; ++i) {
        const int step = step_of(weights[i]);
        counts[step] += 1;
        masses[step] += weights[i];
    }
    const int64_t enough = draw.top_k ? draw.top_k : vocabulary;
    const double limit = draw.top_p < 1.0f ? draw.top_p * total : std::numeric_limits<double>::infinity();
    int lowest = kSteps - 1;
    int64_t count = counts[lowest];
    double mass = masses[lowest];
    // The search adds the weights in another order, so its sums differ a little: the margin keeps the head complete.
    while (lowest > 0 && count < enough && mass < limit * (1 + 1e-6)) {
        --lowest;
        count += counts[lowest];
        mass += masses[lowest];
    }
    scratch.head.clear();
    for (int64_t i = 0; i < vocabulary; ++i)
        if (step_of(weights[i]) >= lowest) scratch.head.push_back(static_cast<int32_t>(i));
    std::stable_sort(scratch.head.begin(), scratch.head.end(),
                     [=](int32_t a, int32_t b) { return weights[a] > weights[b]; });
}

// Returns how many tokens of the head remain after top-k and then top-p (Holtzman et al., 2020).
inline int64_t keep_head(const Draw &draw, double total, const DrawScratch &scratch) {
    int64_t kept = static_cast<int64_t>(scratch.head.size());
    if (draw.top_k && draw.top_k < kept) kept = draw.top_k;
    if (draw.top_p >= 1.0f) return kept;
    if (draw.top_k) {
        total = 0.0;
        for (int64_t i = 0; i < kept; ++i) total += scratch.weights[scratch.head[i]];
    }
    const double limit = draw.top_p * total;
    double before = 0.0;
    for (int64_t i = 0; i < kept; ++i) {
        if (before >= limit && i) return i;
        before += scratch.weights[scratch.head[i]];
    }
    return kept;
}

// Inverts the cumulative distribution of `count` tokens: returns the first at which it exceeds `uniform`. Weights below
// `least` count as zero.
template <typename Token>
inline int64_t invert(int64_t count, const float *weights, float least, double uniform, const Token &token) {
    const auto weight = [&](int64_t i) {
        return weights[token(i)] >= least ? static_cast<double>(weights[token(i)]) : 0.0;
    };
    std::vector<double> sums;
    double total = 0.0;
    for (int64_t begin = 0; begin < count; begin += kSection) {
        double sum = 0.0;
        for (int64_t i = begin; i < std::min(begin + kSection, count); ++i) sum += weight(i);
        total += sum;
        sums.push_back(total);
    }
    const double target = uniform * total;
    // Rounding may make the target equal to the total, which no partial sum exceeds.
    const auto found = target < total ? std::upper_bound(sums.begin(), sums.end(), target)
                                      : std::lower_bound(sums.begin(), sums.end(), total);
    const int64_t section = found - sums.begin();
    double reached = section ? sums[section - 1] : 0.0;
    int64_t last = 0;
    for (int64_t i = section * kSection; i < std::min((section + 1) * kSection, count); ++i) {
        if (weight(i) == 0.0) continue;
        last = i;
        reached += weight(i);
        if (reached > target) break;
    }
    return token(last);
}

inline void draw_token(Draw &draw, int64_t vocabulary) {
    thread_local DrawScratch scratch;
    float largest;
    draw.token_id = find_likeliest(draw.logits, vocabulary, &largest);
    if (!(draw.temperature > 0.0f) || !std::isfinite(largest)) return;
    const double total = weigh_tokens(draw, vocabulary, largest, scratch.weights);
    const float *weights = scratch.weights.data();
    // Min-p (Nguyen et al., 2024) is relative to the largest weight, which is 1. Zero weights are never drawn.
    const float least = std::max(draw.min_p, std::numeric_limits<float>::denorm_min());
    if (!draw.top_k && draw.top_p >= 1.0f) {
        draw.token_id = invert(vocabulary, weights, least, draw.uniform, [](int64_t i) { return i; });
        return;
    }
    find_head(draw, vocabulary, total, scratch);
    const int64_t kept = keep_head(draw, total, scratch);
    draw.token_id = invert(kept, weights, least, draw.uniform, [&](int64_t i) { return scratch.head[i]; });
}

inline void rank_tokens(Ranking &ranking, int64_t vocabulary) {
    thread_local std::vector<int32_t> order;
    float largest;
    find_likeliest(ranking.logits, vocabulary, &largest);
    const Floats most = spread(largest);
    double total = 0.0;
    for (int64_t begin = 0; begin < vocabulary; begin += kSection) {
        Floats sum = spread(0.0f);
        over_lanes(ranking.logits + begin, std::min(kSection, vocabulary - begin),
                   [&](int64_t, Floats x) { sum = sum + exponential(x - most); });
        total += add_lanes(sum);
    }
    ranking.normalizer = largest + std::log(total);
    if (!ranking.count || largest != largest) return;
    order.resize(vocabulary);
    for (int64_t i = 0; i < vocabulary; ++i) order[i] = static_cast<int32_t>(i);
    const float *logits = ranking.logits;
    const auto stronger = [=](int32_t a, int32_t b) {
        return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
    };
    std::partial_sort(order.begin(), order.begin() + ranking.count, order.end(), stronger);
    for (int64_t i = 0; i < ranking.count; ++i) ranking.token_ids[i] = order[i];
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
