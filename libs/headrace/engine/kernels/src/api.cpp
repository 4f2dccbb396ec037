// The C interface that Python calls: checks arguments, picks the kernels of an instruction set, and packs weights. It
// depends on the C and C++ runtimes only.

#include <memory>

#include "block_packing.h"
#include "checked_ids.h"
#include "checked_states.h"
#include "code_packing.h"
#include "floating_point.h"
#include "kernels.h"
#include "plain_packing.h"
#include "processor.h"

using namespace headrace;

namespace {

// Returns the kernels of an instruction set, or null if this library was built without them. hatch_build.py defines
// HEADRACE_WITH_... for each set that the compiler takes.
const Kernels *find(int instructions) {
    switch (instructions) {
        case kPortable: return &portable::kernels;
#if defined(HEADRACE_WITH_NEON)
        case kNeon: return &neon::kernels;
#endif
#if defined(HEADRACE_WITH_I8MM)
        case kI8mm: return &i8mm::kernels;
#endif
#if defined(HEADRACE_WITH_AVX2)
        case kAvx2: return &avx2::kernels;
#endif
#if defined(HEADRACE_WITH_AVX_VNNI)
        case kAvxVnni: return &avx_vnni::kernels;
#endif
#if defined(HEADRACE_WITH_AVX512)
        case kAvx512: return &avx512::kernels;
#endif
#if defined(HEADRACE_WITH_AMX)
        case kAmx: return &amx::kernels;
#endif
        default: return nullptr;
    }
}

// Says why an instruction set cannot be used here, or null.
const char *why_not(int instructions) {
    if (!find(instructions)) return "the kernels were compiled without it";
    if (!has_processor(instructions)) return "this processor does not have it";
#if defined(HEADRACE_WITH_AMX)
    if (instructions == kAmx) {
        static const char *const reason = amx::why_not();
        return reason;
    }
#endif
    return nullptr;
}

struct Context {
    explicit Context(int threads) : pool(threads) {}

    Pool pool;
    Workspace space;
};

// Runs `body` unless the arguments were found bad. Returns a Failure.
template <typename Body> int call(void *context, int instructions, Failure found, const Body &body) {
    if (found != kFine) return found;
    if (!find(instructions)) return kUnknown;
    const UsualRounding rounding;
    try {
        body(*find(instructions), *static_cast<Context *>(context));
        return kFine;
    } catch (const std::bad_alloc &) {
        return kNoMemory;
    } catch (...) {
        return kUnknown;
    }
}

}  // namespace

