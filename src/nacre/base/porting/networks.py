"""Names of other libraries for networks: layers, functions, initialisers, data, optimisers."""

from __future__ import annotations

from typing import Final

from nacre.base.porting.advice import by_name

NN: Final = by_name(
    {
        "Conv2D": "nacre.nn.Conv2d, with channels before height and width",
        "Conv1D": "nacre.nn.Conv1d, with channels before length",
        "MaxPool2D MaxPooling2D": "nacre.nn.MaxPool2d(kernel_size)",
        "Dense": "nacre.nn.Linear(in_features, out_features)",
        "BatchNorm BatchNormalization SyncBatchNorm": "nacre.nn.BatchNorm1d or nacre.nn.BatchNorm2d",
        "LayerNormalization": "nacre.nn.LayerNorm(normalized_shape)",
        "Embed": "nacre.nn.Embedding(num_embeddings, embedding_dim)",
        "DataParallel": "One process computes with all threads; leave this out",
        "LazyLinear LazyConv2d": "Layers have their sizes from the start; write "
        "nacre.nn.Linear(in_features, out_features)",
        "ReLu Relu": "nacre.nn.ReLU()",
        "Swish": "nacre.nn.SiLU()",
        "F": "nacre.nn.functional",
        "compact": "a class with __init__ and forward, derived from nacre.nn.Module",
        "clip_grad_norm": "nacre.nn.utils.clip_grad_norm_(parameters, max_norm)",
        "swish": "nacre.nn.SiLU()",
        "initializers": "nacre.nn.init",
        "parallel": "One process computes with all threads; leave this out",
        "LazyConv1d LazyBatchNorm1d LazyBatchNorm2d": "Layers have their sizes from the start; leave out Lazy",
        "NLLLoss2d": "nacre.nn.NLLLoss()",
        "Container": "nacre.nn.Sequential(*layers)",
        "CrossMapLRN2d": "nacre.nn.LocalResponseNorm(size)",
        "LazyBatchNorm3d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d "
        "LazyInstanceNorm2d LazyInstanceNorm3d": "Layers have their sizes from the start; leave out Lazy",
        "RNNBase RNNCellBase": "nacre.nn.Module",
        "UninitializedParameter UninitializedBuffer": "nacre.nn.Parameter(data)",
        "FractionalMaxPool2d FractionalMaxPool3d": "nacre.nn.MaxPool2d(kernel_size); random windows are missing",
        "LinearCrossEntropyLoss": "nacre.nn.CrossEntropyLoss() of nacre.nn.Linear(in_features, out_features)",
    }
)

UTILS: Final = by_name(
    {
        "rnn": "nacre.nn.pack_padded_sequence, nacre.nn.pad_packed_sequence or nacre.nn.pad_sequence",
        "clip_grad_norm": "nacre.nn.utils.clip_grad_norm_(parameters, max_norm)",
        "clip_grads_with_norm_ get_total_norm": "nacre.nn.utils.clip_grad_norm_(parameters, max_norm) gives the norm",
        "parametrizations parametrize": "nacre.nn.utils.weight_norm or nacre.nn.utils.spectral_norm",
        "prune": "p.data = p * mask; pruning is missing",
        "skip_init": "the layer itself",
        "stateless": "nacre.grad(f)(model); a module is a tree of its parameters",
    }
)

