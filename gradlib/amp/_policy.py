"""Which operations autocast runs in which dtype, by device type, as PyTorch documents it.

Names are those of ops (`core.op.REGISTRY`); several ops may stand for one documented function. What is in no list
runs in the dtypes it is given.
"""

from __future__ import annotations

LOWER, FLOAT32, WIDEST, REFUSED = 1, 2, 3, 4

_PRODUCTS = (
    "mm matmul bmm addmm addbmm baddbmm linear einsum convolution conv_transpose prelu_kernel "
    "scaled_dot_product_attention_op"
)
_LOSSES = (
    "mse_loss_op nll_loss_op cross_entropy_op smooth_l1_loss_op huber_loss_op soft_margin_loss_op "
    "binary_cross_entropy_with_logits_op"
)
_CUDA_FLOAT32 = (
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow_number pow_tensors softplus "
    "native_layer_norm native_group_norm fused_rms_norm cdist logsumexp prod prod_all softmax log_softmax cumprod "
    "cumsum vector_norm sum sum_all upsample_linear upsample_bilinear upsample_bicubic upsample_trilinear "
    "upsample_bilinear_aa upsample_bicubic_aa ctc_loss_op"
)
_CPU_FLOAT32 = (
    "prod prod_all avg_pool3d_op max_pool3d_op adaptive_avg_pool3d_op max_unpool pad_lines cdist trace polar complex "
    "view_as_complex binary_cross_entropy_op ctc_loss_op fft_c2c fft_c2r fft_r2c cholesky_inverse cholesky_solve "
    "linalg_cholesky linalg_eig linalg_eigh linalg_inv linalg_ldl_factor linalg_ldl_solve linalg_lu_factor "
    "linalg_matrix_exp linalg_pinv linalg_qr linalg_solve linalg_solve_triangular linalg_svd triangular_solve "
    "geqrf"
)

POLICY: dict[str, dict[str, int]] = {
    "cuda": {
        **dict.fromkeys(f"{_PRODUCTS} mv addmv addr".split(), LOWER),
        **dict.fromkeys(f"{_CUDA_FLOAT32} {_LOSSES}".split(), FLOAT32),
        **dict.fromkeys(
            "addcdiv addcmul atan2 dot vdot linalg_cross index_put scatter_add cat stack".split(),
            WIDEST,
        ),
        "binary_cross_entropy_op": REFUSED,
    },
    "cpu": {
        **dict.fromkeys(_PRODUCTS.split(), LOWER),
        **dict.fromkeys(f"{_CPU_FLOAT32} {_LOSSES}".split(), FLOAT32),
        **dict.fromkeys("cat stack index_copy".split(), WIDEST),
    },
}

# Functions made of several ops that are in a list as a whole: device type -> names (in gradlib.nn.functional, gradlib
# or gradlib.linalg) and policy.
_LOSS_FUNCTIONS = (
    "l1_loss kl_div poisson_nll_loss hinge_embedding_loss margin_ranking_loss cosine_embedding_loss "
    "triplet_margin_loss multi_margin_loss multilabel_margin_loss"
)
FUNCTIONS: dict[str, list[tuple[str, int]]] = {
    "cuda": [(f"{_LOSS_FUNCTIONS} cosine_similarity norm dist renorm", FLOAT32), ("vecdot", LOWER)],
    "cpu": [
        (
            f"{_LOSS_FUNCTIONS} adaptive_avg_pool3d grid_sample grid_sampler stft lstsq lu_solve",
            FLOAT32,
        ),
        ("vecdot", LOWER),
    ],
}
