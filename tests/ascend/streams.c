/* Stand-in for streams, which hold when their last task ends, and events, which hold when they will be recorded. */
#include <stdlib.h>

#include "runtime.h"

static Stream default_streams[MAX_DEVICES];
static Stream *streams;
static int last_stream_id = 2;

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
    pthread_mutex_lock(&stand_in_lock);
    uint64_t end = default_streams[device].busy_until_ns;
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

/* ---- events ---- */

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
