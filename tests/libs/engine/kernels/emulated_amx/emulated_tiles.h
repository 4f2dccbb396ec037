// A model of the tile registers for processors without them, as the manual describes them: one file of tiles for each
// thread. What a processor answers with an invalid opcode or a protection fault ends the process.

#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace headrace {
namespace HEADRACE_ISA {

struct TileFile {
    TileShapes shapes;
    alignas(64) uint8_t data[kTileCount][kTileRows][kTileBytes];
};

inline TileFile &tile_file() {
    thread_local TileFile file = [] {
        TileFile empty{};
        empty.shapes.palette = 0;
        return empty;
    }();
    return file;
}

inline void require(bool holds, const char *what) {
    if (holds) return;
    std::fprintf(stderr, "emulated tiles: %s\n", what);
    std::abort();
}

inline void configure_tiles(const TileShapes &shapes) {
    require(shapes.palette == 1 && shapes.start_row == 0, "there is no such palette");
    for (uint8_t reserved : shapes.reserved) require(!reserved, "a reserved byte is not zero");
    for (int tile = 0; tile < 16; ++tile) {
        const int rows = shapes.rows[tile], bytes = shapes.row_bytes[tile];
        require(tile < kTileCount || (!rows && !bytes), "there is no such tile");
        require(rows <= kTileRows && bytes <= kTileBytes && !rows == !bytes, "a shape is out of range");
    }
    TileFile &file = tile_file();
    std::memset(file.data, 0, sizeof file.data);
    file.shapes = shapes;
}

inline void release_tiles() {
    tile_file().shapes = [] {
        TileShapes none;
        none.palette = 0;
        return none;
    }();
}

// Returns the tiles' file if a tile is configured.
template <int kTile> inline TileFile &file_with() {
    static_assert(kTile >= 0 && kTile < kTileCount);
    TileFile &file = tile_file();
    require(file.shapes.palette == 1 && file.shapes.rows[kTile], "a tile is not configured");
    return file;
}

template <int kTile> inline void clear_tile() {
    TileFile &file = file_with<kTile>();
    std::memset(file.data[kTile], 0, sizeof file.data[kTile]);
}

template <int kTile> inline void load_tile(const void *p, int64_t stride) {
    TileFile &file = file_with<kTile>();
    clear_tile<kTile>();
    for (int row = 0; row < file.shapes.rows[kTile]; ++row)
        std::memcpy(file.data[kTile][row], static_cast<const uint8_t *>(p) + row * stride,
                    file.shapes.row_bytes[kTile]);
}

template <int kTile> inline void store_tile(void *p, int64_t stride) {
    const TileFile &file = file_with<kTile>();
    for (int row = 0; row < file.shapes.rows[kTile]; ++row)
        std::memcpy(static_cast<uint8_t *>(p) + row * stride, file.data[kTile][row], file.shapes.row_bytes[kTile]);
}

// `Input` is the type of the bytes of the inputs.
template <int kSums, int kA, int kB, typename Input = int8_t> inline void multiply_tiles() {
    static_assert(kSums != kA && kSums != kB && kA != kB);
    file_with<kA>();
    file_with<kB>();
    TileFile &file = file_with<kSums>();
    const TileShapes &shapes = file.shapes;
    require(shapes.rows[kSums] == shapes.rows[kA], "sums and inputs have different rows");
    require(shapes.row_bytes[kA] == 4 * shapes.rows[kB], "inputs and weights have different columns");
    require(shapes.row_bytes[kB] == shapes.row_bytes[kSums] && shapes.row_bytes[kB] % 4 == 0,
            "sums and weights differ");
    for (int m = 0; m < shapes.rows[kSums]; ++m)
        for (int n = 0; n < shapes.row_bytes[kSums] / 4; ++n) {
            uint32_t sum;
            std::memcpy(&sum, &file.data[kSums][m][4 * n], sizeof sum);
            for (int k = 0; k < shapes.row_bytes[kA]; ++k) {
                const int a = static_cast<Input>(file.data[kA][m][k]);
                const int b = static_cast<int8_t>(file.data[kB][k / 4][4 * n + k % 4]);
                sum += static_cast<uint32_t>(a * b);
            }
            std::memcpy(&file.data[kSums][m][4 * n], &sum, sizeof sum);
        }
}

template <int kSums, int kA, int kB> inline void multiply_unsigned_tiles() { multiply_tiles<kSums, kA, kB, uint8_t>(); }

}  // namespace HEADRACE_ISA
}  // namespace headrace
