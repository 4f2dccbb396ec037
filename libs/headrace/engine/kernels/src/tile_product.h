// Products of codes by tiles, for many rows: sums within a group of columns are integers in tiles, scaled and added up
// group by group in fp32, with the bits of every other way.
//
// Up to 128 rows and two panels at a time: the codes of one group are unpacked into the first-level cache, where tiles
// load them once for all rows. The zero points of u4 are subtracted there: what the tiles sum up is then the integer
// that `multiply_codes` gets after it, which is exact.
//
// Inputs are laid out for tiles: codes [in / step][blocks of 16 rows][16][step], where a step is 64 columns or a whole
// group of fewer; scales and sums [groups][blocks][16]. Rows beyond the last are uninitialized and computed for
// nothing.

#pragma once

#include <cstring>

#include "abi.h"
#include "lanes.h"
#include "matrix.h"
#include "pool.h"
#include "tiles.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr int64_t kLeastTileRows = 8;   // Fewer rows are faster without tiles.
constexpr int64_t kBlocksTogether = 8;  // Of 16 rows each: their inputs stay in the second-level cache.
constexpr int64_t kTileTasksPerThread = 8;

inline bool suits_tiles(const Matrix &w, int64_t rows) {
    const bool is_coded = (w.storage == kU4 || w.storage == kU8) && !w.exact;
    return rows >= kLeastTileRows && is_coded && (w.group == 32 || w.group == 64 || w.group == 128);
}

inline int64_t row_blocks(int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }
inline int64_t tile_step(int64_t group) { return group < kTileBytes ? group : kTileBytes; }

// Quantizes one of `rows` rows as `quantize_row` does, in the layout of tiles.
inline void quantize_for_tiles(const Matrix &w, const float *x, int64_t row, int64_t rows, int8_t *codes, float *scales,
                               float *sums) {
    const int64_t step = tile_step(w.group);
    const int64_t padded = row_blocks(rows) * kTileRows;
    for (int64_t g = 0; g < w.in / w.group; ++g) {
        int8_t group[kLargestGroup];
        const Rounded rounded = round_to_codes(x + g * w.group, w.group, 127.0f, group);
        scales[g * padded + row] = rounded.unit;
        sums[g * padded + row] = rounded.sum;
        for (int64_t k = 0; k < w.group; k += step)
            std::memcpy(codes + (g * w.group + k) * padded + row * step, group + k, static_cast<size_t>(step));
    }
}

// Writes the codes of one group of a panel, made signed, as tiles take them: [kGroup / 4][16 rows][4 columns]. From u4
// the zero points are subtracted, from u8 128.
template <int kStorage, int kGroup> inline void unpack_group(const uint8_t *p, int8_t *to) {
    if constexpr (kStorage == kU4) {
        const __m512i low = _mm512_set1_epi8(15);
        const Ints zeros = load_i32(p + kGroup * kPanel / 2) & spread(int32_t{255});
        const __m512i zero = (zeros * spread(int32_t{0x01010101})).v;
        for (int k = 0; k < kGroup; k += 8, p += 64, to += 128) {
            __builtin_prefetch(p + kAheadOfTile, 0, 2);
            const __m512i bytes = _mm512_loadu_si512(p);
            _mm512_storeu_si512(to, _mm512_sub_epi8(_mm512_and_si512(bytes, low), zero));
            const __m512i high = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), low);
            _mm512_storeu_si512(to + 64, _mm512_sub_epi8(high, zero));
        }
    } else {
        const __m512i flip = _mm512_set1_epi8(-128);
        for (int k = 0; k < kGroup; k += 4, p += 64, to += 64) {
            __builtin_prefetch(p + kAheadOfTile, 0, 2);
            _mm512_storeu_si512(to, _mm512_xor_si512(_mm512_loadu_si512(p), flip));
        }
    }
}

// Results and intermediate results of a few blocks of rows and up to two panels.
struct alignas(64) TileRoom {
    int8_t codes[2][kLargestGroup * kPanel];
    int32_t sums[2][2][kTileRows][kPanel];  // Two of them in turn, so that no tile is stored to what is still read.
    float y[kBlocksTogether * kTileRows][2][kPanel];
};

