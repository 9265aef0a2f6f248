"""Data: datasets, loaders that prepare batches ahead of time and can resume, augmentation, tables."""

from nacre.base.boundary import publish_all
from nacre.data.arrow import ArrowDataset, ParquetStream, read_arrow, read_csv, read_parquet
from nacre.data.augment import (
    CenterCrop,
    Compose,
    Cutout,
    MixUp,
    Normalize,
    OnInput,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomRotation,
    RandomVerticalFlip,
    RandomWindow,
    ToFloat,
    TokenMasking,
)
from nacre.data.collate import default_collate, to_tensors
from nacre.data.dataset import (
    ConcatDataset,
    Dataset,
    IterableDataset,
    SequenceDataset,
    Streamed,
    Subset,
    TensorDataset,
    random_split,
)
from nacre.data.loader import DataLoader
from nacre.data.randomness import permutation, rng
from nacre.data.sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    WeightedRandomSampler,
)
from nacre.data.worker import ItemError

__all__ = [
    "ArrowDataset",
    "BatchSampler",
    "CenterCrop",
    "Compose",
    "ConcatDataset",
    "Cutout",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "ItemError",
    "IterableDataset",
    "MixUp",
    "Normalize",
    "OnInput",
    "Pad",
    "ParquetStream",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomRotation",
    "RandomSampler",
    "RandomVerticalFlip",
    "RandomWindow",
    "Sampler",
    "SequenceDataset",
    "SequentialSampler",
    "Streamed",
    "Subset",
    "TensorDataset",
    "ToFloat",
    "TokenMasking",
    "WeightedRandomSampler",
    "default_collate",
    "permutation",
    "random_split",
    "read_arrow",
    "read_csv",
    "read_parquet",
    "rng",
    "to_tensors",
]

publish_all(__name__, __all__)
