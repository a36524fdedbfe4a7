"""Add a feature extractor of your own and load it by its name.

An extractor turns images [B, 3, H, W] into features [B, C, h, w]. Registered under a name, it works wherever an
extractor is named: ``repri.load_extractor``, ``Segmenter``, and the commands of an installed package with an entry
point of the group ``repri.extractors``.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from repri import FeatureExtractor, evaluate, load_extractor, open_dataset, register_extractor, sample_tasks
from repri.features import InputRule


@register_extractor("colours", "mean and spread of the colours in tiles")
class Colours(FeatureExtractor):
    name, channels = "colours", 6

    def __init__(self, stride: int = 8):  # an option: load_extractor("colours", stride=4)
        self.stride = stride  # pixels from one cell to the next
        self.rule = InputRule(192, stride)  # long side that it wants, and the multiple of its sides

    def _forward(self, images: Tensor) -> Tensor:
        mean = F.avg_pool2d(images, self.stride)
        spread = F.avg_pool2d(images**2, self.stride) - mean**2
        return torch.cat([mean - 0.5, 4 * spread.clamp_min(0).sqrt()], 1)

    @property
    def fingerprint(self) -> str:  # changes whenever the features do: stored features depend on it
        return f"colours 1, stride {self.stride}"


if __name__ == "__main__":
    dataset = open_dataset("scenes")
    tasks = sample_tasks(dataset, dataset.novel(0), shots=1, tasks=10, runs=1)
    for name in ("colours", "filters"):
        print(f"{name:8} mIoU {evaluate(dataset, tasks, load_extractor(name)).scores().miou:.1f}")
