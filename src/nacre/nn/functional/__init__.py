"""The operations of neural networks as functions of tensors, all under one name.

Every composite is the explicit graph of primitives that its best fused kernel computes, so its bits do not depend on
fusion.  Half types are cast up, computed in float32, and cast down.  A function's module is loaded when its name is
first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.base.lazy import listing, loader

HOMES = {
    "activation": (
        "celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish prelu relu relu6 "
        "rrelu selu sigmoid silu softplus softshrink softsign tanh tanhshrink threshold"
    ),
    "adaptive_pooling": (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
        "adaptive_max_pool3d"
    ),
    "attention": "scaled_dot_product_attention",
    "class_losses": "cross_entropy nll_loss",
    "convolution": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "distances": "cosine_similarity pairwise_distance",
    "dropouts": "alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout",
    "grid": "affine_grid grid_sample",
    "linear_maps": "bilinear embedding embedding_bag linear one_hot",
    "margin_losses": "ctc_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss",
    "max_pooling": "max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d max_unpool3d",
    "mean_pooling": "avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d lp_pool3d",
    "normalisation": "batch_norm group_norm instance_norm layer_norm local_response_norm normalize rms_norm",
    "pair_losses": (
        "binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss gaussian_nll_loss "
        "hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss poisson_nll_loss smooth_l1_loss "
        "soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss"
    ),
    "resizing": "channel_shuffle fold interpolate pad pixel_shuffle pixel_unshuffle unfold",
    "softmaxes": "gumbel_softmax log_softmax softmax softmin",
}

__dir__ = listing(HOMES)

if TYPE_CHECKING:
    from nacre.nn.functional.activation import *
    from nacre.nn.functional.adaptive_pooling import *
    from nacre.nn.functional.attention import *
    from nacre.nn.functional.class_losses import *
    from nacre.nn.functional.convolution import *
    from nacre.nn.functional.distances import *
    from nacre.nn.functional.dropouts import *
    from nacre.nn.functional.grid import *
    from nacre.nn.functional.linear_maps import *
    from nacre.nn.functional.margin_losses import *
    from nacre.nn.functional.max_pooling import *
    from nacre.nn.functional.mean_pooling import *
    from nacre.nn.functional.normalisation import *
    from nacre.nn.functional.pair_losses import *
    from nacre.nn.functional.resizing import *
    from nacre.nn.functional.softmaxes import *
else:
    __getattr__ = loader(__name__, HOMES)
