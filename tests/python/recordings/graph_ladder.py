"""Serving with a ladder of captured graphs: one for each size of the decoding batch, in one pool; prefills between."""

import random

import torch
from decoder import Decoder, tokens

random.seed(0)
model = Decoder(layers=16).cuda().bfloat16().eval()
pool = torch.cuda.graph_pool_handle()
graphs = {}
blocks = [torch.empty(2, 4096, 4, 16, 64, device="cuda", dtype=torch.bfloat16) for _ in range(16)]
with torch.no_grad():
    for batch in (64, 48, 32, 24, 16, 8, 4, 2, 1):
        given = tokens(batch, 1)
        model(given)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            made = model(given)
        graphs[batch] = (graph, given, made)
    waiting, running = 200, 0
    while waiting or running:
        if waiting and running < 48:
            count = min(waiting, random.randint(1, 8))
            for _ in range(count):
                hidden = model(tokens(1, random.randint(32, 2048)))
                hidden[:, -1].float().softmax(-1).argmax(-1)
            waiting, running = waiting - count, running + count
        graph, given, made = graphs[min(size for size in graphs if size >= running or size == 64)]
        for _ in range(4):
            graph.replay()
            made[:, -1].float().softmax(-1).argmax(-1)
        running -= min(running, random.randint(0, 5))
