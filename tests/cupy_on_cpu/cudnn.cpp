// The part of cuDNN 9 that is called here: convolutions and their gradients by its functions with descriptors.
//
// It refuses what the library refuses: sizes that do not go together, strides that are not those of a layout, operands in
// different layouts, a workspace that is too small, an algorithm with a kind of multiplication that it was not named
// with, handles of other threads and devices, what was given back. Its heuristics name first what must not be taken: an
// algorithm that is not supported, one with a workspace of 1 TB, one that rounds float32 to half types, one that is not
// deterministic. The numbers are those of the library's headers, typed here once more.
#include <stdint.h>

#include <atomic>
#include <thread>

#include "products.h"

#define EXPORT extern "C" __attribute__((visibility("default")))
#define API EXPORT int
extern "C" int my_cudaGetDevice(int*);

namespace {

enum Status {
  kOk = 0, kBad = 2000, kNull = 2002, kMisaligned = 2003, kSmall = 2006, kShape = 2008, kNotSupportedHere = 3000,
  kType = 3003, kLayout = 3004, kExecution = 5000
};
enum Type { FLOAT = 0, DOUBLE = 1, HALF = 2, BFLOAT16 = 9 };
enum Math { DEFAULT_MATH, TENSOR_OP_MATH, ALLOW_CONVERSION, FMA_MATH };
enum Kind { FORWARD, DATA, FILTER };
constexpr int kMaxDims = 8;
constexpr size_t kHuge = size_t(1) << 40;

std::atomic<int> living, calls, asked;
int declines, refuses, fails;  // the status that heuristics, calls and cudnnCreate give
int last[5];                   // of the last call: kind, algorithm, math, channels last, type
thread_local std::string message;

int say(int status, const std::string& text) { return message = text, status; }

struct Handle9 { unsigned magic = 0xd99; int device; std::thread::id thread; void* stream = nullptr; };
struct Tensor { unsigned magic = 0x7e45; int type, nd = 0, dims[kMaxDims], strides[kMaxDims]; };
struct Filter { unsigned magic = 0xf117; int type, format, nd = 0, dims[kMaxDims]; };
struct Convolution {
  unsigned magic = 0xc047;
  int n = 0, pad[6], stride[6], dilation[6], mode, compute, groups = 1, math = DEFAULT_MATH;
};
struct Perf { int algo, status; float time; size_t memory; int determinism, math, reserved[3]; };
static_assert(sizeof(Perf) == 48);

template <class D> int create(D** out) { *out = new D, ++living; return kOk; }
template <class D> int destroy(D* d) {
  if (!d || d->magic != D().magic) return say(kBad, "no such descriptor");
  d->magic = 0, --living;
  delete d;
  return kOk;
}
bool known(int type) { return type == FLOAT || type == DOUBLE || type == HALF || type == BFLOAT16; }
int size_of(int type) { return type == DOUBLE ? 8 : type == FLOAT ? 4 : 2; }

// Strides of a dense array whose sizes are in the order n, c, space.
void dense(int nd, const int* dims, bool channels_last, int* strides) {
  int step = 1;
  if (channels_last) strides[1] = 1, step = dims[1];
  for (int d = nd - 1; d >= (channels_last ? 2 : 1); --d) strides[d] = step, step *= dims[d];
  strides[0] = step;
}
bool lies(const Tensor& t, bool channels_last) {
  int want[kMaxDims];
  dense(t.nd, t.dims, channels_last, want);
  return std::equal(want, want + t.nd, t.strides);
}
size_t count(int nd, const int* dims) {
  size_t n = 1;
  for (int d = 0; d < nd; ++d) n *= dims[d];
  return n;
}
int output_size(const Convolution& c, const Tensor& x, const Filter& w, int d) {  // of dimension d of space
  return (x.dims[d + 2] + 2 * c.pad[d] - c.dilation[d] * (w.dims[d + 2] - 1) - 1) / c.stride[d] + 1;
}

// Whether the library has a convolution of this kind.
int supported(const Handle9* h, const Tensor* x, const Filter* w, const Convolution* c, const Tensor* y) {
  int device;
  my_cudaGetDevice(&device);
  if (!h || h->magic != 0xd99) return say(1001, "no such handle");
  if (h->thread != std::this_thread::get_id()) return say(kBad, "the handle is of another thread");
  if (h->device != device) return say(kBad, "the handle is of another device");
  if (!x || !w || !c || !y || x->magic != 0x7e45 || w->magic != 0xf117 || c->magic != 0xc047 || y->magic != 0x7e45)
    return say(kNull, "no such descriptor");
  if ((x->nd != 4 && x->nd != 5) || w->nd != x->nd || y->nd != x->nd || c->n != x->nd - 2)
    return say(kBad, "dimensions do not go together");
  if (x->type != w->type || x->type != y->type) return say(kType, "several types");
  if (c->compute != (x->type == DOUBLE ? DOUBLE : FLOAT)) return say(kType, "computed in another type");
  if (x->dims[1] != w->dims[1] * c->groups || w->dims[0] % c->groups || y->dims[1] != w->dims[0] || x->dims[0] != y->dims[0])
    return say(kShape, "channels, groups or images do not go together");
  for (int d = 0; d < c->n; ++d)
    if (y->dims[d + 2] != output_size(*c, *x, *w, d)) return say(kShape, "the output has another size");
  if (!lies(*x, w->format) || !lies(*y, w->format)) return say(kLayout, "strides are not those of the filter's layout");
  if (w->format && x->type == DOUBLE) return say(kLayout, "float64 has no channels last");
  return kOk;
}

// What an algorithm takes; those with odd numbers are deterministic, but for forward, which all are.
size_t workspace(int algo, const Convolution& c) { return algo == 0 ? 0 : 512 + 8 * c.groups; }
int math_of(int algo, const Tensor& x, const Convolution& c) {
  if (x.type == FLOAT) return algo == 2 ? ALLOW_CONVERSION : c.math == FMA_MATH ? FMA_MATH : DEFAULT_MATH;
  return x.type == DOUBLE || c.math == FMA_MATH ? FMA_MATH : c.math == DEFAULT_MATH ? DEFAULT_MATH : TENSOR_OP_MATH;
}

int algorithms(Kind kind, const Handle9* h, const Tensor* x, const Filter* w, const Convolution* c, const Tensor* y, int wanted,
               int* found, Perf* results) {
  ++asked;
  if (declines) return say(declines, "told to decline");
  if (int status = supported(h, x, w, c, y)) return status;
  if (wanted < 1 || !found || !results) return say(kBad, "no room for results");
  const bool fma = x->type == FLOAT && c->math == FMA_MATH;
  std::vector<Perf> all = {
      {4, kNotSupportedHere, -1, 0, 1, math_of(4, *x, *c)},
      {5, kOk, 1, kHuge, 1, math_of(5, *x, *c)},
  };
  if (x->type == FLOAT && !fma) all.push_back({2, kOk, 1, workspace(2, *c), 1, ALLOW_CONVERSION});
  if (kind != FORWARD) all.push_back({0, kOk, 2, 0, 0, math_of(0, *x, *c)});
  all.push_back({1, kOk, 3, workspace(1, *c), 1, math_of(1, *x, *c)});
  *found = std::min<int>(wanted, all.size());
  std::copy(all.begin(), all.begin() + *found, results);
  return kOk;
}

int measure(Kind kind, const Handle9* h, const Tensor* x, const Filter* w, const Convolution* c, const Tensor* y, int algo,
            size_t* size) {
  if (int status = supported(h, x, w, c, y)) return status;
  if (algo == 5) return *size = kHuge, kOk;
  if (algo == 4) return *size = 0, kOk;  // only its status says that it cannot be taken
  if (algo < 0 || algo > 2 || (algo == 2 && x->type != FLOAT)) return say(kNotSupportedHere, "no such algorithm");
  *size = workspace(algo, *c);
  return kOk;
}

template <class T> struct Seen {  // a number as it is multiplied
  int math;
  auto operator()(T v) const {
    if constexpr (std::is_same_v<T, float>) {
      if (math == ALLOW_CONVERSION) return __half2float(__float2half(v));
      return math == FMA_MATH ? v : rounded(v, 13);
    } else return up(v);
  }
};

// dst = alpha * the convolution + beta * dst, by one walk over all products of input, weight and gradient.
template <class T, class S>
void compute(Kind kind, const Tensor x, const Filter w, const Convolution c, const Tensor y, S alpha, const T* a, const T* b,
             S beta, T* dst) {
  using V = typename Compute<T>::type;
  int ws[kMaxDims], per = w.dims[0] / c.groups;
  dense(w.nd, w.dims, w.format, ws);
  const size_t sizes[] = {count(y.nd, y.dims), count(x.nd, x.dims), count(w.nd, w.dims)};
  std::vector<V> sums(sizes[kind]);
  const Seen<T> seen{c.math};
  const int* k = w.dims + 2, *out = y.dims + 2, n = c.n;
  const auto at = [n](const int* values, int d) { return d < 3 - n ? 1 : values[d - (3 - n)]; };  // as three dimensions
  int o[3], t[3];
  for (int image = 0; image < x.dims[0]; ++image)
    for (int channel = 0; channel < w.dims[0]; ++channel)
      for (int inner = 0; inner < w.dims[1]; ++inner) {
        const int source = channel / per * w.dims[1] + inner;
        for (o[0] = 0; o[0] < at(out, 0); ++o[0]) for (o[1] = 0; o[1] < at(out, 1); ++o[1]) for (o[2] = 0; o[2] < at(out, 2); ++o[2])
          for (t[0] = 0; t[0] < at(k, 0); ++t[0]) for (t[1] = 0; t[1] < at(k, 1); ++t[1]) for (t[2] = 0; t[2] < at(k, 2); ++t[2]) {
            size_t xi = size_t(image) * x.strides[0] + size_t(source) * x.strides[1];
            size_t yi = size_t(image) * y.strides[0] + size_t(channel) * y.strides[1];
            size_t wi = size_t(channel) * ws[0] + size_t(inner) * ws[1];
            bool inside = true;
            for (int d = 3 - n; d < 3; ++d) {
              const int e = d - (3 - n), tap = c.mode ? t[d] : k[e] - 1 - t[d];
              const int place = o[d] * c.stride[e] - c.pad[e] + tap * c.dilation[e];
              inside &= place >= 0 && place < x.dims[e + 2];
              xi += size_t(place) * x.strides[e + 2], yi += size_t(o[d]) * y.strides[e + 2], wi += size_t(t[d]) * ws[e + 2];
            }
            if (!inside) continue;
            if (kind == FORWARD) sums[yi] += seen(a[xi]) * seen(b[wi]);
            if (kind == DATA) sums[xi] += seen(a[wi]) * seen(b[yi]);
            if (kind == FILTER) sums[wi] += seen(a[xi]) * seen(b[yi]);
          }
      }
  for (size_t i = 0; i < sums.size(); ++i) dst[i] = down<T>(V(alpha) * sums[i] + (beta ? V(beta) * V(up(dst[i])) : V(0)));
}

template <class T, class S>
int run(Kind kind, Handle9* h, const Tensor* x, const Filter* w, const Convolution* c, const Tensor* y, const void* alpha,
        const void* a, const void* b, const void* beta, void* dst, void* room, size_t size) {
  auto work = [=, x = *x, w = *w, c = *c, y = *y, alpha = *(const S*)alpha, beta = *(const S*)beta] {
    if (room) memset(room, 0xff, size);
    compute<T, S>(kind, x, w, c, y, alpha, (const T*)a, (const T*)b, beta, (T*)dst);
    return 0;
  };
  return cuda_on_cpu_enqueue(h->stream, new std::function<int()>(work)) ? say(kExecution, "launch failed") : kOk;
}

int convolve(Kind kind, Handle9* h, const void* alpha, const Tensor* x, const Filter* w, const Convolution* c, const Tensor* y,
             const void* a, const void* b, int algo, void* room, size_t size, const void* beta, void* dst) {
  if (refuses) return say(refuses, "told to refuse");
  if (int status = supported(h, x, w, c, y)) return status;
  if (algo < 0 || algo > 2) return say(kNotSupportedHere, "no such algorithm");
  if (c->math != math_of(algo, *x, *c)) return say(kNotSupportedHere, "the algorithm multiplies otherwise");
  const size_t need = workspace(algo, *c), bytes = size_of(x->type);
  if (size < need) return say(kSmall, "the workspace is too small");
  if (need && (!cuda_on_cpu_is_device(room) || !cuda_on_cpu_is_device((char*)room + size - 1) || uintptr_t(room) % 256))
    return say(kBad, "the workspace is not of a device");
  const size_t sizes[] = {count(x->nd, x->dims), count(w->nd, w->dims), count(y->nd, y->dims)};
  const int order[3][3] = {{0, 1, 2}, {1, 2, 0}, {0, 2, 1}};
  const void* pointers[] = {a, b, dst};
  for (int i = 0; i < 3; ++i) {
    if (!pointers[i]) return say(kNull, "no array");
    if (uintptr_t(pointers[i]) % 16) return say(kMisaligned, "an array begins between");
    if (!cuda_on_cpu_is_device(pointers[i]) || !cuda_on_cpu_is_device((const char*)pointers[i] + sizes[order[kind][i]] * bytes - 1))
      return say(kBad, "an array is not of a device, or too short");
  }
  ++calls;
  const int now[] = {kind, algo, c->math, w->format, x->type};
  std::copy(now, now + 5, last);
#define CASE(TYPE, T, S) \
  case TYPE: return run<T, S>(kind, h, x, w, c, y, alpha, a, b, beta, dst, need ? room : nullptr, size);
  switch (x->type) { CASE(FLOAT, float, float) CASE(DOUBLE, double, double) CASE(HALF, __half, float) CASE(BFLOAT16, __nv_bfloat16, float) }
  return say(kType, "no such type");
}

}  // namespace

