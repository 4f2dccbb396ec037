// The data structures that Python passes to the kernels. Each one is mirrored in `structures.py`: change both, and
// raise kVersion, or an old library will misread new structures.

#pragma once

#include <cstdint>

namespace headrace {

constexpr int kVersion = 18;

constexpr int kPanel = 16;  // Rows of a weight in a panel: see matrix.h.

enum Storage : int32_t {
    kF32 = 0,
    kBf16 = 1,
    kF16 = 2,
    kU4 = 3,   // Codes 0..15, for weights only.
    kU8 = 4,   // Codes 0..255, for weights only.
    kS8 = 5,   // Codes -128..127, for keys and values only.
    kFp8 = 6,  // e4m3fn, for keys and values only.
    // GGUF's blocks: see block_format.h.
    kQ4_0 = 7,
    kQ4_1 = 8,
    kQ5_0 = 9,
    kQ5_1 = 10,
    kQ8_0 = 11,
    kQ4K = 12,
    kQ5K = 13,
    kQ6K = 14,
    kMxfp4 = 15,
};

// Elementwise functions.
enum Function : int32_t {
    kSilu = 0,
    kGelu = 1,
    kGeluTanh = 2,
    kRelu = 3,
    kSoftCap = 4,
    kClampedSwish = 5,  // Of gates, with clamped factors plus one: see functions.h
};

// A weight matrix [out, in], packed in panels of 16 rows: see matrix.h.
struct Matrix {
    const uint8_t *panels;
    const float *bias;     // [out] or null
    const int32_t *order;  // [in] or null: the input that each column belongs to
    int64_t out, in;
    int64_t group;  // Inputs that share a scale; codes and blocks only
    int32_t storage;
    int32_t exact;  // Nonzero: dequantize the codes instead of quantizing the inputs
};

// A gated feed-forward block: down(function(gate) * up).
struct FeedForward {
    Matrix gate_up, down;
    Matrix up;  // Rows of up, if gate_up holds gates alone; no rows: it holds both
};

struct Layer {
    const float *attention_norm, *mlp_norm;            // [hidden]
    const float *query_norm, *key_norm;                // [head] or null, see Model::norms_rotated
    const float *post_attention_norm, *post_mlp_norm;  // [hidden] or null: norms of what the blocks add
    Matrix qkv, output;
    FeedForward mlp;             // Without rows where the layer has experts
    Matrix qkv_rest[2];          // Further rows of qkv, which another storage holds; no rows: none
    Matrix router;               // [experts, and a shared one's gate, hidden]; no rows: none
    const FeedForward *experts;  // [experts, and the shared one] or null
    const float *router_bias;    // [experts] or null: see Routing
    const float *cosine, *sine;  // [positions, rotary / 2]
    int64_t window;  // Tokens that a query attends to, itself included, on either side if it sees all; 0: all
    // Addresses within the first block. Block n is n * `Model::block_bytes` further on. kv_cache.h has the layout.
    uint8_t *keys, *values;
    uint8_t *key_scales, *value_scales;  // fp32 [kv heads, block size] for codes, else null
    // Added to attention scores, or null. It holds one number for each distance from query to key and points to the
    // distance 0 of the first head; the next head's are `bias_stride` numbers further on.
    const float *bias;
    int64_t bias_stride;
    // [kv heads, head] or null: powers of two that rotated keys are divided by before they are stored, and queries
    // multiplied by. They keep small elements of keys apart from large ones: see key_factors.py.
    const float *key_factors;
    // [heads] or null: scores of a key without a value, which softmax counts for each head (Agarwal et al., 2025).
    const float *sinks;
};

// Functions that make weights of a router's outputs.
enum ExpertScore : int32_t { kSoftmax = 0, kSigmoid = 1 };

// Shared experts, which compute every token: the last of a layer's experts.
enum SharedExpert : int32_t { kNoShared = 0, kShared = 1, kGatedShared = 2 };

// Routing parameters of a mixture of experts.
struct Routing {
    int64_t expert_count, chosen_count;       // Without the shared one
    int64_t group_count, chosen_group_count;  // Groups of consecutive experts; 0 or 1: all are one
    const float *bias;                        // [experts] or null: added to scores for the choice alone
    float scale;                              // Factor of the weights; 0: one
    float least_sum;                          // Smallest divisor of weights that are normalized by their sum
    int32_t normalizes;                       // Nonzero: the weights of the chosen experts add up to one
    int32_t score;                            // ExpertScore
    int32_t shared;                           // SharedExpert; a gated one's output is the router's last
};

// Products of a layer that adapters may update.
enum Product : int32_t { kQkv = 0, kQkv1 = 1, kQkv2 = 2, kOutput = 3, kGateUp = 4, kUp = 5, kDown = 6 };
constexpr int64_t kProductCount = 7;

// The update scale * B (A x) that an adapter adds to a product (Hu et al., 2021). Several modules that make up the
// product have their ranks one after the other.
struct Update {
    Matrix shrink;          // A [ranks, in]; no rows: there is no update
    const float *scales;    // [ranks]
    const uint8_t *expand;  // B: the columns of each panel of 16 outputs, 16 numbers each
    const int64_t *starts;  // [panels + 1]: the first of each panel's columns in `expand`
    const int64_t *ranks;   // [panels]: the rank that this first column belongs to
    int32_t storage;        // Of `expand`: plain
};

struct Model {
    const Layer *layers;
    const uint8_t *embedding;  // [vocabulary, hidden], blocks in panels
    const float *final_norm;
    Matrix head;  // [vocabulary, hidden]; no rows: a step gives normalized hidden states instead of logits
    int64_t layer_count, hidden, vocabulary;
    int64_t head_count, kv_head_count, head_size, rotary_size;
    int64_t block_size;      // Tokens in a block of the KV cache
    int64_t block_bytes;     // Bytes of a block, all layers together
    int64_t block_count;     // Blocks in the KV cache
    int64_t position_count;  // Positions that have rotary angles and biases
    int32_t embedding_storage, kv_storage;
    float epsilon, scale, embedding_scale;
    float soft_cap;         // Limit of attention scores; 0: none
    int32_t sees_all;       // Nonzero: attention is bidirectional within a span, not causal
    int32_t norms_rotated;  // Nonzero: query and key heads are normalized after they rotate, not before
    float logit_soft_cap;   // Limit of logits; 0: none
    int32_t activation;     // Function of gates
    Routing routing;        // Of layers with experts
    const Update *updates;  // [adapters, layers, products]
    int64_t adapter_count;
};

// Consecutive tokens of one sequence.
struct Span {
    int64_t first_row;  // Index of its first token in the step
    int64_t row_count;
    int64_t first_position;
    int64_t table;  // Index of its first block number in `Step::tables`
};

struct Step {
    const int64_t *token_ids;  // [rows]
    const int64_t *tables;     // Block numbers of all sequences, one after the other
    const Span *spans;
    const int64_t *logit_rows;  // [logit count]
    float *logits;              // [logit count, vocabulary], or [logit count, hidden] without a head
    int64_t row_count, span_count, logit_count;
    int64_t table_size;       // Length of `tables`
    const int64_t *adapters;  // [spans]: the adapter of each, or -1. Null: no span has one
    // Hidden states [rows, auxiliary count, hidden] that some layers get, for a draft head; the number of all layers
    // stands for what the final norm gets.
    float *auxiliary;
    const int64_t *auxiliary_layers;  // [auxiliary count]
    int64_t auxiliary_count;
};

struct Norm {
    const float *weight;  // [size]
    const float *bias;    // [size]: layer norm, which subtracts the mean. Null: RMS norm
    int64_t size;
    float epsilon;
};

// A layer of an encoder: see encoder.h.
struct EncoderLayer {
    Matrix qkv, output, up, down;
    // Of the sums of each block and the residual; of the blocks' inputs where `Encoder::normalizes_inputs`. Without a
    // weight: those inputs are the hidden states.
    Norm attention_norm, output_norm;
    const float *cosine, *sine;  // [longest, head / 2], if heads rotate
    int64_t window;              // Tokens on either side that a query attends to, itself included; 0: all
};

struct Encoder {
    const EncoderLayer *layers;
    const uint8_t *words;    // [vocabulary, hidden] in plain storage
    const float *positions;  // [positions, hidden], with what all tokens share; null: none
    Norm norm;               // Of the embeddings
    int64_t layer_count, hidden, vocabulary, position_count, head_count;
    int64_t longest;  // Tokens of the longest input
    // Added to attention scores, or null: see `Layer::bias`. There are biases for distances below `longest`.
    const float *bias;
    int64_t bias_stride;
    int32_t word_storage;
    int32_t activation;
    float scale;                // Of attention scores
    Norm final_norm;            // Of the last hidden states; without a weight: none
    int32_t rotates;            // Nonzero: queries and keys rotate with the position
    int32_t normalizes_inputs;  // Nonzero: norms stand before blocks
    int32_t is_gated;           // Nonzero: `up` has gates, then as many ups
};

// Whole inputs, one after the other.
struct EncoderBatch {
    const int64_t *token_ids;  // [rows]
    const int64_t *positions;  // [rows]: rows of the table of positions
    const int64_t *lengths;    // [inputs], in tokens
    float *hidden;             // Result [rows, hidden]
    int64_t row_count, input_count;
};

constexpr int64_t kCaptures = 2;
constexpr int64_t kMostTaps = 16;  // Of a convolution

// The state of one span, which moves behind its tokens. Slots are numbered from 0.
struct StateMove {
    int64_t first_row, row_count;
    int64_t source;  // Slot of the state that it continues. -1: a text begins, with zeros
    int64_t target;  // Slot that takes the state behind its last token. -1: none does
    struct {
        int64_t row_count;  // Tokens before the copy; 0: there is none
        int64_t slot;
    } captures[kCaptures];  // Slots that take a copy
};

// A recurrence of linear attention over the tokens of a step, fp32: see recurrence.h.
struct Recurrence {
    const float *queries, *keys;  // [rows, key heads, keys]; consecutive heads share those of a key head
    const float *values;          // [rows, heads, values]
    const float *kept;            // [rows, heads]: shares of the memory that tokens leave
    const float *rates;           // [rows, heads]: factors by which values are taken in
    float *outputs;               // [rows, heads, values]
    float *memories;              // [slots, heads, keys, values]
    const StateMove *moves;       // They cover the rows in order
    int64_t row_count, move_count, slot_count;
    int64_t head_count, key_head_count, key_size, value_size;
    int32_t corrects;  // Nonzero: a value replaces what its key recalls (the delta rule). Else it is added
};

// A causal convolution of each channel over the tokens of its sequence, fp32: see convolution.h.
struct Convolution {
    const float *inputs;     // [rows, stride]: the channels come first
    const float *taps;       // [taps, channels], the oldest token first
    const float *bias;       // [channels] or null
    float *outputs;          // [rows, channels]
    float *tails;            // [slots, taps - 1, channels]: last inputs, the oldest first
    const StateMove *moves;  // They cover the rows in order
    int64_t row_count, move_count, slot_count;
    int64_t tap_count, channel_count, stride;
};

// One token to sample from a row of logits.
struct Draw {
    const float *logits;  // [vocabulary]
    double uniform;       // Random number in [0, 1)
    int64_t top_k;        // 0: no limit
    int64_t token_id;     // Result
    float temperature, top_p, min_p;
};

// The tokens with the largest logits of a row.
struct Ranking {
    const float *logits;  // [vocabulary]
    int64_t *token_ids;   // Result [count]: largest logit first, lower id first among equals
    int64_t count;        // At most the vocabulary size
    double normalizer;    // Result: ln(sum(exp(logits)))
};

}  // namespace headrace
