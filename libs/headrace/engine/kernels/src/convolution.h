// Causal convolutions of single channels, as they stand before recurrences and in LFM2 (Liquid AI, 2025).
//
// A token's output is the sum of the inputs of the last tokens of its sequence, each times a weight of the channel. The
// products are rounded and added one after the other, the oldest first, so that bits depend neither on the chunk nor on
// the batch, and are those of torch.

#pragma once

#include <algorithm>
#include <cstring>

#include "abi.h"
#include "lanes.h"
#include "pool.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr int64_t kTaskChannels = 256;  // The rows that a token sees stay in the first-level cache.
alignas(64) constexpr float kNoInputs[kTaskChannels] = {};

// Neighboring channels of a span.
class ConvolvedChannels {
  public:
    ConvolvedChannels(const Convolution &convolution, const StateMove &move, int64_t first)
        : convolution_(convolution), move_(move), first_(first),
          count_(std::min(kTaskChannels, convolution.channel_count - first)), tail_length_(convolution.tap_count - 1) {}

    void run() const {
        for (int64_t number = 0; number < move_.row_count; ++number) convolve(number);
        for (const auto &capture : move_.captures)
            if (capture.row_count) keep(capture.row_count, capture.slot);
        if (move_.target >= 0) keep(move_.row_count, move_.target);
    }

  private:
    void convolve(int64_t number) const {
        float *outputs = convolution_.outputs + (move_.first_row + number) * convolution_.channel_count + first_;
        const float *inputs[kMostTaps];
        for (int64_t tap = 0; tap <= tail_length_; ++tap) inputs[tap] = seen(number + tap - tail_length_);
        const float *taps = convolution_.taps + first_;
        for (int64_t i = 0; i < count_; i += kLanes) {
            const int64_t left = count_ - i;
            Floats sum = load_some(inputs[0] + i, left) * load_some(taps + i, left);
            for (int64_t tap = 1; tap <= tail_length_; ++tap) {
                const float *weights = taps + tap * convolution_.channel_count + i;
                sum = sum + load_some(inputs[tap] + i, left) * load_some(weights, left);
            }
            if (convolution_.bias) sum = sum + load_some(convolution_.bias + first_ + i, left);
            store_some(outputs + i, sum, left);
        }
    }

    // Makes the inputs before the token `number` of the span those of a slot.
    void keep(int64_t number, int64_t slot) const {
        // In this order none is overwritten that is still to be read, where the slot is the one that is continued.
        for (int64_t i = 0; i < tail_length_; ++i) {
            const float *inputs = seen(number + i - tail_length_);
            std::memmove(tail(slot, i), inputs, static_cast<size_t>(count_) * sizeof(float));
        }
    }

    // Returns the inputs of the token `number` of the span, negative before it; zeros before the text.
    const float *seen(int64_t number) const {
        if (number >= 0) return convolution_.inputs + (move_.first_row + number) * convolution_.stride + first_;
        return move_.source < 0 ? kNoInputs : tail(move_.source, number + tail_length_);
    }

    float *tail(int64_t slot, int64_t number) const {
        return convolution_.tails + (slot * tail_length_ + number) * convolution_.channel_count + first_;
    }

    const Convolution &convolution_;
    const StateMove &move_;
    const int64_t first_, count_, tail_length_;
};

// A task is some channels of a span.
inline void convolve_rows(const Convolution &convolution, Pool &pool) {
    const int64_t parts = (convolution.channel_count + kTaskChannels - 1) / kTaskChannels;
    pool.run(convolution.move_count * parts, [&](int64_t task, int) {
        ConvolvedChannels(convolution, convolution.moves[task / parts], task % parts * kTaskChannels).run();
    });
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
