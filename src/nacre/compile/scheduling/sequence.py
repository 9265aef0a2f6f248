"""The order of nodes: a product and its fused epilogue are placed as soon as the inputs of both are ready.

An optimiser's update is the epilogue of the product that computes a gradient, and comes last in the graph.  There, it
would keep both factors of every product alive until the end.  Placed at the product, after other readers of the old
weights, it frees the factors, and the new weights overwrite the old.
"""

from __future__ import annotations

from nacre.compile.fusion.gemm_epilogue import Finishing, readers
from nacre.compile.fusion.graph import Node, current
from nacre.compile.fusion.materialisation import Fusion


def sequence(fusion: Fusion, finishing: Finishing) -> list[Node]:
    """The nodes in order; an epilogue moves up to its product, which is not listed itself."""
    epilogue_of = {product: node for node, (product, _) in finishing.items()}
    waits = _waits(fusion, finishing)
    followers: dict[Node, list[Node]] = {}
    for node, needed in waits.items():
        for n in needed:
            followers.setdefault(n, []).append(node)
    order: dict[Node, None] = {}

    def done(node: Node) -> None:
        """Record that a node is written, or a product's place passed, and write the epilogues that waited for it."""
        todo = [node]
        while todo:
            n = todo.pop()
            if n not in epilogue_of:
                if n in order:
                    continue
                order[n] = None
            for follower in followers.get(n, ()):
                waits[follower].discard(n)
                if not waits[follower]:
                    todo.append(follower)

    for node in _numbers(fusion):
        done(node)
    for node in fusion.nodes:
        done(node)
    return list(order)


def _waits(fusion: Fusion, finishing: Finishing) -> dict[Node, set[Node]]:
    """The nodes that each epilogue waits for: its product, inputs of both, and readers of values that it may overwrite.

    A barrier must follow each of these readers; the first node that depends on the reader brings it.
    """
    read = readers(fusion)
    place = {n: k for k, n in enumerate(fusion.nodes)}
    epilogue_of = {product: node for node, (product, _) in finishing.items()}
    given = set(fusion.graph.inputs)
    found: dict[Node, set[Node]] = {}
    for node, (product, _) in finishing.items():
        changed = given.intersection(x for e in node.equations for x in e.inputs)
        over = {n for x in changed for n in read[x]} - {node, product}
        if None in over:
            continue
        needed = {product, *current(node.before), *current(product.before)}
        for n in over:
            assert n is not None
            behind = current(epilogue_of.get(n, n).after) - {node}
            needed |= {n, *sorted(behind, key=place.__getitem__)[:1]}
        found[node] = {product} | {epilogue_of.get(n, n) for n in needed - {product}} - {node}
    return found


def _numbers(fusion: Fusion) -> list[Node]:
    """Nodes of scalars that depend only on scalars: cheap, with many readers."""
    found: dict[Node, None] = {}
    for node in fusion.nodes:
        if node.domain == () and current(node.before) <= found.keys():
            found[node] = None
    return list(found)
