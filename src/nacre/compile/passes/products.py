"""Rewrites of matrix products: factors in the order that the result is read in, and matrices in their narrow dtype."""

from __future__ import annotations

from collections.abc import Mapping

from nacre.base.types import TensorType
from nacre.ir.axes import permutation
from nacre.ir.graph import Atom, Equation, Graph, Var
from nacre.ops.dot import dot_axes, holds, is_plain_product, sums, widened_dot_p


def swap_factors(graph: Graph) -> Graph:
    """Swap the factors of a product whose result is only read transposed; factors commute bit for bit."""
    uses: dict[Atom, int] = {}
    for e in graph.equations:
        for a in e.inputs:
            uses[a] = uses.get(a, 0) + 1
    for a in graph.outputs:
        uses[a] = uses.get(a, 0) + 1
    products = {e.outputs[0]: e for e in graph.equations if is_plain_product(e) and uses.get(e.outputs[0]) == 1}
    swapped: dict[Var, Equation] = {}
    for e in graph.equations:
        axes = permutation(e)
        if axes is not None and e.inputs[0] in products:
            product = products[e.inputs[0]]  # type: ignore[index]
            if axes == _exchange(product):
                swapped[e.outputs[0]] = product
    if not swapped:
        return graph
    gone = {id(p) for p in swapped.values()}
    equations: list[Equation] = []
    for e in graph.equations:
        if id(e) in gone:
            continue
        product = swapped.get(e.outputs[0]) if e.outputs else None
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


def narrow_factors(graph: Graph) -> Graph:
    """Read factors that are only converted for a product in their own dtype: the conversion is exact.

    They are the matrix of a product with one row, or both factors of a product, of one half type.
    """
    computed = {v: e for e in graph.equations for v in e.outputs}
    equations: list[Equation] = []
    for e in graph.equations:
        found = _narrow(e, computed) if is_plain_product(e) else (None, None)
        if found == (None, None):
            equations.append(e)
            continue
        factors: list[Atom] = []
        for factor, narrow in zip(e.inputs, found, strict=True):
            source, moved = (factor, None) if narrow is None else narrow
            if moved is not None:
                read = Var(TensorType(factor.type.shape, source.type.dtype))
                equations.append(Equation(moved.primitive, (source,), moved.params, (read,), moved.source))
                source = read
            factors.append(source)
        params = {**e.params, "dtype": e.outputs[0].type.dtype}
        equations.append(Equation(widened_dot_p, tuple(factors), params, e.outputs, e.source))
    return Graph(graph.inputs, tuple(equations), graph.outputs, graph.name)


Narrow = tuple[Atom, Equation | None]  # a value that is converted for a product, and a permutation behind that, if any


def _narrow(product: Equation, computed: Mapping[Var, Equation]) -> tuple[Narrow | None, Narrow | None]:
    """What factors are converted from where the product can read that; None for those read as they are."""
    a, b = product.inputs
    first, second = (_converted(x, computed) for x in (a, b))
    if second is None:
        return None, None
    narrow = second[0].type.dtype
    if first is not None and narrow.is_widened and sums(first[0].type.dtype, narrow, a.type.dtype):
        return first, second
    return (None, second) if _one_row(product) and holds(a.type.dtype, narrow) else (None, None)


def _one_row(product: Equation) -> bool:
    """Whether a product is known to have one row, more than one column, and more than one term to sum."""
    (_, rows, summed), (_, columns, _) = dot_axes(product)
    a, b = (x.type.shape for x in product.inputs)
    sizes = [[a[k] for k in summed], [b[k] for k in columns]]
    known = all(isinstance(n, int) and n for each in sizes for n in each)
    return known and all(a[k] == 1 for k in rows) and all(any(n != 1 for n in each) for each in sizes)


def _converted(x: Atom, computed: Mapping[Var, Equation]) -> Narrow | None:
    """The value from which a factor is converted, and the permutation between the two, if there is one."""
    made = computed.get(x) if isinstance(x, Var) else None
    moved = made if made is not None and permutation(made) is not None else None
    if moved is not None:
        made = computed.get(moved.inputs[0]) if isinstance(moved.inputs[0], Var) else None
    return None if made is None or not made.primitive.converts else (made.inputs[0], moved)
