// What each instruction set offers.

#pragma once

#include "abi.h"
#include "pool.h"
#include "workspace.h"

namespace headrace {

struct Kernels {
    void (*step)(const Model &model, const Step &step, Pool &pool, Workspace &space);
    // y = x W^T + bias + residual, for x [rows, in]. `residual` may be null.
    void (*product)(const Matrix &w, const float *x, const float *residual, float *y, int64_t rows, Pool &pool, Workspace &space);
    // See PagedAttention.
    void (*attend)(const Model &model, const Layer &layer, const Step &step, float *qkv, float *out, Pool &pool);
    // y = norm(x), for x [rows, size].
    void (*normalise)(const Norm &norm, const float *x, float *y, int64_t rows, Pool &pool);
    // y = function(x), for x [rows, size].
    void (*activate)(int32_t function, float cap, const float *x, float *y, int64_t rows, int64_t size, Pool &pool);
    // y [rows, size] = function(gate) * up, for x [rows, gate and up].
    void (*gate)(int32_t function, const float *x, float *y, int64_t rows, int64_t size, Pool &pool);
    // The experts of each row [rows, chosen], and their shares.
    void (*route)(const Routing &routing, const float *scores, float *shares, int64_t *experts, int64_t rows, Pool &pool);
    // The likeliest token of each row of logits and its value, which is not a number where any of the row is not.
    void (*likeliest)(const float *logits, int64_t rows, int64_t vocabulary, int64_t *token_ids, float *values, Pool &pool);
    void (*draw)(Draw *draws, int64_t count, int64_t vocabulary, Pool &pool);
    void (*rank)(Ranking *rankings, int64_t count, int64_t vocabulary, Pool &pool);
};

namespace portable {
extern const Kernels kernels;
}
namespace avx2 {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}

}  // namespace headrace
