// Functions of newer versions of glibc that g++ 12 and its headers take for granted, for a program that has
// to run with glibc 2.28. Only a build with FUSEWISE_GLIBC contains this file.

#include <pthread.h>
#include <time.h>

#include <cstddef>

#define FUSEWISE_LOCAL __attribute__((visibility("hidden")))

// <sys/stat.h> and <stdlib.h> of the newer glibc declare some of these otherwise; this file includes neither.
extern "C" {

// glibc 2.33 made functions of these three, which had been macros around functions with a version of the
// struct.
int __xstat(int version, const char* path, void* out);
int __lxstat(int version, const char* path, void* out);
int __fxstat(int version, int file, void* out);

FUSEWISE_LOCAL int stat(const char* path, void* out) { return __xstat(1, path, out); }
FUSEWISE_LOCAL int lstat(const char* path, void* out) { return __lxstat(1, path, out); }
FUSEWISE_LOCAL int fstat(int file, void* out) { return __fxstat(1, file, out); }

// glibc 2.32: whether reference counts may do without atomic operations. They never may here.
extern FUSEWISE_LOCAL const char __libc_single_threaded;
const char __libc_single_threaded = 0;

// glibc 2.36: std::random_device asks it first.
long getrandom(void* out, std::size_t bytes, unsigned flags);
FUSEWISE_LOCAL unsigned arc4random() {
  unsigned out = 0;
  while (getrandom(&out, sizeof out, 0) != static_cast<long>(sizeof out)) {
  }
  return out;
}

// glibc 2.30: waits until a time of any clock. Older ones know the real time alone, and where that is set
// meanwhile the wait is longer or shorter; std::condition_variable looks at its own clock afterwards.
FUSEWISE_LOCAL int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                          const timespec* until) {
  constexpr long kNsPerSecond = 1'000'000'000;
  timespec now = {};
  timespec real = {};
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &real);
  real.tv_sec += until->tv_sec - now.tv_sec;
  real.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (real.tv_nsec < 0) {
    real.tv_nsec += kNsPerSecond;
    --real.tv_sec;
  } else if (real.tv_nsec >= kNsPerSecond) {
    real.tv_nsec -= kNsPerSecond;
    ++real.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &real);
}
}
