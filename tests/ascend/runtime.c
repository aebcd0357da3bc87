/* Stand-in for the CANN runtime: devices, contexts, streams, events and memory, on a machine without an NPU.
 *
 * Nothing is computed. A launch only takes time: it is queued on a stream, starts when the stream is free and ends
 * after a made-up duration, and synchronising waits until the clock has passed that end. Device memory is host memory.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Looked up by whoever must know that no NPU is behind this library. */
const int goldenprof_stand_in = 1;

#define LAUNCH_LATENCY_NS 4000u
#define GAP_NS 500u
#define DEVICE_MEMORY_BYTES (64ull << 30)
#define PAGE 4096u

pthread_mutex_t stand_in_lock = PTHREAD_MUTEX_INITIALIZER;

static int contexts[MAX_DEVICES];
static _Thread_local int thread_device = -1;
static Stream default_streams[MAX_DEVICES];
static Stream *streams;
static int last_stream_id = 2;
static int last_task_id;
static size_t allocated_bytes;
static char recent_error[512];

/* ---- clock ---- */

static uint64_t clock_ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static int64_t epoch_offset;
static pthread_once_t epoch_once = PTHREAD_ONCE_INIT;

static void set_epoch_offset(void) {
    epoch_offset = (int64_t)(clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC_RAW));
}

int64_t epoch_offset_ns(void) {
    pthread_once(&epoch_once, set_epoch_offset);
    return epoch_offset;
}

uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC_RAW) + (uint64_t)epoch_offset_ns(); }

void wait_until(uint64_t epoch_ns) {
    if (fault("sync_hangs"))
        for (;;) pause();
    for (uint64_t now = now_ns(); now < epoch_ns; now = now_ns()) {
        uint64_t left = epoch_ns - now;
        struct timespec t = {(time_t)(left / 1000000000ull), (long)(left % 1000000000ull)};
        nanosleep(&t, NULL);
    }
}

/* ---- faults and the journal ---- */

const char *fault(const char *name) {
    static _Thread_local char value[64];
    const char *all = getenv("STAND_IN_FAULT");
    size_t length = strlen(name);
    for (const char *at = all; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, name, length) != 0 || (at[length] && at[length] != ',' && at[length] != '=')) continue;
        const char *from = at[length] == '=' ? at + length + 1 : "";
        snprintf(value, sizeof value, "%.*s", (int)strcspn(from, ","), from);
        return value;
    }
    return NULL;
}

aclError fail(aclError code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(recent_error, sizeof recent_error, format, args);
    va_end(args);
    return code;
}

void journal(const char *json_line) {
    static int descriptor = -1;
    if (descriptor < 0) {
        const char *path = getenv("STAND_IN_LOG");
        if (path) descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    }
    if (descriptor >= 0 && write(descriptor, json_line, strlen(json_line)) < 0) perror("stand-in journal");
}

void journal_call(const char *name, const char *format, ...) {
    char members[512] = "", line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(members, sizeof members, format, args);
    va_end(args);
    snprintf(line, sizeof line, "{\"kind\":\"call\",\"name\":\"%s\",\"pid\":%d,\"ns\":%llu%s%s}\n", name, getpid(),
             (unsigned long long)now_ns(), *members ? "," : "", members);
    journal(line);
}

const char *aclGetRecentErrMsg(void) { return recent_error; }

/* ---- tasks ---- */

Task queue_task(Stream *stream, const char *kind, uint64_t host_start_ns, uint64_t duration_ns) {
    uint64_t earliest = host_start_ns + LAUNCH_LATENCY_NS, free_at = stream->busy_until_ns + GAP_NS;
    uint64_t start = (earliest > free_at ? earliest : free_at) / 20 * 20; /* the device clock ticks every 20 ns */
    stream->busy_until_ns = start + duration_ns;
    return (Task){kind, stream->device, stream->id, ++last_task_id, host_start_ns, 0, start, start + duration_ns, NULL};
}

void finish_task(Task *task, const char *detail) {
    char *line = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&line, &length);
    task->host_end_ns = now_ns();
    task->detail = detail;
    fprintf(out,
            "{\"kind\":\"%s\",\"pid\":%d,\"tid\":%d,\"device\":%d,\"stream\":%d,\"task\":%d,\"host_start_ns\":%llu,"
            "\"host_end_ns\":%llu,\"start_ns\":%llu,\"end_ns\":%llu,%s}\n",
            task->kind, getpid(), gettid(), task->device, task->stream, task->task,
            (unsigned long long)task->host_start_ns, (unsigned long long)task->host_end_ns,
            (unsigned long long)task->start_ns, (unsigned long long)task->end_ns, detail);
    fclose(out);
    journal(line);
    capture_task(task, line);
    free(line);
}

/* ---- devices and contexts ---- */

int device_count(void) {
    const char *asked = getenv("STAND_IN_DEVICES");
    int count = asked ? atoi(asked) : 1;
    return count < 0 ? 0 : count > MAX_DEVICES ? MAX_DEVICES : count;
}

