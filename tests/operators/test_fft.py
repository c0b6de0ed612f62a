"""Fourier transforms, window functions, short-time transforms: against NumPy's and their own definitions."""

import math
import warnings

import numpy as np
import pytest

import gradlib as torch
from gradlib.autograd import gradcheck, gradgradcheck

rng = np.random.default_rng(4)
ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
COMPLEX_RESULT = {"fft", "ifft", "rfft", "ihfft"}


def real(*shape, grad=False):
    return torch.from_numpy(rng.normal(size=shape)).requires_grad_(grad)


def spectrum(*shape, grad=False):
    parts = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return torch.from_numpy(parts).requires_grad_(grad)


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 3, 9])
@pytest.mark.parametrize("name", ONE)
def test_one_dimension_equals_numpy(name, n, norm):
    x = real(5, 6)
    out = getattr(torch.fft, name)(x, n, 0, norm)
    wanted = getattr(np.fft, name)(x.numpy(), n, 0, norm)
    np.testing.assert_allclose(out.resolve_conj().numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_several_dimensions_equal_numpy(name):
    x = real(2, 5, 6)
    for s, dim in ((None, (0, 2)), ((4, 3), (2, 0)), ((4, 3), None)):
        out = getattr(torch.fft, name)(x, s, dim)
        axes = (1, 2) if dim is None else dim
        wanted = getattr(np.fft, name)(x.numpy(), s, axes)
        np.testing.assert_allclose(out.numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize(("name", "inverse"), [("hfftn", "ihfftn"), ("hfft2", "ihfft2")])
def test_hermitian_forms_are_inverse_to_each_other(name, inverse):
    signal = real(4, 6)
    half = getattr(torch.fft, inverse)(signal)
    assert half.shape == (4, 4) and half.is_complex()
    back = getattr(torch.fft, name)(half, (4, 6))
    np.testing.assert_allclose(back.numpy(), signal.numpy(), atol=1e-12)


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "complex64"])
@pytest.mark.parametrize("name", ONE)
def test_dtypes(name, kind):
    if kind == "complex64" and name in ("rfft", "ihfft"):
        return
    x = torch.ones(4, dtype=getattr(torch, kind))
    double = kind == "float64"
    out = getattr(torch.fft, name)(x)
    if name in COMPLEX_RESULT:
        assert out.dtype is (torch.complex128 if double else torch.complex64)
    else:
        assert out.dtype is (torch.float64 if double else torch.float32)


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: torch.fft.fft(x, 3), spectrum(4, grad=True)),
        (lambda x: torch.fft.ifft(x, 6, 0, "ortho"), real(4, 2, grad=True)),
        (lambda x: torch.fft.rfft2(x, (5, 4)), real(3, 4, grad=True)),
        (lambda x: torch.fft.irfftn(x, (3, 5)), spectrum(2, 3, 3, grad=True)),
        (lambda x: torch.fft.hfft(x, 5), spectrum(4, grad=True)),
        (lambda x: torch.fft.ihfft2(x, norm="forward"), real(3, 4, grad=True)),
        (lambda x: torch.fft.fftshift(x, 0), real(3, 4, grad=True)),
    ],
    ids=["fft", "ifft", "rfft2", "irfftn", "hfft", "ihfft2", "fftshift"],
)
def test_derivatives(function, x):
    # rows: GC-19 FWD-09
    assert gradcheck(function, (x,), check_forward_ad=True)
    assert gradgradcheck(function, (x,))


def test_node_names_and_saved_values():
    node = torch.fft.rfft(real(4, grad=True)).grad_fn
    assert node.name() == "FftR2CBackward0" and node._saved_dim == (0,)
    assert torch.fft.irfft(real(4, grad=True)).grad_fn.name() == "FftC2RBackward0"
    assert torch.fft.fft(spectrum(4, grad=True)).grad_fn.name() == "FftC2CBackward0"


def test_empty_batch_gives_an_empty_result():
    assert torch.fft.rfft(torch.zeros(0, 6)).shape == (0, 4)
    assert torch.fft.irfft(torch.zeros(0, 4)).shape == (0, 6)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda x: torch.fft.fft(x, 0), RuntimeError, r"Invalid number of data points \(0\) specified"),
        (lambda x: torch.fft.fft(x, norm="x"), RuntimeError, 'Invalid normalization mode: "x"'),
        (lambda x: torch.fft.fft(x.half()), RuntimeError, "Unsupported dtype Half"),
        (lambda x: torch.fft.rfft(x + 0j), RuntimeError, "rfft expects a real input tensor, but got ComplexDouble"),
        (lambda x: torch.fft.fft(x, dim=3), IndexError, "Dimension out of range"),
        (lambda x: torch.fft.fftn(x, dim=(0, 0)), RuntimeError, "FFT dims must be unique"),
        (lambda x: torch.fft.fft2(x, dim=None), TypeError, "must be tuple of ints, not NoneType"),
        (lambda x: torch.fft.fft(x, n=2.5), TypeError, r"fft_fft\(\): argument 'n' must be int, not float"),
        (lambda x: torch.fft.rfft(x, out=torch.zeros(0)), RuntimeError, "rfft expects a complex output tensor"),
    ],
)  # fmt: skip
def test_bad_arguments(call, kind, text):
    with pytest.raises(kind, match=text):
        call(real(4, 4))


