// A CUDA runtime and driver whose devices are host memory and whose kernels are functions of shared objects.
//
// CuPy's own extension modules call these functions instead of NVIDIA's (`machine.py` puts them in their place). A launch
// runs at once, in the calling thread, so streams order nothing here; tests/simulated_cuda is the place where order is
// tested. What this runtime does check is what the real one refuses: memory of another device or of the host given to a
// kernel, calls that a capture does not allow, handles that are gone, launches that are too large. Fresh memory holds
// 0xFF bytes (nan, -1); bytes behind a block are watched, and a write there is reported when the block is freed.
//
// It fails as a driver does, too. What a kernel does wrong shows late and for ever: its launch has succeeded, what was queued
// behind it is not done, the first call that waits is told, and from then on every call is, until the process ends (with
// CUDA_LAUNCH_BLOCKING=1 the launch itself waits). In a child that was forked after the first call, no call works.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <cuda.h>
#include <driver_types.h>

// cuda.h calls the second versions of these by their old names; CuPy asks for both.
#undef cuCtxCreate
#undef cuCtxDestroy
#undef cuDevicePrimaryCtxRelease
#undef cuModuleGetGlobal
#undef cuLinkCreate
#undef cuLinkAddData
#undef cuLinkAddFile

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kDevices = 2;
constexpr size_t kMemory = size_t(8) << 30, kFence = 256;
enum Kind { kDevice, kPinned, kManaged };

struct Block { size_t size; int device; Kind kind; };
struct Graph { std::vector<std::function<cudaError_t()>> nodes; };
struct Capture { Graph graph; cudaStreamCaptureMode mode; bool broken = false; int streams = 1; };
struct Stream { int device; unsigned flags; int priority; std::shared_ptr<Capture> capture; bool origin = false; };
struct Event { unsigned flags; double time = -1; std::shared_ptr<Capture> capture; };

std::recursive_mutex mutex;
std::map<uintptr_t, Block> blocks;
std::set<Stream*> streams;
std::set<Event*> events;
Stream null_streams[kDevices];
size_t used[kDevices];
int peers[kDevices][kDevices];
std::string problem;  // of a call: the first one
cudaError_t fault = cudaSuccess;  // of a kernel: the context is lost
std::string fault_text;
bool told = false;  // some call has answered with the fault
bool used_here = false, forked = false;  // whether calls were made, and whether that was before this process was forked
thread_local int device = 0;
thread_local cudaError_t last = cudaSuccess;
thread_local Capture* own_capture = nullptr;  // begun by this thread, not relaxed

using Lock = std::lock_guard<std::recursive_mutex>;

cudaError_t result(cudaError_t e) {
  if (e != cudaSuccess) last = e;
  return e;
}
cudaError_t report(cudaError_t e, const std::string& text) {
  if (problem.empty()) problem = text;
  return result(e);
}

// What every call answers first. A context does not outlive a fault of a kernel, nor a fork.
cudaError_t lost() {
  if (forked) return result(cudaErrorInitializationError);
  if (!used_here) {
    used_here = true;
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
  }
  return told ? result(fault) : cudaSuccess;
}
// The same for a call that waits for what was queued.
cudaError_t waited() {
  if (fault) told = true;
  return lost();
}
#define IN_CONTEXT if (auto lost_ = lost()) return lost_
#define IN_DRIVER_CONTEXT if (auto lost_ = lost()) return CUresult(lost_)

cudaError_t break_down(cudaError_t e, const std::string& text) {
  if (!fault) fault = e, fault_text = text;
  return cudaSuccess;
}
bool launches_wait() {
  const char* set = getenv("CUDA_LAUNCH_BLOCKING");
  return set && !strcmp(set, "1");
}

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

const std::pair<const uintptr_t, Block>* block_of(const void* p) {
  uintptr_t address = uintptr_t(p);
  auto it = blocks.upper_bound(address);
  if (it == blocks.begin()) return nullptr;
  --it;
  return address < it->first + it->second.size ? &*it : nullptr;
}

Stream* stream_of(cudaStream_t s) {
  if (uintptr_t(s) <= 2) {
    null_streams[device].device = device;
    return &null_streams[device];
  }
  Stream* found = reinterpret_cast<Stream*>(s);
  return streams.count(found) ? found : nullptr;
}

void spoil(Capture& c) { c.broken = true; }

// Calls that wait, or that another thread's work might depend on, are refused while a stream is captured.
cudaError_t unsafe_call() {
  if (!own_capture) return cudaSuccess;
  spoil(*own_capture);
  return result(cudaErrorStreamCaptureUnsupported);
}

