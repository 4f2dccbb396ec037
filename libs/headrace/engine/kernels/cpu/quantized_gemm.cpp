// y[m, n] = sum_k x[m, k] * (code[n, k] - zero[n, g]) * scale[n, g] + bias[n],   g = k / group
//
// Weights of 4 or 8 bits, activations and sums in fp32. Every output element is summed in one fixed order, whatever the
// number of rows, the number of threads or the instruction set: eight partial sums per group (element k goes to partial
// sum k % 8, in order of k, by fused multiply-add), scaled and added up per group, added together at the end in a fixed
// tree. So AVX2 and the portable code give the same bits, and a row's result does not depend on its company.
//
// The zero point is taken out through the sum of the inputs of a group, so the inner loop knows codes only.
//
// Plain C interface, no library but the C and C++ runtimes.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#if defined(__x86_64__) && defined(__GNUC__)
#define HEADRACE_X86 1
#include <immintrin.h>
#endif

namespace {

constexpr int kLanes = 8;
constexpr int kBlock = 32;      // Codes that are packed together.
constexpr int kTileRows = 4;    // Rows of x that share one unpacked weight in registers.

struct Problem {
    const float *x;             // [rows, in]
    const uint8_t *codes;       // 4 bits: [out, in / 2], 8 bits: [out, in]; see headrace_pack_codes
    const float *scales;        // [out, groups]
    const float *zeros;         // [out, groups]
    const float *bias;          // [out] or null
    const float *residual;      // [rows, out] or null: added last
    float *y;                   // [rows, out]
    const float *group_sums;    // [rows, groups]
    int64_t rows, out, in, group;

    int64_t groups() const { return in / group; }
};

// Adds eight partial sums in a fixed tree.
inline float add_lanes(const float *lane) {
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

inline void finish(const Problem &p, int64_t m, int64_t n, const float *lanes) {
    const int64_t groups = p.groups();
    float correction = 0.0f;
    for (int64_t g = 0; g < groups; ++g)
        correction = std::fma(p.scales[n * groups + g] * p.zeros[n * groups + g], p.group_sums[m * groups + g], correction);
    float value = add_lanes(lanes) - correction;
    if (p.bias) value += p.bias[n];
    if (p.residual) value += p.residual[m * p.out + n];
    p.y[m * p.out + n] = value;
}

template <int kBits>
inline const uint8_t *row_of(const Problem &p, int64_t n) {
    return p.codes + n * (p.in * kBits / 8);
}

// The codes of one block of 32, as floats.
template <int kBits>
inline void unpack_block(const uint8_t *codes, float *values) {
    for (int i = 0; i < kBlock; ++i) {
        if (kBits == 8) values[i] = float(codes[i]);
        else values[i] = float(i < 16 ? codes[i] & 15 : codes[i - 16] >> 4);
    }
}

template <int kBits>
void portable_range(const Problem &p, int64_t first, int64_t last) {
    const int64_t groups = p.groups();
    float values[kBlock];
    for (int64_t n = first; n < last; ++n) {
        const uint8_t *row = row_of<kBits>(p, n);
        for (int64_t m = 0; m < p.rows; ++m) {
            float total[kLanes] = {};
            for (int64_t g = 0; g < groups; ++g) {
                float partial[kLanes] = {};
                for (int64_t k = g * p.group; k < (g + 1) * p.group; k += kBlock) {
                    unpack_block<kBits>(row + k * kBits / 8, values);
                    for (int i = 0; i < kBlock; ++i)
                        partial[i % kLanes] = std::fma(values[i], p.x[m * p.in + k + i], partial[i % kLanes]);
                }
                for (int i = 0; i < kLanes; ++i) total[i] = std::fma(p.scales[n * groups + g], partial[i], total[i]);
            }
            finish(p, m, n, total);
        }
    }
}

#ifdef HEADRACE_X86
#define HEADRACE_AVX2 __attribute__((target("avx2,fma")))

// Eight codes as floats; `part` is the position within the block, in eights.
template <int kBits, int kPart>
HEADRACE_AVX2 inline __m256 load_codes(const uint8_t *codes) {
    __m128i bytes;
    if (kBits == 8) {
        bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(codes + 8 * kPart));
    } else {
        bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(codes + 8 * (kPart % 2)));
        if (kPart >= 2) bytes = _mm_srli_epi16(bytes, 4);
        bytes = _mm_and_si128(bytes, _mm_set1_epi8(15));
    }
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
}

