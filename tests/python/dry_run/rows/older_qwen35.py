"""What Qwen3.5 allocates otherwise in transformers 5.12.1, with which the published rows were measured.

That version inverts the triangular matrices of linear attention row by row. Later versions solve them with one operator
and keep less for the backward pass: a LoRA row is 0.1 GiB lower there. That version also multiplies positions by
frequencies with cuBLAS, which then takes its workspace earlier. `use` brings both back, so that one environment runs
all rows.
"""

import torch
from torch.nn import functional
from transformers.models.qwen3_5 import modeling_qwen3_5

CHUNK = 64


def use():
    """Every Qwen3.5 model of this process computes its positions and its linear attention as below."""
    modeling_qwen3_5.Qwen3_5TextRotaryEmbedding.forward = rotation
    modeling_qwen3_5.torch_chunk_gated_delta_rule = gated_delta_rule


@torch.no_grad()
def rotation(self, x, positions):
    """The cosines and sines of `positions`, `[3, batch, token]`."""
    frequencies = self.inv_freq[None, None, :, None].float().expand(3, positions.shape[1], -1, 1)
    places = positions[:, :, None, :].float()
    angles = mixed((frequencies @ places).transpose(2, 3), self.mrope_section)
    both = torch.cat((angles, angles), dim=-1)
    cos = both.cos() * self.attention_scaling
    sin = both.sin() * self.attention_scaling
    return cos.to(x.dtype), sin.to(x.dtype)


def mixed(angles, sections):
    """Time's angles, with those of height and width in every third place."""
    time = angles[0]
    for dimension in (1, 2):
        places = slice(dimension, sections[dimension] * 3, 3)
        time[..., places] = angles[dimension, ..., places]
    return time


def unit(x):
    return x * torch.rsqrt((x * x).sum(dim=-1, keepdim=True) + 1e-6)


def gated_delta_rule(query, key, value, g, beta, **_):
    """The output for `[batch, token, head, width]`, without a state before or after, as in training."""
    dtype, tokens = query.dtype, query.shape[1]
    query = unit(query)
    key = unit(key)
    # To `[batch, head, token, width]`.
    query, key, value, beta, g = (x.transpose(1, 2).contiguous().float() for x in (query, key, value, beta, g))
    missing = -tokens % CHUNK
    query = functional.pad(query, (0, 0, 0, missing))
    key = functional.pad(key, (0, 0, 0, missing))
    value = functional.pad(value, (0, 0, 0, missing))
    beta = functional.pad(beta, (0, missing))
    g = functional.pad(g, (0, missing))
    query = query * query.shape[-1] ** -0.5
    new_values = value * beta.unsqueeze(-1)
    new_keys = key * beta.unsqueeze(-1)
    # To `[batch, head, chunk, token of the chunk, width]`.
    query, key, value, new_keys, new_values = (
        x.unflatten(2, (-1, CHUNK)) for x in (query, key, value, new_keys, new_values)
    )
    g = g.unflatten(2, (-1, CHUNK)).cumsum(dim=-1)
    upper = torch.triu(torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=query.device))
    decay = (g.unsqueeze(-1) - g.unsqueeze(-2)).tril().exp().float().tril()
    matrix = inverted(new_keys, key, decay, upper)
    value = matrix @ new_values
    seen = matrix @ (new_keys * g.exp().unsqueeze(-1))
    state = torch.zeros(*query.shape[:2], query.shape[-1], value.shape[-1], device=query.device)
    output = torch.zeros_like(value)
    upper = torch.triu(torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=query.device), diagonal=1)
    for at in range(query.shape[2]):
        wanted, known, fresh = query[:, :, at], key[:, :, at], value[:, :, at]
        matrix = wanted @ known.transpose(-1, -2) * decay[:, :, at]
        old = seen[:, :, at] @ state
        added = fresh - old
        from_state = (wanted * g[:, :, at, :, None].exp()) @ state
        output[:, :, at] = from_state + matrix @ added
        state = state * g[:, :, at, -1, None, None].exp() + (
            (known * (g[:, :, at, -1, None] - g[:, :, at]).exp()[..., None]).transpose(-1, -2) @ added
        )
    output = output.flatten(2, 3)[:, :, :tokens].transpose(1, 2).contiguous().to(dtype)
    return output, None


def inverted(new_keys, key, decay, upper):
    """The inverse of each chunk's lower triangular matrix, row by row."""
    rows = -((new_keys @ key.transpose(-1, -2)) * decay).masked_fill(upper, 0)
    for at in range(1, CHUNK):
        row = rows[..., at, :at].clone()
        above = rows[..., :at, :at].clone()
        rows[..., at, :at] = row + (row.unsqueeze(-1) * above).sum(-2)
    return rows + torch.eye(CHUNK, dtype=rows.dtype, device=rows.device)
