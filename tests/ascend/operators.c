/* Stand-in for the operator interface: tensor descriptions, and launches that only take time. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl_op_compiler.h"
#include "runtime.h"

#define MAX_DIMS 16

struct aclTensorDesc {
    aclDataType type;
    aclFormat format;
    int dims;
    int64_t shape[MAX_DIMS];
};

struct aclDataBuffer {
    void *data;
    size_t size;
};

typedef struct {
    int code;
    const char *name;
    int bytes;
} DataType;

static const DataType data_types[] = {
    {ACL_FLOAT, "FLOAT", 4},   {ACL_FLOAT16, "FLOAT16", 2}, {ACL_BF16, "DT_BF16", 2},     {ACL_DOUBLE, "DOUBLE", 8},
    {ACL_INT8, "INT8", 1},     {ACL_INT16, "INT16", 2},     {ACL_INT32, "INT32", 4},      {ACL_INT64, "INT64", 8},
    {ACL_UINT8, "UINT8", 1},   {ACL_UINT16, "UINT16", 2},   {ACL_UINT32, "UINT32", 4},    {ACL_UINT64, "UINT64", 8},
    {ACL_BOOL, "BOOL", 1},     {ACL_STRING, "STRING", 16},  {ACL_COMPLEX64, "COMPLEX64", 8},
    {ACL_COMPLEX128, "COMPLEX128", 16},
};
static const DataType undefined_type = {ACL_DT_UNDEFINED, "UNDEFINED", 0};

static const DataType *data_type(aclDataType code) {
    for (size_t i = 0; i < sizeof data_types / sizeof *data_types; i++)
        if (data_types[i].code == (int)code) return &data_types[i];
    return &undefined_type;
}

static const char *format_name(aclFormat format) {
    switch ((int)format) {
        case ACL_FORMAT_NCHW: return "NCHW";
        case ACL_FORMAT_NHWC: return "NHWC";
        case ACL_FORMAT_ND: return "ND";
        case ACL_FORMAT_NC1HWC0: return "NC1HWC0";
        case ACL_FORMAT_FRACTAL_Z: return "FRACTAL_Z";
        case ACL_FORMAT_FRACTAL_NZ: return "FRACTAL_NZ";
        case ACL_FORMAT_NCDHW: return "NCDHW";
        case ACL_FORMAT_NCL: return "NCL";
        default: return "UNDEFINED";
    }
}

/* ---- tensor descriptions and buffers ---- */

aclError aclSetTensorShape(aclTensorDesc *desc, int dims, const int64_t *shape) {
    if (dims > MAX_DIMS) return fail(ACL_ERROR_INVALID_PARAM, "%d dimensions; the stand-in keeps %d", dims, MAX_DIMS);
    desc->dims = dims;
    if (dims > 0) memcpy(desc->shape, shape, (size_t)dims * sizeof *shape);
    return ACL_SUCCESS;
}

aclError aclSetTensorFormat(aclTensorDesc *desc, aclFormat format) {
    desc->format = format;
    return ACL_SUCCESS;
}

aclTensorDesc *aclCreateTensorDesc(aclDataType type, int dims, const int64_t *shape, aclFormat format) {
    aclTensorDesc *desc = calloc(1, sizeof *desc);
    desc->type = type;
    desc->format = format;
    aclSetTensorShape(desc, dims, shape);
    return desc;
}

void aclDestroyTensorDesc(const aclTensorDesc *desc) { free((void *)desc); }

aclDataType aclGetTensorDescType(const aclTensorDesc *desc) { return desc->type; }

aclFormat aclGetTensorDescFormat(const aclTensorDesc *desc) { return desc->format; }

size_t aclGetTensorDescNumDims(const aclTensorDesc *desc) { return (size_t)desc->dims; }

aclError aclGetTensorDescDimV2(const aclTensorDesc *desc, size_t index, int64_t *size) {
    if (index >= (size_t)desc->dims) return fail(ACL_ERROR_INVALID_PARAM, "no dimension %zu", index);
    *size = desc->shape[index];
    return ACL_SUCCESS;
}

aclDataBuffer *aclCreateDataBuffer(void *data, size_t size) {
    aclDataBuffer *buffer = malloc(sizeof *buffer);
    *buffer = (aclDataBuffer){data, size};
    return buffer;
}

aclError aclDestroyDataBuffer(const aclDataBuffer *buffer) {
    free((void *)buffer);
    return ACL_SUCCESS;
}

aclopAttr *aclopCreateAttr(void) { return malloc(1); }

void aclopDestroyAttr(const aclopAttr *attributes) { free((void *)attributes); }

/* ---- how long a launch takes: made up, but plausible and the same for the same shapes ---- */

#define LAUNCH_NS 1500.0
#define MEMORY_BYTES_PER_NS 1200.0 /* 1.2 TB/s */
#define RANDOM_BYTES_PER_NS 400.0
#define AI_CPU_BYTES_PER_NS 2.0
#define HALF_FLOP_PER_NS 300e3 /* 300 TFLOP/s in float16 and bfloat16 */
#define FLOAT_FLOP_PER_NS 75e3

static double elements(const aclTensorDesc *desc) {
    double count = 1;
    for (int i = 0; i < desc->dims; i++) count *= (double)(desc->shape[i] > 0 ? desc->shape[i] : 0);
    return count;
}

