// How a thread rounds: to nearest, with subnormal numbers as they are. Other libraries may have set it to flush them to zero,
// which would change bits.

#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {

class UsualRounding {
  public:
#if defined(__x86_64__)
    UsualRounding() : before_(_mm_getcsr()) { _mm_setcsr(kUsual); }
    ~UsualRounding() { _mm_setcsr(before_); }
#else
    UsualRounding() {}
#endif
    UsualRounding(const UsualRounding &) = delete;
    UsualRounding &operator=(const UsualRounding &) = delete;

  private:
#if defined(__x86_64__)
    static constexpr unsigned kUsual = 0x1F80;  // No exception is trapped, and nothing flushed.
    unsigned before_;
#endif
};

}  // namespace headrace
