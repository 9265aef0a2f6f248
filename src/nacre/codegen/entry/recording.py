"""The rules by which native entries record: the table of an entry, filled by its fallback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from nacre.codegen.entry.layouts import NodeRule
from nacre.interpret.pullback import NoRule, Rule
from nacre.interpret.tape import active_operands
from nacre.native.records import pack
from nacre.runtime.tables import memory_of
from nacre.trace.value import Value, is_concrete

MOST: Final = 6  # operands of an operation that native code records


class Recording:
    """How an operation with one result is recorded, for each set of operands with nodes.

    `rule_for(active)` derives the rule if these operands have nodes; None if no node is needed.  It may raise NoRule.
    """

    def __init__(self, operands: int, rule_for: Callable[[tuple[int, ...]], Rule | None]) -> None:
        self.operands, self.rule_for = operands, rule_for
        self.table = np.zeros(1 << operands, np.int64)
        self.referenced: list[Any] = []

    def learn(self, inputs: Sequence[Value]) -> None:
        """Add the rule for the operands that have nodes in these inputs."""
        active = active_operands(inputs, 0)
        mask = 0
        for k in active:
            mask |= 1 << k
        if not mask or self.table[mask] or any(x.node is not None and x.node.level for x in inputs):
            return
        if all(map(is_concrete, inputs)):
            try:
                rule = self.rule_for(active)
            except NoRule:  # Python records these calls
                return
            written = memory_of(pack(NodeRule)) if rule is None else _written(rule)
            self.referenced += [rule, written]
            self.table[mask] = written.ctypes.data

    def fallback(self, general: Callable[..., Any]) -> Callable[..., Any]:
        """The operation on any operands, for an entry with this recording; it learns the rules of new sets."""

        def learning(*inputs: Value) -> Any:
            """Run the operation in Python, and learn the rule."""
            result = general(*inputs)
            self.learn(inputs)
            return result

        return learning


def _written(rule: Rule) -> np.ndarray:
    """What a rule says about nodes, as native code reads it."""
    head = pack(
        NodeRule,
        rule=id(rule),
        parent_count=len(rule.active),
        saved_count=len(rule.saved),
        keeps_result=int(rule.keeps_results),
    )
    return memory_of(head, np.array([*rule.active, *rule.saved], np.int64).tobytes())
