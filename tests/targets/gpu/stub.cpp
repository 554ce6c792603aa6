// A driver of two devices that are none: memory is main memory, kernels do nothing. It keeps CUDA's rules of captures, graphs and
// handles as far as the engine rests on them, and fails where a call breaks one. Compiled against CUDA's own header, whose macros
// make another version of a function the default from time to time: each is spelt with the version that the engine asks for.
#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <vector>

struct CUgraphNode_st {
    int graph;
};
struct CUgraph_st {
    int device;
    std::vector<CUgraphNode> nodes;
};
struct CUgraphExec_st {
    CUgraph graph;
    int device;
    unsigned long long first;  // the first argument of the node that was updated last
};
struct CUstream_st {
    int device;
    CUgraph capturing = nullptr;
    CUstreamCaptureMode mode{};
};
struct CUevent_st {
    int device;
    bool recorded = false;
};
struct CUmod_st {};

static std::recursive_mutex lock;  // what all threads share
struct Block {
    size_t size;
    int device;
};
static std::map<CUdeviceptr, Block> blocks;
static std::set<void*> pinned;
static CUstream_st default_streams[2] = {{0}, {1}};
static thread_local std::vector<CUcontext> contexts;
static thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
static char primaries[2];  // whose addresses are the contexts of the devices
static int captured[2], disturbed = 0;  // streams under capture, of each device; those that the calls of others disturb
static size_t used[2] = {}, total = size_t(1) << 30;

#define REQUIRE(condition, status) \
    if (!(condition)) return status
#define IN_CONTEXT REQUIRE(!contexts.empty() && contexts.back(), CUDA_ERROR_INVALID_CONTEXT)
#define IN_CONTEXT_OF(object) REQUIRE(!contexts.empty() && (object)->device == here(), CUDA_ERROR_INVALID_CONTEXT)
#define ALONE std::lock_guard<std::recursive_mutex> guard(lock)
#define UNDISTURBING REQUIRE(!disturbed || mode == CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)

static int here() { return int((char*)contexts.back() - primaries); }
static CUstream of(CUstream s) { return s ? s : &default_streams[contexts.empty() ? 0 : here()]; }

static std::vector<std::function<void()>> late;  // copies from pinned memory: they are done when somebody waits

static void do_late() {
    for (auto& copy : late) copy();
    late.clear();
}

static const Block* found(CUdeviceptr at, size_t n) {
    auto next = blocks.upper_bound(at);
    if (next == blocks.begin()) return nullptr;
    auto [start, block] = *std::prev(next);
    return at + n <= start + block.size ? &std::prev(next)->second : nullptr;
}

// Of the device whose context is current: what is another's would be read over the bus, or not at all.
static bool known(CUdeviceptr at, size_t n) {
    auto block = found(at, n);
    return block && block->device == here();
}

