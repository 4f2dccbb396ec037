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
