/* Features as a network gives them, to the 16-bit rows that kernel.c reads. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "threads.h"

#define TILE 64 /* cells that are transposed together */

/* One image [channels, cells] with any strides, and the rows that it becomes. */
typedef struct {
    const float *values;
    const int64_t *places; /* [cells]: the row that a cell becomes, or -1 for none */
    int16_t *rows;         /* [.., row_stride] */
    float *inv_norm;       /* [..] 1 / |row| */
    float *norm;           /* [..] norm of the cell before it was rounded */
    int64_t channels, cells, channel_stride, cell_stride, row_stride;
    int32_t threads;
} image;

/* One cell: quantise, and measure it before and after. Returns whether a value is not finite. */
static int pack_row(const float *restrict z, int64_t channels, int16_t *restrict row, float *inv_norm, float *norm) {
    float largest = 0, square = 0, exact_square = 0;
#pragma omp simd reduction(max : largest)
    for (int64_t c = 0; c < channels; c++) largest = fabsf(z[c]) > largest ? fabsf(z[c]) : largest;
    /* the scale of a subnormal row would overflow: such a row counts as zero */
    const float scale = largest > 1e-34f ? 32767.f / largest : 0.f;
#pragma omp simd reduction(+ : square, exact_square)
    for (int64_t c = 0; c < channels; c++) {
        float v = z[c] * scale; /* NaN if z[c] is, or if it is infinite and the scale therefore 0 */
        exact_square += v * v;
        v = v + (v < 0 ? -0.5f : 0.5f);
        int32_t q = (int32_t)(v == v ? v : 0.f);
        row[c] = (int16_t)q;
        square += (float)q * (float)q;
    }
    *inv_norm = square > 0 ? 1.f / sqrtf(square) : 0.f;
    *norm = square > 0 ? sqrtf(exact_square) / scale : 0.f;
    return exact_square != exact_square;
}

/* Floats between the cells of a tile: an odd number of cache lines spreads a column over the cache. */
static int64_t tile_pitch(const image *s) { return ((s->channels + 31) / 32 * 2 + 1) * 16; }

/* Packs the cells of one tile. Returns how many of them hold a value that is not finite. */
static int64_t pack_tile(const image *s, int64_t start, float *restrict tile, int16_t *nowhere) {
    const int64_t pitch = tile_pitch(s), channels = s->channels;
    const int64_t channel_stride = s->channel_stride, cell_stride = s->cell_stride;
    const int64_t count = s->cells - start < TILE ? s->cells - start : TILE;
    const float *restrict corner = s->values + start * cell_stride;
    float unused[2];
    if (cell_stride == 1) /* the usual layout: transpose a tile */
        for (int64_t c = 0; c < channels; c++)
            for (int64_t j = 0; j < count; j++) tile[j * pitch + c] = corner[c * channel_stride + j];
    else
        for (int64_t j = 0; j < count; j++)
            for (int64_t c = 0; c < channels; c++)
                tile[j * pitch + c] = corner[c * channel_stride + j * cell_stride];
    int64_t bad = 0;
    for (int64_t j = 0; j < count; j++) {
        const int64_t at = s->places[start + j];
        if (at < 0)
            bad += pack_row(tile + j * pitch, channels, nowhere, unused, unused + 1);
        else
            bad += pack_row(tile + j * pitch, channels, s->rows + at * s->row_stride, s->inv_norm + at, s->norm + at);
    }
    return bad;
}

/* Packs one image. Returns how many cells hold a value that is not finite, or -1 when there is no memory. */
int64_t repri_pack(const image *s) {
    const int64_t tiles = (s->cells + TILE - 1) / TILE;
    int64_t bad = 0, failed = 0;
    double work = 0;
    region r = region_begin(s->threads, tiles);
#pragma omp parallel num_threads(r.threads) reduction(+ : bad, failed, work)
    {
        work -= thread_seconds();
        float *tile = malloc(TILE * tile_pitch(s) * sizeof *tile);
        int16_t *nowhere = malloc(s->row_stride * sizeof *nowhere);
        failed = !tile || !nowhere;
#pragma omp for schedule(static) nowait
        for (int64_t k = 0; k < tiles; k++)
            if (!failed) bad += pack_tile(s, k * TILE, tile, nowhere);
        free(tile);
        free(nowhere);
        work += thread_seconds();
    }
    region_end(&r, work);
    return failed ? -1 : bad;
}
