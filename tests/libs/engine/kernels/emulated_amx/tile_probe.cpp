// The trial of tiles, alone, with faults that hardware and hypervisors have shown.

#define HEADRACE_ISA amx

#include <sched.h>

#if defined(LOSES_TILES)
// As where a hypervisor saves no tiles: what a processor finds after an interruption is the start.
#define sched_yield lose_tiles
static int lose_tiles();
#endif
#include "tile_probe.h"

#if defined(LOSES_TILES)
static int lose_tiles() {
    std::memset(headrace::amx::tile_file().data, 0, sizeof headrace::amx::tile_file().data);
    return 0;
}
#endif

extern "C" const char *why_tiles_fail() {
    const char *reason = headrace::amx::why_tiles_fail();
    return reason ? reason : "";
}

extern "C" const char *why_no_tiles() {
    const char *reason = headrace::amx::why_no_tiles();
    return reason ? reason : "";
}
