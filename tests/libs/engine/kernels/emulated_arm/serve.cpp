// Serves calls of the kernels to another process, over its standard input and output: see borrowed_pages.h.
//
// A call is its name, eight integers, which may be addresses, and a floating-point number.

#include <string>

#include "abi.h"
#include "borrowed_pages.h"

using namespace headrace;

extern "C" {
int headrace_version();
const char *headrace_why_not(int instructions);
void *headrace_open(int threads);
void headrace_close(void *context);
int headrace_step(void *context, int instructions, const Model *model, const Step *step);
int headrace_encode(void *context, int instructions, const Encoder *encoder, const EncoderBatch *batch);
int headrace_product(void *context, int instructions, const Matrix *w, const float *x, const float *residual, float *y,
                     int64_t rows);
int headrace_attend(void *context, int instructions, const Model *model, const Layer *layer, const Step *step,
                    float *qkv, float *out);
int headrace_normalize(void *context, int instructions, const Norm *norm, const float *x, float *y, int64_t rows);
int headrace_activate(void *context, int instructions, int function, float cap, const float *x, float *y, int64_t rows,
                      int64_t size);
int headrace_gate(void *context, int instructions, int function, const float *x, float *y, int64_t rows, int64_t size);
int headrace_route(void *context, int instructions, const Routing *routing, const float *scores, float *shares,
                   int64_t *experts, int64_t rows);
int headrace_recur(void *context, int instructions, const Recurrence *recurrence);
int headrace_convolve(void *context, int instructions, const Convolution *convolution);
int headrace_likeliest(void *context, int instructions, const float *logits, int64_t rows, int64_t vocabulary,
                       int64_t *token_ids, float *values);
int headrace_draw(void *context, int instructions, Draw *draws, int64_t count, int64_t vocabulary);
int headrace_rank(void *context, int instructions, Ranking *rankings, int64_t count, int64_t vocabulary);
int headrace_pack_rounded(int instructions, const uint8_t *const *rows, int32_t storage, const Matrix *w, int64_t first,
                          int64_t last, uint8_t *panels);
}

namespace {

struct Call {
    char name[32];
    int64_t values[8];
    double number;
};

template <typename T> T *at(int64_t value) { return reinterpret_cast<T *>(value); }

// Sets the mode that some libraries leave behind: subnormal numbers are zero, and all NaN are the same.
int64_t spoil_floating_point() {
    constexpr uint64_t kFlush = 1u << 24;
    constexpr uint64_t kDefaultNan = 1u << 25;
    asm volatile("msr fpcr, %0" ::"r"(kFlush | kDefaultNan));
    return 0;
}

int64_t serve(const Call &call) {
    const std::string name = call.name;
    const int64_t *v = call.values;
    void *context = at<void>(v[0]);
    const int set = static_cast<int>(v[1]);
    const int function = static_cast<int>(v[2]);
    const float cap = static_cast<float>(call.number);
    if (name == "version") return headrace_version();
    // Whether there is a reason: its text lies here.
    if (name == "why_not") return *headrace_why_not(static_cast<int>(v[0])) != 0;
    if (name == "spoil") return spoil_floating_point();
    if (name == "open") return reinterpret_cast<int64_t>(headrace_open(static_cast<int>(v[0])));
    if (name == "close") return headrace_close(context), 0;
    if (name == "step") return headrace_step(context, set, at<Model>(v[2]), at<Step>(v[3]));
    if (name == "encode") return headrace_encode(context, set, at<Encoder>(v[2]), at<EncoderBatch>(v[3]));
    if (name == "product")
        return headrace_product(context, set, at<Matrix>(v[2]), at<float>(v[3]), at<float>(v[4]), at<float>(v[5]),
                                v[6]);
    if (name == "attend")
        return headrace_attend(context, set, at<Model>(v[2]), at<Layer>(v[3]), at<Step>(v[4]), at<float>(v[5]),
                               at<float>(v[6]));
    if (name == "normalize")
        return headrace_normalize(context, set, at<Norm>(v[2]), at<float>(v[3]), at<float>(v[4]), v[5]);
    if (name == "activate")
        return headrace_activate(context, set, function, cap, at<float>(v[4]), at<float>(v[5]), v[6], v[7]);
    if (name == "gate") return headrace_gate(context, set, function, at<float>(v[3]), at<float>(v[4]), v[5], v[6]);
    if (name == "route")
        return headrace_route(context, set, at<Routing>(v[2]), at<float>(v[3]), at<float>(v[4]), at<int64_t>(v[5]),
                              v[6]);
    if (name == "recur") return headrace_recur(context, set, at<Recurrence>(v[2]));
    if (name == "convolve") return headrace_convolve(context, set, at<Convolution>(v[2]));
    if (name == "likeliest")
        return headrace_likeliest(context, set, at<float>(v[2]), v[3], v[4], at<int64_t>(v[5]), at<float>(v[6]));
    if (name == "draw") return headrace_draw(context, set, at<Draw>(v[2]), v[3], v[4]);
    if (name == "rank") return headrace_rank(context, set, at<Ranking>(v[2]), v[3], v[4]);
    if (name == "pack_rounded")
        return headrace_pack_rounded(static_cast<int>(v[0]), at<const uint8_t *>(v[1]), static_cast<int32_t>(v[2]),
                                     at<Matrix>(v[3]), v[4], v[5], at<uint8_t>(v[6]));
    fail("a call has an unknown name");
}

}  // namespace

int main() {
    pages::catch_faults();
    for (;;) {
        Call call;
        receive(&call, sizeof call);
        const int64_t result = serve(call);
        pages::give_back();
        send_message(kDone, result, 0);
    }
}