bool is_legacy(Stream* s) { return s == &null_streams[s->device]; }

// Runs `what` now, or makes it a node of the graph that the stream is captured into.
cudaError_t enqueue(cudaStream_t handle, std::function<cudaError_t()> what) {
  IN_CONTEXT;
  Stream* s = stream_of(handle);
  if (!s) return report(cudaErrorInvalidResourceHandle, "a stream that was destroyed, or never made");
  if (is_legacy(s))
    for (Stream* other : streams)
      if (other->capture && !(other->flags & cudaStreamNonBlocking)) {
        spoil(*other->capture);
        return result(cudaErrorStreamCaptureImplicit);
      }
  if (!s->capture) {
    if (fault) return lost();  // nothing is done any more
    auto e = result(what());
    return e ? e : launches_wait() ? waited() : cudaSuccess;
  }
  if (s->capture->broken) return result(cudaErrorStreamCaptureInvalidated);
  s->capture->graph.nodes.push_back(std::move(what));
  return cudaSuccess;
}

cudaError_t allocate(void** out, size_t size, Kind kind) {
  *out = nullptr;
  IN_CONTEXT;
  Lock lock(mutex);
  if (size == 0) return cudaSuccess;
  if (kind == kDevice && used[device] + size > kMemory) return result(cudaErrorMemoryAllocation);
  void* memory;
  if (posix_memalign(&memory, 512, size + kFence)) return result(cudaErrorMemoryAllocation);
  memset(memory, 0xFF, size + kFence);
  blocks[uintptr_t(memory)] = {size, device, kind};
  if (kind == kDevice) used[device] += size;
  *out = memory;
  return cudaSuccess;
}

cudaError_t release(void* p) {
  IN_CONTEXT;
  Lock lock(mutex);
  if (!p) return cudaSuccess;
  auto it = blocks.find(uintptr_t(p));
  if (it == blocks.end()) return report(cudaErrorInvalidValue, "free of memory that was never given out");
  const unsigned char* fence = static_cast<unsigned char*>(p) + it->second.size;
  for (size_t i = 0; i < kFence; ++i)
    if (fence[i] != 0xFF) {
      if (problem.empty()) problem = "something was written behind a block of " + std::to_string(it->second.size) + " bytes";
      break;
    }
  if (it->second.kind == kDevice) used[it->second.device] -= it->second.size;
  blocks.erase(it);
  free(p);
  return cudaSuccess;
}

// Both sides must be what the kind of the copy says they are.
cudaError_t copy(void* to, const void* from, size_t n, int kind) {
  auto is_device = [](const void* p) { auto b = block_of(p); return b && b->second.kind != kPinned; };
  bool d = is_device(to), s = is_device(from);
  if (n && kind != cudaMemcpyDefault && (d != (kind == 1 || kind == 3) || s != (kind == 2 || kind == 3)))
    return report(cudaErrorInvalidValue, "a copy whose kind does not say where the memory is");
  memmove(to, from, n);
  return cudaSuccess;
}

struct Parameter { int size, pointee; char kind; };
struct Function {
  std::string name;
  const char* (*launch)(const unsigned*, size_t, unsigned, void**);
  std::vector<Parameter> parameters;
  const char* (*refused)(const unsigned*, size_t, int) = nullptr;
  int bound = 1024;  // of __launch_bounds__; tests/kernels/test_nvrtc.py shows that registers are enough for so many
  int dynamic_shared = 48 * 1024;
};
struct Module { void* library; std::map<std::string, std::unique_ptr<Function>> functions; };
unsigned seed = 1;
unsigned long launches;
bool idle;  // what is launched is counted and dropped: to time what the host does

// What is wrong with a pointer that a kernel is given, or "".
std::string check_pointer(const Function& f, size_t i, const void* p) {
  if (!p) return "";
  auto b = block_of(p);
  if (!b) return f.name + ": argument " + std::to_string(i) + " is not memory of a device";
  if (b->second.kind == kDevice && b->second.device != device && !peers[device][b->second.device])
    return f.name + ": argument " + std::to_string(i) + " is memory of device " + std::to_string(b->second.device) +
           ", the kernel runs on " + std::to_string(device);
  return "";
}

}  // namespace

// -- for machine.py

EXPORT const char* cuda_on_cpu_problem() {
  static std::string told;
  Lock lock(mutex);
  told.swap(problem);
  problem.clear();
  return told.c_str();
}
EXPORT void cuda_on_cpu_set_idle(int on) { idle = on; }
EXPORT unsigned long cuda_on_cpu_launches() { return launches; }
EXPORT cudaError_t cuda_on_cpu_missing(const char* name) {
  return report(cudaErrorNotSupported, std::string(name) + " is not part of the runtime on the CPU");
}

