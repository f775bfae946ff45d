// libvramtape.so: a caching allocator for GPU memory, with a flight recorder.
//
// Generated from the exports in ffi/src/abi; do not edit. `UPDATE_HEADER=1 cargo test -p ffi --test header` writes it.
//
// Every function may be called on any thread at any time. None lets a Rust panic out. Devices are CUDA ordinals, sizes
// are bytes, streams are cudaStream_t, a pool is PyTorch's MempoolId_t as two numbers; (0, 0) is the default pool.
//
// A failure is recorded (vramtape_last_error, vramtape_error_count) and answered: NULL, VRAMTAPE_ERROR, or what the
// function says. In a process with PyTorch those functions that PyTorch calls where an exception may pass throw its
// exceptions instead of answering: vramtape_malloc, vramtape_malloc_switched, vramtape_init, vramtape_empty_cache,
// vramtape_set_memory_fraction, vramtape_base_alloc and vramtape_begin_allocate_to_pool. No other ever throws.

#ifndef VRAMTAPE_H
#define VRAMTAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The result of a successful call of an export without another result.
#define VRAMTAPE_OK 0

// The result of a failed one; see `vramtape_last_error`.
#define VRAMTAPE_ERROR -1

// A forward call makes a node.
#define VRAMTAPE_FORWARD 1

// A node runs its backward pass.
#define VRAMTAPE_BACKWARD 2

// No stacks (`RecordContext`).
#define VRAMTAPE_CONTEXT_NEVER 0

// Live allocations have a stack.
#define VRAMTAPE_CONTEXT_STATE 1

// So have the entries of allocations and frees, which is that of the allocation.
#define VRAMTAPE_CONTEXT_ALLOC 2

// Frees have a stack of their own.
#define VRAMTAPE_CONTEXT_ALL 3

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

// A call of a module begins; the name is the module's path.
#define VRAMTAPE_MARK_MODULE_BEGIN 5

// A call of a module ends.
#define VRAMTAPE_MARK_MODULE_END 6

// The thread's backward pass reached the module; the next phase ends it.
#define VRAMTAPE_MARK_MODULE_BACKWARD 7

// The blocks that this thread categorizes from here on are the module's. An empty name ends it.
#define VRAMTAPE_MARK_MODULE_OWNER 8

// A parameter of the model.
#define VRAMTAPE_CATEGORY_PARAMETER 0

// The gradient of a parameter.
#define VRAMTAPE_CATEGORY_GRADIENT 1

// State of the optimizer.
#define VRAMTAPE_CATEGORY_OPTIMIZER_STATE 2

// A private pool's blocks at one moment.
typedef struct VramtapeCheckpoint VramtapeCheckpoint;

// A node of autograd.
typedef struct VramtapeAutogradCall {
  // PyTorch's number of the thread that made it.
  uint64_t thread;
  // Its number among those of that thread.
  uint64_t sequence;
  // Its name, terminated, where it runs its backward pass.
  uint8_t name[64];
} VramtapeAutogradCall;

// A quantity over time (`c10::CachingAllocator::Stat`).
typedef struct VramtapeStat {
  // Its value now.
  int64_t current;
  // The largest value since the last peak reset.
  int64_t peak;
  // The sum of all increases since the last accumulated reset.
  int64_t allocated;
  // The sum of all decreases since the last accumulated reset.
  int64_t freed;
} VramtapeStat;

// The same over everything, and for each kind of pool (`c10::CachingAllocator::StatArray`).
typedef struct VramtapeStatArray {
  // Both kinds of pool.
  struct VramtapeStat all;
  // Pools of requests up to 1 MiB.
  struct VramtapeStat small_pool;
  // Pools of larger requests.
  struct VramtapeStat large_pool;
} VramtapeStatArray;

