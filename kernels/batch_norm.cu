// batch_norm, forward and backward: statistics for each channel of x [samples, channels, inner].
//
//   y = x * scale + shift        scale = rstd * weight, shift = bias - mean * scale
//   dx = scale * (g - mean(g) - xhat * mean(g * xhat)) in training, scale * g otherwise;  xhat = (x - mean) * rstd
//   dweight = sum(g * xhat), dbias = sum(g)
//
// COLUMNS: inner is 1 (2-D input, or channels last in memory): threadIdx.x runs over packs of channels, threadIdx.y over
// samples, in blocks of 256 threads with up to 32 packs. Otherwise a block works on one channel: threadIdx.x runs over
// inner, threadIdx.y over samples. Either way blockIdx.y says which of the parts of the samples; parts are combined by *_parts (sizes from parts_launch(channels, parts)) in a fixed order. Storage
// type T, that of weight, bias and their gradients W (T or wide<T>), that of running statistics R; everything else in
// wide<T>. Cost: statistics read x twice (the second time from cache where a part fits), the sums of
// backward read x and g once, the last pass of either reads its inputs once and writes once.
#include "common.cuh"

template <typename A> struct Pair {
  A a, b;
};

// f(0, sums, elements of `in`...) for this thread's elements of a channel in samples first ... end - 1, N of them at a time.
template <int N, typename T, typename A, typename F, typename... In>
__device__ __forceinline__ void channel_walk(Pair<A>& sums, int64 channel, int64 channels, int64 inner, int64 first, int64 end,
                                             F f, In... in) {
  for (int64 n = first + threadIdx.y; n < end; n += blockDim.y) {
    const int64 start = (n * channels + channel) * inner;
    for (int64 l = threadIdx.x * N; l < inner; l += blockDim.x * N)
      [&](Same<Pack<T, N>, In>... values) {
#pragma unroll
        for (int k = 0; k < N; ++k) f(0, sums, (A)values.at[k]...);
      }(pack_of<T, N>(in + start + l)...);
  }
}

// How many channels a thread works on.
template <typename T, bool COLUMNS> constexpr int several = COLUMNS ? Pack<T>::size : 1;

// For neighbouring channels from `channel` on the sums that f(number of the channel, sums, elements of `in`...) adds to, over
// samples first ... end - 1.
template <typename T, bool COLUMNS, typename A, typename F, typename... In>
__device__ __forceinline__ void channel_sums(Pair<A>* sums, int64 channel, int64 channels, int64 inner, int64 first, int64 end,
                                             F f, In... in) {
  constexpr int each = Pack<T>::size;
#pragma unroll
  for (int k = 0; k < several<T, COLUMNS>; ++k) sums[k] = {A(0), A(0)};
  if constexpr (COLUMNS) {
    const bool packs = channels % each == 0 && (aligned(in) && ...);
    if (channel < channels)
#pragma unroll 4
      for (int64 n = first + threadIdx.y; n < end; n += blockDim.y)
        [&](Same<Pack<T>, In>... values) {
#pragma unroll
          for (int k = 0; k < each; ++k) f(k, sums[k], (A)values.at[k]...);
        }(read_pack(in + n * channels + channel, channels - channel, packs)...);
    __shared__ Pair<A> box[each][256], totals[each][32];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    __syncthreads();  // an earlier call has been read
#pragma unroll
    for (int k = 0; k < each; ++k) box[k][thread] = sums[k];
    __syncthreads();
    if (threadIdx.y < each) {  // at least 8 rows: one for each channel of a pack
      Pair<A> total = box[threadIdx.y][threadIdx.x];
      for (int row = 1; row < blockDim.y; ++row) {
        const Pair<A> more = box[threadIdx.y][row * blockDim.x + threadIdx.x];
        total.a += more.a, total.b += more.b;
      }
      totals[threadIdx.y][threadIdx.x] = total;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < each; ++k) sums[k] = totals[k][threadIdx.x];
  } else {
    constexpr int fewer = each == 8 ? 4 : 1;
    if (inner % each == 0 && (aligned(in) && ...)) channel_walk<each, T>(*sums, channel, channels, inner, first, end, f, in...);
    else if (inner % fewer == 0 && (aligned<T, fewer>(in) && ...))
      channel_walk<fewer, T>(*sums, channel, channels, inner, first, end, f, in...);
    else channel_walk<1, T>(*sums, channel, channels, inner, first, end, f, in...);
    sums->a = block_sum(sums->a);
    sums->b = block_sum(sums->b);
  }
}

// The first channel of this thread, the samples of its part, and how many channels' results it writes.
template <typename T, bool COLUMNS> struct Part {
  int64 channel, first, end;
  int writes;
  __device__ __forceinline__ Part(int64 samples, int64 channels) {
    const int64 size = (samples + gridDim.y - 1) / gridDim.y;
    channel = COLUMNS ? ((int64)blockIdx.x * blockDim.x + threadIdx.x) * several<T, COLUMNS> : (int64)blockIdx.x;
    first = min(blockIdx.y * size, samples);
    end = min(first + size, samples);
    const bool mine = threadIdx.y == 0 && (COLUMNS || threadIdx.x == 0);
    writes = mine ? (int)max(min((int64)several<T, COLUMNS>, channels - channel), (int64)0) : 0;
  }
};