extern "C" {

int headrace_version() { return kVersion; }

// Returns the reason why an instruction set cannot be used here, as static text; an empty one if it can.
const char *headrace_why_not(int instructions) {
    const char *reason = why_not(instructions);
    return reason ? reason : "";
}

// Returns null for a bad count, or where a thread cannot be started.
void *headrace_open(int threads) {
    try {
        return threads < 1 ? nullptr : new Context(threads);
    } catch (...) {
        return nullptr;
    }
}

void headrace_close(void *context) { delete static_cast<Context *>(context); }

// Here and below, `instructions` must be a set for which headrace_why_not returns an empty text.
int headrace_step(void *context, int instructions, const Model *model, const Step *step) {
    return call(context, instructions, check_step(*model, *step),
                [&](const Kernels &k, Context &c) { k.step(*model, *step, c.pool, c.space); });
}

int headrace_encode(void *context, int instructions, const Encoder *encoder, const EncoderBatch *batch) {
    return call(context, instructions, check_batch(*encoder, *batch),
                [&](const Kernels &k, Context &c) { k.encode(*encoder, *batch, c.pool, c.space); });
}

int headrace_product(void *context, int instructions, const Matrix *w, const float *x, const float *residual, float *y,
                     int64_t rows) {
    return call(context, instructions, kFine,
                [&](const Kernels &k, Context &c) { k.product(*w, x, residual, y, rows, c.pool, c.space); });
}

int headrace_attend(void *context, int instructions, const Model *model, const Layer *layer, const Step *step,
                    float *qkv, float *out) {
    return call(context, instructions, check_attention(*model, *layer, *step),
                [&](const Kernels &k, Context &c) { k.attend(*model, *layer, *step, qkv, out, c.pool, c.space); });
}

int headrace_recur(void *context, int instructions, const Recurrence *recurrence) {
    return call(context, instructions, check_recurrence(*recurrence),
                [&](const Kernels &k, Context &c) { k.recur(*recurrence, c.pool, c.space); });
}

int headrace_convolve(void *context, int instructions, const Convolution *convolution) {
    return call(context, instructions, check_convolution(*convolution),
                [&](const Kernels &k, Context &c) { k.convolve(*convolution, c.pool); });
}

int headrace_normalize(void *context, int instructions, const Norm *norm, const float *x, float *y, int64_t rows) {
    return call(context, instructions, kFine,
                [&](const Kernels &k, Context &c) { k.normalize(*norm, x, y, rows, c.pool); });
}

int headrace_activate(void *context, int instructions, int function, float cap, const float *x, float *y, int64_t rows,
                      int64_t size) {
    return call(context, instructions, kFine,
                [&](const Kernels &k, Context &c) { k.activate(function, cap, x, y, rows, size, c.pool); });
}

int headrace_gate(void *context, int instructions, int function, const float *x, float *y, int64_t rows, int64_t size) {
    return call(context, instructions, kFine,
                [&](const Kernels &k, Context &c) { k.gate(function, x, y, rows, size, c.pool); });
}

int headrace_route(void *context, int instructions, const Routing *routing, const float *scores, float *shares,
                   int64_t *experts, int64_t rows) {
    return call(context, instructions, check_routing(*routing),
                [&](const Kernels &k, Context &c) { k.route(*routing, scores, shares, experts, rows, c.pool); });
}

int headrace_likeliest(void *context, int instructions, const float *logits, int64_t rows, int64_t vocabulary,
                       int64_t *token_ids, float *values) {
    return call(context, instructions, vocabulary < 1 ? kBadCount : kFine, [&](const Kernels &k, Context &c) {
        k.likeliest(logits, rows, vocabulary, token_ids, values, c.pool);
    });
}

int headrace_draw(void *context, int instructions, Draw *draws, int64_t count, int64_t vocabulary) {
    return call(context, instructions, check_draws(draws, count, vocabulary),
                [&](const Kernels &k, Context &c) { k.draw(draws, count, vocabulary, c.pool); });
}

int headrace_rank(void *context, int instructions, Ranking *rankings, int64_t count, int64_t vocabulary) {
    return call(context, instructions, check_rankings(rankings, count, vocabulary),
                [&](const Kernels &k, Context &c) { k.rank(rankings, count, vocabulary, c.pool); });
}

// Packs plain weights of `width` bytes each, 2 or 4. `rows` [out] names the source row of each packed row, or -1 for
// zeros.
void headrace_pack_plain(const uint8_t *weights, const int64_t *rows, int64_t out, int64_t in, int64_t width,
                         uint8_t *panels) {
    if (width == 2) return pack_plain<2>(weights, rows, out, in, panels);
    pack_plain<4>(weights, rows, out, in, panels);
}

// Packs codes of w.storage [., w.in] with scales and zeros [., groups]. `rows` [w.out] is as in headrace_pack_plain.
void headrace_pack_codes(const uint8_t *codes, const float *scales, const uint8_t *zeros, const int64_t *rows,
                         const Matrix *w, uint8_t *panels) {
    pack_codes(codes, scales, zeros, rows, *w, panels);
}

// Rounds plain weights to the codes of `w`, and packs the panels from `first` to `last`, which must be zeros. `rows`
// [w.out] are addresses of [w.in] numbers in `storage`, or null for zeros. Returns a Failure.
int headrace_pack_rounded(int instructions, const uint8_t *const *rows, int32_t storage, const Matrix *w, int64_t first,
                          int64_t last, uint8_t *panels) {
    const UsualRounding rounding;
    try {
        find(instructions)->pack(rows, storage, *w, first, last, panels);
        return kFine;
    } catch (const std::bad_alloc &) {
        return kNoMemory;
    }
}

// Packs rows of GGUF's blocks, as a file has them. `rows` is as in headrace_pack_plain.
void headrace_pack_blocks(const uint8_t *blocks, const int64_t *rows, int64_t out, int64_t in, int32_t storage,
                          uint8_t *panels) {
    pack_blocks(blocks, rows, out, in, storage, panels);
}

}  // extern "C"
