"""The run lengths in which Label Studio stores a brush.

They are runs of bits over the image's RGBA values (the rle-pack format of thi.ng/umbrella): 32 bits for the number of
values, 5 bits for the word size − 1, and four times 4 bits for a run-length size − 1. Each run then has one bit (1: one
word that is repeated, 0: words one by one), 2 bits that choose one of the four sizes, that many bits for its
length − 1, and the word or words.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from repri.runtime.errors import RepriError
from repri.runtime.limits import check_cost

__all__ = ["decode_brush", "encode_brush"]


def decode_brush(code: list[int], height: int, width: int) -> np.ndarray:
    """Decode a brush.

    Args:
        code: The bytes of its RLE.
        height: Height of the image.
        width: Width of the image.

    Returns:
        bool [H, W]: the pixels whose alpha is not 0.
    """
    if not all(type(byte) is int and 0 <= byte < 256 for byte in code):
        raise RepriError("its RLE holds values that are no bytes")
    reader = _Bits(bytes(code))
    total, word = reader.take(32), reader.take(5) + 1
    sizes = [reader.take(4) + 1 for _ in range(4)]
    if total != height * width * 4:
        raise RepriError(f"its RLE has {total} values, the image {height * width * 4}")
    alpha = np.zeros(height * width, bool)
    at = runs = 0
    while at < total:
        repeated = reader.take(1)
        end = at + 1 + reader.take(sizes[reader.take(2)])
        if end > total:
            raise RepriError("its RLE has a run beyond the image")
        first, last = -(-(at - 3) // 4), -(-(end - 3) // 4)  # the pixels whose alpha, the fourth value, is in the run
        if repeated:
            alpha[first:last] = reader.take(word) > 0
        else:
            alpha[first:last] = reader.words(end - at, word)[4 * first + 3 - at :: 4]
        at, runs = end, runs + 1
        if runs % 65536 == 0:
            check_cost("REPRI_MAX_RUNS", runs, "its RLE")
    check_cost("REPRI_MAX_RUNS", runs, "its RLE")
    return alpha.reshape(height, width)


class _Bits:
    """Reads numbers of some bits, one after the other."""

    def __init__(self, content: bytes):
        self.content, self.at, self.end = content, 0, 8 * len(content)

    def take(self, count: int) -> int:
        """The number in the next bits, at most 32."""
        start, self.at = self.at, self.at + count
        if self.at > self.end:
            raise RepriError("its RLE breaks off")
        window = int.from_bytes(self.content[start >> 3 : (start >> 3) + 5].ljust(5, b"\0"), "big")
        return window >> 40 - (start & 7) - count & (1 << count) - 1

    def words(self, count: int, size: int) -> np.ndarray:
        """Whether each of the next words of some bits is above 0."""
        start, self.at = self.at, self.at + count * size
        if self.at > self.end:
            raise RepriError("its RLE breaks off")
        part = np.frombuffer(self.content, np.uint8, (self.at + 7 >> 3) - (start >> 3), start >> 3)
        bits = np.unpackbits(part)[start & 7 :][: count * size]
        return np.any(bits.reshape(count, size), 1)


def encode_brush(region: np.ndarray) -> list[int]:
    """Encode a region as a brush.

    Args:
        region: bool [H, W].

    Returns:
        The bytes of its RLE, as repeated words only.

    Example:
        >>> region = np.array([[0, 1, 1], [0, 1, 0]], bool)
        >>> np.array_equal(decode_brush(encode_brush(region), 2, 3), region)
        True
    """
    sizes = (4, 8, 12, 16)
    text = [f"{region.size * 4:032b}", f"{7:05b}", *(f"{size - 1:04b}" for size in sizes)]
    flat = region.ravel()
    edges = np.concatenate([[0], np.nonzero(np.diff(flat))[0] + 1, [flat.size]])
    check_cost("REPRI_MAX_RUNS", len(edges) - 1, "a region")
    for start, end in pairwise(edges):
        length, word = int(end - start) * 4, "11111111" if flat[start] else "00000000"
        while length:
            run = min(length, 1 << 16)
            which = next(k for k, size in enumerate(sizes) if run <= 1 << size)
            text.append(f"1{which:02b}{run - 1:0{sizes[which]}b}{word}")
            length -= run
    bits = np.frombuffer("".join(text).encode(), np.uint8) - ord("0")
    return np.packbits(bits).tolist()
