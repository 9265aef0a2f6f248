"""Graph simplification: calls inlined, common subexpressions merged, dead code removed, outputs in separate memory.

All rewrites preserve every bit: no x + 0 (it changes -0), no x · 0, no division turned into multiplication.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from nacre.base.types import TensorType
from nacre.compile.passes.loop_simplification import simplify_loops
from nacre.ir.axes import permutation
from nacre.ir.facts import SMALL, Facts
from nacre.ir.graph import Atom, Equation, Graph, Literal, Var, params_key
from nacre.ir.primitive import Element, Reduce, copies
from nacre.ir.rewrite import without_calls, without_dead_code
from nacre.ops.copy import copy_p
from nacre.ops.dot import dot_axes, holds, is_plain_product, widened_dot_p


def simplify(graph: Graph) -> Graph:
    """The same function with fewer equations; every output is a separate value."""
    return own_outputs(
        own_constants(
            without_dead_code(widen_rows(turn_products(without_dead_code(share(simplify_loops(without_calls(graph)))))))
        )
    )


def share(graph: Graph) -> Graph:
    """Compute equal equations once, and replace equations by what their primitives' rules say (`ir.facts`)."""
    known: dict[Var, Atom] = {}
    seen: dict[Hashable, tuple[Var, ...]] = {}
    literals: dict[Hashable, Literal] = {}
    facts = Facts()
    equations: list[Equation] = []

    def atom(a: Atom) -> Atom:
        """The atom that replaces a; small literals of the same value are merged."""
        if isinstance(a, Var):
            return known.get(a, a)
        return literals.setdefault(a.key, a) if a.array.nbytes <= SMALL else a

    for e in graph.equations:
        e = Equation(e.primitive, tuple(map(atom, e.inputs)), e.params, e.outputs, e.source)
        if e.primitive.simplify is not None:
            found = e.primitive.simplify(e, facts)
            if not isinstance(found, Equation):
                known[e.outputs[0]] = found
                continue
            e = found
        key = (e.primitive, tuple(map(id, e.inputs)), params_key(e.params))
        if not e.primitive.effects and key in seen:
            known.update(zip(e.outputs, seen[key], strict=True))
            continue
        seen[key] = e.outputs
        facts.add(e)
        equations.append(e)
    return Graph(graph.inputs, tuple(equations), tuple(map(atom, graph.outputs)), graph.name)


def own_constants(graph: Graph) -> Graph:
    """Store values computed from constants alone where an equation reads them that cannot compute them itself."""
    made = _made_of_constants(graph)
    copies: dict[Var, Var] = {}
    equations: list[Equation] = []
    for e in graph.equations:
        if isinstance(e.primitive.lowering, Element):
            equations.append(e)
            continue
        inputs: list[Atom] = []
        for a in e.inputs:
            if isinstance(a, Var) and a in made and not isinstance(e.primitive.lowering, Reduce):
                if a not in copies:
                    copies[a] = Var(a.type)
                    equations.append(Equation(copy_p, (a,), {}, (copies[a],), e.source))
                a = copies[a]
            inputs.append(a)
        equations.append(Equation(e.primitive, tuple(inputs), e.params, e.outputs, e.source))
    return Graph(graph.inputs, tuple(equations), graph.outputs, graph.name)


def _made_of_constants(graph: Graph) -> set[Var]:
    """Values computed from constants alone, which have no memory unless a copy gives it to them."""
    made: set[Var] = set()
    for e in graph.equations:
        if (
            isinstance(e.primitive.lowering, Element)
            and not copies(e.primitive)
            and all(isinstance(a, Literal) or a in made for a in e.inputs)
        ):
            made.update(e.outputs)
    return made


