"""Features in the few directions of their whitening."""

import pytest
import torch
import torch.nn.functional as F

from repri.models import load_extractor
from repri.models.extractors.joint import JointExtractor
from repri.models.extractors.projected import ProjectedExtractor
from repri.runtime.errors import RepriError
from tests.models.grids import patches


@pytest.mark.parametrize("name", ["twin", "default"])
def test_features_are_the_projection_of_those_below(name):
    under = load_extractor(name)
    extractor = ProjectedExtractor(under)
    images = torch.rand(2, 3, 65, 97, generator=torch.Generator().manual_seed(0))
    below, features = under.extract(images), extractor.extract(images)
    assert features.shape == (2, extractor.channels, *extractor.cells((65, 97))) == (2, 64, 5, 7)
    torch.testing.assert_close(features[1], under.whitening.project(below[1]))
    assert features.norm(dim=1).std() > 0.01  # not of length 1
    torch.testing.assert_close(extractor.whitening(features[0]), under.whitening(below[0]))
    torch.testing.assert_close(extractor.whitening(features[0]), F.normalize(features[0], dim=0))
    assert (extractor.stride, extractor.on_pixels, extractor.rule) == (under.stride, under.on_pixels, under.rule)
    assert (extractor.seen, extractor.background, extractor.name) == (under.seen, None, f"{name}, projected")
    assert extractor.grid((65, 97)) == under.grid((65, 97))
    assert len({under.fingerprint, extractor.fingerprint, extractor.identity, under.identity}) == 4
    whole = JointExtractor([extractor, patches(4, True)]).extract(images)
    assert torch.equal(whole[:, :64], features)


def test_extractors_without_a_whitening_are_refused():
    with pytest.raises(RepriError, match="p4 does not know how its features spread, so they cannot be projected"):
        ProjectedExtractor(patches(4, True))
