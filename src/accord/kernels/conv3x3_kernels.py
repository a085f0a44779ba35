"""Triton kernels of the 3×3 convolutions of few channels.

Images lie with their channels last; `conv3x3` says what is computed, and launches them.
"""

# Triton may be missing, so that its types are variables:
# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from accord.kernels._triton import jit, tl


@jit
def _tap(
    ptr, pixel, row, column, live, DOWN: tl.constexpr, RIGHT: tl.constexpr,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """The channels of each pixel's neighbour, zero outside the image: [pixels, C]."""
    down, right = row + DOWN, column + RIGHT
    mask = live & (down >= 0) & (down < H) & (right >= 0) & (right < W)
    at = pixel + (DOWN * W + RIGHT)
    return tl.load(ptr + (at[:, None] * C + tl.arange(0, C)[None, :]), mask=mask[:, None], other=0.0)


@jit
def _taps(
    ptr, pixel, row, column, live, DOWN: tl.constexpr,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """The left neighbour, the one between and the right one, in the row `DOWN` below."""
    left = _tap(ptr, pixel, row, column, live, DOWN, -1, C, H, W)
    middle = _tap(ptr, pixel, row, column, live, DOWN, 0, C, H, W)
    right = _tap(ptr, pixel, row, column, live, DOWN, 1, C, H, W)
    return left, middle, right


@jit
def _beside(ptr, pixel, column, live, C: tl.constexpr, W: tl.constexpr):
    """Left neighbour, pixel, right neighbour and zeros, side by side: [pixels, 4 C].

    The three lie one after another in memory, so a row of the block is one run of it.
    """
    lane = tl.arange(0, 4 * C)
    at = column[:, None] + (lane // C - 1)[None, :]
    mask = live[:, None] & (at >= 0) & (at < W) & (lane < 3 * C)[None, :]
    return tl.load(ptr + ((pixel - 1)[:, None] * C + lane[None, :]), mask=mask, other=0.0)


@jit
def _stacked(ptr, pixel, row, live, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr):
    """Lower neighbour, pixel, upper neighbour and zeros, side by side: [pixels, 4 C]."""
    lane = tl.arange(0, 4 * C)
    down = 1 - lane // C
    at = row[:, None] + down[None, :]
    mask = live[:, None] & (at >= 0) & (at < H) & (lane < 3 * C)[None, :]
    offset = (pixel[:, None] + (down * W)[None, :]) * C + (lane % C)[None, :]
    return tl.load(ptr + offset, mask=mask, other=0.0)


@jit
def _weights(
    ptr, out, KH: tl.constexpr, KW: tl.constexpr, C: tl.constexpr,
    S_IN: tl.constexpr, S_OUT: tl.constexpr, S_H: tl.constexpr, S_W: tl.constexpr, FLIP: tl.constexpr,
):  # fmt: skip
    """The weights of one tap: [C, out]."""
    base = (2 - KH) * S_H + (2 - KW) * S_W if FLIP else KH * S_H + KW * S_W
    return tl.load(ptr + (base + tl.arange(0, C)[:, None] * S_IN + out[None, :] * S_OUT))


@jit
def _weights_beside(
    ptr, out, KH: tl.constexpr, C: tl.constexpr,
    S_IN: tl.constexpr, S_OUT: tl.constexpr, S_H: tl.constexpr, S_W: tl.constexpr, FLIP: tl.constexpr,
):  # fmt: skip
    """The weights of a row of taps, and zeros, one below another: [4 C, out]."""
    lane = tl.arange(0, 4 * C)
    kw = 2 - lane // C if FLIP else lane // C
    base = (2 - KH) * S_H if FLIP else KH * S_H
    offset = base + (kw * S_W + (lane % C) * S_IN)[:, None] + out[None, :] * S_OUT
    # The padding must be read as zero: what lies there could be a NaN, and NaN × 0 is not zero.
    return tl.load(ptr + offset, mask=(lane < 3 * C)[:, None], other=0.0)


@jit
def conv_kernel(
    x, w, y, total,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, O: tl.constexpr,  # noqa: E741
    S_IN: tl.constexpr, S_OUT: tl.constexpr, S_H: tl.constexpr, S_W: tl.constexpr, FLIP: tl.constexpr,
    BLOCK: tl.constexpr, OUT: tl.constexpr, FUSE: tl.constexpr,
):  # fmt: skip
    """A block of pixels and a block of output channels of the convolution; `total` counts the pixels."""
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = pixel < total
    row, column = (pixel // W) % H, pixel % W
    out = tl.program_id(1) * OUT + tl.arange(0, OUT)
    acc = tl.zeros((BLOCK, OUT), tl.float32)
    # Reads come before products: the compiler moves no read across the barriers that a product brings.
    if FUSE:
        a0 = _beside(x, pixel - W, column, live & (row > 0), C, W)
        a1 = _beside(x, pixel, column, live, C, W)
        a2 = _beside(x, pixel + W, column, live & (row < H - 1), C, W)
        b0 = _weights_beside(w, out, 0, C, S_IN, S_OUT, S_H, S_W, FLIP)
        b1 = _weights_beside(w, out, 1, C, S_IN, S_OUT, S_H, S_W, FLIP)
        b2 = _weights_beside(w, out, 2, C, S_IN, S_OUT, S_H, S_W, FLIP)
        acc = tl.dot(a0, b0, acc, input_precision="ieee")
        acc = tl.dot(a1, b1, acc, input_precision="ieee")
        acc = tl.dot(a2, b2, acc, input_precision="ieee")
    else:
        a0, a1, a2 = _taps(x, pixel, row, column, live, -1, C, H, W)
        for kh in tl.static_range(3):
            b0 = _weights(w, out, kh, 0, C, S_IN, S_OUT, S_H, S_W, FLIP)
            b1 = _weights(w, out, kh, 1, C, S_IN, S_OUT, S_H, S_W, FLIP)
            b2 = _weights(w, out, kh, 2, C, S_IN, S_OUT, S_H, S_W, FLIP)
            c0, c1, c2 = a0, a1, a2
            if kh < 2:  # the next row is on its way while this one is multiplied
                a0, a1, a2 = _taps(x, pixel, row, column, live, kh, C, H, W)
            acc = tl.dot(c0, b0, acc, input_precision="ieee")
            acc = tl.dot(c1, b1, acc, input_precision="ieee")
            acc = tl.dot(c2, b2, acc, input_precision="ieee")
    tl.store(y + (pixel[:, None] * O + out[None, :]), acc.to(y.dtype.element_ty), mask=live[:, None])


@jit
def _grad_tile(grad, pixel, kh, live, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, ROWS: tl.constexpr):
    """The output's gradient, a row up or down by `kh`: [pixels, C], or [pixels, 4 C] for the three rows."""
    row = (pixel // W) % H
    if ROWS:
        return _stacked(grad, pixel, row, live, C, H, W)
    else:
        at = row + 1 - kh
        offset = (pixel + (1 - kh) * W)[:, None] * C + tl.arange(0, C)[None, :]
        return tl.load(grad + offset, mask=(live & (at >= 0) & (at < H))[:, None], other=0.0)


@jit
def _input_tile(x, pixel, kw, live, C: tl.constexpr, W: tl.constexpr, COLUMNS: tl.constexpr):
    """The input, a column left or right by `kw`: [pixels, C], or [pixels, 4 C] for the three columns."""
    column = pixel % W
    if COLUMNS:
        return _beside(x, pixel, column, live, C, W)
    else:
        at = column + kw - 1
        offset = (pixel + kw - 1)[:, None] * C + tl.arange(0, C)[None, :]
        return tl.load(x + offset, mask=(live & (at >= 0) & (at < W))[:, None], other=0.0)


@jit
def _tiles(
    grad, x, pixel, end, kh, kw,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, O: tl.constexpr,  # noqa: E741
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The two tiles whose product is a block's share of the weight gradient."""
    live = pixel < end
    a = _grad_tile(grad, pixel, kh, live, O, H, W, ROWS)
    b = _input_tile(x, pixel, kw, live, C, W, COLUMNS)
    return a, b


@jit
def weight_kernel(
    grad, x, part, total,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, O: tl.constexpr,  # noqa: E741
    STEPS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """A program's share of the weight gradient, laid out as the weights are in channels-last memory.

    The weight at (kh, kw) meets the input at a pixel's column + kw - 1 and the output's gradient at its row
    + 1 - kh: shifting the one along columns and the other along rows takes all nine taps in one product.
    `total` counts the pixels.
    """
    M: tl.constexpr = 4 * O if ROWS else O
    N: tl.constexpr = 4 * C if COLUMNS else C
    kh, kw = tl.program_id(1), tl.program_id(2)
    first = tl.program_id(0) * (STEPS * BLOCK)
    end = tl.minimum(first + STEPS * BLOCK, total)
    pixel = first + tl.arange(0, BLOCK)
    acc = tl.zeros((M, N), tl.float32)
    if AHEAD:
        a, b = _tiles(grad, x, pixel, end, kh, kw, H, W, C, O, ROWS, COLUMNS)
        for _ in range(STEPS):
            pixel += BLOCK
            next_a, next_b = _tiles(grad, x, pixel, end, kh, kw, H, W, C, O, ROWS, COLUMNS)
            acc = tl.dot(tl.trans(a), b, acc, input_precision="ieee")
            a, b = next_a, next_b
    else:
        for _ in range(STEPS):
            a, b = _tiles(grad, x, pixel, end, kh, kw, H, W, C, O, ROWS, COLUMNS)
            acc = tl.dot(tl.trans(a), b, acc, input_precision="ieee")
            pixel += BLOCK
    m, n = tl.arange(0, M), tl.arange(0, N)
    # A row of the product is (kh, o), a column (kw, c); without fusion the program's own tap comes instead.
    m_offset = (m % O) * (9 * C) + (m // O if ROWS else kh) * (3 * C)
    n_offset = n if COLUMNS else kw * C + n
    mask = (m < 3 * O)[:, None] & (n < 3 * C)[None, :]
    base = part + tl.program_id(0) * (9 * C * O)
    tl.store(base + (m_offset[:, None] + n_offset[None, :]), acc, mask=mask)


@jit
def sum_kernel(part, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sums over rows, in an order fixed by the block's shape."""
    row = tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    mask = (row < rows)[:, None] & (column < columns)[None, :]
    block = tl.load(part + (row[:, None] * columns + column[None, :]), mask=mask, other=0.0)
    tl.store(out + column, tl.sum(block, 0).to(out.dtype.element_ty), mask=column < columns)