def turn_products(graph: Graph) -> Graph:
    """Swap the factors of a product whose result is only read transposed; factors commute bit for bit."""
    uses: dict[Atom, int] = {}
    for e in graph.equations:
        for a in e.inputs:
            uses[a] = uses.get(a, 0) + 1
    for a in graph.outputs:
        uses[a] = uses.get(a, 0) + 1
    products = {e.outputs[0]: e for e in graph.equations if is_plain_product(e) and uses.get(e.outputs[0]) == 1}
    turned: dict[Var, Equation] = {}
    for e in graph.equations:
        axes = permutation(e)
        if axes is not None and e.inputs[0] in products:
            product = products[e.inputs[0]]  # type: ignore[index]
            if axes == _exchange(product):
                turned[e.outputs[0]] = product
    if not turned:
        return graph
    gone = {id(p) for p in turned.values()}
    equations: list[Equation] = []
    for e in graph.equations:
        if id(e) in gone:
            continue
        product = turned.get(e.outputs[0]) if e.outputs else None
        if product is None:
            equations.append(e)
            continue
        a, b = product.inputs
        params = {k: (v[1], v[0]) for k, v in product.params.items()}
        equations.append(Equation(product.primitive, (b, a), params, e.outputs, product.source))
    return Graph(graph.inputs, tuple(equations), graph.outputs, graph.name)


def _exchange(product: Equation) -> tuple[int, ...]:
    """The permutation that exchanges the free axes of a product's factors in its result."""
    (ca, cb), (ba, bb) = product.params["contract"], product.params["batch"]
    a, b = (x.type.rank for x in product.inputs)
    batch, free_a, free_b = len(ba), a - len(ca) - len(ba), b - len(cb) - len(bb)
    first, second = batch + free_a, batch + free_a + free_b
    return (*range(batch), *range(first, second), *range(batch, first))


def widen_rows(graph: Graph) -> Graph:
    """Read a matrix that is only converted for a product with one row in its own dtype: the conversion is exact."""
    computed = {v: e for e in graph.equations for v in e.outputs}
    equations: list[Equation] = []
    for e in graph.equations:
        found = _narrow_matrix(e, computed) if is_plain_product(e) and _one_row(e) else None
        if found is None:
            equations.append(e)
            continue
        matrix, moved = found
        if moved is not None:
            source, matrix = matrix, Var(TensorType(e.inputs[1].type.shape, matrix.type.dtype))
            equations.append(Equation(moved.primitive, (source,), moved.params, (matrix,), moved.source))
        params = {**e.params, "dtype": e.outputs[0].type.dtype}
        equations.append(Equation(widened_dot_p, (e.inputs[0], matrix), params, e.outputs, e.source))
    return Graph(graph.inputs, tuple(equations), graph.outputs, graph.name)


def _one_row(product: Equation) -> bool:
    """Whether a product is known to have one row, more than one column, and more than one term to sum."""
    (_, rows, summed), (_, columns, _) = dot_axes(product)
    a, b = (x.type.shape for x in product.inputs)
    sizes = [[a[k] for k in summed], [b[k] for k in columns]]
    known = all(isinstance(n, int) and n for each in sizes for n in each)
    return known and all(a[k] == 1 for k in rows) and all(any(n != 1 for n in each) for each in sizes)


def _narrow_matrix(product: Equation, computed: Mapping[Var, Equation]) -> tuple[Atom, Equation | None] | None:
    """The value from which the second factor is converted, and the permutation between the two, if there is one."""
    a, b = product.inputs
    made = computed.get(b) if isinstance(b, Var) else None
    moved = made if made is not None and permutation(made) is not None else None
    if moved is not None:
        made = computed.get(moved.inputs[0]) if isinstance(moved.inputs[0], Var) else None
    if made is None or not made.primitive.converts or not holds(a.type.dtype, made.inputs[0].type.dtype):
        return None
    return made.inputs[0], moved


def own_outputs(graph: Graph) -> Graph:
    """Copy outputs that are inputs, constants, views, or listed twice."""
    computed = {v: e for e in graph.equations for v in e.outputs}
    constant = _made_of_constants(graph)
    equations = list(graph.equations)
    outputs: list[Atom] = []
    used: set[Var] = set()
    for a in graph.outputs:
        own = isinstance(a, Var) and a in computed and a not in used and a not in constant
        if own and getattr(computed[a].primitive.lowering, "view", None) is None:  # type: ignore[index]
            used.add(a)  # type: ignore[arg-type]
            outputs.append(a)
            continue
        v = Var(a.type)
        equations.append(Equation(copy_p, (a,), {}, (v,)))
        outputs.append(v)
    return Graph(graph.inputs, tuple(equations), tuple(outputs), graph.name)
