"""Settings from the support: how much the expert on textures counts, and how large images are looked at.

Every setting segments parts of the support that were held out. The setting with the best IoU is taken if it is clearly
better than the default; else the default stays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest

from repri.segmenter.threads import all_of

from .blend import ALIKE, DOUBT, SOFT, STEP, USUAL, Choice
from .compare import Compare, Sight
from .heldout import HeldOut, held_out
from .scores import CLEARLY, FAR, Pixels, Setting, best_of, pixels_of, score
from .textures import Textures

__all__ = ["choose"]

WEIGHTS = (0.0, 0.5, 0.7, 0.85)
"""Weights of the expert on textures; the expert on objects has the rest."""
WEIGHTS_OF_ONE = (0.0, 0.5, 0.7)
"""The same with a single annotated image, whose halves are more alike than images are."""
WEIGHTS_OF_THIN = (0.0, 0.7, 0.85)
"""The same if its objects are thinner than ``THIN`` cells of the expert on objects, which hardly sees them."""
THIN = 0.25
FAR_OF_SEVERAL = 0.14
"""IoU by which textures must be better with several images, where the best of more settings is taken."""
LARGER = 1.42
"""Factor of the larger size, for which the network takes twice as long."""
LARGER_OF_CLASSES = 2.0
"""The same with several classes, whose logistic regression saves the time that the network takes."""
OFTEN = 3
"""Images in which each of several classes must be shown, for a logistic regression to be compared."""
MARGIN = 0.05
"""Likeness by which a query may be less like the support than its images are like each other."""
ALIKE_IN_DOUBT = 0.7
"""Likeness at which a query gets half of the weight, if textures are better on the halves of a single image, but not by
as much as they must be: only images of the same scene are so alike."""
MOST = 2.0
"""Most steps of likeness that the gain on held-out parts counts for."""


def choose(compare: Compare, weight: float | None = None, fixed_size: bool = False) -> tuple[Choice, Textures | None]:
    """Choose the settings for a support.

    Args:
        compare: The support and the experts.
        weight: Weight of the expert on textures, if it is fixed.
        fixed_size: Whether the expert on objects keeps its size.

    Returns:
        The choice, and the expert on textures if it has a weight.
    """
    compare = compare.reduced()
    if weight is not None:
        choice = Choice(weight, alike=-1.0, refine=compare.better_refine, least=compare.least_proportion)
        return choice, compare.fitted() if weight else None
    single = len(compare.images) == 1
    parts = list(held_out(compare.images, compare.maps, compare.classes))
    own, larger = _sights(compare, fixed_size)
    default, far = Setting(0.0, own[0]), FAR if single else FAR_OF_SEVERAL
    thin = single and compare.width < THIN and not compare.scribbled
    weights = WEIGHTS_OF_THIN if thin else WEIGHTS_OF_ONE if single else WEIGHTS
    pixels, scores = _compared(compare, parts, own, weights)
    if compare.scribbled and scores:
        far = _far_of_scribbles(far, scores[default], compare.uniform, single)
    elif compare.uniform:  # a few pixels of a thin object say nothing about the experts
        far = -1.0 if thin else CLEARLY
    best = best_of(scores, default, far)
    if larger and best.weight == 0:
        pixels, more = _compared(compare, parts, larger, (0.0,), pixels)
        scores |= more
        best = best_of(scores, default, far)
    doubtful = best == default and single and not compare.scribbled
    if doubtful:
        best = best_of(scores, default, CLEARLY)
    gain = scores[best] - scores[default] if scores else 0.0
    limit = ALIKE_IN_DOUBT if doubtful else _limit_for(gain)
    if not single and gain > USUAL:  # the images are as unlike each other as queries may be
        limit = min([limit, *(like - MARGIN for part in pixels for like in part.alike)])
    named = {str(setting): value for setting, value in scores.items()}
    told = "each half of the image by the other" if single else "each image by the others"
    if best == default:  # nothing is clearly better, so all stays as it is
        return Choice(0.0, None, limit, None, 0.0, named, told), None
    other = None if best.sight.size == compare.look.size else best.sight.size
    least, logistic = compare.least_proportion, best.sight.logistic
    refine = None if doubtful else compare.better_refine  # for all queries, also for those that are not alike
    choice = Choice(best.weight, other, limit, refine, least, named, told, logistic, scores[best])
    return choice, compare.fitted() if choice.weight else None


def _limit_for(gain: float) -> float:
    """Likeness at which a query gets half of the weight of textures: the less they gain on held-out parts, the more a
    query must be like the support."""
    steps = (gain - USUAL) / STEP
    return ALIKE - (SOFT * min(MOST, steps) if steps > 0 else DOUBT * max(-MOST, steps))


def _far_of_scribbles(far: float, default: float, uniform: bool, single: bool) -> float:
    """IoU by which textures must be better than the default on held-out scribbles.

    Scribbles lie in the middle of objects and far from them. So large cells are often right about all of them, although
    their masks are much too large, and then the kind of the images decides. With one image of one kind, textures always
    count, and held-out scribbles only choose their weight. Otherwise half of the errors must go."""
    if uniform:
        return -1.0 if single else -CLEARLY
    return min(far, max(2 * CLEARLY, (1 - default) / 2))


def _compared(
    compare: Compare,
    parts: Sequence[HeldOut],
    sights: Sequence[Sight],
    weights: Sequence[float],
    before: Sequence[Pixels] = (),
) -> tuple[list[Pixels], dict[Setting, float]]:
    """What the experts say about the parts, also with other sights, and the IoU of each setting with these sights. The
    cores share the work."""
    compare.prepare(parts, sights)
    pairs = zip_longest(parts, before)
    pixels = all_of([partial(pixels_of, compare, part, sights, known) for part, known in pairs], compare.device)
    settings = [Setting(weight, sight) for sight in sights for weight in weights if pixels]
    free = len(compare.images) > 1 or compare.uniform  # halves of a photograph are too alike for it
    return pixels, {setting: score(pixels, setting, free=free) for setting in settings}


def _sights(compare: Compare, fixed_size: bool) -> tuple[list[Sight], list[Sight]]:
    """Classifiers that are compared at the own size, the default first, and those that are compared at a larger size
    if textures do not count."""
    own = compare.look.size
    larger = own if fixed_size else round((LARGER if compare.classes == 1 else LARGER_OF_CLASSES) * own)
    if len(compare.images) == 1:  # its halves cannot tell the size
        return [Sight(own)], []
    often = compare.classes > 1 and _often(compare)
    if compare.classes > 1 and not often:
        return [Sight(own)], []
    logistic = [Sight(own), Sight(own, True)] if often else [Sight(own)]
    return logistic, [Sight(larger, often)] if larger != own else []


def _often(compare: Compare) -> bool:
    """Whether every class is shown in enough images."""
    return all(sum((mask == n).any() for mask in compare.maps) >= OFTEN for n in range(1, compare.classes + 1))
