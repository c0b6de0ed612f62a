// batch_norm, forward and backward: statistics for each channel of x [samples, channels, inner].
//
//   y = x * scale + shift        scale = rstd * weight, shift = bias - mean * scale
//   dx = scale * (g - mean(g) - xhat * mean(g * xhat)) in training, scale * g otherwise;  xhat = (x - mean) * rstd
//   dweight = sum(g * xhat), dbias = sum(g)
//
// COLUMNS: inner is 1 (2-D input, or channels last in memory): blocks of 32 channels x 8 samples. Otherwise a block
// works on one channel: threadIdx.x runs over inner, threadIdx.y over samples. Either way blockIdx.y says which of the
// parts of the samples; parts are combined by *_parts (sizes from parts_launch(channels, parts)) in a fixed order. Storage type T,
// everything else in wide<T>. Cost: statistics read x twice (the second time from cache where a part fits), the sums of
// backward read x and g once, the last pass of either reads its inputs once and writes once.
#include "common.cuh"

template <typename A> struct Pair {
  A a, b;
};

// For one channel the sums that f(sums, elements of `in`...) adds to, over samples first ... end - 1.
template <bool COLUMNS, typename T, typename A, typename F, typename... In>
__device__ __forceinline__ Pair<A> channel_sums(int64 channel, int64 channels, int64 inner, int64 first, int64 end, F f,
                                                In... in) {
  Pair<A> sums = {A(0), A(0)};
  if constexpr (COLUMNS) {
    if (channel < channels)
      for (int64 n = first + threadIdx.y; n < end; n += blockDim.y) f(sums, (A)in[n * channels + channel]...);
    __shared__ Pair<A> box[8][32];
    __syncthreads();  // an earlier call has been read
    box[threadIdx.y][threadIdx.x] = sums;
    __syncthreads();
    sums = box[0][threadIdx.x];
    for (int row = 1; row < 8; ++row) {
      sums.a += box[row][threadIdx.x].a;
      sums.b += box[row][threadIdx.x].b;
    }
    return sums;
  } else {
    constexpr int each = Pack<T>::size;
    const bool packs = inner % each == 0 && (aligned(in) && ...);
    for (int64 n = first + threadIdx.y; n < end; n += blockDim.y) {
      const int64 start = (n * channels + channel) * inner;
      if (packs) {
        for (int64 l = threadIdx.x * each; l < inner; l += blockDim.x * each)
          [&](Same<Pack<T>, In>... values) {
#pragma unroll
            for (int k = 0; k < each; ++k) f(sums, (A)values.at[k]...);
          }(pack_of(in + start + l)...);
      } else {
        for (int64 l = threadIdx.x; l < inner; l += blockDim.x) f(sums, (A)in[start + l]...);
      }
    }
    const A a = block_sum(sums.a);
    return {a, block_sum(sums.b)};
  }
}

// The channel of this thread's block, the samples of its part, and whether this thread writes the channel's result.
template <bool COLUMNS> struct Part {
  int64 channel, first, end;
  bool writes;
  __device__ __forceinline__ Part(int64 samples, int64 channels) {
    const int64 size = (samples + gridDim.y - 1) / gridDim.y;
    channel = COLUMNS ? (int64)blockIdx.x * 32 + threadIdx.x : (int64)blockIdx.x;
    first = min(blockIdx.y * size, samples);
    end = min(first + size, samples);
    writes = threadIdx.y == 0 && channel < channels && (COLUMNS || threadIdx.x == 0);
  }
};

// Mean and sum of squared distances from it, for each part and channel: [parts, channels].
template <typename T, bool COLUMNS>
__global__ void batch_moments(const T* x, wide<T>* means, wide<T>* squares, int64 samples, int64 channels, int64 inner) {
  typedef wide<T> A;
  const Part<COLUMNS> part(samples, channels);
  const A count = A((part.end - part.first) * inner);
  const A total = channel_sums<COLUMNS, T, A>(part.channel, channels, inner, part.first, part.end,
                                              [](Pair<A>& s, A value) { s.a += value; }, x).a;
  const A mean = count > 0 ? total / count : A(0);
  const A square = channel_sums<COLUMNS, T, A>(part.channel, channels, inner, part.first, part.end,
                                               [=](Pair<A>& s, A value) { s.a += (value - mean) * (value - mean); },
                                               x).a;
  if (!part.writes) return;
  means[blockIdx.y * channels + part.channel] = mean;
  squares[blockIdx.y * channels + part.channel] = square;
}

// Mean, biased variance and 1 / sqrt(variance + eps) of each channel from its parts (T. Chan et al., 1979).
template <typename A>
__global__ void batch_moments_parts(const A* means, const A* squares, A* mean, A* variance, A* rstd, int64 parts,
                                    int64 samples, int64 channels, int64 inner, double eps) {
  const int64 channel = (int64)blockIdx.x * 32 + threadIdx.x, size = (samples + parts - 1) / parts;
  const bool inside = channel < channels;
  const auto count = [=](int64 part) {
    const int64 first = min(part * size, samples);
    return A((min(first + size, samples) - first) * inner);
  };
  const A middle = parts_sum<A>(parts, inside, [=](int64 part) {
                     return means[part * channels + channel] * count(part);
                   }) / A(samples * inner);
  const A square = parts_sum<A>(parts, inside, [=](int64 part) {
    const A off = means[part * channels + channel] - middle;
    return squares[part * channels + channel] + off * off * count(part);
  });
  if (threadIdx.y != 0 || !inside) return;
  mean[channel] = middle;
  variance[channel] = square / A(samples * inner);
  rstd[channel] = A(1) / sqrt(variance[channel] + A(eps));
}

