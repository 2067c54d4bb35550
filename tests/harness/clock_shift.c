/* Preloaded into a process, it moves the wall clock by what a file says: nanoseconds, as eight bytes. The file is mapped,
   so looking at it costs nothing, and whoever writes to it makes the clock jump at once. Other clocks stay.

   Beyond the functions that tell the time, those that wait until an instant of the wall clock get it moved back. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BILLION 1000000000LL

static const volatile int64_t nowhere = 0;
static const volatile int64_t *shift = &nowhere;
static int (*real_gettime)(clockid_t, struct timespec *);
static int (*real_sem_timedwait)(sem_t *, const struct timespec *);

__attribute__((constructor)) static void open_file(void) {
    const char *path = getenv("CLOCK_SHIFT_FILE");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) shift = mapped;
}

static void move(struct timespec *at, int64_t by) {
    int64_t all = at->tv_sec * BILLION + at->tv_nsec + by;
    at->tv_sec = all / BILLION;
    at->tv_nsec = all % BILLION;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (real_gettime == NULL) *(void **)&real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real_gettime(clock, now);
    if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) move(now, *shift);
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec at;
    int failed = clock_gettime(CLOCK_REALTIME, &at);
    if (failed == 0) *now = (struct timeval){.tv_sec = at.tv_sec, .tv_usec = at.tv_nsec / 1000};
    return failed;
}

time_t time(time_t *there) {
    struct timespec at;
    if (clock_gettime(CLOCK_REALTIME, &at) != 0) return (time_t)-1;
    if (there != NULL) *there = at.tv_sec;
    return at.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until) {
    if (real_sem_timedwait == NULL) *(void **)&real_sem_timedwait = dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec moved = *until;
    move(&moved, -*shift);
    return real_sem_timedwait(semaphore, &moved);
}
