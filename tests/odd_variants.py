"""Variants that nobody ships: odd masks, integer arithmetic, tables, hidden scores, sinks of several inputs; text by name."""

HEADER = "attention odd\nhead_dim 16\ndtype fp16\n"

ODD = {
    "nested choices": """
mask = (kv <= qpos if h % 2 == 0 else (kv >= qpos if b == 0 else kv // 3 == q // 3)) and not (kv == 5)
""",
    "chain": """
mask = 0 <= qpos - kv < 20 or q % 7 == 3 != kv % 7
""",
    "shifts": """
mask = (kv >> 3) <= (q >> 2) and ((1 << (kv & 15)) & 0x5a5a) != 0
""",
    "neg div": """
mask = -kv // 4 >= -q // 4 - 2
""",
    "negdivisor": """
mask = (kv - q) // -7 >= -2
""",
    "knight": """
const w = 11
let dx = abs(q % w - kv % w)
let dy = abs(q // w - kv // w)
mask = dx * dy == 2 or q == kv
""",
    "quad": """
mask = q * kv % 5 <= 2
""",
    "powers": """
let d = qpos - kv
mask = d >= 0 and d & (d - 1) == 0
""",
    "ringlog": """
let d = abs(q - kv)
mask = d <= 2 or d % max(1, 1 + h) == 0
""",
    "logsparse": """
mask = kv <= qpos and (qpos - kv) >> min(kv // 16, 31) == 0
""",
    "len based": """
mask = kv * len_q <= q * len_kv + len_q
""",
    "stretch": """
mask = kv // max(1, len_kv // 4) == q // max(1, len_q // 4)
""",
    "minmax": """
mask = kv >= max(q - 10, min(5, q)) and kv <= min(max(q, 20), q + 30)
""",
    "absabs": """
mask = abs(abs(q - kv) - 6) <= 2
""",
    "select int": """
mask = kv <= (q if h == 0 else (q + 5 if h == 1 else q // 2))
""",
    "select int2": """
let w = 3 if q % 2 == 0 else 9
mask = kv > qpos - w and kv <= qpos
""",
    "bits a head": """
input w: i32[batch, heads, len_q, (len_kv + 31) // 32]
mask = (w[b, h, q, kv // 32] >> (kv & 31)) & 1 != 0
""",
    "treeparent": """
input par: i32[batch, len_kv] in -1..len_kv - 1
mask = kv == q or par[b, min(q, len_kv - 1)] == kv
""",
    "gather2": """
input idx: i32[len_kv] in 0..len_kv - 1
learned tab: f32[heads, len_kv]
score = score + tab[h, idx[kv]] * tab[h, kv]
""",
    "multiread dist": """
learned t: f32[len_q + len_kv - 1]
score = score + t[q - kv + len_kv - 1] + 0.5 * t[len_q + len_kv - 2 - (q - kv + len_kv - 1)]
""",
    "scalar learned": """
learned t: f32
learned u: f32
score = score * exp(t) + u
sink = u * t
""",
    "sink in": """
input s: f32[kv_heads]
learned t: f32[heads, 2]
sink = s[hkv] * t[h, 0] - t[h, 1] * float(len_kv) * 0.01
mask = causal
""",
    "sink cond": """
learned t: f32[heads]
sink = t[h] if h > 0 else -inf
mask = kv < q
""",
    "sink inf only": """
sink = -inf
mask = kv < q
""",
    "negscale": """
scale -0.5
score = softcap(score, 3)
mask = causal
""",
    "inf score": """
score = score if score > -0.3 else -inf
""",
    "inf all sink": """
learned s: f32[heads]
score = -inf
sink = s[h]
""",
    "inf twice": """
score = score if kv % 2 == 0 else -inf
score = softcap(score, 5)
""",
    "inf arith": """
score = score + (0.0 if kv % 3 == 0 else -inf)
""",
    "inf min": """
score = min(score, 0.0 if kv % 3 == 0 else -inf)
""",
    "indep": """
score = -0.1 * abs(q - kv)
""",
    "indep learned": """
learned t: f32[heads, 8]
score = t[h, kv & 7] * t[h, q & 7]
mask = kv <= qpos
""",
    "indep scalar": """
learned t: f32
score = t
""",
    "let hold": """
let s0 = score
score = score * 2
let s1 = score
score = tanh(score)
score = score + s0 * s1 * 0.1
""",
    "score div": """
score = 1 / (1 + score * score)
""",
    "minmaxscore": """
score = min(score, 0.3, max(score * 0.5, -0.2))
""",
    "def none": """
def w(l, r) = (l is none or kv >= q - l) and (r is none or kv <= q + r)
mask = w(none, 3) or w(2, none) and w(1, 9)
""",
    "def tensor": """
def rd(t, i) = t[h, clamp(i, 0, 7)]
learned a: f32[heads, 8]
input c: f32[heads, 8]
score = score + rd(a, q - kv) + rd(c, kv - q) + rd(a, kv)
""",
    "sorted3": """
input ids: i32[batch, len_kv] sorted
input idq: i32[batch, len_q] sorted
mask = ids[b, kv] <= idq[b, q] and ids[b, kv] > idq[b, q] - 2
""",
    "sorted shift": """
input ids: i32[len_kv] sorted
mask = ids[min(kv + 1, len_kv - 1)] == ids[kv] or ids[max(kv - 1, 0)] != ids[kv]
""",
    "sorted div": """
input ids: i32[batch, len_kv] sorted
input idq: i32[batch, len_q]
mask = ids[b, kv] // 2 == idq[b, q] % 2
""",
    "blocktab": """
input tab: bool[heads, (len_q + 15) // 16, (len_kv + 15) // 16]
mask = tab[h, q // 16, kv // 16] and causal
""",
    "topk": """
input sel: i32[batch, kv_heads, len_q, 4]
mask = kv // 8 == sel[b, hkv, q, 0] or kv // 8 == sel[b, hkv, q, 1] or kv // 8 == sel[b, hkv, q, 2] % 3
""",
    "never first": """
mask = kv >= 128
""",
    "gap": """
mask = kv < 3 or kv > 250 or abs(q - kv) < 2
""",
    "hole": """
mask = not (64 <= kv < 200) and not (kv > q + 60)
""",
    "flip": """
mask = kv + q >= len_kv - 1
""",
    "antidiag": """
mask = q + kv == len_q - 1 or q + kv == len_q + 126
""",
    "inverse": """
mask = len_kv - 1 - kv <= len_q - 1 - q
""",
    "mod len": """
mask = (q + kv) % max(len_kv // 2, 1) < 3
""",
    "table of window": """
input w: i32[heads] in 0..len_kv
mask = kv > qpos - w[h] and kv <= qpos
""",
    "table row": """
input lo: i32[batch, len_q]
input hi: i32[batch, len_q]
mask = lo[b, q] <= kv and kv < hi[b, q]
""",
    "table key": """
input until: i32[batch, len_kv]
mask = q <= until[b, kv] and kv <= qpos
""",
    "nan untaken": """
score = log(score) if score > 0.05 else score
""",
    "log inf": """
score = score + log(float(max(qpos - kv, 0)))
""",
    "minus inf times": """
learned a: f32[heads]
score = (score if kv % 3 == 0 else -inf) + a[h]
""",
    "mixed big": """
score = score + (1e30 if kv % 7 == 0 else -1e30)
""",
    "abs zero": """
learned a: f32
score = abs(score - a)
""",
    "sink big": """
learned a: f32[heads]
sink = a[h] + 1000
mask = causal
""",
    "sink small": """
learned a: f32[heads]
sink = a[h] - 1000
mask = causal
""",
    "sink empty all": """
learned a: f32[heads]
sink = a[h]
mask = kv > q + 1000000
""",
    "learned in index value": """
input i: i32[batch, len_q] in 0..3
learned a: f32[4, heads]
score = score + a[i[b, q], h] * a[3 - i[b, q], h]
""",
    "learned swap": """
learned a: f32[len_kv, len_q]
score = score + a[kv, q]
""",
    "learned mod len": """
learned a: f32[len_kv]
score = score + a[(q + kv) % len_kv]
""",
    "learned sel index": """
learned a: f32[heads, 3]
score = score + a[h, 0 if kv < q else (1 if kv == q else 2)]
""",
    "learned bool": """
input m: bool[len_kv]
learned a: f32[2]
score = score * a[1 if m[kv] else 0]
""",
    "scalar scale learn": """
learned a: f32
input s: f32
scale s
score = score * a
sink = a * s
""",
    "softplus": """
learned a: f32[heads]
score = score - log(1 + exp(a[h])) * abs(qpos - kv) * 0.1
""",
    "float q": """
score = score + float(q) / len_q - float(kv) / len_kv
""",
    "cmp mixed": """
mask = kv < q * 1.5 + 2
""",
    "cmp floor": """
mask = floor(q * 0.5) >= kv - 3
""",
    "mask chain float": """
input g: f32[batch, len_kv]
mask = -1.0 < g[b, kv] <= q
""",
    "def shadow": """
def causal = kv <= q + 3
mask = causal
""",
    "shl var": """
mask = (1 << (kv & 7)) & (q | 1) != 0
""",
    "minmax3": """
mask = min(kv, q, 50) < max(q - 5, kv - 60, 3)
""",
}
