// libvramtape.so: a caching allocator for GPU memory, with a flight recorder.
//
// Generated from the exports in ffi/src/abi; do not edit. `UPDATE_HEADER=1 cargo test -p ffi --test header` writes it.
//
// Every function may be called on any thread at any time. None lets a Rust panic out. Devices are CUDA ordinals, sizes
// are bytes, streams are cudaStream_t, a pool is PyTorch's MempoolId_t as two numbers; (0, 0) is the default pool.
//
// A failure is recorded (vramtape_last_error, vramtape_error_count) and answered: NULL, VRAMTAPE_ERROR, or what the
// function says. In a process with PyTorch those functions that PyTorch calls where an exception may pass throw its
// exceptions instead of answering: vramtape_malloc, vramtape_init, vramtape_empty_cache, vramtape_set_memory_fraction,
// vramtape_base_alloc and vramtape_begin_allocate_to_pool. No other ever throws.

#ifndef VRAMTAPE_H
#define VRAMTAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What exports without another answer return when they did what was asked.
#define VRAMTAPE_OK 0

// What they return when they did not; see `vramtape_last_error`.
#define VRAMTAPE_ERROR -1

// Version of this interface. Functions are added under the same number; one that changes or goes
// raises it.
#define VRAMTAPE_ABI_VERSION 1

// A training step begins.
#define VRAMTAPE_MARK_STEP 0

// A phase (forward, backward, optimizer) begins.
#define VRAMTAPE_MARK_PHASE 1

// A named range begins.
#define VRAMTAPE_MARK_RANGE_BEGIN 2

// A named range ends.
#define VRAMTAPE_MARK_RANGE_END 3

// A named moment.
#define VRAMTAPE_MARK_INSTANT 4

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// This thread's last error: what was wrong, where, and what to do. NULL where there was none. The
// string lives until the thread's next error or `vramtape_clear_error`.
const char *vramtape_last_error(void);

// Forgets this thread's last error.
void vramtape_clear_error(void);

// How many errors were recorded in all threads since the process began.
uint64_t vramtape_error_count(void);

// CUDA begins, with this many devices (`set_init_fn`). Checks the settings, so that a mistake is
// raised here and not in the first allocation.
void vramtape_init(int device_count);

// Returns cached segments of every device to the driver (`set_reset_fn`,
// `torch.cuda.empty_cache()`).
void vramtape_empty_cache(void);

// Limits reserved memory to a fraction in `[0, 1]` of the device's; 1 is no limit
// (`set_memory_fraction_fn`).
void vramtape_set_memory_fraction(double fraction, int device);

// The start of the segment that holds the allocation at `ptr`, and its size where `size` is not
// NULL (`set_base_alloc_fn`). An unknown pointer and one into an expandable segment are errors.
//
// # Safety
//
// `size` is NULL or points to room for one value.
void *vramtape_base_alloc(void *ptr, size_t *size);

// `stream` uses the allocation at `ptr` too: its memory is not used again before the stream has
// done what it was given by the time of the free (`set_record_stream_fn`).
//
// Never throws. A pointer that is not ours (PyTorch hands such over too) is a recorded error.
void vramtape_record_stream(void *ptr, void *stream);

// Allocations of the streams that `filter` takes come from the pool from here on
// (`set_begin_allocate_to_pool`). The filter is copied.
//
// # Safety
//
// `filter` is NULL, which is an error, or points to a live `std::function<bool(cudaStream_t)>`.
void vramtape_begin_allocate_to_pool(int device, uint64_t pool_0, uint64_t pool_1, void *filter);

// Ends what `vramtape_begin_allocate_to_pool` began (`set_end_allocate_to_pool_fn`).
//
// Never throws: PyTorch 2.15 calls it in a graph's destructor too.
void vramtape_end_allocate_to_pool(int device, uint64_t pool_0, uint64_t pool_1);

// One user fewer of the pool; without users its memory can be returned (`set_release_pool`).
//
// Never throws: PyTorch calls it in destructors.
void vramtape_release_pool(int device, uint64_t pool_0, uint64_t pool_1);

// Allocates `size` bytes of device memory for `stream` (PyTorch's `alloc_fn`).
//
// Size 0 gives NULL. Out of memory is `torch.OutOfMemoryError` in a process with PyTorch, another
// failure its `RuntimeError` or `ValueError`; elsewhere both give NULL and are recorded.
void *vramtape_malloc(size_t size, int device, void *stream);

// Gives memory back (PyTorch's `free_fn`). `size` and `stream` are those of the allocation.
//
// Never throws. A pointer that is NULL, unknown, freed already or another device's is a recorded
// error and changes nothing.
void vramtape_free(void *ptr, size_t size, int device, void *stream);

