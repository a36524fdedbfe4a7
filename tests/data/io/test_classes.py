"""Names and ids of classes."""

from repri.data.io.classes import COCO, COCO_NAMES, PASCAL, among, number_classes


def test_the_classes_of_both_benchmarks():
    assert (len(PASCAL), len(COCO)) == (20, 80)
    assert among(PASCAL, COCO) == list(PASCAL)  # every VOC class is one of COCO's, under one of two names
    assert set(COCO_NAMES) == set(PASCAL) - set(COCO)


def test_255_is_never_a_class():
    ids = number_classes([f"c{n}" for n in range(300)])
    assert len(ids) == 300
    assert 255 not in ids
    assert (ids[254], ids[256]) == ("c253", "c254")
