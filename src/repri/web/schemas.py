"""What requests hold and what answers hold, as OpenAPI describes them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field, model_validator

from .export import Format
from .marks import Coordinate
from .paper import Loss
from .settings import ProjectSettings

__all__ = [
    "About",
    "AcceptRequest",
    "ExportRequest",
    "ImageEntry",
    "ImageId",
    "NewProject",
    "Problem",
    "ProjectAnswer",
    "ProjectId",
    "RegionRequest",
    "Result",
    "Solution",
    "SolveRequest",
    "WatchRequest",
]

ProjectId = Annotated[str, Path(pattern="^(folder|[0-9a-f]{32})$", description="folder, or the id of a new project")]
ImageId = Annotated[str, Path(pattern="^[0-9a-f]{16}$", description="id of an image")]
Id = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]


class Strict(BaseModel):
    """A request with an unknown field is refused."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Answer(BaseModel):
    """What the server answers; the descriptions of fields are part of the API's."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Problem(Answer):
    """Why a request was refused, in one sentence."""

    detail: str


class NewProject(Strict):
    """A project to create."""

    name: Annotated[str, Field(max_length=64)] = ""
    examples: bool = False
    """Whether it begins with example images."""


class Result(Answer):
    """Figures of a result; the maps are files of their own."""

    version: int
    stage: str
    confidence: float
    proportions: dict[str, float]
    presences: dict[str, float]
    areas: dict[str, float]
    milliseconds: float


class ResultWithMask(Result):
    """A result with its masks."""

    rle: dict[str, dict[str, object]]
    """Class → COCO's run lengths of its mask: size and counts."""


class ImageEntry(Answer):
    """One image of a project."""

    id: str
    name: str
    annotated: bool
    accepted: bool
    result: Result | None = None
    problem: str | None = None
    """Why the image cannot be used."""


class Progress(Answer):
    """How far the work is."""

    images: int
    seen: int
    """Images whose features are there."""
    segmented: int
    version: int
    stage: str | None
    choice: str | None
    """What the support has chosen, in one line."""


class ProjectAnswer(Answer):
    """A project."""

    id: str
    in_folder: bool
    """Whether results can be written into the folder of the images."""
    settings: ProjectSettings
    images: list[ImageEntry]
    progress: Progress


class WatchRequest(Strict):
    """What a person looks at, which is segmented first."""

    current: Id | None = None
    visible: Annotated[list[Id], Field(max_length=500)] = []


class RegionRequest(Strict):
    """Where an object is: clicks on it, or two opposite corners of a box around it; coordinates as those of marks."""

    label: Annotated[int, Field(ge=0, le=255)] = 1
    points: Annotated[list[tuple[Coordinate, Coordinate]], Field(max_length=100)] = []
    box: tuple[tuple[Coordinate, Coordinate], tuple[Coordinate, Coordinate]] | None = None

    @model_validator(mode="after")
    def _has_a_place(self) -> RegionRequest:
        if not self.points and self.box is None:
            raise ValueError("a region needs a point or a box")
        return self


class SolveRequest(Strict):
    """One image with a part of the objective, or with a proportion that is told."""

    label: Annotated[int, Field(ge=1, le=9)] = 1
    loss: Loss = "full"
    proportion: Annotated[float | None, Field(gt=0, lt=1)] = None


class Solution(Result):
    """The answer to it."""

    loss: Loss
    told: float | None
    layers: str
    """PNG in base64: labels in red, the probability of the class in green."""
    steps: dict[str, list[float]]
    """Terms of the loss, p̂ and π at every step."""


class AcceptRequest(Strict):
    """Images whose masks are accepted, by name or by confidence."""

    images: Annotated[list[Id], Field(max_length=20_000)] = []
    confidence: Annotated[float | None, Field(ge=0, le=1)] = None
    """All images whose confidence is at least this high."""
    accepted: bool = True
    """False takes it back."""


class ExportRequest(Strict):
    """What is written into the folder."""

    formats: Annotated[list[Format], Field(min_length=1, max_length=6)] = ["masks"]
    accepted_only: bool = False


class About(Answer):
    """The server."""

    version: str
    extractor: str
    folder: bool
    """Whether the server was started with a folder."""
    regions: str | None
    """Why there is no magic wand; None: there is one."""
    latency: dict[str, float]
    """Median and 95th percentile of the milliseconds from a stroke to its result on the current image."""
