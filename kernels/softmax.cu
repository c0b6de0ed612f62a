// softmax and log_softmax along one dimension, forward and backward.
//
//   softmax:      y = exp(x - m) / s        dx = y * (g - sum(g * y))
//   log_softmax:  y = x - m - log(s)        dx = g - exp(y) * sum(g)        m = max(x), s = sum(exp(x - m))
//
// Arrays are C-contiguous [outer, n, inner], reduced over n; launch sizes as Line asks for. Storage type T, computed in
// wide<T>. Cost: forward reads x twice (the second time from cache as a rule) and writes y; backward the same with g, y.
#include "common.cuh"
#include "exponentials.cuh"

template <typename T, bool LOG, bool COLUMNS>
__global__ void softmax(const T* x, T* y, int64 outer, int64 n, int64 inner) {
  typedef wide<T> A;
  const Line<COLUMNS> line(outer, n, inner);
  if (!line.valid) return;
  const Exponentials<A> e = exponentials<A>(x, line);
  const A last = LOG ? log(e.sum) : A(1) / e.sum;
  fill(line, y, [=](int64, A value) {
    const A centred = value - e.top;
    return LOG ? centred - last : exp(centred) * last;
  }, x);
}

template <typename T, bool LOG, bool COLUMNS>
__global__ void softmax_grad(const T* g, const T* y, T* dx, int64 outer, int64 n, int64 inner) {
  typedef wide<T> A;
  const Line<COLUMNS> line(outer, n, inner);
  if (!line.valid) return;
  A total = 0;
  visit<T>(line, [&](int64, A gj, A yj) { total += LOG ? gj : gj * yj; }, g, y);
  total = line.sum(total);
  fill(line, dx, [=](int64, A gj, A yj) { return LOG ? gj - exp(yj) * total : yj * (gj - total); }, g, y);
}