// Consecutive blocks of 16 rows, of inputs with `rows` rows. The last block may have fewer.
struct RowBlocks {
    int64_t first, last, rows;

    int64_t all() const { return row_blocks(rows); }
    int64_t first_row() const { return first * kTileRows; }
    int64_t last_row() const { return last * kTileRows < rows ? last * kTileRows : rows; }
    int rows_of(int64_t block) const {
        const int64_t left = rows - block * kTileRows;
        return static_cast<int>(left < kTileRows ? left : kTileRows);
    }
};

// Multiplies kPanels panels, 1 or 2, by some blocks of rows. Tiles 0 and 1 hold the sums, 2 to 5 the weights and 6 and
// 7 the inputs.
template <int kStorage, int kGroup, int kPanels> class TileKernel {
  public:
    TileKernel(const Matrix &w, const Inputs &x, int64_t panel, const RowBlocks &blocks, TileRoom &room)
        : w_(w), x_(x), blocks_(blocks), room_(room), panels_(w.panels + panel * panel_bytes(w)) {}

    // Shapes of the tiles where blocks have `rows` rows.
    static TileShapes shapes(int rows) {
        TileShapes shapes;
        for (int tile : {0, 1}) shapes.set(tile, rows, kTileBytes);
        for (int tile : {2, 3, 4, 5}) shapes.set(tile, kStep / 4, kTileBytes);
        for (int tile : {6, 7}) shapes.set(tile, rows, kStep);
        return shapes;
    }

    void run() {
        std::memset(room_.y, 0, static_cast<size_t>(blocks_.last - blocks_.first) * kTileRows * sizeof room_.y[0]);
        for (int64_t g = 0; g < w_.in / kGroup; ++g) {
            load_weights(g);
            for (int64_t block = blocks_.first; block < blocks_.last; ++block) {
                int32_t (*sums)[kTileRows][kPanel] = room_.sums[block % 2];
                sum_block(g, block, sums);
                add_scaled(g, block, sums);
            }
        }
    }

  private:
    static constexpr int kStep = kGroup < kTileBytes ? kGroup : kTileBytes;
    static constexpr int kSteps = kGroup / kStep;

    const uint8_t *group_of(int panel, int64_t g) const {
        return panels_ + panel * panel_bytes(w_) + g * group_bytes(w_);
    }

    // Unpacks a group of columns and loads it into tiles.
    void load_weights(int64_t g) {
        for (int j = 0; j < kPanels; ++j) unpack_group<kStorage, kGroup>(group_of(j, g), room_.codes[j]);
        load_tile<2>(room_.codes[0], kTileBytes);
        if constexpr (kPanels == 2) load_tile<3>(room_.codes[1], kTileBytes);
        if constexpr (kSteps == 2) load_tile<4>(room_.codes[0] + kStep * kPanel, kTileBytes);
        if constexpr (kSteps == 2 && kPanels == 2) load_tile<5>(room_.codes[1] + kStep * kPanel, kTileBytes);
    }

    // Sums up the products of a group for 16 rows.
    void sum_block(int64_t g, int64_t block, int32_t (*sums)[kTileRows][kPanel]) const {
        const int64_t next = blocks_.all() * kTileRows * kStep;
        const int8_t *codes = x_.codes + g * kSteps * next + block * kTileRows * kStep;
        load_tile<6>(codes, kStep);
        if constexpr (kSteps == 2) load_tile<7>(codes + next, kStep);
        clear_tile<0>();
        multiply_tiles<0, 6, 2>();
        if constexpr (kPanels == 2) {
            clear_tile<1>();
            multiply_tiles<1, 6, 3>();
        }
        if constexpr (kSteps == 2) multiply_tiles<0, 7, 4>();
        if constexpr (kSteps == 2 && kPanels == 2) multiply_tiles<1, 7, 5>();
        store_tile<0>(sums[0], kTileBytes);
        if constexpr (kPanels == 2) store_tile<1>(sums[1], kTileBytes);
    }

    // Scales the sums of a group and adds them to those of the groups before it, as `multiply_codes` does.
    void add_scaled(int64_t g, int64_t block, const int32_t (*sums)[kTileRows][kPanel]) {
        Grid grids[kPanels];
        for (int j = 0; j < kPanels; ++j) {
            grids[j] = load_grid(group_of(j, g) + code_bytes(w_));
            grids[j].zero = grids[j].zero - spread(128.0f);
        }
        const int64_t at = (g * blocks_.all() + block) * kTileRows;
        const float *input_scales = x_.scales + at;
        const float *input_sums = x_.sums + at;
        float (*y)[2][kPanel] = room_.y + (block - blocks_.first) * kTileRows;
        const int rows = blocks_.rows_of(block);
        for (int row = 0; row < rows; ++row) {
            const Floats input_scale = spread(input_scales[row]);
            for (int j = 0; j < kPanels; ++j) {
                Floats centered = to_floats(load_i32(sums[j][row]));
                if constexpr (kStorage == kU8) centered = fma(grids[j].zero, spread(-input_sums[row]), centered);
                store(y[row][j], fma(centered, grids[j].scale * input_scale, load(y[row][j])));
            }
        }
    }

    const Matrix &w_;
    const Inputs &x_;
    const RowBlocks blocks_;
    TileRoom &room_;
    const uint8_t *panels_;
};

