// Tile registers (Intel AMX): eight matrices of up to 16 rows of 64 bytes, whose shapes the program configures.
//
// Our own assembly instead of the compiler's intrinsics: GCC 12 declares that _tile_loadconfig reads 8 bytes and that
// _tile_loadd reads none, so it drops or moves the stores that fill them. It needs no flag of the compiler, only an
// assembler that knows the instructions (binutils 2.34). Specification: Intel 64 and IA-32 Architectures Software
// Developer's Manual, volume 1, chapter 18.

#pragma once

#include <cstdint>

namespace headrace {
namespace HEADRACE_ISA {

constexpr int kTileCount = 8;
constexpr int kTileRows = 16;
constexpr int kTileBytes = 64;  // Of a row.

// Shapes of the tiles, as LDTILECFG reads them.
struct alignas(64) TileShapes {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};

    void set(int tile, int row_count, int bytes) {
        rows[tile] = static_cast<uint8_t>(row_count);
        row_bytes[tile] = static_cast<uint16_t>(bytes);
    }
};
static_assert(sizeof(TileShapes) == 64);

}  // namespace HEADRACE_ISA
}  // namespace headrace

#if defined(HEADRACE_EMULATED_TILES)
// Tests put a model of the tiles here, for processors without them.
#include <emulated_tiles.h>
#else

namespace headrace {
namespace HEADRACE_ISA {

// The whole structure is the operand, so the compiler has written every byte of it before.
inline void configure_tiles(const TileShapes &shapes) { asm volatile("ldtilecfg %0" ::"m"(shapes) : "memory"); }
inline void release_tiles() { asm volatile("tilerelease" ::: "memory"); }
template <int kTile> inline void clear_tile() { asm volatile("tilezero %%tmm%c0" ::"i"(kTile)); }
template <int kTile> inline void load_tile(const void *p, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile> inline void store_tile(void *p, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
}
// sums [m][n] += a [m][4k] * b [k][n][4], for signed bytes. Sums are 32 bits wide and wrap around.
template <int kSums, int kA, int kB> inline void multiply_tiles() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kA), "i"(kB));
}
// The same for unsigned bytes in `a`.
template <int kSums, int kA, int kB> inline void multiply_unsigned_tiles() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kA), "i"(kB));
}

}  // namespace HEADRACE_ISA
}  // namespace headrace

#endif

namespace headrace {
namespace HEADRACE_ISA {

// Keeps tiles configured for as long as it lives. Tiles that hold nothing cost a switch of threads nothing.
class ConfiguredTiles {
  public:
    explicit ConfiguredTiles(const TileShapes &shapes) { configure_tiles(shapes); }
    ~ConfiguredTiles() { release_tiles(); }
    ConfiguredTiles(const ConfiguredTiles &) = delete;
    ConfiguredTiles &operator=(const ConfiguredTiles &) = delete;
};

}  // namespace HEADRACE_ISA
}  // namespace headrace