// For kernel_counts.py: a line for each kernel, fill and call of a library, with the bytes of the memory that it is given.
// mode: 0, 1: list, 2: list and drop what is launched.
static int listing;
static std::string listed;
static bool note(const std::string& what, size_t bytes) {  // whether to drop it
  if (listing) listed += what + " " + std::to_string(bytes) + "\n";
  return listing == 2;
}
EXPORT void cuda_on_cpu_list(int mode) {
  Lock lock(mutex);
  listing = mode;
  if (mode) listed.clear();
}
EXPORT const char* cuda_on_cpu_listed() { return listed.c_str(); }

// For the libraries: work on a stream, and what they may ask.
EXPORT int cuda_on_cpu_enqueue(void* stream, std::function<int()>* work) {
  std::shared_ptr<std::function<int()>> own(work);
  IN_CONTEXT;
  if (note("library", 0)) return cudaSuccess;
  Lock lock(mutex);
  if (idle) return ++launches, cudaSuccess;
  return enqueue(static_cast<cudaStream_t>(stream), [own] {
    ++launches;
    return cudaError_t((*own)());
  });
}
EXPORT int cuda_on_cpu_is_capturing(void* stream) {
  Lock lock(mutex);
  Stream* s = stream_of(static_cast<cudaStream_t>(stream));
  return s && s->capture;
}
EXPORT int cuda_on_cpu_is_device(const void* p) {
  Lock lock(mutex);
  auto b = block_of(p);
  return b && b->second.kind != kPinned;
}

// -- errors, versions, devices

