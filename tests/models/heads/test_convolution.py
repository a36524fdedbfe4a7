"""The convolutional head."""

import pytest
import torch

from repri.models.heads.convolution import Head
from repri.runtime.errors import RepriError


@pytest.mark.parametrize("kind", ["conv", "psp"])
@pytest.mark.parametrize("upsample", [1, 2])
def test_shapes(kind, upsample):
    head = Head(8, kind, 4, upsample=upsample).eval()
    assert head(torch.rand(2, 8, 6, 7)).shape == (2, 4, 6 * upsample, 7 * upsample)
    assert (head.out_channels, head.upsample) == (4, upsample)
    assert Head(**head.options).eval().state_dict().keys() == head.state_dict().keys()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "mlp"}, "The kind of a head is 'conv' or 'psp', got 'mlp'"),
        ({"kernel": 2}, "A head needs an odd kernel, .*got kernel=2"),
        ({"width": 0}, "a width and upsample of at least 1, got kernel=3, width=0"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(RepriError, match=message):
        Head(8, **options)
