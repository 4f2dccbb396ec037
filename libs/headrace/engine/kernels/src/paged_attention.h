// The attention of one layer in a step: stores the new keys and values in the cache, then attends from each token of
// the step to the tokens of its sequence.

#pragma once

#include <memory>
#include <vector>

#include "abi.h"
#include "attention.h"
#include "pool.h"
#include "rows.h"
#include "workspace.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr int64_t kQueryRows = 16;  // Query rows per task, all of one sequence.
constexpr int64_t kFewHeads = 4;    // KV heads that are read as fast together as more of them.
constexpr int64_t kTasksEach = 2;   // Least tasks per thread that balance the load.

// Applies rotary position embeddings (Su et al., 2021) to the pairs (i, i + rotary / 2).
inline void rotate(float *head, const float *cosine, const float *sine, int64_t rotary) {
    const int64_t half = rotary / 2;
    for (int64_t i = 0; i < half; ++i) {
        const float first = head[i];
        const float second = head[i + half];
        head[i] = first * cosine[i] - second * sine[i];
        head[i + half] = second * cosine[i] + first * sine[i];
    }
}

// Scale a query, and the keys that it meets, by the same powers of two: their dot product keeps every bit in fp32.
inline void scale_up(float *query, const float *factors, int64_t size) {
    for (int64_t i = 0; i < size; ++i) query[i] *= factors[i];
}
inline void scale_down(float *key, const float *factors, int64_t size) {
    for (int64_t i = 0; i < size; ++i) key[i] /= factors[i];
}

class PagedAttention {
  public:
    PagedAttention(const Model &model, const Step &step, Pool &pool, Workspace &space)
        : model_(model), step_(step), pool_(pool), space_(space) {}

    // `qkv` [rows, heads, head size] has the queries, keys and values of each token. Queries and keys are rotated in
    // place, normalized before that if the layer has norms, and scaled after it if it has factors. `out` is [rows,
    // query heads, head size].
    void run(const Layer &layer, float *qkv, float *out) const {
        over_rows(pool_, step_.row_count, [&](int64_t row) { rotate_and_store(layer, row, qkv + row * width()); });
        attend_all(layer, qkv, out);
    }

  private:
    // Rows of a span whose queries of some KV heads are computed together.
    struct Work {
        const Span *span;
        int64_t first_head, last_head;
        int64_t first_row, last_row;  // Within the span
        int64_t begin, end;           // Tokens that any of them attends to
    };

    int64_t width() const { return (model_.head_count + 2 * model_.kv_head_count) * model_.head_size; }
    int64_t share() const { return model_.head_count / model_.kv_head_count; }
    // Numbers from one sum of values to the next: whole vectors.
    int64_t stride() const { return (model_.head_size + kLanes - 1) / kLanes * kLanes; }

    const Span &span_of(int64_t row) const {
        int64_t low = 0;
        int64_t high = step_.span_count - 1;
        while (low < high) {
            const int64_t middle = (low + high + 1) / 2;
            if (step_.spans[middle].first_row <= row)
                low = middle;
            else
                high = middle - 1;
        }
        return step_.spans[low];
    }

    void rotate_and_store(const Layer &layer, int64_t row, float *heads) const {
        const Span &span = span_of(row);
        const int64_t size = model_.head_size;
        const int64_t position = span.first_position + row - span.first_row;
        const int64_t angles = position * (model_.rotary_size / 2);
        float *head = heads;
        for (int64_t h = 0; h < model_.head_count + model_.kv_head_count; ++h, head += size) {
            const float *norm = h < model_.head_count ? layer.query_norm : layer.key_norm;
            if (norm && !model_.norms_rotated) normalize(head, norm, size, model_.epsilon, head);
            if (model_.rotary_size) rotate(head, layer.cosine + angles, layer.sine + angles, model_.rotary_size);
            if (norm && model_.norms_rotated) normalize(head, norm, size, model_.epsilon, head);
        }
        if (layer.key_factors) smooth(layer, heads);
        const float *key = heads + model_.head_count * size;
        const float *value = key + model_.kv_head_count * size;
        for (int64_t h = 0; h < model_.kv_head_count; ++h) {
            Cache{model_, layer, h, step_.tables + span.table}.put(position, key + h * size, value + h * size);
        }
    }

    // Applies the factors of the layer to the queries and keys of a token.
    void smooth(const Layer &layer, float *heads) const {
        const int64_t size = model_.head_size;
        for (int64_t h = 0; h < model_.head_count; ++h)
            scale_up(heads + h * size, layer.key_factors + h / share() * size, size);
        float *keys = heads + model_.head_count * size;
        for (int64_t h = 0; h < model_.kv_head_count; ++h)
            scale_down(keys + h * size, layer.key_factors + h * size, size);
    }

    static int64_t parts(const Span &span) { return (span.row_count + kQueryRows - 1) / kQueryRows; }

