/* One pass over the features per gradient step (see native.py for the Python side).
 *
 * A step of RePRI needs, for logits l = tau * cos(z, w) - bias,
 *     sum of g(l) * z        with g the derivative of CE (support) or of H (query), and
 *     sum of p (1 - p) * z   over the query: what KL(p_hat || pi) multiplies by one scalar
 *                            that is known only once the pass is over.
 * So each row z is read once: dot product, coefficient, accumulation, while it is in cache.
 *
 * Rows are stored as int16 with one scale a row, which moves half the bytes of float32 and
 * keeps an absolute error of at most 1.6e-5 of the row's largest entry; sums are float32
 * within a chunk of rows and float64 across chunks. Chunks do not depend on the number of
 * threads, so the sums do not either, to the last bit.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "threads.h"
#include "vectors.h"

#define STRIDE_MULTIPLE 16 /* rows are padded with zeros to a multiple of this */
#define BATCH 16           /* rows whose coefficients are computed together */
#define ROWS 4             /* rows held in registers at once */
#define TASKS 4            /* classifiers held in registers at once, when tasks share a support */

enum { GRADIENT = 0, FOREGROUND = 1, BACKGROUND = 2 };
enum { BEGIN, END, FIRST_TASK, TASK_COUNT, PARTIAL, IS_QUERY, CHUNK_FIELDS };
enum { SUM_G, SUM_GH, SUM_PQ, SUM_Q, SUM_P, SUM_CE, SUM_H, SUM_FIELDS };

typedef struct {
    const int16_t *rows;    /* [n, stride] */
    const float *inv_norm;  /* [n], 1 / |row|, 0 for a zero row */
    const float *weight_fg; /* [n] support: y / labelled cells; query: valid / valid cells */
    const float *weight_bg; /* [n] support: (1 - y) / labelled cells; query: unused */
    const int64_t *chunks;  /* [chunk_count, CHUNK_FIELDS] */
    const int64_t *starts;  /* [tasks + 1]: where in `order` the chunks of a task begin */
    const int64_t *order;   /* chunk numbers, task by task */
    float *unit;            /* [tasks, stride], w / |w|, minus v / |v| where there is a v */
    float *bias;            /* [tasks], in logit units */
    float *partial;         /* [slots, 2, stride] */
    double *partial_sums;   /* [slots, SUM_FIELDS] */
    float *vectors;         /* [tasks, 3, stride]: CE, H, p(1-p) */
    float *sums;            /* [tasks, SUM_FIELDS] */
    int64_t chunk_count, task_count, stride, channels;
    float temperature, epsilon, lr, bias_slope;
    int32_t threads;
} plan;

/* out[t][r] = rows[r] . unit[t] for ROWS rows and `tasks` classifiers (a compile-time constant) */
INLINE void dots(const int tasks, const int16_t *rows, int64_t stride, const float *unit, float *out) {
    vfloat acc[TASKS][ROWS];
    for (int t = 0; t < tasks; t++)
        for (int r = 0; r < ROWS; r++) acc[t][r] = (vfloat){0};
    for (int64_t c = 0; c < stride; c += LANES) {
        vfloat z[ROWS];
        for (int r = 0; r < ROWS; r++) {
            z[r] = load(rows + r * stride + c);
            if (c % 32 == 0) __builtin_prefetch(rows + (r + BATCH) * stride + c); /* a cache line of the next batch */
        }
        for (int t = 0; t < tasks; t++) {
            vfloat u = at(unit + t * stride + c);
            for (int r = 0; r < ROWS; r++) acc[t][r] += u * z[r];
        }
    }
    for (int t = 0; t < tasks; t++)
        for (int r = 0; r < ROWS; r++) out[t * BATCH + r] = horizontal_sum(acc[t][r]);
}