def test_frequencies():
    assert torch.fft.fftfreq(5, 0.5).tolist() == pytest.approx([0, 0.4, 0.8, -0.8, -0.4])
    assert torch.fft.rfftfreq(4, dtype=torch.float64).tolist() == [0, 0.25, 0.5]
    order = torch.fft.fftshift(torch.fft.fftfreq(4, 0.25))
    assert order.tolist() == [-2, -1, 0, 1]
    assert torch.fft.ifftshift(order).tolist() == [0, 1, -2, -1]


# -- windows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 7, 8])
@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann"])
def test_windows_equal_numpys(name, n):
    wanted = (np.hanning if name == "hann" else getattr(np, name))(n)
    window = getattr(torch.signal.windows, name)(n, dtype=torch.float64)
    np.testing.assert_allclose(window.numpy(), wanted, atol=1e-12)
    older = getattr(torch, name + "_window")(n, periodic=False, dtype=torch.float64)
    np.testing.assert_allclose(older.numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann", "kaiser"])
def test_periodic_windows_are_symmetric_ones_without_their_last_point(name):
    older = getattr(torch, name + "_window")
    assert torch.allclose(older(6), older(7, periodic=False)[:6])
    window = getattr(torch.signal.windows, name)
    assert torch.allclose(window(6, sym=False), window(7)[:6])


def test_other_windows():
    windows = torch.signal.windows
    np.testing.assert_allclose(windows.kaiser(5, beta=3.0).numpy(), np.kaiser(5, 3.0), rtol=1e-6)
    assert windows.gaussian(3, std=2.0).tolist() == pytest.approx(
        [math.exp(-0.125), 1, math.exp(-0.125)]
    )
    assert windows.exponential(3, tau=2.0).tolist() == pytest.approx(
        [math.exp(-0.5), 1, math.exp(-0.5)]
    )
    assert windows.cosine(2).tolist() == pytest.approx([math.sqrt(0.5)] * 2)
    assert windows.general_cosine(3, a=(0.5, 0.25, 0.25)).tolist() == pytest.approx([0.5, 1, 0.5])
    assert windows.nuttall(5)[2].item() == pytest.approx(1)
    assert windows.hann(4, requires_grad=True).requires_grad


def test_windows_refuse_what_they_cannot_be():
    windows = torch.signal.windows
    with pytest.raises(ValueError, match="general_cosine requires non-negative"):
        windows.hann(-1)
    with pytest.raises(ValueError, match="bartlett expects float32 or float64 dtypes"):
        windows.bartlett(4, dtype=torch.float16)
    with pytest.raises(ValueError, match="Tau must be positive"):
        windows.exponential(4, tau=0)
    with pytest.raises(RuntimeError, match="hann_window requires non-negative window_length"):
        torch.hann_window(-1)
    with pytest.raises(TypeError, match="must be int, not float"):
        torch.hann_window(2.5)


# -- short-time transforms ---------------------------------------------------------------------------------------


def test_stft_is_the_transform_of_windowed_pieces():
    x, window = real(20), torch.hann_window(8, dtype=torch.float64)
    out = torch.stft(x, 8, 3, window=window, center=False, return_complex=True)
    pieces = np.stack([x.numpy()[k : k + 8] * window.numpy() for k in range(0, 13, 3)])
    np.testing.assert_allclose(out.numpy(), np.fft.rfft(pieces).T, atol=1e-12)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("center", [False, True])
def test_istft_inverts_stft(center, normalized):
    x, window = real(2, 40), torch.hamming_window(8, dtype=torch.float64)
    options = {"hop_length": 2, "window": window, "center": center, "normalized": normalized}
    transform = torch.stft(x, 8, return_complex=True, **options)
    back = torch.istft(transform, 8, length=40, **options)
    np.testing.assert_allclose(back.numpy(), x.numpy(), atol=1e-10)


def test_stft_and_istft_have_derivatives_also_of_the_window():
    window = torch.hann_window(4, dtype=torch.float64) + 0.1
    window = window.detach().requires_grad_()
    assert gradcheck(
        lambda x, w: torch.stft(x, 4, window=w, return_complex=True),
        (real(9, grad=True), window),
        check_forward_ad=True,
    )
    assert gradcheck(
        lambda s, w: torch.istft(s, 4, window=w),
        (spectrum(3, 6, grad=True), window),
        check_forward_ad=True,
    )


def test_stft_says_what_does_not_fit():
    x = real(16)
    with pytest.raises(RuntimeError, match="stft requires the return_complex parameter"):
        torch.stft(x, 8)
    with pytest.raises(RuntimeError, match="expected 0 < n_fft < 16, but got n_fft=40"):
        torch.stft(x, 40, center=False, return_complex=True)
    with pytest.raises(RuntimeError, match="window overlap add min: 1"):
        torch.istft(spectrum(5, 4), 8, 8, window=torch.hann_window(8))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert torch.istft(spectrum(5, 9), 8, 2, length=30).shape == (30,)
    assert "shorter than the length parameter" in str(caught[0].message)