EXPORT const char* my_cudaGetErrorName(cudaError_t e) {
  static std::map<int, const char*> names = {
      {0, "cudaSuccess"}, {1, "cudaErrorInvalidValue"}, {2, "cudaErrorMemoryAllocation"},
      {3, "cudaErrorInitializationError"}, {101, "cudaErrorInvalidDevice"},
      {400, "cudaErrorInvalidResourceHandle"}, {600, "cudaErrorNotReady"}, {700, "cudaErrorIllegalAddress"},
      {701, "cudaErrorLaunchOutOfResources"}, {716, "cudaErrorMisalignedAddress"}, {704, "cudaErrorPeerAccessAlreadyEnabled"}, {719, "cudaErrorLaunchFailure"},
      {801, "cudaErrorNotSupported"}, {900, "cudaErrorStreamCaptureUnsupported"}, {901, "cudaErrorStreamCaptureInvalidated"},
      {904, "cudaErrorStreamCaptureUnjoined"}, {905, "cudaErrorStreamCaptureIsolation"}, {906, "cudaErrorStreamCaptureImplicit"}};
  auto it = names.find(e);
  return it == names.end() ? "cudaErrorUnknown" : it->second;
}
EXPORT const char* my_cudaGetErrorString(cudaError_t e) {
  static std::string text;
  if (e == cudaErrorInitializationError) return "initialization error";  // without the lock: after a fork somebody may have it
  Lock lock(mutex);
  if (e && e == fault) {
    text = fault_text;
    return text.c_str();
  }
  text = problem.empty() ? my_cudaGetErrorName(e) : problem;
  problem.clear();
  return text.c_str();
}
EXPORT cudaError_t my_cudaGetLastError() { auto e = last; last = told ? fault : cudaSuccess; return e; }
EXPORT cudaError_t my_cudaPeekAtLastError() { return last; }
EXPORT cudaError_t my_cudaDriverGetVersion(int* v) { *v = CUDA_VERSION; return cudaSuccess; }
EXPORT cudaError_t my_cudaRuntimeGetVersion(int* v) { *v = CUDA_VERSION; return cudaSuccess; }
// Questions about devices are answered whatever has become of the context.
cudaError_t asked() { return forked || !used_here ? lost() : cudaSuccess; }
EXPORT cudaError_t my_cudaGetDeviceCount(int* n) { *n = kDevices; return asked(); }
EXPORT cudaError_t my_cudaGetDevice(int* d) { *d = device; return asked(); }
EXPORT cudaError_t my_cudaSetDevice(int d) {
  IN_CONTEXT;
  if (d < 0 || d >= kDevices) return result(cudaErrorInvalidDevice);
  device = d;
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaDeviceGetAttribute(int* value, int attribute, int) {
  static std::map<int, int> values = {
      {cudaDevAttrMaxThreadsPerBlock, 1024}, {cudaDevAttrMaxSharedMemoryPerBlock, 48 * 1024}, {cudaDevAttrWarpSize, 32},
      {cudaDevAttrMultiProcessorCount, 132}, {cudaDevAttrComputeCapabilityMajor, 9}, {cudaDevAttrComputeCapabilityMinor, 0},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, 227 * 1024}, {cudaDevAttrMaxGridDimX, 0x7fffffff},
      {cudaDevAttrMaxGridDimY, 65535}, {cudaDevAttrMaxGridDimZ, 65535}, {cudaDevAttrMaxBlockDimX, 1024},
      {cudaDevAttrMaxBlockDimY, 1024}, {cudaDevAttrMaxBlockDimZ, 64}, {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
      {cudaDevAttrUnifiedAddressing, 1}, {cudaDevAttrMemoryPoolsSupported, 1}, {cudaDevAttrClockRate, 1980000},
      {cudaDevAttrMemoryClockRate, 3201000}, {cudaDevAttrGlobalMemoryBusWidth, 6144}, {cudaDevAttrL2CacheSize, 62914560},
      {cudaDevAttrCooperativeLaunch, 1}, {cudaDevAttrConcurrentKernels, 1}, {cudaDevAttrAsyncEngineCount, 3}};
  auto it = values.find(attribute);
  *value = it == values.end() ? 0 : it->second;
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaGetDeviceProperties(cudaDeviceProp* p, int d) {
  if (d < 0 || d >= kDevices) return result(cudaErrorInvalidDevice);
  memset(p, 0, sizeof *p);
  snprintf(p->name, sizeof p->name, "CUDA on the CPU");
  p->totalGlobalMem = kMemory;
  p->major = 9, p->minor = 0, p->warpSize = 32, p->multiProcessorCount = 132;
  p->maxThreadsPerBlock = 1024, p->maxThreadsPerMultiProcessor = 2048;
  p->sharedMemPerBlock = 48 * 1024, p->sharedMemPerBlockOptin = 227 * 1024, p->sharedMemPerMultiprocessor = 228 * 1024;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536, p->l2CacheSize = 62914560;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 0x7fffffff, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->pciBusID = d, p->memoryBusWidth = 6144, p->unifiedAddressing = 1;
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaDeviceGetPCIBusId(char* text, int n, int d) { snprintf(text, n, "0000:%02x:00.0", d); return cudaSuccess; }
EXPORT cudaError_t my_cudaDeviceSynchronize() {
  if (auto e = waited()) return e;
  Lock lock(mutex);
  return unsafe_call();
}
EXPORT cudaError_t my_cudaDeviceCanAccessPeer(int* can, int a, int b) { *can = a != b; return asked(); }
EXPORT cudaError_t my_cudaDeviceEnablePeerAccess(int peer, unsigned) {
  IN_CONTEXT;
  if (peers[device][peer]++) return result(cudaErrorPeerAccessAlreadyEnabled);
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaDeviceDisablePeerAccess(int peer) { peers[device][peer] = 0; return cudaSuccess; }
EXPORT cudaError_t my_cudaDeviceGetLimit(size_t* v, int) { *v = 1 << 20; return cudaSuccess; }
EXPORT cudaError_t my_cudaDeviceSetLimit(int, size_t) { return cudaSuccess; }
EXPORT cudaError_t my_cudaProfilerStart() { return cudaSuccess; }
EXPORT cudaError_t my_cudaProfilerStop() { return cudaSuccess; }
EXPORT cudaError_t my_cudaDeviceGetStreamPriorityRange(int* least, int* greatest) { *least = 0, *greatest = -5; return cudaSuccess; }

// -- memory

EXPORT cudaError_t my_cudaMalloc(void** p, size_t n) {
  if (auto e = unsafe_call()) return e;
  return allocate(p, n, kDevice);
}
EXPORT cudaError_t my_cudaMallocManaged(void** p, size_t n, unsigned) { return allocate(p, n, kManaged); }
EXPORT cudaError_t my_cudaHostAlloc(void** p, size_t n, unsigned) {
  if (auto e = unsafe_call()) return e;
  return allocate(p, n, kPinned);
}
EXPORT cudaError_t my_cudaFree(void* p) {
  if (auto e = p ? unsafe_call() : cudaSuccess) return e;
  return release(p);
}
EXPORT cudaError_t my_cudaFreeHost(void* p) {
  if (auto e = unsafe_call()) return e;
  return release(p);
}
EXPORT cudaError_t my_cudaHostRegister(void*, size_t, unsigned) { return cudaSuccess; }
EXPORT cudaError_t my_cudaHostUnregister(void*) { return cudaSuccess; }
EXPORT cudaError_t my_cudaMemGetInfo(size_t* left, size_t* total) {
  IN_CONTEXT;
  *total = kMemory, *left = kMemory - used[device];
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
  IN_CONTEXT;
  Lock lock(mutex);
  auto b = block_of(p);
  memset(a, 0, sizeof *a);
  a->type = !b ? cudaMemoryTypeUnregistered : b->second.kind == kDevice ? cudaMemoryTypeDevice
            : b->second.kind == kPinned ? cudaMemoryTypeHost : cudaMemoryTypeManaged;
  a->device = b ? b->second.device : -2;
  a->devicePointer = b ? const_cast<void*>(p) : nullptr;
  a->hostPointer = b && b->second.kind != kDevice ? const_cast<void*>(p) : nullptr;
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaMemcpyAsync(void* to, const void* from, size_t n, int kind, cudaStream_t s) {
  IN_CONTEXT;
  Lock lock(mutex);
  return enqueue(s, [=] { return copy(to, from, n, kind); });
}
EXPORT cudaError_t my_cudaMemcpy(void* to, const void* from, size_t n, int kind) {
  if (auto e = waited()) return e;
  Lock lock(mutex);
  if (auto e = unsafe_call()) return e;
  return enqueue(nullptr, [=] { return copy(to, from, n, kind); });
}
EXPORT cudaError_t my_cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t n, cudaStream_t s) {
  return my_cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToDevice, s);
}
EXPORT cudaError_t my_cudaMemcpyPeer(void* to, int, const void* from, int, size_t n) {
  return my_cudaMemcpy(to, from, n, cudaMemcpyDeviceToDevice);
}
EXPORT cudaError_t my_cudaMemcpy2DAsync(void* to, size_t dp, const void* from, size_t sp, size_t w, size_t h, int kind, cudaStream_t s) {
  IN_CONTEXT;
  Lock lock(mutex);
  return enqueue(s, [=] {
    for (size_t i = 0; i < h; ++i)
      if (auto e = copy(static_cast<char*>(to) + i * dp, static_cast<const char*>(from) + i * sp, w, kind)) return e;
    return cudaSuccess;
  });
}
EXPORT cudaError_t my_cudaMemsetAsync(void* p, int value, size_t n, cudaStream_t s) {
  IN_CONTEXT;
  Lock lock(mutex);
  if (note("memset", n)) return cudaSuccess;
  return enqueue(s, [=] {
    if (n && !block_of(p)) return report(cudaErrorInvalidValue, "memset of memory that is not a device's");
    memset(p, value, n);
    return cudaSuccess;
  });
}
EXPORT cudaError_t my_cudaMemset(void* p, int value, size_t n) { return my_cudaMemsetAsync(p, value, n, nullptr); }

// -- streams and events

EXPORT cudaError_t my_cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  IN_CONTEXT;
  Lock lock(mutex);
  auto* s = new Stream{device, flags, priority, nullptr};
  streams.insert(s);
  *out = reinterpret_cast<cudaStream_t>(s);
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) { return my_cudaStreamCreateWithPriority(out, flags, 0); }
EXPORT cudaError_t my_cudaStreamCreate(cudaStream_t* out) { return my_cudaStreamCreateWithPriority(out, 0, 0); }
EXPORT cudaError_t my_cudaStreamDestroy(cudaStream_t s) {
  IN_CONTEXT;
  Lock lock(mutex);
  auto* found = reinterpret_cast<Stream*>(s);
  if (!streams.erase(found)) return report(cudaErrorInvalidResourceHandle, "a stream destroyed twice");
  delete found;
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaStreamGetFlags(cudaStream_t s, unsigned* flags) { *flags = stream_of(s)->flags; return cudaSuccess; }
EXPORT cudaError_t my_cudaStreamGetPriority(cudaStream_t s, int* p) { *p = stream_of(s)->priority; return cudaSuccess; }
EXPORT cudaError_t my_cudaStreamSynchronize(cudaStream_t handle) {
  if (auto e = waited()) return e;
  Lock lock(mutex);
  Stream* s = stream_of(handle);
  if (!s) return report(cudaErrorInvalidResourceHandle, "synchronize on a stream that was destroyed");
  if (s->capture) {
    spoil(*s->capture);
    return result(cudaErrorStreamCaptureUnsupported);
  }
  return unsafe_call();
}
EXPORT cudaError_t my_cudaStreamQuery(cudaStream_t s) { return my_cudaStreamSynchronize(s); }
EXPORT cudaError_t my_cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void* data) {
  IN_CONTEXT;
  Lock lock(mutex);
  return enqueue(s, [=] { f(data); return cudaSuccess; });
}
EXPORT cudaError_t my_cudaStreamAddCallback(cudaStream_t s, void (*f)(cudaStream_t, cudaError_t, void*), void* data, unsigned) {
  IN_CONTEXT;
  if (stream_of(s)->capture) return result(cudaErrorStreamCaptureUnsupported);
  f(s, cudaSuccess, data);
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  IN_CONTEXT;
  Lock lock(mutex);
  Stream* s = stream_of(handle);
  auto* e = reinterpret_cast<Event*>(event);
  if (!s || !events.count(e)) return report(cudaErrorInvalidResourceHandle, "wait on a stream or event that is gone");
  if (e->capture && !s->capture) {  // the stream joins the capture
    s->capture = e->capture;
    ++s->capture->streams;
  } else if (s->capture && e->capture != s->capture) {
    spoil(*s->capture);
    return report(cudaErrorStreamCaptureIsolation, "a captured stream waits for an event from outside of the capture");
  }
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  IN_CONTEXT;
  Lock lock(mutex);
  auto* e = new Event{flags, -1, nullptr};
  events.insert(e);
  *out = reinterpret_cast<cudaEvent_t>(e);
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaEventCreate(cudaEvent_t* out) { return my_cudaEventCreateWithFlags(out, 0); }
EXPORT cudaError_t my_cudaEventDestroy(cudaEvent_t event) {
  IN_CONTEXT;
  Lock lock(mutex);
  auto* e = reinterpret_cast<Event*>(event);
  if (!events.erase(e)) return report(cudaErrorInvalidResourceHandle, "an event destroyed twice");
  delete e;
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  IN_CONTEXT;
  Lock lock(mutex);
  auto* e = reinterpret_cast<Event*>(event);
  Stream* s = stream_of(handle);
  if (!s || !events.count(e)) return report(cudaErrorInvalidResourceHandle, "record on a stream or event that is gone");
  e->capture = s->capture;
  e->time = now();
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaEventQuery(cudaEvent_t event) {
  if (auto e = waited()) return e;
  IN_CONTEXT;
  Lock lock(mutex);
  auto* e = reinterpret_cast<Event*>(event);
  if (e->capture) {
    spoil(*e->capture);
    return result(cudaErrorStreamCaptureUnsupported);
  }
  return unsafe_call();
}
EXPORT cudaError_t my_cudaEventSynchronize(cudaEvent_t e) { return my_cudaEventQuery(e); }
EXPORT cudaError_t my_cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
  if (auto e = waited()) return e;
  auto *x = reinterpret_cast<Event*>(a), *y = reinterpret_cast<Event*>(b);
  if (x->time < 0 || y->time < 0 || (x->flags | y->flags) & cudaEventDisableTiming)
    return report(cudaErrorInvalidResourceHandle, "time between events that were not recorded, or made without timing");
  *ms = float(y->time - x->time);
  return cudaSuccess;
}

// -- graphs

EXPORT cudaError_t my_cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  IN_CONTEXT;
  Lock lock(mutex);
  Stream* s = stream_of(handle);
  if (is_legacy(s)) return report(cudaErrorStreamCaptureUnsupported, "the default stream cannot be captured");
  if (s->capture) return result(cudaErrorIllegalState);
  s->capture = std::make_shared<Capture>();
  s->capture->mode = mode;
  s->origin = true;
  if (mode != cudaStreamCaptureModeRelaxed) own_capture = s->capture.get();
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* out) {
  IN_CONTEXT;
  Lock lock(mutex);
  Stream* s = stream_of(handle);
  *out = nullptr;
  if (!s->capture || !s->origin) return result(cudaErrorIllegalState);
  auto capture = s->capture;
  if (own_capture == capture.get()) own_capture = nullptr;
  for (Stream* other : streams)
    if (other->capture == capture) other->capture = nullptr;
  s->origin = false;
  for (Event* e : events)
    if (e->capture == capture) e->capture = nullptr;
  if (capture->broken) return result(cudaErrorStreamCaptureInvalidated);
  *out = reinterpret_cast<cudaGraph_t>(new Graph(capture->graph));
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  IN_CONTEXT;
  Lock lock(mutex);
  Stream* s = stream_of(handle);
  *status = !s->capture ? cudaStreamCaptureStatusNone
            : s->capture->broken ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t g, unsigned long long) {
  IN_CONTEXT;
  *out = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(g)));
  return cudaSuccess;
}
EXPORT cudaError_t my_cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t g, unsigned long long f) { return my_cudaGraphInstantiate(out, g, f); }
EXPORT cudaError_t my_cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
EXPORT cudaError_t my_cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s) {
  IN_CONTEXT;
  if (idle) return ++launches, cudaSuccess;  // one launch, whatever is in it
  Lock lock(mutex);
  auto* graph = reinterpret_cast<Graph*>(g);
  return enqueue(s, [graph] {
    for (auto& node : graph->nodes)
      if (auto e = fault ? cudaSuccess : node()) return e;
    return cudaSuccess;
  });
}
EXPORT cudaError_t my_cudaGraphDestroy(cudaGraph_t g) { delete reinterpret_cast<Graph*>(g); return cudaSuccess; }
EXPORT cudaError_t my_cudaGraphExecDestroy(cudaGraphExec_t g) { delete reinterpret_cast<Graph*>(g); return cudaSuccess; }
EXPORT cudaError_t my_cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t*, size_t* n) { *n = reinterpret_cast<Graph*>(g)->nodes.size(); return cudaSuccess; }

