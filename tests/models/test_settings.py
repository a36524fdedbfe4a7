"""Settings of an extractor."""

import subprocess
import sys
from dataclasses import fields

import pytest

from repri.models.settings import ExtractorSettings, PartSettings
from repri.runtime.settings import field_docs, parse


@pytest.mark.parametrize("kind", [ExtractorSettings, PartSettings])
def test_every_field_has_a_docstring(kind):
    assert list(field_docs(kind)) == [field.name for field in fields(kind)]


def test_values_are_parsed():
    settings = parse(ExtractorSettings, {"name": "resnet50", "layers": ["layer3", -1], "combine": "mean"}, "x.yaml")
    assert settings == ExtractorSettings("resnet50", layers=("layer3", -1), combine="mean")


def test_torch_is_not_imported():
    code = "import sys, repri.models.settings, repri.models.registry; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
