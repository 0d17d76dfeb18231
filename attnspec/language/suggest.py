"""What a person may have meant by a name that is not there."""

from collections.abc import Iterable
from difflib import get_close_matches

# Words of other systems, and Python's spelling of ours.
OTHER_WORDS = {
    "query": "q",
    "q_idx": "q",
    "q_pos": "qpos",
    "query_pos": "qpos",
    "row": "q",
    "key": "kv",
    "k": "kv",
    "k_idx": "kv",
    "kv_idx": "kv",
    "kpos": "kv",
    "kvpos": "kv",
    "col": "kv",
    "batch_idx": "b",
    "head": "h",
    "head_idx": "h",
    "kv_head": "hkv",
    "h_kv": "hkv",
    "seqlen_q": "len_q",
    "q_len": "len_q",
    "seqlen_k": "len_kv",
    "seqlen_kv": "len_kv",
    "len_k": "len_kv",
    "kv_len": "len_kv",
    "num_heads": "heads",
    "nheads": "heads",
    "num_kv_heads": "kv_heads",
    "batch_size": "batch",
    "None": "none",
    "True": "true",
    "False": "false",
    "infinity": "inf",
    "Inf": "inf",
    "softmax_scale": "scale",
    "sm_scale": "scale",
    "logit": "score",
    "s": "score",
    "minimum": "min",
    "maximum": "max",
    "fabs": "abs",
    "ln": "log",
    "sqr": "sqrt",
    "clip": "clamp",
    "select": "where",
    "int": "floor",
    "cast": "float",
    "float32": "f32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "int32": "i32",
    "boolean": "bool",
}


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that was most likely meant, or None."""
    choices = list(known)
    other = OTHER_WORDS.get(word)
    if other in choices:
        return other
    lower = {name.lower(): name for name in choices}
    found = get_close_matches(word.lower(), lower, n=1, cutoff=0.7)
    return lower[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A help line, or nothing."""
    found = nearest(word, known)
    return f"did you mean `{found}`?" if found else ""