static double total_bytes(int count, const aclTensorDesc *const descs[]) {
    double bytes = 0;
    for (int i = 0; i < count; i++) bytes += elements(descs[i]) * data_type(descs[i]->type)->bytes;
    return bytes;
}

static const char *core_of(const char *op_type, int count, const aclTensorDesc *const inputs[]) {
    if (strncmp(op_type, "DSA", 3) == 0) return "DSA_SQE";
    for (int i = 0; i < count; i++) /* no AI core of this chip has 64-bit floats */
        if (inputs[i]->type == ACL_DOUBLE && inputs[i]->dims > 0) return "AI_CPU";
    return strstr(op_type, "MatMul") || strncmp(op_type, "Conv", 4) == 0 ? "AI_CORE" : "AI_VECTOR_CORE";
}

/* Products of a matrix multiplication, whichever of its operands are transposed: in0 * in1 / out = batch * k * k. */
static double cube_ns(int count, const aclTensorDesc *const inputs[], const aclTensorDesc *output) {
    if (count < 2 || elements(output) == 0) return 0;
    double batch = 1;
    for (int i = 0; i < output->dims - 2; i++) batch *= (double)output->shape[i];
    double k = sqrt(elements(inputs[0]) * elements(inputs[1]) / (elements(output) * batch));
    return 2 * elements(output) * k / (inputs[0]->type == ACL_FLOAT ? FLOAT_FLOP_PER_NS : HALF_FLOP_PER_NS);
}

static uint64_t whole_ticks(double ns) { return (uint64_t)(ns / 20 + 0.5) * 20; }

/* ---- launching ---- */

static void print_tensors(FILE *out, const char *name, int count, const aclTensorDesc *const descs[]) {
    fprintf(out, ",\"%s\":[", name);
    for (int i = 0; i < count; i++) {
        fprintf(out, "%s{\"shape\":[", i ? "," : "");
        for (int d = 0; d < descs[i]->dims; d++) fprintf(out, "%s%lld", d ? "," : "", (long long)descs[i]->shape[d]);
        fprintf(out, "],\"dtype\":\"%s\",\"format\":\"%s\"}", data_type(descs[i]->type)->name,
                format_name(descs[i]->format));
    }
    fputc(']', out);
}

static aclError launch(const char *op_type, int in, const aclTensorDesc *const inputs[], int out,
                       const aclTensorDesc *const outputs[], aclrtStream handle) {
    uint64_t host_start = now_ns();
    const char *wanted = fault("launch_fails");
    if (wanted && (!*wanted || strcmp(wanted, op_type) == 0))
        return fail(ACL_ERROR_GE_FAILURE, "EZ9999: the stand-in was told to fail the launch of %s", op_type);
    wanted = fault("launch_crashes");
    if (wanted && (!*wanted || strcmp(wanted, op_type) == 0)) abort();

    const char *core = core_of(op_type, in, inputs);
    double bytes = total_bytes(in, inputs) + total_bytes(out, outputs);
    double rate = *core == 'D'                    ? RANDOM_BYTES_PER_NS
                  : strcmp(core, "AI_CPU") == 0   ? AI_CPU_BYTES_PER_NS
                                                  : MEMORY_BYTES_PER_NS;
    double memory = bytes / rate;
    double cube = strcmp(core, "AI_CORE") == 0 && out > 0 ? cube_ns(in, inputs, outputs[0]) : 0;
    const char *slow = fault("slow");
    double factor = slow && *slow ? atof(slow) : 1;
    uint64_t duration = whole_ticks(factor * (LAUNCH_NS + (memory > cube ? memory : cube)));

    char *detail = NULL;
    size_t length = 0;
    FILE *text = open_memstream(&detail, &length);
    fprintf(text, "\"op_type\":\"%s\",\"core\":\"%s\",\"memory_ns\":%.0f,\"cube_ns\":%.0f", op_type, core, memory, cube);
    print_tensors(text, "inputs", in, inputs);
    print_tensors(text, "outputs", out, outputs);
    fclose(text);

    pthread_mutex_lock(&stand_in_lock);
    Task task = queue_task(stream_of(handle), "launch", host_start, duration);
    finish_task(&task, detail);
    pthread_mutex_unlock(&stand_in_lock);
    free(detail);
    return ACL_SUCCESS;
}

aclError aclopCompileAndExecute(const char *op_type, int in, const aclTensorDesc *const input_descs[],
                                const aclDataBuffer *const inputs[], int out, const aclTensorDesc *const output_descs[],
                                aclDataBuffer *const outputs[], const aclopAttr *attributes, aclopEngineType engine,
                                aclopCompileType compile, const char *path, aclrtStream stream) {
    (void)inputs, (void)outputs, (void)attributes, (void)engine, (void)compile, (void)path;
    return launch(op_type, in, input_descs, out, output_descs, stream);
}

aclError aclopCompileAndExecuteV2(const char *op_type, int in, aclTensorDesc *input_descs[], aclDataBuffer *inputs[],
                                  int out, aclTensorDesc *output_descs[], aclDataBuffer *outputs[],
                                  aclopAttr *attributes, aclopEngineType engine, aclopCompileType compile,
                                  const char *path, aclrtStream stream) {
    (void)inputs, (void)outputs, (void)attributes, (void)engine, (void)compile, (void)path;
    return launch(op_type, in, (const aclTensorDesc *const *)input_descs, out,
                  (const aclTensorDesc *const *)output_descs, stream);
}
