/* How many threads a parallel region should use while other programs come and go.
 *
 * All threads of a region meet at its end. When another program occupies a core, the thread that runs there is set
 * aside for several milliseconds, many times longer than a step takes, and all others wait for it. A region in which
 * the threads waited more than they worked is therefore followed by regions with half as many threads. After a pause,
 * which grows with the time lost and doubles each time the loss repeats, more threads are tried again.
 *
 *     region r = region_begin(threads, units);
 *     double work = 0;
 *     #pragma omp parallel num_threads(r.threads) reduction(+ : work)
 *     {
 *         work -= thread_seconds();
 *         ...
 *         work += thread_seconds();
 *     }
 *     region_end(&r, work);
 */
#ifndef REPRI_THREADS_H
#define REPRI_THREADS_H
#include <stdint.h>

typedef struct {
    int32_t threads; /* to use in this region */
    double start;    /* seconds */
} region;

/* `threads`: the most to use. `units`: the number of parts that the work has. */
region region_begin(int32_t threads, int64_t units);

/* `work`: the sum of the processor time that the threads spent with work, in seconds. */
void region_end(const region *r, double work);

/* The same at a given time, in seconds, which must not run backwards. */
region region_begin_at(int32_t threads, int64_t units, double now);
void region_end_at(const region *r, double work, double now);

/* Processor time of the calling thread: it does not grow while the thread is set aside. */
double thread_seconds(void);

#endif