// -- the driver: modules are shared objects whose path is the image

EXPORT CUresult cuGetErrorName(CUresult e, const char** text) { *text = my_cudaGetErrorName(cudaError_t(e)); return CUDA_SUCCESS; }
EXPORT CUresult cuGetErrorString(CUresult e, const char** text) { *text = my_cudaGetErrorString(cudaError_t(e)); return CUDA_SUCCESS; }
EXPORT CUresult cuInit(unsigned) { return CUresult(asked()); }
EXPORT CUresult cuDriverGetVersion(int* v) { *v = CUDA_VERSION; return CUDA_SUCCESS; }
EXPORT CUresult cuCtxGetCurrent(CUcontext* c) { *c = reinterpret_cast<CUcontext>(uintptr_t(device + 1)); return CUDA_SUCCESS; }
EXPORT CUresult cuCtxSetCurrent(CUcontext c) { device = c ? int(uintptr_t(c)) - 1 : 0; return CUDA_SUCCESS; }
EXPORT CUresult cuCtxGetDevice(CUdevice* d) { *d = device; return CUDA_SUCCESS; }
EXPORT CUresult cuCtxCreate_v2(CUcontext* c, unsigned, CUdevice) { return cuCtxGetCurrent(c); }
EXPORT CUresult cuCtxCreate(CUcontext* c, unsigned, CUdevice) { return cuCtxGetCurrent(c); }
EXPORT CUresult cuCtxDestroy_v2(CUcontext) { return CUDA_SUCCESS; }
EXPORT CUresult cuCtxDestroy(CUcontext) { return CUDA_SUCCESS; }
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
EXPORT CUresult cuStreamGetCtx(CUstream s, CUcontext* c) { *c = reinterpret_cast<CUcontext>(uintptr_t(stream_of(s)->device + 1)); return CUDA_SUCCESS; }

