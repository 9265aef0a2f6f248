"""Words every floor uses: errors, dtypes, sizes, types, trees, ambient state."""
