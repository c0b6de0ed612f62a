// Sliding blocks as columns, and back: x [planes, space], columns [planes, taps, out].
//
//   im2col:  columns[p, t, q] = x[p, q * stride - padding + t * dilation], 0 outside
//   col2im:  x[p, i] = sum of columns[p, t, q] over the (t, q) that read i; in wide<T>, in a fixed order
//
// A thread for each element of the result. im2col moves words W of the element's size. Cost: reads and writes once.
#include "common.cuh"
#include "windows.cuh"

template <typename W> __global__ void im2col(const W* x, W* columns, Windows w, int64 count) {
  const int64 i = thread_number();
  if (i >= count) return;
  const Spot spot(i, w.out), block(spot.plane, w.kernel);
  int at[3];
  bool inside = true;
  for (int d = 0; d < 3; ++d) {
    at[d] = spot.at[d] * w.stride[d] - w.padding[d] + block.at[d] * w.dilation[d];
    inside = inside && (unsigned)at[d] < (unsigned)w.space[d];
  }
  columns[i] = inside ? x[block.plane * volume(w.space) + ((int64)at[0] * w.space[1] + at[1]) * w.space[2] + at[2]] : W{};
}

template <typename T> __global__ void col2im(const T* columns, T* x, Windows w, int64 count) {
  const int64 i = thread_number();
  if (i >= count) return;
  const Spot spot(i, w.space);
  const int64 taps = volume(w.kernel), length = volume(w.out);
  wide<T> sum = 0;
  each_window(w, spot.at, [&](int offset, int tap, const int (&)[3]) {
    sum += (wide<T>)columns[(spot.plane * taps + tap) * length + offset];
  });
  x[i] = T(sum);
}
