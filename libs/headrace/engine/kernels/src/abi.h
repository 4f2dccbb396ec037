// What Python and the kernels agree on. Every structure is mirrored in `structures.py`; change both, and the version.

#pragma once

#include <cstdint>

namespace headrace {

constexpr int kVersion = 5;

enum Storage : int32_t {
    kF32 = 0,
    kBf16 = 1,
    kF16 = 2,
    kU4 = 3,   // Codes 0..15.
    kS8 = 4,   // Codes -128..127.
    kFp8 = 5,  // e4m3fn. Only for keys and values.
};

// Functions of one number.
enum Function : int32_t {
    kSilu = 0,
    kGelu = 1,
    kGeluTanh = 2,
    kRelu = 3,
    kSoftCap = 4,
};

// A weight [out, in], packed in panels of 16 rows: see matrix.h.
struct Matrix {
    const uint8_t *panels;
    const float *bias;          // [out] or null
    const int32_t *order;       // [in] or null: which input each column belongs to
    int64_t out, in;
    int64_t group;              // Inputs that share a scale. For codes.
    int32_t storage;
    int32_t exact;              // Codes are multiplied as floating-point numbers, not by quantised inputs.
};

struct Layer {
    const float *attention_norm, *mlp_norm;      // [hidden]
    const float *query_norm, *key_norm;          // [head] or null
    Matrix qkv, output, gate_up, down;
    const float *cosine, *sine;                  // [positions, rotary / 2]
    int64_t window;                              // Tokens that a query sees, itself included. 0: all.
    // Of this layer in the first block; those in other blocks are `block_bytes` on.
    uint8_t *keys, *values;                      // For each KV head what kv_cache.h says
    uint8_t *key_scales, *value_scales;          // fp32 [kv heads, block size], for codes; else null
    // Added to scores: of each head, one number for each distance from a query to a key. Null: nothing. Points to the
    // distance 0 of the first head; those of the next head are `bias_stride` numbers on.
    const float *bias;
    int64_t bias_stride;
};

struct Model {
    const Layer *layers;
    const uint8_t *embedding;                    // [vocabulary, hidden]
    const float *final_norm;
    Matrix head;
    int64_t layer_count, hidden, intermediate, vocabulary;
    int64_t head_count, kv_head_count, head_size, rotary_size;
    int64_t block_size, block_bytes;             // Of the KV cache: tokens of a block, and memory of all its layers.
    int64_t block_count;                         // Blocks of the KV cache.
    int64_t position_count;                      // Positions that have angles and biases.
    int32_t embedding_storage, kv_storage;
    float epsilon, scale, embedding_scale;
    float soft_cap;                              // Of attention scores. 0: none.
    int32_t sees_all;                            // A token sees all tokens of its span, not only those before it.
};

// Consecutive tokens of one sequence.
struct Span {
    int64_t first_row;                           // Among the tokens of the step.
    int64_t row_count;
    int64_t first_position;
    int64_t table;                               // Where its block numbers begin in `Step::tables`.
};

struct Step {
    const int64_t *token_ids;                    // [rows]
    const int64_t *tables;                       // Block numbers of all sequences
    const Span *spans;
    const int64_t *logit_rows;                   // [logit count]
    float *logits;                               // [logit count, vocabulary]
    float *hidden;                               // [rows, hidden] or null: the normalised states, if wanted
    int64_t row_count, span_count, logit_count;
    int64_t table_size;                          // Block numbers in `tables`.
};

struct Norm {
    const float *weight;                         // [size]
    const float *bias;                           // [size]: the mean is taken off first. Null: it is not.
    int64_t size;
    float epsilon;
};

// How a mixture of experts chooses.
struct Routing {
    int64_t expert_count, chosen_count;
    int32_t normalises;                          // The shares of the chosen ones add up to one.
};

// One token to draw from a row of logits.
struct Draw {
    const float *logits;                         // [vocabulary]
    double uniform;                              // In [0, 1).
    int64_t top_k;                               // 0: all
    int64_t token_id;                            // What is found.
    float temperature, top_p, min_p;
};

// The strongest tokens of a row of logits.
struct Ranking {
    const float *logits;                         // [vocabulary]
    int64_t *token_ids;                          // [count], what is found, the strongest first, the lower id of equals
    int64_t count;                               // At most the vocabulary.
    double normaliser;                           // What is found: ln(sum(exp(logits))).
};

}  // namespace headrace
