"""A data loader whose workers are forked or spawned: they touch no device, and what they make is trained on."""

import sys

import torch
from torch.utils.data import DataLoader, Dataset

from report import report


class Points(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((128,), float(index)), index % 10


def main(start):
    model = torch.nn.Linear(128, 10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = 0
    # Workers start when CUDA is in use already.
    for features, labels in DataLoader(Points(), batch_size=16, num_workers=2, multiprocessing_context=start):
        loss = torch.nn.functional.cross_entropy(model(features.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen += int(features[:, 0].sum())
    assert seen == sum(range(64)), "every sample came once"
    report(seen=seen)


if __name__ == "__main__":
    main(sys.argv[1])
