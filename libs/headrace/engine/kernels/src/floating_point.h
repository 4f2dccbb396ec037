// The floating-point mode of the kernels' threads: round to nearest, keep subnormal numbers, and on Arm what a NaN
// carries. Other libraries may have set a thread to flush subnormals to zero, which would change results.

#pragma once

#include <cstdint>

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
#elif defined(__aarch64__)
    UsualRounding() {
        asm volatile("mrs %0, fpcr" : "=r"(saved_)::"memory");
        set(kUsual);
    }
    ~UsualRounding() { set(saved_); }
#else
    UsualRounding() {}
#endif
    UsualRounding(const UsualRounding &) = delete;
    UsualRounding &operator=(const UsualRounding &) = delete;

  private:
#if defined(__x86_64__)
    static constexpr unsigned kUsual = 0x1F80;  // All exceptions masked, no flush to zero.
    unsigned saved_;
#elif defined(__aarch64__)
    // Computation must not move across it.
    static void set(uint64_t mode) { asm volatile("msr fpcr, %0" ::"r"(mode) : "memory"); }

    // FPCR: no traps, no flush to zero, half precision as IEEE 754 has it, no default NaN, no alternate handling.
    static constexpr uint64_t kUsual = 0;
    uint64_t saved_;
#endif
};

}  // namespace headrace
