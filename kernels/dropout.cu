// Dropout with masks drawn on the device, and multiplication by a mask.
//
//   keep[i] = random word i >= threshold, threshold = p * 2**32;   y = x * keep * scale, scale = 1 / (1 - p)
//
// state is [2]: seed and counter of Philox, on the device, so that a captured step draws new numbers on every replay;
// philox_advance moves the counter past what was drawn, in stream order. A thread makes four elements; arrays are dense,
// of `size` elements. Cost: reads x once, writes y and one byte of mask.
#include "common.cuh"
#include "philox.cuh"

template <typename T>
__global__ void dropout(const T* x, T* y, bool* keep, const uint64* state, unsigned threshold, double scale, int64 size) {
  const int64 thread = thread_number(), first = thread * 4;
  if (first >= size) return;
  const uint4 words = philox(state[1] + (uint64)thread, state[0]);
  const unsigned word[4] = {words.x, words.y, words.z, words.w};
  for (int k = 0; k < 4 && first + k < size; ++k) {
    const bool kept = word[k] >= threshold;
    keep[first + k] = kept;
    if (x) y[first + k] = T((wide<T>)x[first + k] * wide<T>(kept) * wide<T>(scale));
  }
}

__global__ void philox_advance(uint64* state, uint64 count) { state[1] += count; }

template <typename T> __global__ void masked_scale(const T* x, const bool* keep, T* y, double scale, int64 size) {
  const int64 i = thread_number();
  if (i < size) y[i] = T((wide<T>)x[i] * wide<T>(keep[i]) * wide<T>(scale));
}