// A few rows against a few outputs, unpacking in registers. Several outputs at once keep the adders busy while each sum
// waits for its own last addition.
template <int kBits, int kRows, int kOutputs>
HEADRACE_AVX2 void stream_tile(const Problem &p, int64_t m0, int64_t n) {
    const int64_t groups = p.groups();
    __m256 total[kOutputs][kRows], partial[kOutputs][kRows];
    for (int o = 0; o < kOutputs; ++o)
        for (int m = 0; m < kRows; ++m) total[o][m] = _mm256_setzero_ps();
    for (int64_t g = 0; g < groups; ++g) {
        for (int o = 0; o < kOutputs; ++o)
            for (int m = 0; m < kRows; ++m) partial[o][m] = _mm256_setzero_ps();
        for (int64_t k = g * p.group; k < (g + 1) * p.group; k += kBlock) {
            for (int o = 0; o < kOutputs; ++o) {
                const uint8_t *codes = row_of<kBits>(p, n + o) + k * kBits / 8;
#define HEADRACE_PART(part)                                                                                       \
    {                                                                                                             \
        const __m256 weight = load_codes<kBits, part>(codes);                                                     \
        for (int m = 0; m < kRows; ++m)                                                                           \
            partial[o][m] = _mm256_fmadd_ps(weight, _mm256_loadu_ps(p.x + (m0 + m) * p.in + k + 8 * part), partial[o][m]); \
    }
                HEADRACE_PART(0) HEADRACE_PART(1) HEADRACE_PART(2) HEADRACE_PART(3)
#undef HEADRACE_PART
            }
        }
        for (int o = 0; o < kOutputs; ++o) {
            const __m256 scale = _mm256_set1_ps(p.scales[(n + o) * groups + g]);
            for (int m = 0; m < kRows; ++m) total[o][m] = _mm256_fmadd_ps(scale, partial[o][m], total[o][m]);
        }
    }
    for (int o = 0; o < kOutputs; ++o)
        for (int m = 0; m < kRows; ++m) {
            alignas(32) float lanes[kLanes];
            _mm256_store_ps(lanes, total[o][m]);
            finish(p, m0 + m, n + o, lanes);
        }
}

template <int kBits, int kRows, int kOutputs>
HEADRACE_AVX2 void stream_rows(const Problem &p, int64_t m0, int64_t first, int64_t last) {
    int64_t n = first;
    for (; n + kOutputs <= last; n += kOutputs) stream_tile<kBits, kRows, kOutputs>(p, m0, n);
    for (; n < last; ++n) stream_tile<kBits, kRows, 1>(p, m0, n);
}

constexpr int kOutputBlock = 8;  // Outputs that are unpacked together: one group of them stays in the first-level cache.

// kRows rows against two outputs within one group: the sums stay in registers, the totals in memory.
template <int kRows>
HEADRACE_AVX2 inline void add_group(const Problem &p, int64_t m0, int64_t k0, const float *values, const float *scales,
                                    float *totals) {
    __m256 partial[kRows][2];
    for (int m = 0; m < kRows; ++m) partial[m][0] = partial[m][1] = _mm256_setzero_ps();
    for (int64_t k = 0; k < p.group; k += kLanes) {
        const __m256 a = _mm256_loadu_ps(values + k), b = _mm256_loadu_ps(values + p.group + k);
        for (int m = 0; m < kRows; ++m) {
            __m256 input = _mm256_loadu_ps(p.x + (m0 + m) * p.in + k0 + k);
            __asm__("" : "+x"(input));  // Else GCC folds the load into both additions and loads twice.
            partial[m][0] = _mm256_fmadd_ps(a, input, partial[m][0]);
            partial[m][1] = _mm256_fmadd_ps(b, input, partial[m][1]);
        }
    }
    for (int m = 0; m < kRows; ++m)
        for (int o = 0; o < 2; ++o) {
            float *total = totals + (m * kOutputBlock + o) * kLanes;
            _mm256_storeu_ps(total, _mm256_fmadd_ps(_mm256_set1_ps(scales[o]), partial[m][o], _mm256_loadu_ps(total)));
        }
}

