"""Limits of what one input may cost."""

import pytest

from repri.runtime.errors import RepriError
from repri.runtime.limits import LIMITS, check_cost, limit


def test_every_limit_can_be_raised(monkeypatch):
    for name, (default, unit) in LIMITS.items():
        with pytest.raises(RepriError, match=rf"^it (has|takes) .* {unit}, the limit is .*: set {name} to raise it"):
            check_cost(name, 2 * default, "it")
        monkeypatch.setenv(name, str(3 * default))
        check_cost(name, 2 * default, "it")


@pytest.mark.parametrize("text", ["much", "-1", "0", "nan"])
def test_limits_that_are_no_numbers(monkeypatch, text):
    monkeypatch.setenv("REPRI_MAX_PIXELS", text)
    with pytest.raises(RepriError, match=f"REPRI_MAX_PIXELS must be a number above 0 .pixels., got '{text}'"):
        limit("REPRI_MAX_PIXELS")
