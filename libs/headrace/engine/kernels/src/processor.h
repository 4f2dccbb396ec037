// The instruction sets that the processor of this machine has.

#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace headrace {

// Numbered as `Instructions` in library.py: slower before faster, among those of one architecture.
enum Instructions { kPortable = 0, kNeon = 1, kAvx2 = 2, kAvxVnni = 3, kAvx512 = 4, kAmx = 5, kI8mm = 6 };

#if defined(__x86_64__)

inline bool has_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

// Not all compilers know its name. It keeps nothing that the system would have to save beyond AVX's registers.
inline bool has_avx_vnni() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & 1u << 4;
}

inline bool has_avx512() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
}

inline bool has_processor(int instructions) {
    __builtin_cpu_init();
    switch (instructions) {
        case kPortable: return true;
        case kAvx2: return has_avx2();
        case kAvxVnni: return has_avx_vnni();
        case kAvx512:
        case kAmx: return has_avx512();
        default: return false;
    }
}

#elif defined(__aarch64__)

#if defined(__APPLE__)

inline bool has_feature(const char *name) {
    int found = 0;
    size_t size = sizeof found;
    return !sysctlbyname(name, &found, &size, nullptr, 0) && found;
}

#endif

// Dot products of bytes, and the atomic operations that hatch_build.py lets the compiler use beside them.
inline bool has_dot_products() {
#if defined(__linux__)
    // As arch/arm64/include/uapi/asm/hwcap.h of Linux numbers them: the C library's headers may be older.
    constexpr unsigned long kAtomics = 1ul << 8;
    constexpr unsigned long kDotProducts = 1ul << 20;
    const unsigned long found = getauxval(AT_HWCAP);
    return found & kAtomics && found & kDotProducts;
#elif defined(__APPLE__)
    // All of Apple's processors with dot products have the atomic operations.
    return has_feature("hw.optional.arm.FEAT_DotProd");
#else
    return false;
#endif
}

// Matrix products of bytes, and dot products of unsigned with signed ones.
inline bool has_matrix_products() {
#if defined(__linux__)
    constexpr unsigned long kMatrixProducts = 1ul << 13;
    return has_dot_products() && getauxval(AT_HWCAP2) & kMatrixProducts;
#elif defined(__APPLE__)
    return has_dot_products() && has_feature("hw.optional.arm.FEAT_I8MM");
#else
    return false;
#endif
}

inline bool has_processor(int instructions) {
    switch (instructions) {
        case kPortable: return true;
        case kNeon: return has_dot_products();
        case kI8mm: return has_matrix_products();
        default: return false;
    }
}

#else

inline bool has_processor(int instructions) { return instructions == kPortable; }

#endif

}  // namespace headrace
