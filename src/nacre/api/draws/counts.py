"""Counts of the Poisson, binomial and multinomial distributions, computed in float64.

Where few are expected, a uniform number is searched in the distribution function.  Else counts are proposed by
transformed rejection (Hörmann, J. Stat. Comput. Simul. 46 (1993); Insurance Math. Econom. 12 (1993)), with the
logarithms of probabilities in a form that does not cancel for large parameters (Loader 2000).
"""

from __future__ import annotations

from math import inf, nan, pi
from typing import Any, Final

from nacre.api.draws.rejection import accepted
from nacre.api.draws.standard import inside, keys_of, unit
from nacre.api.operands import filled, spread
from nacre.api.primitives import control, pointwise, reduce, view
from nacre.base.dtypes import float64
from nacre.interpret.stage import derived

FEW: Final = 10.0  # the mean from which on counts are proposed
MOST_SEARCHED: Final = 64.0  # counts above have a probability below 2^-53 where few are expected
MOST_EXPECTED: Final = 2.0**62
MOST_TRIALS: Final = 2.0**53  # up to here float64 has all whole numbers
# the continued fraction of the remainder of Stirling's formula (Stieltjes 1894); its error is below 2e-5 at 1
STIRLING: Final = (1 / 12, 1 / 30, 53 / 210, 195 / 371, 22999 / 22737, 29944523 / 19733142)


def poisson_counts(rate: Any, key: Any) -> Any:
    """A count for each rate, in float64; NaN for rates that are not in [0, 2^62]."""
    valid = pointwise.and_(pointwise.ge(rate, filled(rate, 0.0)), pointwise.le(rate, filled(rate, MOST_EXPECTED)))
    many = pointwise.and_(valid, pointwise.ge(rate, filled(rate, FEW)))
    few = pointwise.and_(valid, pointwise.not_(many))
    small = pointwise.select(few, rate, filled(rate, 0.0))
    for_search, for_proposals = keys_of(key, 2)
    searched = _searched(filled(rate, 0.0), small, pointwise.exp(pointwise.neg(small)), for_search)
    large = pointwise.select(many, rate, filled(rate, FEW))
    root = pointwise.sqrt(large)
    spread = _line(root, 2.53, 0.931)
    height = _line(pointwise.div(filled(rate, 1.0), _line(spread, 1.0, -3.4)), 1.1328, 1.1239)
    level = pointwise.add(pointwise.log(height), _line(pointwise.log(_line(large, 2 * pi, 0.0)), 0.5, 0.0))
    setup = (_line(spread, 0.02483, -0.059), spread, _line(large, 1.0, 0.43), level, large)
    proposed = accepted(_poisson_proposal, pointwise.not_(many), setup, for_proposals)
    return pointwise.select(valid, pointwise.select(many, proposed, searched), filled(rate, nan))


def binomial_counts(trials: Any, p: Any, key: Any) -> Any:
    """A count for each number of trials and probability, in float64; NaN where they are not possible."""
    zero, one = filled(p, 0.0), filled(p, 1.0)
    valid = pointwise.and_(
        pointwise.and_(pointwise.ge(p, zero), pointwise.le(p, one)),
        pointwise.and_(pointwise.ge(trials, zero), pointwise.le(trials, filled(p, MOST_TRIALS))),
    )
    n, chance = pointwise.select(valid, trials, zero), pointwise.select(valid, p, zero)
    turned = pointwise.gt(chance, filled(p, 0.5))  # failures are counted
    chance = pointwise.select(turned, pointwise.sub(one, chance), chance)
    many = pointwise.ge(pointwise.mul(n, chance), filled(p, FEW))
    for_search, for_proposals = keys_of(key, 2)
    small = pointwise.select(many, zero, chance)
    odds = pointwise.div(small, pointwise.sub(one, small))
    none = pointwise.exp(pointwise.mul(n, pointwise.log1p(pointwise.neg(small))))
    factor = pointwise.mul(pointwise.add(n, one), odds)
    searched = pointwise.minimum(_searched(pointwise.neg(odds), factor, none, for_search), n)
    large = pointwise.select(many, chance, filled(p, 0.5))
    count = pointwise.select(many, n, filled(p, 2 * FEW))
    proposed = accepted(_binomial_proposal, pointwise.not_(many), _binomial_setup(count, large), for_proposals)
    found = pointwise.select(many, proposed, searched)
    found = pointwise.select(turned, pointwise.sub(n, found), found)
    return pointwise.select(valid, found, filled(p, nan))


