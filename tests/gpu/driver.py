"""The driver's calls for virtual memory, by ctypes: pages without addresses, addresses without pages."""

import ctypes

MIB = 1 << 20
PAGE_BYTES = 2 * MIB


class Property(ctypes.Structure):
    """CUmemAllocationProp: pinned memory of one device."""

    _fields_ = [
        ("kind", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", ctypes.c_int),
        ("device", ctypes.c_int),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_uint8 * 8),
    ]


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [("location", ctypes.c_int), ("device", ctypes.c_int), ("flags", ctypes.c_int)]


PINNED = Property(kind=1, location=1, device=0)
READ_AND_WRITE = Access(location=1, device=0, flags=3)


class Driver:
    """The driver of this process. `watch(name, call)` makes each call and may measure it."""

    def __init__(self, watch=lambda _, call: call()):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.watch = watch

    def call(self, name, *arguments):
        function = getattr(self.library, name)
        code = self.watch(name, lambda: function(*arguments))
        if code != 0:
            raise RuntimeError(f"{name} answered {code}")

    def granularity(self, recommended):
        """The unit of sizes, bytes."""
        found = ctypes.c_size_t()
        kind = ctypes.c_int(int(recommended))
        self.call("cuMemGetAllocationGranularity", ctypes.byref(found), ctypes.byref(PINNED), kind)
        return found.value

    def reserve(self, n_bytes):
        address, zero = ctypes.c_uint64(), ctypes.c_uint64(0)
        self.call("cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(n_bytes), zero, zero, zero)
        return address.value

    def unreserve(self, address, n_bytes):
        self.call("cuMemAddressFree", ctypes.c_uint64(address), ctypes.c_size_t(n_bytes))

    def create(self, n_bytes):
        handle = ctypes.c_uint64()
        zero = ctypes.c_uint64(0)
        self.call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(n_bytes), ctypes.byref(PINNED), zero)
        return handle.value

    def release(self, handle):
        self.call("cuMemRelease", ctypes.c_uint64(handle))

    def map(self, address, n_bytes, handle):
        zero = ctypes.c_uint64(0)
        self.call("cuMemMap", ctypes.c_uint64(address), ctypes.c_size_t(n_bytes), zero, ctypes.c_uint64(handle), zero)

    def open(self, address, n_bytes):
        one = ctypes.c_size_t(1)
        size = ctypes.c_size_t(n_bytes)
        self.call("cuMemSetAccess", ctypes.c_uint64(address), size, ctypes.byref(READ_AND_WRITE), one)

    def unmap(self, address, n_bytes):
        self.call("cuMemUnmap", ctypes.c_uint64(address), ctypes.c_size_t(n_bytes))


class Pages:
    """Handles of one page each, and the ranges they are mapped at."""

    def __init__(self, driver, count):
        self.driver = driver
        self.handles = [driver.create(PAGE_BYTES) for _ in range(count)]
        self.ranges = []

    def map(self, order):
        """The address of a range that has these pages one after the other."""
        address = self.driver.reserve(len(order) * PAGE_BYTES)
        for at, page in enumerate(order):
            self.driver.map(address + at * PAGE_BYTES, PAGE_BYTES, self.handles[page])
        self.driver.open(address, len(order) * PAGE_BYTES)
        self.ranges.append((address, len(order)))
        return address

    def close(self):
        """Takes everything back. The device must be idle."""
        for address, count in self.ranges:
            for at in range(count):
                self.driver.unmap(address + at * PAGE_BYTES, PAGE_BYTES)
            self.driver.unreserve(address, count * PAGE_BYTES)
        for handle in self.handles:
            self.driver.release(handle)
