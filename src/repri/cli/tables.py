"""Results as tables on the terminal."""

from __future__ import annotations

from typing import Any

__all__ = ["print_comparison", "print_result"]


def print_result(result: dict[str, Any]) -> None:
    """A table of the folds and their mean, then the classes and the time."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    table = Table(title=escape(_title(result)), title_justify="left")
    borders = "boundary_f" in result
    for name in ("", "mIoU", "95 % interval", "std of runs", "FB-IoU", *["border F"] * borders, "|δ| of π"):
        table.add_column(name, justify="left" if not name else "right")
    rows = [(f"fold {fold}", values) for fold, values in result["per_fold"].items()]
    for name, values in [*rows, ("mean", result)]:
        low, high = values["interval"]
        error = values["proportion_error"]
        delta = f"{error['initial']:.2f} → {error['final']:.2f}" if error else "-"
        cells = (
            f"{values['miou']:.1f}",
            f"{low:.1f} … {high:.1f}",
            f"{values['std_runs']:.2f}",
            f"{values['fb_iou']:.1f}",
            *[f"{values['boundary_f']:.1f}" for _ in range(borders)],
        )
        table.add_row(name, *cells, delta, end_section=name == rows[-1][0])
    console.print(table)
    per_class = sorted(result["per_class"].items(), key=lambda item: -item[1])
    listed = ", ".join(f"{name} {iou:.1f}" for name, iou in per_class)
    console.print(f"classes: {escape(listed)}", highlight=False)
    seen = [name for names in result.get("seen", {}).values() for name in names]
    if seen:
        console.print(
            f"[yellow]not novel to the extractor[/], which was trained with their labels: {escape(', '.join(seen))}"
        )
    timing = result["timing"]
    speed = f"tasks {timing['tasks_s']:.0f} s, {timing['tasks_per_s']:.0f}/s, {timing['peak_memory_gb']:.1f} GB"
    console.print(f"features {timing['extraction_s']:.0f} s, {speed}", highlight=False)


def _title(result: dict[str, Any]) -> str:
    """Method, shots, protocol, and the preset and refinement where they are said."""
    title = f"{result['method']}, {result['shots']}-shot, protocol {result['protocol']}"
    method = result["config"].get("method")
    preset = method.get("preset") if isinstance(method, dict) else None
    title += "" if preset in (None, result["protocol"]) else f", preset {preset}"
    refine = result["config"].get("refine", "none")
    return title if refine == "none" else f"{title}, refine {refine}"


def print_comparison(compared: list[Any]) -> None:
    """A table of results, each with its difference from the first."""
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for name in ("result", "method", "protocol", "shots", "mIoU", "95 % interval", "against the first"):
        left = name in ("result", "method", "protocol")
        table.add_column(name, justify="left" if left else "right", overflow="fold")  # a name's end tells most
    for row in compared:
        values = row.result
        low, high = values["interval"]
        difference = "" if row is compared[0] else "not paired"
        if row.difference is not None:
            difference = "{:+.1f} ({:+.1f} … {:+.1f})".format(*row.difference)
        cells = (
            values["method"],
            values["protocol"],
            str(values["shots"]),
            f"{values['miou']:.1f}",
            f"{low:.1f} … {high:.1f}",
        )
        table.add_row(row.path.stem, *cells, difference)
    Console(markup=False).print(table)  # names may hold brackets