def multinomial_counts(trials: Any, weights: Any, key: Any) -> Any:
    """The counts of classes [..., k] for the trials [...], in float64; NaN where they are not possible.

    The classes are the leaves of a binary tree.  Every node gives its left half a binomial part of its trials.
    """
    *rows, classes = weights.type.shape
    depth = (int(classes) - 1).bit_length()
    none = (0,) * len(rows)
    absent = pointwise.fill(0.0, (), float64)
    totals = [view.pad(weights, absent, (*none, 0), (*none, 2**depth - classes), (*none, 0))]
    while len(totals) <= depth:
        totals.append(pointwise.add(*_halves(totals[-1])))
    counts = view.reshape(trials, (*rows, 1))
    possible = pointwise.and_(pointwise.ge(weights, filled(weights, 0.0)), pointwise.lt(weights, filled(weights, inf)))
    positive = pointwise.gt(totals[-1], filled(totals[-1], 0.0))
    valid = pointwise.and_(view.reshape(reduce.all_(possible, (len(rows),)), (*rows, 1)), positive)
    for whole, level, own in zip(totals[:0:-1], totals[-2::-1], keys_of(key, max(depth, 1)), strict=False):
        some = pointwise.gt(whole, filled(whole, 0.0))
        share = pointwise.div(_halves(level)[0], pointwise.select(some, whole, filled(whole, 1.0)))
        left = binomial_counts(counts, share, own)
        parts = [view.reshape(x, (*x.type.shape, 1)) for x in (left, pointwise.sub(counts, left))]
        counts = view.reshape(view.concatenate(parts, len(rows) + 1), level.type.shape)
    found = view.slice_axis(counts, len(rows), 0, classes)
    return pointwise.select(spread(valid, found.type.shape), found, filled(found, nan))


def _halves(x: Any) -> tuple[Any, Any]:
    """The elements at even and at odd positions of the last axis."""
    last = len(x.type.shape) - 1
    size = x.type.shape[last]
    return view.slice_axis(x, last, 0, size, 2), view.slice_axis(x, last, 1, size, 2)


def geometric_counts(p: Any, key: Any) -> Any:
    """A number of trials for each probability, in float64; NaN for those that are not in (0, 1]."""
    one = filled(p, 1.0)
    valid = pointwise.and_(pointwise.gt(p, filled(p, 0.0)), pointwise.le(p, one))
    failure = pointwise.log1p(pointwise.neg(pointwise.select(valid, p, one)))
    failures = pointwise.floor(pointwise.div(pointwise.log(inside(p.type.shape, float64, key)), failure))
    return pointwise.select(valid, pointwise.add(failures, one), filled(p, nan))


def _line(x: Any, slope: float, start: float) -> Any:
    return pointwise.fma(x, filled(x, slope), filled(x, start))


# ---- the search


def _searched(a: Any, b: Any, none: Any, key: Any) -> Any:
    """The first count whose distribution function is above a uniform number.

    `none` is the probability of 0, and that of k is (a + b / k) times that of k − 1 (Panjer's recursion).
    """
    drawn = unit(a.type.shape, float64, key)
    axes = tuple(range(len(a.type.shape)))

    def open_(k: Any, total: Any, drawn: Any) -> Any:
        return pointwise.and_(pointwise.ge(drawn, total), pointwise.lt(k, filled(k, MOST_SEARCHED)))

    def missing(k: Any, total: Any, term: Any, drawn: Any, a: Any, b: Any) -> list[Any]:
        """Whether a count is to be raised."""
        return [reduce.any_(open_(k, total, drawn), axes)]

    def raised(k: Any, total: Any, term: Any, drawn: Any, a: Any, b: Any) -> list[Any]:
        """The next count, where the probability so far is too small."""
        wanted = open_(k, total, drawn)
        following = pointwise.add(k, filled(k, 1.0))
        term = pointwise.mul(term, pointwise.add(a, pointwise.div(b, following)))
        total = pointwise.select(wanted, pointwise.add(total, term), total)
        return [pointwise.select(wanted, following, k), total, term, drawn, a, b]

    start = (filled(a, 0.0), none, none, drawn, a, b)
    types = [x.type for x in start]
    return control.while_loop(derived(missing, types, "missing"), derived(raised, types, "raised"), *start)[0]


