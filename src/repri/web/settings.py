"""Settings of a project, which are kept with it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

__all__ = ["COLOURS", "ClassSettings", "ProjectSettings"]

COLOURS = ("#e5484d", "#0091ff", "#30a46c", "#f5a524", "#8e4ec6", "#00a2c7", "#d6409f", "#978365", "#99d52a")
"""Colours of the first classes; they can be told apart by people with a colour weakness in the order of their use."""


class ClassSettings(BaseModel):
    """One class."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    name: Annotated[str, Field(min_length=1, max_length=64)]
    colour: Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$")] = COLOURS[0]

    @field_validator("name")
    @classmethod
    def _can_be_shown(cls, name: str) -> str:
        name = name.strip()
        if not name or not name.isprintable():
            raise ValueError("the name of a class is a line of text")
        return name


class ProjectSettings(BaseModel):
    """What a person can set."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    name: Annotated[str, Field(max_length=64)] = "images"
    classes: Annotated[list[ClassSettings], Field(min_length=1, max_length=9)] = [ClassSettings(name="object")]
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Probability from which on a pixel belongs to a class."""

    @field_validator("classes")
    @classmethod
    def _different(cls, classes: list[ClassSettings]) -> list[ClassSettings]:
        if len({item.name for item in classes}) < len(classes):
            raise ValueError("the classes must have different names")
        return classes