// Statistics of one device's allocator, by PyTorch's names; counts, or bytes where the name says so
// (`c10::CachingDeviceAllocator::DeviceStats`).
typedef struct VramtapeDeviceStats {
  // Allocations that callers hold.
  struct VramtapeStatArray allocation;
  // Segments obtained with `cudaMalloc`.
  struct VramtapeStatArray segment;
  // Blocks held by callers or still in use by a stream.
  struct VramtapeStatArray active;
  // Free blocks that are a part of a segment.
  struct VramtapeStatArray inactive_split;
  // Bytes of blocks that callers hold.
  struct VramtapeStatArray allocated_bytes;
  // Bytes obtained from the device.
  struct VramtapeStatArray reserved_bytes;
  // Bytes of active blocks.
  struct VramtapeStatArray active_bytes;
  // Bytes of inactive split blocks.
  struct VramtapeStatArray inactive_split_bytes;
  // Bytes that callers asked for, before rounding, of active blocks.
  struct VramtapeStatArray requested_bytes;
  // Allocations of at least `max_split_size_mb`.
  struct VramtapeStat oversize_allocations;
  // Segments of at least `max_split_size_mb`.
  struct VramtapeStat oversize_segments;
  // Times the device was asked again after a flush.
  int64_t num_alloc_retries;
  // Out-of-memory errors.
  int64_t num_ooms;
  // Times all streams' pending frees were waited for.
  int64_t num_sync_all_streams;
  // Calls that obtained device memory.
  int64_t num_device_alloc;
  // Calls that returned device memory.
  int64_t num_device_free;
  // Requests refused before the device was asked.
  int64_t num_oom_rejections;
  // Blocks of at least this size are not split; -1 is no limit.
  int64_t max_split_size;
} VramtapeDeviceStats;

// A live allocation.
typedef struct VramtapeAllocation {
  // The device it is on.
  int device;
  // Bytes of its block: those asked for, rounded up.
  uint64_t size;
  // Bytes asked for.
  uint64_t requested_size;
  // The stream it was made for.
  uint64_t stream;
  // The pool it is from; (0, 0) is the default pool.
  uint64_t pool_0;
  // The pool's second half.
  uint64_t pool_1;
} VramtapeAllocation;

// One entry of PyTorch's allocation trace (`c10::cuda::CUDACachingAllocator::TraceEntry`).
typedef struct VramtapeTraceEntry {
  // PyTorch's number: 0 alloc, 1 free requested, 2 free completed, 3 segment alloc, 4 segment
  // free, 5 segment map, 6 segment unmap, 7 snapshot, 8 out of memory.
  int action;
  // The device.
  int device;
  // The address; for out of memory, the bytes that the device has free.
  uint64_t address;
  // Bytes: requested (alloc and free), of the segment, active in total (snapshot), or requested and
  // rounded (out of memory).
  uint64_t size;
  // The stream that the memory belongs to.
  uint64_t stream;
  // The first number of its pool.
  uint64_t pool_0;
  // The second.
  uint64_t pool_1;
  // Whether this is the first allocation that splits the segment at `address`. The segment loses its
  // stack then.
  bool cuts_segment;
  // The number of its stack, as `vramtape_observe_stack` gave it; 0 for none.
  uint32_t stack;
} VramtapeTraceEntry;

// A block of a segment that PyTorch's allocator holds.
typedef struct VramtapeObservedBlock {
  // Its size.
  uint64_t size;
  // The requested size.
  uint64_t requested_size;
  // 0 allocated, 1 given back and waiting for other streams, 2 free.
  int status;
} VramtapeObservedBlock;

// A segment that PyTorch's allocator holds.
typedef struct VramtapeObservedSegment {
  // Its address.
  uint64_t address;
  // Its size.
  uint64_t size;
  // The stream that it serves.
  uint64_t stream;
  // The first number of its pool.
  uint64_t pool_0;
  // The second.
  uint64_t pool_1;
  // Whether it serves requests of more than 1 MiB.
  bool is_large;
  // Whether it is mapped and can grow.
  bool is_expandable;
  // Its blocks, which lie one behind the other.
  const struct VramtapeObservedBlock *blocks;
  // How many there are.
  size_t block_count;
} VramtapeObservedSegment;

