"""Well-known networks, each on one page, with the names of parameters that PyTorch's implementations have.

from nacre.examples.models import mobilenet

model = mobilenet.MobileNetV3()
model.load_state_dict(nacre.load("mobilenet_v3_large.safetensors"))
"""
