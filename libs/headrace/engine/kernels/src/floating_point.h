// The floating-point mode of the kernels' threads: round to nearest, keep subnormal numbers. Other libraries may have
// set a thread to flush subnormals to zero, which would change results.

#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {

// Sets the mode for as long as it lives.
class UsualRounding {
  public:
#if defined(__x86_64__)
    UsualRounding() : saved_(_mm_getcsr()) { _mm_setcsr(kUsual); }
    ~UsualRounding() { _mm_setcsr(saved_); }
#else
    UsualRounding() {}
#endif
    UsualRounding(const UsualRounding &) = delete;
    UsualRounding &operator=(const UsualRounding &) = delete;

  private:
#if defined(__x86_64__)
    static constexpr unsigned kUsual = 0x1F80;  // All exceptions masked, no flush to zero.
    unsigned saved_;
#endif
};

}  // namespace headrace