// The source of the segments of a pool from `vramtape_pool_create_from` (`torch.cuda.MemPool(allocator)`).
//
// The functions are called with `user`, under the device's lock: they must not call this library for
// the same device, and must not throw.
typedef struct VramtapeSource {
  // Memory for one segment; NULL is out of memory.
  void *(*allocate)(size_t size, void *user);
  // Takes a segment back; false if that failed, and the pool keeps it.
  bool (*free)(void *ptr, void *user);
  // The pool is gone, and `user` with it.
  void (*drop)(void *user);
  // The argument that the functions are called with.
  void *user;
} VramtapeSource;

// A block of a segment (`c10::CachingDeviceAllocator::BlockInfo`).
typedef struct VramtapeBlock {
  // Its start address.
  uint64_t addr;
  // Its size.
  uint64_t size;
  // Bytes asked for when it was last handed out.
  uint64_t requested_size;
  // Whether a caller holds it.
  bool allocated;
  // Whether a caller holds it, or a stream still uses it.
  bool active;
} VramtapeBlock;

// A segment, or one contiguous mapped run of an expandable segment
// (`c10::CachingDeviceAllocator::SegmentInfo`).
typedef struct VramtapeSegment {
  // Its start address.
  uint64_t addr;
  // Its size; the blocks tile it.
  uint64_t size;
  // The stream it serves.
  uint64_t stream;
  // The pool it serves; (0, 0) is the default pool.
  uint64_t pool_0;
  // The pool's second half.
  uint64_t pool_1;
  // Whether it serves requests over 1 MiB.
  bool is_large;
  // Whether it is part of an expandable segment.
  bool is_expandable;
  // Its blocks, ascending.
  const struct VramtapeBlock *blocks;
  // How many.
  size_t block_count;
} VramtapeSegment;

// The pages that an allocation lies in, for another process to open.
typedef struct VramtapeSharedPages {
  // Size of each page.
  uint64_t page_size;
  // How many.
  size_t page_count;
  // Offset of the allocation in the first page.
  size_t offset;
  // File descriptors of this process, one for each page. They are closed when the pages are
  // unmapped.
  const int *descriptors;
} VramtapeSharedPages;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// From now on `ask` is called on a thread whose stack is captured, without any lock of ours. It fills in the node and
// returns `VRAMTAPE_FORWARD`, `VRAMTAPE_BACKWARD`, or 0 where autograd does neither. It must not throw and must stay
// valid until the process ends. Only the first call counts.
void vramtape_set_autograd(int (*ask)(struct VramtapeAutogradCall*));

// Returns a checkpoint of the pool's blocks, to be dropped with `vramtape_checkpoint_drop`; NULL is an
// error.
struct VramtapeCheckpoint *vramtape_checkpoint_take(int device,
                                                    uint64_t pool_0,
                                                    uint64_t pool_1);

// Frees the pool's allocations and allocates those of the checkpoint. Calls `freed` with every address
// that its holder must not free any more, then `created` with every address that the caller has to
// free; with no lock of ours held.
//
// # Safety
//
// `checkpoint` is NULL, which is an error, or from `vramtape_checkpoint_take`, of this device. The
// functions are NULL, which is an error, or may be called with `user`; they must not throw.
int vramtape_checkpoint_restore(int device,
                                const struct VramtapeCheckpoint *checkpoint,
                                void (*freed)(void *ptr, void *user),
                                void (*created)(void *ptr, void *user),
                                void *user);

// Drops a checkpoint.
//
// # Safety
//
// `checkpoint` is NULL or from `vramtape_checkpoint_take`, and not used any more.
void vramtape_checkpoint_drop(struct VramtapeCheckpoint *checkpoint);

