"""Add a method of your own and evaluate it beside RePRI.

A method turns the features of a support and a query into logits. Registered under a name, it works in
``repri.evaluate``, in ``Segmenter(method=...)`` and, from an installed package with an entry point of the group
``repri.methods``, in ``repri evaluate --method``.
"""

import torch.nn.functional as F

from repri import evaluate, load_extractor, open_dataset, sample_tasks
from repri.methods import Episode, Method, Prediction, register_method


@register_method("nearest-cell", "a cell has the label of the most similar support cell")
class NearestCell(Method):
    name = "nearest-cell"

    def __init__(self, temperature: float = 20.0):  # a setting: --set temperature=10
        self.temperature = temperature

    def predict(self, episode: Episode) -> Prediction:
        features, labels = episode.support.stacked  # [K, C, h, w] and [K, h, w]
        cells = F.normalize(features.float(), dim=1).movedim(1, 0).flatten(1)  # [C, M]
        query = F.normalize(episode.query.float(), dim=0)  # [C, h, w]
        cosines = (query.flatten(1).T @ cells).unflatten(0, query.shape[1:])  # [h, w, M]
        labels = labels.flatten()
        object_, ground = (labels > 0.5) & (labels != 255), labels <= 0.5
        nearest = cosines[..., object_].amax(-1) - cosines[..., ground].amax(-1)
        return Prediction(self.temperature * nearest)


if __name__ == "__main__":
    dataset, extractor = open_dataset("scenes"), load_extractor("filters")
    tasks = sample_tasks(dataset, dataset.novel(0), shots=1, tasks=10, runs=1)
    for method in ("nearest-cell", "repri"):
        print(f"{method:12} mIoU {evaluate(dataset, tasks, extractor, method).scores().miou:.1f}")