EXPORT size_t cudnnGetVersion() { return 92801; }
EXPORT const char* cudnnGetErrorString(int status) {
  switch (status) {
    case kOk: return "CUDNN_STATUS_SUCCESS";
    case 1001: return "CUDNN_STATUS_NOT_INITIALIZED";
    case 1008: return "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED";
    case kExecution: return "CUDNN_STATUS_EXECUTION_FAILED";
  }
  return status / 1000 == 2 ? "CUDNN_STATUS_BAD_PARAM" : status / 1000 == 3 ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_UNKNOWN";
}
EXPORT void cudnnGetLastErrorString(char* text, size_t size) {
  if (!size) return;
  strncpy(text, message.c_str(), size - 1);
  text[size - 1] = 0, message.clear();
}

API cudnnCreate(Handle9** out) {
  if (fails) return say(fails, "told to fail");
  create(out);
  my_cudaGetDevice(&(*out)->device);
  (*out)->thread = std::this_thread::get_id();
  return kOk;
}
API cudnnDestroy(Handle9* h) { return destroy(h); }
API cudnnSetStream(Handle9* h, void* stream) {
  if (!h || h->magic != 0xd99) return say(1001, "no such handle");
  h->stream = stream;
  return kOk;
}

API cudnnCreateTensorDescriptor(Tensor** out) { return create(out); }
API cudnnDestroyTensorDescriptor(Tensor* d) { return destroy(d); }
API cudnnSetTensorNdDescriptor(Tensor* d, int type, int nd, const int* dims, const int* strides) {
  if (!d || d->magic != 0x7e45 || !known(type) || nd < 2 || nd > kMaxDims) return say(kBad, "tensor");
  size_t reach = 1;
  for (int i = 0; i < nd; ++i) {
    if (dims[i] <= 0) return say(kBad, "Tensor dimension " + std::to_string(i) + " has invalid size");
    reach += size_t(dims[i] - 1) * strides[i];
  }
  if (reach > size_t(INT32_MAX)) return say(kNotSupportedHere, "too large");
  d->type = type, d->nd = nd;
  std::copy(dims, dims + nd, d->dims), std::copy(strides, strides + nd, d->strides);
  return kOk;
}
API cudnnCreateFilterDescriptor(Filter** out) { return create(out); }
API cudnnDestroyFilterDescriptor(Filter* d) { return destroy(d); }
API cudnnSetFilterNdDescriptor(Filter* d, int type, int format, int nd, const int* dims) {
  if (!d || d->magic != 0xf117 || !known(type) || format < 0 || format > 1 || nd < 3 || nd > kMaxDims) return say(kBad, "filter");
  for (int i = 0; i < nd; ++i)
    if (dims[i] <= 0) return say(kBad, "filter dimension " + std::to_string(i) + " has invalid size");
  d->type = type, d->format = format, d->nd = nd;
  std::copy(dims, dims + nd, d->dims);
  return kOk;
}
API cudnnCreateConvolutionDescriptor(Convolution** out) { return create(out); }
API cudnnDestroyConvolutionDescriptor(Convolution* d) { return destroy(d); }
API cudnnSetConvolutionNdDescriptor(Convolution* d, int n, const int* pad, const int* stride, const int* dilation, int mode,
                                    int compute) {
  if (!d || d->magic != 0xc047 || n < 1 || n > 6 || mode < 0 || mode > 1 || !known(compute)) return say(kBad, "convolution");
  for (int i = 0; i < n; ++i)
    if (pad[i] < 0 || stride[i] <= 0 || dilation[i] <= 0) return say(kBad, "padding, stride or dilation");
  d->n = n, d->mode = mode, d->compute = compute;
  std::copy(pad, pad + n, d->pad), std::copy(stride, stride + n, d->stride), std::copy(dilation, dilation + n, d->dilation);
  return kOk;
}
API cudnnSetConvolutionGroupCount(Convolution* d, int groups) {
  if (!d || d->magic != 0xc047 || groups < 1) return say(kBad, "groups");
  d->groups = groups;
  return kOk;
}
API cudnnSetConvolutionMathType(Convolution* d, int math) {
  if (!d || d->magic != 0xc047 || math < 0 || math > 3) return say(kBad, "math");
  d->math = math;
  return kOk;
}

