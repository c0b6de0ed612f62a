"""Datasets that several tests of loaders use."""

import gradlib
from gradlib.utils.data import Dataset, IterableDataset, get_worker_info


def lists(loader):
    """What a loader gives, as plain lists."""

    def plain(batch):
        if isinstance(batch, gradlib.Tensor):
            return batch.tolist()
        if isinstance(batch, (list, tuple)):
            return [plain(item) for item in batch]
        return batch

    return [plain(batch) for batch in loader]


class Numbers(Dataset):
    def __init__(self, n=10):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return index


class Stream(IterableDataset):
    """0 ... n - 1, dealt to the workers."""

    def __init__(self, n=10):
        self.n = n

    def __len__(self):
        return self.n

    def __iter__(self):
        info = get_worker_info()
        start, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(start, self.n, step))


class Failing(Numbers):
    """Raises the error at sample 2, or at any if the text says so."""

    def __init__(self, error):
        super().__init__(4)
        self.error = error

    def __getitem__(self, index):
        if index == 2 or "sample 0" in str(self.error):
            raise self.error
        return index
