// Dropout with masks drawn on the device, and multiplication by a mask.
//
//   keep[i] = random word i >= threshold, threshold = p * 2**32;   y = x * keep * scale, scale = 1 / (1 - p)
//
// state is [2]: seed and counter of Philox, on the device, so that a captured step draws new numbers on every replay;
// philox_advance moves the counter past what was drawn, in stream order. A thread makes four elements; arrays are dense,
// of `size` elements. Cost: reads x once, writes y and one byte of mask.
#include "common.cuh"
#include "philox.cuh"

// y[first + k] = x[first + k] * keep[first + k] * scale for the k < 4 that there are, with keep from `kept(k)`, which is
// written where `written` is not null; packs are moved where all four are there and aligned. x and y may be null.
template <typename T, typename F>
__device__ __forceinline__ void keep_four(const T* x, T* y, bool* written, double scale, int64 first, int64 size, F kept) {
  typedef wide<T> A;
  constexpr int each = sizeof(T) == 8 ? 2 : 4;
  if (first + 4 <= size && aligned<T, each>(x) && aligned<T, each>(y) && (uint64)written % 4 == 0) {
    unsigned flags = 0;
#pragma unroll
    for (int part = 0; part < 4; part += each) {
      Pack<T, each> in, out;
      if (x) in = pack_of<T, each>(x + first + part);
#pragma unroll
      for (int k = 0; k < each; ++k) {
        const bool stays = kept(part + k);
        flags |= (unsigned)stays << 8 * (part + k);
        if (x) out.at[k] = T((A)in.at[k] * A(stays) * A(scale));
      }
      if (x) pack_of<T, each>(y + first + part) = out;
    }
    if (written) as<unsigned>(written + first) = flags;
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (first + k >= size) return;
    const bool stays = kept(k);
    if (written) written[first + k] = stays;
    if (x) y[first + k] = T((A)x[first + k] * A(stays) * A(scale));
  }
}

template <typename T>
__global__ void dropout(const T* x, T* y, bool* keep, const uint64* state, unsigned threshold, double scale, int64 size) {
  const int64 thread = thread_number(), first = thread * 4;
  if (first >= size) return;
  const uint4 words = philox(state[1] + (uint64)thread, state[0]);
  const unsigned word[4] = {words.x, words.y, words.z, words.w};
  keep_four(x, y, keep, scale, first, size, [&](int k) { return word[k] >= threshold; });
}

__global__ void philox_advance(uint64* state, uint64 count) { state[1] += count; }

// A thread makes four elements.
template <typename T> __global__ void masked_scale(const T* x, const bool* keep, T* y, double scale, int64 size) {
  const int64 first = thread_number() * 4;
  if (first >= size) return;
  if (first + 4 <= size && (uint64)keep % 4 == 0) {
    const unsigned flags = as<const unsigned>(keep + first);
    keep_four(x, y, (bool*)nullptr, scale, first, size, [=](int k) { return (flags >> 8 * k & 255u) != 0; });
  } else {
    keep_four(x, y, (bool*)nullptr, scale, first, size, [=](int k) { return keep[first + k]; });
  }
}
