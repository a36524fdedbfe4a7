"""Bad input gets one sentence, whatever the backend."""

import pytest
import torch

from repri.inference import InferenceConfig, infer, native_status
from repri.runtime.errors import RepriError

from .make import config_of, make_tasks


def tasks(**kwargs):
    return dict(zip(("support", "support_masks", "query"), make_tasks(tasks=2, shots=2, **kwargs), strict=False))


def edit(name, change):
    def apply(t):
        t[name] = change(t[name])

    return apply


def set_value(name, value, index=(0, 0, 0, 0)):
    def apply(t):
        t[name] = t[name].clone()
        t[name][index] = value

    return apply


NOTHING = r"the support masks hold no foreground pixel \(value 1\): mark the object in one"
SOFT = r"the value {}: mask values must be in \[0, 1\], or 255"
BAD = {
    "empty foreground": (
        edit("support_masks", torch.zeros_like),
        NOTHING,
    ),
    "only unlabelled": (
        edit("support_masks", lambda m: torch.full_like(m, 255)),
        NOTHING,
    ),
    "support rank": (edit("support", lambda x: x[0]), r"support must be a tensor \[T, K, C, h, w\].*\[2, 24, 9, 11\]"),
    "mask rank": (edit("support_masks", lambda x: x[0]), r"support_masks must be a tensor \[T, K, H, W\]"),
    "query rank": (edit("query", lambda x: x[0]), r"query must be a tensor \[T, C, h, w\]"),
    "not a tensor": (edit("query", lambda x: x.numpy()), r"query must be a tensor \[T, C, h, w\], got ndarray"),
    "channels": (edit("query", lambda x: x[:, :5]), "support has 24 channels and query 5"),
    "tasks": (edit("query", lambda x: x[[0, 1, 1]]), "support holds 2 tasks and query 3"),
    "mask tasks": (edit("support_masks", lambda x: x[:1]), "support has 2 tasks and support_masks 1"),
    "shots": (edit("support_masks", lambda x: x[:, :1]), "2 support images but 1 masks"),
    "no shot": (
        lambda t: [t.update({k: t[k][:, :0]}) for k in ("support", "support_masks")],
        r"has no support image \(K = 0\): give",
    ),
    "no task": (lambda t: t.update({k: v[:0] for k, v in t.items()}), r"query is empty: shape \[0, 24, 9, 11\]"),
    "support NaN": (set_value("support", float("nan")), "task 0: support features hold NaN or Inf at 11 cells"),
    "query Inf": (set_value("query", float("inf"), (1, 0, 0)), "task 1: query features hold NaN or Inf at 11 cells"),
    "mask value": (set_value("support_masks", 7), "the value 7: mask values must be 0, 1 or 255"),
    "soft mask value": (
        lambda t: t.update(support_masks=(t["support_masks"] == 1) * 1.5),
        SOFT.format(1.5),
    ),
    "mask NaN": (
        lambda t: t.update(support_masks=t["support_masks"] * float("nan")),
        SOFT.format("nan"),
    ),
    "integer features": (edit("query", lambda x: x.long()), "must be floating point, got torch.int64"),
    "proportion 0": (lambda t: t.update(proportion=torch.tensor([0.1, 0.0])), "strictly between 0 and 1, got 0"),
    "proportion 1": (lambda t: t.update(proportion=1.0), "strictly between 0 and 1, got 1"),
    "proportion NaN": (lambda t: t.update(proportion=[0.5, float("nan")]), "strictly between 0 and 1, got nan"),
    "proportion shape": (lambda t: t.update(proportion=torch.rand(3)), r"one number per task, \[2\], got shape \[3\]"),
    "proportion type": (
        lambda t: t.update(proportion="big"),
        r"must be a number or a tensor \[T\], got str",
    ),
    "valid dtype": (
        lambda t: t.update(query_valid=torch.ones(2, 9, 11)),
        "query_valid must be bool .*got torch.float32",
    ),
    "valid shape": (
        lambda t: t.update(query_valid=torch.ones(9, 11).bool()),
        "must be a bool tensor .* with T = 2",
    ),
    "nothing valid": (lambda t: t.update(query_valid=torch.zeros(2, 9, 11).bool()), "task 0: query_valid leaves no"),
    "zero features": (
        edit("support", torch.zeros_like),
        "under the support foreground are all zero",
    ),
    "no configuration": (lambda t: t.update(cfg="clean"), "cfg must be an InferenceConfig"),
    "oracle without π": (
        lambda t: t.update(cfg=config_of("oracle")),
        "an oracle's configuration: give proportion=",
    ),
    "no background": (lambda t: t.update(cfg=InferenceConfig.preset("discriminant")), r"a tensor \[24\], got nothing"),
    "background shape": (
        lambda t: t.update(cfg=InferenceConfig.preset("discriminant"), background=torch.rand(5)),
        r"a tensor \[24\], got \[5\]",
    ),
    "background zero": (
        lambda t: t.update(cfg=InferenceConfig.preset("discriminant"), background=torch.zeros(24)),
        "background must be finite and not zero",
    ),
    "complex masks": (
        edit("support_masks", lambda m: m * 1j),
        "mask must hold real numbers, got torch.complex",
    ),
    "expanded to another T": (
        lambda t: t.update(
            support=t["support"][:1].expand(3, -1, -1, -1, -1), support_masks=t["support_masks"][[0] * 3]
        ),
        "support holds 3 tasks and query 2",
    ),
    "backend": (lambda t: t.update(backend="cuda"), "'auto', 'torch' or 'native', got 'cuda'"),
}


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence(case, backend):
    if backend == "native" and not native_status()[0]:
        pytest.skip(native_status()[1])
    change, message = BAD[case]
    arguments = tasks() | {"backend": backend}
    change(arguments)
    with pytest.raises(RepriError, match=message) as caught:
        infer(**arguments)
    assert "\n" not in str(caught.value)
