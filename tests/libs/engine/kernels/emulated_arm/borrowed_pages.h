// Memory of another process at its own addresses: a page is fetched when it is first touched, and what was changed is
// sent back. So calls may take any pointers, and nobody has to know what they point to.
//
// Messages to the other process are a kind and two numbers, and bytes where it is kWrite. It answers kRead with the
// number of bytes that it has from the address on, then with these.

#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>

constexpr int64_t kRead = 1;   // Address, count
constexpr int64_t kWrite = 2;  // Address, count
constexpr int64_t kDone = 3;   // Result, 0

[[noreturn]] inline void fail(const char *reason) {
    std::fprintf(stderr, "emulated kernels: %s\n", reason);
    _exit(3);
}

inline void receive(void *to, size_t count) {
    for (size_t got = 0; got < count;) {
        const ssize_t n = read(0, static_cast<char *>(to) + got, count - got);
        if (n <= 0) _exit(0);
        got += static_cast<size_t>(n);
    }
}

inline void send(const void *from, size_t count) {
    for (size_t sent = 0; sent < count;) {
        const ssize_t n = write(1, static_cast<const char *>(from) + sent, count - sent);
        if (n <= 0) fail("the tests are gone");
        sent += static_cast<size_t>(n);
    }
}

inline void send_message(int64_t kind, int64_t first, int64_t second) {
    const int64_t message[] = {kind, first, second};
    send(message, sizeof message);
}

namespace pages {

constexpr int64_t kBytes = 4096;
constexpr int64_t kAtOnce = 8;
constexpr int kMost = 8192;

struct Page {
    char *at;
    char *original;
};

inline Page all[kMost];
inline int count = 0;
inline std::atomic_flag busy;
inline char fetched[kBytes * kAtOnce];

inline char *room() {
    void *p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) fail("there is no memory");
    return static_cast<char *>(p);
}

inline bool is_here(const char *at) {
    for (int i = 0; i < count; ++i)
        if (all[i].at == at) return true;
    return false;
}

// Moves a filled page to its place at once: other threads must not see it empty.
inline void put(char *at, const char *bytes) {
    if (count == kMost) fail("a call takes too much memory");
    char *page = room();
    char *original = room();
    std::memcpy(page, bytes, kBytes);
    std::memcpy(original, bytes, kBytes);
    if (mremap(page, kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at) fail("a page cannot be mapped");
    all[count++] = {at, original};
}

inline void fetch(char *at) {
    send_message(kRead, reinterpret_cast<int64_t>(at), kBytes * kAtOnce);
    int64_t got = 0;
    receive(&got, sizeof got);
    if (got < kBytes) fail("a call reads or writes memory that is not there");
    receive(fetched, static_cast<size_t>(got));
    for (int64_t i = 0; i < got / kBytes; ++i)
        if (!is_here(at + i * kBytes)) put(at + i * kBytes, fetched + i * kBytes);
}

inline void on_fault(int, siginfo_t *info, void *) {
    char *at = reinterpret_cast<char *>(reinterpret_cast<int64_t>(info->si_addr) / kBytes * kBytes);
    while (busy.test_and_set(std::memory_order_acquire)) {
    }
    if (!is_here(at)) fetch(at);
    busy.clear(std::memory_order_release);
}

inline void catch_faults() {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
}

inline void send_changes(const Page &page) {
    for (int64_t i = 0; i < kBytes;) {
        if (page.at[i] == page.original[i]) {
            ++i;
            continue;
        }
        int64_t end = i + 1;
        while (end < kBytes && page.at[end] != page.original[end]) ++end;
        send_message(kWrite, reinterpret_cast<int64_t>(page.at + i), end - i);
        send(page.at + i, static_cast<size_t>(end - i));
        i = end;
    }
}

// Sends changes back and forgets all pages.
inline void give_back() {
    for (int i = 0; i < count; ++i) {
        send_changes(all[i]);
        munmap(all[i].at, kBytes);
        munmap(all[i].original, kBytes);
    }
    count = 0;
}

}  // namespace pages