int current_device(void) { return thread_device < 0 ? 0 : thread_device; }

aclError aclInit(const char *config) {
    (void)config;
    journal_call("aclInit", "");
    return ACL_SUCCESS;
}

aclError aclFinalize(void) {
    journal_call("aclFinalize", "");
    return ACL_SUCCESS;
}

const char *aclrtGetSocName(void) { return "Ascend910B3"; }

aclError aclrtGetDeviceCount(uint32_t *count) {
    *count = (uint32_t)device_count();
    return *count ? ACL_SUCCESS : fail(107000, "the stand-in has no device");
}

aclError aclrtSetDevice(int32_t device) {
    if (device < 0 || device >= device_count())
        return fail(107001, "EE1001: device id %d is not in [0, %d)", device, device_count());
    if (fault("device_busy")) return fail(507033, "EE1002: device %d is used by another process", device);
    if (thread_device != device) journal_call("aclrtSetDevice", "\"device\":%d", device);
    thread_device = device;
    return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t *device) {
    if (thread_device < 0) return fail(107002, "no context on this thread");
    *device = thread_device;
    return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t device) {
    journal_call("aclrtResetDevice", "\"device\":%d", device);
    return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext *context) {
    if (thread_device < 0) return fail(107002, "no context on this thread");
    *context = &contexts[thread_device];
    return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context) {
    thread_device = (int)((int *)context - contexts);
    return ACL_SUCCESS;
}

aclError aclGetDeviceCapability(uint32_t device, aclDeviceInfo what, int64_t *value) {
    (void)device;
    *value = what == ACL_DEVICE_INFO_AI_CORE_NUM ? 20 : what == ACL_DEVICE_INFO_VECTOR_CORE_NUM ? 40 : 192 << 20;
    return ACL_SUCCESS;
}

/* ---- streams ---- */

Stream *stream_of(aclrtStream handle) {
    if (handle) return handle;
    Stream *stream = &default_streams[current_device()];
    stream->device = current_device();
    stream->id = 1;
    return stream;
}

aclError aclrtCreateStreamWithConfig(aclrtStream *handle, uint32_t priority, uint32_t flag) {
    (void)priority, (void)flag;
    Stream *stream = calloc(1, sizeof *stream);
    pthread_mutex_lock(&stand_in_lock);
    *stream = (Stream){current_device(), ++last_stream_id, 0, streams};
    streams = stream;
    pthread_mutex_unlock(&stand_in_lock);
    *handle = stream;
    return ACL_SUCCESS;
}

aclError aclrtCreateStream(aclrtStream *handle) { return aclrtCreateStreamWithConfig(handle, 0, 0); }

/* Kept until the process ends: an event may still point at what was queued on it. */
aclError aclrtDestroyStream(aclrtStream handle) {
    (void)handle;
    return ACL_SUCCESS;
}

aclError aclrtDestroyStreamForce(aclrtStream handle) { return aclrtDestroyStream(handle); }

static uint64_t end_of(const Stream *stream) {
    pthread_mutex_lock(&stand_in_lock);
    uint64_t end = stream->busy_until_ns;
    pthread_mutex_unlock(&stand_in_lock);
    return end;
}

aclError aclrtSynchronizeStream(aclrtStream handle) {
    wait_until(end_of(stream_of(handle)));
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream handle, int32_t timeout) {
    (void)timeout;
    return aclrtSynchronizeStream(handle);
}

aclError aclrtSynchronizeDevice(void) {
    int device = current_device();
    uint64_t end = default_streams[device].busy_until_ns;
    pthread_mutex_lock(&stand_in_lock);
    for (Stream *s = streams; s; s = s->next)
        if (s->device == device && s->busy_until_ns > end) end = s->busy_until_ns;
    pthread_mutex_unlock(&stand_in_lock);
    wait_until(end);
    journal_call("aclrtSynchronizeDevice", "\"device\":%d", device);
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
    (void)timeout;
    return aclrtSynchronizeDevice();
}

aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus *status) {
    *status = end_of(stream_of(handle)) <= now_ns() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtStreamGetId(aclrtStream handle, int32_t *id) {
    *id = stream_of(handle)->id;
    return ACL_SUCCESS;
}

/* ---- events: an event is the time at which it will have been recorded ---- */

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag) {
    (void)flag;
    *event = calloc(1, sizeof(uint64_t));
    return ACL_SUCCESS;
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag) { return aclrtCreateEventExWithFlag(event, flag); }

aclError aclrtDestroyEvent(aclrtEvent event) {
    free(event);
    return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream handle) {
    uint64_t end = end_of(stream_of(handle)), now = now_ns();
    *(uint64_t *)event = end > now ? end : now;
    return ACL_SUCCESS;
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream handle) {
    (void)event, (void)handle;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
    wait_until(*(uint64_t *)event);
    return ACL_SUCCESS;
}