    // Most KV heads, up to `most`, whose queries a task takes at once. Queries of a prefill go without: there the
    // keys of one head are near the core until all its queries have used them.
    int64_t heads_each(const Span &span, int64_t most) const {
        int64_t heads = std::clamp<int64_t>(kTaskQueries / (span.row_count * share()), 1, most);
        while (model_.kv_head_count % heads) --heads;
        return heads;
    }

    int64_t tasks(const Span &span, int64_t most_heads) const {
        return parts(span) * model_.kv_head_count / heads_each(span, most_heads);
    }

    int64_t tasks(int64_t most_heads) const {
        int64_t count = 0;
        for (int64_t i = 0; i < step_.span_count; ++i) count += tasks(step_.spans[i], most_heads);
        return count;
    }

    int64_t first_token(const Layer &layer, int64_t position) const {
        return layer.window && position >= layer.window ? position + 1 - layer.window : 0;
    }
    int64_t last_token(const Layer &layer, const Span &span, int64_t position) const {
        if (!model_.sees_all) return position;
        const int64_t last = span.first_position + span.row_count - 1;
        return layer.window ? std::min(last, position + layer.window - 1) : last;
    }

    // Lists the work of all spans, with up to `most_heads` KV heads at once.
    std::vector<Work> list_work(const Layer &layer, int64_t most_heads) const {
        std::vector<Work> works;
        works.reserve(tasks(most_heads));
        for (int64_t i = 0; i < step_.span_count; ++i) {
            const Span &span = step_.spans[i];
            const int64_t heads = heads_each(span, most_heads);
            for (int64_t first = 0; first < span.row_count; first += kQueryRows) {
                const int64_t last = std::min(first + kQueryRows, span.row_count);
                const int64_t begin = first_token(layer, span.first_position + first) / kLanes * kLanes;
                const int64_t end = last_token(layer, span, span.first_position + last - 1) + 1;
                for (int64_t head = 0; head < model_.kv_head_count; head += heads)
                    works.push_back({&span, head, head + heads, first, last, begin, end});
            }
        }
        return works;
    }

    void attend_all(const Layer &layer, const float *qkv, float *out) const {
        int64_t segments = 0;
        for (int64_t i = 0; i < step_.span_count; ++i) {
            const Span &span = step_.spans[i];
            segments = std::max(segments, (span.first_position + span.row_count - 1) / kSegment + 1);
        }
        const int64_t enough = kTasksEach * pool_.thread_count();
        // A long sequence keeps all threads busy only if they share it.
        const bool is_apart = segments > 1 && tasks(kFewHeads) < enough;
        int64_t heads = model_.kv_head_count;
        while (heads > 1 && tasks(heads) * (is_apart ? segments : 1) < enough) --heads;
        const std::vector<Work> works = list_work(layer, heads);
        if (is_apart) return attend_apart(layer, works, qkv, out, segments);
        pool_.run(works.size(), [&](int64_t task, int) {
            const Work &work = works[task];
            Scratch &scratch = list_tiles(layer, work, work.begin, work.end);
            over_queries(layer, work, qkv, out, [&](QueryGroup *groups, int count) {
                attend_in_turn(layer, work, groups, count, out, scratch);
            });
        });
    }

    // Attends to all segments of `work`, one after the other.
    void attend_in_turn(const Layer &layer, const Work &work, QueryGroup *groups, int count, float *out,
                        Scratch &scratch) const {
        Part found[kTaskQueries], merged[kTaskQueries];
        int queries = 0;
        for (int g = 0; g < count; ++g) {
            groups[g].parts = found + queries;
            for (int q = 0; q < groups[g].count; ++q, ++queries) {
                found[queries].sums = scratch.part_sums.data() + queries * stride();
                merged[queries].sums = scratch.merged_sums.data() + queries * stride();
                begin_head(layer, (groups[g].queries.out[q] - out) / model_.head_size, merged[queries]);
            }
        }
        for (int64_t token = work.begin, end; token < work.end; token = end) {
            end = std::min(work.end, (token / kSegment + 1) * kSegment);
            attend(model_, groups, count, segments_of(work.begin, work.end, token, end, scratch), scratch);
            for (int i = 0; i < queries; ++i) merge(merged[i], found[i], stride());
        }
        for (int g = 0, i = 0; g < count; ++g)
            for (int q = 0; q < groups[g].count; ++q, ++i)
                finish(merged[i], groups[g].queries.out[q], model_.head_size);
    }

    // Begins the attention of a query, `head` counted from the first head of the first row.
    void begin_head(const Layer &layer, int64_t head, Part &part) const {
        clear(part, stride());
        if (layer.sinks) begin_with_sink(part, layer.sinks[head % model_.head_count]);
    }

