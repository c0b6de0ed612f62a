// The part of cuBLASLt that is called here: products whose epilogue adds a bias, or sums an operand (bias gradients).
//
// It is as strict as the documentation lets the library be: attributes have a number and a size, an algorithm goes with
// the sizes, types and alignments that it was asked for, workspaces are of a device and aligned. The numbers are those of
// the documentation, typed here once more: what the library is given by gradlib has to agree with them.
#include <stdint.h>

#include "products.h"

#define API extern "C" __attribute__((visibility("default"))) int

namespace {

enum Operation { TRANSA = 3, TRANSB = 4, EPILOGUE = 7, BIAS_POINTER = 8 };
enum Preference { MAX_WORKSPACE_BYTES = 1, MIN_ALIGNMENT_A = 5, MIN_ALIGNMENT_B, MIN_ALIGNMENT_C, MIN_ALIGNMENT_D };
enum Epilogue { DEFAULT = 1, BIAS = 4, BGRADA = 256, BGRADB = 512 };
constexpr uint64_t kWorkspace = 1 << 20;

struct Desc { unsigned magic = 0xde5c; int compute, scale, transa = 0, transb = 0, epilogue = DEFAULT; void* bias = nullptr; };
struct Layout { unsigned magic = 0x1a70; int type; uint64_t rows, cols; int64_t ld; };
struct Wish { unsigned magic = 0x315c; uint64_t workspace = 0; uint32_t alignment[4] = {256, 256, 256, 256}; };
struct Algorithm {
  uint32_t magic;
  int32_t compute, type, trans, epilogue;
  uint32_t alignment[4], bias_alignment;
  uint32_t m, n, k;
};
struct Result { union { Algorithm algorithm; uint64_t data[8]; }; size_t workspace; int state; float waves; int reserved[4]; };
static_assert(sizeof(Algorithm) <= 64 && sizeof(Result) == 96);

unsigned long declined, asked;
int refuse;  // the status that the next calls of cublasLtMatmul give

template <class V> int put(V& where, const void* from, size_t size) {
  if (size != sizeof(V)) return kInvalid;
  memcpy(&where, from, size);
  return kSuccess;
}
uint32_t alignment_of(const void* p) { return uint32_t(uintptr_t(p) & -uintptr_t(p)); }

// The sizes of the product, or false if the layouts do not go together.
bool sizes(const Desc* d, const Layout* a, const Layout* b, const Layout* c, uint32_t* m, uint32_t* n, uint32_t* k) {
  *m = d->transa ? a->cols : a->rows, *k = d->transa ? a->rows : a->cols, *n = d->transb ? b->rows : b->cols;
  uint64_t inner = d->transb ? b->cols : b->rows;
  return inner == *k && c->rows == *m && c->cols == *n && a->ld >= int64_t(a->rows) && b->ld >= int64_t(b->rows) &&
         c->ld >= int64_t(c->rows);
}

template <class T, class S>
int run(Handle* h, const Desc d, const Algorithm f, int lda, int ldb, int ldc, S alpha, const T* a, const T* b, S beta, T* c,
        void* stream) {
  int dropped = d.compute == 77 ? 13 : d.compute == 75 ? 16 : 0;
  auto work = [=] {
    T* vector = static_cast<T*>(d.bias);
    gemm<T, S>(d.transa, d.transb, f.m, f.n, f.k, alpha, a, lda, b, ldb, beta, c, ldc, dropped,
               d.epilogue == BIAS ? vector : nullptr);
    bool first = d.epilogue == BGRADA;
    for (unsigned i = 0; (first || d.epilogue == BGRADB) && i < (first ? f.m : f.n); ++i) {
      typename Compute<T>::type sum{};
      for (unsigned l = 0; l < f.k; ++l)  // operands as tensor cores see them
        sum += seen(first ? up(d.transa ? a[size_t(i) * lda + l] : a[size_t(l) * lda + i])
                          : up(d.transb ? b[size_t(l) * ldb + i] : b[size_t(i) * ldb + l]), dropped);
      vector[i] = down<T>(sum);
    }
    return 0;
  };
  return cuda_on_cpu_enqueue(stream, new std::function<int()>(work)) ? kInternal : kSuccess;
}

}  // namespace

API cublasLtMatmulDescCreate(Desc** out, int compute, int scale) {
  *out = new Desc;
  (*out)->compute = compute, (*out)->scale = scale;
  return kSuccess;
}
API cublasLtMatmulDescDestroy(Desc* d) {
  if (!d || d->magic != 0xde5c) return kInvalid;
  d->magic = 0;
  delete d;
  return kSuccess;
}
API cublasLtMatmulDescSetAttribute(Desc* d, int attribute, const void* value, size_t size) {
  if (!d || d->magic != 0xde5c) return kInvalid;
  switch (attribute) {
    case TRANSA: return put(d->transa, value, size);
    case TRANSB: return put(d->transb, value, size);
    case EPILOGUE: return put(d->epilogue, value, size);
    case BIAS_POINTER: return put(d->bias, value, size);
  }
  return kInvalid;
}
API cublasLtMatrixLayoutCreate(Layout** out, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  *out = new Layout;
  (*out)->type = type, (*out)->rows = rows, (*out)->cols = cols, (*out)->ld = ld;
  return kSuccess;
}
API cublasLtMatrixLayoutDestroy(Layout* l) {
  if (!l || l->magic != 0x1a70) return kInvalid;
  l->magic = 0;
  delete l;
  return kSuccess;
}
API cublasLtMatmulPreferenceCreate(Wish** out) { *out = new Wish; return kSuccess; }
API cublasLtMatmulPreferenceDestroy(Wish* w) {
  if (!w || w->magic != 0x315c) return kInvalid;
  w->magic = 0;
  delete w;
  return kSuccess;
}
API cublasLtMatmulPreferenceSetAttribute(Wish* w, int attribute, const void* value, size_t size) {
  if (!w || w->magic != 0x315c) return kInvalid;
  if (attribute == MAX_WORKSPACE_BYTES) return put(w->workspace, value, size);
  if (attribute < MIN_ALIGNMENT_A || attribute > MIN_ALIGNMENT_D) return kInvalid;
  return put(w->alignment[attribute - MIN_ALIGNMENT_A], value, size);
}

