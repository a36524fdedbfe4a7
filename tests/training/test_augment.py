"""Flips."""

from repri.training.augment import Flip, Flips


def test_flips_depend_on_seed_epoch_and_place_alone():
    flips = Flips(mirror=True, vertical=True)
    drawn = [flips.draw(1, 2, place) for place in range(40)]
    assert drawn == [flips.draw(1, 2, place) for place in range(40)]
    assert drawn != [flips.draw(2, 2, place) for place in range(40)]
    assert drawn != [flips.draw(1, 3, place) for place in range(40)]
    assert len(set(drawn)) == 4


def test_only_flips_that_are_wanted_occur():
    assert {Flips().draw(0, 0, place) for place in range(40)} == {Flip()}
    assert {Flips(mirror=True).draw(0, 0, place) for place in range(40)} == {Flip(), Flip(mirrored=True)}
    mirrored = [Flips(mirror=True).draw(0, 0, place).mirrored for place in range(40)]
    assert [
        Flips(True, True).draw(0, 0, place).mirrored for place in range(40)
    ] == mirrored  # one does not move the other
    assert Flip(True, True).axes == [-1, -2]
