// Attention without a matrix of probabilities in memory, forward and backward (T. Dao et al., FlashAttention, 2022).
//
//   s = scale * q k^T + mask (-inf where a query may not look)    p = softmax(s)    out = p v    lse = log sum exp(s)
//   p = exp(s - lse)    ds = p * (g v^T - delta), delta = sum(g * out)    dv = p^T g, dq = scale ds k, dk = scale ds^T q
//
// q [batches, length, width], k [batches, keys, width], v [batches, keys, values], out and g [batches, length, values];
// rows and batches lie as Layout says, elements of a row side by side. mask is broadcast to [batches, length, keys] by its
// strides. dq, dk and dv are C-contiguous [batches, rows, width]; lse and delta [batches, length] in wide<T>. A query with
// nothing to look at gets 0 and lse -inf. Backward takes out and lse as forward left them.
//
// A block owns 64 rows (queries in attention and attention_dq, keys in attention_dkv) and goes over the rows of the other
// side 32 at a time: grid (batches, tiles of own rows), Sheet<T>::threads threads. HEAD: 64 or 128, not less than width and
// values. float and double: 4 rows of scores to a thread. Half types: tensor cores, whose operands are read as matrices
// (ldmatrix), sums, probabilities and their gradients in float32; p and ds are rounded to T where they are multiplied with
// a matrix; the next rows of the other side are on their way (cp.async) while the last are worked on, so there are two
// places for them.
// Dynamic shared memory: rows of pitch(width) and pitch(values) elements (the other side's stages times), and 64 rows of
// scores for float and double.
// Cost: 4 * length * keys * width operations forward, 14 backward (half of it with `causal`); q, k, v are read once for
// each 64 rows of the other side. attention_dq writes delta, which attention_dkv reads; no result is added to by several
// blocks, so that the same arguments give the same bits.
#include "common.cuh"
#include "product.cuh"

constexpr int OWN = 64, OTHER = 32;  // rows of a tile of either side

struct Layout {  // strides in elements: batch / inner, batch % inner, row, and column of the mask
  int64 inner, q[3], k[3], v[3], g[3], out[3], mask[4];
  int length, keys, width, values, causal, mask_kind;  // mask_kind: 0 none, 1 bool (true may look), 2 numbers to add
  double scale;
  __device__ __forceinline__ int64 start(const int64* strides, int64 batch) const {
    const int64 outer = batch / inner;
    return outer * strides[0] + (batch - outer * inner) * strides[1];
  }
};

__device__ __forceinline__ int round_up(int n, int to) { return (n + to - 1) / to * to; }

// The tile of queries of this block; causal: the last ones first, since they look at the most keys.
__device__ __forceinline__ int own_tile(const Layout& how) {
  return how.causal ? gridDim.y - 1 - blockIdx.y : blockIdx.y;
}

