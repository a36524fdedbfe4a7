/* See threads.h. */
#include "threads.h"

#include <stdatomic.h>
#include <time.h>

#define MAX_DOUBLINGS 4
#define MAX_PAUSE 1.0 /* seconds */

/* Several threads may call at once. An update that is lost does no harm: these numbers decide about speed only. */
static _Atomic int32_t halvings; /* how often the number of threads is halved at present */
static _Atomic int32_t losses;   /* regions that lost time since all threads last worked well together */
static _Atomic double retry;     /* when to try twice as many threads, in seconds */

static double seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double thread_seconds(void) { return seconds(CLOCK_THREAD_CPUTIME_ID); }

region region_begin(int32_t threads, int64_t units) { return region_begin_at(threads, units, seconds(CLOCK_MONOTONIC)); }

void region_end(const region *r, double work) { region_end_at(r, work, seconds(CLOCK_MONOTONIC)); }

region region_begin_at(int32_t threads, int64_t units, double now) {
    region r = {.threads = threads, .start = now};
    int32_t halved = halvings;
    if (halved > 0 && r.start >= retry) halvings = --halved;
    r.threads >>= halved;
    if (r.threads > units) r.threads = (int32_t)units;
    if (r.threads < 1) r.threads = 1;
    return r;
}

void region_end_at(const region *r, double work, double now) {
    if (r->threads < 2) return;
    const double lost = now - r->start - 2 * work / r->threads; /* over half as many threads that never wait */
    if (lost <= 0) {
        if (halvings == 0) losses = 0;
        return;
    }
    const double pause = lost * (1 << (losses < MAX_DOUBLINGS ? losses : MAX_DOUBLINGS));
    losses++;
    halvings++;
    retry = now + (pause < MAX_PAUSE ? pause : MAX_PAUSE);
}
