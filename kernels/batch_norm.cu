// batch_norm, forward and backward: statistics for each channel of x [samples, channels, inner].
//
//   y = x * scale + shift        scale = rstd * weight, shift = bias - mean * scale
//   dx = scale * (g - mean(g) - xhat * mean(g * xhat)) in training, scale * g otherwise;  xhat = (x - mean) * rstd
//   dweight = sum(g * xhat), dbias = sum(g)
//
// COLUMNS: inner is 1 (2-D input, or channels last in memory): blocks of 32 channels x 8 samples. Otherwise a block
// works on one channel: threadIdx.x runs over inner, threadIdx.y over samples. Either way blockIdx.y says which of the
// parts of the samples; parts are combined by *_parts, one thread for a channel, in a fixed order. Storage type T,
// everything else in wide<T>. Cost: statistics read x twice (the second time from cache where a part fits), the sums of
// backward read x and g once, the last pass of either reads its inputs once and writes once.
#include "common.cuh"

template <typename A> struct Pair {
  A a, b;
};

// For one channel the sums of the two numbers that f gives for each element of samples first ... end - 1.
template <bool COLUMNS, typename A, typename F>
__device__ __forceinline__ Pair<A> channel_sums(int64 channel, int64 channels, int64 inner, int64 first, int64 end, F f) {
  Pair<A> sums = {A(0), A(0)};
  if constexpr (COLUMNS) {
    if (channel < channels)
      for (int64 n = first + threadIdx.y; n < end; n += blockDim.y) f(n * channels + channel, sums);
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
    for (int64 n = first + threadIdx.y; n < end; n += blockDim.y)
      for (int64 l = threadIdx.x; l < inner; l += blockDim.x) f((n * channels + channel) * inner + l, sums);
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
  const A total = channel_sums<COLUMNS, A>(part.channel, channels, inner, part.first, part.end,
                                           [=](int64 i, Pair<A>& s) { s.a += (A)x[i]; }).a;
  const A mean = count > 0 ? total / count : A(0);
  const A square = channel_sums<COLUMNS, A>(part.channel, channels, inner, part.first, part.end,
                                            [=](int64 i, Pair<A>& s) {
                                              const A centred = (A)x[i] - mean;
                                              s.a += centred * centred;
                                            }).a;
  if (!part.writes) return;
  means[blockIdx.y * channels + part.channel] = mean;
  squares[blockIdx.y * channels + part.channel] = square;
}

// Mean, biased variance and 1 / sqrt(variance + eps) of each channel from its parts (T. Chan et al., 1979).
template <typename A>
__global__ void batch_moments_parts(const A* means, const A* squares, A* mean, A* variance, A* rstd, int64 parts,
                                    int64 samples, int64 channels, int64 inner, double eps) {
  const int64 channel = thread_number();
  if (channel >= channels) return;
  const int64 size = (samples + parts - 1) / parts;
  A total = 0, square = 0;
  for (int64 part = 0; part < parts; ++part) {
    const int64 first = min(part * size, samples), end = min(first + size, samples);
    total += means[part * channels + channel] * A((end - first) * inner);
  }
  const A middle = total / A(samples * inner);
  for (int64 part = 0; part < parts; ++part) {
    const int64 first = min(part * size, samples), end = min(first + size, samples);
    const A off = means[part * channels + channel] - middle;
    square += squares[part * channels + channel] + off * off * A((end - first) * inner);
  }
  mean[channel] = middle;
  variance[channel] = square / A(samples * inner);
  rstd[channel] = A(1) / sqrt(variance[channel] + A(eps));
}

// y = (x - mean) * rstd * weight + bias; weight and bias may be null. A thread for each element.
template <typename T>
__global__ void batch_apply(const T* x, const wide<T>* mean, const wide<T>* rstd, const T* weight, const T* bias, T* y,
                            int64 size, int64 channels, int64 inner) {
  typedef wide<T> A;
  const int64 i = thread_number();
  if (i >= size) return;
  const int64 channel = rest_of(quotient(i, inner), channels);
  const A scale = weight ? rstd[channel] * (A)weight[channel] : rstd[channel];
  y[i] = T(((A)x[i] - mean[channel]) * scale + (bias ? (A)bias[channel] : A(0)));
}

// Sums of g and of g * (x - mean), for each part and channel: [parts, channels].
template <typename T, bool COLUMNS>
__global__ void batch_sums(const T* g, const T* x, const wide<T>* mean, wide<T>* totals, wide<T>* products, int64 samples,
                           int64 channels, int64 inner) {
  typedef wide<T> A;
  const Part<COLUMNS> part(samples, channels);
  const A middle = part.channel < channels ? mean[part.channel] : A(0);
  const Pair<A> sums = channel_sums<COLUMNS, A>(part.channel, channels, inner, part.first, part.end,
                                                [=](int64 i, Pair<A>& s) {
                                                  s.a += (A)g[i];
                                                  s.b += (A)g[i] * ((A)x[i] - middle);
                                                });
  if (!part.writes) return;
  totals[blockIdx.y * channels + part.channel] = sums.a;
  products[blockIdx.y * channels + part.channel] = sums.b;
}

// Adds the parts up; gradients of weight and bias (null: not wanted), and the two means that dx needs.
template <typename T>
__global__ void batch_sums_parts(const wide<T>* totals, const wide<T>* products, const wide<T>* rstd, T* dweight,
                                 T* dbias, wide<T>* g_mean, wide<T>* slope, int64 parts, int64 channels, int64 count) {
  typedef wide<T> A;
  const int64 channel = thread_number();
  if (channel >= channels) return;
  A total = 0, product = 0;
  for (int64 part = 0; part < parts; ++part) {
    total += totals[part * channels + channel];
    product += products[part * channels + channel];
  }
  product *= rstd[channel];
  if (dweight) dweight[channel] = T(product);
  if (dbias) dbias[channel] = T(total);
  g_mean[channel] = total / A(count);
  slope[channel] = product / A(count);
}

// dx; g_mean and slope are null outside of training. A thread for each element.
template <typename T>
__global__ void batch_apply_grad(const T* g, const T* x, const wide<T>* mean, const wide<T>* rstd, const T* weight,
                                 const wide<T>* g_mean, const wide<T>* slope, T* dx, int64 size, int64 channels,
                                 int64 inner) {
  typedef wide<T> A;
  const int64 i = thread_number();
  if (i >= size) return;
  const int64 channel = rest_of(quotient(i, inner), channels);
  const A scale = weight ? rstd[channel] * (A)weight[channel] : rstd[channel];
  A value = g[i];
  if (g_mean) value -= g_mean[channel] + ((A)x[i] - mean[channel]) * rstd[channel] * slope[channel];
  dx[i] = T(scale * value);
}
