/* Stand-in for the profiling interface: a capture keeps every task that ends after it was started.
 *
 * The directory has the names the real one has, as far as torch_npu reads them; what the device did is one JSON line
 * per task, which the stand-in msprof reads.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl_prof.h"
#include "runtime.h"

#define MAX_PENDING 65536

struct aclprofConfig {
    uint32_t devices[MAX_DEVICES];
    uint32_t device_count;
    int metrics;
    uint64_t data_types;
};

typedef struct {
    uint64_t end_ns;
    int device;
    char *line;
} Pending;

static char result_path[2048];
static char prof_path[3072];
static FILE *data_files[MAX_DEVICES];
static int capturing;
static Pending pending[MAX_PENDING]; /* queued before a capture and perhaps still running when it starts */
static int pending_count;

static void drop_finished(uint64_t now) {
    int kept = 0;
    for (int i = 0; i < pending_count; i++) {
        if (pending[i].end_ns > now)
            pending[kept++] = pending[i];
        else
            free(pending[i].line);
    }
    pending_count = kept;
}

void capture_task(const Task *task, const char *line) {
    if (capturing) {
        FILE *file = data_files[task->device];
        if (file) fputs(line, file);
        return;
    }
    drop_finished(now_ns());
    if (pending_count < MAX_PENDING) pending[pending_count++] = (Pending){task->end_ns, task->device, strdup(line)};
}

aclError aclprofInit(const char *path, size_t length) {
    snprintf(result_path, sizeof result_path, "%.*s", (int)length, path);
    journal_call("aclprofInit", "\"path\":\"%s\"", result_path);
    return ACL_SUCCESS;
}

aclError aclprofFinalize(void) {
    journal_call("aclprofFinalize", "");
    return ACL_SUCCESS;
}

aclprofConfig *aclprofCreateConfig(uint32_t *devices, uint32_t count, aclprofAicoreMetrics metrics,
                                   const aclprofAicoreEvents *events, uint64_t data_types) {
    (void)events;
    if (count > MAX_DEVICES) return NULL;
    aclprofConfig *config = calloc(1, sizeof *config);
    for (uint32_t i = 0; i < count; i++) config->devices[i] = (uint32_t)physical_device((int)devices[i]);
    config->device_count = count;
    config->metrics = (int)metrics;
    config->data_types = data_types;
    char list[512] = "";
    for (uint32_t i = 0; i < count; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%u", i ? "," : "", devices[i]);
    journal_call("aclprofCreateConfig", "\"devices\":[%s],\"metrics\":%d,\"data_types\":%llu", list, config->metrics,
                 (unsigned long long)data_types);
    return config;
}

aclError aclprofDestroyConfig(const aclprofConfig *config) {
    free((void *)config);
    return ACL_SUCCESS;
}

aclError aclprofSetConfig(aclprofConfigType type, const char *value, size_t length) {
    journal_call("aclprofSetConfig", "\"type\":%d,\"value\":\"%.*s\"", (int)type, (int)length, value);
    return ACL_SUCCESS;
}

aclError aclprofWarmup(const aclprofConfig *config) {
    (void)config;
    journal_call("aclprofWarmup", "");
    return ACL_SUCCESS;
}

static FILE *create_file(const char *name, const char *mode) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", prof_path, name);
    return fopen(path, mode);
}

static int create_folder(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", prof_path, name);
    return mkdir(path, 0750) == 0 || errno == EEXIST;
}

static void name_prof_path(uint64_t begin_ns) {
    static int captures;
    char letters[17] = "";
    uint64_t seed = begin_ns ^ ((uint64_t)getpid() << 32);
    for (int i = 0; i < 16; i++, seed = seed * 6364136223846793005ull + 1442695040888963407ull)
        letters[i] = (char)('A' + (seed >> 33) % 26);
    time_t seconds = (time_t)(begin_ns / 1000000000ull);
    struct tm local;
    char stamp[32];
    localtime_r(&seconds, &local);
    strftime(stamp, sizeof stamp, "%Y%m%d%H%M%S", &local);
    snprintf(prof_path, sizeof prof_path, "%s/PROF_%06d_%s%03d_%s", result_path, ++captures, stamp,
             (int)(begin_ns / 1000000ull % 1000), letters);
}

static int create_folders(const aclprofConfig *config) {
    if (mkdir(prof_path, 0750) != 0 || !create_folder("host")) return 0;
    for (uint32_t i = 0; i < config->device_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "device_%u", config->devices[i]);
        if (!create_folder(name)) return 0;
        snprintf(name, sizeof name, "device_%u/data", config->devices[i]);
        if (!create_folder(name)) return 0;
        snprintf(name, sizeof name, "device_%u/data/stand_in_tasks.jsonl", config->devices[i]);
        data_files[config->devices[i]] = create_file(name, "w");
        if (!data_files[config->devices[i]]) return 0;
    }
    return 1;
}

static void describe_capture(const aclprofConfig *config, uint64_t begin_ns) {
    FILE *start = create_file("host/start_info", "w");
    fprintf(start, "{\"collectionTimeBegin\": \"%llu\", \"clockMonotonicRaw\": \"%llu\"}",
            (unsigned long long)(begin_ns / 1000), (unsigned long long)(begin_ns - (uint64_t)epoch_offset_ns()));
    fclose(start);
    FILE *sample = create_file("host/sample.json", "w");
    fprintf(sample, "{\"stand_in\": true, \"metrics\": %d, \"data_types\": %llu, \"begin_ns\": %llu}", config->metrics,
            (unsigned long long)config->data_types, (unsigned long long)begin_ns);
    fclose(sample);
}

aclError aclprofStart(const aclprofConfig *config) {
    if (fault_on("capture_fails", (int)config->devices[0])) return fail(ACL_ERROR_PROFILING_FAILURE, "the stand-in was told to fail the capture");
    pthread_mutex_lock(&stand_in_lock);
    uint64_t begin_ns = now_ns() / 1000 * 1000; /* whole us: the start is handed on in us */
    name_prof_path(begin_ns);
    int ready = create_folders(config);
    if (ready) {
        describe_capture(config, begin_ns);
        drop_finished(begin_ns);
        for (int i = 0; i < pending_count; i++) {
            if (data_files[pending[i].device]) fputs(pending[i].line, data_files[pending[i].device]);
            free(pending[i].line);
        }
        pending_count = 0;
        capturing = 1;
    }
    pthread_mutex_unlock(&stand_in_lock);
    journal_call("aclprofStart", "\"prof\":\"%s\"", strrchr(prof_path, '/') + 1);
    return ready ? ACL_SUCCESS : fail(ACL_ERROR_PROFILING_FAILURE, "cannot create %s", prof_path);
}

aclError aclprofStop(const aclprofConfig *config) {
    (void)config;
    pthread_mutex_lock(&stand_in_lock);
    capturing = 0;
    for (int i = 0; i < MAX_DEVICES; i++) {
        if (data_files[i]) fclose(data_files[i]);
        data_files[i] = NULL;
    }
    pthread_mutex_unlock(&stand_in_lock);
    journal_call("aclprofStop", "");
    return ACL_SUCCESS;
}
