"""From graphs to executables: simplify, fuse, lower, plan; and the executor."""

from nacre.base.hints import refuse_calls

refuse_calls(__name__)