/* sums[t] += coefficient[t][r] * rows[r]; sums of consecutive t lie `step` floats apart */
INLINE void accumulate(const int tasks, const int16_t *rows, int64_t stride, const float *coefficient,
                       float *sums, int64_t step) {
    vfloat g[TASKS][ROWS];
    for (int t = 0; t < tasks; t++)
        for (int r = 0; r < ROWS; r++) g[t][r] = coefficient[t * BATCH + r] - (vfloat){0};
    for (int64_t c = 0; c < stride; c += LANES) {
        vfloat z[ROWS];
        for (int r = 0; r < ROWS; r++) z[r] = load(rows + r * stride + c);
        for (int t = 0; t < tasks; t++) {
            vfloat s = at(sums + t * step + c);
            for (int r = 0; r < ROWS; r++) s += g[t][r] * z[r];
            memcpy(sums + t * step + c, &s, sizeof s);
        }
    }
}

/* derivative of CE by the logit */
INLINE void support_coefficients(const plan *s, int64_t row, const float *logits, float *g, double *sums) {
    const float e = s->epsilon;
    vfloat sum_g = {0}, sum_ce = {0};
    for (int i = 0; i < BATCH; i += LANES) {
        posterior y = classify(at(logits + i), e);
        vfloat fg = at(s->weight_fg + row + i), bg = at(s->weight_bg + row + i), d;
        d = e > 0 ? y.p * y.q * (bg / (y.q + e) - fg / (y.p + e)) : bg * y.p - fg * y.q;
        memcpy(g + i, &d, sizeof d);
        sum_g += d;
        sum_ce -= fg * y.log_p + bg * y.log_q;
    }
    sums[SUM_G] += horizontal_sum(sum_g);
    sums[SUM_CE] += horizontal_sum(sum_ce);
}

/* derivatives of H and of p_hat by the logit */
INLINE void query_coefficients(const plan *s, int64_t row, const float *logits, float *gh, float *gp, double *sums) {
    const float e = s->epsilon;
    vfloat sum_gh = {0}, sum_pq = {0}, sum_p = {0}, sum_q = {0}, sum_h = {0};
    for (int i = 0; i < BATCH; i += LANES) {
        vfloat x = at(logits + i), v = at(s->weight_fg + row + i), d, pq;
        posterior y = classify(x, e);
        pq = v * y.p * y.q;
        d = e > 0 ? pq * (y.log_q - y.log_p + y.q / (y.q + e) - y.p / (y.p + e)) : -pq * x;
        memcpy(gh + i, &d, sizeof d);
        memcpy(gp + i, &pq, sizeof pq);
        sum_gh += d;
        sum_pq += pq;
        sum_p += v * y.p;
        sum_q += v * y.q;
        sum_h -= v * (y.p * y.log_p + y.q * y.log_q);
    }
    sums[SUM_GH] += horizontal_sum(sum_gh);
    sums[SUM_PQ] += horizontal_sum(sum_pq);
    sums[SUM_P] += horizontal_sum(sum_p);
    sums[SUM_Q] += horizontal_sum(sum_q);
    sums[SUM_H] += horizontal_sum(sum_h);
}

/* BATCH rows against `tasks` classifiers: logits, coefficients, accumulation. Rows of padding, at
 * the end of a support set or query, are zero and carry weight 0. */
