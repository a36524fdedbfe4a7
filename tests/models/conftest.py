"""Weights files that several tests read, written once."""

import pytest
import torch

from repri.models.networks.build import build_backbone
from repri.models.networks.pspnet import PSPNet
from tests.models.layouts import to_authors_names, to_resnet_names


@pytest.fixture(scope="session")
def plain_resnet(tmp_path_factory):
    """An untrained ResNet-50 with a plain stem, in the layout of torchvision."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("plain") / "w.pth"
    torch.save(to_resnet_names(build_backbone("resnet50", stem="plain").state_dict()), path)
    return path


@pytest.fixture(scope="session")
def pspnet():
    """A narrow PSPNet with 16 classes."""
    torch.manual_seed(0)
    return PSPNet(build_backbone("resnet50"), classes=16, width=8).eval()


@pytest.fixture(scope="session")
def authors_file(pspnet, tmp_path_factory):
    """The same in the layout of the authors."""
    path = tmp_path_factory.mktemp("authors") / "best.pth"
    torch.save({"epoch": 100, "state_dict": to_authors_names(pspnet.state_dict()), "optimizer": {"lr": 0.1}}, path)
    return path
