/* Stand-in for device memory: zero-filled pages of the host, touched only when used; the page before holds the size. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime.h"

#define DEVICE_MEMORY_BYTES (64ull << 30)
#define PAGE 4096u

static size_t allocated_bytes;

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