// Calls `visit` with the address of every allocation of the pool, with no lock of ours held
// (`checkPoolLiveAllocations`).
//
// # Safety
//
// `visit` is NULL, which is an error, or may be called with `user`; it must not throw.
int vramtape_pool_allocations(int device,
                              uint64_t pool_0,
                              uint64_t pool_1,
                              void (*visit)(void *ptr, void *user),
                              void *user);

// The settings in `VRAMTAPE_CONF` that readers outside the allocator need, as JSON: `route`, `strategy`,
// `record`, `tape`, `tape_replace`, `oom_dir` (whether it is set) and `stacks`, defaults included; `all`
// is a text of every setting, for comparison, and `is_read` says whether the allocator has read them.
// Reading it starts nothing.
//
// Buffer and answer are those of `vramtape_stats`; settings that cannot be read are an error.
//
// # Safety
//
// `buffer` is NULL or points to `capacity` bytes.
int64_t vramtape_conf(char *buffer,
                      size_t capacity);

// `VRAMTAPE_CONF` with the keys of `changes` in place of its own: the text for a program that is
// started with them. Buffer and answer are those of `vramtape_stats`.
//
// # Safety
//
// `changes` is NULL, which is an error, or a terminated string; `buffer` is NULL or points to
// `capacity` bytes.
int64_t vramtape_conf_with(const char *changes, char *buffer, size_t capacity);

// Writes the device's statistics to `out`. A device that was never used has zeros.
//
// # Safety
//
// `out` is NULL, which is an error, or points to room for one value.
int vramtape_device_stats(int device, struct VramtapeDeviceStats *out);

// Calls `visit` with every private pool that held memory since the process began, and its reserved
// bytes (PyTorch since 2.13). No lock of ours is held meanwhile.
//
// # Safety
//
// `visit` is NULL, which is an error, or may be called with `user`; it must not throw.
int vramtape_private_pool_stats(int device,
                                void (*visit)(uint64_t pool_0,
                                              uint64_t pool_1,
                                              const struct VramtapeStatArray *reserved_bytes,
                                              void *user),
                                void *user);

// This thread's last error: what was wrong, where, and what to do. NULL where there was none. The
// string lives until the thread's next error or `vramtape_clear_error`.
const char *vramtape_last_error(void);

// Forgets this thread's last error.
void vramtape_clear_error(void);

// How many errors were recorded in all threads since the process began.
uint64_t vramtape_error_count(void);

// Keeps the newest `entries_max` (1 at least) trace entries of each device from here on; another
// call changes how. `context` is one of `VRAMTAPE_CONTEXT_*`, `is_native` says whether stacks have
// native frames too, `skipped` has a bit for each action that is not kept, and `is_cleared`
// forgets what was kept so far.
int vramtape_history_start(int context,
                           bool is_native,
                           uint64_t entries_max,
                           uint32_t skipped,
                           bool is_cleared);

// Keeps no history any more, and forgets what was kept.
int vramtape_history_stop(void);

// Whether a history is being kept.
bool vramtape_history_is_running(void);

// Sets the metadata of this thread's later entries (`torch.cuda.memory._set_memory_metadata`).
//
// # Safety
//
// `text` is NULL, which is an error, or a terminated string.
int vramtape_set_memory_metadata(const char *text);

// The metadata that `vramtape_set_memory_metadata` set on this thread. Buffer and answer are those of
// `vramtape_get_settings`.
//
// # Safety
//
// `buffer` is NULL or points to `capacity` bytes.
int64_t vramtape_get_memory_metadata(char *buffer,
                                     size_t capacity);

// Adds an entry with this text to the history, if one is kept: something that became known of the
// allocation at `ptr` (`torch.cuda.memory._annotate_tensor`).
//
// # Safety
//
// `text` is NULL, which is an error, or a terminated string.
int vramtape_annotate_memory(void *ptr, const char *text);

