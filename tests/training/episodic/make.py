"""Settings of small runs: a narrow panet on fixed filters, on generated scenes."""

__all__ = ["EPISODIC", "LONGER"]

EPISODIC = {
    "network.name": "filters",
    "data.size": 64,
    "method.name": "panet",
    "method.settings": {"width": 16},
    "episodes.number": 8,
    "optimiser.epochs": 2,
    "optimiser.batch": 4,
    "optimiser.lr": 0.003,
    "optimiser.schedule": "poly",
    "validation.selection_tasks": 8,
}
LONGER = {"episodes.number": 40, "optimiser.epochs": 3, "validation.selection_tasks": 24}
"""Changes to the settings of a run that has something to show."""
