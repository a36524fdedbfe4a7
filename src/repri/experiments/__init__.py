"""The paper's tables and figures: its numbers, what to run, how to draw it."""
