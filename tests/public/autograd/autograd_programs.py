"""Small programs of PyTorch's autograd, which run unchanged in Nacre.

A program is text that assigns `out`: lists, numbers and booleans.  `t` is torch or nacre, `leaf(data)` makes a tensor
that requires a gradient, and `raises(f)` is whether f() raises an error.  `DIFFERENT` has the programs with another
result in Nacre, and why.
"""

from __future__ import annotations

from typing import Final

PROGRAMS: Final[dict[str, str]] = {
    "gradients accumulate": """
x = leaf([1.0, 2.0])
(x * x).sum().backward()
(x * 3).sum().backward()
out = x.grad.tolist()
""",
    "a leaf that is used twice": """
x = leaf(3.0)
y = x * x
(y + y * x).backward()
out = x.grad.item()
""",
    "the gradient of a leaf can be cleared": """
x = leaf(2.0)
(x * x).backward()
x.grad = None
first = x.grad is None
(x * x).backward()
out = [first, x.grad.item()]
""",
    "a gradient is given to backward": """
x = leaf([1.0, 2.0])
y = x * x
y.backward(t.tensor([10.0, 100.0]))
out = x.grad.tolist()
""",
    "gradient is a keyword": """
x = leaf([1.0, 2.0])
(x * x).backward(gradient=t.ones((2,)))
out = x.grad.tolist()
""",
    "backward of several elements needs a gradient": """
x = leaf([1.0, 2.0])
out = raises(lambda: (x * x).backward())
""",
    "a gradient of another shape is refused": """
x = leaf([1.0, 2.0])
out = raises(lambda: (x * x).backward(t.ones((3,))))
""",
    "backward twice": """
x = leaf(3.0)
y = x * x
y.backward()
out = [raises(y.backward), x.grad.item()]
""",
    "backward twice with retain_graph": """
x = leaf(3.0)
y = x * x
y.backward(retain_graph=True)
y.backward()
out = [x.grad.item(), raises(y.backward)]
""",
    "two losses share a part": """
x = leaf(3.0)
h = x * x
a, b = h * 2, h * h
a.backward(retain_graph=True)
b.backward()
out = x.grad.item()
""",
    "two losses share a part that was freed": """
x = leaf(3.0)
h = t.exp(x) * x
a, b = h * 2, h * h
a.backward()
out = raises(b.backward)
""",
    "backward of sums twice": """
x = leaf([1.0, 2.0])
y = x.sum()
y.backward()
y.backward()
out = x.grad.tolist()
""",
    "a gradient penalty": """
w = leaf([1.0, -2.0])
x = leaf([0.5, 3.0])
(g,) = t.autograd.grad((t.tanh(w * x)).sum(), x, create_graph=True)
loss = ((g * g).sum() - 1) ** 2
loss.backward()
out = [w.grad.tolist(), x.grad.tolist()]
""",
    "create_graph in backward": """
x = leaf(2.0)
(x ** 3).backward(create_graph=True)
g = x.grad
x.grad = None
g.backward()
out = [g.item(), g.requires_grad, x.grad.item()]
""",
    "the third derivative": """
x = leaf(0.5)
y = t.sin(x)
for _ in range(3):
    (y,) = t.autograd.grad(y, x, create_graph=True)
out = y.item()
""",
    "grad leaves the leaves": """
x = leaf(3.0)
(g,) = t.autograd.grad(x * x, x)
out = [g.item(), x.grad is None, g.requires_grad]
""",
    "grad of several inputs": """
x, y = leaf(3.0), leaf(4.0)
out = [g.item() for g in t.autograd.grad(x * x * y, [x, y])]
""",
    "grad of several outputs": """
x = leaf([1.0, 2.0])
found = t.autograd.grad([x * x, x * 5], [x], grad_outputs=[t.ones((2,)), t.tensor([1.0, 0.0])])
out = found[0].tolist()
""",
    "grad_outputs as one tensor": """
x = leaf([1.0, 2.0])
out = t.autograd.grad(x * x, x, t.tensor([1.0, 10.0]))[0].tolist()
""",
    "grad of an intermediate": """
x = leaf(3.0)
h = x * x
y = h * h
out = [g.item() for g in t.autograd.grad(y, (h, x))]
""",
    "grad of an unused input": """
x, z = leaf(3.0), leaf(1.0)
y = x * x
first = raises(lambda: t.autograd.grad(y, [x, z], retain_graph=True))
g, none = t.autograd.grad(y, [x, z], allow_unused=True)
out = [first, g.item(), none is None]
""",
    "materialised zeros": """
x, z = leaf(3.0), leaf([1.0, 2.0])
g, zeros = t.autograd.grad(x * x, [x, z], materialize_grads=True)
out = [g.item(), zeros.tolist()]
""",
    "grad of an input that requires none": """
x, z = leaf(3.0), t.tensor(1.0)
out = raises(lambda: t.autograd.grad(x * z, [z]))
""",
    "grad frees the graph": """
x = leaf(3.0)
y = x * x
t.autograd.grad(y, x)
out = raises(lambda: t.autograd.grad(y, x))
""",
    "autograd.backward of two tensors": """
x = leaf([1.0, 2.0])
t.autograd.backward([(x * x).sum(), x * 3], [None, t.tensor([1.0, 2.0])])
out = x.grad.tolist()
""",
    "backward to chosen inputs": """
x, y = leaf(3.0), leaf(4.0)
(x * y).backward(inputs=[x])
out = [x.grad.item(), y.grad is None]
""",
    "detach": """
x = leaf(3.0)
d = (x * x).detach()
(x * d).backward()
out = [d.requires_grad, d.is_leaf, x.grad.item()]
""",
    "detach of a leaf": """
x = leaf(3.0)
d = x.detach()
out = [d.requires_grad, x.requires_grad, x.is_leaf]
""",
    "requires_grad_ of a result": """
x = leaf(3.0)
y = x * x
out = [raises(lambda: y.requires_grad_(False)), y.requires_grad_().requires_grad, y.is_leaf]
""",
    "requires_grad is an attribute": """
x = t.tensor([1.0, 2.0])
before = x.requires_grad
x.requires_grad = True
(x * x).sum().backward()
out = [before, x.grad.tolist()]
""",
    "requires_grad of integers": """
out = raises(lambda: t.tensor([1, 2]).requires_grad_())
""",
    "freezing a leaf": """
x, y = leaf(3.0), leaf(4.0)
x.requires_grad_(False)
(x * y).backward()
out = [x.grad is None, y.grad.item()]
""",
    "leaves": """
x, z = leaf([3.0]), t.tensor([4.0])
with t.no_grad():
    n = x * 2
out = [v.is_leaf for v in (x, z, x * z, z * z, n, x.detach())]
""",
    "no gradient at an intermediate": """
x = leaf(3.0)
y = x * x
(y * 2).backward()
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    out = y.grad is None
""",
    "retain_grad": """
x = leaf(3.0)
y = x * x
y.retain_grad()
(y * y + y).backward()
out = [y.grad.item(), x.grad.item(), y.retains_grad, x.retains_grad]
""",
    "retained gradients accumulate": """
x = leaf(3.0)
y = x * x
y.retain_grad()
z = y * 2
z.backward(retain_graph=True)
z.backward()
out = [y.grad.item(), x.grad.item()]
""",
    "nothing requires a gradient": """
out = raises(t.tensor(1.0).backward)
""",
    "no_grad": """
x = leaf(3.0)
with t.no_grad():
    y = x * x
out = [y.requires_grad, raises(y.backward), t.is_grad_enabled()]
""",
    "no_grad as a decorator": """
x = leaf(3.0)
@t.no_grad()
def f(x):
    return x * x
out = [f(x).requires_grad, (x * x).requires_grad]
""",
    "no_grad as a decorator without parentheses": """
x = leaf(3.0)
@t.no_grad
def f(x):
    return x * x
out = [f(x).requires_grad, f.__name__]
""",
    "no_grad of a generator": """
x = leaf(3.0)
@t.no_grad()
def f():
    for _ in range(2):
        yield (x * x).requires_grad
out = []
for inside in f():
    out += [inside, (x * x).requires_grad]
""",
    "a no_grad that is entered again": """
x = leaf(3.0)
silent = t.no_grad()
out = []
for _ in range(2):
    with silent:
        out.append((x * x).requires_grad)
    out.append((x * x).requires_grad)
""",
    "enable_grad inside no_grad": """
x = leaf(3.0)
with t.no_grad():
    with t.enable_grad():
        y = x * x
y.backward()
out = x.grad.item()
""",
    "set_grad_enabled as a context": """
x = leaf(3.0)
out = []
for train in (True, False):
    with t.set_grad_enabled(train):
        out.append((x * x).requires_grad)
out.append(t.is_grad_enabled())
""",
    "set_grad_enabled as a function": """
x = leaf(3.0)
t.set_grad_enabled(False)
first = (x * x).requires_grad
t.set_grad_enabled(True)
out = [first, (x * x).requires_grad]
""",
    "set_grad_enabled as a decorator": """
x = leaf(3.0)
@t.set_grad_enabled(False)
def f():
    return (x * x).requires_grad
out = [t.is_grad_enabled(), f(), t.is_grad_enabled()]
""",
    "a model's gradients are cleared": """
layer = t.nn.Linear(2, 1)
out = []
for to_none in (True, False):
    layer(t.ones((3, 2))).sum().backward()
    layer.zero_grad(set_to_none=to_none)
    out += [None if p.grad is None else p.grad.tolist() for p in layer.parameters()]
""",
    "an optimiser clears gradients": """
layer = t.nn.Linear(2, 1)
optimizer = t.optim.SGD(layer.parameters(), lr=0.1)
layer(t.ones((3, 2))).sum().backward()
before = [p.grad.tolist() for p in layer.parameters()]
optimizer.zero_grad()
out = [before, [p.grad is None for p in layer.parameters()]]
""",
    "a frozen layer": """
model = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Linear(2, 1))
model[0].requires_grad_(False)
model(t.ones((1, 2))).sum().backward()
out = [p.grad is None for p in model.parameters()]
""",
    "a hidden state is detached": """
w, h, out = leaf(0.5), t.tensor(1.0), []
for _ in range(3):
    h = t.tanh(w * h.detach())
    h.backward()
    out.append(round(w.grad.item(), 5))
""",
    "a graph in two parts": """
x = leaf(2.0)
h = x * x * x
y = h * h
(g,) = t.autograd.grad(y, h)
h.backward(g)
out = x.grad.item()
""",
    "the optimiser in the backward pass": """
layer = t.nn.Linear(2, 1, bias=False)
with t.no_grad():
    layer.weight.copy_(t.ones((1, 2))) if hasattr(t, "cuda") else layer.weight.assign(t.ones((1, 2)))
def step(p):
    p.data = p.data - 0.5 * p.grad
    p.grad = None
for p in layer.parameters():
    p.register_post_accumulate_grad_hook(step)
layer(t.tensor([[1.0, 3.0]])).sum().backward()
out = [layer.weight.tolist(), layer.weight.grad is None]
""",
    "hooks of leaves run when their gradients are complete": """
x, late = leaf(2.0), leaf(5.0)
order = []
h = x * x
h.register_hook(lambda g: order.append("h"))
x.register_post_accumulate_grad_hook(lambda p: order.append("x"))
late.register_post_accumulate_grad_hook(lambda p: order.append("late"))
late.register_hook(lambda g: order.append("late's gradient"))
(h * late + late).backward()
out = order
""",
    "gradients of a module": """
order = []
class Twice(t.nn.Module):
    def forward(self, x):
        return x * 2
first, second = Twice(), Twice()
for name, module in (("first", first), ("second", second)):
    module.register_full_backward_pre_hook(lambda m, g, name=name: order.append([name, "before", g[0].item()]))
    module.register_full_backward_hook(
        lambda m, i, o, name=name: (order.append([name, i[0].item(), o[0].item()]), (i[0] * 10,))[1]
    )
x = leaf(3.0)
second(first(x)).backward()
out = [order, x.grad.item()]
""",
    "a hook is removed at the end of a block": """
x = leaf(3.0)
seen = []
with x.register_hook(lambda g: seen.append(g.item())):
    (x * x).backward()
(x * x).backward()
out = seen
""",
    "a frozen leaf keeps its gradient": """
x = leaf(3.0)
(x * x).backward()
x.requires_grad_(False)
out = [x.grad.item(), x.requires_grad]
""",
    "an error inside no_grad": """
try:
    with t.no_grad():
        raise KeyError
except KeyError:
    pass
out = t.is_grad_enabled()
""",
    "inference_mode": """
x = leaf(3.0)
with t.inference_mode():
    y = x * x
out = [y.requires_grad, y.is_inference(), t.is_inference_mode_enabled(), t.is_grad_enabled()]
""",
    "inference_mode as a decorator": """
x = leaf(3.0)
@t.inference_mode()
def f():
    return (x * x).requires_grad, t.is_inference_mode_enabled(), t.is_grad_enabled()
out = list(f())
""",
    "inference_mode(False)": """
x = leaf(3.0)
with t.inference_mode():
    with t.inference_mode(False):
        y = x * x
out = [y.requires_grad, t.is_inference_mode_enabled()]
""",
    "an inference tensor is saved": """
x = leaf(3.0)
with t.inference_mode():
    y = t.tensor(2.0) * 2
out = raises(lambda: x * y)
""",
    "an inference tensor does not become a leaf": """
with t.inference_mode():
    y = t.tensor(2.0) * 2
out = raises(lambda: y.requires_grad_())
""",
    "a write into a result": """
x = leaf([1.0, 2.0, 3.0])
y = x * x
y[1] = 0.0
y.sum().backward()
out = x.grad.tolist()
""",
    "a recorded value is written": """
x, v = leaf([1.0, 2.0, 3.0]), leaf(5.0)
y = x * 2
y[0] = v * v
(y * t.tensor([1.0, 10.0, 100.0])).sum().backward()
out = [x.grad.tolist(), v.grad.item()]
""",
    "a write into a tensor that requires none": """
v = leaf(5.0)
y = t.zeros((3,))
y[1] = v * v
(y * 3).sum().backward()
out = [v.grad.item(), y.requires_grad, y.is_leaf]
""",
    "a write into a leaf": """
x = leaf([1.0, 2.0])
def f():
    x[0] = 5.0
out = raises(f)
""",
    "a write into a saved tensor": """
x, c = leaf([1.0, 2.0]), t.tensor([3.0, 4.0])
y = x * c
c[0] = 100.0
out = raises(lambda: y.sum().backward())
""",
    "a write into a result that exp saved": """
x = leaf([1.0, 2.0])
y = t.exp(x)
y[0] = 0.0
out = raises(lambda: y.sum().backward())
""",
    "a write into a leaf in no_grad": """
x = leaf([1.0, 2.0])
with t.no_grad():
    x[0] = 5.0
(x * x).sum().backward()
out = [x.tolist(), x.grad.tolist(), x.is_leaf]
""",
    "a training step by hand": """
w = leaf([1.0, 2.0])
for _ in range(3):
    loss = (w * w).sum()
    loss.backward()
    with t.no_grad():
        w -= 0.1 * w.grad
    w.grad = None
out = [round(float(v), 5) for v in w]
""",
    "a hook of a leaf": """
x = leaf([1.0, 2.0])
seen = []
handle = x.register_hook(lambda g: seen.append(g.tolist()))
(x * x + x * 3).sum().backward()
handle.remove()
(x * x).sum().backward()
out = [seen, x.grad.tolist()]
""",
    "a hook that replaces": """
x = leaf([1.0, 2.0])
h = x * x
h.register_hook(lambda g: g * 10)
x.register_hook(lambda g: g + 1)
h.sum().backward()
out = x.grad.tolist()
""",
    "hooks in their order": """
x = leaf(2.0)
order = []
def hook(name, factor):
    def called(g):
        order.append([name, g.item()])
        return g * factor
    return called
y = x * 3
y.register_hook(hook("y", 2))
y.register_hook(hook("y again", 5))
x.register_hook(hook("x", 7))
(y * y).backward()
out = [order, x.grad.item()]
""",
    "a hook before retain_grad": """
x = leaf(2.0)
y = x * 3
y.retain_grad()
y.register_hook(lambda g: g * 100)
(y * y).backward()
out = [y.grad.item(), x.grad.item()]
""",
    "hooks under autograd.grad": """
x = leaf(2.0)
seen = []
y = x * 3
y.register_hook(lambda g: seen.append(g.item()))
x.register_hook(lambda g: g * 2)
out = [t.autograd.grad(y * y, x)[0].item(), seen, x.grad is None]
""",
    "a hook of a tensor that requires none": """
out = raises(lambda: t.tensor(1.0).register_hook(print))
""",
    "a hook of a wrong shape": """
x = leaf([1.0, 2.0])
x.register_hook(lambda g: g.sum())
out = raises(lambda: (x * x).sum().backward())
""",
    "a hook in each of two backward passes": """
x = leaf(2.0)
seen = []
x.register_hook(lambda g: seen.append(g.item()))
y = x * x
y.backward(retain_graph=True)
y.backward()
out = [seen, x.grad.item()]
""",
    "a hook after accumulation": """
x = leaf(2.0)
seen = []
handle = x.register_post_accumulate_grad_hook(lambda p: seen.append([p is x, p.grad.item()]))
(x * x).backward()
(x * x).backward()
handle.remove()
(x * x).backward()
out = [seen, x.grad.item()]
""",
    "a hook after accumulation needs a leaf": """
x = leaf(2.0)
out = raises(lambda: (x * x).register_post_accumulate_grad_hook(print))
""",
    "a hook under create_graph": """
x = leaf(2.0)
h = x * x
h.register_hook(lambda g: g * g)
(g,) = t.autograd.grad(h * h, x, create_graph=True)
g.backward()
out = [g.item(), x.grad.item()]
""",
    "a function of one's own": """
class Exp(t.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = t.exp(x)
        ctx.save_for_backward(y)
        return y
    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y * 10
x = leaf([0.0, 1.0])
y = Exp.apply(x)
(y * y).sum().backward()
out = [y.requires_grad, x.grad.tolist()]
""",
    "a function with other arguments": """
class Scale(t.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor, name):
        ctx.factor = factor
        return x * factor
    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None, None
x = leaf([1.0, 2.0])
Scale.apply(x, 3.0, "three").sum().backward()
out = x.grad.tolist()
""",
    "needs_input_grad": """
seen = []
class Product(t.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y
    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        seen.append(list(ctx.needs_input_grad))
        return (g * y if ctx.needs_input_grad[0] else None), (g * x if ctx.needs_input_grad[1] else None)
x, y = leaf(3.0), t.tensor(4.0)
Product.apply(x, y).backward()
out = [seen, x.grad.item(), y.grad is None]
""",
    "a function with two results": """
class Both(t.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x, x * 3
    @staticmethod
    def backward(ctx, a, b):
        (x,) = ctx.saved_tensors
        return a * 2 * x + b * 3
x = leaf(2.0)
first, second = Both.apply(x)
first.backward(retain_graph=True)
second.backward()
out = x.grad.item()
""",
    "mark_non_differentiable": """
class Sorted(t.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        i = t.argsort(x)
        ctx.mark_non_differentiable(i)
        ctx.save_for_backward(i)
        return x[i], i
    @staticmethod
    def backward(ctx, g, _):
        (i,) = ctx.saved_tensors
        found = t.zeros_like(g)
        found[i] = g
        return found
x = leaf([3.0, 1.0, 2.0])
y, i = Sorted.apply(x)
(y * t.tensor([1.0, 10.0, 100.0])).sum().backward()
out = [y.tolist(), i.tolist(), i.requires_grad, x.grad.tolist()]
""",
    "a function twice differentiated": """
class Cube(t.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x
x = leaf(2.0)
(g,) = t.autograd.grad(Cube.apply(x), x, create_graph=True)
(h,) = t.autograd.grad(g, x, create_graph=True)
(k,) = t.autograd.grad(h, x)
out = [g.item(), h.item(), k.item()]
""",
    "once_differentiable": """
class Cube(t.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3
    @staticmethod
    @t.autograd.function.once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x
x = leaf(2.0)
(g,) = t.autograd.grad(Cube.apply(x), x, create_graph=True)
out = [g.item(), raises(lambda: g.backward())]
""",
    "setup_context": """
class Square(t.autograd.Function):
    @staticmethod
    def forward(x):
        return x * x
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g
x = leaf(3.0)
Square.apply(x).backward()
out = x.grad.item()
""",
    "a function in no_grad": """
class Square(t.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x
    @staticmethod
    def backward(ctx, g):
        return g
x = leaf(3.0)
with t.no_grad():
    y = Square.apply(x)
out = [y.item(), y.requires_grad]
""",
    "forward of a function is not recorded": """
class Square(t.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.seen = [t.is_grad_enabled(), (x * x).requires_grad]
        out.append(ctx.seen)
        return x * x
    @staticmethod
    def backward(ctx, g):
        out.append(t.is_grad_enabled())
        return g * 7
out = []
x = leaf(3.0)
Square.apply(x).backward()
out.append(x.grad.item())
""",
    "a wrong number of gradients": """
class Product(t.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y
    @staticmethod
    def backward(ctx, g):
        return g
x, y = leaf(3.0), leaf(4.0)
out = raises(lambda: Product.apply(x, y).backward())
""",
    "a function is called": """
class Square(t.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x
    @staticmethod
    def backward(ctx, g):
        return g
out = raises(lambda: Square()(leaf(3.0)))
""",
    "a straight-through estimator": """
class Round(t.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return t.round(x)
    @staticmethod
    def backward(ctx, g):
        return g
x = leaf([0.4, 1.6])
(Round.apply(x) * 3).sum().backward()
out = x.grad.tolist()
""",
    "a function that returns its argument": """
class Reverse(t.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(x.shape)
    @staticmethod
    def backward(ctx, g):
        return -g
x = leaf([1.0, 2.0])
(Reverse.apply(x) * 3).sum().backward()
out = x.grad.tolist()
""",
    "a gradient that overflows into none": """
x = leaf(1.0)
y = x * 0
z = leaf(2.0)
(y + z).backward()
out = [x.grad.item(), z.grad.item()]
""",
    "the gradient is a tensor of its own": """
x = leaf([1.0, 2.0])
(x * 3).sum().backward()
held = x.grad
(x * 3).sum().backward()
out = [held.tolist() == x.grad.tolist(), held.requires_grad]
""",
    "a complex leaf": """
z = leaf([1 + 2j, 3 - 1j])
(z * z.conj()).real.sum().backward()
out = [[v.real, v.imag] for v in z.grad.tolist()]
""",
    "deepcopy of a leaf": """
import copy
x = leaf([1.0, 2.0])
c = copy.deepcopy(x)
(c * c).sum().backward()
out = [c.requires_grad, c.grad.tolist(), x.grad is None]
""",
    "deepcopy of a result": """
import copy
x = leaf([1.0, 2.0])
out = raises(lambda: copy.deepcopy(x * x))
""",
    "the numbers of a tensor that requires a gradient": """
x = leaf([1.0, 2.0])
out = [x.tolist(), (x * x).sum().item(), float(x[0])]
""",
}

DIFFERENT: Final[dict[str, tuple[object, str]]] = {
    "backward of sums twice": (
        "StateError",
        "PyTorch releases only what operations saved; Nacre releases all that a backward pass has used, and says so",
    ),
    "inference_mode": ("MissingAttribute", "tensors made in inference mode are like others, so nothing asks for it"),
    "an inference tensor is saved": (False, "it is a constant of the operation; no write can make it wrong"),
    "an inference tensor does not become a leaf": (False, "it is an ordinary tensor"),
    "a write into a result that exp saved": (
        False,
        "x[i] = v gives the name another value; what was saved is the old one, so the gradient is right",
    ),
    "the gradient is a tensor of its own": (
        [False, False],
        "tensors do not change: x.grad is a new tensor after each backward pass, and a name for the old one keeps it",
    ),
}
