// Max and average pooling over 1 to 3 dimensions, forward and backward: x [planes, space], y [planes, out].
//
//   max_pool:       y = max over the taps of a window; which tap it was, or where in the plane: the first of equals,
//                   the last nan
//   pool_put:       dx[i] = sum of g[o] over the windows o whose tap reads i; the gradient of max_pool
//   pool_pick:      y[o] = x at the tap of o (0 outside of x); the transpose of pool_put
//   avg_pool:       y = (sum over the taps of a window) / count
//   avg_pool_grad:  dx[i] = sum of g[o] / count(o) over the windows o that read i
//
// A thread for each element of the result, so nothing is added atomically and results are the same bits in every run.
// Storage type T, sums in wide<T>; a window has at most 256 taps where taps are stored.
// Cost: one launch; forward reads the taps of a window (neighbours share them in cache), backward reads g once for each
// window that contains the element. The formulas make one pass over the arrays for each tap.
#include "common.cuh"
#include "windows.cuh"

template <typename T, typename I>
__global__ void max_pool(const T* x, T* y, I* where, Windows w, int64 count) {
  typedef wide<T> A;
  constexpr bool positions = sizeof(I) == 8;
  const int64 i = thread_number();
  if (i >= count) return;
  const Spot spot(i, w.out);
  const T* plane = x + spot.plane * volume(w.space);
  A best = -infinity<A>();
  int found = -1;
  each_tap(w, spot.at, [&](int tap, int offset) {
    const A value = plane[offset];
    if (found < 0 || value > best || value != value) {
      found = positions ? offset : tap;
      best = value;
    }
  });
  y[i] = T(best);
  where[i] = (I)max(found, 0);
}

template <typename T> __global__ void pool_put(const T* g, const unsigned char* taps, T* dx, Windows w, int64 count) {
  typedef wide<T> A;
  const int64 i = thread_number();
  if (i >= count) return;
  const Spot spot(i, w.space);
  const int64 start = spot.plane * volume(w.out);
  A sum = 0;
  each_window(w, spot.at, [&](int offset, int tap, const int (&)[3]) {
    if (taps[start + offset] == tap) sum += (A)g[start + offset];
  });
  dx[i] = T(sum);
}

template <typename T> __global__ void pool_pick(const T* x, const unsigned char* taps, T* y, Windows w, int64 count) {
  const int64 i = thread_number();
  if (i >= count) return;
  const Spot spot(i, w.out);
  int tap = taps[i], offset = 0;
  bool inside = true;
  for (int d = 2, step = 1; d >= 0; --d) {
    const int at = spot.at[d] * w.stride[d] - w.padding[d] + tap % w.kernel[d] * w.dilation[d];
    inside = inside && at >= 0 && at < w.space[d];
    offset += at * step;
    step *= w.space[d];
    tap /= w.kernel[d];
  }
  y[i] = inside ? x[spot.plane * volume(w.space) + offset] : T(0.0f);
}

// What the sum of a window is divided by: `divisor`, or if that is 0 its elements, with or without those of the padding.
__device__ __forceinline__ double divisor_of(const Windows& w, const int (&window)[3], int with_padding, double divisor) {
  if (divisor != 0) return divisor;
  int count = 1;
  for (int d = 0; d < 3; ++d) {
    const int start = window[d] * w.stride[d] - w.padding[d];
    const int stop = min(start + w.kernel[d], w.space[d] + w.padding[d]);
    count *= with_padding ? stop - start : min(stop, w.space[d]) - max(start, 0);
  }
  return count;
}

template <typename T>
__global__ void avg_pool(const T* x, T* y, int with_padding, double divisor, Windows w, int64 count) {
  typedef wide<T> A;
  const int64 i = thread_number();
  if (i >= count) return;
  const Spot spot(i, w.out);
  const T* plane = x + spot.plane * volume(w.space);
  A sum = 0;
  each_tap(w, spot.at, [&](int, int offset) { sum += (A)plane[offset]; });
  y[i] = T(sum / A(divisor_of(w, spot.at, with_padding, divisor)));
}

template <typename T>
__global__ void avg_pool_grad(const T* g, T* dx, int with_padding, double divisor, Windows w, int64 count) {
  typedef wide<T> A;
  const int64 i = thread_number();
  if (i >= count) return;
  const Spot spot(i, w.space);
  const int64 start = spot.plane * volume(w.out);
  A sum = 0;
  each_window(w, spot.at, [&](int offset, int, const int (&window)[3]) {
    sum += (A)g[start + offset] / A(divisor_of(w, window, with_padding, divisor));
  });
  dx[i] = T(sum);
}
