"""§4: feature store, task runner, IoU, results."""
