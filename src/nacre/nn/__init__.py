"""Neural networks: modules and layers, the same operations as functions (`functional`), and initialisers (`init`).

A name's module is loaded when the name is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.base.lazy import listing, loader

HOMES = {
    "functional": "",
    "init": "",
    "module": "Module",
    "modules.activation": (
        "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish PReLU RReLU ReLU ReLU6 "
        "SELU SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink Threshold"
    ),
    "modules.adaptive_pooling": (
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d"
    ),
    "modules.adaptive_softmax": "AdaptiveLogSoftmaxWithLoss",
    "modules.attention": "MultiheadAttention",
    "modules.class_losses": "CrossEntropyLoss NLLLoss",
    "modules.containers": "ModuleDict ModuleList ParameterDict ParameterList Sequential",
    "modules.convolution": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "modules.distances": "CosineSimilarity PairwiseDistance",
    "modules.dropouts": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "modules.linear_maps": "Bilinear Embedding EmbeddingBag Flatten Identity Linear Unflatten",
    "modules.margin_losses": "CTCLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss",
    "modules.max_pooling": "MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d",
    "modules.mean_pooling": "AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d LPPool3d",
    "modules.normalisation": (
        "BatchNorm1d BatchNorm2d BatchNorm3d GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm "
        "LocalResponseNorm RMSNorm"
    ),
    "modules.pair_losses": (
        "BCELoss BCEWithLogitsLoss CosineEmbeddingLoss GaussianNLLLoss HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss "
        "MSELoss MarginRankingLoss PoissonNLLLoss SmoothL1Loss SoftMarginLoss TripletMarginLoss "
        "TripletMarginWithDistanceLoss"
    ),
    "modules.recurrent": "GRU GRUCell LSTM LSTMCell RNN RNNCell",
    "modules.resizing": (
        "ChannelShuffle CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d Fold "
        "PixelShuffle PixelUnshuffle ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d "
        "ReplicationPad2d ReplicationPad3d Unfold Upsample UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d "
        "ZeroPad2d ZeroPad3d"
    ),
    "modules.softmaxes": "LogSoftmax Softmax Softmax2d Softmin",
    "modules.transformer": (
        "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer"
    ),
    "parameter": "Buffer Parameter",
    "sequences": (
        "PackedSequence pack_padded_sequence pack_sequence pad_packed_sequence pad_sequence unpack_sequence "
        "unpad_sequence"
    ),
    "utils": "",
}

__dir__ = listing(HOMES)

if TYPE_CHECKING:
    from nacre.nn import functional as functional
    from nacre.nn import init as init
    from nacre.nn import utils as utils
    from nacre.nn.module import *
    from nacre.nn.modules.activation import *
    from nacre.nn.modules.adaptive_pooling import *
    from nacre.nn.modules.adaptive_softmax import *
    from nacre.nn.modules.attention import *
    from nacre.nn.modules.class_losses import *
    from nacre.nn.modules.containers import *
    from nacre.nn.modules.convolution import *
    from nacre.nn.modules.distances import *
    from nacre.nn.modules.dropouts import *
    from nacre.nn.modules.linear_maps import *
    from nacre.nn.modules.margin_losses import *
    from nacre.nn.modules.max_pooling import *
    from nacre.nn.modules.mean_pooling import *
    from nacre.nn.modules.normalisation import *
    from nacre.nn.modules.pair_losses import *
    from nacre.nn.modules.recurrent import *
    from nacre.nn.modules.resizing import *
    from nacre.nn.modules.softmaxes import *
    from nacre.nn.modules.transformer import *
    from nacre.nn.parameter import *
    from nacre.nn.sequences import *
else:
    __getattr__ = loader(__name__, HOMES)
