// Convolution over 1 to 3 dimensions with stride, padding, dilation and groups, and its gradients, as products of
// matrices whose columns are read from the image where they lie (no matrix of patches in memory).
//
//   x [images, C, space], weight [O, C / groups, kernel], g and result [images, O, out]; position q * stride - padding
//   + tap * dilation of x meets position q of the result.
//   conv_map:     result[o, (n, q)] = sum over (c, tap) of weight[o, (c, tap)] x[n, c, ...] + bias[o]; with `back` the
//                 gradient of x (or a transposed convolution): dx[c, (n, i)] = sum over (o, tap) of weight g[n, o, ...]
//   conv_weight:  dweight[o, (c, tap)] = sum over (n, q) of g[n, o, q] x[n, c, ...]
//
// Blocks of 128 threads, a tile of Product<T>::M rows x 128 columns each. conv_map: grid (tiles of columns, tiles of
// rows, groups * classes). Backward with stride s: positions of x with one remainder of (i + padding) / s are a class;
// the taps that meet them are equally spaced, so each class is a convolution with stride 1, and no product is with 0.
// conv_weight: grid (tiles of columns, tiles of rows, groups * parts); with several parts of the sum over (n, q) they
// go to partial [parts, groups * rows * columns], added up in a fixed order by sum_parts (reduce.cu).
// conv_depthwise*: C / groups is 1, a thread for each result; conv_depthwise_weight: a block of 256 for each (o, tap).
// Storage type T; added up in wide<T>. Cost: 2 * images * prod(out) * O * C / groups * taps operations; x is read from
// cache once for each tap and tile of rows. The formula writes and reads a matrix that is prod(kernel) times as large as x.
#include "common.cuh"
#include "windows.cuh"
#include "product.cuh"

// Where a row or a column of the matrix of patches reads: the sum of both is the place of an element.
struct Place {
  int64 offset;
  int at[3];
};
constexpr int NOWHERE = -(1 << 30);  // no place is inside that begins here

__device__ __forceinline__ Place place(const int (&at)[3], const int (&size)[3], int64 start) {
  return {start + ((int64)at[0] * size[1] + at[1]) * size[2] + at[2], {at[0], at[1], at[2]}};
}
__device__ __forceinline__ Place nowhere() { return {0, {NOWHERE, 0, 0}}; }

// A row of the matrix of patches, and the column of the other operand that it is multiplied with (-1: none).
struct Row {
  Place place;
  int64 column;
};

// sums += a b: a[m, k] = a[m * a_step + row(k).column], m < rows; b[k, n] = source at row(k) + column(n), 0 outside of
// `size`; k = first ... end - 1. ALONG_K: neighbours in memory are along k; otherwise along n.
template <bool ALONG_K, typename T, typename C, typename R>
__device__ __forceinline__ void multiply(Product<T>& sums, const T* a, int64 a_step, int rows, const T* source,
                                         const int (&size)[3], int64 first, int64 end, C column, R row) {
  constexpr int M = Product<T>::M, N = 128, K = 16;
  __shared__ typename Product<T>::Tiles tiles;
  __shared__ Place columns[N];
  __shared__ Row table[2][K];
  const int thread = threadIdx.x, k = thread % K, line = thread / K;
  auto fill_table = [&](int buffer, int64 start) {
    if (thread < K) table[buffer][thread] = start + thread < end ? row(start + thread) : Row{nowhere(), -1};
  };
  T next_a[M / 8], next_b[K];
  auto fetch = [&](int buffer) {
#pragma unroll
    for (int i = 0; i < M / 8; ++i) {
      const int m = line + 8 * i;
      const int64 place = table[buffer][k].column;
      next_a[i] = m < rows && place >= 0 ? a[m * a_step + place] : T(0.0f);
    }
#pragma unroll
    for (int i = 0; i < K; ++i) {
      const Place& down = table[buffer][ALONG_K ? k : i].place;
      const Place& right = columns[ALONG_K ? line + 8 * i : thread];
      const bool inside = (unsigned)(down.at[0] + right.at[0]) < (unsigned)size[0] &&
                          (unsigned)(down.at[1] + right.at[1]) < (unsigned)size[1] &&
                          (unsigned)(down.at[2] + right.at[2]) < (unsigned)size[2];
      next_b[i] = inside ? source[down.offset + right.offset] : T(0.0f);
    }
  };
  columns[thread] = column(thread);
  fill_table(0, first);
  __syncthreads();
  if (first < end) fetch(0);
  for (int buffer = 1; first < end; first += K, buffer ^= 1) {
#pragma unroll
    for (int i = 0; i < M / 8; ++i) tiles.put_a(line + 8 * i, k, next_a[i]);
    if constexpr (ALONG_K) {
#pragma unroll
      for (int i = 0; i < K; ++i) tiles.put_b(k, line + 8 * i, next_b[i]);
    } else {
      tiles.put_b(thread, next_b);
    }
    fill_table(buffer, first + K);
    __syncthreads();
    if (first + K < end) fetch(buffer);  // under way while this tile is multiplied
    sums.add(tiles);
    __syncthreads();
  }
}

