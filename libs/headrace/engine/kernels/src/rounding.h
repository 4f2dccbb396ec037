// Symmetric quantization: numbers become integer multiples of a unit.

#pragma once

#include <cstdint>

#include "lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

struct Rounded {
    float unit;  // NaN if an input is infinite or NaN, which codes cannot represent.
    float sum;   // Sum of the codes.
};

// Quantizes `size` numbers, a multiple of 16, such that the largest magnitude gets the code `limit`.
template <typename Code> inline Rounded round_to_codes(const float *x, int64_t size, float limit, Code *codes) {
    Floats most = spread(0.0f);
    Floats flaw = spread(0.0f);
    for (int64_t k = 0; k < size; k += kLanes) {
        const Floats values = load(x + k);
        most = larger(magnitude(values), most);
        flaw = fma(values, spread(0.0f), flaw);
    }
    const float largest = largest_lane(most);
    const float inverse = largest > 1e-30f ? limit / largest : 0.0f;
    Ints total = spread(int32_t{0});
    for (int64_t k = 0; k < size; k += kLanes) {
        const Ints code = round_to_ints(load(x + k) * spread(inverse));
        total = total + code;
        if constexpr (sizeof(Code) == 1)
            store_s8(codes + k, code);
        else
            store_s16(codes + k, code);
    }
    return {largest / limit + add_lanes(flaw), add_lanes(to_floats(total))};
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
