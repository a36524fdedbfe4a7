"""The benchmarks, downloaded from their publishers and prepared."""
