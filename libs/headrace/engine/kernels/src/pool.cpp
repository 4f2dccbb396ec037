// How the threads of a pool wait for a job and claim its tasks.

#include "pool.h"

#include <sched.h>

#include "floating_point.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {
namespace {

constexpr int kSpins = 4000;  // About 50 microseconds.
constexpr int kCountBits = 20;
constexpr uint64_t kMask = (1u << kCountBits) - 1;
constexpr int64_t kMostTasks = 1 << (kCountBits - 1);  // Leaves room for claims beyond the last task.

// Has the C library allocate the thread-local data of all kernels, where it would do so at a first use and end the
// process if there is no memory.
inline void allocate_thread_local_data() {
    [[maybe_unused]] thread_local volatile char first_use;
    first_use = 1;
}

inline void pause() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    // `yield` takes no time on most processors; this waits about as long as x86's pause.
    asm volatile("isb");
#endif
}

}  // namespace

Pool::Pool(int thread_count) {
    allocate_thread_local_data();
    try {
        for (int thread = 1; thread < thread_count; ++thread) threads_.emplace_back([this, thread] { work(thread); });
    } catch (...) {
        stop();
        throw;
    }
}

Pool::~Pool() { stop(); }

void Pool::stop() {
    stopping_ = true;
    epoch_.fetch_add(1);
    epoch_.notify_all();
    for (auto &thread : threads_) thread.join();
}

void Pool::run_job(int64_t count, Call call, const void *context) {
    if (count > kMostTasks) {
        for (int64_t task = 0; task < count; ++task) call(context, task, 0);
        return;
    }
    call_ = call;
    context_ = context;
    done_.store(0, std::memory_order_relaxed);
    const uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
    const uint64_t job = static_cast<uint64_t>(epoch & 0xFFFFFF) << kCountBits | static_cast<uint64_t>(count);
    ticket_.store(job << kCountBits, std::memory_order_release);
    epoch_.store(epoch, std::memory_order_seq_cst);
    if (sleeping_.load(std::memory_order_seq_cst)) epoch_.notify_all();
    take_tasks(0);
    for (int spins = 0; done_.load(std::memory_order_acquire) < count; ++spins) {
        if (spins < kSpins)
            pause();
        else
            sched_yield();
    }
    if (failed_.exchange(false, std::memory_order_acq_rel)) std::rethrow_exception(std::move(failure_));
}

void Pool::take_tasks(int thread) {
    for (;;) {
        const uint64_t ticket = ticket_.fetch_add(1, std::memory_order_acq_rel);
        const uint64_t task = ticket & kMask;
        const uint64_t count = ticket >> kCountBits & kMask;
        if (task >= count) return;
        run_task(static_cast<int64_t>(task), thread);
        done_.fetch_add(1, std::memory_order_acq_rel);
    }
}

// Keeps an exception for the caller: out of a thread of the pool it would end the process.
void Pool::run_task(int64_t task, int thread) {
    try {
        call_(context_, task, thread);
    } catch (...) {
        if (!failed_.exchange(true, std::memory_order_acq_rel)) failure_ = std::current_exception();
    }
}

void Pool::work(int thread) {
    allocate_thread_local_data();
    const UsualRounding rounding;
    uint32_t seen = 0;
    while (!stopping_.load(std::memory_order_acquire)) {
        for (int spins = 0; epoch_.load(std::memory_order_acquire) == seen && spins < kSpins; ++spins) pause();
        if (epoch_.load(std::memory_order_acquire) == seen) {
            sleeping_.fetch_add(1, std::memory_order_seq_cst);
            epoch_.wait(seen, std::memory_order_seq_cst);
            sleeping_.fetch_sub(1, std::memory_order_seq_cst);
        }
        seen = epoch_.load(std::memory_order_acquire);
        if (!stopping_.load(std::memory_order_acquire)) take_tasks(thread);
    }
}

}  // namespace headrace
