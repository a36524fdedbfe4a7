"""The sums of a gradient step: plain torch, and a compiled kernel."""
