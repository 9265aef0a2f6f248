"""The operations of neural networks as functions of tensors; `nn.functional` holds them all."""
