"""File formats: tensors by name as safetensors, and whole programs with their weights."""