// CUDA begins, with this many devices (`set_init_fn`). Checks the settings, so that a mistake is
// raised here and not in the first allocation.
void vramtape_init(int device_count);

// Declares that PyTorch's allocator calls this library itself and needs no hooks. Otherwise the first
// allocation sets them.
int vramtape_without_hooks(void);

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

// As `vramtape_free`, for a caller that knows the pointer only, as PyTorch's deleters do. It is
// looked for on the device `guess` first, where a wrong guess costs a look into other heaps.
//
// Answers `VRAMTAPE_ERROR` for a pointer that no device handed out.
int vramtape_delete(void *ptr, int guess);

// Writes what is known of the allocation at `ptr`. An error for a pointer that no device handed out.
//
// # Safety
//
// `allocation` is NULL, which is an error, or points to room for one.
int vramtape_allocation(void *ptr,
                        struct VramtapeAllocation *allocation);

// Lets the device `peer` read and write the expandable segments of `device`, future ones included
// (`enablePeerAccess`). Memory from `cudaMalloc` is accessible once the driver has enabled peer access.
// If both devices have memory and the driver allows it, their memory is mapped for each other without
// this call.
int vramtape_enable_peer_access(int device,
                                int peer);

// PyTorch's own allocator is about to be observed in this process, and nothing is allocated by ours.
int vramtape_observe_begin(void);

// Records one more entry of PyTorch's trace. Called on the acting thread, with PyTorch's lock of the device held. A
// pool of twice `UINT64_MAX` is unknown.
//
// # Safety
//
// `entry` is NULL, which is ignored, or points to one.
void vramtape_observe_entry(const struct VramtapeTraceEntry *entry);

// At which calls the settings want Python's stack (`stacks` in `VRAMTAPE_CONF`): 0 at none, 1 at allocations, 2 at
// frees too.
int vramtape_observe_stacks(void);

// The number of this thread's stack, for the entry that it is about to cause; 0 for none. May wait for Python's lock,
// so it is called before PyTorch's is taken.
uint32_t vramtape_observe_stack(void);

// The device's segments at the snapshot, and the fraction of its memory that PyTorch may use.
//
// # Safety
//
// `segments` points to `count` of them, each with as many blocks as it says; both may be NULL where there are none.
int vramtape_observe_base(int device,
                          double memory_fraction,
                          const struct VramtapeObservedSegment *segments,
                          size_t count);

// Every device that holds memory was described.
int vramtape_observe_ready(void);

// PyTorch's cache is about to be emptied (`begins`), or was: the default pool's, which means all, or one pool's.
int vramtape_observe_empty_cache(uint64_t pool_0,
                                 uint64_t pool_1,
                                 bool begins);

// PyTorch's memory fraction of the device was set.
int vramtape_observe_memory_fraction(double fraction, int device);

// PyTorch's statistics of the device were reset: the peaks, or else the accumulated ones.
int vramtape_observe_reset(int device, bool peaks);

// Creates the pool with one user, or adds a user (`createOrIncrefPool`).
int vramtape_pool_create(int device, uint64_t pool_0, uint64_t pool_1);

// As `vramtape_pool_create`, with a pool that has its segments from `source`. The pool must hold nothing yet.
// The source is dropped with the pool, or here if there is an error.
int vramtape_pool_create_from(int device,
                              uint64_t pool_0,
                              uint64_t pool_1,
                              struct VramtapeSource source);

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

// As `vramtape_pool_create`, with a pool that has its segments from these functions of the kind
// that PyTorch's pluggable allocators are made of (`torch.cuda.MemPool(allocator=...)`). They are
// given the device, and the default stream. The pool must hold nothing yet.
//
// # Safety
//
// The functions are NULL, which is an error, or may be called on any thread as long as the pool has
// memory. They are called under the device's lock: they must not call this library for the same
// device, and must not throw.
int vramtape_pool_create_with(int device,
                              uint64_t pool_0,
                              uint64_t pool_1,
                              void *(*allocate)(size_t size, int device, void *stream),
                              void (*free)(void *ptr, size_t size, int device, void *stream));