EXPORT CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  IN_DRIVER_CONTEXT;
  void* library = dlopen(static_cast<const char*>(image), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    problem = dlerror();
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *out = reinterpret_cast<CUmodule>(new Module{library, {}});
  return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleLoad(CUmodule*, const char*) { return CUDA_ERROR_NOT_SUPPORTED; }
EXPORT CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }  // graphs may still use its functions
EXPORT CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  IN_DRIVER_CONTEXT;
  Lock lock(mutex);
  auto* m = reinterpret_cast<Module*>(module);
  auto& f = m->functions[name];
  if (!f) {
    auto number = reinterpret_cast<int (*)(const char*)>(dlsym(m->library, "cuda_on_cpu_number"));
    int i = number(name);
    if (i < 0) {
      m->functions.erase(name);
      return CUDA_ERROR_NOT_FOUND;
    }
    auto symbol = [&](const char* what) { return dlsym(m->library, (what + std::to_string(i)).c_str()); };
    f.reset(new Function{name, nullptr, {}});
    *reinterpret_cast<void**>(&f->launch) = symbol("launch_");
    f->parameters.resize(64);
    f->parameters.resize(reinterpret_cast<int (*)(Parameter*)>(symbol("parameters_"))(f->parameters.data()));
    f->bound = reinterpret_cast<int (*)()>(symbol("bound_"))();
    f->refused = reinterpret_cast<decltype(f->refused)>(dlsym(m->library, "cuda_on_cpu_refused"));
  }
  *out = reinterpret_cast<CUfunction>(f.get());
  return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr*, size_t*, CUmodule, const char*) { return CUDA_ERROR_NOT_SUPPORTED; }
