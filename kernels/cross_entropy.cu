// cross_entropy and nll_loss against class numbers, forward and backward.
//
//   cross entropy of a line:  w[t] * (log(sum(exp(x - top))) - (x[t] - top))    d/dx_j = share * (softmax(x)_j - [j == t])
//   nll of a line:            -w[t] * x[t]                                      d/dx_j = -share * [j == t]
//
// x is C-contiguous [outer, n, inner] with n classes; target and everything that has one number for each line is
// [outer, inner]. A line whose target is `ignored` counts for nothing. A target that is no class gives nan, as loss and
// as gradient: looking from the host would wait for the device. weight (null: ones) is [n].
// reduction: 0 none, 1 mean (over the weights of the lines that count), 2 sum. Launch sizes as Line asks for; totals are
// added up in a fixed order, by several blocks first if there are many lines. Storage type T, index type I, computed in wide<T>.
// Cost: forward reads x once, backward reads x once and writes dx; nothing of x's size is kept between them.
#include "common.cuh"
#include "exponentials.cuh"

// The weight of a line: 0 where ignored, nan for a target out of range.
template <typename A, typename I> __device__ __forceinline__ A line_weight(I t, const A* weight, int64 n, int64 ignored) {
  if ((int64)t == ignored) return A(0);
  if ((int64)t < 0 || (int64)t >= n) return not_a_number<A>();
  return weight ? weight[t] : A(1);
}

template <typename T, typename I, bool COLUMNS>
__global__ void cross_entropy(const T* x, const I* target, const wide<T>* weight, wide<T>* losses, wide<T>* weights,
                              wide<T>* top, wide<T>* logs, int64 ignored, int64 outer, int64 n, int64 inner) {
  typedef wide<T> A;
  const Line<COLUMNS> line(outer, n, inner);
  if (!line.valid) return;
  const Exponentials<A> e = exponentials<A>(x, line);
  if (!line.writes()) return;
  const I t = target[line.number];
  const A w = line_weight<A>(t, weight, n, ignored), log_sum = log(e.sum);
  const bool inside = t >= 0 && t < n && (int64)t != ignored;
  // in this order the difference of large scores is exact; an ignored line is 0 even if its loss were infinite
  losses[line.number] = inside ? w * (log_sum - ((A)x[line[t]] - e.top)) : w;
  weights[line.number] = w;
  top[line.number] = e.top;
  logs[line.number] = log_sum;
}

template <typename T, typename I>
__global__ void nll(const T* x, const I* target, const wide<T>* weight, wide<T>* losses, wide<T>* weights, int64 ignored,
                    int64 outer, int64 n, int64 inner) {
  typedef wide<T> A;
  const Line<true> line(outer, n, inner);
  if (!line.valid) return;
  const I t = target[line.number];
  const A w = line_weight<A>(t, weight, n, ignored);
  const bool inside = t >= 0 && t < n && (int64)t != ignored;
  losses[line.number] = inside ? -(A)x[line[t]] * w : w;
  weights[line.number] = w;
}

// What each block finds of the sum of the losses and of the weights.
template <typename A>
__global__ void loss_parts(const A* losses, const A* weights, A* loss_sums, A* weight_sums, int64 lines) {
  A loss = 0, weight = 0;
  for (int64 i = thread_number(); i < lines; i += (int64)gridDim.x * blockDim.x) {
    loss += losses[i];
    weight += weights[i];
  }
  loss = block_sum(loss);
  weight = block_sum(weight);
  if (threadIdx.x == 0) loss_sums[blockIdx.x] = loss, weight_sums[blockIdx.x] = weight;
}

// One block. The sum of the losses; for the mean divided by that of the weights.
template <typename T>
__global__ void loss_total(const wide<T>* losses, const wide<T>* weights, T* total, int64 lines, int reduction) {
  typedef wide<T> A;
  A loss = 0, weight = 0;
  for (int64 i = threadIdx.x; i < lines; i += blockDim.x) {
    loss += losses[i];
    weight += weights[i];
  }
  loss = block_sum(loss);
  weight = block_sum(weight);
  if (threadIdx.x == 0) total[0] = T(reduction == 1 ? loss / weight : loss);
}

// What each block finds of the sum of the weights of all lines.
template <typename A, typename I>
__global__ void weight_total(const I* target, const A* weight, A* total, int64 ignored, int64 lines, int64 n) {
  A sum = 0;
  for (int64 i = thread_number(); i < lines; i += (int64)gridDim.x * blockDim.x)
    sum += line_weight<A>(target[i], weight, n, ignored);
  sum = block_sum(sum);
  if (threadIdx.x == 0) total[blockIdx.x] = sum;
}

// What the gradient of a line is multiplied by. g: one number, or one for each line without reduction.
template <typename A, typename T>
__device__ __forceinline__ A line_share(const T* g, const A* total, A w, int64 number, int reduction) {
  return reduction == 0 ? (A)g[number] * w : reduction == 1 ? (A)g[0] / total[0] * w : (A)g[0] * w;
}

// CROSS: the gradient of cross_entropy from top and logs; else that of nll, which does not look at x, top and logs.
template <typename T, typename I, bool CROSS, bool COLUMNS>
__global__ void class_grad(const T* g, const T* x, const I* target, const wide<T>* weight, const wide<T>* top,
                           const wide<T>* logs, const wide<T>* total, T* dx, int reduction, int64 ignored, int64 outer,
                           int64 n, int64 inner) {
  typedef wide<T> A;
  const Line<COLUMNS> line(outer, n, inner);
  if (!line.valid) return;
  const I t = target[line.number];
  const A w = line_weight<A>(t, weight, n, ignored);
  const A share = (int64)t == ignored ? A(0) : line_share(g, total, w, line.number, reduction);
  const A others = share != share ? share : A(0);
  if constexpr (CROSS) {
    const A highest = top[line.number], log_sum = logs[line.number];
    fill(line, dx, [=](int64 j, A value) {
      const A part = exp(value - highest - log_sum) * share;
      return j == t ? part - share : part;
    }, x);
  } else {
    fill(line, dx, [=](int64 j) { return j == t ? others - share : others; });
  }
}
