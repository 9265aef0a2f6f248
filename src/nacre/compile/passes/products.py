"""Rewrites of products: factors in the order that the result is read in, and factors in their narrow dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nacre.base.dtypes import bfloat16, float32
from nacre.base.types import TensorType
from nacre.compile.primitives import WIDENED
from nacre.ir.axes import permutation
from nacre.ir.graph import Atom, Equation, Graph, Var
from nacre.ir.rewrite import without_dead_code
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


Converted = tuple[Atom, Equation | None]  # a value that is converted, and a permutation of the result, if any


def narrow_matrices(graph: Graph) -> Graph:
    """Read a matrix that is only converted for a product with one row in its own dtype: the conversion is exact."""

    def narrow(e: Equation, a: Converted | None, b: Converted | None) -> tuple[Converted | None, ...]:
        """The matrix, if the product can read it."""
        fits = b is not None and _one_row(e) and holds(e.inputs[0].type.dtype, b[0].type.dtype)
        return (None, b if fits else None)

    return _narrowed(graph, narrow)


def narrow_halves(graph: Graph) -> Graph:
    """Read two factors of one half type that are only converted for a product or a convolution as they are."""

    def narrow(e: Equation, a: Converted | None, b: Converted | None) -> tuple[Converted | None, ...]:
        """Both factors, if the product can read them."""
        if a is None or b is None:
            return (None, None)
        first, second = a[0].type.dtype, b[0].type.dtype
        return (a, b) if first.is_widened and sums(first, second, e.outputs[0].type.dtype) else (None, None)

    found = _narrowed_convolutions(_narrowed(graph, narrow))
    return graph if found is graph else without_dead_code(found)


def _narrowed_convolutions(graph: Graph) -> Graph:
    """The graph with convolutions, and their gradients, that read converted operands of bfloat16 as they are.

    Some processors multiply these faster.  The sizes of images must be known: other kernels read float32.
    """
    computed = {v: e for e in graph.equations for v in e.outputs}
    equations: list[Equation] = []
    for e in graph.equations:
        widened, found = WIDENED.of(e.primitive), [_converted(x, computed) for x in e.inputs]
        sources = [c[0] for c in found if c is not None and c[1] is None and c[0].type.dtype is bfloat16]
        sources = sources if e.outputs and e.outputs[0].type.dtype is float32 else []
        known = all(isinstance(n, int) for a in (*e.inputs, *e.outputs) for n in a.type.shape[1:])
        if widened is not None and known and len(sources) == len(found):
            params = {**e.params, "dtype": e.outputs[0].type.dtype}
            e = Equation(widened, tuple(sources), params, e.outputs, e.source)
        equations.append(e)
    changed = any(new is not old for new, old in zip(equations, graph.equations, strict=True))
    return Graph(graph.inputs, tuple(equations), graph.outputs, graph.name) if changed else graph


def _narrowed(
    graph: Graph, narrow: Callable[[Equation, Converted | None, Converted | None], Sequence[Converted | None]]
) -> Graph:
    """The graph with products that read some factors before their conversion."""
    computed = {v: e for e in graph.equations for v in e.outputs}
    equations: list[Equation] = []
    changed = False
    for e in graph.equations:
        plain = is_plain_product(e)
        found = narrow(e, *(_converted(x, computed) for x in e.inputs)) if plain else (None, None)
        if not any(found):
            equations.append(e)
            continue
        factors: list[Atom] = []
        for factor, converted in zip(e.inputs, found, strict=True):
            source, moved = (factor, None) if converted is None else converted
            if moved is not None:
                read = Var(TensorType(factor.type.shape, source.type.dtype))
                equations.append(Equation(moved.primitive, (source,), moved.params, (read,), moved.source))
                source = read
            factors.append(source)
        params = {**e.params, "dtype": e.outputs[0].type.dtype}
        equations.append(Equation(widened_dot_p, tuple(factors), params, e.outputs, e.source))
        changed = True
    return Graph(graph.inputs, tuple(equations), graph.outputs, graph.name) if changed else graph


def _one_row(product: Equation) -> bool:
    """Whether a product is known to have one row, more than one column, and more than one term to sum."""
    (_, rows, summed), (_, columns, _) = dot_axes(product)
    a, b = (x.type.shape for x in product.inputs)
    sizes = [[a[k] for k in summed], [b[k] for k in columns]]
    known = all(isinstance(n, int) and n for each in sizes for n in each)
    return known and all(a[k] == 1 for k in rows) and all(any(n != 1 for n in each) for each in sizes)


def _converted(x: Atom, computed: Mapping[Var, Equation]) -> Converted | None:
    """The value from which a factor is converted, and the permutation between the two, if there is one."""
    made = computed.get(x) if isinstance(x, Var) else None
    moved = made if made is not None and permutation(made) is not None else None
    if moved is not None:
        made = computed.get(moved.inputs[0]) if isinstance(moved.inputs[0], Var) else None
    return None if made is None or not made.primitive.converts else (made.inputs[0], moved)
