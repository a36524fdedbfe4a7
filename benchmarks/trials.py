"""Tables of docs/own-images.md from results of ``repri try``: one row for each folder, one column for each method.

    repri try nuclei/ histology/ … --shots 1,5 --methods auto,default,forest --output trial/
    python benchmarks/trials.py trial/trial.json [more.json …]

A cell has the IoU in percent and its standard deviation over the draws of the support. The second table has the seconds
that a fit and 100 queries take, as multiples of the method ``default``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean

Key = tuple[str, int]
"""Method and number of shots."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    outcomes: dict[str, dict[Key, dict]] = {}
    for file in parser.parse_args().files:
        for folder in json.loads(file.read_text())["folders"]:
            for outcome in folder["outcomes"]:
                outcomes.setdefault(folder["name"], {})[outcome["method"], outcome["shots"]] = outcome
    keys = list(dict.fromkeys(key for rows in outcomes.values() for key in rows))
    keys.sort(key=lambda key: key[1])
    show(keys, {name: {k: cell(o) for k, o in rows.items()} for name, rows in outcomes.items()} | means(outcomes, keys))
    timed = {name: {k: ratio(rows, k) for k in keys if ("default", k[1]) in rows} for name, rows in outcomes.items()}
    if any(timed.values()):
        print()
        show(keys, timed)


def cell(outcome: dict) -> str:
    spread = "" if outcome["std_draws"] is None else f" ± {100 * outcome['std_draws']:.0f}"
    return f"{100 * outcome['iou']:.1f}{spread}"


def means(outcomes: dict[str, dict[Key, dict]], keys: list[Key]) -> dict[str, dict[Key, str]]:
    """The mean over the folders, where all of them have a figure."""
    complete = [key for key in keys if all(key in rows for rows in outcomes.values())]
    return {"mean": {k: f"**{100 * mean(rows[k]['iou'] for rows in outcomes.values()):.1f}**" for k in complete}}


def ratio(rows: dict[Key, dict], key: Key) -> str:
    """Time of a fit and 100 queries, by that of the method ``default``."""
    ours, theirs = (rows[k]["fit_s"] + 100 * rows[k]["query_s"] for k in (key, ("default", key[1])))
    return f"{ours / theirs:.1f}×"


def show(keys: list[Key], rows: dict[str, dict[Key, str]]) -> None:
    print("| | " + " | ".join(f"{method}, {shots} shot{'s' * (shots > 1)}" for method, shots in keys) + " |")
    print("|---" * (1 + len(keys)) + "|")
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells.get(key, "") for key in keys) + " |")


if __name__ == "__main__":
    main()
