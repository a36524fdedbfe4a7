"""The items: tables and figures of the paper, and studies of our own, as recipes."""

from __future__ import annotations

import itertools
from typing import Any

from repri.runtime.errors import RepriError

from .recipe import Data, Item, Kind, Sweep, Way

__all__ = ["ITEMS", "find_items"]

CE, CE_H, REPRI = (
    Way("CE", "ce"),
    Way("CE + H", "ce_h"),
    Way("CE + H + KL", "repri"),
)
ORACLE = Way("Oracle-RePRI", "repri-oracle")
COMPARED = (
    Way("Prototype", "prototype"),
    Way("PANet", "panet"),
    Way("PPNet", "ppnet"),
    Way("PMM", "pmm"),
    Way("RPMM", "rpmm"),
    Way("PFENet", "pfenet"),
    Way("INSID3", "insid3"),
    Way("RePRI", "repri"),
)
"""The compared methods; those that are not registered, or that need a head that is not given, are left out."""
SHIFT: Data = "coco-pascal"
T_PI = Sweep(
    "t_pi",
    "t_π: step at which π is estimated again",
    full=tuple(range(1, 51)),
    here=(2, 5, 10, 15, 20, 30, 40, 50),
    quick=(2, 10, 50),
)
DELTA = Sweep(
    "delta",
    "δ: relative error of the proportion that the oracle is told",
    full=tuple(round(-0.9 + 0.1 * i, 1) for i in range(30)),
    here=(-0.5, -0.3, -0.1, 0.0, 0.1, 0.3, 0.5, 1.0),
    quick=(-0.5, 0.0, 0.5),
)
NEVER = "With the authors' schedule π is never estimated again at t_π = 1, and at t_π = 50 it is of no effect."
RULES = (
    Way("novel pixels without a label (255)", "panet", variant="ignore"),
    Way("novel pixels as background", "panet", variant="background"),
    Way("images with novel classes dropped", "panet", variant="drop"),
    Way("epoch chosen on novel classes", "panet", variant="novel"),
)


def _classifiers() -> tuple[Way, ...]:
    """The authors' classifier with other step sizes and temperatures; then with a background, also re-weighted."""
    background: dict[str, Any] = {"background": "both", "bias_over": "none"}
    settings: list[dict[str, Any]] = [
        {"lr": lr, "temperature": tau} for lr, tau in itertools.product((0.005, 0.025, 0.1), (10, 20))
    ]
    settings += [
        {"background": "support"},
        background | {"background": "support"},
        background,
        background | {"steps": 0},
    ]
    weights = itertools.product((1.0, 2.5, 5.0, 10.0), (0.0025, 0.005, 0.01))
    settings += [background | {"transduction": weight, "lr": lr} for weight, lr in weights]
    best = background | {"transduction": 5.0, "lr": 0.005}
    others = ({"steps": 20}, {"steps": 100}, {"temperature": 10}, {"temperature": 30}, {"t_pi": None})
    settings += [best | other for other in (*others, {"t_pi": (10, 20, 30, 40)}, {"kl_increase": 5.0})]
    return tuple(_with("original", each) for each in settings)


def _scales() -> tuple[Way, ...]:
    """``clean`` with other temperatures and backgrounds."""
    pairs = itertools.product((20, 40, 60, 100), ("both", "support"))
    return tuple(_with(None, {"temperature": tau, "background": background}) for tau, background in pairs)


def _biases() -> tuple[Way, ...]:
    """A discriminant's classifier from other biases on. K shots start from start_bias + shots_bias·(1 − 1/K): the best
    one of each number of shots gives both."""
    starts = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
    return tuple(_with("discriminant", {"shots_bias": 0.0, "start_bias": bias}) for bias in starts)


def _with(preset: str | None, settings: dict[str, Any]) -> Way:
    name = " ".join(f"{key}={value}" for key, value in settings.items())
    return Way(f"{preset} {name}" if preset else name, "repri", tuple(settings.items()), preset)


def _layers() -> tuple[Way, ...]:
    """A transformer's layers and input size."""
    options: dict[str, dict[str, Any]] = {
        "last layer": {},
        "560 pixels": {"size": 560},
        "last layer but one": {"layers": (-2,)},
        "last 2 layers": {"layers": (-2, -1)},
        "last 3 layers": {"layers": (-3, -2, -1)},
        "last 4 layers": {"layers": (-4, -3, -2, -1)},
    }
    return tuple(
        Way(f"{name}, {method}", method, options=tuple(values.items()))
        for name, values in options.items()
        for method in ("prototype", "repri")
    )


def _compared(
    name: str,
    alias: str,
    title: str,
    data: Data,
    shots: tuple[int, ...],
    paper: str | None = None,
    kind: Kind = "folds",
) -> Item:
    """A table of all methods and the oracle."""
    return Item(name, alias, title, kind, data, (*COMPARED, ORACLE), shots, paper=paper or name)


def _choice(name: str, title: str, ways: tuple[Way, ...]) -> Item:
    return Item(f"choose-{name}", name, title, "choice", "pascal", ways, (1, 5), split="train", seed=1)


