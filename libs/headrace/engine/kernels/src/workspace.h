// Buffers for intermediate results, reused from step to step so that a step allocates nothing.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

#include "abi.h"

namespace headrace {

// An uninitialized array, aligned to cache lines. Grows, never shrinks.
template <typename T> class Buffer {
  public:
    Buffer() = default;
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    ~Buffer() { std::free(data_); }

    // Returns room for `count` numbers, whose values are lost. Throws std::bad_alloc.
    T *take(int64_t count) {
        if (count > capacity_) {
            std::free(data_);
            capacity_ = 0;
            const size_t bytes = (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
            data_ = static_cast<T *>(std::aligned_alloc(64, bytes));
            if (!data_) throw std::bad_alloc();
            capacity_ = count;
        }
        return data_;
    }

  private:
    T *data_ = nullptr;
    int64_t capacity_ = 0;
};

// Attention of one query to one segment of its sequence, or to several that were merged: see segment.h.
struct Part {
    float *sums;  // [head]: values, weighted by exp(score - most)
    float most;   // Largest score; minus infinity if the mask hides all tokens
    float total;  // Sum of the weights
};

struct Workspace {
    Buffer<float> hidden, normed, qkv, attended, active, branch, scales, sums, ordered, segment_sums;
    Buffer<float> scores, shares;            // Of experts
    Buffer<int64_t> chosen, firsts, places;  // Of experts
    Buffer<float> shrunk;                    // Of adapters
    Buffer<int64_t> groups;                  // Of adapters
    Buffer<const Update *> updates;          // Of adapters
    Buffer<Span> spans;                      // Of encoders
    Buffer<int64_t> tables;                  // Of encoders
    Buffer<float> blocks;                    // Of encoders: keys and values
    Buffer<float> memories;                  // Of recurrences: what each thread moves
    Buffer<Part> parts;
    Buffer<int8_t> codes;
    Buffer<int32_t> words;
    Buffer<int16_t> wide;
};

}  // namespace headrace
