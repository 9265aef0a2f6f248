"""Exchange of tensors with other libraries: DLPack, memory that is used without a copy, and NumPy's functions."""
