// Symmetric quantization: numbers become integer multiples of a unit.

#pragma once

#include <bit>
#include <cstdint>

#include "lanes.h"
#include "reductions.h"

namespace headrace {
namespace HEADRACE_ISA {

struct Rounded {
    float unit;  // NaN if an input is infinite or NaN, which codes cannot represent.
    float sum;   // Sum of the codes.
};

// The largest magnitude of numbers: NaN if one of them is, and infinite if one is infinite and none NaN. As integers,
// the bits of magnitudes are in this order.
class Extent {
  public:
    void add(Floats values) { most_ = larger(as_ints(magnitude(values)), most_); }
    float most() const { return std::bit_cast<float>(largest_lane(most_)); }

  private:
    Ints most_ = spread(int32_t{0});
};

// Quantizes `size` numbers of a known extent, such that its largest magnitude gets the code `limit`. `size` is a
// multiple of 16.
template <typename Code>
inline Rounded round_within(const Extent &extent, const float *x, int64_t size, float limit, Code *codes) {
    const float most = extent.most();
    const float flaw = 0.0f * most;  // NaN unless `most` is finite
    const float inverse = most > 1e-30f ? limit / most : 0.0f;
    Ints total = spread(int32_t{0});
    for (int64_t k = 0; k < size; k += kLanes) {
        const Ints code = round_to_ints(load(x + k) * spread(inverse));
        total = total + code;
        if constexpr (sizeof(Code) == 1)
            store_s8(codes + k, code);
        else
            store_s16(codes + k, code);
    }
    return {most / limit + flaw, add_lanes(to_floats(total))};
}

template <typename Code> inline Rounded round_to_codes(const float *x, int64_t size, float limit, Code *codes) {
    Extent extent;
    for (int64_t k = 0; k < size; k += kLanes) extent.add(load(x + k));
    return round_within(extent, x, size, limit, codes);
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