// Mean and sum of squared distances from it, for each part and channel: [parts, channels].
template <typename T, bool COLUMNS>
__global__ void batch_moments(const T* x, wide<T>* means, wide<T>* squares, int64 samples, int64 channels, int64 inner) {
  typedef wide<T> A;
  constexpr int many = several<T, COLUMNS>;
  const Part<T, COLUMNS> part(samples, channels);
  const A count = A((part.end - part.first) * inner);
  Pair<A> sums[many];
  A mean[many];
  channel_sums<T, COLUMNS>(sums, part.channel, channels, inner, part.first, part.end,
                           [](int, Pair<A>& s, A value) { s.a += value; }, x);
#pragma unroll
  for (int k = 0; k < many; ++k) mean[k] = count > 0 ? sums[k].a / count : A(0);
  channel_sums<T, COLUMNS>(sums, part.channel, channels, inner, part.first, part.end,
                           [&](int k, Pair<A>& s, A value) { s.a += (value - mean[k]) * (value - mean[k]); }, x);
  const int64 place = blockIdx.y * channels + part.channel;
#pragma unroll
  for (int k = 0; k < many; ++k)
    if (k < part.writes) means[place + k] = mean[k], squares[place + k] = sums[k].a;
}

// Mean, biased variance and 1 / sqrt(variance + eps) of each channel from its parts (T. Chan et al., 1979). Running
// statistics (null: none) move towards the mean and the unbiased variance by the fraction `momentum`.
template <typename A, typename R>
__global__ void batch_moments_parts(const A* means, const A* squares, A* mean, A* variance, A* rstd, R* running_mean,
                                    R* running_var, int64 parts, int64 samples, int64 channels, int64 inner, double eps,
                                    double momentum) {
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
  const A spread = square / A(samples * inner), keep = A(1 - momentum), step = A(momentum);
  mean[channel] = middle;
  variance[channel] = spread;
  rstd[channel] = A(1) / sqrt(spread + A(eps));
  if (!running_mean) return;
  running_mean[channel] = R((A)running_mean[channel] * keep + middle * step);
  running_var[channel] = R((A)running_var[channel] * keep + square / A(samples * inner - 1) * step);
}

// Mean and 1 / sqrt(variance + eps) of each channel as running statistics have them.
template <typename A, typename R>
__global__ void batch_running(const R* running_mean, const R* running_var, A* mean, A* rstd, int64 channels, double eps) {
  const int64 channel = thread_number();
  if (channel >= channels) return;
  mean[channel] = A(running_mean[channel]);
  rstd[channel] = A(1) / sqrt(A(running_var[channel]) + A(eps));
}

// y = (x - mean) * rstd * weight + bias; weight and bias may be null. A thread for a Pack of elements.
template <typename T, typename W>
__global__ void batch_apply(const T* x, const wide<T>* mean, const wide<T>* rstd, const W* weight, const W* bias, T* y,
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
  constexpr int many = several<T, COLUMNS>;
  const Part<T, COLUMNS> part(samples, channels);
  Pair<A> sums[many];
  A middle[many];
#pragma unroll
  for (int k = 0; k < many; ++k) middle[k] = part.channel + k < channels ? mean[part.channel + k] : A(0);
  channel_sums<T, COLUMNS>(sums, part.channel, channels, inner, part.first, part.end, [&](int k, Pair<A>& s, A gi, A value) {
    s.a += gi;
    s.b += gi * (value - middle[k]);
  }, g, x);
  const int64 place = blockIdx.y * channels + part.channel;
#pragma unroll
  for (int k = 0; k < many; ++k)
    if (k < part.writes) totals[place + k] = sums[k].a, products[place + k] = sums[k].b;
}

// Adds the parts up; gradients of weight and bias (null: not wanted), and the two means that dx needs.
template <typename W>
__global__ void batch_sums_parts(const wide<W>* totals, const wide<W>* products, const wide<W>* rstd, W* dweight,
                                 W* dbias, wide<W>* g_mean, wide<W>* slope, int64 parts, int64 channels, int64 count) {
  typedef wide<W> A;
  const int64 channel = (int64)blockIdx.x * 32 + threadIdx.x;
  const bool inside = channel < channels;
  const A total = parts_sum<A>(parts, inside, [=](int64 part) { return totals[part * channels + channel]; });
  A product = parts_sum<A>(parts, inside, [=](int64 part) { return products[part * channels + channel]; });
  if (threadIdx.y != 0 || !inside) return;
  product *= rstd[channel];
  if (dweight) dweight[channel] = W(product);
  if (dbias) dbias[channel] = W(total);
  g_mean[channel] = total / A(count);
  slope[channel] = product / A(count);
}

// dx; g_mean and slope are null outside of training. A thread for a Pack of elements.
template <typename T, typename W>
__global__ void batch_apply_grad(const T* g, const T* x, const wide<T>* mean, const wide<T>* rstd, const W* weight,
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
