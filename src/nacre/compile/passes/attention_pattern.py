"""Pattern matching of attention in a graph: from the exponential of its weights to operands, results and derivative.

    scores = q · kᵀ, scaled, masked;   p = exp(scores − max);   mixed = p · v;   out = mixed · (1 / Σ p)
    or, without derivatives,   mixed = (p · (1 / Σ p)) · v
    dv = pᵀ · g;   ds = p · (g · vᵀ + shift), masked, scaled;   dk = dsᵀ · q;   dq = ds · k

No other equation may read the intermediate values.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import field

from nacre.base.conversion import element
from nacre.base.dims import lower
from nacre.base.dtypes import bfloat16, bool_, float16, float32, float64
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.codegen.attention.rows import FACTORS
from nacre.ir.axes import axis_map, permutation, spreads
from nacre.ir.elements import counted_axis, number_of
from nacre.ir.graph import Atom, Equation, Graph, Literal, Var
from nacre.ir.primitive import operation
from nacre.ir.rewrite import uses
from nacre.ops.dot import is_plain_product
from nacre.ops.identity import copy_p
from nacre.ops.shape import permute_p

HALVES = (float16, bfloat16)


@dataclass
class Match:
    """An attention: its operands, what happens to its scores, and the values that its equations compute."""

    q: Atom
    k: Atom
    v: Atom
    mask: Atom | None
    chain: list[tuple[str, Atom]]  # the operations on scores in order ("scale", "causal", "mask") and their operands
    p: Var  # the weights; attention over blocks has none, there it is the weighted sum of values
    results: dict[str, Var]
    taken: list[Equation]
    source: str
    grads: dict[str, Var] = field(default_factory=dict[str, Var])
    cotangent: Atom | None = None
    shift: Atom | None = None
    shares: bool = False  # weights are divided by their sum before the product with the values
    empties: bool = False  # rows of −∞ have weights 0
    online: bool = False  # it iterates over blocks of keys
    lengths: Atom | None = None  # of the keys that are read, [..., 1]
    stored: tuple[Atom, Atom, Atom] = ()  # type: ignore[assignment]  # queries, keys and values as stored in memory

    @property
    def mixes(self) -> bool:
        """Whether it has a forward pass; that of a derivative alone is another equation."""
        return "mixed" in self.results

    @property
    def params(self) -> dict[str, object]:
        """The parameters that both equations share."""
        scale = next((float(a.array) for s, a in self.chain if s in FACTORS and isinstance(a, Literal)), 1.0)
        steps = tuple(s for s, _ in self.chain if s != "causal")
        causal = any(s == "causal" for s, _ in self.chain)
        return {"causal": causal, "scale": scale, "shares": self.shares, "empties": self.empties, "steps": steps}

    @property
    def sound(self) -> bool:
        """Whether the kernels support it: one scale, and one mask, which is not added before a causal mask."""
        names = [s for s, _ in self.chain]
        if any(names.count(s) > 1 for s in names) or len(FACTORS.keys() & names) > 1:
            return False
        if "causal" not in names:
            return True
        scale = self.params["scale"]
        assert isinstance(scale, float)
        adds = self.mask is not None and self.mask.type.dtype is not bool_
        return 0 < scale < math.inf and not (adds and names.index("mask") < names.index("causal"))


class Finder:
    """Finds the equations of an attention."""

    def __init__(self, graph: Graph) -> None:
        self.producer = {v: e for e in graph.equations for v in e.outputs}
        self.readers = uses(graph)
        self.outputs = set(graph.outputs)
        self.views: list[Equation] = []  # views to add to the graph
        self.known: dict[Var, Atom] = {}  # operands of products → their transposes

    def again(self) -> Finder:
        """A new finder for the same graph."""
        other = copy(self)
        other.views, other.known = [], {}
        return other

    # ---- helpers

    def made(self, a: Atom) -> Equation | None:
        """The equation that computes an atom."""
        return self.producer.get(a) if isinstance(a, Var) else None

    def by(self, a: Atom, op: str) -> Equation | None:
        """The equation that computes an atom by an operation of kernel IR."""
        e = self.made(a)
        return e if e is not None and operation(e.primitive) == op else None

    def only(self, v: Var, *readers: Equation | None) -> bool:
        """Whether only the given equations read a value."""
        mine = {id(e) for e in readers}
        return v not in self.outputs and all(id(e) in mine for e in self.readers.get(v, []))

    def constant(self, a: Atom) -> Literal | None:
        """The scalar that fills a value."""
        a = self.base(a)[0]
        if isinstance(a, Literal):
            return None if a.type.shape else a
        e = self.made(a)
        number = None if e is None else number_of(e)
        return None if number is None else Literal(element(number.value, a.type.dtype), a.type.with_shape(()))

    def base(self, a: Atom) -> tuple[Atom, list[Equation]]:
        """The value that a broadcast value repeats, and the broadcasts, the last one first."""
        repeated: list[Equation] = []
        while (e := self.made(a)) is not None and spreads(e):
            repeated.append(e)
            a = e.inputs[0]
        return a, repeated

    def spread(self, a: Atom, rows: int) -> Atom | None:
        """The vector, with one number for each row, that a matrix repeats along its rows."""
        e = self.made(a)
        if e is None or not spreads(e) or axis_map(e) != tuple(range(rows)):
            return None
        return e.inputs[0] if e.inputs[0].type.shape == a.type.shape[:rows] else None

    def product(self, e: Equation, rank: int) -> tuple[int, int] | None:
        """The axes that a product of matrices contracts, if all axes before the last two are its batch."""
        batch = tuple(range(rank - 2))
        if not is_plain_product(e) or e.params["batch"] != (batch, batch):
            return None
        (a, b) = e.params["contract"]
        return (a[0], b[0]) if len(a) == len(b) == 1 and e.inputs[1].type.rank == rank else None

    def matrix(self, a: Atom, transposed: bool) -> Atom:
        """A matrix or its transpose, which needs no new permutation if the matrix is itself a transpose."""
        if not transposed:
            return a
        rank = a.type.rank
        swap = (*range(rank - 2), rank - 1, rank - 2)
        e = self.made(a)
        if e is not None and permutation(e) == swap:
            return e.inputs[0]
        assert isinstance(a, Var)
        if a not in self.known:
            result = Var(a.type.with_shape([a.type.shape[k] for k in swap]))
            self.views.append(Equation(permute_p, (a,), {"axes": swap}, (result,)))
            self.known[a] = result
        return self.known[a]

    # ---- forward

    def forward(self, exp: Equation) -> Match | None:
        """The attention whose weights an exponential computes."""
        p, sub = exp.outputs[0], self.by(exp.inputs[0], "sub")
        rank = p.type.rank
        if sub is None or rank < 2 or p.type.dtype not in (float32, float64) or not _plain(p.type):
            return None
        scores, most = sub.inputs[0], self.spread(sub.inputs[1], rank - 1)
        floor = None if most is None else self.instead(most, -math.inf, 0.0)
        greatest = None if most is None else self.by(most if floor is None else floor[0], "max")
        if greatest is None and isinstance(most, Var):
            return self.derivative(exp, sub, most)
        if greatest is None or greatest.inputs[0] is not scores or greatest.params["axes"] != (rank - 1,):
            return None
        lowered = self.producer[sub.inputs[1]]  # type: ignore[index]
        taken = [exp, sub, lowered, greatest]
        if floor is not None:
            if not self.only(greatest.outputs[0], *floor[1]):
                return None
            taken += floor[1]
        if not (self.only(exp.inputs[0], exp) and self.only(sub.inputs[1], sub) and isinstance(scores, Var)):  # type: ignore[arg-type]
            return None
        assert isinstance(most, Var)
        match = Match(scores, scores, scores, None, [], p, {"most": most}, taken, exp.source)
        match.empties = floor is not None
        if not self.back_to_product(match, scores, [sub, greatest]) or not self.mixes(match):
            return None
        match.stored = self.widened(match.q), self.widened(match.k), self.widened(match.v)
        return match

    def whole(self, e: Equation, online: bool, *masks: Atom, lengths: Atom | None = None) -> Match:
        """The attention of an equation with its steps as parameters: over blocks of keys, or over the first keys."""
        q, k, v = e.inputs[:3]
        mixed, most, total = e.outputs
        scale = Literal(element(e.params["scale"], q.type.dtype), q.type.with_shape(()))
        chain: list[tuple[str, Atom]] = [("scale", scale), *(("causal", q),) * bool(e.params["causal"])]
        chain += [("mask", m) for m in masks]
        results = {"mixed": mixed, "most": most, "total": total}
        mask = self.owned(masks[0]) if masks else None
        match = Match(q, k, v, mask, chain, mixed, results, [e], e.source, online=online, lengths=lengths)
        match.stored = self.widened(q), self.widened(k), self.widened(v)
        match.empties = mask is not None
        self.divides(match)
        return match

    def derivative(self, exp: Equation, sub: Equation, most: Var) -> Match | None:
        """The derivative of an attention that returned the greatest scores; an exponential recomputes its weights."""
        scores, v = sub.inputs[0], self.values_of(exp.outputs[0])
        taken = [exp, sub, self.producer[sub.inputs[1]]]  # type: ignore[index]
        if not (self.only(exp.inputs[0], exp) and self.only(sub.inputs[1], sub) and isinstance(scores, Var)):  # type: ignore[arg-type]
            return None
        match = Match(scores, scores, scores, None, [], exp.outputs[0], {"most": most}, taken, exp.source)
        if v is None or not self.back_to_product(match, scores, [sub]):
            return None
        match.v = v
        match.stored = self.widened(match.q), self.widened(match.k), self.widened(v)
        return match

    def values_of(self, p: Var) -> Atom | None:
        """The values v whose product with cotangents, g · vᵀ, gives the cotangents of the weights p."""
        last = p.type.rank - 1
        for e in self.readers.get(p, []):
            moved = self.by(e.inputs[e.inputs[0] is p], "add") if operation(e.primitive) == "mul" else None
            for a in moved.inputs if moved is not None else ():
                g = self.made(a)
                if g is not None and self.product(g, last + 1) == (last, last):
                    return g.inputs[1]
        return None

    def back_to_product(self, match: Match, x: Var, readers: list[Equation]) -> bool:
        """Follow the scores back to the product of queries and keys; returns whether the kernels support the steps."""
        rank = x.type.rank
        while self.only(x, *readers):
            e = self.producer.get(x)
            if e is None:
                return False
            match.taken.append(e)
            axes = self.product(e, rank)
            if axes is not None:
                n = rank - 2
                match.q, match.k = self.matrix(e.inputs[0], axes[0] == n), self.matrix(e.inputs[1], axes[1] == n)
                return match.q.type.shape[-1] != 0 and match.sound
            step = self.step(e)
            if step is None:
                return False
            name, operand, before = step
            match.chain.insert(0, (name, operand))
            if name == "mask":
                match.mask = self.owned(operand)
            x, readers = before, [e]
        return False

    def step(self, e: Equation) -> tuple[str, Atom, Var] | None:
        """The operation of an equation on scores: its name, its operand, and the scores before it."""
        op, inputs = operation(e.primitive), e.inputs
        if op == "mul":
            for a, b in (inputs, inputs[::-1]):
                scale = self.constant(b)
                if scale is not None and isinstance(a, Var):
                    return "scale", scale, a
        elif op == "div":
            scale = self.constant(inputs[1])
            if scale is not None and isinstance(inputs[0], Var):
                return "divide", scale, inputs[0]
        elif op == "select":
            chosen, a, low = inputs
            lowest = self.constant(low)
            if lowest is not None and float(lowest.array) == -math.inf and isinstance(a, Var):
                return "causal" if self.is_causal(chosen, e.outputs[0].type) else "mask", chosen, a
        elif op == "add":
            found = [(a, b) for a, b in (inputs, inputs[::-1]) if isinstance(a, Var) and self.scoring(a)]
            if len(found) == 1:
                return "mask", found[0][1], found[0][0]  # type: ignore[return-value]
        return None

    def scoring(self, x: Var) -> bool:
        """Whether a value is a product, or a scaled or masked one."""
        e = self.producer.get(x)
        return e is not None and (self.product(e, x.type.rank) is not None or self.step(e) is not None)

    def is_causal(self, chosen: Atom, scores: TensorType) -> bool:
        """Whether a condition holds where the row of scores is not less than the column."""
        plane, repeated = self.base(chosen)
        if plane.type.shape[-2:] != scores.shape[-2:]:
            return False
        ranks = ((e, e.outputs[0].type.rank) for e in repeated)
        ends = all((axis_map(e) or ())[-2:] == (n - 2, n - 1) for e, n in ranks)
        compared = self.by(plane, "ge")
        numbers = compared.inputs if compared is not None else ()
        wide = (self.made(a) for a in numbers if a.type.dtype.is_integer and a.type.dtype.bits >= 32)
        axes = [counted_axis(e) for e in wide if e is not None]
        rank = plane.type.rank
        return ends and [k for k in axes if k is not None] == [rank - 2, rank - 1]

    def owned(self, mask: Atom) -> Atom:
        """A mask in memory; a computed one is written before it is broadcast, not after."""
        plane, repeated = self.base(mask)
        if plane not in self.producer or not repeated:
            return mask
        copied = Var(plane.type)
        self.views.append(Equation(copy_p, (plane,), {}, (copied,)))
        for e in reversed(repeated):
            source, copied = copied, Var(e.outputs[0].type)
            self.views.append(Equation(e.primitive, (source,), e.params, (copied,)))
        return copied

    def mixes(self, match: Match) -> bool:
        """Whether the weights are summed and multiplied by the values; records both, and their quotient."""
        readers = self.readers.get(match.p, [])
        sums = [e for e in readers if operation(e.primitive) == "sum" and e.params["axes"] == (match.p.type.rank - 1,)]
        if len(sums) != 1:
            return False
        match.results["total"] = sums[0].outputs[0]
        match.taken.append(sums[0])
        divided = [e for e in readers if self.shared(e, match)]
        if divided and len(readers) == 2:
            match.shares = True
            match.taken.append(divided[0])
            return self.only(divided[0].outputs[0], *self.readers.get(divided[0].outputs[0], [])[:1]) and self.meets(
                match, divided[0].outputs[0]
            )
        if not self.meets(match, match.p):
            return False
        self.divides(match)
        return True

    def divides(self, match: Match) -> None:
        """Record the product with the values divided by the sum of weights, if the graph has it."""
        for e in self.readers.get(match.results["mixed"], []):
            if operation(e.primitive) == "mul" and any(self.is_share(a, match) for a in e.inputs):
                match.results["out"] = self.narrowed(match, e)
                match.taken.append(e)
                break

    def narrowed(self, match: Match, e: Equation) -> Var:
        """The result of an equation as stored: in a half type, if all other readers use that."""
        readers = self.readers.get(e.outputs[0], [])
        if e.outputs[0] in self.outputs or len(readers) != 1 or not readers[0].primitive.converts:
            return e.outputs[0]
        narrow = readers[0].outputs[0]
        if e.outputs[0].type.dtype is not float32 or narrow.type.dtype not in HALVES:
            return e.outputs[0]
        match.taken.append(readers[0])
        return narrow

    def widened(self, a: Atom) -> Atom:
        """An operand as stored: in a half type, if it is converted from that for the computation."""
        e = self.made(a)
        if e is None or not e.primitive.converts or a.type.dtype is not float32:
            return a
        return e.inputs[0] if e.inputs[0].type.dtype in HALVES else a

    def shared(self, e: Equation, match: Match) -> bool:
        """Whether an equation divides weights by their sum."""
        return operation(e.primitive) == "mul" and any(a is not match.p and self.is_share(a, match) for a in e.inputs)

    def meets(self, match: Match, weights: Var) -> bool:
        """Whether exactly one product multiplies the weights by values, which it records."""
        rank, last = weights.type.rank, weights.type.rank - 1
        for e in self.readers.get(weights, []):
            axes = self.product(e, rank)
            if axes is None or e.inputs[0] is not weights or e.inputs[1] is weights or axes[0] != last:
                continue
            if "mixed" in match.results:
                return False
            match.v = self.matrix(e.inputs[1], axes[1] == last)
            match.results["mixed"] = e.outputs[0]
            match.taken.append(e)
        return "mixed" in match.results and match.v.type.shape[-1] != 0

    def is_share(self, a: Atom, match: Match) -> bool:
        """Whether a value repeats 1 / total along rows, or 1 / 1 where rows of −∞ have a total of 0."""
        total = match.results["total"]
        share = self.spread(a, total.type.rank)
        quotient = None if share is None else self.by(share, "div")
        if quotient is None or not self.fills(quotient.inputs[0], 1.0):
            return False
        safe = self.instead(quotient.inputs[1], 0.0, 1.0)
        empties = match.empties or match.lengths is not None
        return (quotient.inputs[1] if safe is None else safe[0]) is total and empties == (safe is not None)

    def instead(self, a: Atom, case: float, other: float) -> tuple[Atom, list[Equation]] | None:
        """For a value that is x, but `other` where x equals `case`: x, and the two equations."""
        chosen = self.by(a, "select")
        same = None if chosen is None else self.by(chosen.inputs[0], "eq")
        if chosen is None or same is None or same.inputs[0] is not chosen.inputs[2]:
            return None
        fits = self.fills(same.inputs[1], case) and self.fills(chosen.inputs[1], other)
        return (same.inputs[0], [same, chosen]) if fits else None

    def fills(self, a: Atom, number: float) -> bool:
        """Whether a value is one number everywhere."""
        scalar = self.constant(a)
        return scalar is not None and float(scalar.array) == number

    # ---- derivative

    def rest_is_derivative(self, match: Match) -> bool:
        """Whether all other readers of the weights compute the derivative, which it records."""
        rest = [e for e in self.readers.get(match.p, []) if not any(e is t for t in match.taken)]
        if not rest:
            return match.p not in self.outputs
        return (
            match.p not in self.outputs
            and all(self.of_values(match, e) or self.of_scores(match, e) for e in rest)
            and match.shift is not None
        )

    def of_values(self, match: Match, e: Equation) -> bool:
        """Whether an equation is the product of weights and cotangents."""
        rank = match.p.type.rank
        if self.product(e, rank) != (rank - 2, rank - 2) or e.inputs[0] is not match.p or "v" in match.grads:
            return False
        return self.note(match, "v", e, e.inputs[1])

    def note(self, match: Match, name: str, e: Equation, cotangent: Atom) -> bool:
        """Record a derivative if it is of the same cotangent as the others."""
        if match.cotangent not in (None, cotangent) or e.outputs[0].type is not getattr(match, name).type:
            return False
        match.cotangent = cotangent
        match.grads[name] = e.outputs[0]
        match.taken.append(e)
        return True

    def of_scores(self, match: Match, e: Equation) -> bool:
        """Whether an equation begins the derivative of the scores; records all of that derivative."""
        if operation(e.primitive) != "mul":
            return False
        rank = match.p.type.rank
        other = e.inputs[1] if e.inputs[0] is match.p else e.inputs[0]
        moved = self.by(other, "add")
        if moved is None or match.shift is not None or not self.only(moved.outputs[0], e):
            return False
        for a, b in (moved.inputs, moved.inputs[::-1]):
            g, shift = self.made(a), self.spread(b, rank - 1)
            if g is None or shift is None or self.product(g, rank) != (rank - 1, rank - 1):
                continue
            if match.cotangent not in (None, g.inputs[0]) or not self.only(g.outputs[0], moved):
                continue
            if g.inputs[1] is not match.v:
                continue
            match.cotangent, match.shift = g.inputs[0], shift
            match.taken += [e, moved, g]
            return self.to_operands(match, e.outputs[0])
        return False

    def to_operands(self, match: Match, g: Var) -> bool:
        """Follow the weighted cotangents to those of queries and keys; returns whether the pattern matches."""
        for name, operand in reversed(match.chain):
            if name == "mask" and operand.type.dtype is not bool_:
                continue
            readers = self.readers.get(g, [])
            if len(readers) != 1 or g in self.outputs or not self.undoes(readers[0], g, name, operand):
                return False
            match.taken.append(readers[0])
            g = readers[0].outputs[0]
        return g not in self.outputs and all(self.of_operand(match, g, e) for e in self.readers.get(g, []))

    def undoes(self, e: Equation, g: Var, name: str, operand: Atom) -> bool:
        """Whether an equation is the transpose of a step on scores."""
        if name in FACTORS:
            factors = [self.constant(a) for a in e.inputs if a is not g]
            return (
                operation(e.primitive) == FACTORS[name] == "mul"
                and len(factors) == 1
                and factors[0] is not None
                and isinstance(operand, Literal)
                and factors[0].key == operand.key
            )
        if operation(e.primitive) != "select" or e.inputs[0] is not operand or e.inputs[1] is not g:
            return False
        zero = self.constant(e.inputs[2])
        return zero is not None and float(zero.array) == 0.0 and math.copysign(1.0, float(zero.array)) > 0

    def of_operand(self, match: Match, g: Var, e: Equation) -> bool:
        """Whether an equation is the product of the scores' cotangents with queries or keys."""
        rank = g.type.rank
        axes = self.product(e, rank)
        if axes is None or e.inputs[0] is not g or e.inputs[1] is g:
            return False
        name, other = ("k", match.q) if axes[0] == rank - 2 else ("q", match.k)
        if name in match.grads or self.matrix(e.inputs[1], axes[1] == rank - 1) is not other:
            return False
        assert match.cotangent is not None
        return self.note(match, name, e, match.cotangent)


def _plain(type: TensorType) -> bool:
    """Whether no size of a type can be 0."""
    return all(lower(n) > 0 for n in type.shape)