// Multiplies consecutive panels, two at a time, by some blocks of rows. Calls finish(panel, row, y) for each pair of
// panels row by row.
template <int kStorage, int kGroup, typename Finish>
void multiply_on_tiles(const Matrix &w, const Inputs &x, int64_t panel, int64_t last_panel, const RowBlocks &blocks,
                       const Finish &finish) {
    TileRoom room;
    // The time of a tile's product goes with its rows.
    const ConfiguredTiles tiles(TileKernel<kStorage, kGroup, 2>::shapes(blocks.rows_of(0)));
    for (; panel < last_panel; panel += 2) {
        const int count = panel + 1 < last_panel ? 2 : 1;
        if (count == 2)
            TileKernel<kStorage, kGroup, 2>(w, x, panel, blocks, room).run();
        else
            TileKernel<kStorage, kGroup, 1>(w, x, panel, blocks, room).run();
        for (int64_t row = blocks.first_row(); row < blocks.last_row(); ++row)
            for (int j = 0; j < count; ++j) finish(panel + j, row, load(room.y[row - blocks.first_row()][j]));
    }
}

// Calls finish(panel, row, y) for all panels of `w` and rows, as `Products::multiply_all` does. Tasks are split over
// rows and panels; those of the same rows come one after the other.
template <typename Finish>
void multiply_all_on_tiles(const Matrix &w, const Inputs &x, int64_t rows, Pool &pool, const Finish &finish) {
    const int64_t panels = (w.out + kPanel - 1) / kPanel;
    const int64_t pairs = (panels + 1) / 2;
    const int64_t wanted = kTileTasksPerThread * pool.thread_count();
    const int64_t each = (pairs + wanted - 1) / wanted;
    const int64_t columns = (pairs + each - 1) / each;
    const int64_t all = row_blocks(rows);
    pool.run(columns * ((all + kBlocksTogether - 1) / kBlocksTogether), [&](int64_t task, int) {
        const int64_t first = task / columns * kBlocksTogether;
        const RowBlocks blocks{first, first + kBlocksTogether < all ? first + kBlocksTogether : all, rows};
        const int64_t panel = task % columns * each * 2;
        const int64_t last = panel + each * 2 < panels ? panel + each * 2 : panels;
        const auto multiply = [&]<int kStorage>() {
            switch (w.group) {
                case 128: return multiply_on_tiles<kStorage, 128>(w, x, panel, last, blocks, finish);
                case 64: return multiply_on_tiles<kStorage, 64>(w, x, panel, last, blocks, finish);
                default: return multiply_on_tiles<kStorage, 32>(w, x, panel, last, blocks, finish);
            }
        };
        w.storage == kU4 ? multiply.template operator()<kU4>() : multiply.template operator()<kU8>();
    });
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
