/* Stand-in for the CANN runtime on a machine without an NPU: clock, journal, faults, devices; what a task is.
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
#include <time.h>
#include <unistd.h>

/* Looked up by whoever must know that no NPU is behind this library. */
const int goldenprof_stand_in = 1;

#define LAUNCH_LATENCY_NS 4000u
#define GAP_NS 500u

pthread_mutex_t stand_in_lock = PTHREAD_MUTEX_INITIALIZER;

static int contexts[MAX_DEVICES];
static _Thread_local int thread_device = -1;
static int last_task_id;
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
    if (fault_on("sync_hangs", physical_device(current_device())))
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

int fault_on(const char *name, int device) {
    const char *value = fault(name);
    return value && (!*value || atoi(value) == device);
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
    int device = physical_device(stream->device);
    return (Task){kind, device, stream->id, ++last_task_id, host_start_ns, 0, start, start + duration_ns, NULL};
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

static int installed_devices(void) {
    const char *asked = getenv("STAND_IN_DEVICES");
    int count = asked ? atoi(asked) : 1;
    return count < 0 ? 0 : count > MAX_DEVICES ? MAX_DEVICES : count;
}

/* The physical ids that a process sees, in its order; as in CANN, the list ends at the first id that does not exist. */
static int visible_devices(int ids[MAX_DEVICES]) {
    const char *at = getenv("ASCEND_RT_VISIBLE_DEVICES");
    int count = 0, installed = installed_devices();
    if (!at)
        for (; count < installed; count++) ids[count] = count;
    while (at && *at && count < MAX_DEVICES) {
        char *end;
        long id = strtol(at, &end, 10);
        if (end == at || id < 0 || id >= installed) break;
        ids[count++] = (int)id;
        at = *end == ',' ? end + 1 : NULL;
    }
    return count;
}

int device_count(void) {
    int ids[MAX_DEVICES];
    return visible_devices(ids);
}

int physical_device(int device) {
    int ids[MAX_DEVICES];
    return device < visible_devices(ids) ? ids[device] : device;
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
    if (fault_on("device_busy", physical_device(device))) return fail(507033, "EE1002: device %d is used by another process", device);
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