API cublasLtMatmulAlgoGetHeuristic(Handle* h, const Desc* d, const Layout* a, const Layout* b, const Layout* c,
                                   const Layout* out, const Wish* w, int wanted, Result* results, int* found) {
  *found = 0;
  ++asked;
  if (!h || h->magic != 0xb1a5) return kNotInitialized;
  if (!d || d->magic != 0xde5c || a->magic != 0x1a70 || b->magic != 0x1a70 || out->magic != 0x1a70 || wanted < 1) return kInvalid;
  Algorithm f = {0xa160, d->compute, a->type, d->transa * 2 + d->transb, d->epilogue};
  if (c->rows != out->rows || !sizes(d, a, b, out, &f.m, &f.n, &f.k)) return kInvalid;
  bool wide = d->compute == 70, fast = d->compute == 77 || d->compute == 75;
  bool known = (a->type == R64 && wide && d->scale == R64) ||
               (d->scale == R32 && ((a->type == R32 && (d->compute == 68 || fast)) ||
                                    ((a->type == R16 || a->type == BF16) && d->compute == 68)));
  if (a->type != b->type || a->type != out->type || !known) return kNotSupported;
  bool epilogue = d->epilogue == BIAS || d->epilogue == BGRADA || d->epilogue == BGRADB;
  if (d->epilogue != DEFAULT && (!epilogue || !d->bias)) return kInvalid;
  for (int i = 0; i < 4; ++i) {
    f.alignment[i] = w->alignment[i];
    if (!f.alignment[i] || f.alignment[i] & (f.alignment[i] - 1)) return kInvalid;
  }
  if (declined) return declined == 1 ? kNotSupported : kSuccess;  // "not supported", or no algorithm
  f.bias_alignment = alignment_of(d->bias) < 256 ? alignment_of(d->bias) : 256;
  memset(results, 0, sizeof *results);
  results->algorithm = f;
  results->workspace = w->workspace < kWorkspace ? 0 : kWorkspace;
  *found = 1;
  return kSuccess;
}

API cublasLtMatmul(Handle* h, const Desc* d, const void* alpha, const void* a, const Layout* la, const void* b, const Layout* lb,
                   const void* beta, const void* c, const Layout* lc, void* out, const Layout* lo, const Algorithm* given,
                   void* workspace, size_t size, void* stream) {
  if (!h || h->magic != 0xb1a5) return kNotInitialized;
  if (refuse) return refuse;
  Algorithm f = *given;
  uint32_t m, n, k;
  if (f.magic != 0xa160 || !sizes(d, la, lb, lo, &m, &n, &k) || m != f.m || n != f.n || k != f.k) return kInvalid;
  if (f.compute != d->compute || f.type != la->type || f.trans != d->transa * 2 + d->transb || f.epilogue != d->epilogue)
    return kInvalid;
  const void* pointers[] = {a, b, c, out};
  for (int i = 0; i < 4; ++i)
    if (!cuda_on_cpu_is_device(pointers[i]) || alignment_of(pointers[i]) < f.alignment[i]) return kInvalid;
  if (d->epilogue != DEFAULT && (!cuda_on_cpu_is_device(d->bias) || alignment_of(d->bias) < f.bias_alignment)) return kInvalid;
  if (size < kWorkspace || !cuda_on_cpu_is_device(workspace) || uintptr_t(workspace) % 256) return kInvalid;
  if (c != out || lc != lo) return kNotSupported;
#define CASE(CODE, T, V)                                                                                                   \
  case CODE:                                                                                                               \
    return run<T, V>(h, *d, f, la->ld, lb->ld, lo->ld, *(const V*)alpha, (const T*)a, (const T*)b, *(const V*)beta, (T*)out, \
                     stream);
  switch (la->type) {
    CASE(R32, float, float) CASE(R64, double, double) CASE(R16, __half, float) CASE(BF16, __nv_bfloat16, float)
  }
  return kNotSupported;
}

// For tests: let the heuristics decline (1: "not supported", 2: no algorithm), let products give a status, count questions.
API cublaslt_on_cpu_decline(unsigned how) { declined = how; return 0; }
API cublaslt_on_cpu_refuse(int status) { refuse = status; return 0; }
extern "C" __attribute__((visibility("default"))) unsigned long cublaslt_on_cpu_asked() { return asked; }
