// Sliding windows over up to three dimensions, shared by poolings and im2col. Fewer dimensions have leading ones of
// size 1. A plane is one channel of one image: at most 2^31 elements.
#pragma once

struct Windows {
  int space[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
};

// Element `number` of planes of `size`: its plane, and where in the plane it is.
struct Spot {
  int64 plane;
  int at[3];
  __device__ __forceinline__ Spot(int64 number, const int (&size)[3]) {
    for (int d = 2; d >= 0; --d) {
      const int64 next = quotient(number, size[d]);
      at[d] = int(number - next * size[d]);
      number = next;
    }
    plane = number;
  }
};

__device__ __forceinline__ int64 volume(const int (&size)[3]) { return (int64)size[0] * size[1] * size[2]; }

// f(tap, offset) for the taps of window `at` that lie inside of the input, in order; offset: in its plane.
template <typename F> __device__ __forceinline__ void each_tap(const Windows& w, const int (&at)[3], F f) {
  int first[3];
  for (int d = 0; d < 3; ++d) first[d] = at[d] * w.stride[d] - w.padding[d];
  int tap = 0;
  for (int i = 0; i < w.kernel[0]; ++i)
    for (int j = 0; j < w.kernel[1]; ++j)
      for (int k = 0; k < w.kernel[2]; ++k, ++tap) {
        const int z = first[0] + i * w.dilation[0], y = first[1] + j * w.dilation[1], x = first[2] + k * w.dilation[2];
        if ((unsigned)z < (unsigned)w.space[0] && (unsigned)y < (unsigned)w.space[1] && (unsigned)x < (unsigned)w.space[2])
          f(tap, (z * w.space[1] + y) * w.space[2] + x);
      }
}

// The windows that read one position, along one dimension: numbers first ... last, where the tap has to be whole.
struct Readers {
  int first, last, from, stride, dilation;
  __device__ __forceinline__ Readers(const Windows& w, int at, int d) {
    from = at + w.padding[d], stride = w.stride[d], dilation = w.dilation[d];
    const int before = from - (w.kernel[d] - 1) * dilation;
    first = before > 0 ? (before + stride - 1) / stride : 0;
    last = min(from / stride, w.out[d] - 1);
  }
  // The tap by which window `number` reads the position; -1 if it does not.
  __device__ __forceinline__ int tap(int number) const {
    const int distance = from - number * stride;
    return dilation == 1 ? distance : distance % dilation ? -1 : distance / dilation;
  }
};

// f(offset of the window in its plane, tap, window) for the windows that read position `at`, in order.
template <typename F> __device__ __forceinline__ void each_window(const Windows& w, const int (&at)[3], F f) {
  const Readers z(w, at[0], 0), y(w, at[1], 1), x(w, at[2], 2);
  for (int i = z.first; i <= z.last; ++i) {
    const int tz = z.tap(i);
    if (tz < 0) continue;
    for (int j = y.first; j <= y.last; ++j) {
      const int ty = y.tap(j);
      if (ty < 0) continue;
      for (int k = x.first; k <= x.last; ++k) {
        const int tx = x.tap(k);
        if (tx < 0) continue;
        const int window[3] = {i, j, k};
        f((i * w.out[1] + j) * w.out[2] + k, (tz * w.kernel[1] + ty) * w.kernel[2] + tx, window);
      }
    }
  }
}