// How the threads of a block share tiles [64, WIDTH] and multiply them. A thread has `rows` rows, a row `lanes` threads.
template <typename T> struct Sheet {
  static constexpr int threads = 256, rows = 4, lanes = 16, size = Pack<T>::size, quantum = 2 * size, stages = 1;
  static constexpr int scratch = OWN * (OTHER + size);
  static __device__ __forceinline__ int padded(int width) { return round_up(width, quantum); }
  static __device__ __forceinline__ int pitch(int width) { return padded(width) + size; }
  static __device__ __forceinline__ int row(int i) { return threadIdx.x / 16 * 4 + i; }
  static __device__ __forceinline__ int column(int j) { return threadIdx.x % 16 + 16 * j; }  // of scores
  static __device__ __forceinline__ int out_column(int j) { return (j / size * 16 + threadIdx.x % 16) * size + j % size; }
  template <int WIDTH> struct Tile {
    static constexpr int each = WIDTH / 16;
    T value[rows][each];
    __device__ __forceinline__ T& at(int i, int j) { return value[i][j]; }
  };
  // scores += own other^T, over `width` elements of their rows in shared memory.
  static __device__ __forceinline__ void dots(Tile<OTHER>& scores, const T* own, const T* other, int width) {
    const int step = pitch(width);
#pragma unroll 1
    for (int e = 0; e < width; e += size) {
      Pack<T> a[rows], b[OTHER / 16];
#pragma unroll
      for (int i = 0; i < rows; ++i) a[i] = pack_of(own + row(i) * step + e);
#pragma unroll
      for (int j = 0; j < OTHER / 16; ++j) b[j] = pack_of(other + column(j) * step + e);
#pragma unroll
      for (int i = 0; i < rows; ++i)
#pragma unroll
        for (int j = 0; j < OTHER / 16; ++j)
#pragma unroll
          for (int c = 0; c < size; ++c) scores.at(i, j) += a[i].at[c] * b[j].at[c];
    }
  }
  // out += scores other; rows of scores are shared by the lanes of a row through `box`.
  template <int HEAD>
  static __device__ __forceinline__ void mix(Tile<HEAD>& out, Tile<OTHER>& scores, const T* other, int width, T* box) {
    const int step = pitch(width), box_step = OTHER + size;
    __syncwarp();  // an earlier call has been read
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int j = 0; j < OTHER / 16; ++j) box[row(i) * box_step + column(j)] = scores.at(i, j);
    __syncwarp();
#pragma unroll 1
    for (int n = 0; n < OTHER; n += size) {
      Pack<T> p[rows];
#pragma unroll
      for (int i = 0; i < rows; ++i) p[i] = pack_of(box + row(i) * box_step + n);
#pragma unroll
      for (int c = 0; c < size; ++c)
#pragma unroll
        for (int j = 0; j < HEAD / 16; j += size) {
          if (out_column(j) >= width) continue;
          const Pack<T> b = pack_of(other + (n + c) * step + out_column(j));
#pragma unroll
          for (int i = 0; i < rows; ++i)
#pragma unroll
            for (int d = 0; d < size; ++d) out.at(i, j + d) += p[i].at[c] * b.at[d];
        }
    }
  }
};

template <typename T> struct HalfSheet {
  static constexpr int threads = 128, rows = 2, lanes = 4, size = 8, scratch = 0, stages = 2;
  static __device__ __forceinline__ int padded(int width) { return round_up(width, 16); }
  static __device__ __forceinline__ int pitch(int width) { return padded(width) + 8; }
  static __device__ __forceinline__ int row(int i) { return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * i; }
  static __device__ __forceinline__ int column(int j) { return j / 2 * 8 + threadIdx.x % 4 * 2 + j % 2; }
  static __device__ __forceinline__ int out_column(int j) { return column(j); }
  template <int WIDTH> struct Tile {
    static constexpr int each = WIDTH / 4;
    float value[WIDTH / 8][4];
    __device__ __forceinline__ float& at(int i, int j) { return value[j / 2][i * 2 + j % 2]; }
  };
  static __device__ __forceinline__ unsigned two(T low, T high) { return low.bits | (unsigned)high.bits << 16; }
  static __device__ __forceinline__ void dots(Tile<OTHER>& scores, const T* own, const T* other, int width) {
    const int step = pitch(width), lane = threadIdx.x % 32;
    own += (threadIdx.x / 32 * 16 + lane % 16) * step + lane / 16 * 8;
    other += (lane / 16 * 8 + lane % 8) * step + lane / 8 % 2 * 8;
#pragma unroll 1
    for (int e = 0; e < width; e += 16) {
      unsigned a[4];
      load_four<false>(a, own + e);
#pragma unroll
      for (int n = 0; n < OTHER / 8; n += 2) {
        unsigned b[4];
        load_four<false>(b, other + n * 8 * step + e);
        mma<T>(scores.value[n], a, {b[0], b[1]});
        mma<T>(scores.value[n + 1], a, {b[2], b[3]});
      }
    }
  }
  template <int HEAD>
  static __device__ __forceinline__ void mix(Tile<HEAD>& out, Tile<OTHER>& scores, const T* other, int width, T*) {
    const int step = pitch(width), lane = threadIdx.x % 32;
    other += lane % 16 * step + lane / 16 * 8;
#pragma unroll
    for (int m = 0; m < OTHER / 16; ++m) {
      unsigned a[4];  // sums of two products are the left operand of the next as they lie
#pragma unroll
      for (int h = 0; h < 4; ++h) {
        const float* pair = &scores.value[2 * m + h / 2][h % 2 * 2];
        a[h] = two(T(pair[0]), T(pair[1]));
      }
#pragma unroll
      for (int n = 0; n < HEAD / 8; n += 2) {
        if (n * 8 >= width) continue;
        unsigned b[4];
        load_four<true>(b, other + m * 16 * step + n * 8);
        mma<T>(out.value[n], a, {b[0], b[1]});
        mma<T>(out.value[n + 1], a, {b[2], b[3]});
      }
    }
  }
};
template <> struct Sheet<float16> : HalfSheet<float16> {};
template <> struct Sheet<bfloat16> : HalfSheet<bfloat16> {};

