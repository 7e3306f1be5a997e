/* Part of builds with the thread sanitizer only. The runtimes of GCC 12 and of older Clang do not know
 * pthread_mutex_clocklock, which std::timed_mutex waits with: they would see unlocks of mutexes that nobody locked, and
 * call everything those protect a race. Waiting by another function of the same meaning shows them the lock. */
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>

int pthread_mutex_clocklock(pthread_mutex_t * mutex, clockid_t clock, const struct timespec * until);

int pthread_mutex_clocklock(pthread_mutex_t * mutex, clockid_t clock, const struct timespec * until) {
    struct timespec now, end;
    if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &end) != 0) return pthread_mutex_lock(mutex);
    end.tv_sec += until->tv_sec - now.tv_sec;
    end.tv_nsec += until->tv_nsec - now.tv_nsec;
    if (end.tv_nsec < 0) {
        end.tv_nsec += 1000000000;
        end.tv_sec -= 1;
    } else if (end.tv_nsec >= 1000000000) {
        end.tv_nsec -= 1000000000;
        end.tv_sec += 1;
    }
    return pthread_mutex_timedlock(mutex, &end);
}
