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