// Many rows: unpack one group of a block of outputs once, use it for all rows.
template <int kBits>
HEADRACE_AVX2 void unpacked_range(const Problem &p, int64_t first, int64_t last) {
    const int64_t groups = p.groups();
    std::vector<float> values(kOutputBlock * p.group), totals(p.rows * kOutputBlock * kLanes);
    for (int64_t n0 = first; n0 < last; n0 += kOutputBlock) {
        const int outputs = int(last - n0 < kOutputBlock ? last - n0 : kOutputBlock);
        std::fill(totals.begin(), totals.end(), 0.0f);
        for (int64_t g = 0; g < groups; ++g) {
            float scales[kOutputBlock] = {};
            for (int o = 0; o < outputs; ++o) {
                const uint8_t *row = row_of<kBits>(p, n0 + o) + g * p.group * kBits / 8;
                float *unpacked = values.data() + o * p.group;
                for (int64_t k = 0; k < p.group; k += kBlock) {
                    const uint8_t *codes = row + k * kBits / 8;
                    _mm256_storeu_ps(unpacked + k, load_codes<kBits, 0>(codes));
                    _mm256_storeu_ps(unpacked + k + 8, load_codes<kBits, 1>(codes));
                    _mm256_storeu_ps(unpacked + k + 16, load_codes<kBits, 2>(codes));
                    _mm256_storeu_ps(unpacked + k + 24, load_codes<kBits, 3>(codes));
                }
                scales[o] = p.scales[(n0 + o) * groups + g];
            }
            // Outputs beyond the last of an odd block compute with what was there before, and are not kept.
            for (int64_t m = 0; m < p.rows; m += kTileRows)
                for (int o = 0; o < outputs; o += 2) {
                    float *tile = totals.data() + (m * kOutputBlock + o) * kLanes;
                    const float *pair = values.data() + o * p.group;
                    if (m + kTileRows <= p.rows) add_group<kTileRows>(p, m, g * p.group, pair, scales + o, tile);
                    else
                        for (int64_t rest = m; rest < p.rows; ++rest)
                            add_group<1>(p, rest, g * p.group, pair, scales + o,
                                         tile + (rest - m) * kOutputBlock * kLanes);
                }
        }
        for (int64_t m = 0; m < p.rows; ++m)
            for (int o = 0; o < outputs; ++o) finish(p, m, n0 + o, totals.data() + (m * kOutputBlock + o) * kLanes);
    }
}

constexpr int64_t kStreamedRows = 8;  // Up to here unpacking again is cheaper than writing down what was unpacked.

template <int kBits>
HEADRACE_AVX2 void avx2_range(const Problem &p, int64_t first, int64_t last) {
    if (p.rows > kStreamedRows) return unpacked_range<kBits>(p, first, last);
    int64_t m = 0;
    for (; m + 4 <= p.rows; m += 4) stream_rows<kBits, 4, 2>(p, m, first, last);
    switch (p.rows - m) {
        case 3: return stream_rows<kBits, 3, 2>(p, m, first, last);
        case 2: return stream_rows<kBits, 2, 2>(p, m, first, last);
        case 1: return stream_rows<kBits, 1, 4>(p, m, first, last);
        default: return;
    }
}
#endif

void run_range(const Problem &p, int bits, bool vectors, int64_t first, int64_t last) {
#ifdef HEADRACE_X86
    if (vectors) return bits == 4 ? avx2_range<4>(p, first, last) : avx2_range<8>(p, first, last);
#endif
    return bits == 4 ? portable_range<4>(p, first, last) : portable_range<8>(p, first, last);
}

}  // namespace

extern "C" {

// Raised whenever the interface or the packed layout changes.
int headrace_kernels_version() { return 1; }

int headrace_has_avx2() {
#ifdef HEADRACE_X86
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

// Packs codes [out, in] of 4 bits: byte i of a block of 32 holds code i in its low and code i + 16 in its high nibble.
void headrace_pack_codes(const uint8_t *codes, uint8_t *packed, int64_t count) {
    for (int64_t block = 0; block < count / kBlock; ++block)
        for (int i = 0; i < 16; ++i)
            packed[block * 16 + i] = uint8_t(codes[block * kBlock + i] | (codes[block * kBlock + 16 + i] << 4));
}

// Sums of the inputs of each group: x [rows, in] to sums [rows, in / group], in the order of the product.
void headrace_group_sums(const float *x, float *sums, int64_t rows, int64_t in, int64_t group) {
    const int64_t groups = in / group;
    for (int64_t m = 0; m < rows; ++m)
        for (int64_t g = 0; g < groups; ++g) {
            float lanes[kLanes] = {};
            const float *values = x + m * in + g * group;
            for (int64_t k = 0; k < group; k += kLanes)
                for (int i = 0; i < kLanes; ++i) lanes[i] += values[k + i];
            sums[m * groups + g] = add_lanes(lanes);
        }
}

// Computes outputs first..last-1 of all rows. `in` and `group` are multiples of 32, `bits` is 4 or 8.
void headrace_quantized_gemm(const float *x, const float *group_sums, const uint8_t *codes, const float *scales,
                             const float *zeros, const float *bias, const float *residual, float *y, int64_t rows,
                             int64_t out, int64_t in, int64_t group, int bits, int vectors, int64_t first,
                             int64_t last) {
    const Problem problem{x, codes, scales, zeros, bias, residual, y, group_sums, rows, out, in, group};
    run_range(problem, bits, vectors != 0, first, last);
}
}
