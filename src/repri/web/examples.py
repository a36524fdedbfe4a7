"""Images to try the page with."""

from __future__ import annotations

from repri.data.datasets.examples import EXAMPLES

from .project import Project
from .record import png

__all__ = ["add_examples"]


def add_examples(project: Project) -> int:
    """Add the photographs that come with the package, each once; returns their number."""
    added: dict[bytes, str] = {}
    for example in EXAMPLES.values():
        for item in (*example.support(), *example.queries()):
            name = f"{example.name} {item.name}.png"
            if added.setdefault(item.image.tobytes(), name) == name:
                project.add(name, png(item.image))
    return len(added)
