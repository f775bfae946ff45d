"""An exercise of courses: how the peak of a ResNet-50 grows with the batch."""

import torch
import torchvision

from report import report

model = torchvision.models.resnet50().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loss_of = torch.nn.CrossEntropyLoss()

peaks = []
for batch in (1, 2, 4):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    images = torch.randn(batch, 3, 64, 64, device="cuda")
    labels = torch.randint(0, 1000, (batch,), device="cuda")
    for _ in range(2):
        optimizer.zero_grad()
        loss_of(model(images), labels).backward()
        optimizer.step()
    peaks.append([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()])
assert peaks[0][0] < peaks[1][0] < peaks[2][0], "a larger batch needs more"
report(peaks=peaks)