    // Attends to each segment in a task of its own, then merges.
    void attend_apart(const Layer &layer, const std::vector<Work> &works, const float *qkv, float *out,
                      int64_t segments) const {
        const int64_t heads = step_.row_count * model_.head_count;
        float *sums = space_.segment_sums.take(heads * segments * stride());
        Part *parts = space_.parts.take(heads * segments);
        for (int64_t i = 0; i < heads * segments; ++i) parts[i].sums = sums + i * stride();
        pool_.run(works.size() * segments, [&](int64_t task, int) {
            const Work &work = works[task / segments];
            const int64_t segment = task % segments;
            const int64_t begin = std::max(work.begin, segment * kSegment);
            const int64_t end = std::min(work.end, (segment + 1) * kSegment);
            Scratch &scratch = list_tiles(layer, work, begin, end);
            over_queries(layer, work, qkv, out, [&](QueryGroup *groups, int count) {
                Part *places[kTaskQueries], found[kTaskQueries];
                int queries = 0;
                for (int g = 0; g < count; ++g) {
                    groups[g].parts = found + queries;
                    for (int q = 0; q < groups[g].count; ++q, ++queries) {
                        const int64_t head = (groups[g].queries.out[q] - out) / model_.head_size;
                        places[queries] = parts + head * segments + segment;
                        found[queries] = *places[queries];
                        clear(found[queries], stride());
                    }
                }
                if (begin < end) attend(model_, groups, count, segments_of(begin, end, begin, end, scratch), scratch);
                for (int i = 0; i < queries; ++i) *places[i] = found[i];
            });
        });
        pool_.run(heads, [&](int64_t head, int) {
            Scratch &scratch = own_scratch();
            Part merged{scratch.merged_sums.data(), 0.0f, 0.0f};
            begin_head(layer, head, merged);
            for (int64_t i = head * segments; i < (head + 1) * segments; ++i) merge(merged, parts[i], stride());
            finish(merged, out + head * model_.head_size, model_.head_size);
        });
    }

    Scratch &own_scratch() const {
        // Large, so not itself thread-local: threads that find no memory for that end the process, and `new` throws.
        thread_local const auto own = std::make_unique_for_overwrite<Scratch>();
        Scratch &scratch = *own;
        const size_t size = kTaskQueries * stride();
        if (scratch.merged_sums.size() < size) {
            scratch.part_sums.resize(size);
            scratch.merged_sums.resize(size);
        }
        return scratch;
    }

    static int64_t tile_count(int64_t begin, int64_t end) { return (end - begin + kLanes - 1) / kLanes; }

    // Lists the tiles of the tokens from `begin` on, a multiple of kLanes, to `end`, head by head.
    Scratch &list_tiles(const Layer &layer, const Work &work, int64_t begin, int64_t end) const {
        Scratch &scratch = own_scratch();
        scratch.tiles.clear();
        for (int64_t head = work.first_head; head < work.last_head; ++head) {
            const Cache cache{model_, layer, head, step_.tables + work.span->table};
            for (int64_t token = begin; token < end; token += kLanes) scratch.tiles.push_back(cache.tile(token));
        }
        return scratch;
    }

    // The tokens from `first` to `last`, of tiles listed from the token `begin` on to `end`.
    static HeadSegments segments_of(int64_t begin, int64_t end, int64_t first, int64_t last, const Scratch &scratch) {
        const Tile *tiles = scratch.tiles.data() + (first - begin) / kLanes;
        return {{first, tile_count(first, last), tiles}, tile_count(begin, end)};
    }

    // Calls body(groups, count) for the queries of `work`, kTaskQueries at a time.
    template <typename Body>
    void over_queries(const Layer &layer, const Work &work, const float *qkv, float *out, const Body &body) const {
        const int64_t each = (work.last_row - work.first_row) * share();
        QueryGroup groups[kTaskQueries];
        int count = 0;
        int64_t queries = 0;
        for (int64_t head = work.first_head; head < work.last_head; ++head) {
            for (int64_t first = 0; first < each; first += kQueries) {
                QueryGroup &group = groups[count++];
                group.head = head - work.first_head;
                group.count = std::min<int64_t>(kQueries, each - first);
                queries += group.count;
                for (int i = 0; i < group.count; ++i)
                    set_query(layer, work, head, first + i, qkv, out, group.queries, i);
                if (queries + kQueries <= kTaskQueries) continue;
                body(groups, count);
                count = queries = 0;
            }
        }
        if (count) body(groups, count);
    }

    // Writes query i: that of a KV head of `work`, the `index`th of its rows and query heads.
    void set_query(const Layer &layer, const Work &work, int64_t kv_head, int64_t index, const float *qkv, float *out,
                   Queries &queries, int i) const {
        const int64_t row = work.first_row + index / share();
        const int64_t head = kv_head * share() + index % share();
        const int64_t position = work.span->first_position + row;
        const int64_t place = work.span->first_row + row;
        queries.q[i] = qkv + place * width() + head * model_.head_size;
        queries.out[i] = out + (place * model_.head_count + head) * model_.head_size;
        queries.bias[i] = layer.bias ? layer.bias + head * layer.bias_stride - position : nullptr;
        queries.first[i] = first_token(layer, position);
        queries.last[i] = last_token(layer, *work.span, position);
    }

    const Model &model_;
    const Step &step_;
    Pool &pool_;
    Workspace &space_;
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
