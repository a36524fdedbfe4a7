"""Opening by name, by file and under a protocol."""

import subprocess
import sys

import pytest

from repri.data.datasets.open import open_dataset, splits_of
from repri.protocols import get_protocol
from repri.runtime.errors import RepriError
from tests.data.make import tiny_pascal


def test_a_name_with_its_root(tmp_path):
    root = tiny_pascal(tmp_path, per_class=1)
    assert len(open_dataset("pascal", str(root))) == len(open_dataset("pascal", root, "train")) == 20
    assert splits_of("coco") == ("train", "val")


def test_names_that_mean_nothing(tmp_path):
    with pytest.raises(RepriError, match="coco needs --root, the folder that `repri data get coco"):
        open_dataset("coco")
    with pytest.raises(RepriError, match="no data set named 'passcal'"):
        open_dataset("passcal", tmp_path)
    with pytest.raises(RepriError, match="no protocol named 'pure'"):
        open_dataset("pascal", tmp_path, protocol="pure")


def test_the_protocol_chooses_the_masks_of_coco(tmp_path):
    for protocol, folder in (("clean", "lists/coco/val.txt"), ("official", "lists/coco-official/val.txt")):
        for spelled in (protocol, get_protocol(protocol)):
            with pytest.raises(RepriError, match=f"{folder} is missing"):
                open_dataset("coco", tmp_path, protocol=spelled)


def test_opening_does_not_import_torch():
    code = "import sys, repri.data as d; [getattr(d, n) for n in d.__all__]; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
