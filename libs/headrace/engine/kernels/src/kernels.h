// The table of kernels that each instruction set provides.

#pragma once

#include "abi.h"
#include "pool.h"
#include "workspace.h"

namespace headrace {

struct Kernels {
    // Runs a decoder: see DecoderStep.
    void (*step)(const Model &model, const Step &step, Pool &pool, Workspace &space);
    // Runs an encoder: see EncoderRun.
    void (*encode)(const Encoder &encoder, const EncoderBatch &batch, Pool &pool, Workspace &space);
    // y [rows, out] = x W^T + bias + residual, for x [rows, in]. `residual` may be null.
    void (*product)(const Matrix &w, const float *x, const float *residual, float *y, int64_t rows, Pool &pool,
                    Workspace &space);
    // Runs the attention of one layer: see PagedAttention.
    void (*attend)(const Model &model, const Layer &layer, const Step &step, float *qkv, float *out, Pool &pool,
                   Workspace &space);
    // y = norm(x), for x [rows, norm.size].
    void (*normalize)(const Norm &norm, const float *x, float *y, int64_t rows, Pool &pool);
    // y = function(x), for x [rows, size].
    void (*activate)(int32_t function, float cap, const float *x, float *y, int64_t rows, int64_t size, Pool &pool);
    // y [rows, size] = function(gate) * up, for x [rows, 2 * size] with the gates of a row before its ups.
    void (*gate)(int32_t function, const float *x, float *y, int64_t rows, int64_t size, Pool &pool);
    // Chooses the experts of each row and their weights, both [rows, chosen_count].
    void (*route)(const Routing &routing, const float *scores, float *shares, int64_t *experts, int64_t rows,
                  Pool &pool);
    // Runs a recurrence over the tokens of a step: see recurrence.h.
    void (*recur)(const Recurrence &recurrence, Pool &pool, Workspace &space);
    // Runs a convolution over the tokens of a step: see convolution.h.
    void (*convolve)(const Convolution &convolution, Pool &pool);
    // Finds the token of each row with the largest logit, and that logit, which is NaN if any logit of the row is.
    void (*likeliest)(const float *logits, int64_t rows, int64_t vocabulary, int64_t *token_ids, float *values,
                      Pool &pool);
    // Samples a token for each of `draws`.
    void (*draw)(Draw *draws, int64_t count, int64_t vocabulary, Pool &pool);
    // Finds the tokens with the largest logits for each of `rankings`.
    void (*rank)(Ranking *rankings, int64_t count, int64_t vocabulary, Pool &pool);
    // Rounds plain weights and packs them: see code_rounding.h.
    void (*pack)(const uint8_t *const *rows, int32_t storage, const Matrix &w, int64_t first, int64_t last,
                 uint8_t *panels);
};

namespace portable {
extern const Kernels kernels;
}
namespace neon {
extern const Kernels kernels;
}
namespace i8mm {
extern const Kernels kernels;
}
namespace avx2 {
extern const Kernels kernels;
}
namespace avx_vnni {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}
namespace amx {
extern const Kernels kernels;
// Says why this machine cannot use tiles, or null. Takes milliseconds, and processes of its own.
const char *why_not();
}  // namespace amx

}  // namespace headrace