aclError aclrtStreamWaitEvent(aclrtStream handle, aclrtEvent event) {
    Stream *stream = stream_of(handle);
    pthread_mutex_lock(&stand_in_lock);
    if (stream->busy_until_ns < *(uint64_t *)event) stream->busy_until_ns = *(uint64_t *)event;
    pthread_mutex_unlock(&stand_in_lock);
    return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status) {
    *status = *(uint64_t *)event <= now_ns() ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status) {
    *status = *(uint64_t *)event <= now_ns() ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtEventElapsedTime(float *milliseconds, aclrtEvent start, aclrtEvent end) {
    *milliseconds = (float)((double)(int64_t)(*(uint64_t *)end - *(uint64_t *)start) / 1e6);
    return ACL_SUCCESS;
}

/* ---- memory: zero-filled pages, touched only when used; the page before a block holds its size ---- */

aclError aclrtMalloc(void **pointer, size_t size, aclrtMemMallocPolicy policy) {
    (void)policy;
    pthread_mutex_lock(&stand_in_lock);
    int fits = allocated_bytes + size <= DEVICE_MEMORY_BYTES && !fault("out_of_memory");
    if (fits) allocated_bytes += size;
    pthread_mutex_unlock(&stand_in_lock);
    if (!fits) return fail(207001, "EL0004: cannot allocate %zu bytes of device memory", size);
    char *base = mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return fail(207001, "EL0004: the host has no %zu bytes left", size);
    *(size_t *)base = size;
    *pointer = base + PAGE;
    return ACL_SUCCESS;
}

aclError aclrtMallocAlign32(void **pointer, size_t size, aclrtMemMallocPolicy policy) {
    return aclrtMalloc(pointer, size, policy);
}

aclError aclrtFree(void *pointer) {
    char *base = (char *)pointer - PAGE;
    size_t size = *(size_t *)base;
    pthread_mutex_lock(&stand_in_lock);
    allocated_bytes -= size;
    pthread_mutex_unlock(&stand_in_lock);
    munmap(base, size + PAGE);
    return ACL_SUCCESS;
}

aclError aclrtMallocHost(void **pointer, size_t size) { return posix_memalign(pointer, 512, size) ? 207001 : ACL_SUCCESS; }

aclError aclrtFreeHost(void *pointer) {
    free(pointer);
    return ACL_SUCCESS;
}

aclError aclrtGetMemInfo(aclrtMemAttr attribute, size_t *free_bytes, size_t *total_bytes) {
    (void)attribute;
    *total_bytes = DEVICE_MEMORY_BYTES;
    *free_bytes = DEVICE_MEMORY_BYTES - allocated_bytes;
    return ACL_SUCCESS;
}

static const char *direction(aclrtMemcpyKind kind) {
    static const char *const names[] = {"host_to_host", "host_to_device", "device_to_host", "device_to_device"};
    return (unsigned)kind < 4 ? names[kind] : "other";
}

static aclError copy(void *to, size_t room, const void *from, size_t bytes) {
    if (bytes > room) return fail(ACL_ERROR_INVALID_PARAM, "copy of %zu bytes into %zu", bytes, room);
    memcpy(to, from, bytes);
    return ACL_SUCCESS;
}

aclError aclrtMemcpy(void *to, size_t room, const void *from, size_t bytes, aclrtMemcpyKind kind) {
    journal_call("aclrtMemcpy", "\"direction\":\"%s\",\"bytes\":%zu", direction(kind), bytes);
    return copy(to, room, from, bytes);
}

aclError aclrtMemcpyAsync(void *to, size_t room, const void *from, size_t bytes, aclrtMemcpyKind kind,
                          aclrtStream handle) {
    uint64_t host_start = now_ns();
    aclError error = copy(to, room, from, bytes);
    if (error) return error;
    char detail[128];
    snprintf(detail, sizeof detail, "\"direction\":\"%s\",\"bytes\":%zu", direction(kind), bytes);
    uint64_t bytes_per_us = kind == ACL_MEMCPY_DEVICE_TO_DEVICE ? 600000 : 25000;
    pthread_mutex_lock(&stand_in_lock);
    Task task = queue_task(stream_of(handle), "memcpy", host_start, 1000 + bytes * 1000 / bytes_per_us / 20 * 20);
    finish_task(&task, detail);
    pthread_mutex_unlock(&stand_in_lock);
    return ACL_SUCCESS;
}

aclError aclrtMemset(void *pointer, size_t room, int32_t value, size_t bytes) {
    if (bytes > room) return fail(ACL_ERROR_INVALID_PARAM, "set of %zu bytes in %zu", bytes, room);
    memset(pointer, value, bytes);
    return ACL_SUCCESS;
}

aclError aclrtMemsetAsync(void *pointer, size_t room, int32_t value, size_t bytes, aclrtStream handle) {
    (void)handle;
    return aclrtMemset(pointer, room, value, bytes);
}
