// May tiles be used here? What processor, hypervisor and operating system say, then what they do.

#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "tiles.h"

#if defined(__linux__) && defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif
#if defined(__linux__)
#include <sys/prctl.h>
#endif

namespace headrace {
namespace HEADRACE_ISA {

constexpr int kTilePeers = 3;                 // Processes on one core in turn.
constexpr int64_t kTrialMicroseconds = 4000;  // Of one of them.
constexpr unsigned kTrialSeconds = 10;        // Patience with it.

// Says why processor and system do not offer tiles, or null. Asks the system for permission, once for all threads of
// this process and its children.
inline const char *why_no_tiles_offered() {
#if defined(HEADRACE_EMULATED_TILES)
    return nullptr;
#elif !defined(__linux__) || !defined(__x86_64__)
    return "tiles are only used on Linux";
#else
    constexpr unsigned kTileBit = 1u << 24, kInt8Bit = 1u << 25, kSystemSaves = 1u << 27;
    constexpr unsigned kSaved = 0x600E6;  // Vectors of AVX-512, shapes of tiles, tiles.
    constexpr long kAskPermission = 0x1023, kTileData = 18;
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & kTileBit) || !(d & kInt8Bit))
        return "this processor does not have it";
    if (!__get_cpuid_count(1, 0, &a, &b, &c, &d) || !(c & kSystemSaves))
        return "the operating system does not save vector registers";
    unsigned low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & kSaved) != kSaved) return "the operating system or hypervisor does not save tiles";
    // Some hypervisors show the bits above and no palette, the kinds of shapes that there are.
    if (!__get_cpuid_count(0x1D, 0, &a, &b, &c, &d) || a < 1) return "the hypervisor shows no palette of tiles";
    __get_cpuid_count(0x1D, 1, &a, &b, &c, &d);
    const bool is_large = (a & 0xFFFF) >= kTileCount * kTileRows * kTileBytes && (b & 0xFFFF) >= kTileBytes &&
                          (b >> 16) >= kTileCount && (c & 0xFFFF) >= kTileRows;
    if (!is_large) return "the palette of tiles is smaller than 8 x 16 x 64 bytes";
    if (syscall(SYS_arch_prctl, kAskPermission, kTileData)) return "the operating system does not permit tiles";
    return nullptr;
#endif
}

// A product of 5 x 64 by 64 x 16 odd numbers, with its sums computed both ways.
struct TileTrial {
    alignas(64) int8_t a[5][64], b[16][64];
    alignas(64) int32_t expected[5][16], sums[5][16];

    explicit TileTrial(int seed) {
        for (int m = 0; m < 5; ++m)
            for (int k = 0; k < 64; ++k) a[m][k] = static_cast<int8_t>(m * 37 + k * 11 + seed * 29 - 128);
        for (int k = 0; k < 16; ++k)
            for (int i = 0; i < 64; ++i) b[k][i] = static_cast<int8_t>(k * 53 + i * 7 + seed * 17 + 3);
        for (int m = 0; m < 5; ++m)
            for (int n = 0; n < 16; ++n) {
                expected[m][n] = 0;
                for (int k = 0; k < 64; ++k) expected[m][n] += a[m][k] * b[k / 4][n * 4 + k % 4];
            }
    }

    // Gives the processor away while tiles are full, before and after they are multiplied. Returns whether the sums are
    // right.
    bool holds() {
        std::memset(sums, 0, sizeof sums);
        clear_tile<0>();
        load_tile<1>(a, 64);
        load_tile<2>(b, 64);
        sched_yield();
        multiply_tiles<0, 1, 2>();
        sched_yield();
        store_tile<0>(sums, 64);
        return !std::memcmp(sums, expected, sizeof sums);
    }
};

inline int64_t microseconds_now() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<int64_t>(now.tv_sec) * 1000000 + now.tv_nsec / 1000;
}

// Tries tiles for a while. Returns the status that the process ends with: 0 if all was right.
inline int try_tiles(int seed) {
    TileTrial trial(seed);
    TileShapes shapes;
    shapes.set(0, 5, 64);
    shapes.set(1, 5, 64);
    shapes.set(2, 16, 64);
    const ConfiguredTiles tiles(shapes);
    const int64_t end = microseconds_now() + kTrialMicroseconds;
    do
        if (!trial.holds()) return 1;
    while (microseconds_now() < end);
    return 0;
}

// Waits for a process. Returns the status that it ended with, or -1 if a signal ended it or nothing is known of it.
inline int status_of(pid_t process) {
    int status = 0;
    pid_t found;
    do found = waitpid(process, &status, 0);
    while (found < 0 && errno == EINTR);
    return found == process && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Makes a forked process safe to lose: it ends by any fault, without a dump of the memory that it shares, and by itself
// after some seconds.
inline void expect_faults() {
#if defined(__linux__)
    prctl(PR_SET_DUMPABLE, 0);
#endif
    for (const int number : {SIGILL, SIGSEGV, SIGBUS, SIGALRM}) signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    alarm(kTrialSeconds);
}

// Puts this process on the core that it runs on, for its children to share. Where that is refused, they run anywhere.
inline void stay_on_this_core() {
#if defined(__linux__)
    const int core = sched_getcpu();
    if (core < 0 || core >= CPU_SETSIZE) return;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    sched_setaffinity(0, sizeof cores, &cores);
#endif
}

// Runs trials in several processes on one core, so that each is often interrupted while its tiles are full. Returns the
// worst status.
inline int try_tiles_together() {
    stay_on_this_core();
    pid_t peers[kTilePeers];
    for (int i = 0; i < kTilePeers; ++i) {
        peers[i] = fork();
        if (peers[i] == 0) {
            expect_faults();
            _exit(try_tiles(i + 1));
        }
    }
    int worst = try_tiles(0);
    for (const pid_t peer : peers) {
        const int status = peer < 0 ? 0 : status_of(peer);
        if (status) worst = status < 0 ? 2 : status;
    }
    return worst;
}

// Says why tiles fail when they are used, or null. They are tried in a process of its own, because what is offered may
// still be an illegal instruction, or be lost when processes take turns. Nothing there allocates or locks.
inline const char *why_tiles_fail() {
    const pid_t child = fork();
    if (child < 0) return "there is no process to try tiles in";
    if (child == 0) {
        expect_faults();
        _exit(try_tiles_together());
    }
    switch (status_of(child)) {
        case 0: return nullptr;
        case 1: return "tiles give wrong results, or are lost when processes take turns";
        default: return "tile instructions crash";
    }
}

inline const char *why_no_tiles() {
    const char *reason = why_no_tiles_offered();
    return reason ? reason : why_tiles_fail();
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
