"""What networks compute, as functions of tensors: `nn.functional` is all of them together."""
