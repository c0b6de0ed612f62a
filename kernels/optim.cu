// Optimizer steps, the norm of all gradients and clipping, for many tensors in one launch.
//
// Learning rate and step counts may lie on the device, so that a captured step can go on counting: lr_at is a
// float32 (or null: the number lr), steps are float32, at[STEP][t] (0: the number step).
// found_inf (or null): nothing at all happens when *found_inf is not 0. scale (or null): gradients are divided by *scale.
// Storage type T, computed in wide<T>. Cost: every array is read and written at most once.
#include "lists.cuh"

constexpr int ARRAYS = 6, PARAM = 0, GRAD = 1, FIRST = 2, SECOND = 3, LARGEST = 4, STEP = 5;
typedef Table<ARRAYS, 1> Tensors;

// The elements of an array (or zeros, if there is none) as a thread works on them, and back to where they were.
template <typename T> __device__ __forceinline__ Pack<T> taken(const T* array, int64 i) {
  return array ? pack_of(array + i) : Pack<T>();
}
template <typename T> __device__ __forceinline__ void put_back(T* array, int64 i, const Pack<T>& pack) {
  if (array) pack_of(array + i) = pack;
}
template <typename T> __device__ __forceinline__ void put_back(const T*, int64, const Pack<T>&) {}
template <typename T> __device__ __forceinline__ void put_back(T* array, int64 i, const T& value) {
  if (array) array[i] = value;
}
template <typename T> __device__ __forceinline__ void put_back(const T*, int64, const T&) {}

// f(element of each array...) for the elements of a piece that are this thread's; f may change them, and they are written
// back but for those of const arrays. Packs are moved where all arrays are aligned.
template <typename T, typename F, typename... In>
__device__ __forceinline__ void each_element(const Piece& piece, F f, In*... arrays) {
  constexpr int size = Pack<T>::size;
  const bool packs = (aligned(arrays) && ...);
  for (int64 i = piece.begin + threadIdx.x * size; i < piece.end; i += blockDim.x * size) {
    if (packs && i + size <= piece.end) {
      [&](Same<Pack<T>, In>... values) {
#pragma unroll
        for (int k = 0; k < size; ++k) f(values.at[k]...);
        (put_back(arrays, i, values), ...);
      }(taken<T>(arrays, i)...);
    } else {
      const int64 end = min(i + size, piece.end);
      for (int64 j = i; j < end; ++j)
        [&](Same<T, In>... values) {
          f(values...);
          (put_back(arrays, j, values), ...);
        }(arrays ? arrays[j] : T(0.0f)...);
    }
  }
}

__device__ __forceinline__ bool skipped(const float* found_inf) { return found_inf && *found_inf != 0.0f; }

// Settings of a step; which of them a rule uses is up to the rule.
struct Settings {
  double lr, beta1, beta2, eps, weight_decay, momentum, dampening, step;
  int decoupled, maximize, nesterov, unused;
};

// The gradient with its scale, sign and coupled weight decay.
template <typename A> __device__ __forceinline__ A direction(A g, A p, const Settings& s, const float* scale) {
  if (scale) g /= A(*scale);
  if (s.maximize) g = -g;
  return s.decoupled ? g : g + A(s.weight_decay) * p;
}

// One thread for each tensor: count the step.
__global__ void advance_steps(Tensors table, const float* found_inf) {
  const int t = threadIdx.x;
  if (t < table.count && !skipped(found_inf)) *reinterpret_cast<float*>(table.at[STEP][t]) += 1.0f;
}