// enter(channel) where the first element and where another channel begins, then step(k), for elements first + k < size of
// a Pack; one division for all of them.
template <typename T, typename Enter, typename Step>
__device__ __forceinline__ void walk(int64 first, int64 size, int64 channels, int64 inner, Enter enter, Step step) {
  const int64 line = quotient(first, inner);
  int64 channel = rest_of(line, channels), place = first - line * inner;
#pragma unroll
  for (int k = 0; k < Pack<T>::size; ++k) {
    if (first + k >= size) return;
    if (k == 0 || place == inner) {
      if (k > 0) place = 0, channel = channel + 1 == channels ? 0 : channel + 1;
      enter(channel);
    }
    ++place;
    step(k);
  }
}

// y = (x - mean) * rstd * weight + bias; weight and bias may be null. A thread for a Pack of elements.
template <typename T>
__global__ void batch_apply(const T* x, const wide<T>* mean, const wide<T>* rstd, const T* weight, const T* bias, T* y,
                            int64 size, int64 channels, int64 inner) {
  typedef wide<T> A;
  const int64 first = thread_number() * Pack<T>::size;
  if (first >= size) return;
  const Pack<T> in = read_pack(x + first, size - first, aligned(x));
  Pack<T> out;
  A middle = 0, scale = 0, shift = 0;
  walk<T>(first, size, channels, inner, [&](int64 channel) {
    middle = mean[channel];
    scale = weight ? rstd[channel] * (A)weight[channel] : rstd[channel];
    shift = bias ? (A)bias[channel] : A(0);
  }, [&](int k) { out.at[k] = T(((A)in.at[k] - middle) * scale + shift); });
  write_pack(y + first, out, size - first, aligned(y));
}

// Sums of g and of g * (x - mean), for each part and channel: [parts, channels].
template <typename T, bool COLUMNS>
__global__ void batch_sums(const T* g, const T* x, const wide<T>* mean, wide<T>* totals, wide<T>* products, int64 samples,
                           int64 channels, int64 inner) {
  typedef wide<T> A;
  const Part<COLUMNS> part(samples, channels);
  const A middle = part.channel < channels ? mean[part.channel] : A(0);
  const Pair<A> sums = channel_sums<COLUMNS, T, A>(part.channel, channels, inner, part.first, part.end,
                                                   [=](Pair<A>& s, A gi, A value) {
                                                     s.a += gi;
                                                     s.b += gi * (value - middle);
                                                   }, g, x);
  if (!part.writes) return;
  totals[blockIdx.y * channels + part.channel] = sums.a;
  products[blockIdx.y * channels + part.channel] = sums.b;
}

// Adds the parts up; gradients of weight and bias (null: not wanted), and the two means that dx needs.
template <typename T>
__global__ void batch_sums_parts(const wide<T>* totals, const wide<T>* products, const wide<T>* rstd, T* dweight,
                                 T* dbias, wide<T>* g_mean, wide<T>* slope, int64 parts, int64 channels, int64 count) {
  typedef wide<T> A;
  const int64 channel = (int64)blockIdx.x * 32 + threadIdx.x;
  const bool inside = channel < channels;
  const A total = parts_sum<A>(parts, inside, [=](int64 part) { return totals[part * channels + channel]; });
  A product = parts_sum<A>(parts, inside, [=](int64 part) { return products[part * channels + channel]; });
  if (threadIdx.y != 0 || !inside) return;
  product *= rstd[channel];
  if (dweight) dweight[channel] = T(product);
  if (dbias) dbias[channel] = T(total);
  g_mean[channel] = total / A(count);
  slope[channel] = product / A(count);
}

// dx; g_mean and slope are null outside of training. A thread for a Pack of elements.
template <typename T>
__global__ void batch_apply_grad(const T* g, const T* x, const wide<T>* mean, const wide<T>* rstd, const T* weight,
                                 const wide<T>* g_mean, const wide<T>* slope, T* dx, int64 size, int64 channels,
                                 int64 inner) {
  typedef wide<T> A;
  const int64 first = thread_number() * Pack<T>::size;
  if (first >= size) return;
  const Pack<T> gs = read_pack(g + first, size - first, aligned(g));
  Pack<T> xs = {}, out;
  if (g_mean) xs = read_pack(x + first, size - first, aligned(x));
  A middle = 0, scale = 0, shift = 0, steep = 0;
  walk<T>(first, size, channels, inner, [&](int64 channel) {
    scale = weight ? rstd[channel] * (A)weight[channel] : rstd[channel];
    if (!g_mean) return;
    middle = mean[channel], shift = g_mean[channel], steep = rstd[channel] * slope[channel];
  }, [&](int k) {
    A value = gs.at[k];
    if (g_mean) value -= shift + ((A)xs.at[k] - middle) * steep;
    out.at[k] = T(scale * value);
  });
  write_pack(dx + first, out, size - first, aligned(dx));
}
