"""Mixed precision: how `autocast` converts the operands of operations."""