// Adds to what tapes say about this program: `json` is an object with any of `torch_version`,
// `cuda_version`, `command` (an array of strings) and `end`, how the program is about to end
// (`{"kind": "exception", "detail": "ValueError: no"}`).
//
// # Safety
//
// `json` is NULL, which is an error, or a terminated string.
int vramtape_describe(const char *json);

// Finishes the tapes at SIGTERM and SIGHUP, before these end the process as they would have: from
// the first use of a device on, and only where the signal has its default action then.
int vramtape_watch_signals(void);

// The tapes that this process is writing, as JSON: an array of objects with `path` and `failed`,
// which is null, or an object with the `reason` and the `time` where a tape ended early.
//
// Buffer and answer are those of `vramtape_stats`.
//
// # Safety
//
// `buffer` is NULL or points to `capacity` bytes.
int64_t vramtape_tapes(char *buffer, size_t capacity);

// Calls `visit` with every segment of the device in ascending order, or with those of one pool
// where that is not (0, 0), as `vramtape_snapshot` shows them. The device's lock is held
// meanwhile: `visit` must not call this library.
//
// # Safety
//
// `visit` is NULL, which is an error, or may be called with `user`; it must not throw.
int vramtape_visit_segments(int device,
                            uint64_t pool_0,
                            uint64_t pool_1,
                            void (*visit)(const struct VramtapeSegment *segment, void *user),
                            void *user);

// Calls `visit` with the mapped bytes of each expandable segment
// (`getExpandableSegmentSizes`). The device's lock is held meanwhile, as above.
//
// # Safety
//
// `visit` is NULL, which is an error, or may be called with `user`; it must not throw.
int vramtape_visit_expandable_segments(int device, void (*visit)(uint64_t stream,
                                                                 bool is_small,
                                                                 uint64_t mapped_bytes,
                                                                 void *user), void *user);

// Raises `largest` to the size of the device's largest cached block; a zero there becomes the
// memory that the device has free first (`cacheInfo`).
//
// # Safety
//
// `largest` is NULL, which is an error, or points to one value.
int vramtape_cache_info(int device, size_t *largest);

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
// process ends. It must not throw. It may wait for Python, and is not called once a Python
// interpreter of the process is ending.
int vramtape_add_free_memory_callback(bool (*callback)(void *user), void *user);

// Calls `visit` with the pages of the expandable segment that the allocation at `ptr` lies in; not
// at all for an allocation in a segment of another kind, which is shared as one piece from its
// base on (`vramtape_base_alloc`).
//
// An unknown pointer is an error, and so is a device that does not share its memory.
//
// # Safety
//
// `visit` is NULL, which is an error, or may be called with `user`; it must not throw.
int vramtape_share_pages(void *ptr, void (*visit)(const struct VramtapeSharedPages *pages,
                                                  void *user), void *user);

// Maps pages that the process `pid` shares, and writes to `ptr` where they begin on `device`. They
// stay until `vramtape_close_pages`, whatever the other process does.
//
// The descriptors are taken from the other process, so it has to be there, of the same user, and
// one that this process may look into (`pidfd_getfd` asks for the rights of a debugger).
//
// # Safety
//
// `descriptors` is NULL, which is an error, or points to `page_count` numbers; `ptr` is NULL, which
// is an error, or points to one pointer.
int vramtape_open_pages(int device,
                        int pid,
                        uint64_t page_size,
                        size_t page_count,
                        const int *descriptors,
                        void **ptr);

// Gives back what `vramtape_open_pages` mapped at `ptr`. The work that used it has to be done.
int vramtape_close_pages(int device, void *ptr);

