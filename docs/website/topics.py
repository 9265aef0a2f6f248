"""The topics of the reference: each public name stands in exactly one.

A topic lists its names by namespace: "tril" below "nacre" is `nacre.tril`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from public_names import Part, spaces


class TopicError(Exception):
    """A public name in no topic or in several, or a name of a topic that is not public."""


@dataclass(frozen=True)
class Topic:
    """A page of the reference: its file, its title, an introduction, and its names by namespace."""

    stem: str
    title: str
    introduction: str
    listed: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """Its names in full, in the order in which the page shows them."""
        return tuple(f"{space}.{name}" for space, names in self.listed.items() for name in names.split())

    def part(self) -> Part:
        """The page that shows them."""
        return Part(self.title, self.introduction, self.names)


@dataclass(frozen=True)
class Group:
    """Topics that stand together in the index of the reference."""

    title: str
    topics: tuple[Topic, ...]


TENSORS = Group(
    "Tensors",
    (
        Topic(
            "tensor",
            "Tensor",
            "The tensor type, and the variable that a module keeps its parameters in.",
            {"nacre": "Tensor Variable"},
        ),
        Topic(
            "creation",
            "Creation",
            "Functions that make tensors from numbers, from arrays and from other tensors.",
            {
                "nacre": "tensor asarray from_dlpack arange linspace zeros ones full empty eye zeros_like "
                "ones_like full_like empty_like tril triu meshgrid e inf nan newaxis pi"
            },
        ),
        Topic(
            "dtypes",
            "Element types",
            "Element types, their limits, and conversion between them.",
            {
                "nacre": "DType float32 float64 float16 bfloat16 complex64 complex128 bool int8 int16 int32 int64 "
                "uint8 uint16 uint32 uint64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu "
                "float4_e2m1fn int4 uint4 int2 uint2 astype bitcast result_type can_cast isdtype finfo iinfo"
            },
        ),
        Topic(
            "pointwise",
            "Pointwise",
            "Functions that compute each element by itself.  Operands broadcast.",
            {
                "nacre": "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert "
                "bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor cbrt ceil clip copysign cos cosh "
                "divide equal erf erfc exp exp2 expm1 floor floor_divide fma greater greater_equal hypot isfinite "
                "isinf isnan less less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or "
                "logical_xor maximum minimum multiply nan_to_num negative nextafter not_equal positive pow reciprocal "
                "remainder round rsqrt sigmoid sign signbit sin sinh sqrt square subtract tan tanh trunc where "
                "isclose allclose array_equal lerp deg2rad rad2deg div fmod fmax fmin"
            },
        ),
        Topic(
            "complex_numbers",
            "Complex numbers",
            "Complex numbers and their parts.",
            {"nacre": "complex polar real imag conj angle view_as_real view_as_complex"},
        ),
        Topic(
            "reductions",
            "Reductions",
            "Functions that reduce some axes, or accumulate along one.",
            {
                "nacre": "sum prod mean std var max min argmax argmin all any count_nonzero logsumexp cumulative_sum "
                "cumulative_prod diff amax amin cummax cummin logcumsumexp nansum nanprod nanmean nanvar nanstd nanmax "
                "nanmin nanargmax nanargmin nancumsum nancumprod"
            },
        ),
        Topic(
            "statistics",
            "Statistics",
            "Medians, quantiles, counts in bins, covariances, and interpolation between points.",
            {
                "nacre": "median quantile percentile mode nanmedian nanquantile nanpercentile bincount digitize "
                "bucketize histogram histogram2d histogramdd histogram_bin_edges histc average cov corrcoef interp"
            },
        ),
        Topic(
            "linear_algebra",
            "Linear algebra",
            "Products of vectors, matrices and tensors, factorisations, eigenvalues, linear systems and norms.",
            {
                "nacre": "matmul einsum tensordot vecdot outer dot inner matrix_transpose kron diag diagonal diagflat "
                "diag_embed block_diag",
                "nacre.linalg": "cholesky lu qr eig eigh eigvals eigvalsh svd svdvals solve "
                "solve_triangular lstsq pinv inv det slogdet matrix_rank cond matrix_power expm multi_dot "
                "norm vector_norm matrix_norm diagonal trace cross matmul tensordot vecdot outer matrix_transpose",
            },
        ),
        Topic(
            "sparse",
            "Sparse matrices",
            "Matrices by rows that store few of their numbers, and their products with dense tensors.",
            {"nacre.sparse": "CSR csr from_scipy from_dense"},
        ),
        Topic(
            "special",
            "Special functions",
            "Functions of the gamma, beta, error and Bessel functions, and of logarithms, by SciPy's names.",
            {
                "nacre.special": "gammaln lgamma gamma digamma psi polygamma zeta betaln beta multigammaln gammainc "
                "gammaincc betainc erf erfc erfcx erfinv erfcinv ndtr log_ndtr ndtri i0 i0e i1 i1e entr rel_entr "
                "kl_div logit expit logsumexp xlogy xlog1py log1p expm1 exp2 sinc"
            },
        ),
        Topic(
            "fourier",
            "Fourier transforms",
            "Discrete Fourier transforms of complex and real numbers along one or several axes.",
            {
                "nacre.fft": "fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn fft2 ifft2 rfft2 irfft2 fftfreq "
                "rfftfreq fftshift ifftshift"
            },
        ),
        Topic(
            "shapes",
            "Shapes and indexing",
            "Functions that change shapes, join and split tensors, select and sort.",
            {
                "nacre": "reshape flatten squeeze expand_dims broadcast_to broadcast_arrays broadcast_shapes "
                "permute_dims moveaxis swapaxes flip roll concat stack split unstack repeat tile pad index "
                "index_update take take_along_axis take_along_dim dynamic_slice dynamic_update_slice sort argsort topk "
                "nonzero searchsorted isin unique_values unique_counts unique_inverse unique_all gather index_select "
                "masked_fill masked_select argwhere flatnonzero narrow repeat_interleave atleast_1d atleast_2d "
                "atleast_3d hstack vstack dstack column_stack sliding_window_view"
            },
        ),
        Topic(
            "updates",
            "Updates and segments",
            "Functions that store, add and reduce at indices, and reductions of rows by their segments.",
            {
                "nacre": "IndexUpdate scatter scatter_add scatter_reduce index_add index_copy index_fill segment_sum "
                "segment_prod segment_mean segment_max segment_min"
            },
        ),
        Topic(
            "random",
            "Random numbers",
            "Random numbers, by key or from the default generator.",
            {
                "nacre.random": "seed key split normal uniform randint bernoulli bits exponential laplace logistic "
                "gumbel cauchy truncated_normal multivariate_normal gamma beta "
                "dirichlet student_t von_mises poisson binomial multinomial geometric categorical choice permutation "
                "Generator generator"
            },
        ),
        Topic(
            "trees",
            "Containers of tensors",
            "Trees: nested tuples, lists and dictionaries of tensors.",
            {"nacre.tree": "map leaves flatten unflatten structure"},
        ),
    ),
)

PROGRAMS = Group(
    "Programs",
    (
        Topic(
            "transforms",
            "Transforms",
            "Derivatives, batching and compilation of functions.",
            {
                "nacre": "grad value_and_grad vjp jvp jacrev jacfwd hessian hvp custom_jvp custom_vjp check_grads "
                "derivative_graph vmap jit checkpoint Dim transform.jit.Jitted transform.concrete.ConcreteFunction "
                "transform.concrete.Cost transform.concrete.Memory"
            },
        ),
        Topic(
            "solvers",
            "Solvers",
            "Equations, linear systems, fixed points and minima, with derivatives of their solutions.",
            {"nacre.optimize": "root root_scalar fixed_point minimize linear_solve Solution"},
        ),
        Topic(
            "graphs",
            "Graphs",
            "Computations as values: traced or written by hand, run in part, cut, changed and saved.",
            {"nacre": "Graph placeholder name formats.values.GraphNode"},
        ),
        Topic(
            "autograd",
            "Recorded gradients",
            "Backward passes over recorded operations, and operations with a custom derivative, as in PyTorch.",
            {"nacre.autograd": "grad backward Function once_differentiable"},
        ),
        Topic(
            "control_flow",
            "Control flow",
            "Branches and loops inside of compiled functions, and calls of Python.",
            {"nacre": "cond switch while_loop fori_loop scan map associative_scan set_loop_options host_call"},
        ),
        Topic(
            "extending",
            "Extensions",
            "Operations, kernels and compiler passes that are defined outside of the package.",
            {"nacre": "kernel prange pairwise_sum primitive register_kernel register_pass"},
        ),
    ),
)

LAYERS = Group(
    "Neural networks",
    (
        Topic(
            "modules",
            "Modules and containers",
            "The base class of layers, parameters, and containers of layers.",
            {
                "nacre.nn": "Module Parameter Buffer Sequential ModuleList ModuleDict ParameterList ParameterDict "
                "Identity"
            },
        ),
        Topic(
            "linear_layers",
            "Linear and embedding layers",
            "Dense layers, embeddings, and layers that only reshape.",
            {"nacre.nn": "Linear Bilinear Embedding EmbeddingBag Flatten Unflatten"},
        ),
        Topic(
            "convolution_layers",
            "Convolution layers",
            "Convolutions and their transposes over one to three axes.",
            {"nacre.nn": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Fold Unfold"},
        ),
        Topic(
            "pooling_layers",
            "Pooling layers",
            "Maxima, means and norms over windows.",
            {
                "nacre.nn": "MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d AdaptiveMaxPool1d "
                "AdaptiveMaxPool2d AdaptiveMaxPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d LPPool1d "
                "LPPool2d LPPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d"
            },
        ),
        Topic(
            "padding_layers",
            "Padding and resampling layers",
            "Layers that pad, resize and rearrange images.",
            {
                "nacre.nn": "ZeroPad1d ZeroPad2d ZeroPad3d ConstantPad1d ConstantPad2d ConstantPad3d "
                "ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d "
                "CircularPad1d CircularPad2d CircularPad3d Upsample UpsamplingNearest2d UpsamplingBilinear2d "
                "PixelShuffle PixelUnshuffle ChannelShuffle"
            },
        ),
        Topic(
            "activation_layers",
            "Activation layers",
            "Nonlinear functions as layers.",
            {
                "nacre.nn": "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid "
                "LogSoftmax Mish PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmax2d Softmin Softplus "
                "Softshrink Softsign Tanh Tanhshrink Threshold AdaptiveLogSoftmaxWithLoss"
            },
        ),
        Topic(
            "normalisation_layers",
            "Normalisation and dropout layers",
            "Layers that normalise, and layers that drop elements while training.",
            {
                "nacre.nn": "BatchNorm1d BatchNorm2d BatchNorm3d LayerNorm RMSNorm GroupNorm InstanceNorm1d "
                "InstanceNorm2d InstanceNorm3d LocalResponseNorm Dropout Dropout1d Dropout2d Dropout3d AlphaDropout "
                "FeatureAlphaDropout"
            },
        ),
        Topic(
            "recurrent_layers",
            "Recurrent layers",
            "Recurrent networks, and sequences of several lengths.",
            {
                "nacre.nn": "RNN LSTM GRU RNNCell LSTMCell GRUCell PackedSequence pack_padded_sequence "
                "pad_packed_sequence pack_sequence unpack_sequence pad_sequence unpad_sequence"
            },
        ),
        Topic(
            "attention_layers",
            "Attention and transformer layers",
            "Attention, and the layers of a transformer.",
            {
                "nacre.nn": "MultiheadAttention Transformer TransformerEncoder TransformerEncoderLayer "
                "TransformerDecoder TransformerDecoderLayer"
            },
        ),
        Topic(
            "losses",
            "Losses",
            "Losses as layers.  [Functions](functional_losses.md) compute the same.",
            {
                "nacre.nn": "CrossEntropyLoss NLLLoss BCELoss BCEWithLogitsLoss MSELoss L1Loss SmoothL1Loss "
                "HuberLoss KLDivLoss GaussianNLLLoss PoissonNLLLoss CTCLoss CosineEmbeddingLoss HingeEmbeddingLoss "
                "MarginRankingLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss SoftMarginLoss "
                "TripletMarginLoss TripletMarginWithDistanceLoss CosineSimilarity PairwiseDistance"
            },
        ),
    ),
)

FUNCTIONS = Group(
    "Layers as functions",
    (
        Topic(
            "functional_activations",
            "Functional: activations and dropout",
            "Activations and dropout as functions.",
            {
                "nacre": "softmax log_softmax relu",
                "nacre.nn.functional": "celu elu gelu glu gumbel_softmax hardshrink hardsigmoid hardswish hardtanh "
                "leaky_relu log_softmax logsigmoid mish prelu relu relu6 rrelu selu sigmoid silu softmax softmin "
                "softplus softshrink softsign tanh tanhshrink threshold dropout dropout1d dropout2d dropout3d "
                "alpha_dropout feature_alpha_dropout",
            },
        ),
        Topic(
            "functional_layers",
            "Functional: layers",
            "What the other layers compute, as functions.",
            {
                "nacre.nn.functional": "linear bilinear embedding embedding_bag one_hot conv1d conv2d conv3d "
                "conv_transpose1d conv_transpose2d conv_transpose3d fold unfold max_pool1d max_pool2d max_pool3d "
                "avg_pool1d avg_pool2d avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d "
                "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d lp_pool1d lp_pool2d lp_pool3d "
                "max_unpool1d max_unpool2d max_unpool3d pad interpolate pixel_shuffle pixel_unshuffle "
                "channel_shuffle affine_grid grid_sample batch_norm layer_norm rms_norm group_norm instance_norm "
                "local_response_norm normalize scaled_dot_product_attention"
            },
        ),
        Topic(
            "functional_losses",
            "Functional: losses",
            "Losses and distances as functions.",
            {
                "nacre.nn.functional": "cross_entropy nll_loss binary_cross_entropy "
                "binary_cross_entropy_with_logits mse_loss l1_loss smooth_l1_loss huber_loss kl_div "
                "gaussian_nll_loss poisson_nll_loss ctc_loss cosine_embedding_loss hinge_embedding_loss "
                "margin_ranking_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss "
                "soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss cosine_similarity "
                "pairwise_distance"
            },
        ),
        Topic(
            "initialisation",
            "Initialisation and parameters",
            "Functions that initialise parameters, and functions of all parameters of a model.",
            {
                "nacre.nn.init": "calculate_gain fans constant_ zeros_ ones_ eye_ dirac_ uniform_ normal_ "
                "trunc_normal_ xavier_uniform_ xavier_normal_ kaiming_uniform_ kaiming_normal_ orthogonal_ sparse_ "
                "copy_",
                "nacre.nn.utils": "clip_grad_norm_ clip_grad_value_ parameters_to_vector vector_to_parameters "
                "weight_norm remove_weight_norm spectral_norm remove_spectral_norm",
            },
        ),
    ),
)

TRAINING = Group(
    "Training",
    (
        Topic(
            "optimisers",
            "Optimisers",
            "Optimisers, their parameter groups, loss scaling, and gradient clipping.",
            {
                "nacre.optim": "SGD Adam AdamW Adadelta Adagrad Adamax LAMB LBFGS Lion NAdam RAdam RMSprop "
                "Optimizer ParameterGroup functional FunctionalOptimizer GradScaler clip_grad_norm_ clip_grad_value_"
            },
        ),
        Topic(
            "schedules",
            "Schedules",
            "Learning rates that change over steps.",
            {
                "nacre.optim": "Schedule StepLR MultiStepLR ConstantLR LinearLR ExponentialLR PolynomialLR "
                "CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR OneCycleLR LambdaLR MultiplicativeLR "
                "ReduceLROnPlateau ChainedScheduler SequentialLR warm_up"
            },
        ),
        Topic(
            "data",
            "Datasets and loaders",
            "Datasets, samplers, loaders, and tables.",
            {
                "nacre.data": "Dataset IterableDataset TensorDataset SequenceDataset Streamed Subset ConcatDataset "
                "random_split DataLoader default_collate to_tensors ItemError Sampler SequentialSampler "
                "RandomSampler WeightedRandomSampler BatchSampler DistributedSampler permutation rng ArrowDataset "
                "ParquetStream read_arrow read_csv read_parquet"
            },
        ),
        Topic(
            "augmentation",
            "Augmentation",
            "Functions that change the items of a dataset, most of them at random.",
            {
                "nacre.data": "Compose OnInput ToFloat Normalize CenterCrop RandomCrop Pad RandomHorizontalFlip "
                "RandomVerticalFlip RandomRotation RandomWindow Cutout MixUp TokenMasking"
            },
        ),
        Topic(
            "training",
            "Training loop",
            "The training loop, its checkpoints, metrics and logs.",
            {
                "nacre.train": "Trainer EarlyStopping History Means accuracy top Interrupted Checkpoint Checkpoints "
                "DamagedCheckpoint read restore_model Writer Csv JsonLines read_json_lines MLflow TensorBoard"
            },
        ),
    ),
)

TOOLS = Group(
    "Tools",
    (
        Topic(
            "saving",
            "Saving and formats",
            "Files of tensors and of graphs.",
            {"nacre": "save load freeze save_program load_program"},
        ),
        Topic(
            "deployment", "Deployment", "Programs compiled ahead of time.", {"nacre.deploy": "compile Deployed KINDS"}
        ),
        Topic(
            "inspection",
            "Inspection",
            "What a program is compiled to, how long it takes, whether bits agree, and what its numbers are.",
            {
                "nacre": "detect_anomalies",
                "nacre.inspect": "ranges RangeTable RangeRow precision Precision LostDigits "
                "explain.explain explain.Explanation profile.profile profile.Profile profile.Row "
                "bits.measure bits.digest timing.interleaved timing.Times ceilings.ceilings ceilings.Ceilings "
                "roofline.chart machine.facts machine.checks machine.Check machine.cached machine.Kept "
                "tape.tape_memory tape.TapeMemory tape.TapeRow tape.source_lines",
            },
        ),
        Topic(
            "settings",
            "Errors and settings",
            "Settings of the process, printing, and the errors that Nacre raises.",
            {
                "nacre": "no_grad enable_grad set_grad_enabled is_grad_enabled inference_mode "
                "is_inference_mode_enabled numerics autocast autocast_policy get_autocast_dtype get_threads "
                "set_threads set_memory_limit "
                "empty_cache printoptions set_printoptions Error AnomalyError ArgumentError AxisError CompileError "
                "ConvergenceError DTypeError DepthError DeviceError ExchangeError FailedAssertion ForbiddenFile "
                "GradientError GraphError KindError LinAlgError MissingAttribute "
                "MissingExtra MissingFile MissingKey OutOfMemory ShapeError StateError TraceError UnexpectedFile "
                "UnexpectedFolder"
            },
        ),
    ),
)

GROUPS = (TENSORS, PROGRAMS, LAYERS, FUNCTIONS, TRAINING, TOOLS)


def topics() -> Iterator[Topic]:
    """All topics in order."""
    return (topic for group in GROUPS for topic in group.topics)


def check(public: Iterable[str], shown: Iterable[Topic]) -> None:
    """Raise TopicError unless each public name stands in one topic, and each name of a topic is public."""
    counts = Counter(name for topic in shown for name in topic.names)
    wanted = set(public)
    faults = {
        "in no topic": sorted(wanted - set(counts)),
        "in several topics": sorted(name for name, count in counts.items() if count > 1),
        "not public": sorted(set(counts) - wanted),
    }
    if said := "; ".join(f"{', '.join(names)}: {fault}" for fault, names in faults.items() if names):
        raise TopicError(f"docs/website/topics.py: each public name stands in one topic; {said}")


def checked() -> tuple[Group, ...]:
    """The groups of topics, after a check against the public names."""
    check((name for space in spaces() for part in space.parts for name in part.names), topics())
    return GROUPS
