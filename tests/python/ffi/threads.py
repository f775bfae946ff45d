"""Python threads on their own streams, sharing tensors across them."""

import threading

from _start import no_errors, stats, torch

failures = []


def work(seed):
    try:
        stream, other = torch.cuda.Stream(), torch.cuda.Stream()
        generator = torch.Generator().manual_seed(seed)
        live = []
        with torch.cuda.stream(stream):
            for _ in range(1500):
                size = int(torch.randint(1, 2_000_000, (1,), generator=generator))
                live.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
                if size % 3 == 0:
                    live[-1].record_stream(other)
                if len(live) > 20:
                    del live[size % len(live)]
    except BaseException as error:  # A thread's failure is the script's.
        failures.append(error)


threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures
assert stats()["allocation"]["all"]["current"] == 0
no_errors()