EXPORT CUresult cuModuleGetGlobal(CUdeviceptr*, size_t*, CUmodule, const char*) { return CUDA_ERROR_NOT_SUPPORTED; }
EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute a, CUfunction f) {
  *value = a == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? reinterpret_cast<Function*>(f)->bound : a == CU_FUNC_ATTRIBUTE_NUM_REGS ? 32
           : a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? reinterpret_cast<Function*>(f)->dynamic_shared : 0;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int value) {
  if (a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    if (value > 227 * 1024) return CUDA_ERROR_INVALID_VALUE;
    reinterpret_cast<Function*>(f)->dynamic_shared = value;
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, CUfunction, int block, size_t) { *n = 2048 / (block ? block : 1); return CUDA_SUCCESS; }
EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction, CUoccupancyB2DSize, size_t, int) { *grid = 264, *block = 256; return CUDA_SUCCESS; }
EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                               unsigned shared, CUstream stream, void** arguments, void**) {
  IN_DRIVER_CONTEXT;
  Lock lock(mutex);
  if (idle) return ++launches, CUDA_SUCCESS;  // the driver's part is not what is timed
  auto* f = reinterpret_cast<Function*>(function);
  std::vector<unsigned> sizes = {gx, gy, gz, bx, by, bz};
  const char* refused = f->refused(sizes.data(), shared, f->bound);
  if (!refused && int(shared) > f->dynamic_shared) refused = "more shared memory than it asked for";
  if (refused) {
    report(cudaErrorInvalidValue, f->name + ": " + refused);
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::string wrong_pointer;
  size_t given = 0;
  auto values = std::make_shared<std::vector<std::vector<char>>>();
  for (size_t i = 0; i < f->parameters.size(); ++i) {
    auto& p = f->parameters[i];
    const char* bytes = static_cast<const char*>(arguments[i]);
    values->emplace_back(bytes, bytes + p.size);
    void* address;
    if (listing && p.size >= int(sizeof address)) {  // a pointer, or an array of CuPy's, which begins with one
      memcpy(&address, bytes, sizeof address);
      if (auto b = block_of(address)) given += b->second.size;
    }
    if (p.kind == 'p' && wrong_pointer.empty()) {
      memcpy(&address, bytes, sizeof address);
      wrong_pointer = check_pointer(*f, i, address);
    }
  }
  if (note(f->name, given)) return CUDA_SUCCESS;
  return CUresult(enqueue(stream, [=]() -> cudaError_t {
    if (!wrong_pointer.empty()) return break_down(cudaErrorIllegalAddress, wrong_pointer);
    std::vector<void*> pointers;
    for (auto& v : *values) pointers.push_back(v.data());
    seed = seed * 69069 + 1;
    ++launches;
    const char* wrong = f->launch(sizes.data(), shared, seed, pointers.data());
    if (!wrong) return cudaSuccess;
    bool misaligned = strstr(wrong, "not aligned");
    return break_down(misaligned ? cudaErrorMisalignedAddress : cudaErrorLaunchFailure, f->name + ": " + wrong);
  }));
}
EXPORT CUresult cuLaunchCooperativeKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**) { return CUDA_ERROR_NOT_SUPPORTED; }
EXPORT CUresult cuLinkCreate_v2(unsigned, CUjit_option*, void**, CUlinkState*) { return CUDA_ERROR_NOT_SUPPORTED; }
EXPORT CUresult cuLinkCreate(unsigned, CUjit_option*, void**, CUlinkState*) { return CUDA_ERROR_NOT_SUPPORTED; }
EXPORT CUresult cuLinkAddData_v2(CUlinkState, CUjitInputType, void*, size_t, const char*, unsigned, CUjit_option*, void**) { return CUDA_ERROR_NOT_SUPPORTED; }
EXPORT CUresult cuLinkAddData(CUlinkState, CUjitInputType, void*, size_t, const char*, unsigned, CUjit_option*, void**) { return CUDA_ERROR_NOT_SUPPORTED; }
EXPORT CUresult cuLinkAddFile_v2(CUlinkState, CUjitInputType, const char*, unsigned, CUjit_option*, void**) { return CUDA_ERROR_NOT_SUPPORTED; }
EXPORT CUresult cuLinkAddFile(CUlinkState, CUjitInputType, const char*, unsigned, CUjit_option*, void**) { return CUDA_ERROR_NOT_SUPPORTED; }
EXPORT CUresult cuLinkComplete(CUlinkState, void**, size_t*) { return CUDA_ERROR_NOT_SUPPORTED; }
EXPORT CUresult cuLinkDestroy(CUlinkState) { return CUDA_ERROR_NOT_SUPPORTED; }
