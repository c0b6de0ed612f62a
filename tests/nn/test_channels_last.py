"""Channels stay last through layers: strides of results, of gradients, and the numbers themselves."""

import pytest

import gradlib
from gradlib.nn import functional as F
from gradlib.tape.layout import suggested

LAYERS = {
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, size=(3, 5), mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, size=(3, 5), mode="bicubic", antialias=True),
    "area": lambda x: F.interpolate(x, size=(3, 5), mode="area"),
    "avg_pool": lambda x: F.avg_pool2d(x, 2, 1, 1),
    "max_pool": lambda x: F.max_pool2d(x, 2, 1, 1),
    "adaptive_max": lambda x: F.adaptive_max_pool2d(x, 2),
    "lp_pool": lambda x: F.lp_pool2d(x, 2.0, 2),
    "unpool": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    "group_norm": lambda x: F.group_norm(x, 2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: gradlib.channel_shuffle(x, 2),
    "conv": lambda x: F.conv2d(x, gradlib.ones(3, 4, 3, 3)),
    "conv_transpose": lambda x: F.conv_transpose2d(x, gradlib.ones(4, 3, 2, 2)),
    "pad": lambda x: F.pad(x, (1, 2, 3, 0)),
    "replicate": lambda x: F.pad(x, (1, 2, 3, 0), mode="replicate"),
    "cat": lambda x: gradlib.cat([x, x], 1),
    "roll": lambda x: x.roll(1, 2),
    "like": lambda x: x * gradlib.ones_like(x) + 0 * gradlib.rand_like(x),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_layer_keeps_channels_last_and_its_numbers(name):
    layer = LAYERS[name]
    plain = gradlib.randn(2, 4, 6, 4)
    image = plain.to(memory_format=gradlib.channels_last).requires_grad_()
    plain.requires_grad_()
    out, same = layer(image), layer(plain)
    assert out.is_contiguous(memory_format=gradlib.channels_last)
    assert suggested(out._array) is gradlib.channels_last
    assert same.is_contiguous() and suggested(same._array) is None
    gradlib.testing.assert_close(out, same.detach(), check_stride=False)
    out.square().sum().backward()
    same.square().sum().backward()
    assert image.grad.stride() == image.stride()
    gradlib.testing.assert_close(image.grad, plain.grad, check_stride=False)


def test_the_weight_decides_too():
    weight = gradlib.ones(3, 4, 3, 3).to(memory_format=gradlib.channels_last)
    out = F.conv2d(gradlib.ones(2, 4, 6, 4), weight)
    assert out.is_contiguous(memory_format=gradlib.channels_last)


@pytest.mark.parametrize("shape", [(2, 1, 4, 4), (2, 3, 1, 1)])
def test_what_is_both_is_what_its_strides_say(shape):
    x = gradlib.ones(shape)
    assert suggested(x._array) is None
    assert suggested(x.to(memory_format=gradlib.channels_last)._array) is gradlib.channels_last


def test_a_slice_of_channels_and_an_empty_image():
    x = gradlib.ones(2, 4, 3, 3).to(memory_format=gradlib.channels_last)
    assert suggested(x[:, 1:]._array) is gradlib.channels_last
    assert suggested(x[:0]._array) is None
    assert suggested(x[0]._array) is None


@pytest.mark.host  # of NumPy's kernel
def test_the_gradient_of_group_norm_lies_as_its_input_does():
    image = gradlib.randn(2, 4, 6, 4).to(memory_format=gradlib.channels_last).requires_grad_()
    (g,) = gradlib.autograd.grad(F.group_norm(image, 2), image, gradlib.randn(2, 4, 6, 4))
    assert g.stride() == image.stride()
