"""Where the tests find real data: the folder named by REPRI_TEST_DATA, or they skip."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

# Timing on shared machines is noise, and every run must be reproducible.
settings.register_profile("repri", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("repri")


@pytest.fixture(scope="session")
def test_data() -> Path:
    folder = os.environ.get("REPRI_TEST_DATA")
    if not folder:
        pytest.skip("REPRI_TEST_DATA is not set: no real data to test on")
    return Path(folder)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)