FUNCTIONAL: Final = by_name(
    {
        "swish": "nacre.nn.functional.silu(x)",
        "dense": "nacre.nn.functional.linear(x, weight, bias)",
        "upsample upsample_nearest": "nacre.nn.functional.interpolate(x, scale_factor=2)",
        "upsample_bilinear": 'nacre.nn.functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)',
        "multi_head_attention_forward": "nacre.nn.MultiheadAttention, or "
        "nacre.nn.functional.scaled_dot_product_attention",
        "pdist": "nacre.sqrt(nacre.sum((x[:, None] - x[None]) ** 2, axis=-1)), above its diagonal",
        "adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices "
        "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices": "the name without _with_indices, "
        "and return_indices=True",
        "fractional_max_pool2d fractional_max_pool3d": "nacre.nn.functional.max_pool2d(x, 2); windows of random sizes "
        "are missing",
        "conv_tbc": "nacre.nn.functional.conv1d(x, w)",
        "linear_cross_entropy": "nacre.nn.functional.cross_entropy(x @ weight.mT, target)",
        "grouped_mm scaled_mm scaled_grouped_mm scaled_dot_general scaled_matmul": "nacre.matmul(x, y)",
        "native_channel_shuffle": "nacre.nn.functional.channel_shuffle(x, groups)",
        "dot_product_attention": "nacre.nn.functional.scaled_dot_product_attention(q, k, v)",
        "hard_sigmoid": "nacre.nn.functional.hardsigmoid(x)",
        "hard_silu hard_swish": "nacre.nn.functional.hardswish(x)",
        "hard_tanh": "nacre.nn.functional.hardtanh(x)",
        "log_sigmoid": "nacre.nn.functional.logsigmoid(x)",
        "soft_sign": "nacre.nn.functional.softsign(x)",
        "identity": "x",
        "logmeanexp": "nacre.logsumexp(x, axis=0) - math.log(x.shape[0])",
        "log1mexp": "nacre.log(-nacre.expm1(-x))",
        "squareplus": "(x + nacre.sqrt(x * x + b)) / 2",
        "standardize": "(x - nacre.mean(x)) / nacre.std(x)",
        "relu_ elu_ leaky_relu_ threshold_ celu_ hardtanh_ rrelu_ selu_": "the name without the "
        "underscore, as nacre.nn.functional.relu(x)",
    }
)

INIT: Final = by_name(
    {
        "glorot_uniform xavier_uniform": "nacre.nn.init.xavier_uniform_(parameter)",
        "he_normal kaiming_normal": "nacre.nn.init.kaiming_normal_(parameter)",
        "lecun_normal variance_scaling": "nacre.nn.init.normal_(parameter, std=std)",
        "constant": "nacre.nn.init.constant_(parameter, value)",
        "kaiming_uniform": "nacre.nn.init.kaiming_uniform_(parameter)",
        "xavier_normal": "nacre.nn.init.xavier_normal_(parameter)",
        "orthogonal": "nacre.nn.init.orthogonal_(parameter)",
        "dirac": "nacre.nn.init.dirac_(parameter)",
        "sparse": "nacre.nn.init.sparse_(parameter, sparsity=0.1)",
        "truncated_normal": "nacre.nn.init.trunc_normal_(parameter)",
    }
)

DATA: Final = by_name(
    {
        "ChainDataset": "nacre.data.ConcatDataset(datasets)",
        "StackDataset from_tensor_slices": "nacre.data.TensorDataset(x, y)",
        "SubsetRandomSampler": "nacre.data.DataLoader(nacre.data.Subset(dataset, indices), shuffle=True)",
        "default_convert": "nacre.data.to_tensors(batch)",
        "get_worker_info worker_init_fn": "nacre.data.rng(), which does not depend on the workers",
        "transforms v2": "nacre.data.Compose and the augmentations of nacre.data",
        "ToTensor": "nacre.data.ToFloat()",
        "Lambda": "dataset.map(f)",
        "Resize ColorJitter ToPILImage": "a function of your own in dataset.map(f)",
        "MNIST CIFAR10 ImageFolder datasets": "nacre.data.TensorDataset(x, y); there are no downloads",
    }
)

OPTIM: Final = by_name(
    {
        "lr_scheduler": "the name in nacre.optim itself, as nacre.optim.CosineAnnealingLR",
        "swa_utils": "Averages of weights are missing; keep a copy of the parameters and average it under "
        "nacre.no_grad()",
        "SparseAdam ASGD Rprop Adafactor Muon": "nacre.optim.AdamW, or a class derived from nacre.optim.Optimizer",
        "LRScheduler": "a schedule of nacre.optim, as nacre.optim.LambdaLR",
        "apply_updates": "optimizer.step()",
        "chain": "nacre.optim.clip_grad_norm_(parameters, max_norm) before optimizer.step()",
        "clip_by_global_norm": "nacre.optim.clip_grad_norm_(parameters, max_norm)",
    }
)