// Rows first ... first + count - 1 of a matrix of `all` rows into shared memory; zeros beyond its rows and its width. With
// two stages they may be on their way until `arrived`.
template <typename T>
__device__ __forceinline__ void load(T* target, const T* source, int64 stride, int first, int count, int all, int width) {
  typedef Sheet<T> S;
  const int padded = S::padded(width), step = S::pitch(width);
  if (width == padded && stride % S::size == 0 && (uint64)source % (S::size * sizeof(T)) == 0) {
    const int packs = width / S::size;
#pragma unroll 1
    for (int i = threadIdx.x; i < count * packs; i += S::threads) {
      const int row = i / packs, e = i % packs * S::size;
      const bool inside = first + row < all;
      const T* from = source + (inside ? (first + row) * stride + e : 0);
      if constexpr (S::stages == 2) {
        send(target + row * step + e, from, !inside);
      } else {
        Pack<T> pack;
        for (int c = 0; c < S::size; ++c) pack.at[c] = T(0.0f);
        if (inside) pack = pack_of(from);
        pack_of(target + row * step + e) = pack;
      }
    }
  } else {
#pragma unroll 1
    for (int i = threadIdx.x; i < count * padded; i += S::threads) {
      const int row = i / padded, e = i % padded;
      target[row * step + e] = first + row < all && e < width ? source[(first + row) * stride + e] : T(0.0f);
    }
  }
}

// Two matrices of the other side in shared memory, OTHER rows of each at a time: `one` and `two` are this turn's. With two
// stages those of the next turn are under way while a turn's are used.
template <typename T> struct Feed {
  typedef Sheet<T> S;
  T *memory, *one, *two;
  const T *first, *second;
  int64 first_stride, second_stride;
  int all, width, values, place;
  __device__ __forceinline__ Feed(T* memory, const Layout& how) : memory(memory), width(how.width), values(how.values), place(0) {}
  // What `at` places of rows take.
  __device__ __forceinline__ int elements(int at) const { return at * OTHER * (S::pitch(width) + S::pitch(values)); }
  __device__ __forceinline__ T* end() const { return memory + elements(S::stages); }
  __device__ __forceinline__ void ask(int start, int at) {
    T* target = memory + elements(at);
    load(target, first, first_stride, start, OTHER, all, width);
    load(target + OTHER * S::pitch(width), second, second_stride, start, OTHER, all, values);
    if constexpr (S::stages == 2) sent();
  }
  // The matrices, of `rows` rows, and the first of them that is used.
  __device__ __forceinline__ void begin(const T* a, int64 a_stride, const T* b, int64 b_stride, int rows, int start) {
    first = a, first_stride = a_stride, second = b, second_stride = b_stride, all = rows;
    if constexpr (S::stages == 2) ask(start, 0);
  }
  // Rows from `start` on of all up to `end`. All threads have read the last turn's, and do not see these before a barrier.
  __device__ __forceinline__ void turn(int start, int end) {
    __syncthreads();
    one = memory + elements(place), two = one + OTHER * S::pitch(width);
    if constexpr (S::stages == 1) {
      ask(start, 0);
    } else if (start + OTHER < end) {
      place ^= 1;
      ask(start + OTHER, place);
      arrived<1>();
    } else {
      arrived<0>();
    }
  }
  // Nothing is under way any more, also where there was no turn.
  __device__ __forceinline__ void finish() {
    if constexpr (S::stages == 2) arrived<0>();
  }
};