// m = m + (g - m) (1 - beta1), v = beta2 v + (1 - beta2) g^2,
// p = p - lr m_hat / (sqrt(v_hat) + eps), with m_hat = m / (1 - beta1^step), v_hat = max(v) / (1 - beta2^step).
// D. Kingma, J. Ba, 2015; LARGEST (amsgrad): S. Reddi et al., 2018; decoupled decay: I. Loshchilov, F. Hutter, 2019.
template <typename T>
__global__ void adam(Tensors table, Settings s, const float* lr_at, const float* found_inf, const float* scale) {
  typedef wide<T> A;
  if (skipped(found_inf)) return;
  const Piece piece(table);
  __shared__ double numbers[3];
  if (threadIdx.x == 0) {
    const float* counted = piece.array<float>(table, STEP);
    const double step = counted ? (double)*counted : s.step, lr = lr_at ? (double)*lr_at : s.lr;
    numbers[0] = lr;
    numbers[1] = lr / (1.0 - pow(s.beta1, step));
    numbers[2] = sqrt(1.0 - pow(s.beta2, step));
  }
  __syncthreads();
  const A lr = A(numbers[0]), size = A(numbers[1]), root = A(numbers[2]);
  T *p = piece.array<T>(table, PARAM), *m = piece.array<T>(table, FIRST), *v = piece.array<T>(table, SECOND);
  T* largest = piece.array<T>(table, LARGEST);
  const T* g = piece.array<T>(table, GRAD);
  each_element<T>(piece, [&](T& pi, T& mi, T& vi, T& li, T gi) {
    A x = pi;
    const A d = direction((A)gi, x, s, scale);
    if (s.decoupled) x *= A(1) - lr * A(s.weight_decay);
    const A first = (A)mi + (d - (A)mi) * A(1.0 - s.beta1);
    A second = (A)vi * A(s.beta2) + d * d * A(1.0 - s.beta2);
    mi = T(first);
    vi = T(second);
    if (largest) {
      second = larger((A)li, second);
      li = T(second);
    }
    pi = T(x - first / (sqrt(second) / root + A(s.eps)) * size);
  }, p, m, v, largest, g);
}

// b = momentum b + (1 - dampening) d;  p = p - lr (d + momentum b with Nesterov, b with a buffer, d without one).
template <typename T>
__global__ void sgd(Tensors table, Settings s, const float* lr_at, const float* found_inf, const float* scale) {
  typedef wide<T> A;
  if (skipped(found_inf)) return;
  const Piece piece(table);
  const A lr = lr_at ? A(*lr_at) : A(s.lr);
  T *p = piece.array<T>(table, PARAM), *buffer = piece.array<T>(table, FIRST);
  const T* g = piece.array<T>(table, GRAD);
  each_element<T>(piece, [&](T& pi, T& bi, T gi) {
    const A x = pi;
    A d = direction((A)gi, x, s, scale);
    if (buffer) {
      const A b = (A)bi * A(s.momentum) + d * A(1.0 - s.dampening);
      bi = T(b);
      d = s.nesterov ? d + A(s.momentum) * b : b;
    }
    pi = T(x - lr * d);
  }, p, buffer, g);
}

// Norms over all gradients: KIND 1 is the sum of magnitudes, 2 the root of the sum of squares, 0 the largest magnitude.
template <int KIND, typename A> __device__ __forceinline__ A gathered(A a, A b) { return KIND == 0 ? larger(a, b) : a + b; }
template <int KIND, typename A> __device__ __forceinline__ A block_gather(A a) {
  return KIND == 0 ? combine<false>(a, Larger()) : combine<false>(a, Add());
}

// partial[before + block]: what the block found.
template <typename T, int KIND> __global__ void norm_pieces(Tensors table, wide<T>* partial, int64 before) {
  typedef wide<T> A;
  const Piece piece(table);
  const T* g = piece.array<T>(table, GRAD);
  A found = 0;
  each_element<T>(piece, [&](A x) { found = gathered<KIND>(found, KIND == 2 ? x * x : A(fabs(x))); }, g);
  found = block_gather<KIND>(found);
  if (threadIdx.x == 0) partial[before + blockIdx.x] = found;
}

// One block: the norm from all partial results.
template <typename A, int KIND> __global__ void norm_total(const A* partial, A* total, int64 count) {
  A found = 0;
  for (int64 i = threadIdx.x; i < count; i += blockDim.x) found = gathered<KIND>(found, partial[i]);
  found = block_gather<KIND>(found);
  if (threadIdx.x == 0) total[0] = KIND == 2 ? sqrt(found) : found;
}

// g = g * min(1, max_norm / (total + 1e-6)).
template <typename T> __global__ void clip(Tensors table, const wide<T>* total, double max_norm) {
  typedef wide<T> A;
  const Piece piece(table);
  const A factor = A(max_norm) / (total[0] + A(1e-6));
  const A limited = factor > A(1) ? A(1) : factor;  // nan stays nan
  T* g = piece.array<T>(table, GRAD);
  each_element<T>(piece, [&](T& gi) { gi = T((A)gi * limited); }, g);
}