INLINE void batch_step(const int tasks, const plan *s, int mode, int is_query, int64_t row, int64_t first_task,
                       float *partial, double *sums) {
    const int64_t stride = s->stride;
    const int16_t *rows = s->rows + row * stride;
    float x[TASKS * BATCH], g[TASKS * BATCH];
    if (mode != GRADIENT) {
        const float *weight = mode == FOREGROUND ? s->weight_fg : s->weight_bg;
        for (int t = 0; t < tasks; t++)
            for (int i = 0; i < BATCH; i++) g[t * BATCH + i] = weight[row + i] * s->inv_norm[row + i];
    } else {
        for (int r = 0; r < BATCH; r += ROWS)
            dots(tasks, rows + r * stride, stride, s->unit + first_task * stride, x + r);
        for (int t = 0; t < tasks; t++) {
            const float bias = s->bias[first_task + t];
            for (int i = 0; i < BATCH; i++)
                x[t * BATCH + i] = s->temperature * s->inv_norm[row + i] * x[t * BATCH + i] - bias;
        }
        if (is_query) {
            query_coefficients(s, row, x, g, g + BATCH, sums);
        } else
            for (int t = 0; t < tasks; t++)
                support_coefficients(s, row, x + t * BATCH, g + t * BATCH, sums + t * SUM_FIELDS);
        for (int t = 0; t < (is_query ? 2 : tasks); t++)
            for (int i = 0; i < BATCH; i++) g[t * BATCH + i] *= s->inv_norm[row + i];
    }
    for (int r = 0; r < BATCH; r += ROWS) {
        if (is_query)
            accumulate(2, rows + r * stride, stride, g + r, partial, stride);
        else
            accumulate(tasks, rows + r * stride, stride, g + r, partial, 2 * stride);
    }
}

static void chunk_step(const plan *s, int mode, const int64_t *chunk) {
    const int64_t stride = s->stride, tasks = chunk[TASK_COUNT];
    float *partial = s->partial + chunk[PARTIAL] * 2 * stride;
    double *sums = s->partial_sums + chunk[PARTIAL] * SUM_FIELDS;
    memset(partial, 0, tasks * 2 * stride * sizeof(float));
    memset(sums, 0, tasks * SUM_FIELDS * sizeof(double));
    if (chunk[IS_QUERY] && mode != GRADIENT) return;
    for (int64_t row = chunk[BEGIN]; row < chunk[END]; row += BATCH) {
        if (chunk[IS_QUERY]) {
            batch_step(1, s, mode, 1, row, chunk[FIRST_TASK], partial, sums);
            continue;
        }
        int64_t t = 0;
        for (; t + TASKS <= tasks; t += TASKS)
            batch_step(TASKS, s, mode, 0, row, chunk[FIRST_TASK] + t, partial + t * 2 * stride, sums + t * SUM_FIELDS);
        for (; t < tasks; t++)
            batch_step(1, s, mode, 0, row, chunk[FIRST_TASK] + t, partial + t * 2 * stride, sums + t * SUM_FIELDS);
    }
}

static void reduce_task(const plan *s, int64_t task, int64_t channel) {
    double total[3][STRIDE_MULTIPLE] = {{0}}, sums[SUM_FIELDS] = {0};
    for (int64_t k = s->starts[task]; k < s->starts[task + 1]; k++) {
        const int64_t *chunk = s->chunks + s->order[k] * CHUNK_FIELDS;
        const int64_t t = task - chunk[FIRST_TASK];
        const float *partial = s->partial + (chunk[PARTIAL] + t) * 2 * s->stride + channel;
        int first = chunk[IS_QUERY] ? 1 : 0;
        for (int i = 0; i < STRIDE_MULTIPLE; i++) total[first][i] += partial[i];
        if (chunk[IS_QUERY])
            for (int i = 0; i < STRIDE_MULTIPLE; i++) total[2][i] += partial[s->stride + i];
        if (channel == 0)
            for (int i = 0; i < SUM_FIELDS; i++) sums[i] += s->partial_sums[(chunk[PARTIAL] + t) * SUM_FIELDS + i];
    }
    for (int v = 0; v < 3; v++)
        for (int i = 0; i < STRIDE_MULTIPLE; i++)
            s->vectors[(task * 3 + v) * s->stride + channel + i] = (float)total[v][i];
    if (channel == 0)
        for (int i = 0; i < SUM_FIELDS; i++) s->sums[task * SUM_FIELDS + i] = (float)sums[i];
}

/* mode GRADIENT: everything a step needs, into vectors and sums. FOREGROUND, BACKGROUND: vectors[:, 0]
 * becomes the weighted sum of the support's foreground or background rows. */