API cudnnGetConvolutionForwardAlgorithm_v7(Handle9* h, Tensor* x, Filter* w, Convolution* c, Tensor* y, int n, int* found, Perf* r) {
  return algorithms(FORWARD, h, x, w, c, y, n, found, r);
}
API cudnnGetConvolutionBackwardDataAlgorithm_v7(Handle9* h, Filter* w, Tensor* y, Convolution* c, Tensor* x, int n, int* found, Perf* r) {
  return algorithms(DATA, h, x, w, c, y, n, found, r);
}
API cudnnGetConvolutionBackwardFilterAlgorithm_v7(Handle9* h, Tensor* x, Tensor* y, Convolution* c, Filter* w, int n, int* found, Perf* r) {
  return algorithms(FILTER, h, x, w, c, y, n, found, r);
}
API cudnnGetConvolutionForwardWorkspaceSize(Handle9* h, Tensor* x, Filter* w, Convolution* c, Tensor* y, int algo, size_t* size) {
  return measure(FORWARD, h, x, w, c, y, algo, size);
}
API cudnnGetConvolutionBackwardDataWorkspaceSize(Handle9* h, Filter* w, Tensor* y, Convolution* c, Tensor* x, int algo, size_t* size) {
  return measure(DATA, h, x, w, c, y, algo, size);
}
API cudnnGetConvolutionBackwardFilterWorkspaceSize(Handle9* h, Tensor* x, Tensor* y, Convolution* c, Filter* w, int algo, size_t* size) {
  return measure(FILTER, h, x, w, c, y, algo, size);
}
API cudnnConvolutionForward(Handle9* h, const void* alpha, Tensor* x, const void* px, Filter* w, const void* pw, Convolution* c,
                            int algo, void* room, size_t size, const void* beta, Tensor* y, void* py) {
  return convolve(FORWARD, h, alpha, x, w, c, y, px, pw, algo, room, size, beta, py);
}
API cudnnConvolutionBackwardData(Handle9* h, const void* alpha, Filter* w, const void* pw, Tensor* y, const void* py,
                                 Convolution* c, int algo, void* room, size_t size, const void* beta, Tensor* x, void* px) {
  return convolve(DATA, h, alpha, x, w, c, y, pw, py, algo, room, size, beta, px);
}
API cudnnConvolutionBackwardFilter(Handle9* h, const void* alpha, Tensor* x, const void* px, Tensor* y, const void* py,
                                   Convolution* c, int algo, void* room, size_t size, const void* beta, Filter* w, void* pw) {
  return convolve(FILTER, h, alpha, x, w, c, y, px, py, algo, room, size, beta, pw);
}

// For tests: statuses that heuristics, calls and cudnnCreate are to give; what was called; what is not given back.
EXPORT void cudnn_on_cpu_tell(int heuristics, int call, int handle) { declines = heuristics, refuses = call, fails = handle; }
EXPORT void cudnn_on_cpu_last(int* five) { std::copy(last, last + 5, five); }
API cudnn_on_cpu_calls() { return calls; }
API cudnn_on_cpu_asked() { return asked; }
API cudnn_on_cpu_living() { return living; }
