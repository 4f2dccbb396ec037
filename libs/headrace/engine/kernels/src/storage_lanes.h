// Plain numbers in memory, widened to 16 lanes of fp32.

#pragma once

#include "abi.h"
#include "lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

// Loads 16 numbers of a plain storage.
template <int kStorage> inline Floats load_as(const uint8_t *p) {
    if constexpr (kStorage == kF32) return load(reinterpret_cast<const float *>(p));
    if constexpr (kStorage == kBf16) return load_bf16(reinterpret_cast<const uint16_t *>(p));
    if constexpr (kStorage == kF16) return load_f16(reinterpret_cast<const uint16_t *>(p));
}

// Loads 16 numbers from number `at` on, of a plain storage that is known only now.
inline Floats load_any(const uint8_t *p, int32_t storage, int64_t at) {
    if (storage == kF32) return load_as<kF32>(p + at * 4);
    if (storage == kBf16) return load_as<kBf16>(p + at * 2);
    return load_as<kF16>(p + at * 2);
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
