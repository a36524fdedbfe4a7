"""Damaged files of every kind: the parser takes them or says one sentence."""

import shutil
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repri.runtime.errors import RepriError

from .parsers import PARSERS


@pytest.mark.parametrize("name", PARSERS)
def test_damaged_files(name, tmp_path):
    parser = PARSERS[name]

    @settings(max_examples=8, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data):
        content = data.draw(parser.inputs)
        folder = tmp_path / "x"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        with suppress(RepriError):
            parser.read(folder, content)

    check()
