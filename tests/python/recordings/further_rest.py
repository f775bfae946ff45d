"""Further programs of other kinds."""

import torch
from further_layers import Layer
from further_text import HALF, adam, train
from torch import nn
from torch.nn import functional


def perceptron(rng):
    """Wide layers, and an evaluation in each step."""
    blocks = [nn.Sequential(nn.Linear(2048, 6144), nn.ReLU(), nn.Linear(6144, 2048), nn.Dropout(0.1)) for _ in range(6)]
    model = nn.Sequential(*blocks).cuda()
    optimizer = torch.optim.Adam(model.parameters())

    def step(batch):
        x = torch.randn(batch, 2048, device="cuda")
        train(functional.mse_loss(model(x), x), optimizer)
        with torch.no_grad():
            model.eval()(torch.randn(batch // 2, 2048, device="cuda"))
            model.train()

    return lambda: (rng.choice([1024, 2048, 4096, 8192]),), step


def recurrent(rng):
    """A recurrent cell over sequences of any length, whose state is kept."""
    words, cell, head = nn.Embedding(20_000, 1024), nn.LSTMCell(1024, 1024), nn.Linear(1024, 20_000)
    model = nn.ModuleList([words, cell, head]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    kept = []

    def step(batch, length):
        x = words(torch.zeros(batch, length, dtype=torch.long, device="cuda"))
        state = tuple(one.detach() for one in kept) or (x.new_zeros(batch, 1024),) * 2
        outputs = []
        for at in range(length):
            state = cell(x[:, at], state)
            outputs.append(state[0])
        kept[:] = state
        targets = torch.zeros(batch * length, dtype=torch.long, device="cuda")
        loss = functional.cross_entropy(head(torch.stack(outputs, 1)).flatten(0, 1), targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()

    return lambda: (32, rng.randint(20, 70)), step


def graphs(rng):
    """Messages along the edges of graphs of any size."""
    model = nn.ModuleList(nn.Linear(512, 512) for _ in range(3)).cuda()
    optimizer = adam(model)

    def shape():
        nodes = rng.randint(20_000, 60_000)
        return nodes, nodes * rng.randint(5, 10)

    def step(nodes, edges):
        x = torch.randn(nodes, 512, device="cuda")
        source, target = torch.zeros(2, edges, dtype=torch.long, device="cuda")
        for layer in model:
            sums = torch.zeros_like(x).index_add_(0, target, x[source])
            x = functional.relu(layer(sums) + x)
        train(x.square().mean(), optimizer)

    return shape, step


def sharded(rng):
    """Weights that are gathered for a layer on one stream, and gradients that are reduced on another."""
    layers = [Layer(1024, 16).to(HALF).cuda() for _ in range(12)]
    sizes = [one.shape for one in layers[0].parameters()]
    shards = [[torch.empty(size.numel() // 8, device="cuda") for size in sizes] for _ in layers]
    momenta = [[torch.zeros_like(one) for one in shard] for shard in shards]
    gathering, reducing = torch.cuda.Stream(), torch.cuda.Stream()
    nothing = torch.empty(0, device="cuda", dtype=HALF)

    def scatter(layer):
        for weight in layer.parameters():
            weight.data = nothing

    def gather(layer):
        with torch.cuda.stream(gathering):
            flat = torch.empty(sum(size.numel() for size in sizes), device="cuda", dtype=HALF)
        torch.cuda.current_stream().wait_stream(gathering)
        parts = flat.split([size.numel() for size in sizes])
        for weight, part, size in zip(layer.parameters(), parts, sizes):
            weight.data = part.view(size)
        flat.record_stream(torch.cuda.current_stream())

    def reduce(gradients, shard, momentum):
        with torch.cuda.stream(reducing):
            reducing.wait_stream(torch.cuda.current_stream())
            for gradient, weight, mean in zip(gradients, shard, momentum):
                if gradient is not None:
                    gradient.record_stream(reducing)
                    mean.add_(gradient.flatten()[: weight.numel()].float())
                    weight.add_(mean)

    for layer in layers:
        scatter(layer)

    def step(batch, length):
        x, inputs = torch.randn(batch, length, 1024, device="cuda", dtype=HALF), []
        for layer in layers:
            gather(layer)
            inputs.append(x)
            with torch.no_grad():
                x = layer(x)
            scatter(layer)
        slope = torch.ones_like(x)
        for at in reversed(range(len(layers))):
            gather(layers[at])
            x = inputs.pop().detach().requires_grad_()
            wanted = [x, *layers[at].parameters()]
            slope, *gradients = torch.autograd.grad(layers[at](x), wanted, slope, allow_unused=True)
            reduce(gradients, shards[at], momenta[at])
            scatter(layers[at])
        torch.cuda.current_stream().wait_stream(reducing)

    return lambda: (rng.choice([4, 8]), rng.randint(128, 512)), step


def kept_results(rng):
    """Gradients, a loss and an output that live until the next step."""
    blocks = [nn.Sequential(nn.Linear(1500, 4100), nn.GELU(), nn.Linear(4100, 1500)) for _ in range(8)]
    model = nn.Sequential(*blocks).cuda()
    optimizer, kept = adam(model), []

    def step(batch):
        output = model(torch.randn(batch, 1500, device="cuda"))
        loss = output.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept[:] = loss, output

    return lambda: (rng.choice([700, 1500, 2500]),), step


ALL = (perceptron, recurrent, graphs, sharded, kept_results)
PROGRAMS = {one.__name__: one for one in ALL}