// Creates the pool with one user, or adds a user (`createOrIncrefPool`).
int vramtape_pool_create(int device, uint64_t pool_0, uint64_t pool_1);

// Lets the pool's free memory serve others as a last resort before out of memory, or no longer
// (`setUseOnOOM`).
int vramtape_pool_set_use_on_oom(int device, uint64_t pool_0, uint64_t pool_1, bool enabled);

// Keeps the pool's segments whole from here on (`setNoSplit`).
int vramtape_pool_set_no_split(int device, uint64_t pool_0, uint64_t pool_1);

// How many users the pool has (`getPoolUseCount`); -1 is an error.
int64_t vramtape_pool_use_count(int device, uint64_t pool_0, uint64_t pool_1);

// Returns the pool's cached segments to the driver; the pool (0, 0) is the default pool
// (`emptyCache`).
int vramtape_pool_empty_cache(int device, uint64_t pool_0, uint64_t pool_1);

// The ABI version of the library: compare with `VRAMTAPE_ABI_VERSION` of the header.
uint32_t vramtape_abi_version(void);

// The library's version, "0.1.0". The string is constant.
const char *vramtape_version(void);

// Changes the allocator's settings from here on; `settings` is written as
// `PYTORCH_CUDA_ALLOC_CONF`. Settings that are refused change nothing.
//
// # Safety
//
// `settings` is NULL, which is an error, or a terminated string.
int vramtape_set_settings(const char *settings);

// The settings in force, as they were written. Returns their length without the closing NUL, or
// -1; the buffer gets them if they fit, else the empty string. NULL asks for the length.
//
// # Safety
//
// `buffer` is NULL or points to `capacity` bytes.
int64_t vramtape_get_settings(char *buffer, size_t capacity);

// Adds a function that every device calls, on the allocating thread and with no lock of ours
// held, when its pools have no memory for a request; it may free, and answers whether it did
// (PyTorch's `FreeMemoryCallback`). It cannot be taken back.
//
// # Safety
//
// `callback` is NULL, which is an error, or may be called with `user` on any thread until the
// process ends. It must not throw.
int vramtape_add_free_memory_callback(bool (*callback)(void *user), void *user);

// The device's statistics as JSON, with the keys and values of PyTorch's
// `torch.cuda.memory_stats_as_nested_dict()`. A device that was never used has zeros.
//
// Returns the length without the closing NUL, or -1; the buffer gets the text if it fits, else
// the empty string. NULL asks for the length, which may have grown by the next call.
//
// # Safety
//
// `buffer` is NULL or points to `capacity` bytes.
int64_t vramtape_stats(int device, char *buffer, size_t capacity);

// Sets every peak to the current value (`torch.cuda.reset_peak_memory_stats`).
int vramtape_reset_peak_stats(int device);

// Zeroes the accumulated counters (`torch.cuda.reset_accumulated_memory_stats`).
int vramtape_reset_accumulated_stats(int device);

// The limit that `vramtape_set_memory_fraction` set; 1 is none. -1 is an
// error.
double vramtape_get_memory_fraction(int device);

// The segments and blocks of one device as JSON, `{"segments": [...]}` with the keys of PyTorch's
// snapshots; of one pool, or of all where the pool is (0, 0). Buffer and answer are those of
// `vramtape_stats`.
//
// # Safety
//
// `buffer` is NULL or points to `capacity` bytes.
int64_t vramtape_snapshot(int device,
                          uint64_t pool_0,
                          uint64_t pool_1,
                          char *buffer,
                          size_t capacity);

// Looks through the device's whole heap for contradictions. An error names the first: a bug.
int vramtape_check(int device);

// Starts a tape of every device at `path`, in which `{rank}`, `{pid}` and `{device}` are filled in.
// It begins with the state that memory is in. An error while another tape is being written.
//
// # Safety
//
// `path` is NULL, which is an error, or a terminated string.
int vramtape_tape_start(const char *path);

// Finishes the tape that the settings or `vramtape_tape_start` began; it has everything recorded
// until now.
int vramtape_tape_stop(void);

// Waits until everything recorded until now is in the tape's file, where a reader finds it.
int vramtape_flush(void);

// Saves what the device's ring holds, the newest events and the state before them, as a tape at
// `path`. Recording goes on.
//
// # Safety
//
// `path` is NULL, which is an error, or a terminated string.
int vramtape_tape_save(int device, const char *path);

// Records a mark on every device that was used: `kind` is one of `VRAMTAPE_MARK_*`.
//
// # Safety
//
// `name` is NULL, which is an error, or a terminated string.
int vramtape_mark(int kind, const char *name);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* VRAMTAPE_H */