extern "C" {
CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* v) { return *v = 13000, CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* n) { return *n = 2, CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* d, int k) { return *d = k, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char* name, int n, CUdevice) { return strncpy(name, "Stub", n), CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int* v, CUdevice_attribute a, CUdevice) {
    *v = a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR                   ? 9
         : a == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN        ? 227 << 10
         : a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR                 ? 0
                                                                             : 1000;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* p, CUdevice) { return *p = (CUmemoryPool)0x99, CUDA_SUCCESS; }
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) { return CUDA_SUCCESS; }
CUresult cuMemPoolTrimTo(CUmemoryPool, size_t) { return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(CUcontext* c, CUdevice d) { return *c = (CUcontext)&primaries[d], CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext* c) { return *c = contexts.empty() ? nullptr : contexts.back(), CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice* d) {
    IN_CONTEXT;
    return *d = here(), CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent_v2(CUcontext c) { return contexts.push_back(c), CUDA_SUCCESS; }
CUresult cuCtxPopCurrent_v2(CUcontext* c) { return *c = contexts.back(), contexts.pop_back(), CUDA_SUCCESS; }
CUresult cuCtxSynchronize() {
    ALONE;
    IN_CONTEXT;
    UNDISTURBING;
    REQUIRE(!captured[here()], CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return do_late(), CUDA_SUCCESS;
}
CUresult cuMemGetInfo_v2(size_t* f, size_t* t) {
    ALONE;
    IN_CONTEXT;
    return *f = total - used[here()], *t = total, CUDA_SUCCESS;
}
CUresult cuMemAlloc_v2(CUdeviceptr* p, size_t n) {
    ALONE;
    IN_CONTEXT;
    UNDISTURBING;
    REQUIRE(used[here()] + n <= total, CUDA_ERROR_OUT_OF_MEMORY);
    used[here()] += n;
    *p = (CUdeviceptr)aligned_alloc(256, (n + 255) / 256 * 256);
    blocks[*p] = {n, here()};
    return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr p) {
    ALONE;
    IN_CONTEXT;
    UNDISTURBING;
    REQUIRE(blocks.count(p) && blocks[p].device == here(), CUDA_ERROR_INVALID_VALUE);
    do_late();
    used[here()] -= blocks[p].size;
    blocks.erase(p);
    return free((void*)p), CUDA_SUCCESS;
}
CUresult cuMemAllocAsync(CUdeviceptr* p, size_t n, CUstream) { return cuMemAlloc_v2(p, n); }
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream) { return cuMemFree_v2(p); }
CUresult cuPointerGetAttribute(void* v, CUpointer_attribute a, CUdeviceptr p) {
    ALONE;
    if (pinned.count((void*)p) && a == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        return *(int*)v = CU_MEMORYTYPE_HOST, CUDA_SUCCESS;
    auto block = found(p, 1);
    REQUIRE(block, CUDA_ERROR_INVALID_VALUE);
    *(int*)v = a == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? int(CU_MEMORYTYPE_DEVICE) : block->device;
    return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void** p, size_t n, unsigned) {
    ALONE;
    IN_CONTEXT;
    UNDISTURBING;
    *p = aligned_alloc(4096, (n + 4095) / 4096 * 4096);
    return pinned.insert(*p), CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* p) {
    ALONE;
    REQUIRE(pinned.erase(p), CUDA_ERROR_INVALID_VALUE);
    return free(p), CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t n, CUstream) {
    ALONE;
    IN_CONTEXT;
    REQUIRE(known(to, n), CUDA_ERROR_INVALID_VALUE);
    if (pinned.count((void*)from)) return late.push_back([=] { memcpy((void*)to, from, n); }), CUDA_SUCCESS;
    std::vector<char> staged((const char*)from, (const char*)from + n);  // which is sent later
    return late.push_back([=] { memcpy((void*)to, staged.data(), n); }), CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t n, CUstream) {
    ALONE;
    IN_CONTEXT;
    REQUIRE(known(from, n), CUDA_ERROR_INVALID_VALUE);
    do_late();
    return memcpy(to, (void*)from, n), CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream) {
    ALONE;
    IN_CONTEXT;
    REQUIRE(known(from, n) && known(to, n), CUDA_ERROR_INVALID_VALUE);
    return late.push_back([=] { memmove((void*)to, (void*)from, n); }), CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* s, unsigned) {
    IN_CONTEXT;
    return *s = new CUstream_st{here()}, CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream s) { return delete s, CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream s) {
    ALONE;
    REQUIRE(!of(s)->capturing, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return do_late(), CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned) {
    IN_CONTEXT_OF(of(s));
    REQUIRE(e->recorded, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus* status) {
    *status = of(s)->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode) {
    ALONE;
    IN_CONTEXT;
    IN_CONTEXT_OF(of(s));
    REQUIRE(s && !s->capturing, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    captured[s->device] += 1, disturbed += mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return s->mode = mode, used[s->device]++, s->capturing = new CUgraph_st{s->device}, CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream s, CUgraph* g) {
    ALONE;
    REQUIRE(s && s->capturing, CUDA_ERROR_ILLEGAL_STATE);
    captured[s->device] -= 1, disturbed -= s->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    *g = s->capturing;
    return s->capturing = nullptr, CUDA_SUCCESS;
}
CUresult cuStreamGetCaptureInfo_v3(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* g,
                                const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* n) {
    REQUIRE(s && s->capturing && id && g && edges, CUDA_ERROR_INVALID_VALUE);
    *status = CU_STREAM_CAPTURE_STATUS_ACTIVE, *n = s->capturing->nodes.empty() ? 0 : 1;
    return *nodes = &s->capturing->nodes.back(), CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* m) { return std::swap(mode, *m), CUDA_SUCCESS; }
CUresult cuEventCreate(CUevent* e, unsigned) {
    IN_CONTEXT;
    return *e = new CUevent_st{here()}, CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent e, CUstream s) {
    IN_CONTEXT_OF(e);
    IN_CONTEXT_OF(of(s));
    return e->recorded = true, CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent) {
    ALONE;
    return do_late(), CUDA_SUCCESS;
}
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float* ms, CUevent a, CUevent b) {
    REQUIRE(a->recorded && b->recorded, CUDA_ERROR_INVALID_HANDLE);
    return *ms = 1.0f, CUDA_SUCCESS;
}
CUresult cuEventDestroy_v2(CUevent e) { return delete e, CUDA_SUCCESS; }
CUresult cuGraphInstantiateWithFlags(CUgraphExec* x, CUgraph g, unsigned long long) {
    IN_CONTEXT;
    REQUIRE(g, CUDA_ERROR_INVALID_VALUE);
    return *x = new CUgraphExec_st{g, here(), 0}, CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec x, CUstream s) {
    IN_CONTEXT_OF(of(s));
    REQUIRE(x && x->device == of(s)->device && !x->graph->nodes.empty(), CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec x, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p) {
    bool ours = false;
    for (auto n : x->graph->nodes) ours |= n == node;
    REQUIRE(ours && p->func && p->gridDimX && p->blockDimX && p->kernelParams, CUDA_ERROR_INVALID_VALUE);
    return x->first = *(unsigned long long*)p->kernelParams[0], CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec x) { return delete x, CUDA_SUCCESS; }
CUresult cuGraphDestroy(CUgraph g) {
    ALONE;
    REQUIRE(g, CUDA_ERROR_INVALID_VALUE);
    return used[g->device]--, delete g, CUDA_SUCCESS;
}
CUresult cuLibraryLoadData(CUlibrary* l, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
                           unsigned) {
    ALONE;
    IN_CONTEXT;
    UNDISTURBING;
    REQUIRE(!memcmp(code, "\x7f" "ELF", 4), CUDA_ERROR_INVALID_IMAGE);
    return *l = (CUlibrary)code, CUDA_SUCCESS;
}
CUresult cuLibraryGetKernel(CUkernel* k, CUlibrary l, const char* name) {
    REQUIRE(l && strlen(name), CUDA_ERROR_NOT_FOUND);
    return *k = (CUkernel)0x77, CUDA_SUCCESS;
}
CUresult cuKernelGetFunction(CUfunction* f, CUkernel k) {
    IN_CONTEXT;
    REQUIRE(k == (CUkernel)0x77, CUDA_ERROR_INVALID_HANDLE);
    return *f = (CUfunction)(0x88L + here()), CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void** arguments, void** extra) {
    ALONE;
    IN_CONTEXT_OF(of(c->hStream));
    REQUIRE(f == (CUfunction)(0x88L + here()) && !extra && c->gridDimX && c->gridDimY - 1 < 65535 && c->gridDimZ - 1 < 65535 &&
                c->blockDimX % 32 == 0 && c->blockDimY == 1,
            CUDA_ERROR_INVALID_VALUE);
    for (unsigned n = 0; n < c->numAttrs; n++)
        REQUIRE(c->attrs[n].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
                    c->attrs[n].value.programmaticStreamSerializationAllowed == 1,
                CUDA_ERROR_INVALID_VALUE);
    REQUIRE(known(*(CUdeviceptr*)arguments[0], 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    if (auto graph = of(c->hStream)->capturing) graph->nodes.push_back(new CUgraphNode_st{0});
    return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult e, const char** s) {
    *s = e == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_STUB";
    return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** s) { return *s = "a text", CUDA_SUCCESS; }
}
