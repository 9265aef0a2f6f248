"""Methods and attributes of other libraries: of tensors, modules and optimisers."""

from __future__ import annotations

from typing import Final

from nacre.base.porting.advice import CPU, by_name

TENSOR: Final = by_name(
    {
        "cuda pin_memory is_cuda get_device": CPU,
        "rank": "x.ndim",
        "equal": "nacre.array_equal(x, y) for one answer, x == y for one of each element",
        "is_contiguous": "Functions read every layout; leave this out",
        "split_with_sizes": "nacre.split(x, sections, axis=0)",
        "block_until_ready": "Calls return when their numbers are there; leave this out",
        "grad_fn": "x.is_leaf; `nacre explain` prints the graph of a function",
        "strides stride": "The layout is an internal matter; x.numpy().strides has it",
        "where": "nacre.where(condition, x, y)",
        "prelu hardshrink": "the function of nacre.nn.functional",
        "bernoulli multinomial": "the function of nacre or of nacre.random",
        "new": "nacre.zeros(shape, dtype=x.dtype)",
        "data_ptr storage storage_offset untyped_storage flat base flags ctypes getfield resize": "x.numpy() "
        "for an array, which has it",
        "apply_ map_": "x = f(x), with functions of nacre",
        "tobytes tofile dump dumps": "x.numpy().tobytes()",
        "itemset": "x[key] = value",
        "fill": "x[...] = value",
        "is_pinned is_shared is_meta is_sparse is_quantized device_ids xpu copy_to_host_async devices sharding "
        "addressable_shards": CPU,
        "to_sparse": "nacre.sparse.from_dense(x)",
        "to_dense indices dense_dim": "Tensors are dense; nacre.sparse has matrices that are not",
        "names names_": "Axes have no names; write their numbers",
        "is_inference": "x.requires_grad; tensors made in nacre.inference_mode are like others",
        "output_nr": "x.is_leaf; `nacre explain` prints the graph of a function",
        "_version": "Tensors do not count changes; backward raises an error if a value that it needs has changed",
        "sum_to_size": "x.sum(axis=0)",
        "eval realize ref": "x.numpy(); results are computed at once",
        "get_shape set_shape": "x.shape",
    }
)

MODULE: Final = by_name(
    {
        "cuda cpu to_empty share_memory": CPU,
        "type": "model.to(dtype)",
        "compile": "nacre.jit(model)",
        "fit": "nacre.train.Trainer(model, optimizer, loss).fit(loader)",
        "predict": "model(x) after model.eval()",
        "summary": "print(model)",
        "get_weights trainable_variables": "model.state_dict() and model.parameters()",
        "set_weights": "model.load_state_dict(state)",
        "init": "model.parameters(); a module makes its parameters when it is made",
        "reset_parameters": "model.apply(f), where f calls reset_parameters() of the layers that have parameters",
        "register_backward_hook": "model.register_full_backward_hook(hook)",
        "weights": "model.parameters()",
        "save": "nacre.save(model.state_dict(), path)",
        "load load_weights": "model.load_state_dict(nacre.load(path))",
        "save_weights": "nacre.save(model.state_dict(), path)",
        "evaluate": "nacre.train.Trainer(model, optimizer, loss).validate(loader)",
        "trainable_weights": "model.parameters()",
        "count_params num_parameters": "sum(p.size for p in model.parameters())",
        "layers": "model.children()",
        "freeze": "model.requires_grad_(False)",
        "unfreeze": "model.requires_grad_(True)",
        "xpu ipu mtia": CPU,
    }
)

OPTIMIZER: Final = by_name(
    {
        "minimize": "loss.backward() and optimizer.step()",
        "apply_gradients apply": "optimizer.step()",
        "init": "optimizer.state",
        "lr learning_rate get_lr set_lr": 'optimizer.param_groups[0]["lr"]',
        "params": 'optimizer.param_groups[0]["params"]',
    }
)
