"""What the tests of the segmenter measure with."""

__all__ = ["iou"]


def iou(mask, truth):
    """Intersection over union of class 1."""
    inside = (mask == 1) & (truth == 1)
    return inside.sum() / ((mask == 1) | (truth == 1)).sum()
