"""Methods and attributes of other libraries: of tensors, modules and optimisers."""

from __future__ import annotations

from typing import Final

from nacre.base.porting.advice import ADD_ROWS, CPU, by_name

TENSOR: Final = by_name(
    {
        "cuda cpu pin_memory is_cuda get_device": CPU,
        "to": "x.astype(dtype) for a dtype; there is no GPU, so leave a device out",
        "float": "x.astype(nacre.float32)",
        "double": "x.astype(nacre.float64)",
        "half": "x.astype(nacre.float16)",
        "long": "x.astype(nacre.int64)",
        "int": "x.astype(nacre.int32)",
        "bool": "x.astype(nacre.bool)",
        "bfloat16": "x.astype(nacre.bfloat16)",
        "type_as": "x.astype(y.dtype)",
        "unsqueeze": "nacre.expand_dims(x, axis=0), or x[None]",
        "expand": "nacre.broadcast_to(x, shape)",
        "expand_as": "nacre.broadcast_to(x, y.shape)",
        "view_as reshape_as": "x.reshape(y.shape)",
        "ravel": "x.flatten()",
        "t": "x.T",
        "H": "x.mT",
        "dim ndimension rank": "x.ndim",
        "numel nelement": "x.size",
        "clone copy": "copy.copy(x) for a tensor to write to; operations never change a tensor",
        "contiguous is_contiguous": "Functions read every layout; leave this out",
        "new_zeros": "nacre.zeros(shape, dtype=x.dtype)",
        "new_ones": "nacre.ones(shape, dtype=x.dtype)",
        "new_full": "nacre.full(shape, value, dtype=x.dtype)",
        "new_tensor": "nacre.tensor(data, dtype=x.dtype)",
        "at": f"nacre.index_update(x, key, value) for at[key].set(value), and {ADD_ROWS} for at[i].add(v); "
        "n is x.shape[0]",
        "index_add_ scatter_add_": f"x = {ADD_ROWS}, which adds the rows of v at i; n is x.shape[0]",
        "split_with_sizes": "nacre.split(x, sections, axis=0)",
        "block_until_ready": "Calls return when their numbers are there; leave this out",
        "grad_fn": "x.is_leaf; `nacre explain` prints the graph of a function",
        "itemsize element_size": "x.nbytes // x.size",
        "strides stride": "The layout is an internal matter; x.numpy().strides has it",
        "where": "nacre.where(condition, x, y)",
        "softmax": "nacre.nn.functional.softmax(x, dim=-1)",
        "log_softmax": "nacre.nn.functional.log_softmax(x, dim=-1)",
        "relu": "nacre.nn.functional.relu(x)",
        "prelu hardshrink": "the function of nacre.nn.functional",
        "short": "x.astype(nacre.int16)",
        "byte": "x.astype(nacre.uint8)",
        "char": "x.astype(nacre.int8)",
        "mode bernoulli multinomial": "the function of nacre or of nacre.random",
        "new_empty new": "nacre.zeros(shape, dtype=x.dtype)",
        "data_ptr storage storage_offset untyped_storage flat base flags ctypes getfield resize unfold": "x.numpy() "
        "for an array, which has it",
        "apply_ map_": "x = f(x), with functions of nacre",
        "tobytes tofile dump dumps": "x.numpy().tobytes()",
        "itemset": "x[key] = value",
        "fill": "x[...] = value",
        "is_pinned is_shared is_meta is_sparse is_quantized device_ids xpu copy_to_host_async devices sharding "
        "addressable_shards": CPU,
        "to_dense to_sparse indices dense_dim": "Sparse tensors are missing; leave this out",
        "names names_": "Axes have no names; write their numbers",
        "is_inference": "x.requires_grad; tensors made in nacre.inference_mode are like others",
        "output_nr": "x.is_leaf; `nacre explain` prints the graph of a function",
        "_version": "Tensors do not count changes; backward raises an error if a value that it needs has changed",
        "sum_to_size": "x.sum(axis=0)",
        "eval realize ref": "x.numpy(); results are computed at once",
        "get_shape set_shape": "x.shape",
        "masked_fill": "nacre.where(mask, value, x)",
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