template <typename V> __device__ __forceinline__ void clear(V& tile, int rows) {
  for (int i = 0; i < rows; ++i)
#pragma unroll
    for (int j = 0; j < V::each; ++j) tile.at(i, j) = 0;
}

// The values of the threads that share a row, combined.
template <int LANES, typename A, typename Op> __device__ __forceinline__ A across(A value, Op op) {
#pragma unroll
  for (int step = LANES / 2; step > 0; step /= 2) value = op(value, __shfl_xor_sync(~0u, value, step));
  return value;
}

// What a score is after scaling and masking.
template <typename T>
__device__ __forceinline__ wide<T> masked(wide<T> score, const Layout& how, const void* mask, int64 start, int query, int key) {
  typedef wide<T> A;
  if (key >= how.keys || query >= how.length || (how.causal && key > query)) return -infinity<A>();
  score *= A(how.scale);
  const int64 place = start + query * how.mask[2] + key * how.mask[3];
  if (how.mask_kind == 1) return static_cast<const bool*>(mask)[place] ? score : -infinity<A>();
  if (how.mask_kind == 2) score += (A)static_cast<const T*>(mask)[place];
  return score;
}

template <typename T, int HEAD>
__global__ void __launch_bounds__(Sheet<T>::threads) attention(const T* q, const T* k, const T* v, const void* mask,
                                                               T* out, wide<T>* lse, Layout how) {
  typedef wide<T> A;
  typedef Sheet<T> S;
  SHARED_MEMORY(T, memory);
  T* own = memory;
  Feed<T> feed(own + OWN * S::pitch(how.width), how);
  T* box = feed.end();
  const int64 batch = blockIdx.x, mask_start = how.start(how.mask, batch);
  const int first = own_tile(how) * OWN, end = how.causal ? min(how.keys, first + OWN) : how.keys;
  q += how.start(how.q, batch), k += how.start(how.k, batch);
  v += how.start(how.v, batch), out += how.start(how.out, batch);
  load(own, q, how.q[2], first, OWN, how.length, how.width);
  feed.begin(k, how.k[2], v, how.v[2], how.keys, 0);

  typename S::template Tile<HEAD> sums;
  clear(sums, S::rows);
  A top[S::rows], total[S::rows];
  for (int i = 0; i < S::rows; ++i) top[i] = -infinity<A>(), total[i] = 0;
  for (int start = 0; start < end; start += OTHER) {
    feed.turn(start, end);
    __syncthreads();
    typename S::template Tile<OTHER> scores;
    clear(scores, S::rows);
    S::dots(scores, own, feed.one, how.width);
#pragma unroll
    for (int i = 0; i < S::rows; ++i) {
      A largest = top[i], part = 0;
#pragma unroll
      for (int j = 0; j < scores.each; ++j) {
        A& score = scores.at(i, j);
        score = masked<T>(score, how, mask, mask_start, first + S::row(i), start + S::column(j));
        largest = larger(largest, score);
      }
      largest = across<S::lanes>(largest, Larger());
      const A centre = largest == -infinity<A>() ? A(0) : largest;
#pragma unroll
      for (int j = 0; j < scores.each; ++j) part += scores.at(i, j) = exp(scores.at(i, j) - centre);
      const A factor = exp(top[i] - centre);
      total[i] = total[i] * factor + across<S::lanes>(part, Add());
      top[i] = largest;
#pragma unroll
      for (int j = 0; j < sums.each; ++j) sums.at(i, j) *= factor;
    }
    S::mix(sums, scores, feed.two, how.values, box);
  }
  feed.finish();
#pragma unroll
  for (int i = 0; i < S::rows; ++i) {
    const int row = first + S::row(i);
    if (row >= how.length) continue;
    const int64 place = batch * how.length + row;
    const A factor = total[i] == 0 ? A(0) : A(1) / total[i];
#pragma unroll
    for (int j = 0; j < sums.each; ++j)
      if (S::out_column(j) < how.values) out[row * how.out[2] + S::out_column(j)] = T(sums.at(i, j) * factor);
    if (threadIdx.x % S::lanes == 0) lse[place] = total[i] == 0 ? -infinity<A>() : log(total[i]) + top[i];
  }
}

