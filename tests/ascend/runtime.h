/* What the three parts of the stand-in runtime share. See README.md in this folder. */
#ifndef STAND_IN_RUNTIME_H
#define STAND_IN_RUNTIME_H

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "acl/acl.h"

#define MAX_DEVICES 64

typedef struct Stream {
    int device;
    int id;
    uint64_t busy_until_ns; /* epoch; when the last task queued so far will have ended */
    struct Stream *next;
} Stream;

/* One task as the "device" executed it: a kernel or a copy. Times are epoch ns. */
typedef struct {
    const char *kind; /* "launch" or "memcpy" */
    int device, stream, task; /* the physical device */
    uint64_t host_start_ns, host_end_ns, start_ns, end_ns;
    const char *detail; /* the remaining JSON members, without braces */
} Task;

extern pthread_mutex_t stand_in_lock; /* guards streams, counters, the journal and the capture */

uint64_t now_ns(void);       /* epoch ns that advance with CLOCK_MONOTONIC_RAW */
int64_t epoch_offset_ns(void); /* now_ns() - CLOCK_MONOTONIC_RAW, constant in a process */
void wait_until(uint64_t epoch_ns);

int device_count(void);
int current_device(void);
int physical_device(int device); /* what ASCEND_RT_VISIBLE_DEVICES makes of a device id */
Stream *stream_of(aclrtStream handle); /* the device's default stream for NULL */

/* Queue a task of this length behind what the stream already holds; caller holds the lock. */
Task queue_task(Stream *stream, const char *kind, uint64_t host_start_ns, uint64_t duration_ns);
void finish_task(Task *task, const char *detail); /* write it to the journal and to the capture */
void capture_task(const Task *task, const char *json_line);

const char *fault(const char *name); /* its value ("" without one), or NULL when it is not asked for */
int fault_on(const char *name, int device); /* whether it is asked for on this physical device, or on all */
aclError fail(aclError code, const char *format, ...);
void journal(const char *json_line);
void journal_call(const char *name, const char *format, ...);

#endif
