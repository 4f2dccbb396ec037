// Prints how many microseconds longer a job takes than each of its tasks, of which every thread of the kernels should have
// one; the median of many: thread_pool THREADS TASK_MICROSECONDS IDLE_MICROSECONDS REPEATS. Between jobs the caller spins.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "pool.h"

namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

void spin(double microseconds) {
    const auto start = Clock::now();
    while (microseconds_since(start) < microseconds) {
    }
}

}  // namespace

int main(int, char **arguments) {
    const int threads = std::atoi(arguments[1]);
    const double work = std::atof(arguments[2]), idle = std::atof(arguments[3]);
    std::vector<double> found(std::atoi(arguments[4]));
    headrace::Pool pool(threads);
    for (double &took : found) {
        spin(idle);
        const auto start = Clock::now();
        pool.run(threads, [&](int64_t, int) { spin(work); });
        took = microseconds_since(start) - work;
    }
    std::nth_element(found.begin(), found.begin() + found.size() / 2, found.end());
    std::printf("%.3f\n", found[found.size() / 2]);
}
