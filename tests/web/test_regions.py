"""The magic wand."""

from importlib.util import find_spec

from repri.web.regions import why_no_regions


def test_the_page_says_why_there_is_no_magic_wand():
    sentence = why_no_regions()
    assert sentence is not None
    assert "magic wand" in sentence
    assert ("this version" in sentence) == (find_spec("repri.regions") is None)
