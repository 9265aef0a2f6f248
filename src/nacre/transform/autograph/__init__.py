"""AutoGraph: Python control flow on traced values, converted to graph control flow by a source transformation."""