template <typename A> __device__ __forceinline__ A probability(A score, A lse) {
  return lse == -infinity<A>() ? A(0) : exp(score - lse);
}

template <typename T, int HEAD>
__global__ void __launch_bounds__(Sheet<T>::threads) attention_dq(const T* q, const T* k, const T* v, const void* mask,
                                                                  const T* g, const T* out, const wide<T>* lse,
                                                                  wide<T>* delta, T* dq, Layout how) {
  typedef wide<T> A;
  typedef Sheet<T> S;
  SHARED_MEMORY(T, memory);
  T* own = memory;
  T* own_g = own + OWN * S::pitch(how.width);
  Feed<T> feed(own_g + OWN * S::pitch(how.values), how);
  T* box = feed.end();
  const int64 batch = blockIdx.x, mask_start = how.start(how.mask, batch);
  const int first = own_tile(how) * OWN, end = how.causal ? min(how.keys, first + OWN) : how.keys;
  q += how.start(how.q, batch), k += how.start(how.k, batch);
  v += how.start(how.v, batch), g += how.start(how.g, batch), out += how.start(how.out, batch);

  A own_delta[S::rows], own_lse[S::rows];
#pragma unroll
  for (int i = 0; i < S::rows; ++i) {
    const int row = first + S::row(i);
    const int64 place = batch * how.length + row;
    A sum = 0;
    if (row < how.length)
      for (int e = threadIdx.x % S::lanes; e < how.values; e += S::lanes)
        sum += (A)g[row * how.g[2] + e] * (A)out[row * how.out[2] + e];
    own_delta[i] = across<S::lanes>(sum, Add());
    own_lse[i] = row < how.length ? lse[place] : A(0);
    if (row < how.length && threadIdx.x % S::lanes == 0) delta[place] = own_delta[i];
  }
  if (dq == nullptr) return;  // only delta is wanted
  load(own, q, how.q[2], first, OWN, how.length, how.width);
  load(own_g, g, how.g[2], first, OWN, how.length, how.values);
  feed.begin(k, how.k[2], v, how.v[2], how.keys, 0);

  typename S::template Tile<HEAD> sums;
  clear(sums, S::rows);
  for (int start = 0; start < end; start += OTHER) {
    feed.turn(start, end);
    __syncthreads();
    typename S::template Tile<OTHER> scores, slopes;
    clear(scores, S::rows);
    clear(slopes, S::rows);
    S::dots(scores, own, feed.one, how.width);
    S::dots(slopes, own_g, feed.two, how.values);
#pragma unroll
    for (int i = 0; i < S::rows; ++i)
#pragma unroll
      for (int j = 0; j < scores.each; ++j) {
        const A score = masked<T>(scores.at(i, j), how, mask, mask_start, first + S::row(i), start + S::column(j));
        scores.at(i, j) = probability(score, own_lse[i]) * (slopes.at(i, j) - own_delta[i]);
      }
    S::mix(sums, scores, feed.one, how.width, box);
  }
  feed.finish();
#pragma unroll
  for (int i = 0; i < S::rows; ++i) {
    const int row = first + S::row(i);
    if (row >= how.length) continue;
#pragma unroll
    for (int j = 0; j < sums.each; ++j)
      if (S::out_column(j) < how.width)
        dq[(batch * how.length + row) * how.width + S::out_column(j)] = T(sums.at(i, j) * A(how.scale));
  }
}

