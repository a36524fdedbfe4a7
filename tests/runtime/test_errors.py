"""The error of a user's mistake."""

import pytest

from repri import RepriError
from repri.runtime.errors import MissingExtraError


def test_a_mistake_is_a_value_error():
    """So that code which catches ValueError goes on working."""
    assert issubclass(RepriError, ValueError)
    with pytest.raises(ValueError, match="size must be at least 8 pixels, got 3"):
        raise RepriError("size must be at least 8 pixels, got 3")


def test_a_missing_extra_is_an_import_error_too():
    with pytest.raises(ImportError, match=r"pip install 'repri\[plot\]'"):
        raise MissingExtraError("The demo draws with matplotlib: pip install 'repri[plot]'.")
    assert issubclass(MissingExtraError, RepriError)


def test_a_message_fits_a_screen():
    assert str(RepriError("size must be 8")) == "size must be 8"
    assert len(str(RepriError("x" * 100_000))) < 1700