# ---- transformed rejection


def _remainder(z: Any) -> Any:
    """log Γ(z) − (z − ½) log z + z − ½ log 2π."""
    found = z
    for c in reversed(STIRLING[1:]):
        found = pointwise.add(z, pointwise.div(filled(z, c), found))
    return pointwise.div(filled(z, STIRLING[0]), found)


def _side(mean: Any, z: Any) -> Any:
    """log k! − k log m + m − ½ log 2πm for the mean m and k = z − 1."""
    y = pointwise.div(pointwise.sub(z, mean), mean)
    one, logarithm = filled(y, 1.0), pointwise.log1p(y)
    deviance = pointwise.mul(mean, pointwise.sub(pointwise.mul(pointwise.add(one, y), logarithm), y))
    return pointwise.add(pointwise.sub(deviance, pointwise.mul(logarithm, filled(y, 0.5))), _remainder(z))


def _transformed(key: Any, a: Any, b: Any, centre: Any) -> tuple[Any, Any]:
    """A count, and the logarithm of a uniform number over the density of the proposal."""
    for_place, for_chance = keys_of(key, 2)
    u = _line(unit(a.type.shape, float64, for_place), 1.0, -0.5)
    rest = pointwise.sub(filled(u, 0.5), pointwise.abs_(u))
    stretch = pointwise.add(pointwise.div(pointwise.add(a, a), rest), b)
    k = pointwise.floor(pointwise.fma(stretch, u, centre))
    density = pointwise.add(pointwise.div(a, pointwise.mul(rest, rest)), b)
    return k, pointwise.log(pointwise.div(inside(a.type.shape, float64, for_chance), density))


def _poisson_proposal(key: Any, a: Any, b: Any, centre: Any, level: Any, mean: Any) -> tuple[Any, Any]:
    k, chance = _transformed(key, a, b, centre)
    possible = pointwise.ge(k, filled(k, 0.0))
    safe = pointwise.select(possible, k, filled(k, 0.0))
    logarithm = pointwise.neg(_side(mean, _line(safe, 1.0, 1.0)))
    return k, pointwise.and_(possible, pointwise.le(pointwise.add(chance, level), logarithm))


def _binomial_setup(n: Any, p: Any) -> tuple[Any, ...]:
    """The parameters of proposals: two of their shape, their centre, the level, both means, and the trials."""
    mean = pointwise.mul(n, p)
    other = pointwise.sub(n, mean)
    q = pointwise.sub(filled(p, 1.0), p)
    deviation = pointwise.sqrt(pointwise.mul(mean, q))
    spread = _line(deviation, 2.53, 1.15)
    narrow = pointwise.fma(p, filled(p, 0.01), _line(spread, 0.0248, -0.0873))
    height = pointwise.mul(_line(pointwise.div(filled(p, 5.1), spread), 1.0, 2.83), deviation)
    mode = pointwise.floor(pointwise.fma(n, p, p))
    level = pointwise.add(_two_sides(mode, mean, other, n), pointwise.log(height))
    return narrow, spread, _line(mean, 1.0, 0.5), level, mean, other, n


def _two_sides(k: Any, mean: Any, other: Any, n: Any) -> Any:
    """The logarithm of the probability of k, up to a constant."""
    failures = _line(pointwise.sub(n, k), 1.0, 1.0)
    return pointwise.neg(pointwise.add(_side(mean, _line(k, 1.0, 1.0)), _side(other, failures)))


def _binomial_proposal(
    key: Any, a: Any, b: Any, centre: Any, level: Any, mean: Any, other: Any, n: Any
) -> tuple[Any, Any]:
    k, chance = _transformed(key, a, b, centre)
    possible = pointwise.and_(pointwise.ge(k, filled(k, 0.0)), pointwise.le(k, n))
    safe = pointwise.select(possible, k, filled(k, 0.0))
    wanted = pointwise.le(pointwise.add(chance, level), _two_sides(safe, mean, other, n))
    return k, pointwise.and_(possible, wanted)