template <typename T, int HEAD>
__global__ void __launch_bounds__(Sheet<T>::threads) attention_dkv(const T* q, const T* k, const T* v, const void* mask,
                                                                   const T* g, const wide<T>* lse, const wide<T>* delta,
                                                                   T* dk, T* dv, Layout how) {
  typedef wide<T> A;
  typedef Sheet<T> S;
  SHARED_MEMORY(T, memory);
  T* own = memory;
  T* own_values = own + OWN * S::pitch(how.width);
  Feed<T> feed(own_values + OWN * S::pitch(how.values), how);
  T* box = feed.end();
  __shared__ A other_lse[OTHER], other_delta[OTHER];
  const int64 batch = blockIdx.x, mask_start = how.start(how.mask, batch);
  const int first = blockIdx.y * OWN, begin = how.causal ? first : 0;  // earlier queries do not look here
  q += how.start(how.q, batch), k += how.start(how.k, batch);
  v += how.start(how.v, batch), g += how.start(how.g, batch);
  load(own, k, how.k[2], first, OWN, how.keys, how.width);
  load(own_values, v, how.v[2], first, OWN, how.keys, how.values);
  feed.begin(q, how.q[2], g, how.g[2], how.length, begin);

  typename S::template Tile<HEAD> k_sums, v_sums;
  clear(k_sums, S::rows);
  clear(v_sums, S::rows);
  for (int start = begin; start < how.length; start += OTHER) {
    feed.turn(start, how.length);
    if (threadIdx.x < OTHER) {
      const int64 place = batch * how.length + start + threadIdx.x;
      const bool inside = start + threadIdx.x < how.length;
      other_lse[threadIdx.x] = inside ? lse[place] : A(0);
      other_delta[threadIdx.x] = inside ? delta[place] : A(0);
    }
    __syncthreads();
    typename S::template Tile<OTHER> scores, slopes;
    clear(scores, S::rows);
    clear(slopes, S::rows);
    S::dots(scores, own, feed.one, how.width);
    S::dots(slopes, own_values, feed.two, how.values);
#pragma unroll
    for (int i = 0; i < S::rows; ++i)
#pragma unroll
      for (int j = 0; j < scores.each; ++j) {
        const int query = S::column(j);
        const A score = masked<T>(scores.at(i, j), how, mask, mask_start, start + query, first + S::row(i));
        scores.at(i, j) = probability(score, other_lse[query]);
        slopes.at(i, j) = scores.at(i, j) * (slopes.at(i, j) - other_delta[query]);
      }
    S::mix(v_sums, scores, feed.two, how.values, box);
    S::mix(k_sums, slopes, feed.one, how.width, box);
  }
  feed.finish();
#pragma unroll
  for (int i = 0; i < S::rows; ++i) {
    const int row = first + S::row(i);
    if (row >= how.keys) continue;
    const int64 place = batch * how.keys + row;
#pragma unroll
    for (int j = 0; j < k_sums.each; ++j) {
      const int column = S::out_column(j);
      if (dk && column < how.width) dk[place * how.width + column] = T(k_sums.at(i, j) * A(how.scale));
      if (dv && column < how.values) dv[place * how.values + column] = T(v_sums.at(i, j));
    }
  }
}
