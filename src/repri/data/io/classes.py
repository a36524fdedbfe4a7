"""Names and ids of classes."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from repri.runtime.errors import RepriError
from repri.runtime.reading import short

__all__ = ["COCO", "COCO_NAMES", "PASCAL", "among", "class_name", "number_classes"]

_PASCAL = (
    "aeroplane bicycle bird boat bottle bus car cat chair cow "
    "diningtable dog horse motorbike person pottedplant sheep sofa train tvmonitor"
)
_COCO = (
    "person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,"
    "fire hydrant,stop sign,parking meter,bench,bird,cat,dog,horse,sheep,cow,"
    "elephant,bear,zebra,giraffe,backpack,umbrella,handbag,tie,suitcase,frisbee,"
    "skis,snowboard,sports ball,kite,baseball bat,baseball glove,skateboard,surfboard,tennis racket,bottle,"
    "wine glass,cup,fork,knife,spoon,bowl,banana,apple,sandwich,orange,"
    "broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,potted plant,bed,"
    "dining table,toilet,tv,laptop,mouse,remote,keyboard,cell phone,microwave,oven,"
    "toaster,sink,refrigerator,book,clock,vase,scissors,teddy bear,hair drier,toothbrush"
)
PASCAL = tuple(_PASCAL.split())
"""The 20 classes of PASCAL VOC, in the order of their ids."""
COCO = tuple(_COCO.split(","))
"""The 80 classes of COCO, in the order of their ids."""
COCO_NAMES = {
    "aeroplane": "airplane",
    "motorbike": "motorcycle",
    "sofa": "couch",
    "pottedplant": "potted plant",
    "diningtable": "dining table",
    "tvmonitor": "tv",
}
"""Name in VOC → name in COCO, for the classes whose names differ."""


def class_name(text: str) -> str:
    """Check the name of a class; this is the one rule for all formats, in and out.

    Blanks around a name do not count. A name has at least one character that is seen. It has no line breaks or other
    control characters, because files have one name on each line, and none that turn the direction of the text, because
    such a name is read as another one.

    Args:
        text: The name as somebody wrote it.

    Returns:
        The name.

    Example:
        >>> class_name(" cat ")
        'cat'
        >>> class_name("cat\\ndog")
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: 'cat\\ndog' cannot be the name of a class: it holds a control character
    """
    name = text.strip()
    if not name:
        raise RepriError(f"{short(text)} cannot be the name of a class: it is empty")
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name):
        raise RepriError(f"{short(name)} cannot be the name of a class: it holds a control character")
    if TURNS & set(name):
        raise RepriError(f"{name!a} cannot be the name of a class: it holds a character that turns the text around")
    if all(unicodedata.category(character) in ("Cf", "Zs", "Mn") for character in name):
        raise RepriError(f"{name!a} cannot be the name of a class: nothing of it can be seen")
    if len(name) > LONGEST_NAME:
        raise RepriError(f"{short(name)} cannot be the name of a class: it has more than {LONGEST_NAME} characters")
    return name


LONGEST_NAME = 200
"""Characters of a class name."""
TURNS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction in which a text is read, whatever its script."""
LAST_ID = 65535
"""Largest class id that a mask can hold."""


def number_classes(names: Sequence[str]) -> dict[int, str]:
    """Give each class an id, from 1 on.

    The id 255 always means "ignored" and is never a class: the 255th class has the id 256.

    Args:
        names: Names of the classes in the order of their ids.

    Returns:
        Id → name.

    Example:
        >>> number_classes(["cat", "dog"])
        {1: 'cat', 2: 'dog'}
        >>> list(number_classes(["x"] * 256))[253:]
        [254, 256, 257]
    """
    if len(names) >= LAST_ID:
        raise RepriError(f"there are {len(names):,} classes, and masks can hold {LAST_ID - 1:,}: use fewer of them")
    return {number if number < 255 else number + 1: name for number, name in enumerate(names, 1)}


def among(names: Iterable[str], others: Iterable[str]) -> list[str]:
    """Select the classes that are among other classes, where names of VOC and COCO mean the same classes.

    Args:
        names: Names of classes, as VOC or COCO spells them.
        others: Names of the other classes, spelled either way.

    Returns:
        Those of ``names`` that also occur in ``others``.

    Example:
        >>> among(["sofa", "cat"], ["couch", "dog"])
        ['sofa']
    """
    known = {COCO_NAMES.get(name, name) for name in others}
    return [name for name in names if COCO_NAMES.get(name, name) in known]