_ITEMS = (
    _compared("table1", "pascal", "Results on PASCAL-5i", "pascal", (1, 5)),
    _compared("table2", "coco", "Results on COCO-20i", "coco", (1, 5)),
    _compared("table3", "shots", "1, 5 and 10 shots on PASCAL-5i", "pascal", (1, 5, 10), "table3-pascal", "shots"),
    _compared("table3-coco", "shots-coco", "1, 5 and 10 shots on COCO-20i", "coco", (1, 5, 10), kind="shots"),
    _compared("table4", "shift", "Models of COCO-20i on PASCAL VOC", SHIFT, (1, 5), kind="shots"),
    Item("table5", "ablation", "Terms of the objective", "folds", "pascal", (CE, CE_H, REPRI), (1, 5), paper="table5"),
    Item("table6", "speed", "Tasks per second", "speed", "pascal", COMPARED, (1, 5), folds=(0,), paper="table6"),
    _compared("table8", "shift-folds", "Models of COCO-20i on PASCAL VOC, by fold", SHIFT, (1, 5)),
    _compared("table9", "ten-shots", "Ten shots on PASCAL-5i", "pascal", (10,), "table9-pascal"),
    _compared("table9-coco", "ten-shots-coco", "Ten shots on COCO-20i", "coco", (10,)),
    Item(
        "figure1",
        "maps",
        "Probabilities by the terms of the objective",
        "maps",
        "pascal",
        (CE, CE_H, REPRI),
        (1,),
        (0,),
    ),
    Item(
        "figure2",
        "t_pi",
        "mIoU against t_π on PASCAL-5i",
        "curve",
        "pascal",
        (Way("RePRI", "repri"),),
        (1, 5),
        sweep=T_PI,
        here_folds=(0,),
        notes=(NEVER, "The paper plots this figure without a table of its values, and uses t_π = 10."),
    ),
    Item(
        "figure2-coco",
        "t_pi-coco",
        "mIoU against t_π on COCO-20i",
        "curve",
        "coco",
        (Way("RePRI", "repri"),),
        (1, 5),
        sweep=T_PI,
        here_folds=(0,),
        notes=(NEVER,),
    ),
    Item(
        "figure3a",
        "delta",
        "Relative error δ of the proportion, at the start and after 10 steps",
        "box",
        "pascal",
        (Way("RePRI", "repri"),),
        (1,),
        (0,),
        notes=("The paper names an average δ of about 0.7 after 10 steps, over 5000 tasks of fold 0.",),
    ),
    Item(
        "figure3b",
        "oracle",
        "mIoU of an oracle that is told a wrong proportion",
        "curve",
        "pascal",
        (Way("Oracle-RePRI", "repri-oracle"),),
        (1,),
        (0,),
        sweep=DELTA,
        notes=("The paper reads 70 % mIoU and more for δ between −0.1 and 0.3 from its figure.",),
    ),
    Item(
        "figure4", "panels", "Masks before the first step and after the last", "panels", "pascal", (REPRI,), (1,), (0,)
    ),
    Item(
        "rules",
        "price-of-rules",
        "What it costs to break the rules of training",
        "folds",
        "pascal",
        RULES,
        (1, 5),
        notes=("PANet. Each row needs networks of its own, which --heads names by {variant} (docs/reproduce.md).",),
    ),
    Item(
        "methods",
        "compared",
        "All methods on the same features and tasks",
        "shots",
        "pascal",
        (*COMPARED, Way("RePRI, the authors' classifier", "repri", preset="original"), ORACLE),
        (1, 5, 10),
        notes=("Features are frozen for every method. --heads names what was trained with episodes.",),
    ),
    Item("layers", "layers", "Layers and input size of a transformer", "list", "pascal", _layers(), (1,)),
    _choice("classifier", "Classifiers, as base classes choose them", _classifiers()),
    _choice("scale", "Temperature and background, as base classes choose them", _scales()),
    _choice("bias", "Start of the bias, as base classes choose it", _biases()),
)
ITEMS = {item.name: item for item in _ITEMS}
"""Name → item."""


def find_items(names: list[str]) -> list[Item]:
    """The items of names or second names; ``all`` means those of the paper, the methods and the rules.

    Args:
        names: What was asked for.

    Returns:
        The items in the order of the paper, each once.

    Example:
        >>> [item.name for item in find_items(["ablation", "table1"])]
        ['table1', 'table5']
    """
    aliases = {item.alias: item.name for item in ITEMS.values()}
    wanted = set()
    for name in names:
        if name == "all":
            wanted |= {
                item.name
                for item in ITEMS.values()
                if item.paper or item.name.startswith("figure") or item.name in ("methods", "rules")
            }
        elif (known := aliases.get(name, name)) in ITEMS:
            wanted.add(known)
        else:
            from repri.runtime.settings import nearest

            raise RepriError(
                f"There is no item named {name!r}{nearest(name, [*ITEMS, *aliases])}: see repri reproduce list."
            )
    return [item for item in ITEMS.values() if item.name in wanted]