// The segments and blocks of one device as JSON, `{"segments": [...]}` with the keys of PyTorch's
// snapshots; of one pool, or of all where the pool is (0, 0). Stacks are numbers there, which
// `stacks` makes lists of places in `frames`, where there are any. Buffer and answer are those of
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

// Gives `take` all devices' memory as one JSON object, once and before this returns: `segments`
// (of one pool, or of all where the pool is (0, 0)), `device_traces` (the memory history, one list
// for each device up to the last that was used; none without `with_traces`), `settings`, and
// `stacks` with `frames`, which blocks, segments and entries name by number.
//
// An entry is `[action, address, size, stream, pool_0, pool_1, time in unix microseconds, stack,
// metadata]`, its action one of PyTorch's numbers, or 9 for what `vramtape_annotate_memory` said.
//
// # Safety
//
// `take` is NULL, which is an error, or may be called with `user`, a text and its length in bytes,
// which live during the call; it must not throw.
int vramtape_take_snapshot(uint64_t pool_0,
                           uint64_t pool_1,
                           bool with_traces,
                           void (*take)(void *user, const char *json, size_t length),
                           void *user);

// The stack of the live allocation at `ptr` as JSON, a list of `[name, file, line]` from the
// innermost frame on; `null` where it is unknown. Buffer and answer are those of `vramtape_stats`.
//
// # Safety
//
// `buffer` is NULL or points to `capacity` bytes.
int64_t vramtape_allocation_traceback(void *ptr, char *buffer, size_t capacity);

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

// Looks through the device's whole heap for contradictions. An error names the first: a bug.
int vramtape_check(int device);

// Starts a tape of every device at `path`, in which `{rank}`, `{pid}` and `{device}` are filled in.
// If a file exists there, the tape takes a free name beside it, and a warning names it. The tape
// begins with the current state of memory. It is an error while another tape is being written.
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

// Does now what the end of the process would do: removes its rings and finishes its tapes, which
// have nothing of what comes after. For a process that ends without `exit`: Python's after Ctrl-C,
// and its forked workers'.
int vramtape_finish(void);

// Leaves the rings' files where they are when the process ends, for `vramtape recover`, and returns
// how many there are: none where a tape is being written or nothing was recorded. To be called at
// the end: such files are pruned sooner than those of killed processes.
int vramtape_keep_rings(void);

// Saves what the device's ring holds, the newest events and the state before them, as a tape at
// `path`. Recording goes on.
//
// # Safety
//
// `path` is NULL, which is an error, or a terminated string.
int vramtape_tape_save(int device, const char *path);

// The position of the device's ring, for `vramtape_tape_save_since`; 0 if it has no ring.
uint64_t vramtape_ring_position(int device);

// Saves what every device recorded since a moment, and the state at that moment, as one tape at
// `path`. `positions` are what `vramtape_ring_position` said then of the devices 0 to `count - 1`;
// of others everything is saved that their rings hold. Recording goes on.
//
// Returns how many of the records are missing because the rings have no room for so many, or -1.
//
// # Safety
//
// `positions` points to `count` values, or is NULL where that is 0. `path` is NULL, which is an
// error, or a terminated string.
int64_t vramtape_tape_save_since(const uint64_t *positions, size_t count, const char *path);

// Records what blocks of the device hold: `category` is one of `VRAMTAPE_CATEGORY_*`. Addresses
// that are no block's start are left out; the answer is how many were one, or -1.
//
// # Safety
//
// `addrs` points to `count` values, or is NULL where that is 0.
int64_t vramtape_categorize(int device, int category, const uint64_t *addrs, size_t count);

// Whether the settings want the marks that the Python package makes by itself: not with `marks:off`
// or `record:off`.
bool vramtape_wants_marks(void);

// Whether the settings want marks of modules too: with `marks:modules`, and not with `record:off`.
bool vramtape_wants_module_marks(void);

// Begins to count pinned host memory where PyTorch and the libraries that are loaded now call the CUDA runtime for it;
// each call is a moment on the tape. Only the first call has an effect, and none where the runtime is not loaded.
int vramtape_watch_host_memory(void);