// How results along one dimension meet their source: result start + u * step (u < count) reads source u * factor + base
// + t * slope by weight first_tap + t * tap_step, t < taps.
struct Walk {
  int count, start, step, factor, base, slope, taps, first_tap, tap_step;
  __device__ __forceinline__ void forth(const Windows& w, int d) {
    *this = {w.out[d], 0, 1, w.stride[d], -w.padding[d], w.dilation[d], w.kernel[d], 0, 1};
  }
  __device__ __forceinline__ void back(const Windows& w, int d, int remainder) {
    const int s = w.stride[d], dilation = w.dilation[d];
    start = (remainder - w.padding[d] % s + s) % s, step = s, factor = 1;
    count = start < w.space[d] ? (w.space[d] - start + s - 1) / s : 0;
    for (first_tap = 0; first_tap < w.kernel[d] && first_tap * dilation % s != remainder;) ++first_tap;
    for (tap_step = 1; tap_step * dilation % s;) ++tap_step;
    taps = (w.kernel[d] - first_tap + tap_step - 1) / tap_step;
    base = (start + w.padding[d] - first_tap * dilation) / s, slope = -(tap_step * dilation / s);
  }
};

template <typename T>
__global__ void __launch_bounds__(128, 3) conv_map(const T* source, const T* weight, const T* bias, T* result, Windows w,
                                                int64 images, int groups, int channels, int outputs, int back) {
  int number = blockIdx.z, size[3], walked[3];
  int64 columns = images;
  __shared__ Walk walks[3];
  for (int d = 2; d >= 0; --d) {
    if (threadIdx.x == d) {
      if (back) walks[d].back(w, d, number % w.stride[d]);
      else walks[d].forth(w, d);
    }
    if (back) number /= w.stride[d];
  }
  __syncthreads();
  for (int d = 0; d < 3; ++d) {
    size[d] = back ? w.out[d] : w.space[d];
    walked[d] = walks[d].count;
    columns *= walked[d];
  }
  const int64 first_column = (int64)blockIdx.x * 128;
  if (first_column >= columns) return;
  const int first_row = blockIdx.y * Product<T>::M, group = number;  // what is left of it
  const int depth = back ? outputs : channels, rows = (back ? channels : outputs) - first_row;
  const int kernel = w.kernel[0] * w.kernel[1] * w.kernel[2], taps = walks[0].taps * walks[1].taps * walks[2].taps;
  const int64 plane = volume(size), result_plane = back ? volume(w.space) : volume(w.out);
  const int result_size[3] = {back ? w.space[0] : w.out[0], back ? w.space[1] : w.out[1], back ? w.space[2] : w.out[2]};
  const int64 a_step = back ? kernel : (int64)channels * kernel, channel_step = back ? (int64)channels * kernel : kernel;

  Product<T> sums;
  multiply<false>(
      sums, weight + (int64)group * outputs * channels * kernel + first_row * a_step, a_step, rows, source, size, 0,
      (int64)depth * taps,
      [&](int n) {
        if (first_column + n >= columns) return nowhere();
        const Spot spot(first_column + n, walked);
        int at[3];
        for (int d = 0; d < 3; ++d) at[d] = spot.at[d] * walks[d].factor + walks[d].base;
        return place(at, size, (spot.plane * groups + group) * depth * plane);
      },
      [&](int64 k) {
        const int channel = (int)quotient(k, taps);
        int tap = (int)(k - (int64)channel * taps), at[3], which[3];
        for (int d = 2; d >= 0; --d) {
          at[d] = tap % walks[d].taps * walks[d].slope;
          which[d] = walks[d].first_tap + tap % walks[d].taps * walks[d].tap_step;
          tap /= walks[d].taps;
        }
        tap = (which[0] * w.kernel[1] + which[1]) * w.kernel[2] + which[2];
        return Row{place(at, size, channel * plane), channel * channel_step + tap};
      });

  __shared__ int64 targets[128];  // of each column, -1: none
  if (first_column + threadIdx.x < columns) {
    const Spot spot(first_column + threadIdx.x, walked);
    int at[3];
    for (int d = 0; d < 3; ++d) at[d] = walks[d].start + spot.at[d] * walks[d].step;
    const int64 channel = (spot.plane * groups + group) * (back ? channels : outputs) + first_row;
    targets[threadIdx.x] = place(at, result_size, channel * result_plane).offset;
  } else {
    targets[threadIdx.x] = -1;
  }
  __syncthreads();
  const int64 first_channel = (int64)group * (back ? channels : outputs) + first_row;
  sums.each([&](int m, int n, wide<T> sum) {
    if (m >= rows || targets[n] < 0) return;
    if (bias) sum += (wide<T>)bias[first_channel + m];
    result[targets[n] + m * result_plane] = T(sum);
  });
}

