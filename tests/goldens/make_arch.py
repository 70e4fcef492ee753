"""Makes tests/goldens/arch: logits of llama.cpp on the tiny random models that tests/tests/llama_goldens.rs names.

Wants SYNTH (the synth-gguf binary) and LLAMA_BIN, the folder of shared libraries in the npm package
@node-llama-cpp/linux-x64 (llama.cpp v0.5.0). Parameter structs are passed with room to spare; the few fields that
are set lie at offsets that were read from the defaults."""
import ctypes as C, hashlib, json, os, struct, subprocess, sys, tempfile
from pathlib import Path

BIN, SYNTH = Path(os.environ["LLAMA_BIN"]), os.environ["SYNTH"]
VERSION = "v0.5.0"
OUT = Path(__file__).parent / "arch"
TOKENS = [(i * 37 + 11) % 250 for i in range(48)]
ROWS = 3  # stored, the last ones

class Params(C.Structure):
    _fields_ = [("b", C.c_ubyte * 512)]

class Batch(C.Structure):
    _fields_ = [("n_tokens", C.c_int32), ("token", C.POINTER(C.c_int32)), ("embd", C.POINTER(C.c_float)),
                ("pos", C.POINTER(C.c_int32)), ("n_seq_id", C.POINTER(C.c_int32)),
                ("seq_id", C.POINTER(C.POINTER(C.c_int32))), ("logits", C.POINTER(C.c_int8))]

C.CDLL(str(BIN / "libggml-base.so"), mode=C.RTLD_GLOBAL)
G = C.CDLL(str(BIN / f"libggml.{VERSION}.so"), mode=C.RTLD_GLOBAL)
L = C.CDLL(str(BIN / f"libllama.{VERSION}.so"), mode=C.RTLD_GLOBAL)
LOG = C.CFUNCTYPE(None, C.c_int, C.c_char_p, C.c_void_p)
quiet = LOG(lambda level, text, user: os.write(2, text) if os.environ.get("LLAMA_LOG") else None)
L.llama_log_set(quiet, None); G.ggml_log_set(quiet, None)
G.ggml_backend_load_all_from_path.argtypes = [C.c_char_p]
G.ggml_backend_load_all_from_path(str(BIN).encode())
L.llama_backend_init()
for f in ("llama_model_default_params", "llama_context_default_params"):
    getattr(L, f).restype = Params
L.llama_model_load_from_file.restype = C.c_void_p
L.llama_model_load_from_file.argtypes = [C.c_char_p, Params]
L.llama_init_from_model.restype = C.c_void_p
L.llama_init_from_model.argtypes = [C.c_void_p, Params]
L.llama_model_get_vocab.restype = C.c_void_p
L.llama_model_get_vocab.argtypes = [C.c_void_p]
L.llama_vocab_n_tokens.argtypes = [C.c_void_p]
L.llama_decode.argtypes = [C.c_void_p, Batch]
L.llama_get_logits_ith.restype = C.POINTER(C.c_float)
L.llama_get_logits_ith.argtypes = [C.c_void_p, C.c_int32]
L.llama_free.argtypes = [C.c_void_p]
L.llama_model_free.argtypes = [C.c_void_p]

def logits(path, context):
    model = L.llama_model_load_from_file(str(path).encode(), L.llama_model_default_params())
    assert model, f"{path} does not load"
    vocabulary = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    params = L.llama_context_default_params()
    b = bytearray(params.b)
    # n_ctx, n_batch, n_ubatch, two thread counts, no flash attention, f32 keys and values
    for at, value in ((0, context), (4, 512), (8, 512), (28, 1), (32, 1), (52, 0), (104, 0), (108, 0)):
        b[at:at + 4] = struct.pack("i", value)
    given = Params(); given.b[:] = list(b)
    run = L.llama_init_from_model(model, given)
    assert run
    n = len(TOKENS)
    ints = lambda values: (C.c_int32 * n)(*values)
    zero = (C.c_int32 * 1)(0)
    seq = (C.POINTER(C.c_int32) * n)(*[C.cast(zero, C.POINTER(C.c_int32))] * n)
    batch = Batch(n, ints(TOKENS), None, ints(range(n)), ints([1] * n), seq, (C.c_int8 * n)(*[1] * n))
    assert L.llama_decode(run, batch) == 0
    rows = [[L.llama_get_logits_ith(run, i)[j] for j in range(vocabulary)] for i in range(n)]
    L.llama_free(run); L.llama_model_free(model)
    return rows

def make(name, architecture, context, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        command = [SYNTH, "--shape", f"tiny-{architecture}", "--type", "f32", "--seed", "7", "--out", str(path)]
        subprocess.run(command + list(arguments), check=True, stdout=subprocess.DEVNULL)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        rows = logits(path, context)
    best, leads = [], []
    for row in rows:
        order = sorted(range(len(row)), key=lambda i: -row[i])
        best.append(order[0]); leads.append(round(row[order[0]] - row[order[1]], 6))
    OUT.mkdir(exist_ok=True)
    (OUT / f"{name}.json").write_text(json.dumps({
        "llama.cpp": VERSION, "sha256": digest, "context": context, "tokens": TOKENS,
        "first_row": len(rows) - ROWS, "best": best, "leads": leads,
        "logits": [[round(x, 6) for x in row] for row in rows[-ROWS:]]}, separators=(",", ":")) + "\n")
    print(name, min(leads))

def main(wanted):
    ARCHITECTURES = ("llama qwen2 qwen3 gemma3 qwen2vl qwen3vl gemma gemma2 phi3 smollm3 mistral3 granite ernie4_5 "
                     "olmo2 exaone4").split()
    for architecture in ARCHITECTURES:
        if not wanted or architecture in wanted:
            make(architecture, architecture, 256)
    if not wanted or "phi3-long" in wanted:
        make("phi3-long", "phi3", 1024)
    if not wanted or "exaone4-windows" in wanted:
        make("exaone4-windows", "exaone4", 256, "--layers", "64", "--window", "24")

if __name__ == "__main__":
    main(sys.argv[1:])
