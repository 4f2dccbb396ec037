// Entry points of the kernels for one instruction set. hatch_build.py compiles this file once for each set, with
// HEADRACE_ISA as the namespace.

#include "code_rounding.h"
#include "convolution.h"
#include "decoder.h"
#include "encoder.h"
#include "kernels.h"
#include "recurrence.h"
#include "rows.h"
#include "sampling.h"

#if defined(HEADRACE_AMX)
#include "tile_probe.h"
#endif

namespace headrace {
namespace HEADRACE_ISA {
namespace {

void run_step(const Model &model, const Step &step, Pool &pool, Workspace &space) {
    DecoderStep(model, step, pool, space).run();
}

void run_encoder(const Encoder &encoder, const EncoderBatch &batch, Pool &pool, Workspace &space) {
    EncoderRun(encoder, batch, pool, space).run();
}

void run_product(const Matrix &w, const float *x, const float *residual, float *y, int64_t rows, Pool &pool,
                 Workspace &space) {
    Products products(pool, space);
    // `prepare` writes to its inputs only to reorder columns, and then it gets a copy.
    float *inputs = const_cast<float *>(x);
    if (w.order) {
        inputs = space.normed.take(rows * w.in);
        std::memcpy(inputs, x, static_cast<size_t>(rows * w.in) * sizeof(float));
    }
    products.multiply_all(w, products.prepare(w, inputs, rows), rows, [&](int64_t panel, int64_t row, Floats sums) {
        Floats value = biased(w, panel, sums);
        if (residual) value = value + get(residual + row * w.out, panel, w.out);
        put(y + row * w.out, panel, w.out, value);
    });
}

void run_attention(const Model &model, const Layer &layer, const Step &step, float *qkv, float *out, Pool &pool,
                   Workspace &space) {
    PagedAttention(model, step, pool, space).run(layer, qkv, out);
}

void run_recurrence(const Recurrence &recurrence, Pool &pool, Workspace &space) {
    RecurrenceRun(recurrence, pool, space).run();
}

void find_likeliest_rows(const float *logits, int64_t rows, int64_t vocabulary, int64_t *token_ids, float *values,
                         Pool &pool) {
    pool.run(rows, [&](int64_t row, int) {
        token_ids[row] = find_likeliest(logits + row * vocabulary, vocabulary, values + row);
    });
}

void draw_rows(Draw *draws, int64_t count, int64_t vocabulary, Pool &pool) {
    pool.run(count, [&](int64_t i, int) { draw_token(draws[i], vocabulary); });
}

void rank_rows(Ranking *rankings, int64_t count, int64_t vocabulary, Pool &pool) {
    pool.run(count, [&](int64_t i, int) { rank_tokens(rankings[i], vocabulary); });
}

}  // namespace

const Kernels kernels = {run_step,  run_encoder, run_product,    run_attention, normalize_rows,      activate_rows,
                         gate_rows, route_rows,  run_recurrence, convolve_rows, find_likeliest_rows, draw_rows,
                         rank_rows, pack_rounded};

#if defined(HEADRACE_AMX)
const char *why_not() { return why_no_tiles(); }
#endif

}  // namespace HEADRACE_ISA
}  // namespace headrace