template <typename T>
__global__ void __launch_bounds__(128, 3) conv_weight(const T* x, const T* g, wide<T>* partial, T* result, Windows w,
                                                   int64 images, int groups, int channels, int outputs, int parts) {
  const int kernel = w.kernel[0] * w.kernel[1] * w.kernel[2], first_row = blockIdx.y * Product<T>::M;
  const int group = blockIdx.z / parts, part = blockIdx.z % parts;
  const int64 columns = (int64)channels * kernel, first_column = (int64)blockIdx.x * 128;
  const int64 plane = volume(w.space), length = volume(w.out), total = images * length;
  const int64 part_size = (total + parts - 1) / parts;

  Product<T> sums;
  multiply<true>(
      sums, g + ((int64)group * outputs + first_row) * length, length, outputs - first_row,
      x + (int64)group * channels * plane, w.space, min(part * part_size, total), min((part + 1) * part_size, total),
      [&](int n) {
        if (first_column + n >= columns) return nowhere();
        const Spot spot(first_column + n, w.kernel);
        int at[3];
        for (int d = 0; d < 3; ++d) at[d] = spot.at[d] * w.dilation[d];
        return place(at, w.space, spot.plane * plane);
      },
      [&](int64 k) {
        const Spot spot(k, w.out);
        int at[3];
        for (int d = 0; d < 3; ++d) at[d] = spot.at[d] * w.stride[d] - w.padding[d];
        const int64 g_place = spot.plane * groups * outputs * length + (k - spot.plane * length);
        return Row{place(at, w.space, spot.plane * groups * channels * plane), g_place};
      });

  const int64 all = (int64)groups * outputs * columns;
  sums.each([&](int m, int n, wide<T> sum) {
    if (first_row + m >= outputs || first_column + n >= columns) return;
    const int64 target = ((int64)group * outputs + first_row + m) * columns + first_column + n;
    if (partial) partial[part * all + target] = sum;
    else result[target] = T(sum);
  });
}

template <typename T>
__global__ void conv_depthwise(const T* source, const T* weight, const T* bias, T* result, Windows w, int groups,
                               int outputs, int back, int64 count) {
  const int64 i = thread_number();
  if (i >= count) return;
  const int kernel = w.kernel[0] * w.kernel[1] * w.kernel[2];
  wide<T> sum = 0;
  if (back) {
    const Spot spot(i, w.space);
    const int64 channel = rest_of(spot.plane, groups), length = volume(w.out);
    const T *g = source + spot.plane * outputs * length, *own = weight + channel * outputs * kernel;
    each_window(w, spot.at, [&](int offset, int tap, const int (&)[3]) {
      for (int o = 0; o < outputs; ++o) sum += (wide<T>)g[o * length + offset] * (wide<T>)own[o * kernel + tap];
    });
    if (bias) sum += (wide<T>)bias[channel];
  } else {
    const Spot spot(i, w.out);
    const int64 output = rest_of(spot.plane, (int64)groups * outputs);
    const T *x = source + quotient(spot.plane, outputs) * volume(w.space), *own = weight + output * kernel;
    each_tap(w, spot.at, [&](int tap, int offset) { sum += (wide<T>)x[offset] * (wide<T>)own[tap]; });
    if (bias) sum += (wide<T>)bias[output];
  }
  result[i] = T(sum);
}

template <typename T>
__global__ void conv_depthwise_weight(const T* x, const T* g, T* result, Windows w, int64 images, int groups,
                                      int outputs) {
  const int64 output = blockIdx.x, length = volume(w.out), plane = volume(w.space);
  int tap = blockIdx.y, shift[3];
  for (int d = 2; d >= 0; --d) {
    shift[d] = tap % w.kernel[d] * w.dilation[d] - w.padding[d];
    tap /= w.kernel[d];
  }
  wide<T> sum = 0;
  for (int64 i = threadIdx.x; i < images * length; i += blockDim.x) {
    const Spot spot(i, w.out);
    int at[3];
    bool inside = true;
    for (int d = 0; d < 3; ++d) {
      at[d] = spot.at[d] * w.stride[d] + shift[d];
      inside = inside && (unsigned)at[d] < (unsigned)w.space[d];
    }
    if (!inside) continue;
    const int64 place = (spot.plane * groups + output / outputs) * plane;
    sum += (wide<T>)x[place + ((int64)at[0] * w.space[1] + at[1]) * w.space[2] + at[2]] *
           (wide<T>)g[(spot.plane * groups * outputs + output) * length + (i - spot.plane * length)];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) result[output * gridDim.y + blockIdx.y] = T(sum);
}

// y += bias of the channel, for y [images, channels, inner]. A thread for a Pack of elements.
template <typename T>
__global__ void add_bias(T* y, const T* bias, int64 size, int64 channels, int64 inner) {
  typedef wide<T> A;
  const int64 first = thread_number() * Pack<T>::size;
  if (first >= size) return;
  Pack<T> pack = read_pack(y + first, size - first, aligned(y));
  A shift = 0;
  walk<T>(first, size, channels, inner, [&](int64 channel) { shift = bias[channel]; },
          [&](int k) { pack.at[k] = T((A)pack.at[k] + shift); });
  write_pack(y + first, pack, size - first, aligned(y));
}
