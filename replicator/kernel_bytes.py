"""What kernels do with many bytes at once: pieces of machine code that numba's own language has no words for.

Bounds are the caller's business.  Numba does not notice a change of this file; `make kernels` does, and deletes the
cached kernels.
"""

# ruff: noqa: ANN001, ANN201, ARG001 - what is named in the arguments' types is what is compiled
from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic

_OCTETS = ir.IntType(8).as_pointer()
_8, _64, _128 = ir.IntType(8), ir.IntType(64), ir.IntType(128)
_PAIR = ir.VectorType(_64, 2)
# https://www.intel.com/content/dam/www/public/us/en/documents/white-papers/fast-crc-computation-generic-polynomial-pclmulqdq-paper.pdf,
# for CRC-32 with its bits reversed: what folds 16 bytes onto the next 16, 8 bytes onto 4, and what is left to the
# remainder.
_FOLD, _FOLD_LAST, _REDUCE = (0x1751997D0, 0x0CCAA009E), (0x163CD6124, 0), (0x1DB710641, 0x1F7011641)


def _carryless() -> bool:
    """Does the processor that kernels are compiled for multiply without carry?"""
    if config.CPU_FEATURES is not None:
        return "+pclmul" in str(config.CPU_FEATURES)
    return config.CPU_NAME is None and bool(binding.get_host_cpu_features().get("pclmul"))


CARRYLESS = _carryless()


@intrinsic
def word(_typing, data, at):  # type: ignore[no-untyped-def]
    """The eight bytes at data[at], the first one the lowest: machines of the other order are none that we run on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.bitcast(_place(context, builder, signature, arguments, 0), ir.IntType(64).as_pointer())
        value = builder.load(place)
        value.align = 1
        return value

    return types.uint64(data, types.int64), generate


@intrinsic
def copy_bytes(_typing, out, to, data, at, size):  # type: ignore[no-untyped-def]
    """out[to : to + size] = data[at : at + size]; the two must not overlap."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = _place(context, builder, signature, arguments, 0)
        source = _place(context, builder, signature, arguments, 2)
        cgutils.raw_memcpy(builder, target, source, arguments[4], 1)
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64, types.int64), generate


@intrinsic
def same_bytes(_typing, data, at, other, start, size):  # type: ignore[no-untyped-def]
    """Is data[at : at + size] == other[start : start + size]?"""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [_OCTETS, _OCTETS, ir.IntType(64)])
        compare = cgutils.get_or_insert_function(builder.module, kind, "memcmp")
        one = _place(context, builder, signature, arguments, 0)
        two = _place(context, builder, signature, arguments, 2)
        return builder.icmp_signed("==", builder.call(compare, [one, two, arguments[4]]), ir.IntType(32)(0))

    return types.boolean(data, types.int64, other, types.int64, types.int64), generate


@intrinsic
def folded_crc(_typing, data, at, size):  # type: ignore[no-untyped-def]
    """CRC-32 (IEEE 802.3) of data[at : at + size], 16 bytes at least; only where the processor is CARRYLESS."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _crc(builder, _place(context, builder, signature, arguments, 0), arguments[2])

    return types.uint64(data, types.int64, types.int64), generate


def _crc(builder: Any, place: Any, size: Any) -> Any:
    """Compute the CRC as if zeros in front padded the bytes to whole blocks of 16: they change no remainder."""

    def block(at: Any) -> Any:
        value = builder.load(builder.bitcast(builder.gep(place, [at]), _128.as_pointer()))
        value.align = 1
        return value

    def multiplied(left: Any, right: tuple[int, int], halves: int) -> Any:
        kind = ir.FunctionType(_PAIR, [_PAIR, _PAIR, _8])
        multiply = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.pclmulqdq")
        product = builder.call(multiply, [builder.bitcast(left, _PAIR), ir.Constant(_PAIR, right), _8(halves)])
        return builder.bitcast(product, _128)

    over = builder.and_(size, _64(15))
    first = builder.select(builder.icmp_unsigned("==", over, _64(0)), _64(16), over)  # bytes in the first block
    shift = builder.zext(builder.mul(builder.sub(_64(16), first), _64(8)), _128)
    ones = builder.shl(_128(0xFFFFFFFF), shift)  # the register's beginning: on the first four bytes
    bits = builder.mul(first, _64(8))
    beyond = builder.lshr(_64(0xFFFFFFFF), builder.select(builder.icmp_unsigned("<", bits, _64(32)), bits, _64(32)))
    state = cgutils.alloca_once_value(builder, builder.xor(builder.shl(block(_64(0)), shift), ones))
    rest = cgutils.alloca_once_value(builder, builder.zext(beyond, _128))
    at = cgutils.alloca_once_value(builder, first)
    head, body, end = (builder.append_basic_block(f"crc.{name}") for name in ("head", "body", "end"))
    builder.branch(head)
    builder.position_at_end(head)
    builder.cbranch(builder.icmp_signed("<", builder.load(at), size), body, end)
    builder.position_at_end(body)
    now, following = builder.load(state), builder.xor(block(builder.load(at)), builder.load(rest))
    folded = builder.xor(multiplied(now, _FOLD, 0x00), multiplied(now, _FOLD, 0x11))
    builder.store(builder.xor(folded, following), state)
    builder.store(_128(0), rest)
    builder.store(builder.add(builder.load(at), _64(16)), at)
    builder.branch(head)
    builder.position_at_end(end)
    low = _128(0xFFFFFFFF_00000000_FFFFFFFF)
    now = builder.load(state)
    now = builder.xor(builder.lshr(now, _128(64)), multiplied(now, _FOLD, 0x10))
    now = builder.xor(builder.lshr(now, _128(32)), multiplied(builder.and_(now, low), _FOLD_LAST, 0x00))
    part = builder.and_(multiplied(builder.and_(now, low), _REDUCE, 0x10), low)
    now = builder.xor(now, multiplied(part, _REDUCE, 0x00))
    crc = builder.trunc(builder.lshr(now, _128(32)), ir.IntType(32))
    return builder.zext(builder.not_(crc), _64)


def _place(context: Any, builder: Any, signature: Any, arguments: Any, number: int) -> Any:
    """The address of the element that argument `number`, an array of bytes, and the next one name."""
    array = context.make_array(signature.args[number])(context, builder, arguments[number])
    return builder.gep(array.data, [arguments[number + 1]])
