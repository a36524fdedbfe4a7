"""Result files as a Markdown table: one row per method, one column per number of shots.

python benchmarks/tables.py results/dinov2-clean-*.json
python benchmarks/tables.py --small FOLDER FILES…       also writes copies without the counts of single tasks
python benchmarks/tables.py --folds ALL SOME…           each fold from the last file that has it, and the mean
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from repri.evaluation.results import load_result, save_result

ORDER = ("prototype", "ce", "ce_h", "repri", "repri-oracle")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", type=Path)
    parser.add_argument("--folds", action="store_true")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    if options.folds:
        print(_by_fold([load_result(path) for path in options.files]))
        return
    rows: dict[str, dict[int, str]] = {}
    for path in options.files:
        result = load_result(path)
        if options.small is not None and options.small.resolve() == path.parent.resolve():
            parser.error(f"--small {options.small} would write over {path}: give another folder")
        if options.small is not None:
            save_result({key: value for key, value in result.items() if key != "tasks"}, options.small / path.name)
        name = re.sub(r"-\d+shot$", "", path.stem)
        low, high = result["interval"]
        drawn = result["config"]["tasks"]
        runs, tasks = (drawn["runs"], drawn["tasks"]) if isinstance(drawn, dict) else (result["config"]["runs"], drawn)
        cell = f"{result['miou']:.1f} ± {(high - low) / 2:.1f}" + ("" if runs == 5 else f" ({runs}×{tasks})")
        if (error := result["proportion_error"]) and "oracle" not in result["method"]:
            cell += f", δ {error['initial']:.2f} → {error['final']:.2f}"
        rows.setdefault(name, {})[result["shots"]] = cell
    shots = sorted({k for row in rows.values() for k in row})
    print("| |" + "".join(f" {k}-shot |" for k in shots))
    print("|---|" + "---|" * len(shots))
    for name in sorted(rows, key=_place):
        print(f"| {name} |" + "".join(f" {rows[name].get(k, '')} |" for k in shots))


def _by_fold(results: list[dict]) -> str:
    """mIoU of each fold and their mean; the folds' tasks are independent, so half intervals add by their squares."""
    protocols = {(result["protocol"], result["method"], result["shots"]) for result in results}
    if len(protocols) > 1:
        raise SystemExit(f"the files have different protocols, methods or shots: {sorted(protocols)}")
    folds: dict[str, dict] = {}
    for result in results:
        folds |= result["per_fold"]
    means = [folds[fold]["miou"] for fold in sorted(folds)]
    halves = [(high - low) / 2 for low, high in (folds[fold]["interval"] for fold in sorted(folds))]
    mean, half = sum(means) / len(means), sum(h * h for h in halves) ** 0.5 / len(means)
    return f"{', '.join(f'{m:.1f}' for m in means)}; mean {mean:.1f} ± {half:.1f}"


def _place(name: str) -> tuple[str, int]:
    method = next((m for m in sorted(ORDER, key=len, reverse=True) if name.endswith(m)), "")
    return name.removesuffix(method), ORDER.index(method) if method else 0


if __name__ == "__main__":
    main()
