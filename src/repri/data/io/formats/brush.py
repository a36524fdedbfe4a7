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
    bits = np.unpackbits(np.array(code, np.uint8))
    at = 0

    def take(count: int) -> int:
        nonlocal at
        if at + count > len(bits):
            raise RepriError("its RLE breaks off")
        value = int("".join(map(str, bits[at : at + count])), 2)
        at += count
        return value

    total, word = take(32), take(5) + 1
    sizes = [take(4) + 1 for _ in range(4)]
    if total != height * width * 4:
        raise RepriError(f"its RLE has {total} values, the image {height * width * 4}")
    values = np.zeros(total, np.uint32)
    i = 0
    while i < total:
        repeated = take(1)
        end = i + 1 + take(sizes[take(2)])
        if end > total:
            raise RepriError("its RLE has a run beyond the image")
        if repeated:
            values[i:end] = take(word)
        else:
            values[i:end] = [take(word) for _ in range(end - i)]
        i = end
    return values.reshape(height, width, 4)[..., 3] > 0


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
    for start, end in pairwise(edges):
        length, word = int(end - start) * 4, "11111111" if flat[start] else "00000000"
        while length:
            run = min(length, 1 << 16)
            which = next(k for k, size in enumerate(sizes) if run <= 1 << size)
            text.append(f"1{which:02b}{run - 1:0{sizes[which]}b}{word}")
            length -= run
    bits = np.frombuffer("".join(text).encode(), np.uint8) - ord("0")
    return np.packbits(bits).tolist()
