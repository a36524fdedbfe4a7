/* Vectors of LANES floats: what the kernel computes with, in the processor's own width. */
#ifndef REPRI_VECTORS_H
#define REPRI_VECTORS_H
#include <stdint.h>
#include <string.h>
#if defined(__AVX512F__) && defined(__AVX512BW__)
#include <immintrin.h>
#define LANES 16
#elif defined(__AVX2__)
#include <immintrin.h>
#define LANES 8
#else
#define LANES 4
#endif

typedef float vfloat __attribute__((vector_size(LANES * 4)));
typedef int32_t vint __attribute__((vector_size(LANES * 4)));
typedef int16_t vshort __attribute__((vector_size(LANES * 2)));
#define INLINE static inline __attribute__((always_inline))

INLINE vfloat load(const int16_t *p) {
#if LANES == 16
    return (vfloat)_mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)p)));
#elif LANES == 8 /* compilers make something slow of the general form */
    return (vfloat)_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)p)));
#else
    vshort v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, vfloat);
#endif
}

INLINE vfloat at(const float *p) {
    vfloat v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE float horizontal_sum(vfloat v) {
#if LANES == 16
    return _mm512_reduce_add_ps((__m512)v);
#else
    float lane[LANES];
    memcpy(lane, &v, sizeof lane);
    for (int half = LANES / 2; half >= 1; half /= 2)
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];
    return lane[0];
#endif
}

INLINE vfloat choose(vint mask, vfloat a, vfloat b) { return (vfloat)((mask & (vint)a) | (~mask & (vint)b)); }

/* exp and log within 2 units in the last place on the ranges used here, for LANES values at once */
INLINE vfloat fast_exp(vfloat x) { /* -80 <= x <= 0 */
    vint n = __builtin_convertvector(x * 1.44269504f - 0.5f, vint);
    vfloat k = __builtin_convertvector(n, vfloat), r = x - k * 0.693359375f + k * 2.12194440e-4f;
    vfloat power = (vfloat)((n + 127) << 23);
    return power * (1 + r * (1 + r * (0.5f + r * (1 / 6.f + r * (1 / 24.f + r * (1 / 120.f + r / 720.f))))));
}

INLINE vfloat fast_log(vfloat x) { /* positive, normal */
    vint exponent = ((vint)x - 0x3f3504f3) >> 23; /* leaves a mantissa in [sqrt(1/2), sqrt(2)) */
    vfloat m = (vfloat)((vint)x - (exponent << 23)), t = (m - 1) / (m + 1), u = t * t;
    vfloat series = 2 * t * (1 + u * (1 / 3.f + u * (1 / 5.f + u * (1 / 7.f + u / 9.f))));
    return __builtin_convertvector(exponent, vfloat) * 0.693147181f + series;
}

/* p = sigmoid(x), q = 1 - p and their logarithms */
typedef struct {
    vfloat p, q, log_p, log_q;
} posterior;

INLINE posterior classify(vfloat x, float epsilon) {
    vint negative = x < 0;
    vfloat size = choose(negative, -x, x), bounded = choose(size < 80, size, 80 - (vfloat){0});
    vfloat e = fast_exp(-bounded), larger = 1 / (1 + e), smaller = e * larger;
    posterior y = {.p = choose(negative, smaller, larger)};
    if (epsilon > 0) { /* arithmetic that takes 1 - p and log(p + epsilon), rounding included */
        y.q = 1 - y.p;
        y.log_p = fast_log(y.p + epsilon);
        y.log_q = fast_log(y.q + epsilon);
    } else {
        vfloat log_larger = -fast_log(1 + e), log_smaller = log_larger - size;
        y.q = choose(negative, larger, smaller);
        y.log_p = choose(negative, log_smaller, log_larger);
        y.log_q = choose(negative, log_larger, log_smaller);
    }
    return y;
}

#endif