// Writes the pinned host memory of the process, counted so, to `numbers`: the bytes, the most of them so far, and the
// blocks. Returns whether it is counted.
//
// # Safety
//
// `numbers` has room for three values, or is NULL, which is an error.
bool vramtape_host_memory(uint64_t *numbers);

// Records a mark on every device that was used: `kind` is one of `VRAMTAPE_MARK_*`.
//
// # Safety
//
// `name` is NULL, which is an error, or a terminated string.
int vramtape_mark(int kind, const char *name);

// As `vramtape_malloc`, while the cache is on. While it is off, memory straight from the device,
// which no statistic counts and no tape has (`PYTORCH_NO_CUDA_MEMORY_CACHING`); where the device has
// none, that is a `RuntimeError`, and nothing is freed for it.
void *vramtape_malloc_switched(size_t size,
                               int device,
                               void *stream);

// As `vramtape_free`, also for what `vramtape_malloc_switched` gave while the cache was off.
void vramtape_free_switched(void *ptr, size_t size, int device, void *stream);

// Switches the cache of `vramtape_malloc_switched` on or off
// (`torch.cuda.caching_allocator_enable`). Cached memory stays cached.
void vramtape_set_caching(bool value);

// Whether it is on, as it is at first.
bool vramtape_is_caching(void);

// Calls `watcher` with every later trace entry of every device, on the acting thread and with the
// device's lock held: it must not call this library. Returns the watcher's number, or -1.
//
// # Safety
//
// `watcher` is NULL, which is an error, or may be called with `user` on any thread until
// `vramtape_unwatch` has returned. It must not throw.
int64_t vramtape_watch(void (*watcher)(void *user, const struct VramtapeTraceEntry *entry),
                       void *user);

// Removes the watcher that `vramtape_watch` gave this number.
int vramtape_unwatch(int64_t number);

// Calls `observer` at every out of memory, on the requesting thread and without this library's locks,
// before that request fails (PyTorch's `OutOfMemoryObserver`): the device, bytes of the requested
// segment, bytes that may be used, bytes that the device has free. It cannot be removed.
//
// # Safety
//
// `observer` is NULL, which is an error, or may be called with `user` on any thread until the
// process ends. It must not throw. It may wait for Python, and is not called once a Python
// interpreter of the process is ending.
int vramtape_add_oom_observer(void (*observer)(void *user,
                                               int device,
                                               uint64_t segment_bytes,
                                               uint64_t allowed_bytes,
                                               uint64_t device_free_bytes),
                              void *user);

// As `vramtape_add_oom_observer`, for requests refused before the device was asked
// (`throw_on_cudamalloc_oom`, PyTorch's `OomRejectionObserver`): the device, bytes of the segment
// that it would have taken, bytes held from the device, the device's memory.
//
// # Safety
//
// As for `vramtape_add_oom_observer`.
int vramtape_add_oom_rejection_observer(void (*observer)(void *user,
                                                         int device,
                                                         uint64_t segment_bytes,
                                                         uint64_t reserved_bytes,
                                                         uint64_t device_total_bytes), void *user);

// Sets the folder in which the process's first out of memory is saved (`oom_dir` in `VRAMTAPE_CONF`).
//
// # Safety
//
// `folder` is NULL, which is an error, or a terminated string.
int vramtape_set_oom_dir(const char *folder);

// The path of the tape that was made of the process's first out of memory, which is on this device, or an empty text:
// where there is no `oom_dir`, the tape cannot be written, or an earlier call took it. For an observer of
// out of memory. Buffer and answer are those of `vramtape_stats`; a buffer that is too small loses the path.
//
// # Safety
//
// `buffer` is NULL or points to `capacity` bytes.
int64_t vramtape_oom_tape(int device,
                          char *buffer,
                          size_t capacity);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* VRAMTAPE_H */
