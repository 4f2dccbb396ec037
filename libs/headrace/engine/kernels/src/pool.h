// A thread pool that runs one job of many tasks at a time.
//
// A job ends when its tasks are done, not when every thread has seen it: a thread that the operating system has paused
// delays the task it may hold and nothing else. Idle threads spin for a moment, then sleep; the caller spins, then
// yields.

#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

namespace headrace {

class Pool {
  public:
    // Throws std::system_error where a thread cannot be started.
    explicit Pool(int thread_count);
    ~Pool();
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;

    int thread_count() const { return static_cast<int>(threads_.size()) + 1; }

    // Calls body(task, thread) for every task below `count` and returns when all calls have. Threads are numbered from
    // 0, the caller's. One thread at a time may call this. Throws what a task has thrown, the first of them, when all
    // others are done.
    template <typename Body> void run(int64_t count, const Body &body) {
        if (count <= 1 || threads_.empty()) {
            for (int64_t task = 0; task < count; ++task) body(task, 0);
            return;
        }
        run_job(
            count,
            [](const void *context, int64_t task, int thread) { (*static_cast<const Body *>(context))(task, thread); },
            &body);
    }

  private:
    using Call = void (*)(const void *, int64_t, int);

    void stop();
    void run_job(int64_t count, Call call, const void *context);
    void work(int thread);
    void take_tasks(int thread);
    void run_task(int64_t task, int thread);

    // Epoch (24 bits), task count (20 bits) and next task (20 bits) in one word, so that every claim belongs to the
    // current job.
    std::atomic<uint64_t> ticket_{0};
    std::atomic<int64_t> done_{0};
    std::atomic<int> sleeping_{0};
    std::atomic<uint32_t> epoch_{0};
    std::atomic<bool> stopping_{false};
    std::atomic<bool> failed_{false};
    std::exception_ptr failure_;  // Set once per job, by the thread that sets failed_.
    Call call_ = nullptr;
    const void *context_ = nullptr;
    std::vector<std::thread> threads_;
};

}  // namespace headrace
