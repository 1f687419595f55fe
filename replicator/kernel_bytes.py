"""What kernels do with many bytes at once: pieces of machine code that numba's own language has no words for.

Bounds are the caller's business.  Numba does not notice a change of this file; `make kernels` does, and deletes the cached kernels.
"""

# ruff: noqa: ANN001, ANN201, ARG001 - what is named in the arguments' types is what is compiled
from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_OCTETS = ir.IntType(8).as_pointer()


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


def _place(context: Any, builder: Any, signature: Any, arguments: Any, number: int) -> Any:
    """The address of the element that argument `number`, an array of bytes, and the next one name."""
    array = context.make_array(signature.args[number])(context, builder, arguments[number])
    return builder.gep(array.data, [arguments[number + 1]])
