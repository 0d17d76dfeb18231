"""Instructions without side effects, each over the same operands: arithmetic, conversions, integers, packed halves."""

import numpy as np

from tests.emulator.silicon.operands import (
    conversion_operands,
    every_exponent,
    float_triples,
    integer_triples,
    scramble,
    words,
)
from tests.emulator.silicon.probe import Buffer, Probe, entry

MODES = ("rn", "rz", "rm", "rp")


def elementwise(name: str, section: str, operations: dict[str, str], operands: dict[str, np.ndarray], wide=False) -> Probe:
    """One launch that applies every operation to every operand tuple; results `out[operation, element]`.

    operations: label to PTX with operands $a $b $c and result $o, all 32 bits (64 if `wide`); scratch registers as in `entry`.
    """
    count, size = len(next(iter(operands.values()))), 8 if wide else 4
    bits = f"b{8 * size}"
    lines = [f".reg .{bits} %o, " + ", ".join(f"%v_{letter}" for letter in operands) + ";"]
    for letter in operands:
        lines.append(f"mad.wide.u32 %{letter}, %index, {size}, %{letter};\nld.global.{bits} %v_{letter}, [%{letter}];")
    lines.append(f"mad.wide.u32 %out, %index, {size}, %out;")
    for row, text in enumerate(operations.values()):
        for letter in operands:
            text = text.replace(f"${letter}", f"%v_{letter}")
        lines.append(f"{text.replace('$o', '%o')}\nst.global.{bits} [%out+{row * count * size}], %o;")
    dtype = np.uint64 if wide else np.uint32
    buffers = [Buffer(letter, array) for letter, array in operands.items()]
    out = Buffer("out", np.zeros((len(operations), count), dtype), kept=True)
    ptx = entry([*operands, "out"], "\n".join(lines))
    return Probe(name, section, ptx, (*buffers, out), grid=count // 128)


def predicate(instruction: str) -> str:
    return f"{instruction.replace('$p', '%q0')}\nselp.u32 $o, 1, 0, %q0;"


def short(instruction: str) -> str:
    """An instruction with a 16-bit result $h."""
    return f"{instruction.replace('$h', '%h0')}\ncvt.u32.u16 $o, %h0;"


def low(instruction: str, letter: str = "a") -> str:
    """An instruction whose operand $l is the low half of an operand."""
    return f"cvt.u16.u32 %h1, ${letter};\n{instruction.replace('$l', '%h1')}"


def arithmetic() -> list[Probe]:
    first, second, third = float_triples(1024, seed=11)
    rounded = {}
    for flush in ("", ".ftz"):
        for mode in MODES:
            rounded[f"add.{mode}{flush}"] = f"add.{mode}{flush}.f32 $o, $a, $b;"
            rounded[f"mul.{mode}{flush}"] = f"mul.{mode}{flush}.f32 $o, $a, $b;"
            rounded[f"fma.{mode}{flush}"] = f"fma.{mode}{flush}.f32 $o, $a, $b, $c;"
    other = {"sub.rn": "sub.rn.f32 $o, $a, $b;", "sub.rm.ftz": "sub.rm.ftz.f32 $o, $a, $b;"}
    for operation in ("min", "max"):
        for suffix in ("", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs"):
            other[operation + suffix] = f"{operation}{suffix}.f32 $o, $a, $b;"
    for name in ("add.sat", "add.rn.ftz.sat", "mul.sat"):
        other[name] = f"{name}.f32 $o, $a, $b;"
    other |= {"fma.rn.sat": "fma.rn.sat.f32 $o, $a, $b, $c;", "copysign": "copysign.f32 $o, $a, $b;"}
    for name in ("abs", "abs.ftz", "neg", "neg.ftz", "sqrt.rn", "sqrt.rz", "sqrt.rn.ftz", "rcp.rn", "rcp.rn.ftz"):
        other[name] = f"{name}.f32 $o, $a;"
    for name in ("div.rn", "div.rz", "div.rn.ftz", "div.full", "div.full.ftz", "div.approx", "div.approx.ftz"):
        other[name] = f"{name}.f32 $o, $a, $b;"
    compared = {}
    for test in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
        compared[test] = predicate(f"setp.{test}.f32 $p, $a, $b;")
        compared[test + ".ftz"] = predicate(f"setp.{test}.ftz.f32 $p, $a, $b;")
    for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        compared[test] = predicate(f"testp.{test}.f32 $p, $a;")
    compared["slct"] = "slct.f32.f32 $o, $a, $b, $c;"
    compared["set"] = "set.lt.u32.f32 $o, $a, $b;"
    compared["set.f32"] = "set.ge.f32.f32 $o, $a, $b;"
    operands = {"a": first, "b": second, "c": third}
    return [
        elementwise("f32_rounding", "9.7.3 floating point", rounded, operands),
        elementwise("f32_other", "9.7.3 floating point", other, operands),
        elementwise("f32_compare", "9.7.7 comparison", compared, operands),
    ]


def conversions() -> list[Probe]:
    first, second = conversion_operands(512, seed=21), conversion_operands(512, seed=22)[::-1].copy()
    narrow = {}
    for kind in ("bf16", "f16"):
        for mode in ("rn", "rz", "rn.relu", "rz.relu"):
            narrow[f"{mode}.{kind}"] = short(f"cvt.{mode}.{kind}.f32 $h, $a;")
            narrow[f"{mode}.{kind}x2"] = f"cvt.{mode}.{kind}x2.f32 $o, $a, $b;"
    for mode in ("rm", "rp", "rn.ftz"):
        narrow[f"{mode}.f16"] = short(f"cvt.{mode.replace('.ftz', '')}{'.ftz' if 'ftz' in mode else ''}.f16.f32 $h, $a;")
    for kind in ("e4m3x2", "e5m2x2"):
        for mode in ("rn.satfinite", "rn.satfinite.relu"):
            narrow[f"{mode}.{kind}"] = short(f"cvt.{mode}.{kind}.f32 $h, $a, $b;")
        narrow[f"f16x2.{kind}"] = low(f"cvt.rn.f16x2.{kind} $o, $l;")
        narrow[f"{kind}.f16x2"] = short(f"cvt.rn.satfinite.{kind}.f16x2 $h, $a;")
    for mode in ("rna", "rn", "rz"):
        narrow[f"tf32.{mode}"] = f"cvt.{mode}.tf32.f32 $o, $a;"
    narrow |= {"f32.f16": low("cvt.f32.f16 $o, $l;"), "f32.bf16": low("cvt.f32.bf16 $o, $l;")}
    narrow |= {"bf16.f16": short(low("cvt.rn.bf16.f16 $h, $l;")), "f16.bf16": short(low("cvt.rn.f16.bf16 $h, $l;"))}
    for kind in ("f16", "bf16"):
        narrow[f"s32.{kind}"] = low(f"cvt.rni.s32.{kind} $o, $l;")
        narrow[f"{kind}.s32"] = short(f"cvt.rn.{kind}.s32 $h, $a;")
    whole = {}
    for mode in ("rni", "rzi", "rmi", "rpi"):
        for kind in ("s32", "u32"):
            whole[f"{mode}.{kind}"] = f"cvt.{mode}.{kind}.f32 $o, $a;"
            whole[f"{mode}.ftz.{kind}"] = f"cvt.{mode}.ftz.{kind}.f32 $o, $a;"
        whole[f"{mode}.s16"] = short(f"cvt.{mode}.s16.f32 $h, $a;")
        whole[f"{mode}.s8"] = f"cvt.{mode}.s8.f32 $o, $a;"
        whole[f"{mode}.u8"] = f"cvt.{mode}.u8.f32 $o, $a;"
        whole[f"{mode}.f32"] = f"cvt.{mode}.f32.f32 $o, $a;"
        whole[f"{mode}.ftz.sat.f32"] = f"cvt.{mode}.ftz.sat.f32.f32 $o, $a;"
    for mode in MODES:
        whole[f"{mode}.f32.s32"] = f"cvt.{mode}.f32.s32 $o, $a;"
        whole[f"{mode}.f32.u32"] = f"cvt.{mode}.f32.u32 $o, $a;"
    for kind in ("s8", "u8", "s16", "u16"):
        whole[f"{kind}.s32.sat"] = f"cvt.sat.{kind}.s32 $o, $a;" if "8" in kind else short(f"cvt.sat.{kind}.s32 $h, $a;")
    pair = "mov.b64 %d0, {$a, $b};\n"
    for kind in ("s64", "u64"):
        whole[f"{kind}.low"] = f"cvt.rzi.{kind}.f32 %d0, $a;\nmov.b64 {{$o, _}}, %d0;"
        whole[f"{kind}.high"] = f"cvt.rni.{kind}.f32 %d0, $a;\nmov.b64 {{_, $o}}, %d0;"
        whole[f"f32.{kind}"] = pair + f"cvt.rn.f32.{kind} $o, %d0;"
    for mode in MODES:
        whole[f"{mode}.f32.f64"] = pair + f"cvt.{mode}.f32.f64 $o, %d0;"
    operands = {"a": first, "b": second}
    return [
        elementwise("cvt_narrow", "9.7.9.21 cvt", narrow, operands),
        elementwise("cvt_whole", "9.7.9.21 cvt", whole, operands),
    ]


def integers() -> list[Probe]:
    first, second, third = integer_triples(1024, seed=31)
    plain = {"add.sat.s32": "add.sat.s32 $o, $a, $b;", "sub.sat.s32": "sub.sat.s32 $o, $a, $b;"}
    for kind in ("s32", "u32"):
        for name in ("mul.lo", "mul.hi", "mul24.lo", "mul24.hi", "div", "rem", "min", "max"):
            plain[f"{name}.{kind}"] = f"{name}.{kind} $o, $a, $b;"
        for name in ("mad.lo", "mad.hi", "mad24.lo", "sad", "bfe"):
            plain[f"{name}.{kind}"] = f"{name}.{kind} $o, $a, $b, $c;"
        for name in ("bfind", "bfind.shiftamt"):
            plain[f"{name}.{kind}"] = f"{name}.{kind} $o, $a;"
        plain[f"shr.{kind}"] = f"shr.{kind} $o, $a, $b;"
        plain[f"wide.high.{kind}"] = f"mul.wide.{kind} %d0, $a, $b;\nmov.b64 {{_, $o}}, %d0;"
        plain[f"mad.wide.high.{kind}"] = f"cvt.s64.s32 %d1, $c;\nmad.wide.{kind} %d0, $a, $b, %d1;\nmov.b64 {{_, $o}}, %d0;"
        plain[f"dp4a.{kind}"] = f"dp4a.{kind}.{kind} $o, $a, $b, $c;"
        plain[f"dp2a.{kind}"] = f"dp2a.lo.{kind}.{kind} $o, $a, $b, $c;"
        plain[f"bmsk.{kind}"] = "bmsk.clamp.b32 $o, $a, $b;" if kind == "s32" else "bmsk.wrap.b32 $o, $a, $b;"
        plain[f"szext.{kind}"] = f"szext.clamp.{kind} $o, $a, $b;"
    for name in ("abs.s32", "neg.s32", "popc.b32", "clz.b32", "brev.b32", "not.b32", "cnot.b32"):
        plain[name] = f"{name} $o, $a;"
    plain |= {"shl": "shl.b32 $o, $a, $b;", "bfi": "bfi.b32 $o, $a, $b, $c, %thread;", "fns": "fns.b32 $o, $a, 3, 1;"}
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        plain["prmt" + mode] = f"prmt.b32{mode} $o, $a, $c, $b;"
    for table in (0x96, 0xE8, 0xCA, 0x1B, 0x80):
        plain[f"lop3.{table:x}"] = f"lop3.b32 $o, $a, $b, $c, {table};"
    for side in "lr":
        for mode in ("wrap", "clamp"):
            plain[f"shf.{side}.{mode}"] = f"shf.{side}.{mode}.b32 $o, $a, $c, $b;"
    plain["carry"] = "add.cc.u32 %r1, $a, $b;\naddc.u32 $o, $c, 0;"
    plain["borrow"] = "sub.cc.u32 %r1, $a, $b;\nsubc.u32 $o, $c, 0;"
    plain["shl.b16"] = short("cvt.u16.u32 %h1, $a;\nshl.b16 $h, %h1, $b;")
    plain["shr.s16"] = short("cvt.u16.u32 %h1, $a;\nshr.s16 $h, %h1, $b;")
    plain["slct"] = "slct.u32.s32 $o, $a, $b, $c;"
    first64 = scramble(41, 512) >> (scramble(42, 512) % np.uint64(64))
    second64 = scramble(43, 512) >> (scramble(44, 512) % np.uint64(64))
    edges = np.array([0, 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**63 - 1, 2**64 - 1], np.uint64)
    first64[:64], second64[:64] = np.repeat(edges, 8), np.tile(edges, 8)
    wide = {}
    for kind in ("s64", "u64"):
        for name in ("mul.lo", "mul.hi", "div", "rem", "min", "max"):
            wide[f"{name}.{kind}"] = f"{name}.{kind} $o, $a, $b;"
        wide[f"shr.{kind}"] = f"cvt.u32.u64 %r1, $b;\nshr.{kind} $o, $a, %r1;"
        wide[f"bfe.{kind}"] = f"cvt.u32.u64 %r1, $b;\nbfe.{kind} $o, $a, %r1, %thread;"
        wide[f"bfind.{kind}"] = f"bfind.{kind} %r1, $a;\ncvt.u64.u32 $o, %r1;"
    wide["shl"] = "cvt.u32.u64 %r1, $b;\nshl.b64 $o, $a, %r1;"
    wide["popc"] = "popc.b64 %r1, $a;\ncvt.u64.u32 $o, %r1;"
    wide["clz"] = "clz.b64 %r1, $a;\ncvt.u64.u32 $o, %r1;"
    wide |= {"brev": "brev.b64 $o, $a;", "abs": "abs.s64 $o, $a;", "not": "not.b64 $o, $a;"}
    return [
        elementwise("int32", "9.7.1 integer, 9.7.8 logic and shift", plain, {"a": first, "b": second, "c": third}),
        elementwise("int64", "9.7.1 integer, 9.7.8 logic and shift", wide, {"a": first64, "b": second64}, wide=True),
    ]


def halves() -> list[Probe]:
    """Packed pairs: half of the operands are any bits, half have exponents near one in both formats' fields."""
    operands = {}
    for letter, seed in (("a", 51), ("b", 52), ("c", 53)):
        bits = words(seed, 512)
        near = (bits & np.uint32(0x87FF87FF)) | np.uint32(0x38003800)
        operands[letter] = np.where(np.arange(512) % 2 == 0, bits, near).astype(np.uint32)
    table = {}
    for kind in ("f16x2", "bf16x2"):
        for name in ("add.rn", "sub.rn", "mul.rn"):
            table[f"{name}.{kind}"] = f"{name}.{kind} $o, $a, $b;"
        for name in ("fma.rn", "fma.rn.relu"):
            table[f"{name}.{kind}"] = f"{name}.{kind} $o, $a, $b, $c;"
        for name in ("min", "max", "min.NaN", "max.NaN"):
            table[f"{name}.{kind}"] = f"{name}.{kind} $o, $a, $b;"
        for name in ("abs", "neg", "tanh.approx"):
            table[f"{name}.{kind}"] = f"{name}.{kind} $o, $a;"
    table |= {"ex2.f16x2": "ex2.approx.f16x2 $o, $a;", "ex2.bf16x2": "ex2.approx.ftz.bf16x2 $o, $a;"}
    table |= {"fma.ftz.f16x2": "fma.rn.ftz.f16x2 $o, $a, $b, $c;", "fma.sat.f16x2": "fma.rn.sat.f16x2 $o, $a, $b, $c;"}
    return [elementwise("halves", "9.7.4 half precision", table, operands)]


def approximations() -> list[Probe]:
    """Each approximate function over every exponent field; `sweeps.py` holds the mantissas."""
    table = {}
    for name in ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos"):
        for flush in ("", ".ftz"):
            table[name + flush] = f"{name}.approx{flush}.f32 $o, $a;"
    table["tanh"] = "tanh.approx.f32 $o, $a;"
    return [elementwise("approximate", "9.7.3 ex2, lg2, rcp, rsqrt, sqrt, tanh", table, {"a": every_exponent(8, seed=61)})]


def probes() -> list[Probe]:
    return arithmetic() + conversions() + integers() + halves() + approximations()
