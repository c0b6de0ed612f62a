"""Every operation, declared once, by family. Importing this package declares them all."""

from ..tape import handed
from . import (
    facts,
    methods,
    other_layouts,
    removed,
    written,
)
from .create import data, filled, interchange, ranges, strided
from .elementwise import (
    absolute,
    activation,
    arithmetic,
    cast,
    clamp,
    compare,
    complex,
    conjugate,
    floats,
    gelu,
    piecewise,
    python_operators,
    rounding,
    ternary,
    transcendental,
    where,
)
from .fft import frequencies, stft, transforms, window_functions
from .index import fill, gather, getitem, index_dim, scatter, search, setitem, take_put
from .linalg import (
    addmm,
    base,
    cholesky,
    decompose,
    einsum,
    householder,
    ldl,
    linear,
    lowrank,
    lstsq,
    lu,
    matmul,
    matrix_functions,
    matrix_norm,
    norms,
    products,
    solve,
    tensor_equations,
    triangular,
)
from .nn import (
    attention,
    batch_norm,
    binary_cross_entropy,
    conv,
    cross_entropy,
    ctc_loss,
    distribution_loss,
    dropout,
    embedding,
    grid,
    interpolate,
    layer_norm,
    margin_loss,
    max_unpool,
    multihead,
    normalization,
    pool,
    pool_adaptive,
    pool_average,
    pool_fractional,
    recurrent,
    recurrent_layers,
    regression_loss,
    softmax,
    vision,
)
from .random import discrete, implicit, integers, samplers, uniform_normal
from .reduce import (
    covariance,
    differences,
    extrema,
    histogram,
    logical,
    moments,
    norm,
    order,
    scan,
    sort,
    sums,
)
from .shape import (
    arrange,
    as_strided,
    atleast,
    copies,
    dims,
    expand,
    join,
    pad,
    repeat,
    reshape,
    slicing,
    split,
    triangles,
    view_scatter,
)
from .sparse import make
from .sparse import methods as sparse_methods
from .special import bessel, erf, gamma

written.publish()
handed.later("gradlib.operators.batching", "batching_rule")