void repri_pass(const plan *s, int32_t mode) {
    const int64_t blocks = s->stride / STRIDE_MULTIPLE;
    region r = region_begin(s->threads, s->chunk_count);
    double work = 0;
#pragma omp parallel num_threads(r.threads) reduction(+ : work)
    {
        work -= thread_seconds();
#pragma omp for schedule(dynamic, 1) nowait
        for (int64_t k = 0; k < s->chunk_count; k++) chunk_step(s, mode, s->chunks + k * CHUNK_FIELDS);
        work += thread_seconds();
#pragma omp barrier
#pragma omp for schedule(static)
        for (int64_t i = 0; i < s->task_count * blocks; i++)
            reduce_task(s, i / blocks, i % blocks * STRIDE_MULTIPLE);
    }
    region_end(&r, work);
}

static double safe_log(double x) { return log(x < 1.1754944e-38 ? 1.1754944e-38 : x); }

static double length(const float *v, int64_t channels) {
    double square = 0;
    for (int64_t c = 0; c < channels; c++) square += (double)v[c] * v[c];
    return fmax(sqrt(square), 1e-12);
}

/* v -= rate / |v| * (gradient without its part along v): d cos / d v has none */
static void move(float *v, const double *gradient, int64_t channels, double rate) {
    const double inverse = 1 / length(v, channels);
    double radial = 0;
    for (int64_t c = 0; c < channels; c++) radial += gradient[c] * v[c] * inverse;
    for (int64_t c = 0; c < channels; c++)
        v[c] -= (float)(rate * inverse * (gradient[c] - radial * v[c] * inverse));
}

/* One gradient step on w [tasks, channels], b [tasks] and, unless it is NULL, v [tasks, channels], in place, with
 * pi [tasks, 2] (background, foreground) or, when `reestimate`, with pi = p_hat. Returns whether there was memory. */
int32_t repri_step(const plan *s, float *w, float *b, const float *pi, const float *lambda_h, const float *lambda_kl,
                   float *v, int32_t reestimate) {
    const int64_t channels = s->channels, stride = s->stride;
    double *gradient = malloc(channels * sizeof(double));
    if (!gradient) return 0;
    for (int64_t t = 0; t < s->task_count; t++) {
        float *unit = s->unit + t * stride;
        double inverse = 1 / length(w + t * channels, channels);
        for (int64_t c = 0; c < channels; c++) unit[c] = (float)(w[t * channels + c] * inverse);
        if (v) {
            inverse = 1 / length(v + t * channels, channels);
            for (int64_t c = 0; c < channels; c++) unit[c] -= (float)(v[t * channels + c] * inverse);
        }
        s->bias[t] = s->bias_slope * b[t];
    }
    repri_pass(s, GRADIENT);
    for (int64_t t = 0; t < s->task_count; t++) {
        const float *sums = s->sums + t * SUM_FIELDS;
        const float *ce = s->vectors + 3 * t * stride, *h = ce + stride, *p = h + stride;
        const float *target = reestimate ? sums + SUM_Q : pi + 2 * t;
        const double kappa = safe_log(sums[SUM_P]) - safe_log((double)target[1] + s->epsilon) -
                             safe_log(sums[SUM_Q]) + safe_log((double)target[0] + s->epsilon);
        const double wh = lambda_h[t], wp = lambda_kl[t] * kappa;
        for (int64_t c = 0; c < channels; c++) gradient[c] = ce[c] + wh * h[c] + wp * p[c];
        const double rate = (double)s->lr * s->temperature;
        move(w + t * channels, gradient, channels, rate);
        if (v) move(v + t * channels, gradient, channels, -rate);
        b[t] += (float)(s->lr * s->bias_slope * (sums[SUM_G] + wh * sums[SUM_GH] + wp * sums[SUM_PQ]));
    }
    free(gradient);
    return 1;
}
